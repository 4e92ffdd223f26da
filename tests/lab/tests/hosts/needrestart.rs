//! needrestart and unattended-upgrades, with the files that the package has for them: S51.

use crate::common::{SOON, agent, deb, etcd_pid};
use etcd_agent_lab::{Host, Lab, wait_until};

const CONF: &str = "/etc/needrestart/conf.d/etcd-agent.conf";

/// needrestart reports an etcd whose binary or library was replaced, and restarts it only without our file. A
/// host that an update requires to reboot takes the reboot lock, and releases it once it is back.
#[test]
fn s51_needrestart_leaves_etcd_to_the_agents_and_reboots_wait_for_the_lock() {
    let lab = Lab::builder("needrestart").hosts(3).etcd_of_debian();
    let lab = lab.needrestart().boot().unwrap();
    lab.install(&deb()).unwrap();
    lab.form().unwrap();
    let [n1, n2] = [1, 2].map(|number| lab.host(number).unwrap());
    // The only library that Debian's etcd maps.
    it_defers_etcd(n1, "$(realpath /lib/*-linux-gnu/libc.so.6)");
    without_the_file_it_restarts_etcd(n1);
    lab.wait_healthy(3, SOON).unwrap();
    it_defers_etcd(n1, "/usr/bin/etcd");
    a_host_reboots_under_the_lock(&lab, n2, n1);
    lab.passed();
}

/// A new file with the same content, as a package installs it.
fn replace(host: &Host, path: &str) {
    let script = format!("cp -a {path} {path}.new && mv {path}.new {path}");
    host.sh(&script).unwrap().ok().unwrap();
}

/// The output of needrestart.
fn needrestart(host: &Host, args: &str) -> String {
    let script = format!("DEBIAN_FRONTEND=noninteractive needrestart -l {args} 2>&1");
    let said = host.sh(&script).unwrap();
    said.ok().unwrap().stdout
}

/// It reports etcd once the file at `path` was replaced, and leaves it as it is.
fn it_defers_etcd(host: &Host, path: &str) {
    const REPORTED: &str = "NEEDRESTART-SVC: etcd.service";
    let pid = etcd_pid(host);
    let before = needrestart(host, "-b");
    assert!(!before.contains(REPORTED), "{before}");
    replace(host, path);
    let after = needrestart(host, "-b");
    assert!(after.contains(REPORTED), "{path}: {after}");
    let said = needrestart(host, "-r a");
    let halves = said.split_once("deferred");
    let (restarted, deferred) = halves.unwrap_or_else(|| panic!("{path}: {said}"));
    assert!(deferred.contains("etcd.service"), "{path}: {said}");
    assert!(!restarted.contains("etcd.service"), "{path}: {said}");
    assert_eq!(etcd_pid(host), pid, "etcd was restarted");
}

fn without_the_file_it_restarts_etcd(host: &Host) {
    let pid = etcd_pid(host);
    host.sh(&format!("mv {CONF} {CONF}.away")).unwrap().ok().unwrap();
    needrestart(host, "-r a");
    wait_until("another etcd", SOON, || {
        Ok(host.main_pid("etcd")?.is_some_and(|now| now != pid))
    })
    .unwrap();
    host.sh(&format!("mv {CONF}.away {CONF}")).unwrap().ok().unwrap();
}

/// The units of the examples, as they are. Only the host's reboot is done by the lab: its hosts power off.
fn a_host_reboots_under_the_lock(lab: &Lab, host: &Host, other: &Host) {
    let install = "cp /usr/share/doc/etcd-agent/examples/unattended-upgrades/52etcd-agent /etc/apt/apt.conf.d/ &&
        cp /usr/share/doc/etcd-agent/examples/unattended-upgrades/*.service \
            /usr/share/doc/etcd-agent/examples/unattended-upgrades/*.timer /etc/systemd/system/ &&
        mkdir -p /etc/systemd/system/etcd-agent-reboot.service.d &&
        printf '[Service]\\nExecStart=\\nExecStart=%s\\nExecStart=%s\\nExecStart=%s\\n' \
            '/usr/bin/etcd-agent reboot-lock acquire --timeout 2h' \
            '/usr/bin/touch /var/lib/etcd-agent-reboot/pending' '/usr/bin/systemctl poweroff' \
            >/etc/systemd/system/etcd-agent-reboot.service.d/lab.conf &&
        systemd-analyze verify /etc/systemd/system/etcd-agent-reboot*.service /etc/systemd/system/*reboot.timer &&
        systemctl daemon-reload &&
        systemctl enable --now etcd-agent-reboot.timer && systemctl enable etcd-agent-reboot-done.service &&
        apt-config dump Unattended-Upgrade::Automatic-Reboot";
    let said = host.sh(install).unwrap().ok().unwrap();
    assert!(
        said.stdout
            .contains("Unattended-Upgrade::Automatic-Reboot \"false\""),
        "{}",
        said.stdout
    );
    let reboot = |what: &str| {
        let command = ["start", "--no-block", "etcd-agent-reboot.service"];
        host.systemctl(&command).unwrap().ok().unwrap();
        eprintln!("{what}");
    };
    host.systemctl(&["start", "etcd-agent-reboot.service"])
        .unwrap()
        .ok()
        .unwrap();
    assert!(
        lock(other).is_empty(),
        "without /run/reboot-required nothing is done"
    );

    agent(other, &["reboot-lock", "acquire", "--timeout", "1m"])
        .ok()
        .unwrap();
    host.sh("touch /run/reboot-required").unwrap().ok().unwrap();
    reboot("it waits for the lock");
    let waits = || Ok(host.unit_property("etcd-agent-reboot.service", "ActiveState")? == "activating");
    wait_until("the reboot to wait for the lock", SOON, waits).unwrap();
    agent(other, &["reboot-lock", "release"]).ok().unwrap();
    wait_until("the host to be off", SOON, || Ok(!host.is_on())).unwrap();
    assert!(lock(other).contains("held by n2"), "{}", lock(other));
    host.boot().unwrap();
    wait_until("the lock to be released", SOON, || Ok(lock(other).is_empty())).unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    wait_until("the mark to be removed", SOON, || {
        Ok(host.sh("test -e /var/lib/etcd-agent-reboot/pending")?.code != 0)
    })
    .unwrap();
}

/// What `etcd-agent status` says of the lock; empty if nobody holds it.
fn lock(host: &Host) -> String {
    let shown = agent(host, &["status"]).stdout;
    let lock = shown.split_once("Reboot lock:");
    lock.map(|(_, lock)| lock.to_owned()).unwrap_or_default()
}

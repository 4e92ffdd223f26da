//! The RPM, on hosts that are shaped like Fedora and EL.

use std::path::Path;
use std::time::Duration;

use crate::common::{
    SOON, agent, archived, assert_value, deb, etcd_environ, etcd_pid, etcd_pids, put, wait_status,
};
use crate::package::{
    BROKEN, CONFIG, an_upgrade_refuses_the_configuration, keeps, the_agent_has_stopped_with_the_reason,
    the_empty_etcd_is_archived,
};
use crate::stops::refuses;
use etcd_agent_lab::{Host, Lab, Manager, Output, agent_rpm, system_rpm, wait_until};

/// What etcd's package for Fedora says.
const DATA: &str = "/var/lib/etcd/default.etcd";

fn run(host: &Host, script: &str) -> Output {
    let output = host.exec_for(Duration::from_mins(3), &["sh", "-ec", script]);
    output.unwrap().ok().unwrap()
}

/// Adds packages to the repository on a host's disk.
fn publish(host: &Host, packages: &[&Path]) {
    for package in packages {
        let name = package.file_name().unwrap().to_string_lossy();
        host.push(package, &format!("/root/repository/{name}")).unwrap();
    }
    let repository = "[lab]\nname=lab\nbaseurl=file:///root/repository\ngpgcheck=0\nmetadata_expire=1\n";
    host.write_file("/etc/yum.repos.d/lab.repo", repository, "0644", "root:root")
        .unwrap();
    run(host, "createrepo_c -q /root/repository");
}

/// Runs dnf in root's home. Its exit code is 0.
fn dnf(host: &Host, words: &str) {
    run(host, &format!("cd /root; dnf -y -q --releasever=1 {words}"));
}

/// Installs or upgrades the agent with a package that is only a file, as docs/packages.md says.
fn install_file(host: &Host, package: &Path) {
    let name = package.file_name().unwrap().to_string_lossy();
    host.push(package, &format!("/root/{name}")).unwrap();
    dnf(host, &format!("install ./{name}"));
}

fn has_started_with(host: &Host, settings: &[(&str, &str)]) {
    let environ = etcd_environ(host);
    for (key, value) in settings {
        assert_eq!(environ.get(*key).map(String::as_str), Some(*value), "{key}");
    }
}

fn release(host: &Host) -> String {
    run(host, "rpm -q --qf '%{RELEASE}' etcd-agent").text().to_owned()
}

#[test]
fn the_rpm_forms_heals_and_upgrades_and_etcd_runs_on() {
    let lab = Lab::builder("rpm")
        .hosts(3)
        .managed_by(Manager::Dnf)
        .boot()
        .unwrap();
    let first = agent_rpm(&deb(), &lab.dir(), 1).unwrap();
    let second = agent_rpm(&deb(), &lab.dir(), 2).unwrap();
    let system = system_rpm(&first, &lab.dir()).unwrap();
    lab.each(|host| {
        publish(host, &[&first, &system]);
        dnf(host, "install lab-system");
        dnf(host, "install etcd-agent");
        // Fedora's presets enable no such service.
        assert_eq!(host.unit_property("etcd-agent", "UnitFileState")?, "disabled");
        host.systemctl(&["enable", "etcd-agent"])?.ok().map(drop)
    })
    .unwrap();
    lab.form().unwrap();
    put(&lab, "hello", "world");
    let [n1, n2] = [1, 2].map(|number| lab.host(number).unwrap());
    has_started_with(n1, &[("ETCD_DATA_DIR", DATA)]);
    run(
        n1,
        &format!("test -e {DATA}/member && test ! -e /var/lib/etcd/default/member"),
    );

    n2.kill().unwrap();
    n2.wipe(DATA).unwrap();
    n2.boot().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    assert_value(&lab, n2, "hello", "world");

    let pids = etcd_pids(lab.hosts());
    lab.each(|host| {
        let old = host.main_pid("etcd-agent")?;
        publish(host, &[&second]);
        dnf(host, "upgrade etcd-agent");
        assert_eq!(release(host), "2");
        wait_until("another agent", SOON, || {
            let now = host.main_pid("etcd-agent")?;
            Ok(now.is_some() && now != old)
        })?;
        wait_status(host, 0);
        // All files as they were packaged: modes, owners and sums.
        assert_eq!(run(host, "rpm -V etcd-agent").text(), "");
        assert_eq!(host.unit_property("etcd", "NeedDaemonReload")?, "no");
        Ok(())
    })
    .unwrap();
    assert_eq!(etcd_pids(lab.hosts()), pids, "after the upgrade");

    dnf(n1, "remove etcd-agent");
    assert_ne!(agent(n1, &["--version"]).code, 0, "the agent is gone");
    assert_eq!(n1.unit_property("etcd-agent", "LoadState").unwrap(), "not-found");
    assert_eq!(etcd_pids(lab.hosts()), pids, "after the removal");
    put(&lab, "hello", "still");
    assert_value(&lab, n1, "hello", "still");
    lab.passed();
}

/// EL has no package of etcd: one from elsewhere runs before the agent comes, here with Fedora's unit.
#[test]
fn el_a_newcomer_discards_an_empty_etcd_or_keeps_the_one_that_runs() {
    let lab = Lab::builder("rpm-newcomer")
        .plain()
        .managed_by(Manager::Dnf)
        .boot()
        .unwrap();
    let n1 = lab.host(1).unwrap();
    let [first, second] = [1, 2].map(|release| agent_rpm(&deb(), &lab.dir(), release).unwrap());
    publish(n1, &[&system_rpm(&first, &lab.dir()).unwrap()]);
    dnf(n1, "install lab-system");
    n1.systemctl(&["enable", "--now", "etcd"]).unwrap().ok().unwrap();
    let pid = etcd_pid(n1);
    run(
        n1,
        &format!("test -e {DATA}/member && test ! -e /var/lib/etcd/default/member"),
    );

    // The package starts nothing, whatever the configuration says.
    n1.write_file(CONFIG, BROKEN, "0644", "root:root").unwrap();
    install_file(n1, &first);
    let agents = |property: &str| n1.unit_property("etcd-agent", property).unwrap();
    let after = (agents("UnitFileState"), agents("ActiveState"));
    assert_eq!(after, ("disabled".to_owned(), "inactive".to_owned()));
    let started = n1.systemctl(&["start", "etcd-agent"]).unwrap();
    assert!(!started.success(), "{}", started.stderr);
    the_agent_has_stopped_with_the_reason(n1);
    assert_eq!(etcd_pid(n1), pid, "over a broken configuration");
    run(n1, &format!("rm {CONFIG}"));

    the_empty_etcd_is_archived(n1, DATA);
    n1.systemctl(&["start", "etcd"]).unwrap().ok().unwrap();
    run(n1, "etcdctl put hello world");
    keeps(n1, "keys were written (revision 2)");

    let pid = etcd_pid(n1);
    agent(n1, &["init"]).ok().unwrap();
    assert_eq!(etcd_pid(n1), pid, "taken over without a restart");
    assert_eq!(agents("UnitFileState"), "enabled");
    wait_status(n1, 0);
    // Until its next start the member has the name and the address of the distribution's file. It is this node's.
    has_started_with(n1, &[("ETCD_NAME", "default"), ("ETCD_DATA_DIR", DATA)]);
    refuses(n1, "n1", "n1 has the only voter");

    an_upgrade_refuses_the_configuration(n1, || {
        install_file(n1, &second);
        n1.wait_unit("etcd-agent", "failed", SOON).unwrap();
    });
    assert_eq!(release(n1), "2");
    has_started_with(n1, &[("ETCD_NAME", "n1"), ("ETCD_DATA_DIR", DATA)]);
    let value = run(n1, "etcdctl get hello --print-value-only");
    assert_eq!(value.text(), "world");
    assert_eq!(archived(n1).len(), 1, "only the empty etcd");
    lab.passed();
}

//! The RPM, on hosts that are shaped like Fedora and EL.

use std::path::Path;
use std::time::Duration;

use crate::common::{SOON, agent, assert_value, deb, etcd_environ, etcd_pids, put, wait_status};
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

fn dnf(host: &Host, words: &str) {
    run(host, &format!("dnf -y -q --releasever=1 {words}"));
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
    assert_eq!(
        etcd_environ(n1).get("ETCD_DATA_DIR").map(String::as_str),
        Some(DATA)
    );
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
        assert_eq!(run(host, "rpm -q --qf '%{RELEASE}' etcd-agent").text(), "2");
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

//! `puppet apply` with the module of `packaging/puppet` sets up three hosts, as
//! docs/configuration-management.md says.

use std::path::Path;
use std::time::Duration;

use etcd_agent_lab::{Cmd, Host, Lab, Manager, Output, S3};

use crate::common::{agent, deb, etcd_pids, healthy};
use crate::managed::{
    assert_secret, assert_set_up, command, example, hosts, replaced, shown, sources, traces,
};
use crate::package::{next_version, version};

const MANIFEST: &str = "/root/site.pp";
const MODULES: &str = "/etc/puppet/code/modules";

/// Runs one of the page's commands on a host.
fn puppet(host: &Host, command: &str) -> Output {
    let script = format!("cd /root; {command} --detailed-exitcodes --color=false 2>&1");
    host.exec_for(Duration::from_mins(5), &["sh", "-c", &script])
        .unwrap()
}

/// The same on all hosts concurrently. Each has to exit with this code: 0 for nothing to do, 2 for changes.
/// Returns all output.
fn everywhere(lab: &Lab, command: &str, code: i32) -> String {
    let output = std::sync::Mutex::new(String::new());
    lab.each(|host| {
        let done = puppet(host, command);
        anyhow::ensure!(done.code == code, "exit code {}:\n{}", done.code, done.stdout);
        output.lock().unwrap().push_str(&done.stdout);
        Ok(())
    })
    .unwrap();
    output.into_inner().unwrap()
}

fn write_manifest(lab: &Lab, manifest: &str) {
    lab.each(|host| host.write_file(MANIFEST, manifest, "0600", "root:root"))
        .unwrap();
}

fn copy(from: &Path, host: &Host, to: &str) {
    let to = host.disk().join(to.trim_start_matches('/'));
    Cmd::new("cp").arg("-r").arg(from).arg(to).ok().unwrap();
}

/// What the example of the page needs on each host.
fn prepare(lab: &Lab, dir: &Path) -> String {
    for host in lab.hosts() {
        host.sh(&format!("mkdir -p {MODULES}")).unwrap().ok().unwrap();
        copy(&sources().join("packaging/puppet/etcd_agent"), host, MODULES);
        copy(&dir.join("pki"), host, "/root");
        copy(&dir.join("etcd-agent.deb"), host, "/root");
    }
    let manifest = example(lab, "puppet\n", "class { 'etcd_agent':");
    let region = format!("'region' => '{}',", S3::REGION);
    let server = format!(
        "{region} 'endpoint' => '{}', 'path_style' => true,",
        lab.s3().endpoint()
    );
    replaced(&manifest, &region, &server)
}

#[test]
fn puppet_sets_up_three_hosts_and_changes_them() {
    let (lab, dir) = hosts("puppet", Manager::Puppet);
    let manifest = prepare(&lab, &dir);
    write_manifest(&lab, &manifest);
    let (noop, apply) = (command("puppet apply --noop"), command("puppet apply site.pp"));
    let distributions = etcd_pids(lab.hosts());

    let predicted = everywhere(&lab, &noop, 0);
    assert!(
        predicted.contains("Package[etcd-agent]/ensure: created (noop)"),
        "{predicted}"
    );
    for host in lab.hosts() {
        assert!(
            !host.disk().join("usr/bin/etcd-agent").exists(),
            "--noop installed it"
        );
    }
    assert_eq!(etcd_pids(lab.hosts()), distributions);

    let made = everywhere(&lab, &format!("{apply} --show_diff"), 2);
    assert_set_up(&lab);
    assert_secret(&dir, &format!("{predicted}{made}"));
    let before = traces(&lab);
    everywhere(&lab, &apply, 0);
    assert_eq!(traces(&lab), before, "the second run changed something");

    let manifest = replaced(&manifest, "'interval'  => '30m'", "'interval'  => '20m'");
    a_change_is_predicted_and_made(&lab, &manifest, &noop, &apply);
    a_file_that_is_there_is_put_in_force(&lab, &apply);
    bad_values_change_nothing(&lab, &manifest, &apply);
    the_package_is_upgraded(&lab, &manifest, &apply);
    lab.passed();
}

fn a_change_is_predicted_and_made(lab: &Lab, manifest: &str, noop: &str, apply: &str) {
    write_manifest(lab, manifest);
    let before = traces(lab);
    let predicted = everywhere(lab, noop, 0);
    assert_eq!(predicted.matches("+interval = \"20m\"").count(), 3, "{predicted}");
    assert_eq!(traces(lab), before, "--noop changed something");
    let pids = etcd_pids(lab.hosts());
    everywhere(lab, apply, 2);
    for host in lab.hosts() {
        assert_eq!(shown(host, "backup.interval"), "\"20m\"");
    }
    healthy(lab);
    assert_eq!(etcd_pids(lab.hosts()), pids);
}

/// An earlier run has written the file and failed before the reload.
fn a_file_that_is_there_is_put_in_force(lab: &Lab, apply: &str) {
    for host in lab.hosts() {
        host.sh("mkdir -p /etc/etcd-agent/config.d && touch /etc/etcd-agent/config.d/50-new.toml")
            .unwrap()
            .ok()
            .unwrap();
        assert_eq!(agent(host, &["config", "is-loaded"]).code, 1);
    }
    everywhere(lab, apply, 2);
    for host in lab.hosts() {
        agent(host, &["config", "is-loaded"]).ok().unwrap();
    }
    everywhere(lab, apply, 0);
}

/// A bad value next to a new key of TLS: neither is written, and the agent is not reloaded.
fn bad_values_change_nothing(lab: &Lab, manifest: &str, apply: &str) {
    let other_key = replaced(manifest, "${node}-agent.key\"", "${node}-client.key\"");
    let n1 = lab.host(1).unwrap();
    let before = traces(lab);
    for (old, new, code, says) in [
        (
            "'name'  => 'prod'",
            "'nmae' => 'prod'",
            4,
            "cluster.nmae: no such key",
        ),
        (
            "'daily' => 14",
            "'daily' => 'two weeks'",
            4,
            "backup.retention.daily: ",
        ),
        (
            "'daily' => 14",
            "'daily' => undef",
            1,
            "backup.retention.daily: null cannot be written as TOML",
        ),
        (
            "package_source ",
            "pakage_source ",
            1,
            "no parameter named 'pakage_source'",
        ),
    ] {
        write_manifest(lab, &replaced(&other_key, old, new));
        let failed = puppet(n1, apply);
        assert_eq!(failed.code, code, "{says}: {}", failed.stdout);
        assert!(failed.stdout.contains(says), "{says}: {}", failed.stdout);
        assert_eq!(traces(lab), before, "{says}: something was changed");
    }
    healthy(lab);
}

fn the_package_is_upgraded(lab: &Lab, manifest: &str, apply: &str) {
    let file = next_version(&deb(), &lab.dir());
    let n1 = lab.host(1).unwrap();
    let (next, pids) = (format!("{}+next1", version(n1)), etcd_pids(lab.hosts()));
    let upgraded = format!("  package_ensure => '{next}',\n  config ");
    write_manifest(lab, &replaced(manifest, "  config ", &upgraded));
    lab.hosts()
        .iter()
        .for_each(|host| copy(&file, host, "/root/etcd-agent.deb"));
    everywhere(lab, apply, 2);
    for host in lab.hosts() {
        assert_eq!(version(host), next);
    }
    healthy(lab);
    assert_eq!(
        etcd_pids(lab.hosts()),
        pids,
        "an upgrade of the agent restarted etcd"
    );
}

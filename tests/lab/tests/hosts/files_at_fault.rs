//! Certificate files with which etcd cannot work: found before it is restarted with them. Called by a test that has
//! three members over TLS.

use std::time::Duration;

use crate::common::{
    SOON, agent, archived, etcd_pid, etcd_pids, holds_for, kill_etcd, member_ids, others, reason_now, status,
};
use crate::reboots::gets_no_lock;
use crate::stops::ok_to_stop;
use etcd_agent_lab::{Host, Lab, wait_until};

/// The tables of the files, in a file of their own.
pub(crate) const TABLES: &str = "/etc/etcd-agent/config.d/50-etcd-tls.toml";
const DIR: &str = "/etc/etcd/tls";

fn sh(host: &Host, script: &str) {
    host.sh(script).unwrap().ok().unwrap();
}

/// Reloads the agent once it runs: a killer may just have killed it.
pub(crate) fn reload(host: &Host) {
    wait_until("the agent to reload", SOON, || {
        host.systemctl(&["reload", "etcd-agent"])?.ok()?;
        Ok(true)
    })
    .unwrap();
}

/// Waits until the agent names this file and this fault.
fn wait_found(host: &Host, file: &str, fault: &str) {
    wait_until(&format!("the fault of {file}"), SOON, || {
        let found = reason_now(host, "tls-files-unusable")?.unwrap_or_default();
        Ok(found.contains(&format!("{DIR}/{file}")) && found.contains(fault))
    })
    .unwrap();
}

fn wait_good(host: &Host) {
    wait_until("the files to be good", SOON, || {
        let reasons = status(host)?["decision"]["reasons"].to_string();
        Ok(!reasons.contains("tls-files-unusable"))
    })
    .unwrap();
}

pub(crate) fn a_member_is_not_restarted_into_files_that_do_not_work(lab: &Lab, tables: &str) {
    let n1 = lab.host(1).unwrap();
    sh(n1, &format!("cp -a {DIR} /root/tls"));
    let good = |file: &str| sh(n1, &format!("cp -a /root/tls/{file} {DIR}/{file}"));
    let before = etcd_pids(lab.hosts());

    // Faults of files under the same path.
    sh(n1, &format!("head -c 200 /dev/urandom > {DIR}/ca.crt"));
    wait_found(n1, "ca.crt", "cannot use the certificate");
    good("ca.crt");
    wait_good(n1);
    sh(n1, &format!("chmod 0600 {DIR}/node.key"));
    wait_found(n1, "node.key", "etcd's user may not read it");

    // An operator's order waits, and is carried out once the file is good.
    let late = agent(n1, &["restart", "n1", "--timeout", "10s"]);
    assert_ne!(late.code, 0, "{}", late.stdout);
    holds_for("no etcd to be restarted", Duration::from_secs(3), || {
        etcd_pids(lab.hosts()) == before
    });
    let checked = agent(n1, &["status"]).stdout;
    assert!(checked.contains("tls-files-unusable"), "{checked}");
    good("node.key");
    wait_until("the ordered restart", SOON, || {
        Ok(before.get("n1") != Some(&etcd_pid(n1)))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();

    an_expired_certificate_is_named(lab, n1);

    // Another path. A crash brings etcd back with the files of before.
    let before = etcd_pids(lab.hosts());
    let moved = tables.replace(&format!("{DIR}/node.key"), &format!("{DIR}/next.key"));
    assert_ne!(moved, tables);
    n1.write_file(TABLES, moved.as_bytes(), "0644", "root:root")
        .unwrap();
    let check = agent(n1, &["config", "check"]).ok().unwrap();
    assert!(
        check.stderr.contains("next.key: it is not there"),
        "{}",
        check.stderr
    );
    reload(n1);
    wait_found(n1, "next.key", "it is not there");
    holds_for("no etcd to be restarted", Duration::from_secs(3), || {
        etcd_pids(lab.hosts()) == before
    });
    let crashed = kill_etcd(n1);
    wait_until("etcd to come back", SOON, || {
        let pid = etcd_pid(n1);
        Ok(pid != 0 && pid != crashed)
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    let pid = etcd_pid(n1);
    sh(n1, &format!("cp -a {DIR}/node.key {DIR}/next.key"));
    wait_until("the restart with the other file", SOON, || {
        let now = etcd_pid(n1);
        let environ = n1
            .sh("tr '\\0' '\\n' < /proc/$(systemctl show -P MainPID etcd)/environ")?
            .stdout;
        Ok(now != 0 && now != pid && environ.contains("ETCD_KEY_FILE=/etc/etcd/tls/next.key"))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    wait_good(n1);
    nobody_has_leave_to_stop_it(lab);
}

/// C11: an etcd that starts with an expired certificate runs, and no other member talks to it. Once the files are
/// good it comes back by itself.
fn an_expired_certificate_is_named(lab: &Lab, victim: &Host) {
    let others = others(lab, victim);
    let other = *others.first().unwrap();
    let (members, kept) = (member_ids(lab, other).unwrap(), archived(victim));
    let pids = etcd_pids(others.iter().copied());
    let authority = lab.ca().unwrap();
    let expired = authority.issue_expired_for(victim).unwrap();
    authority.install(victim, &expired, DIR, "etcd").unwrap();
    wait_found(victim, "node.crt", "has expired");
    let crashed = kill_etcd(victim);
    wait_until("etcd to run with the expired certificate", SOON, || {
        let pid = victim.main_pid("etcd")?;
        Ok(pid.is_some_and(|pid| pid != crashed))
    })
    .unwrap();
    wait_until("no client to reach it", SOON, || {
        let health = ["endpoint", "health", "--command-timeout=3s"];
        Ok(!lab.etcdctl(&[victim], &health)?.success())
    })
    .unwrap();
    wait_found(victim, "node.crt", "has expired");
    holds_for("the member and its data stay", Duration::from_secs(10), || {
        member_ids(lab, other).unwrap() == members && archived(victim) == kept
    });
    wait_found(victim, "node.crt", "has expired");
    sh(
        victim,
        &format!("cp -a /root/tls/node.crt /root/tls/node.key {DIR}/"),
    );
    lab.wait_healthy(3, SOON).unwrap();
    wait_good(victim);
    assert_eq!(member_ids(lab, other).unwrap(), members, "the same members");
    assert_eq!(archived(victim), kept, "nothing is moved");
    assert_eq!(etcd_pids(others), pids, "the others were not restarted");
}

/// Asked here or on another node, the answer is no, and the reboot lock is not granted. A package that restarts etcd waits
/// as long as the gate holds it. Then etcd is down until somebody replaces the file.
///
/// The member stays healthy: etcd reads its authorities only when it starts. But its agent reads them for each
/// connection to etcd, so it has to be connected before.
fn nobody_has_leave_to_stop_it(lab: &Lab) {
    let [n1, n2] = [1, 2].map(|number| lab.host(number).unwrap());
    let ca = format!("{DIR}/ca.crt");
    ok_to_stop(n1, &["n3"]);
    ok_to_stop(n2, &["n3"]);
    sh(n1, &format!("chmod 0600 {ca}"));
    wait_found(n1, "ca.crt", "etcd's user may not read it");
    for host in [n1, n2] {
        let answer = agent(host, &["ok-to-stop", "n1"]);
        let shown = answer.stdout.contains("tls-files-unusable") && answer.stdout.contains(&ca);
        assert!(answer.code == 4 && shown, "{}", answer.stdout);
        ok_to_stop(host, &["n3"]);
    }
    gets_no_lock(n1, "etcd here might not start again");

    let before = etcd_pid(n1);
    n1.systemctl(&["--no-block", "restart", "etcd"])
        .unwrap()
        .ok()
        .unwrap();
    holds_for("etcd to run on", Duration::from_secs(12), || {
        etcd_pid(n1) == before
    });
    wait_until("etcd to fail", SOON, || {
        Ok(n1.systemctl(&["show", "-P", "Result", "etcd"])?.stdout.trim() == "exit-code")
    })
    .unwrap();
    let shown = n1.journalctl(&["-u", "etcd", "-n", "200"]).unwrap();
    let without = "etcd stops without leave after 20 s: etcd here might not start again: [etcd.client_tls]";
    assert!(shown.contains(without), "{shown}");
    sh(n1, &format!("chmod 0644 {ca}"));
    lab.wait_healthy(3, SOON).unwrap();
    wait_good(n1);
}

//! The operations that users other than root may not perform on a host, and the use of the guide's
//! certificates.

use crate::common::{GUIDE, SOON, agent, backup_now, block, deb, etcd_pid, verify_now, wait_status};
use crate::managed::replaced;
use etcd_agent_lab::{Host, Lab, Output, wait_until};

const CONFIG: &str = "/etc/etcd-agent/config.toml";

/// Sets up the guide's three nodes as one node: its commands verbatim, its configuration with one node and a
/// local store.
fn as_the_guide_says(n1: &Host) {
    let certificates = block(GUIDE, "\n", "make-certificates");
    let three = "n1=10.0.0.1 n2=10.0.0.2 n3=10.0.0.3";
    let certificates = replaced(&certificates, three, &format!("n1={}", n1.address()));
    let config = block(GUIDE, "toml\n", "[etcd.peer_tls]");
    let (tls, _) = config.split_once("[store]").unwrap();
    let tls: Vec<&str> = tls.lines().filter(|line| !line.starts_with("nodes = ")).collect();
    let config = format!(
        "{}\n[store]\nurl = \"file:///var/lib/etcd-agent/backups\"\n",
        tls.join("\n").replace(
            "[cluster]",
            &format!("[cluster]\nnodes = {{ n1 = \"{}\" }}", n1.address())
        )
    );
    n1.write_file("/root/made/config.toml", config, "0644", "root:root")
        .unwrap();
    let install = block(GUIDE, "\n", "tar -xpf");
    let script = format!("cd /root/made; touch aws-credentials\n{certificates}\n{install}");
    let done = n1.sh(&script).unwrap().ok().unwrap();
    assert!(!done.stderr.contains("warning"), "{}", done.stderr);
    wait_status(n1, 0);
}

/// Connects to etcd's peer port with one of the node's pairs.
fn as_peer(n1: &Host, pair: &str) -> Output {
    let script = format!(
        "curl -sS --http1.1 --cacert /etc/etcd/peer-tls/ca.crt --cert {pair}/node.crt --key {pair}/node.key https://n1:2380/version"
    );
    n1.sh(&script).unwrap()
}

fn as_user(host: &Host, user: &str, script: &str) -> Output {
    let argv = [
        "setpriv",
        "--reuid",
        user,
        "--regid",
        user,
        "--init-groups",
        "sh",
        "-ec",
        script,
    ];
    host.exec(&argv).unwrap()
}

/// Possible actions of the daemon's user once it is compromised: a fragment, tools, a request, and starts of
/// the units.
const ATTACK: &str = r#"
    mkdir -p /run/etcd-agent/config.d
    mkfifo /run/etcd-agent/config.d/00.toml
    printf '[etcd]\nbinary = "/var/lib/etcd-agent/restore/etcd"\n' >/run/etcd-agent/config.d/99.toml
    cd /var/lib/etcd-agent/restore
    printf '#!/bin/sh\nid >>/var/lib/etcd/planted; id >>/run/etcd-agent-apply/planted\n' >etcdutl
    cp etcdutl etcd; cp etcdutl etcdctl; chmod 0755 etcdutl etcd etcdctl; echo x >s.db
    cat >/var/lib/etcd-agent/state/data-request.json <<END
    {"id": "planted", "boot_id": "$(cat /proc/sys/kernel/random/boot_id)", "request": {"op": "stage", "epoch": 7,
     "backup": "2026-01-01T00:00:00Z-000001", "snapshot_file": "s.db", "name": "n1",
     "initial_cluster": {"n1": ["https://n1:2380"]}, "token": "prod-7-x", "cluster_id": "1", "member_id": "1"}}
END
    timeout 30 systemctl --no-ask-password start etcd-agent-data
    timeout 30 systemctl --no-ask-password start etcd-agent-apply
"#;

fn planted(n1: &Host) {
    let pid = etcd_pid(n1);
    // Once its member has started, the agent writes the settings again.
    wait_until("the settings of a started member", SOON, || {
        Ok(n1
            .read_file("/var/lib/etcd-agent/etcd.env")?
            .contains("ETCD_INITIAL_CLUSTER_STATE=\"existing\""))
    })
    .unwrap();
    let before = n1
        .sh("cat /var/lib/etcd-agent/etcd.env; systemctl cat etcd")
        .unwrap();
    n1.systemctl(&["stop", "etcd-agent"]).unwrap().ok().unwrap();
    as_user(n1, "etcd-agent", ATTACK).ok().unwrap();
    let found = n1
        .sh("ls /var/lib/etcd/planted /run/etcd-agent-apply/planted 2>/dev/null || true")
        .unwrap();
    assert_eq!(found.text(), "", "a planted file ran");
    let report = n1.read_file("/run/etcd-agent-data/report.json").unwrap();
    assert!(
        report.contains("\"planted\"") && report.contains("/usr/bin/etcd"),
        "{report}"
    );
    let after = n1
        .sh("cat /var/lib/etcd-agent/etcd.env; systemctl cat etcd")
        .unwrap();
    assert_eq!(after.stdout, before.stdout);
    let said = n1.journal("etcd-agent-apply").unwrap();
    assert_eq!(said.matches("is not read any more").count(), 1, "{said}");
    let denied = as_user(n1, "etcd-agent", "echo >/run/etcd-agent-config.d/99.toml");
    assert!(denied.stderr.contains("Permission denied"), "{}", denied.stderr);

    // A file in a directory of root that belongs to another user is not accepted either.
    let fragment = "/etc/etcd-agent/config.d/50-left.toml";
    n1.write_file(fragment, "[archive]\nkeep = 4\n", "0644", "etcd-agent:root")
        .unwrap();
    as_user(
        n1,
        "etcd-agent",
        "timeout 30 systemctl --no-ask-password start etcd-agent-data",
    )
    .ok()
    .unwrap();
    let report = n1.read_file("/run/etcd-agent-data/report.json").unwrap();
    assert!(report.contains("50-left.toml belongs to uid"), "{report}");
    let refused = agent(n1, &["config", "check"]);
    assert!(
        refused.code == 2 && refused.stderr.contains("expected root"),
        "{}",
        refused.stderr
    );
    n1.wipe(fragment).unwrap();
    n1.wipe("/run/etcd-agent/config.d").unwrap();
    n1.systemctl(&["start", "etcd-agent"]).unwrap().ok().unwrap();
    wait_status(n1, 0);
    assert_eq!(etcd_pid(n1), pid, "etcd was not restarted");
}

/// An empty configuration means a single node without TLS. It is refused on a node that runs a member.
fn emptied(n1: &Host) {
    let config = n1.read_file(CONFIG).unwrap();
    let (pid, environment) = (
        etcd_pid(n1),
        n1.read_file("/var/lib/etcd-agent/etcd.env").unwrap(),
    );
    n1.write_file(CONFIG, "", "0644", "root:root").unwrap();
    let refused = agent(n1, &["config", "check"]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    for lost in [
        "cluster.name",
        "etcd.peer_tls",
        "etcd.client_tls",
        "--accept-losses",
    ] {
        assert!(refused.stderr.contains(lost), "{}", refused.stderr);
    }
    // Whether the reload fails or not, nothing is lost.
    n1.systemctl(&["reload", "etcd-agent"]).unwrap();
    n1.systemctl(&["start", "etcd-agent-apply"]).unwrap();
    assert_eq!(n1.read_file("/var/lib/etcd-agent/etcd.env").unwrap(), environment);
    n1.write_file(CONFIG, config, "0644", "root:root").unwrap();
    n1.systemctl(&["reload", "etcd-agent"]).unwrap().ok().unwrap();
    wait_status(n1, 0);
    assert_eq!(etcd_pid(n1), pid, "etcd was not restarted");
}

/// The oneshots read a configuration that their users may not read, and have no group of the agent for it. etcd has the
/// user of one of them. The files stay as they are.
fn not_readable(n1: &Host) {
    let fragment = "/etc/etcd-agent/config.d/50-archive.toml";
    n1.write_file(fragment, "[archive]\nkeep = 4\n", "0640", "root:etcd-agent")
        .unwrap();
    let script = format!(
        "chgrp etcd-agent {CONFIG} /etc/etcd-agent/config.d && chmod 0640 {CONFIG} && chmod 0750 /etc/etcd-agent/config.d"
    );
    n1.sh(&script).unwrap().ok().unwrap();
    for user in ["etcd", "etcd-agent-verify"] {
        let denied = as_user(n1, user, &format!("cat {CONFIG}"));
        assert!(denied.stderr.contains("Permission denied"), "{}", denied.stderr);
    }
    n1.systemctl(&["reload", "etcd-agent"]).unwrap().ok().unwrap();
    wait_status(n1, 0);
    n1.systemctl(&["start", "etcd-agent-data"]).unwrap().ok().unwrap();
    let report = n1.read_file("/run/etcd-agent-data/report.json").unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert!(
        report["report"].is_object() && report["unknown"].is_null(),
        "{report}"
    );
    let said = n1.journal("etcd-agent-data").unwrap();
    assert!(!said.contains("copy-config"), "{said}");
    wait_until("systemd to remove the copy", SOON, || {
        let copies = n1.sh("find /tmp /run -name etcd-agent-config.json 2>/dev/null || true")?;
        Ok(copies.text().is_empty())
    })
    .unwrap();
}

#[test]
fn f01_what_the_daemons_user_plants_is_not_carried_out() {
    let lab = Lab::builder("roots").package(&deb()).boot().unwrap();
    let n1 = lab.host(1).unwrap();
    as_the_guide_says(n1);

    // F5: a certificate of etcd's clients is not valid for its peers.
    let peer = as_peer(n1, "/etc/etcd/peer-tls").ok().unwrap();
    assert!(peer.stdout.contains("etcdserver"), "{}", peer.stdout);
    for pair in ["/etc/etcd/tls", "/etc/etcd-agent/tls"] {
        let refused = as_peer(n1, pair);
        assert!(
            !refused.success() && refused.stderr.contains("alert"),
            "{}",
            refused.stderr
        );
    }

    planted(n1);
    emptied(n1);
    not_readable(n1);

    // F11a: the user that restores a backup for verification may not give orders to systemd.
    let user = n1.unit_property("etcd-agent-verify", "User").unwrap();
    assert_eq!(user, "etcd-agent-verify");
    let refused = as_user(n1, &user, "timeout 30 systemctl --no-ask-password stop etcd");
    assert!(!refused.success(), "{}", refused.stdout);
    backup_now(n1);
    verify_now(n1);
    lab.passed();
}

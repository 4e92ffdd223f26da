//! One backup is kept, annotated and deleted by orders on any node.

use crate::common::{SOON, agent, backup_now, backups, formed, listed, put};
use etcd_agent_lab::{Host, Lab, wait_until};
use serde_json::Value;

/// Retention keeps the newest backup only, and only removes when it is asked to.
const FRAGMENT: &str = "[backup]\ninterval = \"1h\"\nverify_interval = \"off\"\n[backup.retention]\nenabled = false\n\
     recent = \"1s\"\nhourly = 0\ndaily = 0\nweekly = 0\nyearly = 0\ncount = 0\n";

fn ids(lab: &Lab) -> Vec<String> {
    let all = backups(lab).into_iter();
    all.map(|key| key.rsplit('/').next().unwrap().to_owned())
        .collect()
}

/// What an order answers as JSON.
fn changed(host: &Host, args: &[&str]) -> bool {
    let mut argv = vec!["backup"];
    argv.extend(args);
    argv.extend(["-o", "json"]);
    let answer = agent(host, &argv).ok().unwrap();
    let answer: Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!(answer["schema"], 1, "{answer}");
    answer["changed"].as_bool().unwrap()
}

fn refused(host: &Host, args: &[&str], why: &str) {
    let mut argv = vec!["backup"];
    argv.extend(args);
    let answer = agent(host, &argv);
    assert_eq!(answer.code, 4, "{args:?}: {}{}", answer.stdout, answer.stderr);
    assert!(answer.stderr.contains(why), "{args:?}: {}", answer.stderr);
}

#[test]
fn one_backup_is_kept_annotated_and_deleted_by_orders_on_any_node() {
    let lab = formed("marks", 3);
    let (n1, n2, n3) = (lab.host(1).unwrap(), lab.host(2).unwrap(), lab.host(3).unwrap());
    for host in lab.hosts() {
        let path = "/etc/etcd-agent/config.d/60-marks.toml";
        host.write_file(path, FRAGMENT, "0644", "root:root").unwrap();
        host.systemctl(&["reload", "etcd-agent"]).unwrap().ok().unwrap();
    }
    for (n, host) in [n1, n2, n3, n1].into_iter().enumerate() {
        put(&lab, "k", &n.to_string());
        backup_now(host);
    }
    let all = ids(&lab);
    let (newest, rest) = all.split_last().unwrap();
    let [.., doomed, kept, other] = rest else {
        panic!("{all:?}");
    };

    // Orders on one node show on all others, and a repeated order changes nothing.
    assert!(!changed(n2, &["keep", kept, "--reason", "audit", "--dry-run"]));
    assert!(changed(n2, &["keep", kept, "--reason", "audit of März"]));
    assert!(!changed(n3, &["keep", kept]));
    assert!(changed(n3, &["annotate", kept, "before the <move>"]));
    assert!(changed(n1, &["annotate", "latest", "the newest"]));
    let bad = agent(n1, &["backup", "annotate", kept, "a\u{1b}[2J"]);
    assert_eq!(bad.code, 2, "{}", bad.stderr);
    let wide = agent(n1, &["backup", "list", "-o", "wide"]).ok().unwrap().stdout;
    for text in ["on n2: audit of März", "before the <move>", "the newest"] {
        assert!(wide.contains(text), "{wide}");
    }
    let list = listed(n1, &["backup", "list"], "backups");
    let shown = list.iter().find(|one| one["id"] == kept.as_str()).unwrap();
    assert_eq!(shown["kept"]["reason"], "audit of März", "{shown}");

    // Retention wants none of the old ones, once they are not recent.
    wait_until("only the order to keep an old backup", SOON, || {
        let verdicts = listed(n1, &["backup", "prune", "--dry-run"], "backups");
        let verdict = |id: &str| verdicts.iter().find(|one| one["id"] == id).unwrap()["keep"].clone();
        Ok(verdict(kept) == serde_json::json!(["kept"]) && verdict(other) == serde_json::json!([]))
    })
    .unwrap();
    refused(n3, &["delete", kept], "keep --undo");
    refused(n1, &["delete", newest], "backup now");
    refused(n1, &["delete", "latest"], "backup list");
    assert!(!changed(n1, &["delete", doomed, "--dry-run"]));
    assert!(ids(&lab).contains(doomed));
    assert!(changed(n2, &["delete", doomed]));
    assert!(!changed(n3, &["delete", doomed]));
    agent(n3, &["backup", "prune"]).ok().unwrap();
    assert_eq!(ids(&lab), [kept.clone(), newest.clone()]);

    // Without the order the backup is like any other.
    assert!(changed(n1, &["keep", kept, "--undo"]));
    assert!(!changed(n2, &["keep", kept, "--undo"]));
    assert!(changed(n2, &["delete", kept]));
    let left = lab.s3().keys().unwrap();
    for id in [doomed, kept, other] {
        assert!(
            !left.iter().any(|key| key.contains(id.as_str())),
            "{id}: {left:?}"
        );
    }
    let gone = agent(n1, &["backup", "keep", kept]);
    assert_eq!(gone.code, 1, "{}", gone.stderr);
    agent(n1, &["restore", "latest", "--to", "/var/tmp/left"])
        .ok()
        .unwrap();
    lab.passed();
}

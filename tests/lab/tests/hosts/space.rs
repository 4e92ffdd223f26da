//! The space of etcd's database: NOSPACE under a load like that of Kubernetes, and defragmentation.

use std::time::Instant;

use crate::common::{SOON, agent, backups, deb, etcd_pids, follower, put, revision, status};
use crate::dashboard;
use crate::killer::Killers;
use etcd_agent_lab::{Host, Lab, wait_until};

/// Replaces the values of ten keys until etcd refuses a write. Little of the database is in use without its
/// history.
const FILL: &str = "\
for n in $(seq 1000); do head -c 75000 /dev/urandom | base64 -w 0 | \
etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/etcd/tls/ca.crt --cert=/etc/etcd/tls/node.crt \
--key=/etc/etcd/tls/node.key put fill/$((n % 10)) >/dev/null || exit 7; done";

/// When each defragmentation began and ended, by etcd's own log, which writes all times in one form.
fn defragmentations(lab: &Lab) -> Vec<(String, String, String)> {
    let of = |host: &Host| {
        let journal = host.journalctl(&["-u", "etcd", "-o", "cat"]).unwrap();
        let said = |message: &str| -> Vec<String> {
            journal
                .lines()
                .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
                .filter(|line| line["msg"] == message)
                .filter_map(|line| Some(line["ts"].as_str()?.to_owned()))
                .collect()
        };
        let began = said("starting defragment");
        let ended = said("finished defragment");
        assert_eq!(began.len(), ended.len(), "{journal}");
        let pairs = began.into_iter().zip(ended);
        pairs
            .map(|(began, ended)| (began, ended, host.name().to_owned()))
            .collect::<Vec<_>>()
    };
    let mut all: Vec<_> = lab.hosts().iter().flat_map(of).collect();
    all.sort_unstable();
    for pair in all.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "two at a time: {all:?}");
    }
    all
}

/// The sizes of the databases, and what of them is in use, in bytes.
fn sizes(lab: &Lab) -> Vec<(u64, u64)> {
    let of = |host: &Host| {
        let etcd = &status(host).unwrap()["node"]["etcd"]["value"];
        let bytes = |key: &str| etcd[key].as_u64().unwrap_or_default();
        (bytes("db_size_bytes"), bytes("db_in_use_bytes"))
    };
    lab.hosts().iter().map(of).collect()
}

#[test]
fn s36_no_space_ends_without_an_operator_and_one_member_is_defragmented_at_a_time() {
    let lab = Lab::builder("space").hosts(3).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    let settings = format!(
        "[etcd.settings]\nquota-backend-bytes = \"16777216\"\n{}",
        dashboard::METRICS
    );
    lab.configure(|_, config| config.extra.clone_from(&settings))
        .unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    wait_until("the first backup", SOON, || Ok(!backups(&lab).is_empty())).unwrap();
    let pids = etcd_pids(lab.hosts());
    let n1 = lab.host(1).unwrap();
    let began = Instant::now();
    dashboard::start(&lab, n1);

    let filled = n1.exec_for(2 * SOON, &["sh", "-c", FILL]).unwrap();
    assert_eq!(filled.code, 7, "no write was refused: {}", filled.stderr);
    assert!(filled.stderr.contains("space exceeded"), "{}", filled.stderr);
    put(&lab, "after", "NOSPACE");
    assert_eq!(agent(n1, &["alarm", "list"]).ok().unwrap().stdout, "No alarms.\n");
    let events: Vec<String> = lab
        .hosts()
        .iter()
        .map(|host| agent(host, &["events"]).ok().unwrap().stdout)
        .collect();
    let events = events.concat();
    for action in ["compact", "defrag", "disarm-no-space"] {
        assert!(events.contains(action), "{action}: {events}");
    }
    let first = defragmentations(&lab);
    assert!(first.len() >= 3, "{first:?}");
    assert!(
        sizes(&lab).iter().all(|(size, _)| *size < 15_000_000),
        "{:?}",
        sizes(&lab)
    );
    lab.wait_healthy(3, SOON).unwrap();

    // By order, under writes, on one and then on all.
    let load = lab.start_load("d").unwrap();
    load.wait_for(100, SOON).unwrap();
    let one = follower(&lab);
    agent(n1, &["defrag", one.name(), "--timeout", "60s"])
        .ok()
        .unwrap();
    let second = defragmentations(&lab);
    assert_eq!(second.len(), first.len() + 1, "{second:?}");
    let leader = lab.raft_leader().unwrap().name().to_owned();
    let said = agent(n1, &["defrag", "--rolling", "--timeout", "60s"])
        .ok()
        .unwrap();
    assert!(
        said.stdout.contains("defragmented, and healthy"),
        "{}",
        said.stdout
    );
    let third = defragmentations(&lab);
    assert_eq!(third.len(), second.len() + 3, "{third:?}");
    assert_eq!(third.last().unwrap().2, leader, "the leader comes last");
    assert_ne!(lab.raft_leader().unwrap().name(), leader, "another member leads");
    // Once more: each agent dies when it begins, and a member may be defragmented twice.
    let killers = Killers::on(&lab, "killer-of-the-defragmentation");
    agent(n1, &["defrag", "--rolling", "--timeout", "60s"])
        .ok()
        .unwrap();
    killers.all_at(&["defrag", "move-leader"]);
    assert!(defragmentations(&lab).len() >= third.len() + 3);
    load.wait_for(100, SOON).unwrap();
    let written = load.stop().unwrap();
    written.verify_all(&lab).unwrap();
    eprintln!(
        "{} writes, longest gap {:?}",
        written.acknowledged, written.longest_gap
    );

    // Free space by itself.
    lab.configure(|_, config| config.extra = format!("{settings}[space]\ndefrag_min_size = \"1MiB\"\n"))
        .unwrap();
    lab.each(|host| host.sh("systemctl reload etcd-agent")?.ok().map(drop))
        .unwrap();
    lab.etcdctl(&[n1], &["del", "--prefix", "fill/"])
        .unwrap()
        .ok()
        .unwrap();
    let revision = revision(&lab, n1).to_string();
    lab.etcdctl(&[n1], &["compact", &revision]).unwrap().ok().unwrap();
    wait_until("all to be defragmented", 2 * SOON, || {
        let sizes = sizes(&lab);
        anyhow::ensure!(
            sizes
                .iter()
                .all(|(size, used)| *size < 1 << 20 || size / 2 < *used),
            "{sizes:?}"
        );
        Ok(true)
    })
    .unwrap();
    defragmentations(&lab);
    lab.wait_healthy(3, SOON).unwrap();
    agent(n1, &["backup", "verify"]).ok().unwrap();
    dashboard::check(&lab, n1, began.elapsed().as_secs());
    assert_eq!(etcd_pids(lab.hosts()), pids, "no etcd was restarted");
    let none = agent(n1, &["defrag", "--cancel"]).ok().unwrap();
    assert!(none.stdout.contains("withdrawn"), "{}", none.stdout);
    let unknown = agent(n1, &["defrag", "n9"]);
    assert!(
        unknown.code == 2 && unknown.stderr.contains("n9 is not a node"),
        "{}",
        unknown.stderr
    );
    lab.passed();
}

//! The space of etcd's database: NOSPACE under a load like that of Kubernetes, and defragmentation.

use std::time::{Duration, Instant};

use crate::common::{
    SOON, agent, all_written, backups, deb, etcd_pids, follower, holds_for, listed, others, revision, status,
};
use crate::dashboard;
use crate::down_times::{now, one_at_a_time};
use crate::killer::{Killers, cursor, wait_decision};
use etcd_agent_lab::{Host, Lab, wait_until};

/// When each defragmentation began and ended, by etcd's own log, which writes all times in one form.
fn defragmentations(lab: &Lab) -> Vec<(String, String, String)> {
    defragmentations_with(lab, None)
}

/// The same if a host may have lost its power meanwhile. What did not end there counts as a moment.
fn defragmentations_with(lab: &Lab, lost: Option<&Host>) -> Vec<(String, String, String)> {
    let of = |host: &Host| {
        let journal = host.journalctl(&["-u", "etcd", "-o", "cat"]).unwrap();
        let lines = journal.lines();
        let lines = lines.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let mut pairs: Vec<(String, Option<String>)> = Vec::new();
        for line in lines {
            let at = line["ts"].as_str().unwrap_or_default().to_owned();
            match line["msg"].as_str() {
                Some("starting defragment") => pairs.push((at, None)),
                Some("finished defragment") => pairs.last_mut().unwrap().1 = Some(at),
                _ => {}
            }
        }
        let may_lack = lost.is_some_and(|lost| lost.name() == host.name());
        assert!(
            may_lack || pairs.iter().all(|(_, ended)| ended.is_some()),
            "{journal}"
        );
        let name = host.name();
        let ended = |(began, ended): (String, Option<String>)| {
            (began.clone(), ended.unwrap_or(began), name.to_owned())
        };
        pairs.into_iter().map(ended).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = lab.hosts().iter().flat_map(of).collect();
    all.sort_unstable();
    for pair in all.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "two at a time: {all:?}");
    }
    all
}

/// The way back from NOSPACE by the events of all agents: the history is compacted, then each etcd is defragmented,
/// then the alarm is disarmed.
fn events_tell_the_story(lab: &Lab) {
    let of = |host: &Host| {
        let events = listed(host, &["events", "-n", "512"], "events");
        let told = events.into_iter().map(|event| {
            let at = event["at"].as_u64().unwrap();
            let decision = event["decision"].as_str().unwrap().to_owned();
            (at, decision, host.name().to_owned(), event["reasons"].to_string())
        });
        told.collect::<Vec<_>>()
    };
    let mut story: Vec<_> = lab.hosts().iter().flat_map(of).collect();
    story.retain(|(_, decision, _, _)| ["compact", "defrag", "disarm-no-space"].contains(&decision.as_str()));
    story.sort_unstable();
    let compacted = story.iter().position(|(_, decision, _, _)| decision == "compact");
    let disarmed = story
        .iter()
        .rposition(|(_, decision, _, _)| decision == "disarm-no-space");
    let (Some(compacted), Some(disarmed)) = (compacted, disarmed) else {
        panic!("no compaction or no end: {story:?}");
    };
    let (_, decision, _, _) = &story[0];
    assert_eq!(decision, "compact", "{story:?}");
    for (number, because) in [
        (compacted, "the history before revision"),
        (disarmed, "the alarm NOSPACE is disarmed"),
    ] {
        assert!(story[number].3.contains(because), "{story:?}");
    }
    for host in lab.hosts() {
        let of_host = |(_, decision, node, why): &(u64, String, String, String)| {
            decision == "defrag" && node == host.name() && why.contains("etcd has no space (alarm NOSPACE)")
        };
        let between = story.get(compacted..disarmed).unwrap_or_default();
        assert!(between.iter().any(of_host), "{}: {story:?}", host.name());
    }
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

    // The writer goes on while etcd has no space.
    let objects = lab.start_objects().unwrap();
    objects.wait_through_no_space(60, 2 * SOON).unwrap();
    let objects = objects.stop().unwrap();
    eprintln!("{objects:?}");
    assert!(objects.deletes > 0 && objects.refused > 0, "{objects:?}");
    assert_eq!(agent(n1, &["alarm", "list"]).ok().unwrap().stdout, "No alarms.\n");
    events_tell_the_story(&lab);
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
    all_written(&lab, &written);

    // Free space by itself.
    lab.configure(|_, config| config.extra = format!("{settings}[space]\ndefrag_min_size = \"1MiB\"\n"))
        .unwrap();
    lab.each(|host| host.sh("systemctl reload etcd-agent")?.ok().map(drop))
        .unwrap();
    lab.etcdctl(&[n1], &["del", "--prefix", "/registry/"])
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
    a_host_loses_its_power_meanwhile(&lab, n1);
    lab.passed();
}

/// When it is to be defragmented. While it is off no other etcd is, and the order ends once it is back.
fn a_host_loses_its_power_meanwhile(lab: &Lab, n1: &Host) {
    let load = lab.start_load("e").unwrap();
    load.wait_for(50, SOON).unwrap();
    // Not n1, which got the order.
    let lost = *others(lab, lab.raft_leader().unwrap()).last().unwrap();
    let (since, cursor) = (now(lab), cursor(lost));
    let first = defragmentations(lab).len();
    let begun = || defragmentations_with(lab, Some(lost));
    std::thread::scope(|scope| {
        let order = ["defrag", "--rolling", "--timeout", "150s"];
        let ordered = scope.spawn(move || agent(n1, &order));
        wait_decision(lost, &cursor, "defrag");
        lost.kill().unwrap();
        wait_until("n1 to notice it", SOON, || {
            Ok(status(n1)?["peers"][lost.name()]["fact"] != "known")
        })
        .unwrap();
        let before = begun().len();
        holds_for("no other is defragmented", Duration::from_secs(3), || {
            begun().len() == before
        });
        assert!(
            !ordered.is_finished(),
            "the order is done without {}",
            lost.name()
        );
        lost.boot().unwrap();
        ordered.join().unwrap().ok().unwrap();
    });
    lab.wait_healthy(3, SOON).unwrap();
    assert!(begun().len() >= first + 3, "{:?}", begun());
    let stopped = one_at_a_time(lab, &since);
    assert!(stopped.is_empty(), "{stopped:?}");
    load.wait_for(50, SOON).unwrap();
    all_written(lab, &load.stop().unwrap());
}

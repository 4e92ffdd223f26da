//! The space of etcd's database: NOSPACE under a load like that of Kubernetes, and defragmentation.

use std::time::{Duration, Instant};

use crate::common::{
    DATA, SOON, STEADY, agent, all_written, answered, assert_value, backup_now, backups, deb, etcd_pids,
    follower, healthy, holds_for, listed, order_until_done, others, put, revision, status, verify_now,
    wait_status,
};
use crate::dashboard;
use crate::down_times::{now, one_at_a_time};
use crate::killer::Killers;
use etcd_agent_lab::{Host, Lab, wait_until};

/// `quota-backend-bytes`.
const QUOTA: u64 = 16 << 20;
/// A member whose database has this size, in bytes, has no space.
const FULL: u64 = QUOTA - QUOTA / 20;

/// When each defragmentation began and ended, by etcd's own log, which writes all times in one form.
fn defragmentations(lab: &Lab) -> Vec<(String, String, String)> {
    defragmentations_with(lab, None)
}

/// The same if a host may have lost its power meanwhile. What did not end there counts as a moment.
fn defragmentations_with(lab: &Lab, lost: Option<&Host>) -> Vec<(String, String, String)> {
    let of = |host: &Host| {
        if host.is_on() {
            host.exec(&["journalctl", "--sync"]).unwrap().ok().unwrap();
        }
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

/// The events of all agents about the way back from NOSPACE: when, what, where and why.
fn story(lab: &Lab) -> Vec<(u64, String, String, String)> {
    let of = |host: &Host| {
        let events = listed(host, &["events", "-n", "512"], "events");
        let lines = events.into_iter().map(|event| {
            let at = event["at"].as_u64().unwrap();
            let decision = event["decision"].as_str().unwrap().to_owned();
            (at, decision, host.name().to_owned(), event["reasons"].to_string())
        });
        lines.collect::<Vec<_>>()
    };
    let mut story: Vec<_> = lab.hosts().iter().flat_map(of).collect();
    story.retain(|(_, decision, _, _)| ["compact", "defrag", "disarm-no-space"].contains(&decision.as_str()));
    story.sort_unstable();
    story
}

/// The way back from NOSPACE by the events of all agents: the history is compacted, then each etcd without space is
/// defragmented, then the alarm is disarmed.
fn events_tell_the_story(lab: &Lab) {
    let story = story(lab);
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
    let between = story.get(compacted..disarmed).unwrap_or_default();
    let no_space = |why: &str| why.contains("etcd has no space (alarm NOSPACE)");
    assert!(
        between
            .iter()
            .any(|(_, decision, _, why)| decision == "defrag" && no_space(why)),
        "{story:?}"
    );
    // The files of the members differ a little, and a member whose file is smaller had space. A file gets smaller only by a
    // defragmentation.
    let sizes = sizes(lab);
    assert!(sizes.iter().all(|(size, _)| *size < FULL), "{sizes:?}: {story:?}");
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
    // Only the test moves the leader.
    let settings = format!(
        "{STEADY}quota-backend-bytes = \"{QUOTA}\"\n{}",
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
    objects.wait_through_no_space(300, 2 * SOON).unwrap();
    let objects = objects.stop().unwrap();
    eprintln!("{objects:?}");
    assert!(objects.deletes > 0 && objects.refused > 0, "{objects:?}");
    assert_eq!(agent(n1, &["alarm", "list"]).ok().unwrap().stdout, "No alarms.\n");
    events_tell_the_story(&lab);
    let first = defragmentations(&lab);
    lab.wait_healthy(3, SOON).unwrap();
    dashboard::wait_quiet(n1);

    // By order, under writes, on one and then on all.
    let load = lab.start_load("d").unwrap();
    load.wait_for(100, SOON).unwrap();
    let one = follower(&lab);
    let orders = |args: &[&str]| {
        // An order is judged by the last look.
        lab.wait_healthy(3, SOON).unwrap();
        agent(n1, &[&["defrag"], args, &["--timeout", "150s"]].concat())
    };
    orders(&[one.name()]).ok().unwrap();
    let second = defragmentations(&lab);
    assert_eq!(second.len(), first.len() + 1, "{second:?}");
    let leader = lab.raft_leader().unwrap().name().to_owned();
    let said = orders(&["--rolling"]).ok().unwrap();
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
    order_until_done(n1, &["defrag", "--rolling", "--timeout", "150s"]);
    killers.all_at(&["defrag", "move-leader"]);
    assert!(defragmentations(&lab).len() >= third.len() + 3);
    load.wait_for(100, SOON).unwrap();
    let written = load.stop().unwrap();
    all_written(&lab, &written);

    // Free space by itself.
    lab.configure(|_, config| config.extra = format!("{settings}[space]\ndefrag_min_size = \"1MiB\"\n"))
        .unwrap();
    for host in lab.hosts() {
        // The agent that was killed last may be starting.
        wait_status(host, 0);
        host.sh("systemctl reload etcd-agent").unwrap().ok().unwrap();
    }
    let all = ["del", "--prefix", "/registry/"];
    answered("del", || lab.etcdctl(&[n1], &all)).ok().unwrap();
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
    verify_now(n1);
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
    an_alarm_that_a_backup_brings_ends_as_well(&lab, n1);
    lab.passed();
}

/// etcd keeps alarms in its data. A backup that is taken while NOSPACE is raised contains it, and so does the cluster
/// that is restored from that backup.
fn an_alarm_that_a_backup_brings_ends_as_well(lab: &Lab, n1: &Host) {
    healthy(lab);
    // In a pause the agents leave the alarm alone.
    agent(n1, &["pause", "--wait"]).ok().unwrap();
    let value = "x".repeat(100_000);
    let full = (0..400).any(|_| {
        let args = ["put", "history", value.as_str()];
        let written = answered("a put", || lab.etcdctl(&[n1], &args));
        written.stderr.contains("database space exceeded")
    });
    assert!(full, "40 MB were written in spite of the quota");
    backup_now(n1);
    let alarms = listed(n1, &["alarm", "list"], "alarms");
    assert!(
        alarms.iter().any(|alarm| alarm["alarm"] == "NOSPACE"),
        "{alarms:?}"
    );
    let newest = listed(n1, &["backup", "list"], "backups").pop().unwrap();
    let id = newest["id"].as_str().unwrap();
    agent(n1, &["resume", "--wait"]).ok().unwrap();
    wait_no_alarm(lab, n1);
    put(lab, "later", "than the backup");

    let before = story(lab).last().unwrap().0;
    let restore = ["etcd-agent", "restore", id, "--yes"];
    n1.exec_for(2 * SOON, &restore).unwrap().ok().unwrap();
    wait_no_alarm(lab, n1);
    put(lab, "after", "the alarm");
    assert_value(lab, n1, "later", "");
    assert_value(lab, n1, "many/0/0", "value");
    // The restore has compacted the history already where etcd's tool can do that.
    let mut since = story(lab);
    since.retain(|(at, _, _, _)| *at > before);
    let first = |what: &str| since.iter().position(|(_, decision, _, _)| decision == what);
    let (defragmented, disarmed) = (first("defrag"), first("disarm-no-space"));
    assert!(
        defragmented.is_some() && defragmented < disarmed,
        "the alarm was not restored, or ended otherwise: {since:?}"
    );
}

/// Waits until no alarm is raised, and all agents see a healthy cluster.
fn wait_no_alarm(lab: &Lab, host: &Host) {
    wait_until("the alarm to end", 2 * SOON, || {
        let raised = lab.etcdctl(&[host], &["alarm", "list"])?.ok()?;
        anyhow::ensure!(raised.text().is_empty(), "{}", raised.text());
        Ok(true)
    })
    .unwrap();
    healthy(lab);
}

/// While it is defragmented. While it is off no other etcd is, and the order ends once it is back.
fn a_host_loses_its_power_meanwhile(lab: &Lab, n1: &Host) {
    // So many keys that a defragmentation takes some time.
    for chunk in 0..400 {
        let keys: Vec<String> = (0..128).map(|key| format!("many/{chunk}/{key}")).collect();
        let puts: Vec<(&str, &[u8])> = keys.iter().map(|key| (key.as_str(), &b"value"[..])).collect();
        lab.write(&puts, &[]).unwrap();
    }
    let load = lab.start_load("e").unwrap();
    load.wait_for(50, SOON).unwrap();
    let since = now(lab);
    let met = (0..5).any(|_| loses_its_power(lab, n1));
    assert!(met, "the power was lost after the defragmentation each time");
    let stopped = one_at_a_time(lab, &since);
    assert!(stopped.is_empty(), "{stopped:?}");
    load.wait_for(50, SOON).unwrap();
    all_written(lab, &load.stop().unwrap());
}

/// The unit that takes a host's power.
const POWER_OFF: &str = "power-off-in-a-defragmentation";

/// Takes a host's power as soon as its etcd has begun to write a defragmented database. The host does that itself and
/// looks each 5 ms: a defragmentation takes some tenths of a second. It suspends etcd first, so that the
/// defragmentation does not end meanwhile.
fn power_off_in_a_defragmentation(host: &Host) {
    let script = format!(
        "exec 3<> <(:)
        until compgen -G '{DATA}/member/snap/db.tmp*' >/dev/null; do read -rt 0.005 -u 3; done
        read -r pid </sys/fs/cgroup/system.slice/etcd.service/cgroup.procs && kill -STOP $pid
        exec poweroff --force --force --no-sync"
    );
    let unit = format!("--unit={POWER_OFF}");
    let argv = [
        "systemd-run",
        "--quiet",
        &unit,
        "--collect",
        "--nice=-20",
        "bash",
        "-c",
        &script,
    ];
    host.exec(&argv).unwrap().ok().unwrap();
}

/// Whether the etcd of a host that is off was defragmenting its database: it writes another file, and renames that at
/// the end. A later start removes the file.
fn was_being_defragmented(host: &Host) -> bool {
    let snap = host.disk().join(DATA.trim_start_matches('/')).join("member/snap");
    let mut files = std::fs::read_dir(snap).unwrap().flatten();
    files.any(|file| file.file_name().to_string_lossy().starts_with("db.tmp"))
}

/// False if the defragmentation ended before the power was lost.
fn loses_its_power(lab: &Lab, n1: &Host) -> bool {
    // Not n1, which got the order.
    let lost = *others(lab, lab.raft_leader().unwrap()).last().unwrap();
    let begun = || defragmentations_with(lab, Some(lost)).len();
    let first = begun();
    let met = std::thread::scope(|scope| {
        power_off_in_a_defragmentation(lost);
        let order = ["etcd-agent", "defrag", "--rolling", "--timeout", "280s"];
        let ordered = scope.spawn(move || n1.exec_for(2 * SOON, &order).unwrap());
        wait_until("its power to be lost, or the order to end", 2 * SOON, || {
            Ok(!lost.is_on() || ordered.is_finished())
        })
        .unwrap();
        if lost.is_on() {
            lost.systemctl(&["stop", POWER_OFF]).unwrap().ok().unwrap();
            ordered.join().unwrap().ok().unwrap();
            return false;
        }
        lost.kill().unwrap();
        // The disk decides: the last lines of the journal may be lost with the power.
        let met = was_being_defragmented(lost);
        wait_until("n1 to notice it", SOON, || {
            Ok(status(n1)?["peers"][lost.name()]["fact"] != "known")
        })
        .unwrap();
        if met {
            let before = begun();
            holds_for("no other is defragmented", Duration::from_secs(3), || {
                begun() == before
            });
            assert!(
                !ordered.is_finished(),
                "the order is done without {}",
                lost.name()
            );
        }
        lost.boot().unwrap();
        ordered.join().unwrap().ok().unwrap();
        met
    });
    lab.wait_healthy(3, SOON).unwrap();
    assert!(
        begun() >= first + 3,
        "{:?}",
        defragmentations_with(lab, Some(lost))
    );
    met
}

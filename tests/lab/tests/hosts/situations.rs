//! Events on whole hosts at a bad moment of a restore or of the increments: power loss, polkit, a full disk,
//! disks that are reset to an older image, values as large as etcd accepts.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{
    DATA, SOON, agent, assert_value, backup_now, backups, data_there, deb, etcd_pid, follower, formed, get,
    holds_for, increment_now, kill_etcd, member_ids, others, put, status, verify_now, wait_coordinator_says,
    wait_stored,
};
use etcd_agent_lab::{Cmd, Host, Lab, Random, Shape, Written, wait_until};

const RESTORE: [&str; 3] = ["restore", "latest", "--yes"];

/// The directories of etcd and the agent on a host's disk.
const STATE: [&str; 2] = ["var/lib/etcd", "var/lib/etcd-agent"];

/// While a host has this file, a restore there does not end.
pub(crate) const HOLD: &str = "/etc/hold-restores";

/// Lets the restore tool of a host wait after its work, so that a restore goes on however fast the host is. A
/// verification restores elsewhere and does not wait.
pub(crate) fn hold_restores(host: &Host) -> anyhow::Result<()> {
    let tool = format!(
        "#!/bin/sh\n/usr/bin/etcdutl.whole \"$@\" || exit\n\
         case \"$*\" in *.etcd-agent-staged-*) while test -e {HOLD}; do sleep 0.1; done ;; esac\n"
    );
    let whole = format!("cp -a /usr/bin/etcdutl /usr/bin/etcdutl.whole; touch {HOLD}");
    host.sh(&whole)?.ok()?;
    host.write_file("/usr/bin/etcdutl", tool, "0755", "root:root")
}

/// At least `count` writes, all acknowledged.
fn written(lab: &Lab, prefix: &str, count: u64) -> Written {
    let load = lab.start_load(prefix).unwrap();
    load.wait_for(count, SOON).unwrap();
    load.stop().unwrap()
}

fn image(lab: &Lab, host: &Host, part: &str) -> PathBuf {
    lab.dir().join("images").join(host.name()).join(part)
}

/// Replaces a directory with a copy of another, including owners and modes.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    std::fs::create_dir_all(to)?;
    Cmd::new("cp").arg("-aT").arg(from).arg(to).ok().map(drop)
}

/// Every machine is reset to an older image while the store keeps the later writes; C4.
#[test]
fn c04_disks_put_back_to_an_older_image_begin_a_timeline_of_their_own() {
    let lab = formed("images", 3);
    let n1 = lab.host(1).unwrap();
    backup_now(n1);
    let kept = written(&lab, "kept", 200);
    wait_stored(&lab, n1);
    lab.each(|host| host.power_off().map(drop)).unwrap();
    lab.each(|host| {
        STATE
            .iter()
            .try_for_each(|part| copy(&host.disk().join(part), &image(&lab, host, part)))
    })
    .unwrap();
    lab.each(|host| host.boot().map(drop)).unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    let undone = written(&lab, "undone", 200);
    wait_stored(&lab, n1);

    lab.each(Host::kill).unwrap();
    lab.each(|host| {
        STATE
            .iter()
            .try_for_each(|part| copy(&image(&lab, host, part), &host.disk().join(part)))
    })
    .unwrap();
    lab.each(|host| host.boot().map(drop)).unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    // Fewer writes than were undone, so the older timeline leads to a higher revision.
    let again = written(&lab, "again", 100);
    increment_now(n1);
    put(&lab, "last", "in an increment alone");
    increment_now(n1);

    agent(n1, &RESTORE).ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    assert_value(&lab, n1, "last", "in an increment alone");
    for written in [&kept, &again] {
        written.verify_all(&lab).unwrap();
    }
    let missing = undone.missing(&lab).unwrap();
    assert_eq!(
        missing.len() as u64,
        undone.acknowledged,
        "writes that are not in the image came back"
    );
    lab.passed();
}

/// For a while polkit refuses the stop that a restore needs; C2.
#[test]
fn c02_a_stop_that_polkit_refuses_during_a_restore_is_made_up_for() {
    const REFUSE: &str = r#"polkit.addRule(function (action, subject) {
    if (action.lookup("unit") === "etcd.service" && action.lookup("verb") === "stop") {
        return polkit.Result.NO;
    }
});
"#;
    let rule = "/etc/polkit-1/rules.d/10-refuse.rules";
    let lab = Lab::builder("polkit").hosts(3).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    lab.configure(|_, config| config.size = 1).unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(1, SOON).unwrap();
    let member = lab.raft_leader().unwrap();
    put(&lab, "first", "1");
    backup_now(member);
    let (cluster, _) = member_ids(&lab, member).unwrap();
    let load = lab.start_load("old").unwrap();
    load.wait_for(50, SOON).unwrap();
    let pid = etcd_pid(member);

    member.write_file(rule, REFUSE, "0644", "root:root").unwrap();
    member.systemctl(&["restart", "polkit"]).unwrap().ok().unwrap();
    let asked = *others(&lab, member).first().unwrap();
    std::thread::scope(|scope| {
        let command = scope.spawn(|| agent(asked, &RESTORE).ok().unwrap());
        wait_until("polkit to refuse the stop", SOON, || {
            Ok(member.journal("etcd-agent")?.contains("stop-etcd ("))
        })
        .unwrap();
        holds_for(
            "no newer epoch is assigned while the old etcd runs",
            Duration::from_secs(3),
            || {
                let epoch = status(member).map(|status| status["node"]["assignment"]["epoch"].as_u64());
                etcd_pid(member) == pid && epoch.is_ok_and(|epoch| epoch == Some(1))
            },
        );
        wait_until("no mark that the agent has stopped etcd", SOON, || {
            Ok(!member
                .exec(&["test", "-e", "/run/etcd-agent/stopped-by-agent"])?
                .success())
        })
        .unwrap();
        member.wipe(rule).unwrap();
        member.systemctl(&["restart", "polkit"]).unwrap().ok().unwrap();
        command.join().unwrap();
    });
    load.stop().unwrap();
    lab.wait_healthy(1, SOON).unwrap();
    wait_until("one etcd of the new epoch, and no other", SOON, || {
        let running: Vec<&Host> = lab
            .hosts()
            .iter()
            .filter(|host| matches!(host.main_pid("etcd"), Ok(Some(_))))
            .collect();
        let [only] = running.as_slice() else {
            anyhow::bail!("{} etcds run", running.len());
        };
        let (now, members) = member_ids(&lab, only)?;
        Ok(now != cluster && members.len() == 1)
    })
    .unwrap();
    assert_value(&lab, lab.raft_leader().unwrap(), "first", "1");
    lab.passed();
}

/// All hosts lose power while the restored data is being staged, and D-Bus is slow when they boot; C1.
#[test]
fn c01_power_lost_on_all_hosts_while_a_restore_is_staging() {
    const STAGED: &str = "var/lib/etcd/default.etcd-agent-staged-2";
    let lab = formed("staging", 3);
    let n1 = lab.host(1).unwrap();
    put(&lab, "first", "1");
    wait_stored(&lab, n1);
    backup_now(n1);
    let (cluster, _) = member_ids(&lab, n1).unwrap();
    let slow = "mkdir -p /etc/systemd/system/dbus.service.d && \
                printf '[Service]\\nExecStartPre=sleep 2\\n' > /etc/systemd/system/dbus.service.d/slow.conf";
    lab.each(|host| {
        host.sh(slow)?.ok()?;
        hold_restores(host)
    })
    .unwrap();
    let has = |host: &Host, path: &str| host.disk().join(path).exists();
    let log = format!("{STAGED}/member/wal");
    std::thread::scope(|scope| {
        // The command dies with its host.
        scope.spawn(|| drop(agent(n1, &RESTORE)));
        wait_until("all hosts to stage", SOON, || {
            for host in lab.hosts() {
                anyhow::ensure!(has(host, &log), "{} does not stage yet", host.name());
            }
            Ok(true)
        })
        .unwrap();
        lab.each(Host::kill).unwrap();
    });
    for host in lab.hosts() {
        let is_staged = has(host, &format!("{STAGED}.json"));
        assert!(
            data_there(host) && has(host, STAGED) && !is_staged,
            "the power of {} was not lost while it staged",
            host.name()
        );
    }
    lab.each(|host| {
        host.wipe(HOLD)?;
        // The tool makes the log after the database. What is left is half a restore, as if the power was lost
        // between them.
        host.wipe(&format!("/{log}"))?;
        host.boot().map(drop)
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    for host in lab.hosts() {
        wait_until("the restored epoch to be assigned", SOON, || {
            Ok(status(host)?["node"]["assignment"]["epoch"] == 2)
        })
        .unwrap();
        assert_ne!(member_ids(&lab, host).unwrap().0, cluster, "the old epoch");
        assert_value(&lab, host, "first", "1");
    }
    lab.passed();
}

/// One founder has no space for the restored data until retention has removed everything older than the
/// newest backups; C3.
#[test]
fn c03_a_founder_whose_disk_is_full_is_restored_later_from_the_same_point() {
    let lab = Lab::builder("late").hosts(3).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    let newest_only =
        "[backup.retention]\nrecent = \"1s\"\nhourly = 0\ndaily = 0\nweekly = 0\nyearly = 0\ncount = 1\n";
    lab.configure(|_, config| newest_only.clone_into(&mut config.extra))
        .unwrap();
    let n3 = lab.host(3).unwrap();
    let mount = "set -e; owner=$(stat -c uid=%u,gid=%g,mode=%a /var/lib/etcd); \
                 mount -t tmpfs -o size=400m,$owner small /var/lib/etcd";
    n3.sh(mount).unwrap().ok().unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    let n1 = lab.host(1).unwrap();
    put(&lab, "first", "1");
    backup_now(n1);
    put(&lab, "second", "2");
    wait_stored(&lab, n1);
    n3.sh("dd if=/dev/zero of=/var/lib/etcd/filler bs=64k || true")
        .unwrap()
        .ok()
        .unwrap();

    agent(n1, &RESTORE).ok().unwrap();
    put(&lab, "third", "3");
    for _ in 0..3 {
        backup_now(n1);
    }
    agent(n1, &["backup", "prune"]).ok().unwrap();
    n3.sh("rm /var/lib/etcd/filler").unwrap().ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    for (key, value) in [("first", "1"), ("second", "2"), ("third", "3")] {
        assert_value(&lab, n3, key, value);
    }
    lab.passed();
}

/// Values of 5 MiB, most of them written while the store is unavailable. The revision at which the increments
/// would continue is compacted: it puts one key and deletes another. A member that lost its data meanwhile is
/// healed over 50 Mbit/s.
#[test]
fn situation_5_large_values_a_store_that_is_away_a_compaction_and_a_thin_cable() {
    let lab = Lab::builder("large").hosts(3).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    lab.configure(|_, config| {
        "[etcd.settings]\nmax-request-bytes = \"10485760\"\n".clone_into(&mut config.extra);
    })
    .unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    let victim = follower(&lab);
    let watcher = *others(&lab, victim).first().unwrap();
    backup_now(watcher);
    put_large(&lab, 1..=3);
    lab.write(&[("doomed", b"1")], &[]).unwrap();
    let stored = wait_stored(&lab, watcher);
    let before = backups(&lab).len();

    lab.s3().stop().unwrap();
    lab.write(&[("large0004", &large(4))], &["doomed"]).unwrap();
    put_large(&lab, 5..=7);
    wait_coordinator_says(&lab, "increments-failed");
    let next = (stored + 1).to_string();
    lab.etcdctl(&[watcher], &["compact", &next])
        .unwrap()
        .ok()
        .unwrap();

    let (_, members) = member_ids(&lab, watcher).unwrap();
    let cable = Shape {
        rate_kbit: 50_000,
        ..Shape::default()
    };
    victim.shape(cable).unwrap();
    victim.wipe(DATA).unwrap();
    kill_etcd(victim);
    put_large(&lab, 8..=10);
    wait_until("the member to be replaced", SOON, || {
        let (_, now) = member_ids(&lab, watcher)?;
        let id = now.get(victim.name());
        Ok(now.len() == 3 && id.is_some() && id != members.get(victim.name()))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    lab.heal_all().unwrap();
    assert_eq!(backups(&lab).len(), before, "the store was available");

    lab.s3().start().unwrap();
    wait_stored(&lab, watcher);
    // For these the store has only increments.
    put_large(&lab, 11..=12);
    let newest = wait_stored(&lab, watcher);
    assert!(
        reach(&lab) >= newest,
        "the objects in the store lead to revision {} of {newest}",
        reach(&lab)
    );
    assert_large(&lab, 1..=12);
    verify_now(watcher);

    agent(watcher, &RESTORE).ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    wait_until("the restored epoch to be assigned", SOON, || {
        Ok(status(watcher)?["node"]["assignment"]["epoch"] == 2)
    })
    .unwrap();
    assert_large(&lab, 1..=12);
    assert_eq!(get(&lab, watcher, "doomed").unwrap(), "", "a deletion was lost");
    lab.passed();
}

/// 5 MiB that depend only on a number and do not compress.
fn large(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    (0..(5 << 20) / 8)
        .flat_map(|_| random.number().to_le_bytes())
        .collect()
}

/// Puts the values one after the other, each until acknowledged.
fn put_large(lab: &Lab, numbers: RangeInclusive<u64>) {
    for number in numbers {
        let key = format!("large{number:04}");
        lab.write(&[(&key, &large(number))], &[]).unwrap();
    }
}

fn assert_large(lab: &Lab, numbers: RangeInclusive<u64>) {
    for number in numbers {
        let found = lab.read(&format!("large{number:04}")).unwrap();
        assert!(
            found.as_ref() == Some(&large(number)),
            "value {number} differs: {:?} bytes",
            found.map(|value| value.len())
        );
    }
}

/// The newest revision that a full backup in the S3 server and its increments without a gap reach, according
/// to the objects.
fn reach(lab: &Lab) -> u64 {
    let keys = lab.s3().keys().unwrap();
    let of = |full: &String| {
        let text = lab.s3().read(&format!("{full}/backup.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut covered = manifest["revision"].as_u64().unwrap();
        let mut ranges: Vec<(u64, u64)> = keys
            .iter()
            .filter_map(|key| key.strip_prefix(full)?.strip_prefix("/increments/"))
            .map(|name| range(name).unwrap())
            .collect();
        ranges.sort_unstable();
        for (first, last) in ranges {
            if first <= covered + 1 {
                covered = covered.max(last);
            }
        }
        covered
    };
    backups(lab).iter().map(of).max().unwrap_or(0)
}

/// The revisions that an increment of this name covers.
fn range(name: &str) -> Option<(u64, u64)> {
    let (first, last) = name.strip_suffix(".zst")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

//! The data of a member is damaged, on each etcd, under writes: C11. The member is replaced, or continues
//! with its identity, or is left unchanged with a reason; no acknowledged write is lost. docs/damage.md has
//! the messages of each etcd. Also: a newer etcd does not start on a member's data: C12.

use std::time::Instant;

use crate::common::{
    DATA, SOON, agent, all_run, archived, assert_value, deb, etcd_pids, follower, kill_etcd, member_ids,
    others, put, put_megabytes, wait_reason,
};
use etcd_agent_lab::{ETCD_VERSIONS, Host, Lab, Load, wait_for, wait_until};

/// Variables and functions for the scripts of the damages below.
const PRELUDE: &str = r#"set -e; cd /var/lib/etcd/default/member
first=$(ls wal/*.wal | head -n 1); newest=$(ls wal/*.wal | tail -n 1); db=snap/db
# Within a record of the newest log file: of a key that was written in the middle of it, or of the last one.
key() { perl -e 'local $/; open F, $ARGV[1]; $_ = <F>; s/\0+$//;
  print $ARGV[0] eq "last" ? rindex($_, "load0") : index($_, "load0", length() / 2)' $1 $newest; }
noise() { dd if=/dev/urandom of=$1 bs=1 seek=$2 count=$3 conv=notrunc status=none; }
"#;

/// The root page of the newer meta page (bbolt's layout).
const DB_ROOT: &str = r#"root=$(perl -e 'open F, $ARGV[0]; read F, $_, 8192;
my ($a, $b) = (unpack("x64 Q<", $_), unpack("x4160 Q<", $_)); print unpack($a > $b ? "x32 Q<" : "x4128 Q<", $_)' $db)
noise $db $((root * 4096)) 4096"#;

/// A damage that has to be healed: its description, and the script that causes it.
type Damage = (&'static str, &'static str);

const LOG_MIDDLE: Damage = ("the middle of the log", "noise $newest $(key middle) 4096");
const LOG_LAST: Damage = ("the last record of the log", "noise $newest $(key last) 4");
const LOG_RECORD: Damage = ("a length and a record of the log", "noise $first 8 64");
const LOG_CUT: Damage = (
    "a log file that is cut off, with another after it",
    "test $first != $newest; truncate -s 2000000 $first",
);
const DB_CUT: Damage = ("a database that is cut off", "truncate -s 16384 $db");
const DB_META: Damage = ("both meta pages of the database", "noise $db 0 8192");
const DB_PAGE: Damage = ("the root page of the database", DB_ROOT);

/// A damage that etcd repairs by itself.
const SNAPSHOTS_GONE: Damage = ("all snapshots", "rm -f snap/*.snap");

/// Ends etcd, and runs the script before etcd is started again.
fn while_down(host: &Host, script: &str) {
    agent(host, &["pause"]).ok().unwrap();
    wait_reason(host, "paused");
    kill_etcd(host);
    host.sh(&format!("{PRELUDE}{script}")).unwrap().ok().unwrap();
    agent(host, &["resume"]).ok().unwrap();
}

/// The number of snapshots that this host's etcd has received from a raft leader.
fn snapshots_received(host: &Host) -> usize {
    let script = "journalctl --sync; journalctl -u etcd -o cat --no-pager | grep -c '\"msg\":\"applied snapshot\"' || true";
    let found = host.sh(script).unwrap().ok().unwrap();
    found.text().parse().unwrap()
}

struct Cluster<'a> {
    lab: &'a Lab,
    victim: &'a Host,
    load: &'a Load,
}

impl Cluster<'_> {
    fn ids(&self) -> (u64, std::collections::BTreeMap<String, u64>) {
        member_ids(self.lab, others(self.lab, self.victim).first().unwrap()).unwrap()
    }

    fn is_healed(&self, (what, script): Damage) {
        let (cluster, before) = self.ids();
        let (name, kept) = (self.victim.name(), archived(self.victim).len());
        let (begun, received) = (Instant::now(), snapshots_received(self.victim));
        while_down(self.victim, script);
        let new = wait_for(
            &format!("the member with {what} damaged to be replaced"),
            SOON,
            || {
                let now = self.ids().1.get(name).copied();
                Ok(now.filter(|id| Some(id) != before.get(name)))
            },
        )
        .unwrap();
        self.lab.wait_healthy(3, SOON).unwrap();
        eprintln!(
            "{what}: damaged, replaced and healthy within {:?}",
            begun.elapsed()
        );
        self.load.wait_for(50, SOON).unwrap();
        let (same, mut after) = self.ids();
        assert_eq!(same, cluster, "{what}: the same cluster");
        // Seen once without a snapshot, on 3.6.0: https://github.com/etcd-io/etcd/issues/21610
        assert!(snapshots_received(self.victim) > received, "{what}: a snapshot");
        let joined = after.insert(name.to_owned(), *before.get(name).unwrap());
        assert_eq!(joined, Some(new), "{what}: no learner removes itself (C12)");
        assert_eq!(after, before, "{what}: the others are the same members");
        assert_eq!(
            archived(self.victim).len(),
            kept + 1,
            "{what}: the data is in the archive"
        );
    }

    fn goes_on(&self, (what, script): Damage) {
        let before = self.ids();
        while_down(self.victim, script);
        self.lab.wait_healthy(3, SOON).unwrap();
        self.load.wait_for(50, SOON).unwrap();
        assert_eq!(self.ids(), before, "{what}: the same members");
    }

    /// The agent names the cause with this code. After enough time for several starts it is still the same
    /// member, and healthy once the cause is removed.
    fn is_named(&self, code: &str, script: &str, words: &str, undo: &str) {
        let (before, kept) = (self.ids(), archived(self.victim));
        while_down(self.victim, script);
        let text = wait_reason(self.victim, code);
        assert!(text.contains(words), "{code}: {text}");
        self.load.wait_for(500, SOON).unwrap();
        assert_eq!(self.ids(), before, "{code}: the same members");
        assert_eq!(archived(self.victim), kept, "{code}: nothing is moved");
        self.victim.sh(undo).unwrap().ok().unwrap();
        self.lab.wait_healthy(3, SOON).unwrap();
        assert_eq!(self.ids(), before, "{code}: the same members afterwards");
    }
}

/// Runs `steps` on one member of a cluster of this version, under writes.
fn under_writes(name: &str, version: &str, steps: impl FnOnce(&Cluster<'_>)) {
    // A member that joins receives a snapshot, as in a database that has grown for a long time.
    let catchup = match version.split('.').nth(1) {
        Some("5") => "experimental-snapshot-catchup-entries",
        _ => "snapshot-catchup-entries",
    };
    let settings = format!("[etcd.settings]\nsnapshot-count = \"100\"\n{catchup} = \"100\"\n");
    let lab = Lab::builder(name).hosts(3).etcd(version).package(&deb());
    let lab = lab.boot().unwrap();
    lab.s3().start().unwrap();
    lab.configure(|_, config| settings.clone_into(&mut config.extra))
        .unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    let victim = follower(&lab);
    // Only the agent starts a killed etcd.
    let dropin = "/etc/systemd/system/etcd.service.d/50-once.conf";
    victim
        .write_file(dropin, "[Service]\nRestart=no\n", "0644", "root:root")
        .unwrap();
    victim.systemctl(&["daemon-reload"]).unwrap().ok().unwrap();
    let others = others(&lab, victim);
    let pids = etcd_pids(others.iter().copied());
    let load = lab.start_load("load").unwrap();
    load.wait_for(400, SOON).unwrap();
    steps(&Cluster {
        lab: &lab,
        victim,
        load: &load,
    });
    load.stop().unwrap().verify_all(&lab).unwrap();
    assert_eq!(etcd_pids(others), pids, "the others were not restarted");
    lab.passed();
}

/// Writes more than a log file holds (64 MB).
fn fill_a_log_file(lab: &Lab, victim: &Host) {
    let other = *others(lab, victim).first().unwrap();
    put_megabytes(other, 70, "big/$((n % 5))");
    let second = format!("test $(ls {DATA}/member/wal/*.wal | wc -l) -gt 1");
    wait_until("a second log file", SOON, || Ok(victim.sh(&second)?.success())).unwrap();
}

/// Damages one member of a cluster in several ways, one after the other.
type Steps = fn(&Cluster<'_>);

/// The kinds of damage of each test, in the order of [`ETCD_VERSIONS`]. Snapshots are removed first: the log of a
/// member that was replaced does not reach back to its beginning.
const KINDS: [Steps; 3] = [
    |cluster| {
        cluster.goes_on(SNAPSHOTS_GONE);
        cluster.is_healed(LOG_MIDDLE);
        cluster.is_named(
            "not-permitted",
            "chown root $db; chmod 600 $db",
            "permission denied",
            &format!("chown etcd {DATA}/member/snap/db"),
        );
        cluster.is_healed(DB_CUT);
    },
    |cluster| {
        cluster.goes_on(SNAPSHOTS_GONE);
        cluster.is_healed(LOG_RECORD);
        let listen = r"systemd-run --quiet --unit=taker perl -e 'use Socket; socket(S, PF_INET, SOCK_STREAM, 0);
            setsockopt(S, SOL_SOCKET, SO_REUSEADDR, 1); bind(S, sockaddr_in(2380, INADDR_ANY)) or die; listen(S, 1); sleep 600'";
        cluster.is_named(
            "address-taken",
            listen,
            "address already in use",
            "systemctl stop taker",
        );
        cluster.is_healed(DB_META);
    },
    |cluster| {
        cluster.is_healed(LOG_LAST);
        cluster.is_named(
            "data-unknown",
            "chown root ../../default",
            "belongs to uid 0",
            &format!("chown etcd {DATA}"),
        );
        cluster.is_healed(DB_PAGE);
        fill_a_log_file(cluster.lab, cluster.victim);
        cluster.is_healed(LOG_CUT);
    },
];

/// Runs this etcd with its own kinds of damage, or with `make test-matrix` with every kind: each row of the table in a
/// cluster of its own.
fn is_healed_or_named(name: &str, etcd: usize) {
    let matrix = std::env::var_os("ETCD_AGENT_MATRIX").is_some();
    for (row, steps) in KINDS.into_iter().enumerate() {
        if row == etcd {
            under_writes(name, ETCD_VERSIONS[etcd], steps);
        } else if matrix {
            under_writes(&format!("{name}-{row}"), ETCD_VERSIONS[etcd], steps);
        }
    }
}

#[test]
fn c11_damaged_data_under_the_oldest_etcd() {
    is_healed_or_named("c11-oldest", 0);
}

#[test]
fn c11_damaged_data_under_the_middle_etcd() {
    is_healed_or_named("c11-middle", 1);
}

#[test]
fn c11_damaged_data_under_the_newest_etcd() {
    is_healed_or_named("c11-newest", 2);
}

/// Removes a member's data, and waits until the others have replaced the member.
fn is_replaced_without_data(lab: &Lab, victim: &Host) {
    let other = *others(lab, victim).first().unwrap();
    let before = member_ids(lab, other).unwrap().1;
    victim.wipe(DATA).unwrap();
    kill_etcd(victim);
    wait_until(&format!("{} to be replaced", victim.name()), SOON, || {
        let now = member_ids(lab, other)?.1.get(victim.name()).copied();
        Ok(now.is_some() && now != before.get(victim.name()).copied())
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
}

/// Replaces `/usr/bin/etcd` with another version.
fn install(host: &Host, version: &str) {
    let script = format!("install -m 0755 /opt/etcd-v{version}/etcd /usr/bin/etcd");
    host.sh(&script).unwrap().ok().unwrap();
}

/// etcd 3.5.1 to 3.5.19 do not write the promotion of a learner into the database, and each replaced member
/// was a learner: <https://github.com/etcd-io/etcd/issues/19557>. Debian 13 has 3.5.16.
#[test]
fn c12_an_etcd_that_ends_on_forgotten_promotions_is_named() {
    let lab = Lab::builder("c12").hosts(3).etcd_of_debian().package(&deb());
    let lab = lab.boot().unwrap();
    lab.form().unwrap();
    let first = lab.raft_leader().unwrap();
    for victim in others(&lab, first) {
        is_replaced_without_data(&lab, victim);
    }
    put(&lab, "kept", "before");
    let (cluster, members) = member_ids(&lab, first).unwrap();

    let (middle, newest) = (ETCD_VERSIONS[0], ETCD_VERSIONS[1]);
    first.sh("cp /usr/bin/etcd /root/etcd").unwrap().ok().unwrap();
    install(first, newest);
    let restart = ["restart", "--no-block", "etcd"];
    first.systemctl(&restart).unwrap().ok().unwrap();
    let text = wait_reason(first, "too-many-learners");
    assert!(text.contains("too many learner members in cluster"), "{text}");
    assert!(text.contains("run 3.5.26 or newer of 3.5"), "{text}");
    let rest = others(&lab, first);
    let other = *rest.first().unwrap();
    assert_eq!(member_ids(&lab, other).unwrap(), (cluster, members.clone()));
    assert!(archived(first).is_empty(), "nothing is moved");

    // It comes back with its former version. As the leader it is upgraded last: it had the older etcd when the others
    // published themselves at their start, so they stay learners in its database.
    let back = "install -m 0755 /root/etcd /usr/bin/etcd; systemctl restart --no-block etcd";
    first.sh(back).unwrap().ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    wait_until("the leader to be moved", SOON, || {
        if lab.raft_leader()?.name() != first.name() {
            agent(first, &["move-leader", first.name()]).ok()?;
        }
        Ok(lab.raft_leader()?.name() == first.name())
    })
    .unwrap();
    let upgrade = |version| {
        let order = ["upgrade", "--to", version, "--no-backup", "--timeout", "150s"];
        agent(first, &order).ok().unwrap();
        all_run(&lab, version);
        lab.wait_healthy(3, SOON).unwrap();
    };
    upgrade(middle);
    let order = ["upgrade", "--to", newest, "--dry-run"];
    let early = agent(first, &order);
    assert_eq!(early.code, 4, "{}", early.stderr);
    assert!(
        early.stderr.contains("as learners") && early.stderr.contains("restart --rolling"),
        "{}",
        early.stderr
    );
    let restart = ["restart", "--rolling", "--timeout", "150s"];
    agent(first, &restart).ok().unwrap();
    wait_until("the upgrade to be permitted", SOON, || {
        agent(first, &order).ok().map(|_| true)
    })
    .unwrap();
    upgrade(newest);
    assert_eq!(member_ids(&lab, first).unwrap(), (cluster, members));
    for host in lab.hosts() {
        assert_value(&lab, host, "kept", "before");
    }
    lab.passed();
}

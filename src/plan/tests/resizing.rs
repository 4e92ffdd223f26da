//! Changes of the size, and the nodes that leave.

use super::reboots::lock;
use super::stop::codes;
use super::*;

fn backup(id: &str) -> BackupSummary {
    BackupSummary {
        id: BackupId::new(id).unwrap(),
        at: UnixMs(1_000_000),
        revision: Revision(1),
        size_bytes: 1,
    }
}

fn store(newest: &str) -> Fact<StoreView> {
    Fact::Known(store_view(None, Some(backup(newest))))
}

const OLD: &str = "2026-01-01T00:00:00Z-000001";
const NEW: &str = "2026-01-01T00:10:00Z-000002";

#[test]
fn s07_one_backup_before_each_change_of_the_size() {
    for (nodes, voters, size, first) in [(5, 3, 5, "add-learner"), (5, 5, 3, "remove-member")] {
        let mut obs = cluster(nodes, voters, size);
        obs.spec.backup.retention.enabled = false;
        obs.backups.increments.running = true;
        obs.store = store(OLD);
        let Some(Action::RememberSpec { record }) = decide(&obs).action else {
            panic!("{:?}", decide(&obs).action)
        };
        let change = record.change.clone().unwrap();
        assert_eq!((change.to, change.after), (size, Some(backup(OLD).id)));
        obs.spec_record = *record;
        assert_eq!(action(&obs), Some("backup"));
        assert!(has(&obs, "backup-before-change"));
        let mut running = obs.clone();
        running.backup.running = true;
        assert_eq!(action(&running), None);
        obs.store = store(NEW);
        assert_eq!(action(&obs), Some(first));
        // The peer that took the backup reports it before this node reads the store again.
        obs.store = store(OLD);
        peer(&mut obs, 1).last_backup = Some(backup(NEW));
        assert_eq!(action(&obs), Some(first));
        // A backup dated by a clock that is ahead does not count. Otherwise no later backup could be newer.
        let reported = peer(&mut obs, 1).last_backup.as_mut();
        reported.unwrap().at = UnixMs(u64::MAX);
        assert_eq!(action(&obs), Some("backup"));
        obs.spec_record.change = None;
        let Some(Action::RememberSpec { record }) = decide(&obs).action else {
            panic!("{:?}", decide(&obs).action)
        };
        assert_eq!(record.change.unwrap().after, Some(backup(OLD).id));
    }
}

#[test]
fn a_change_of_the_size_waits_for_a_store_that_does_not_answer_and_a_repair_does_not() {
    let mut obs = cluster(5, 3, 5);
    obs.store = Fact::Unreachable("timed out".into());
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "store-unreachable"));
    // One of three members is missing. It is added back before the cluster grows.
    if let Fact::Known(list) = &mut obs.me.members {
        list.members.truncate(2);
    }
    lose_data(peer(&mut obs, 2));
    assert_eq!(action(&obs), Some("add-learner"));
}

#[test]
fn without_a_store_the_size_changes_at_once() {
    let mut obs = cluster(5, 3, 5);
    obs.spec.backup_interval = None;
    assert_eq!(action(&obs), Some("add-learner"));
}

#[test]
fn the_size_at_which_the_cluster_is_whole_is_written_down_by_every_node() {
    for me in 0..3 {
        let mut obs = healthy(me);
        obs.spec_record = SpecRecord::default();
        let Some(Action::RememberSpec { record }) = decide(&obs).action else {
            panic!("{:?}", decide(&obs).action)
        };
        assert_eq!((record.settled, record.change.clone()), (Some(3), None));
        obs.spec_record = *record;
        assert_eq!(action(&obs), None);
    }
}

#[test]
fn s07_who_leaves_first() {
    type Change = fn(&mut Observation);
    let rows: [(&str, Change, Option<usize>, &str); 6] = [
        ("the highest name", |_| {}, Some(4), "shrink"),
        (
            "an unhealthy one first",
            |o| {
                o.peers.insert(name(2), Fact::Unreachable("no route".into()));
            },
            Some(2),
            "shrink",
        ),
        (
            "two unhealthy of five, one after the other",
            |o| {
                o.peers.insert(name(2), Fact::Unreachable("no route".into()));
                o.peers.insert(name(3), Fact::Unreachable("no route".into()));
            },
            Some(3),
            "shrink",
        ),
        (
            "nobody without quorum",
            |o| {
                for i in 2..5 {
                    o.peers.insert(name(i), Fact::Unreachable("no route".into()));
                }
            },
            None,
            "too-few-healthy",
        ),
        (
            "nobody while one is defragmented",
            |o| peer(o, 1).steering.defrag.running = true,
            None,
            "not-whole",
        ),
        (
            "nobody while one holds the reboot lock",
            |o| peer(o, 1).steering.reboot_locks.own = lock(1, 3, true),
            None,
            "not-whole",
        ),
    ];
    for (what, change, leaves, code) in rows {
        let mut obs = cluster(5, 5, 3);
        obs.spec.backup_interval = None;
        obs.spec_record.settled = Some(3);
        change(&mut obs);
        let decision = decide(&obs);
        let node = match &decision.action {
            Some(Action::RemoveMember { node, why, .. }) => {
                assert_eq!(*why, Removal::Excess);
                Some(node.clone())
            }
            None => None,
            other => panic!("{what}: {other:?}"),
        };
        assert_eq!(node, leaves.map(name), "{what}: {:?}", decision.reasons);
        let said = codes(&decision.reasons);
        assert!(said.contains(&code), "{what}: {said:?}");
        assert_eq!(said.contains(&"not-whole"), code == "not-whole", "{what}");
    }
}

/// The list of the last member confirms a removal only while no other node has a member.
#[test]
fn f02_the_last_but_one_member_leaves_after_those_before_it() {
    let ordered: fn(&mut Observation) = |obs| {
        obs.spec.size = 2;
        obs.spec_record.settled = Some(2);
        obs.me.steering.directives.out.insert(name(1));
    };
    for (what, change, expected) in [
        ("too many", (|_| ()) as fn(&mut Observation), "remove-member"),
        ("ordered out", ordered, "take-out"),
    ] {
        let mut obs = cluster(5, 2, 1);
        obs.spec.backup_interval = None;
        obs.spec_record.settled = Some(1);
        change(&mut obs);
        assert_eq!(action(&obs), Some(expected), "{what}");
        let mut leaving = obs.me.assignment.clone().unwrap();
        leaving.member_id = MemberId(99);
        peer(&mut obs, 3).assignment = Some(leaving);
        assert_eq!(action(&obs), None, "{what}");
        assert!(has(&obs, "removal-unfinished"), "{what}");
        obs.peers.insert(name(3), Fact::Unreachable("no route".into()));
        assert_eq!(action(&obs), None, "{what}: it may come back as a member");
        assert!(has(&obs, "removal-unfinished"), "{what}");
        obs.me.steering.directives.out.insert(name(3));
        assert_eq!(
            action(&obs),
            Some(expected),
            "{what}: an operator has ordered it out"
        );
    }
}

#[test]
fn the_leader_never_leaves_whatever_its_name() {
    let mut obs = cluster(3, 3, 1);
    obs.spec.backup_interval = None;
    let coordinator = obs.me.clone();
    let mut me = peer(&mut obs, 2).clone();
    let id = me.etcd.known().unwrap().member_id;
    for fact in obs.peers.values_mut() {
        if let Fact::Known(status) = fact
            && let Fact::Known(etcd) = &mut status.etcd
        {
            etcd.leader = Some(id);
        }
    }
    if let Fact::Known(etcd) = &mut me.etcd {
        etcd.leader = Some(id);
    }
    obs.spec.node = name(2);
    obs.assignment = Some(assignment(&obs.spec, me.genesis.as_ref().unwrap(), 2));
    obs.me = me;
    obs.peers.remove(&name(2));
    obs.peers.insert(name(0), Fact::Known(coordinator));
    assert!(matches!(decide(&obs).action, Some(Action::RemoveMember { node, .. }) if node == name(1)));
}

/// n3's member was removed according to n1's list.
fn removed() -> Observation {
    let mut obs = healthy(2);
    if let Fact::Known(list) = &mut peer(&mut obs, 0).members {
        list.members.truncate(2);
    }
    if let Fact::Known(list) = &mut peer(&mut obs, 1).members {
        list.linearizable = false;
    }
    obs.me.members = Fact::Unreachable("etcd does not serve here".into());
    obs
}

/// The removal of this node's member was confirmed.
fn certain(obs: &mut Observation) {
    obs.assignment.as_mut().unwrap().removed = true;
}

#[test]
fn a_removed_node_stops_puts_its_data_away_and_is_a_spare() {
    let mut obs = removed();
    assert_eq!(action(&obs), Some("check-removal"));
    certain(&mut obs);
    assert_eq!(action(&obs), Some("stop-removed"));
    let mut alone = obs.clone();
    for fact in alone.peers.values_mut() {
        *fact = Fact::Unreachable("no route".into());
    }
    assert_eq!(action(&alone), Some("stop-removed"), "it was confirmed before");
    obs.me.unit = unit(ActiveState::Inactive);
    obs.me.etcd = Fact::Absent;
    let Some(Action::ReplaceData { why, staged, .. }) = decide(&obs).action else {
        panic!("{:?}", decide(&obs).action)
    };
    assert_eq!((why.as_str(), staged), ("removed", false));
    obs.me.data = Fact::Known(DataState::Missing);
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "spare"));
}

#[test]
fn a_removal_is_believed_only_of_the_newest_list_through_quorum() {
    let mut obs = removed();
    if let Fact::Known(list) = &mut peer(&mut obs, 0).members {
        list.linearizable = false;
    }
    assert_eq!(action(&obs), None);
    let mut obs = removed();
    for (term, what) in [(3, "a later leader still has it"), (2, "one of two has it")] {
        if let Fact::Known(list) = &mut peer(&mut obs, 1).members {
            (list.term, list.linearizable) = (RaftTerm(term), true);
        }
        assert_eq!(action(&obs), None, "{what}");
    }
    let mut obs = removed();
    obs.peers.insert(name(0), Fact::Unreachable("no route".into()));
    assert_eq!(action(&obs), None);
}

/// An etcd that starts without quorum reports no members.
#[test]
fn who_the_members_are_is_written_down_when_they_change() {
    let mut obs = healthy(0);
    let mut list = obs.me.members.known().unwrap().clone();
    obs.spec_record.members = Some(list.clone());
    list.term = RaftTerm(9);
    obs.me.members = Fact::Known(list.clone());
    assert_eq!(action(&obs), None, "only the term is another");
    list.members.pop();
    list.linearizable = false;
    obs.me.members = Fact::Known(list.clone());
    let Some(Action::RememberSpec { record }) = decide(&obs).action else {
        panic!("nothing is written down");
    };
    assert_eq!(record.members, Some(list));
}

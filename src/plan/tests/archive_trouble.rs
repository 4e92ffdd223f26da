//! Data directories that cannot be renamed: orders that replace the data are refused while etcd still runs.

use super::*;

const MOUNTED: &str = "etcd.data_dir /var/lib/etcd is a mount point";

/// An order to restore a backup that is fetched, in a cluster of three with two spares and a shared store.
fn ordered() -> Observation {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut obs = cluster(5, 3, 3);
    obs.spec.store_shared = true;
    obs.requests = vec![restore_from(backup.clone(), Some(Epoch(1)))];
    obs.fetched = Some(backup);
    obs
}

fn cannot_archive(obs: &mut Observation, i: usize) {
    let own = obs.me.node == name(i);
    let status = if own { &mut obs.me } else { peer(obs, i) };
    status.archive_trouble = Some(MOUNTED.to_owned());
}

#[test]
fn a_restore_is_refused_before_an_etcd_is_stopped_whose_data_cannot_be_replaced() {
    for (what, troubled, fetched, refused) in [
        ("nothing is known", None, true, None),
        ("the own node", Some(0), true, Some("n1")),
        ("another member", Some(2), true, Some("n3")),
        ("before anything is fetched", Some(1), false, Some("n2")),
        ("a spare that stays one", Some(4), true, None),
    ] {
        let mut obs = ordered();
        if let Some(i) = troubled {
            cannot_archive(&mut obs, i);
        }
        obs.fetched = obs.fetched.filter(|_| fetched);
        match (decide(&obs).action, refused) {
            (
                Some(Action::Answer {
                    done: false, message, ..
                }),
                Some(node),
            ) => {
                assert!(
                    message.starts_with(node) && message.contains(MOUNTED),
                    "{what}: {message}"
                );
                assert!(message.ends_with("nothing was changed"), "{what}: {message}");
            }
            (Some(Action::Propose { .. }), None) => {}
            (other, _) => panic!("{what}: {other:?}"),
        }
    }
}

/// Rule 10: no member can be removed then, and the report may be a lie.
#[test]
fn another_node_prevents_no_restore_once_no_other_etcd_has_a_leader() {
    let leaderless = |obs: &mut Observation, i: usize| {
        let own = obs.me.node == name(i);
        let status = if own { &mut obs.me } else { peer(obs, i) };
        let Fact::Known(etcd) = &mut status.etcd else {
            panic!("it serves")
        };
        etcd.leader = None;
    };
    let mut obs = ordered();
    for i in [0, 2] {
        leaderless(&mut obs, i);
    }
    let mut own = obs.clone();
    cannot_archive(&mut own, 0);
    assert_eq!(action(&own), Some("answer"), "its own report is true");
    cannot_archive(&mut obs, 1);
    assert_eq!(founders(&obs).unwrap(), ["n1", "n3", "n4"]);
    // A node without a member cannot know that nothing serves.
    obs.assignment = None;
    assert_eq!(action(&obs), Some("answer"));
}

/// The founders of the epoch that is proposed, if one is.
fn founders(obs: &Observation) -> Option<Vec<String>> {
    let Some(Action::Propose { genesis, .. }) = decide(obs).action else {
        return None;
    };
    Some(genesis.members.keys().map(ToString::to_string).collect())
}

#[test]
fn a_spare_that_cannot_replace_its_directory_becomes_no_founder() {
    let mut obs = ordered();
    peer(&mut obs, 1).eligible = false;
    cannot_archive(&mut obs, 3);
    assert_eq!(founders(&obs).unwrap(), ["n1", "n3", "n5"]);
}

/// Rule 10: a node that lies about its directory locks nobody out.
#[test]
fn a_node_that_is_ordered_out_or_declared_lost_prevents_no_restore() {
    let mut obs = ordered();
    cannot_archive(&mut obs, 2);
    let mut named = obs.clone();
    if let Some(OperatorRequest::Restore { without, .. }) = named.requests.first_mut() {
        without.insert(name(2));
    }
    assert_eq!(action(&named), Some("propose"));
    obs.me.steering.directives.out.insert(name(2));
    assert_eq!(action(&obs), Some("propose"));
}

/// An epoch that is open already is followed: what was decided is not undone.
#[test]
fn an_order_does_not_say_that_nothing_was_changed_after_the_vote() {
    let mut obs = ordered();
    cannot_archive(&mut obs, 1);
    obs.me.voted = Epoch(2);
    let Some(Action::Answer { message, .. }) = decide(&obs).action else {
        panic!("no answer")
    };
    assert!(message.contains("epoch 2 may open all the same"), "{message}");
}

#[test]
fn a_node_says_so_and_goes_on_and_looks_again() {
    let mut obs = healthy(1);
    cannot_archive(&mut obs, 0);
    assert!(!shown(&obs), "of another node");
    cannot_archive(&mut obs, 1);
    assert!(shown(&obs));
    let looked = |ms: u64| Memory {
        looked_at: Some(SteadyMs(ms)),
        ..Memory::default()
    };
    let minutes = |count: u64| obs.steady.0 - count * 60_000;
    assert_eq!(plan(&obs, &looked(minutes(4))).action, None);
    assert_eq!(plan(&obs, &looked(minutes(5))).action, Some(Action::InspectData));
    obs.me.archive_trouble = None;
    assert_eq!(action(&obs), None, "nothing is looked at without need");
}

fn shown(obs: &Observation) -> bool {
    let decision = decide(obs);
    decision
        .reasons
        .iter()
        .any(|reason| reason.code == "cannot-archive" && !reason.halt)
}

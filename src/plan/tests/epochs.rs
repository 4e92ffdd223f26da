//! Clusters that a newer epoch has replaced, and agents that have lost their memory of them.

use super::*;

/// Another epoch's cluster.
const FORMER: ClusterId = ClusterId(0xf0);

/// Epoch 2 serves on all, and names the cluster that it replaced.
fn second_epoch(me: usize) -> Observation {
    let mut obs = healthy(me);
    let former = |status: &mut NodeStatus| {
        if let Some(genesis) = &mut status.genesis {
            genesis.former = vec![FORMER];
        }
    };
    former(&mut obs.me);
    for fact in obs.peers.values_mut() {
        if let Fact::Known(status) = fact {
            former(status);
        }
    }
    obs
}

/// The node's agent was reinstalled while its etcd ran for this cluster.
fn forgets(status: &mut NodeStatus, cluster_id: ClusterId) {
    status.assignment = None;
    status.incarnation = incarnation(7);
    if let Fact::Known(etcd) = &mut status.etcd {
        (etcd.cluster_id, etcd.member_id) = (cluster_id, MemberId(77));
    }
}

#[test]
fn rule_1_an_etcd_of_a_replaced_epoch_is_stopped_where_nobody_remembers_it() {
    for (cluster, stops) in [(FORMER, true), (ClusterId(0xf1), false)] {
        let mut obs = second_epoch(0);
        obs.assignment = None;
        forgets(&mut obs.me, cluster);
        let newest = obs.me.genesis.as_ref().unwrap().epoch;
        assert_eq!(
            decide(&obs).action == Some(Action::StopEtcd { newest }),
            stops,
            "{cluster}: somebody else's etcd is left alone"
        );
        assert_eq!(has(&obs, "epoch-outdated"), stops);
    }
}

#[test]
fn an_etcd_of_a_replaced_epoch_is_no_foreign_cluster() {
    for (cluster, foreign) in [(FORMER, false), (ClusterId(0xf1), true)] {
        let mut obs = second_epoch(0);
        forgets(peer(&mut obs, 1), cluster);
        assert_eq!(has(&obs, "foreign-cluster"), foreign, "{cluster}");
    }
}

#[test]
fn a_node_with_data_of_a_replaced_epoch_may_join_and_one_with_foreign_data_may_not() {
    for (cluster_id, joins) in [(FORMER, true), (ClusterId(0xf1), false)] {
        let mut obs = second_epoch(0);
        let gone = obs.me.genesis.as_ref().unwrap().member_id(&name(1)).unwrap();
        if let Fact::Known(list) = &mut obs.me.members {
            list.members.retain(|m| m.id != gone);
        }
        let status = peer(&mut obs, 1);
        lose_data(status);
        status.assignment = None;
        status.data = Fact::Known(DataState::Present {
            cluster_id,
            member_id: MemberId(77),
        });
        assert_eq!(action(&obs) == Some("add-learner"), joins, "{cluster_id}");
    }
}

#[test]
fn a_disk_set_back_to_before_a_restore_counts_as_gone() {
    for (cluster_id, gone) in [(FORMER, true), (ClusterId(0xf1), false)] {
        let mut obs = second_epoch(0);
        let status = peer(&mut obs, 1);
        lose_data(status);
        status.data = Fact::Known(DataState::Present {
            cluster_id,
            member_id: MemberId(77),
        });
        assert_eq!(action(&obs) == Some("remove-member"), gone, "{cluster_id}");
    }
}

#[test]
fn a_restore_names_all_that_it_replaces() {
    let mut genesis = genesis(&spec(0, 3, 3), 3, 2, Origin::Empty);
    genesis.former = vec![FORMER];
    assert_eq!(genesis.lineage(), [FORMER, genesis.cluster_id]);
    assert!(genesis.replaces(FORMER) && !genesis.replaces(genesis.cluster_id));
    genesis.former = (0..100).map(ClusterId).collect();
    assert_eq!(genesis.lineage().len(), 64, "bounded, the oldest go first");
    assert_eq!(genesis.lineage().last(), Some(&genesis.cluster_id));
    assert!(genesis.defect().is_some(), "so many are refused from the network");
}

#[test]
fn an_epoch_replaces_what_a_node_followed_also_where_its_proposer_did_not_know_of_it() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let of = |epoch| genesis(&spec(0, 3, 3), 3, epoch, Origin::Backup(backup.clone()));
    let (two, mut three, mut later) = (of(2), of(3), of(190));
    three.former = two.lineage();
    later.former = two.lineage();
    assert!(!later.replaces(three.cluster_id));
    let mut record = crate::genesis::new_record(incarnation(0));
    for learned in [&two, &three, &later] {
        assert_eq!(crate::genesis::on_learn(&mut record, learned), Ok(true));
    }
    let known = record.chosen.unwrap();
    assert_eq!(known.former, [three.cluster_id, two.cluster_id]);
    assert!(known.same_value(&later));
}

#[test]
fn own_data_is_taken_up_without_a_quorum_that_may_wait_for_it() {
    let mut obs = healthy(0);
    let genesis = obs.me.genesis.clone().unwrap();
    obs.assignment = None;
    lose_data(&mut obs.me);
    obs.me.assignment = None;
    obs.me.incarnation = incarnation(7);
    // The member joined later: the genesis does not name it.
    obs.me.data = Fact::Known(DataState::Present {
        cluster_id: genesis.cluster_id,
        member_id: MemberId(77),
    });
    assert_ne!(action(&obs), Some("assign"), "the list says that it was removed");
    for fact in obs.peers.values_mut() {
        if let Fact::Known(status) = fact {
            status.members = Fact::Unreachable("no leader".into());
        }
    }
    match decide(&obs).action {
        Some(Action::Assign { assignment }) => {
            assert_eq!(assignment.member_id, MemberId(77));
            assert!(assignment.started && assignment.initial_state == InitialState::Existing);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn electors_that_lost_their_memory_together_say_what_they_wait_for() {
    let mut obs = fresh(0, 3, 3);
    obs.elector.eligible = false;
    assert!(!has(&obs, "memories-lost"));
    obs.elector.superseded = [name(0), name(1)].into();
    assert!(has(&obs, "memories-lost"));
}

/// If the clock is set back, nothing must wait until the clock has caught up.
#[test]
fn what_lasts_is_measured_by_a_clock_that_never_jumps() {
    let mut obs = fresh(0, 3, 3);
    obs.me.data = Fact::Unreachable("not looked at yet".into());
    let mut memory = Memory::default();
    memory.failures.insert(ActionKind::InspectData, (1, obs.steady));
    obs.now = UnixMs(1);
    assert_eq!(plan(&obs, &memory).action, None);
    obs.steady = SteadyMs(obs.steady.0 + 1000);
    assert_eq!(plan(&obs, &memory).action, Some(Action::InspectData));
}

/// Epoch 2 was restored from a backup; this node's etcd still serves epoch 1, and its last stop failed just
/// now.
fn a_stop_that_failed() -> (Observation, Memory) {
    let mut obs = healthy(0);
    let former = obs.me.genesis.clone().unwrap();
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut second = genesis(&obs.spec, 3, 2, Origin::Backup(backup));
    second.former = former.lineage();
    obs.me.genesis = Some(second);
    obs.me.newest_epoch = Epoch(2);
    obs.newest_epoch = Epoch(2);
    let mut memory = Memory::default();
    memory.failures.insert(ActionKind::StopEtcd, (1, obs.steady));
    (obs, memory)
}

#[test]
fn c02_a_restored_epoch_is_assigned_only_when_etcd_is_known_to_be_down() {
    let rows = [
        ("up", unit(ActiveState::Active), false),
        ("starting", unit(ActiveState::Activating), false),
        ("stopping", unit(ActiveState::Deactivating), false),
        ("unknown", Fact::Unreachable("no bus".into()), false),
        ("down", unit(ActiveState::Inactive), true),
        ("failed", unit(ActiveState::Failed), true),
    ];
    for (what, unit, assigned) in rows {
        let (mut obs, memory) = a_stop_that_failed();
        if unit.known().is_none_or(|u| u.active != ActiveState::Active) {
            obs.me.etcd = Fact::Absent;
        }
        obs.me.unit = unit;
        let decision = plan(&obs, &memory);
        let assigns =
            matches!(&decision.action, Some(Action::Assign { assignment }) if assignment.epoch == Epoch(2));
        assert_eq!(assigns, assigned, "{what}: {decision:?}");
        let waits = decision.reasons.iter().any(|r| r.code == "awaiting-stop");
        assert_eq!(waits, !assigned, "{what}: {decision:?}");
    }
}

#[test]
fn c02_a_stop_that_failed_is_tried_again_whatever_is_assigned_by_then() {
    let (mut obs, mut memory) = a_stop_that_failed();
    let second = obs.me.genesis.clone().unwrap();
    obs.assignment = Some(Assignment {
        started: false,
        removed: false,
        ..assignment(&obs.spec, &second, 0)
    });
    memory.failures.clear();
    let decision = plan(&obs, &memory);
    assert_eq!(
        decision.action,
        Some(Action::StopEtcd { newest: Epoch(2) }),
        "{decision:?}"
    );
}

/// systemd would start a crashed etcd again on the same data, and a cleared gate asks no agent.
#[test]
fn c02_the_gate_is_not_cleared_for_what_runs_as_another_member() {
    for (cluster, clears) in [(None, true), (Some(ClusterId(0xf1)), false)] {
        let mut obs = healthy(0);
        obs.gate.cleared = None;
        if let (Fact::Known(etcd), Some(cluster)) = (&mut obs.me.etcd, cluster) {
            etcd.cluster_id = cluster;
        }
        assert_eq!(action(&obs) == Some("clear-gate"), clears, "{:?}", decide(&obs));
    }
}

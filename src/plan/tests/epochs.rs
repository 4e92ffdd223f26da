//! What a newer epoch has replaced, and agents that have lost the memory of it.

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

/// Its agent was reinstalled while its etcd ran for this cluster.
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
fn own_data_is_taken_up_without_a_quorum_that_may_wait_for_it() {
    let mut obs = healthy(0);
    let genesis = obs.me.genesis.clone().unwrap();
    obs.assignment = None;
    lose_data(&mut obs.me);
    obs.me.assignment = None;
    obs.me.incarnation = incarnation(7);
    // It joined later: the genesis does not name this member.
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

/// A clock that is set back must not make anything wait until it has caught up.
#[test]
fn what_lasts_is_measured_by_a_clock_that_never_jumps() {
    let mut obs = fresh(0, 3, 3);
    obs.me.data = Fact::Unreachable("not looked at yet".into());
    let mut memory = Memory::default();
    memory.failures.insert("inspect-data".to_owned(), (1, obs.steady));
    obs.now = UnixMs(1);
    assert_eq!(plan(&obs, &memory, &obs.spec).action, None);
    obs.steady = SteadyMs(obs.steady.0 + 1000);
    assert_eq!(plan(&obs, &memory, &obs.spec).action, Some(Action::InspectData));
}

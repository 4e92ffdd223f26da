//! The safety rules on every decision, for arbitrary observations.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::safety::{Change, keeps_quorum};
use super::*;

/// One node as it may be seen: data, unit, reachability, memory.
fn any_node() -> impl Strategy<Value = (u8, u8, bool, u8, bool)> {
    (0..4u8, 0..5u8, prop::bool::weighted(0.8), 0..4u8, any::<bool>())
}

fn shape(
    spec: &Spec,
    i: usize,
    seen: (u8, u8, bool, u8, bool),
    g: &Genesis,
    g2: &Genesis,
    n: usize,
) -> Fact<NodeStatus> {
    let (data, active, reachable, epoch, started) = seen;
    if !reachable {
        return Fact::Unreachable("no route".into());
    }
    let mut status = node(spec, i);
    if epoch >= 1 {
        serving(spec, &mut status, if epoch == 3 { g2 } else { g }, i, n);
    }
    status.unit = unit(match active {
        0 => ActiveState::Active,
        1 => ActiveState::Activating,
        2 => ActiveState::Failed,
        3 => ActiveState::Inactive,
        _ => ActiveState::Deactivating,
    });
    if active != 0 || epoch == 0 {
        status.etcd = Fact::Absent;
        status.members = Fact::Unreachable("down".into());
        status.data = match data {
            0 => Fact::Known(DataState::Missing),
            1 => Fact::Known(DataState::Unusable {
                why: "no wal".into(),
                member: None,
            }),
            2 => Fact::Unreachable("not looked at".into()),
            _ => Fact::Known(DataState::Present {
                cluster_id: g.cluster_id,
                member_id: g.member_id(&name(i)).unwrap(),
            }),
        };
    }
    if let Some(a) = &mut status.assignment {
        a.started_once = started;
    }
    Fact::Known(status)
}

/// A store as it may be seen: none, silent, empty, with a trace of a cluster, with a genesis.
fn any_store(kind: u8, g: &Genesis) -> Fact<StoreView> {
    let view = StoreView {
        trace: (kind == 3).then(|| "prod/2026-01-01T00:00:00Z-000001/backup.json".to_owned()),
        ..store_view((kind == 4).then(|| g.clone()), None)
    };
    match kind {
        0 => Fact::Absent,
        1 => Fact::Unreachable("no route".into()),
        _ => Fact::Known(view),
    }
}

/// Sets which nodes want a restart, whether a person asks for another leader, and which node gives this one a
/// grant.
fn steer(obs: &mut Observation, me: usize, wants: [bool; 5], asks: bool, grant: Option<u8>) {
    let wish = || Some(RestartWish::new("settings".into()));
    let n = obs.spec.nodes.len();
    obs.me.steering.wants_restart = wish().filter(|_| wants[me]);
    obs.me.steering.leader_ask = asks.then(|| LeaderAsk {
        id: 1,
        to: None,
        from: obs.me.etcd.known().and_then(|e| e.leader),
    });
    for (i, node) in (0..n)
        .map(|i| (i, name(i)))
        .filter(|(_, node)| *node != obs.spec.node)
        .collect::<Vec<_>>()
    {
        if let Some(Fact::Known(status)) = obs.peers.get_mut(&node) {
            status.steering.wants_restart = wish().filter(|_| wants[i]);
            // Any peer may report a grant. Only the grant of the current leader's node counts.
            status.steering.grant = grant.filter(|by| usize::from(*by) == i).map(|_| Grant {
                node: obs.spec.node.clone(),
                id: 3,
                term: RaftTerm(2),
                purpose: GrantPurpose::Restart,
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6000))]

    /// Rules 1 to 6 and 8 on every decision, for arbitrary observations, both at once and long after the
    /// situation began.
    #[test]
    fn every_decision_keeps_the_safety_rules(
        nodes in prop::array::uniform5(any_node()),
        fresh_all in prop::bool::weighted(0.4),
        five in any::<bool>(),
        me in 0..3usize,
        eligible in prop::bool::weighted(0.8),
        restore in prop::bool::weighted(0.3),
        staged in any::<bool>(),
        fetched in any::<bool>(),
        memory_of_me in any::<bool>(),
        gate in any::<bool>(),
        applied in any::<bool>(),
        (aged, store, shared) in (any::<bool>(), 0..5u8, any::<bool>()),
        (wants, asks, grant) in (prop::array::uniform5(prop::bool::weighted(0.2)), prop::bool::weighted(0.2), prop::option::weighted(0.3, 0..5u8)),
    ) {
        let n = if five { 5 } else { 3 };
        let mut nodes = nodes;
        if fresh_all {
            for node in &mut nodes {
                node.3 = 0;
            }
        }
        let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
        let mut obs = fresh(me, n, 3);
        obs.spec.store_shared = shared && store != 0;
        let spec = obs.spec.clone();
        let g = genesis(&spec, n, 1, Origin::Empty);
        let g2 = genesis(&spec, n, 2, Origin::Backup(backup.clone()));
        let mut seen_me = nodes[me];
        seen_me.2 = true;
        let Fact::Known(status) = shape(&spec, me, seen_me, &g, &g2, n) else { panic!("own node is known") };
        obs.me = status;
        for i in (0..n).filter(|i| *i != me) {
            obs.peers.insert(name(i), shape(&spec, i, nodes[i], &g, &g2, n));
        }
        obs.store = any_store(store, &g);
        obs.elector.eligible = eligible;
        obs.newest_epoch = obs.me.newest_epoch;
        obs.assignment = obs.me.genesis.as_ref().filter(|_| memory_of_me).map(|g| {
            let mut a = assignment(&spec, g, me);
            a.restore = (g.epoch == Epoch(2)).then(|| backup.clone());
            a.started = a.restore.is_none();
            a
        });
        if obs.assignment.is_none() {
            obs.me.assignment = None;
        }
        obs.staged = staged.then(|| (Epoch(2), backup.clone()));
        obs.fetched = fetched.then(|| backup.clone());
        if restore {
            obs.requests = vec![restore_from(backup.clone(), Some(Epoch(0)))];
        }
        if applied {
            obs.in_force = in_force();
        }
        obs.gate.cleared = gate.then_some(Generation(2));
        steer(&mut obs, me, wants, asks, grant);

        let of_store = obs.store.known().and_then(|s| s.genesis.as_ref()).map(|g| g.epoch).unwrap_or_default();
        let newest = obs.peers.values().filter_map(Fact::known).map(|s| s.newest_epoch).max().unwrap_or_default().max(obs.newest_epoch).max(of_store);
        let known = || obs.peers.values().filter_map(Fact::known).chain([&obs.me]);
        let reachable = known().count();
        let serving = || known().filter(|s| s.etcd.known().is_some()).count();
        let leads = obs.me.etcd.known().is_some_and(|e| e.leader == Some(e.member_id));
        let memory = if aged {
            let first = plan(&Observation { steady: SteadyMs(1), ..obs.clone() }, &Memory::default()).memory;
            Memory { failures: std::collections::BTreeMap::new(), ..first }
        } else {
            Memory::default()
        };
        match plan(&obs, &memory).action {
            Some(Action::Propose { genesis, .. }) => {
                prop_assert!(eligible, "rule 1: an elector without memory proposed");
                prop_assert_eq!(genesis.epoch, newest.next());
                if genesis.origin == Origin::Empty {
                    prop_assert_eq!(newest, Epoch(0));
                    prop_assert!(2 * reachable > n && 2 * genesis.members.len() > 3, "rule 8: a minority proposed");
                    prop_assert!(known().all(|s| s.data == Fact::Known(DataState::Missing)), "rule 2: an empty cluster next to data, or next to a directory that was not inspected");
                    let stored = obs.store.known().is_some_and(|s| s.trace.is_some() || s.genesis.is_some());
                    prop_assert!(!stored, "rule 2: an empty cluster despite a trace in the store");
                    prop_assert!(!obs.spec.store_shared || obs.store.known().is_some(), "rule 8: the shared store does not answer");
                } else {
                    prop_assert!(restore && fetched, "rule 6: a restore that nobody asked for, or that is not fetched");
                }
            }
            Some(Action::ReplaceData { staged: with, .. }) => {
                let active = obs.me.unit.known().unwrap().active;
                prop_assert!(!active.is_up());
                prop_assert!(obs.me.data.known().is_some(), "rule 8: acted on an unknown data directory");
                let assigned = obs.assignment.as_ref().unwrap();
                let own = DataState::Present { cluster_id: assigned.cluster_id, member_id: assigned.member_id };
                prop_assert!(obs.me.data != Fact::Known(own), "rule 5: a member's own data was moved away");
                if with {
                    prop_assert!(staged, "rule 6: replaced before the restored data was staged");
                    prop_assert_eq!(assigned.epoch, Epoch(2));
                } else {
                    let there = matches!(obs.me.data, Fact::Known(DataState::Unusable { .. } | DataState::Present { .. }));
                    prop_assert!(there);
                }
            }
            Some(Action::StartEtcd { fence }) => {
                prop_assert_eq!(fence.epoch, newest, "rule 1: an older epoch was started");
                prop_assert!(gate && applied);
                let known = matches!(obs.me.data, Fact::Known(DataState::Present { .. }));
                prop_assert!(known, "an initial-cluster-state=existing member was started without its data");
            }
            Some(Action::RemoveMember { node, .. }) => {
                let status = obs.peers.get(&node).and_then(Fact::known);
                let attested = status.is_some_and(|s| matches!(s.data, Fact::Known(DataState::Missing | DataState::Unusable { .. })));
                prop_assert!(attested, "rule 8: removed on hearsay");
                prop_assert!(2 * serving() > n, "rule 3");
            }
            // In every list all nodes are voters.
            Some(Action::AddLearner { node, .. }) => prop_assert!(false, "rule 3: {node} is a member already"),
            Some(Action::Promote { node, .. }) => prop_assert!(false, "rule 3: {node} has its vote"),
            Some(Action::MoveLeader { to, node, .. }) => {
                prop_assert!(leads, "rule 4: the leader was moved by another");
                prop_assert!(asks || wants[me], "rule 4: nobody has asked for it");
                let there = obs.peers.get(&node).and_then(Fact::known).and_then(|s| s.etcd.known());
                prop_assert!(there.is_some_and(|e| e.member_id == to), "rule 4: to a member that does not serve");
            }
            Some(Action::RestartEtcd { coordinator, .. }) => {
                prop_assert!(wants[me], "rule 4: nothing to restart for");
                prop_assert!(gate && applied);
                let etcd = obs.me.etcd.known().unwrap();
                let theirs = obs.peers.get(&coordinator).and_then(Fact::known).and_then(|s| s.etcd.known()).unwrap();
                prop_assert_eq!(etcd.leader, Some(theirs.member_id), "rule 4: without a grant of the leader's node");
            }
            Some(Action::Assign { assignment }) => {
                let mine = obs.me.genesis.as_ref().unwrap();
                prop_assert_eq!(assignment.epoch, mine.epoch);
                let older = obs.assignment.as_ref().is_some_and(|a| a.epoch < mine.epoch);
                let up = obs.me.unit.known().is_none_or(|u| u.active.is_up() || u.active == ActiveState::Deactivating);
                let serves = obs.me.etcd.known().is_some_and(|e| e.cluster_id == mine.cluster_id);
                prop_assert!(!(older && up) || serves, "rule 1: assigned while an etcd runs that may be of an older epoch");
            }
            _ => {}
        }
    }
}

proptest! {
    /// Rule 3 as arithmetic: an allowed change leaves a healthy quorum, and a refused one would not.
    #[test]
    fn a_change_is_allowed_exactly_when_quorum_is_there_before_and_after(
        voters in prop::collection::btree_set(0..9u64, 0..8),
        healthy in prop::collection::btree_set(0..9u64, 0..9),
        of in 0..9u64,
        kind in 0..3u8,
    ) {
        let ids = |set: &BTreeSet<u64>| set.iter().copied().map(MemberId).collect::<BTreeSet<_>>();
        let mut after = voters.clone();
        let change = match kind {
            0 => Change::NoVote,
            1 => {
                after.remove(&of);
                Change::RemoveVoter(MemberId(of))
            }
            _ => {
                after.insert(of);
                Change::Promote(MemberId(of))
            }
        };
        let quorate = |of: &BTreeSet<u64>| 2 * of.intersection(&healthy).count() > of.len();
        prop_assert_eq!(
            keeps_quorum(&ids(&voters), &ids(&healthy), change),
            quorate(&voters) && quorate(&after)
        );
    }
}

/// One voter as it may be: reachable, etcd up, held, data lost, and for each other node whether its agent and
/// its etcd are silent for this voter.
fn any_voter() -> impl Strategy<Value = (bool, bool, bool, bool, [bool; 5], [bool; 5])> {
    let mostly = || prop::bool::weighted(0.7);
    (
        mostly(),
        mostly(),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.2),
        prop::array::uniform5(any::<bool>()),
        prop::array::uniform5(any::<bool>()),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Rules 3 and 8 on every removal, for arbitrary observations, also long after the situation began. Only
    /// the coordinator removes a member, on a list read through quorum. It never removes its own node. A
    /// quorum of healthy voters remains. A silent member is removed only if no observer that answers
    /// disagrees.
    #[test]
    fn every_removal_keeps_the_safety_rules(
        voters in prop::array::uniform5(any_voter()),
        leads in prop::bool::weighted(0.9),
        linearizable in prop::bool::weighted(0.9),
        size in prop::sample::select(vec![1usize, 3, 5]),
        join in prop::sample::select(vec![Join::Prepare, Join::Add, Join::Replace, Join::Prune]),
        learner in prop::option::weighted(0.3, any::<bool>()),
        grace_over in any::<bool>(),
    ) {
        let mut obs = cluster(6, 5, size);
        obs.spec.join = join;
        obs.spec.backup_interval = None;
        for (i, (reachable, up, held, gone, agents, etcds)) in voters.into_iter().enumerate() {
            let misses = |those: [bool; 5]| (0..5).filter(|j| *j != i && those[*j]).map(name).collect::<BTreeSet<_>>();
            if i == 0 {
                (obs.me.silent_agents, obs.me.silent_etcds) = (misses(agents), misses(etcds));
                continue;
            }
            if !reachable {
                obs.peers.insert(name(i), Fact::Unreachable("no route".into()));
                continue;
            }
            let status = peer(&mut obs, i);
            (status.silent_agents, status.silent_etcds) = (misses(agents), misses(etcds));
            if !up {
                lose_data(status);
                if !gone {
                    status.data = Fact::Unreachable("not looked at".into());
                }
                if let Fact::Known(unit) = &mut status.unit {
                    unit.held = held;
                }
            }
        }
        if let Some(started) = learner {
            super::learners::with_learner(&mut obs, 5, started);
        }
        if !leads && let Fact::Known(etcd) = &mut obs.me.etcd {
            etcd.leader = Some(MemberId(1));
        }
        if let Fact::Known(list) = &mut obs.me.members {
            list.linearizable = linearizable;
        }
        // The replacement is the existing learner, or else the spare.
        let replacement = |by: Option<MemberId>| by.is_some() || learner.is_none();
        let first = decide(&obs);
        let mut later = obs.clone();
        later.now = UnixMs(obs.now.0 + if grace_over { 3_600_000 } else { 60_000 });
        later.steady = SteadyMs(later.now.0);
        let decision = plan(&later, &first.memory);
        for (action, waited) in [(first.action, false), (decision.action, grace_over)] {
            let Some(Action::RemoveMember { id, node, why, replaced_by, .. }) = action else { continue };
            prop_assert!(leads && linearizable, "rule 8: decided without quorum");
            prop_assert_ne!(&node, &name(0), "the raft leader");
            let list = obs.me.members.known().unwrap();
            let voters = list.voter_ids();
            let healthy: BTreeSet<MemberId> = obs.peers.values().filter_map(Fact::known).chain([&obs.me])
                .filter_map(|s| s.etcd.known()).map(|e| e.member_id).filter(|id| voters.contains(id)).collect();
            let after = voters.iter().filter(|v| **v != id).count();
            let healthy_after = healthy.iter().filter(|v| **v != id).count();
            if voters.contains(&id) {
                prop_assert!(2 * healthy.len() > voters.len() && 2 * healthy_after > after, "rule 3");
                prop_assert!(matches!(join, Join::Replace | Join::Prune), "{join} removes no voter");
            }
            match why {
                Removal::Dead => {
                    prop_assert!(waited, "before the grace was over");
                    prop_assert!(obs.peers[&node].is_unreachable());
                    let says = |s: &NodeStatus| s.silent_agents.contains(&node) && s.silent_etcds.contains(&node);
                    let mut witnesses = (1..5).filter(|i| name(*i) != node).filter_map(|i| obs.peers[&name(i)].known()).peekable();
                    prop_assert!(witnesses.peek().is_some(), "on one observer's word");
                    prop_assert!(obs.me.silent_etcds.contains(&node) && witnesses.all(says));
                    prop_assert!(replacement(replaced_by) || join == Join::Prune);
                }
                Removal::Broken => prop_assert!(waited && replacement(replaced_by)),
                Removal::Corrupt => prop_assert!(false, "nothing was compared"),
                Removal::Gone => prop_assert!(!matches!(obs.peers[&node].known().unwrap().data, Fact::Unreachable(_))),
                Removal::Excess => prop_assert!(voters.len() > size),
                Removal::Unstarted | Removal::Stuck | Removal::Surplus => prop_assert!(!voters.contains(&id)),
            }
        }
    }
}

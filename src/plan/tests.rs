//! The planner against everyday situations, one row each, and against whatever can be seen at all.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::plan;
use crate::model::*;

fn name(i: usize) -> NodeName {
    NodeName::new(format!("n{}", i + 1)).unwrap()
}

fn incarnation(i: usize) -> Incarnation {
    Incarnation::new(format!("{:032x}", i + 1)).unwrap()
}

fn spec(me: usize, nodes: usize, size: usize) -> Spec {
    Spec {
        cluster: ClusterName::new("prod").unwrap(),
        node: name(me),
        size,
        nodes: (0..nodes).map(|i| (name(i), name(i).to_string())).collect(),
        etcd: EtcdSpec {
            data_dir: "/var/lib/etcd/default".into(),
            client_port: 2379,
            peer_port: 2380,
            client_tls: None,
            peer_tls: None,
            binary: None,
            settings: BTreeMap::new(),
        },
        backup_interval: Some(Duration::from_mins(15)),
        backup: BackupSpec::default(),
        store_shared: false,
        grace: Duration::from_mins(5),
    }
}

fn genesis(spec: &Spec, members: usize, epoch: u64, origin: Origin) -> Genesis {
    let token = format!("prod-{epoch}-abc");
    let members: BTreeMap<_, _> = (0..members)
        .map(|i| (name(i), vec![spec.peer_url(&name(i)).unwrap()]))
        .collect();
    Genesis {
        epoch: Epoch(epoch),
        cluster: spec.cluster.clone(),
        cluster_id: cluster_id_of(&members, &token),
        token,
        members,
        origin,
        electorate: (0..spec.nodes.len()).map(|i| (name(i), incarnation(i))).collect(),
        created: UnixMs(1),
    }
}

fn unit(active: ActiveState) -> Fact<UnitState> {
    let up = active == ActiveState::Active;
    Fact::Known(UnitState {
        active,
        sub: if up { "running" } else { "dead" }.into(),
        result: "success".into(),
        main_pid: u32::from(up),
        load: "loaded".into(),
        held: false,
    })
}

fn node(spec: &Spec, i: usize) -> NodeStatus {
    NodeStatus {
        node: name(i),
        agent_version: "0".into(),
        incarnation: incarnation(i),
        boot_id: "b".into(),
        cluster: spec.cluster.clone(),
        spec_digest: spec.digest(),
        electorate_digest: spec.electorate_digest(),
        eligible: true,
        unit: unit(ActiveState::Inactive),
        data: Fact::Known(DataState::Missing),
        assignment: None,
        etcd: Fact::Absent,
        members: Fact::Unreachable("down".into()),
        newest_epoch: Epoch(0),
        genesis: None,
        last_backup: None,
        certificate_not_after: None,
        steering: Steering::default(),
        insecure: false,
        now: UnixMs(0),
        text: String::new(),
    }
}

/// Nothing anywhere yet; everybody answers and may vote.
fn fresh(me: usize, nodes: usize, size: usize) -> Observation {
    let spec = spec(me, nodes, size);
    Observation {
        now: UnixMs(1_000_000),
        seed: 7,
        me: node(&spec, me),
        assignment: None,
        newest_epoch: Epoch(0),
        elector: ElectorView {
            eligible: true,
            enquired: (0..nodes).map(name).collect(),
            highest_round: 0,
            accepted: None,
        },
        peers: (0..nodes)
            .filter(|i| *i != me)
            .map(|i| (name(i), Fact::Known(node(&spec, i))))
            .collect(),
        store: Fact::Absent,
        in_force: Fact::Absent,
        gate: GateView::default(),
        staged: None,
        fetched: None,
        backup: Job::default(),
        backups: BackupView::default(),
        restore: Job::default(),
        requests: Vec::new(),
        spec,
    }
}

fn members(spec: &Spec, g: &Genesis, n: usize) -> MemberList {
    MemberList {
        cluster_id: g.cluster_id,
        term: RaftTerm(2),
        linearizable: true,
        members: (0..n)
            .map(|i| Member {
                id: g.member_id(&name(i)).unwrap(),
                name: name(i).to_string(),
                peer_urls: vec![spec.peer_url(&name(i)).unwrap()],
                client_urls: vec![],
                is_learner: false,
            })
            .collect(),
    }
}

fn serving(spec: &Spec, status: &mut NodeStatus, g: &Genesis, i: usize, n: usize) {
    let id = g.member_id(&name(i)).unwrap();
    status.unit = unit(ActiveState::Active);
    status.data = Fact::Known(DataState::Present {
        cluster_id: g.cluster_id,
        member_id: id,
    });
    status.assignment = Some(AssignmentSummary {
        generation: Generation(2),
        epoch: g.epoch,
        cluster_id: g.cluster_id,
        member_id: id,
        started_once: true,
    });
    status.etcd = Fact::Known(EtcdStatus {
        version: "3.5.35".into(),
        cluster_id: g.cluster_id,
        member_id: id,
        leader: g.member_id(&name(0)),
        is_learner: false,
        term: RaftTerm(2),
        index: 10,
        applied: 10,
        db_size_bytes: 1,
        revision: Revision(5),
        errors: vec![],
    });
    status.members = Fact::Known(members(spec, g, n));
    status.newest_epoch = g.epoch;
    status.genesis = Some(g.clone());
}

fn assignment(spec: &Spec, g: &Genesis, i: usize) -> Assignment {
    Assignment {
        generation: Generation(2),
        epoch: g.epoch,
        node: name(i),
        member_id: g.member_id(&name(i)).unwrap(),
        cluster_id: g.cluster_id,
        token: g.token.clone(),
        role: Role::Founder,
        initial_state: InitialState::Existing,
        initial_cluster: g.members.clone(),
        data_dir: spec.etcd.data_dir.clone(),
        started: true,
        restore: None,
        settings_digest: spec.etcd.digest(),
    }
}

fn in_force() -> Fact<InForce> {
    Fact::Known(InForce {
        generation: Generation(2),
        settings_digest: String::new(),
        initial_state: InitialState::Existing,
        conflicts: vec![],
    })
}

/// A healthy cluster of three, seen from `me`; n1 leads.
fn healthy(me: usize) -> Observation {
    let mut obs = fresh(me, 3, 3);
    let spec = obs.spec.clone();
    let g = genesis(&spec, 3, 1, Origin::Empty);
    serving(&spec, &mut obs.me, &g, me, 3);
    for i in (0..3).filter(|i| *i != me) {
        let mut peer = node(&spec, i);
        serving(&spec, &mut peer, &g, i, 3);
        obs.peers.insert(name(i), Fact::Known(peer));
    }
    obs.assignment = Some(assignment(&spec, &g, me));
    obs.newest_epoch = Epoch(1);
    obs.in_force = in_force();
    obs.gate.cleared = Some(Generation(2));
    obs
}

fn lose_data(status: &mut NodeStatus) {
    status.unit = unit(ActiveState::Failed);
    status.data = Fact::Known(DataState::Missing);
    status.etcd = Fact::Absent;
    status.members = Fact::Unreachable("down".into());
}

fn peer(obs: &mut Observation, i: usize) -> &mut NodeStatus {
    match obs.peers.get_mut(&name(i)).unwrap() {
        Fact::Known(status) => status,
        _ => panic!("n{} is not known", i + 1),
    }
}

fn decide(obs: &Observation) -> Decision {
    plan(obs, &Memory::default(), &obs.spec)
}

fn action(obs: &Observation) -> Option<&'static str> {
    decide(obs).action.as_ref().map(Action::name)
}

fn has(obs: &Observation, code: &str) -> bool {
    decide(obs).reasons.iter().any(|r| r.code == code)
}

#[test]
fn three_fresh_nodes_the_lowest_name_proposes_all_three() {
    let Some(Action::Propose { genesis, .. }) = decide(&fresh(0, 3, 3)).action else {
        panic!("no proposal")
    };
    assert_eq!(genesis.members.len(), 3);
    assert_eq!(genesis.origin, Origin::Empty);
    assert_eq!(action(&fresh(1, 3, 3)), None);
}

#[test]
fn one_node_alone_forms_a_cluster_of_one() {
    assert_eq!(action(&fresh(0, 1, 1)), Some("propose"));
}

#[test]
fn s04_under_size_one_the_second_node_is_no_member() {
    let Some(Action::Propose { genesis, .. }) = decide(&fresh(0, 2, 1)).action else {
        panic!("no proposal")
    };
    assert_eq!(genesis.members.keys().collect::<Vec<_>>(), vec![&name(0)]);
    let mut spare = fresh(1, 2, 1);
    spare.me.genesis = Some(*genesis.clone());
    spare.newest_epoch = Epoch(1);
    assert!(has(&spare, "spare"));
    assert_eq!(action(&spare), None);
}

#[test]
fn rule_8_a_new_memory_with_a_silent_elector_decides_nothing() {
    let mut obs = fresh(0, 3, 3);
    obs.elector.eligible = false;
    obs.elector.enquired = BTreeSet::from([name(1)]);
    obs.peers.insert(name(2), Fact::Unreachable("no route".into()));
    assert!(!matches!(action(&obs), Some("propose")));
    assert!(has(&obs, "new-memory"));
}

#[test]
fn s50_no_empty_cluster_beside_data_that_another_still_holds() {
    let mut obs = fresh(0, 3, 3);
    peer(&mut obs, 2).data = Fact::Known(DataState::Present {
        cluster_id: ClusterId(1),
        member_id: MemberId(2),
    });
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "data-without-epoch"));
}

#[test]
fn s39_a_shared_store_that_does_not_answer_holds_the_first_epoch_back() {
    let mut obs = fresh(0, 3, 3);
    obs.spec.store_shared = true;
    obs.store = Fact::Unreachable("timed out".into());
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "store-unreachable"));
}

#[test]
fn a_store_that_ignores_conditions_is_named() {
    let mut obs = fresh(0, 3, 3);
    obs.spec.store_shared = true;
    obs.store = Fact::Known(StoreView {
        genesis: None,
        newest_backup: None,
        conditional_writes: false,
    });
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "store-ignores-conditions"));
}

#[test]
fn rule_1_a_second_genesis_of_an_epoch_halts_everything() {
    let mut obs = healthy(0);
    let mut other = genesis(&obs.spec, 3, 1, Origin::Empty);
    other.token = "prod-1-other".into();
    peer(&mut obs, 1).genesis = Some(other);
    let decision = decide(&obs);
    assert_eq!(decision.action, None);
    assert!(decision.reasons.iter().any(|r| r.halt && r.code == "two-geneses"));
}

#[test]
fn rule_1_etcd_of_an_older_epoch_is_stopped() {
    let mut obs = healthy(1);
    let newer = genesis(&obs.spec, 3, 2, Origin::Empty);
    obs.me.genesis = Some(newer);
    obs.newest_epoch = Epoch(2);
    assert_eq!(action(&obs), Some("stop-etcd"));
}

#[test]
fn a_healthy_cluster_is_backed_up_by_its_coordinator_only() {
    let view = StoreView {
        genesis: None,
        newest_backup: None,
        conditional_writes: true,
    };
    let mut obs = healthy(0);
    obs.store = Fact::Known(view.clone());
    assert_eq!(action(&obs), Some("backup"));
    let mut follower = healthy(1);
    follower.store = Fact::Known(view);
    assert_eq!(action(&follower), None);
}

#[test]
fn s15_a_member_whose_own_agent_attests_the_loss_is_removed() {
    let mut obs = healthy(0);
    lose_data(peer(&mut obs, 2));
    assert_eq!(action(&obs), Some("remove-member"));
}

#[test]
fn rule_8_unreachable_is_no_attestation() {
    let mut obs = healthy(0);
    obs.peers.insert(name(2), Fact::Unreachable("no route".into()));
    assert_eq!(action(&obs), None);
}

#[test]
fn rule_3_nothing_is_removed_without_quorum_of_healthy_voters() {
    let mut obs = healthy(0);
    lose_data(peer(&mut obs, 2));
    obs.peers.insert(name(1), Fact::Unreachable("no route".into()));
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "too-few-healthy"));
}

#[test]
fn after_the_removal_the_node_is_added_as_a_learner() {
    let mut obs = healthy(0);
    lose_data(peer(&mut obs, 2));
    if let Fact::Known(list) = &mut obs.me.members {
        list.members.truncate(2);
    }
    assert_eq!(action(&obs), Some("add-learner"));
}

#[test]
fn a_founder_that_is_restoring_is_not_lost() {
    let mut obs = healthy(0);
    let third = peer(&mut obs, 2);
    lose_data(third);
    third.assignment.as_mut().unwrap().started_once = false;
    assert_eq!(action(&obs), None);
}

#[test]
fn s17_with_all_data_lost_nothing_goes_on_alone() {
    let mut obs = healthy(0);
    lose_data(&mut obs.me);
    for i in 1..3 {
        lose_data(peer(&mut obs, i));
    }
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "all-data-lost"));
}

#[test]
fn s48_a_reinstalled_founder_does_not_come_back_with_no_memory() {
    let mut obs = healthy(2);
    lose_data(&mut obs.me);
    obs.me.assignment = None;
    obs.assignment = None;
    obs.me.incarnation = incarnation(9);
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "lost-membership"));
}

#[test]
fn a_conflicting_setting_keeps_etcd_from_being_started() {
    let mut obs = healthy(1);
    obs.me.unit = unit(ActiveState::Inactive);
    obs.me.etcd = Fact::Absent;
    if let Fact::Known(f) = &mut obs.in_force {
        f.conflicts.push("/etc/default/etcd:3: --config-file".into());
    }
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "settings-overridden"));
}

#[test]
fn a_crashed_member_is_started_again_and_a_held_one_is_not() {
    let mut obs = healthy(1);
    obs.me.unit = unit(ActiveState::Failed);
    obs.me.etcd = Fact::Absent;
    assert_eq!(action(&obs), Some("start-etcd"));
    if let Fact::Known(u) = &mut obs.me.unit {
        u.held = true;
    }
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "held"));
}

#[test]
fn a_member_seen_running_for_the_first_time_is_remembered_as_started() {
    let mut obs = healthy(1);
    if let Some(a) = &mut obs.assignment {
        a.started = false;
        a.initial_state = InitialState::New;
    }
    let Some(Action::Assign { assignment }) = decide(&obs).action else {
        panic!("not remembered")
    };
    assert!(assignment.started);
    assert_eq!(assignment.initial_state, InitialState::Existing);
}

#[test]
fn a_start_that_the_gate_holds_back_for_want_of_data_is_cancelled() {
    let mut obs = healthy(1);
    lose_data(&mut obs.me);
    if let Fact::Known(u) = &mut obs.me.unit {
        u.active = ActiveState::Activating;
        u.sub = "start-pre".into();
    }
    assert_eq!(action(&obs), Some("cancel-start"));
}

#[test]
fn a_learner_that_lost_its_data_is_removed_too() {
    let mut obs = healthy(0);
    lose_data(peer(&mut obs, 2));
    if let Fact::Known(list) = &mut obs.me.members {
        list.members[2].is_learner = true;
    }
    assert_eq!(action(&obs), Some("remove-member"));
}

#[test]
fn a_reinstalled_agent_takes_its_joined_member_up_again() {
    let mut obs = healthy(2);
    obs.assignment = None;
    obs.me.assignment = None;
    obs.me.incarnation = incarnation(9);
    let joined = MemberId(77);
    if let Fact::Known(DataState::Present { member_id, .. }) = &mut obs.me.data {
        *member_id = joined;
    }
    if let Fact::Known(list) = &mut peer(&mut obs, 0).members {
        list.members[2].id = joined;
    }
    let Some(Action::Assign { assignment }) = decide(&obs).action else {
        panic!("not taken up")
    };
    assert_eq!((assignment.member_id, assignment.started), (joined, true));
}

#[test]
fn a_backup_that_cannot_be_taken_here_is_answered() {
    let mut obs = healthy(1);
    lose_data(&mut obs.me);
    obs.requests = vec![OperatorRequest::Backup];
    assert!(matches!(
        decide(&obs).action,
        Some(Action::Answer { done: false, .. })
    ));
}

#[test]
fn s30_old_backups_go_once_after_each_new_one() {
    type Change = fn(&mut Observation);
    let mut obs = healthy(0);
    assert_ne!(action(&obs), Some("prune"), "nothing is known of the store");
    let newest = BackupSummary {
        id: BackupId::new("2026-03-01T12:00:00Z-000003").unwrap(),
        at: obs.now,
        revision: Revision(1),
        size_bytes: 1,
    };
    let after = Some(newest.id.clone());
    obs.store = Fact::Known(StoreView {
        genesis: obs.me.genesis.clone(),
        newest_backup: Some(newest),
        conditional_writes: true,
    });
    assert_eq!(decide(&obs).action, Some(Action::Prune { after: after.clone() }));
    let rows: [(&str, Change); 6] = [
        ("paused", |o| {
            o.me.steering.directives.paused = Some(crate::model::Paused {
                by: name(0),
                since: o.now,
            });
        }),
        ("done for this one", |o| {
            o.backups.pruned = Some(BackupId::new("2026-03-01T12:00:00Z-000003").unwrap());
        }),
        ("running", |o| o.backups.prune.running = true),
        ("failed just now", |o| o.backups.prune.failed_at = Some(o.now)),
        ("switched off", |o| o.spec.backup.retention.enabled = false),
        ("the store does not answer", |o| {
            o.store = Fact::Unreachable("x".into());
        }),
    ];
    for (what, change) in rows {
        let mut other = obs.clone();
        change(&mut other);
        assert_eq!(action(&other), None, "{what}");
    }
    // A person may ask on any node, and whatever is switched off.
    obs.spec.backup.retention.enabled = false;
    obs.requests = vec![OperatorRequest::Prune];
    assert_eq!(decide(&obs).action, Some(Action::Prune { after }));
}

#[test]
fn a_running_cluster_of_one_is_taken_over_and_a_larger_one_is_not() {
    let mut obs = fresh(0, 1, 1);
    let spec = obs.spec.clone();
    let foreign = genesis(&spec, 1, 9, Origin::Empty);
    let mut running = node(&spec, 0);
    serving(&spec, &mut running, &foreign, 0, 1);
    (obs.me.unit, obs.me.data, obs.me.etcd, obs.me.members) =
        (running.unit, running.data, running.etcd, running.members);
    let Some(Action::Propose { genesis, .. }) = decide(&obs).action else {
        panic!("not taken over")
    };
    assert_eq!(
        (genesis.cluster_id, genesis.origin.clone()),
        (foreign.cluster_id, Origin::Member(name(0)))
    );
    assert_eq!(genesis.defect(), None);
    if let Fact::Known(list) = &mut obs.me.members {
        let mut second = list.members[0].clone();
        second.id = MemberId(5);
        list.members.push(second);
    }
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "data-without-epoch"));
}

#[test]
fn the_data_is_looked_at_while_systemd_waits_to_restart_a_crashed_etcd() {
    let mut obs = healthy(1);
    obs.me.etcd = Fact::Absent;
    obs.me.data = Fact::Unreachable("etcd ran since".into());
    if let Fact::Known(u) = &mut obs.me.unit {
        u.active = ActiveState::Activating;
        u.sub = "auto-restart".into();
    }
    assert_eq!(action(&obs), Some("inspect-data"));
}

#[test]
fn an_unconfirmed_epoch_is_not_started() {
    let mut obs = healthy(1);
    obs.me.unit = unit(ActiveState::Inactive);
    obs.me.etcd = Fact::Absent;
    obs.gate.cleared = None;
    for i in [0, 2] {
        obs.peers.insert(name(i), Fact::Unreachable("no route".into()));
    }
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "epoch-unconfirmed"));
}

#[test]
fn rule_6_a_restore_begins_with_fetching_and_proposes_only_what_is_fetched() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut obs = healthy(0);
    lose_data(&mut obs.me);
    for i in 1..3 {
        lose_data(peer(&mut obs, i));
    }
    obs.requests = vec![OperatorRequest::Restore {
        backup: backup.clone(),
        without: BTreeSet::new(),
        above: Epoch(0),
    }];
    assert_eq!(action(&obs), Some("fetch-backup"));
    obs.fetched = Some(backup);
    let Some(Action::Propose { genesis, .. }) = decide(&obs).action else {
        panic!("no proposal")
    };
    assert_eq!(genesis.epoch, Epoch(2));
}

#[test]
fn rule_5_the_old_data_makes_way_only_for_a_staged_restore() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut obs = healthy(1);
    let g = genesis(&obs.spec, 3, 2, Origin::Backup(backup.clone()));
    obs.me.unit = unit(ActiveState::Inactive);
    obs.me.etcd = Fact::Absent;
    obs.me.genesis = Some(g.clone());
    obs.newest_epoch = Epoch(2);
    let mut wanted = assignment(&obs.spec, &g, 1);
    wanted.restore = Some(backup.clone());
    wanted.started = false;
    obs.assignment = Some(wanted);
    obs.fetched = Some(backup.clone());
    assert_eq!(action(&obs), Some("stage-restore"));
    obs.staged = Some((Epoch(2), backup));
    assert_eq!(action(&obs), Some("replace-data"));
}

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
) -> Fact<NodeStatus> {
    let (data, active, reachable, epoch, started) = seen;
    if !reachable {
        return Fact::Unreachable("no route".into());
    }
    let mut status = node(spec, i);
    if epoch >= 1 {
        serving(spec, &mut status, if epoch == 3 { g2 } else { g }, i, 3);
    }
    status.unit = unit(match active {
        0 => ActiveState::Active,
        1 => ActiveState::Activating,
        2 => ActiveState::Failed,
        3 => ActiveState::Inactive,
        _ => ActiveState::Deactivating,
    });
    if active != 0 {
        status.etcd = Fact::Absent;
        status.members = Fact::Unreachable("down".into());
        status.data = match data {
            0 => Fact::Known(DataState::Missing),
            1 => Fact::Known(DataState::Unusable { why: "no wal".into() }),
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Rules 1, 3, 5, 6 and 8 on every decision, whatever is seen.
    #[test]
    fn every_decision_keeps_the_safety_rules(
        nodes in prop::array::uniform3(any_node()),
        me in 0..3usize,
        eligible in any::<bool>(),
        restore in prop::bool::weighted(0.3),
        staged in any::<bool>(),
        fetched in any::<bool>(),
        memory_of_me in any::<bool>(),
        gate in any::<bool>(),
        applied in any::<bool>(),
    ) {
        let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
        let mut obs = fresh(me, 3, 3);
        let spec = obs.spec.clone();
        let g = genesis(&spec, 3, 1, Origin::Empty);
        let g2 = genesis(&spec, 3, 2, Origin::Backup(backup.clone()));
        let mut seen_me = nodes[me];
        seen_me.2 = true;
        let Fact::Known(status) = shape(&spec, me, seen_me, &g, &g2) else { panic!("own node is known") };
        obs.me = status;
        for i in (0..3).filter(|i| *i != me) {
            obs.peers.insert(name(i), shape(&spec, i, nodes[i], &g, &g2));
        }
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
            obs.requests = vec![OperatorRequest::Restore { backup: backup.clone(), without: BTreeSet::new(), above: Epoch(0) }];
        }
        if applied {
            obs.in_force = in_force();
        }
        obs.gate.cleared = gate.then_some(Generation(2));

        let newest = obs.peers.values().filter_map(Fact::known).map(|s| s.newest_epoch).max().unwrap_or_default().max(obs.newest_epoch);
        let reachable = 1 + obs.peers.values().filter(|f| f.known().is_some()).count();
        match decide(&obs).action {
            Some(Action::Propose { genesis, .. }) => {
                prop_assert!(eligible, "rule 1: an elector without memory proposed");
                prop_assert_eq!(genesis.epoch, newest.next());
                if genesis.origin == Origin::Empty {
                    prop_assert_eq!(newest, Epoch(0));
                    prop_assert!(reachable >= 2, "rule 8: a minority proposed");
                    let held = obs.peers.values().filter_map(Fact::known).chain([&obs.me])
                        .any(|s| matches!(s.data, Fact::Known(DataState::Present { .. })));
                    prop_assert!(!held, "an empty cluster beside data");
                } else {
                    prop_assert!(restore && fetched, "rule 6: a restore that nobody asked for, or that is not fetched");
                }
            }
            Some(Action::ReplaceData { staged: with, .. }) => {
                let active = obs.me.unit.known().unwrap().active;
                prop_assert!(!active.is_up());
                prop_assert!(obs.me.data.known().is_some(), "rule 8: what is unknown was acted on");
                if with {
                    prop_assert!(staged, "rule 6: replaced before it was restored beside");
                    prop_assert_eq!(obs.assignment.as_ref().unwrap().epoch, Epoch(2));
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
                let healthy = obs.peers.values().filter_map(Fact::known).chain([&obs.me]).filter(|s| s.etcd.known().is_some()).count();
                prop_assert!(healthy >= 2, "rule 3");
            }
            Some(Action::Assign { assignment }) => {
                prop_assert!(assignment.epoch == obs.me.genesis.as_ref().unwrap().epoch);
            }
            _ => {}
        }
    }
}

#[test]
fn a_start_that_was_just_queued_is_no_reason_to_look_at_the_data() {
    let mut obs = healthy(1);
    lose_data(&mut obs.me);
    obs.me.unit = unit(ActiveState::Inactive);
    obs.me.data = Fact::Unreachable("etcd was started".into());
    let started = |ago: u64| Memory {
        started_at: Some(UnixMs(obs.now.0 - ago)),
        ..Memory::default()
    };
    let decide = |memory: &Memory| plan(&obs, memory, &obs.spec);
    let queued = decide(&started(20));
    assert_eq!(queued.action, None);
    assert!(queued.wake <= Duration::from_millis(200));
    assert_eq!(decide(&started(300)).action, Some(Action::InspectData));
}

#[test]
fn while_the_leader_is_down_the_next_one_is_looked_for() {
    let wake = |obs: &Observation| decide(obs).wake;
    let mut obs = healthy(1);
    assert!(wake(&obs) >= Duration::from_secs(5));
    obs.peers.insert(name(0), Fact::Unreachable("no route".into()));
    assert!(wake(&obs) <= Duration::from_secs(1));
    let mut obs = healthy(1);
    lose_data(peer(&mut obs, 0));
    assert!(wake(&obs) <= Duration::from_millis(100));
}

mod steering;

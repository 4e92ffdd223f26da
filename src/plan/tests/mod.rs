//! Tests of the planner: common situations, one row each, and arbitrary observations. This file has the
//! shared helpers.
#![allow(clippy::unwrap_used, clippy::panic)]

mod after;
mod archive_trouble;
mod assigned_versions;
mod backups;
mod binaries;
mod corruption;
mod data;
mod drift;
mod electors;
mod epochs;
mod forming;
mod gate;
mod hand;
mod identity;
mod increments;
mod joining;
mod keeping;
mod learners;
mod leave;
mod losses;
mod membership;
mod moves;
mod orders;
mod package;
mod properties;
mod quarantine;
mod reboots;
mod resizing;
mod restarts;
mod restore;
mod sizing;
mod space;
mod steering;
mod stop;
mod stop_refusals;
mod tls_files;
mod transport;
mod transport_world;
mod trust;
mod upgrades;
mod verify;
mod versions;
mod versions_world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{
    StopWish, TransportSeen, next_transport, nothing_found, restart_objection, stop_objection,
    transport_objection,
};
use crate::model::*;

fn name(i: usize) -> NodeName {
    NodeName::new(format!("n{}", i + 1)).unwrap()
}

fn incarnation(i: usize) -> Incarnation {
    Incarnation::new(format!("{:032x}", i + 1)).unwrap()
}

fn spec(me: usize, nodes: usize, size: usize) -> Spec {
    let names: Vec<String> = (0..nodes).map(|i| name(i).to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Spec {
        node: name(me),
        size,
        backup_interval: Some(Duration::from_mins(15)),
        // Only its own tests need it.
        repair: crate::model::RepairSpec {
            check_interval: None,
            corrupt: false,
        },
        ..crate::model::testing::spec(&names)
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
        former: Vec::new(),
        etcd: None,
    }
}

fn unit(active: ActiveState) -> Fact<UnitState> {
    let up = active == ActiveState::Active;
    Fact::Known(UnitState {
        active,
        sub: if up { "running" } else { "dead" }.into(),
        result: "success".into(),
        main_pid: u32::from(up),
        load: LoadState::Loaded,
        held: false,
        ended_us: 0,
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
        store_digest: Some(spec.store_digest()),
        eligible: true,
        unit: unit(ActiveState::Inactive),
        data: Fact::Known(DataState::Missing),
        assignment: None,
        etcd: Fact::Absent,
        members: Fact::Unreachable("down".into()),
        etcd_too_old: None,
        v2_entries: None,
        v2_trouble: None,
        version_trouble: None,
        etcd_binaries: Some(EtcdBinaries::default()),
        newest_epoch: Epoch(0),
        voted: Epoch(0),
        genesis: None,
        silent_agents: std::collections::BTreeSet::new(),
        silent_etcds: std::collections::BTreeSet::new(),
        backup_failures: 0,
        store_failures: 0,
        peer_url: None,
        transport: None,
        tls_trouble: None,
        binary_trouble: None,
        archive_trouble: None,
        last_backup: None,
        certificate_not_after: None,
        steering: Steering::default(),
        insecure: false,
        now: UnixMs(0),
        text: String::new(),
    }
}

/// No node has data or an epoch yet. All nodes answer and may vote.
fn fresh(me: usize, nodes: usize, size: usize) -> Observation {
    let spec = spec(me, nodes, size);
    Observation {
        now: UnixMs(1_000_000),
        steady: SteadyMs(1_000_000),
        seed: 7,
        me: node(&spec, me),
        assignment: None,
        removal: None,
        newest_epoch: Epoch(0),
        elector: ElectorView {
            eligible: true,
            enquired: (0..nodes).map(name).collect(),
            superseded: BTreeSet::new(),
            may_have_voted: Epoch(0),
            highest_round: 0,
            accepted: None,
            hearsay: false,
            pushed: None,
            denied: BTreeMap::new(),
        },
        peers: (0..nodes)
            .filter(|i| *i != me)
            .map(|i| (name(i), Fact::Known(node(&spec, i))))
            .collect(),
        clocks: BTreeMap::new(),
        store: Fact::Absent,
        spec_record: crate::model::SpecRecord::default(),
        in_force: Fact::Absent,
        gate: GateView::default(),
        last_words: None,
        no_room: false,
        mount_unknown: false,
        runs_on: None,
        served: None,
        stored: None,
        base: BaseView::default(),
        drift: DriftView::default(),
        tls: crate::model::TlsView::default(),
        v2: crate::model::V2View::default(),
        staged: None,
        fetched: None,
        highest_backup_epoch: Epoch::default(),
        outrun: None,
        backup: Job::default(),
        backups: BackupView::default(),
        restore: Job::default(),
        compact: Job::default(),
        hash_check: Job::default(),
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
        etcd_version: None,
    });
    status.etcd = Fact::Known(EtcdStatus {
        version: "3.5.35".into(),
        storage_version: None,
        downgrade_to: None,
        cluster_id: g.cluster_id,
        member_id: id,
        leader: g.member_id(&name(0)),
        is_learner: false,
        term: RaftTerm(2),
        index: 10,
        applied: 10,
        db_size_bytes: 1,
        db_in_use_bytes: None,
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
        wal_dir: spec.etcd.wal_dir.clone(),
        started: true,
        removed: false,
        listed: RaftTerm(0),
        restore: None,
        restored: false,
        first_start: FirstStart::Allowed,
        transport: Some(Transport::configured(&spec.etcd)),
        settings_digest: spec.settings_digest(),
        etcd_version: None,
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
    obs.spec_record.settled = Some(3);
    obs
}

/// A cluster of `voters` with the wanted `size`, seen by n1, which leads. Nodes beyond the voters are spares.
fn cluster(nodes: usize, voters: usize, size: usize) -> Observation {
    let mut obs = fresh(0, nodes, size);
    let spec = obs.spec.clone();
    let g = genesis(&spec, voters, 1, Origin::Empty);
    serving(&spec, &mut obs.me, &g, 0, voters);
    for i in 1..nodes {
        let mut status = node(&spec, i);
        if i < voters {
            serving(&spec, &mut status, &g, i, voters);
        } else {
            status.genesis = Some(g.clone());
            status.newest_epoch = g.epoch;
        }
        obs.peers.insert(name(i), Fact::Known(status));
    }
    obs.assignment = Some(assignment(&spec, &g, 0));
    obs.newest_epoch = Epoch(1);
    obs.in_force = in_force();
    obs.gate.cleared = Some(Generation(2));
    obs.spec_record.settled = Some(voters);
    obs
}

/// etcd does not run, and its unit is in this state.
fn take_down(status: &mut NodeStatus, active: ActiveState) {
    status.unit = unit(active);
    status.etcd = Fact::Absent;
    status.members = Fact::Unreachable("down".into());
}

fn lose_data(status: &mut NodeStatus) {
    take_down(status, ActiveState::Failed);
    status.data = Fact::Known(DataState::Missing);
}

fn peer(obs: &mut Observation, i: usize) -> &mut NodeStatus {
    match obs.peers.get_mut(&name(i)).unwrap() {
        Fact::Known(status) => status,
        _ => panic!("n{} is not known", i + 1),
    }
}

/// An order to restore this backup, given when `above` was the newest epoch. It declares no node permanently
/// lost.
fn restore_from(backup: BackupId, above: Option<Epoch>) -> OperatorRequest {
    OperatorRequest::Restore {
        backup,
        without: BTreeSet::new(),
        replace: None,
        etcd: None,
        above,
        asked: UnixMs::default(),
    }
}

/// A job whose last try failed at this time.
fn failed_once(at: SteadyMs) -> Job {
    Job {
        failed_at: Some(at),
        failures: 1,
        ..Job::default()
    }
}

/// A store that honours conditional writes, with this record of an epoch and this newest backup, and nothing
/// else.
fn store_view(genesis: Option<Genesis>, newest_backup: Option<BackupSummary>) -> StoreView {
    StoreView {
        genesis,
        newest_backup,
        size: Fact::Absent,
        went_back: None,
        conditional_writes: true,
        trace: None,
        commands: Vec::new(),
        verify: VerifyView::default(),
    }
}

/// A learner that has not started yet.
fn unstarted(id: MemberId, peer_url: String) -> Member {
    Member {
        id,
        name: String::new(),
        peer_urls: vec![peer_url],
        client_urls: vec![],
        is_learner: true,
    }
}

/// The plan of a node that has recorded the current members, unless the test sets other ones.
fn plan(obs: &Observation, memory: &Memory) -> Decision {
    let mut obs = obs.clone();
    let members = &mut obs.spec_record.members;
    *members = members.take().or_else(|| obs.me.members.known().cloned());
    super::plan(&obs, memory)
}

fn decide(obs: &Observation) -> Decision {
    plan(obs, &Memory::default())
}

fn action(obs: &Observation) -> Option<&'static str> {
    decide(obs).action.as_ref().map(Action::name)
}

fn has(obs: &Observation, code: &str) -> bool {
    decide(obs).reasons.iter().any(|r| r.code == code)
}

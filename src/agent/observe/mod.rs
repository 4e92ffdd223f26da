//! Observation: the answers of the ports in one tick, and the observation that the planner sees. Nothing here
//! changes state; `record` stores what follows from the facts.

pub(super) mod facts;
pub(super) mod reachability;
pub(super) mod store;
mod transport;
mod version;

pub(super) use transport::client_ways;

use std::collections::BTreeMap;

use crate::agent::Agent;
use crate::agent::observe::facts::Facts;
use crate::agent::state::jobs::JobKind;
use crate::model::{
    Assignment, AssignmentSummary, BackupSummary, BaseView, DataState, DefragView, DefragWish, DriftView,
    ElectorView, EtcdBinaries, EtcdRun, Fact, GateView, HashCheck, LeaderAsk, LoadState, NodeName,
    NodeStatus, Observation, OperatorRequest, RequestView, Steering, TlsView, TransportView, UnixMs, V2View,
    is_full,
};
use crate::plan::{self, StopWish};
use crate::ports::PortResult;

/// Asks the ports, for this assignment.
///
/// # Errors
/// When this node's own state cannot be read.
pub(super) async fn gather(agent: &Agent, assignment: Option<Assignment>) -> PortResult<Facts> {
    let ports = &agent.ports;
    let steady = ports.clock.steady();
    // Orders are read before the unit. Otherwise an order that arrives in between would be compared with a
    // process that may have ended already, and would count as carried out.
    let directives = agent.shared.directives();
    let mut unit = match ports.service.etcd_unit().await {
        Ok(unit) if unit.load == LoadState::NotFound => Fact::Absent,
        other => Fact::from(other),
    };
    let running = unit.known().is_some_and(|u| u.main_pid != 0);
    let etcd = if running {
        Fact::from(ports.etcd.status().await)
    } else {
        Fact::Absent
    };
    let leads = etcd.known().is_some_and(|e| e.leader == Some(e.member_id));
    let members = match etcd.known() {
        Some(_) => Fact::from(ports.etcd.members(leads).await),
        None => Fact::Unreachable("etcd does not serve here".to_owned()),
    };
    let in_force = ports.service.in_force().await;
    let peers = ports.peers.last_seen();
    if let Fact::Known(unit) = &mut unit {
        // Before its first start under this agent, a stopped etcd is not held by an operator: the
        // distribution's own etcd was stopped to make room. The same holds for an etcd that ended because its
        // member was removed. A mask always counts.
        let started = assignment.as_ref().is_some_and(|a| !a.removed && a.started);
        unit.held &= unit.load == LoadState::Masked || started;
    }
    let cleared = ports.state.cleared_gate()?;
    let spec_record = ports.state.spec()?;
    let spec = agent.spec.in_force(&spec_record);
    let mut facts = Facts {
        steady,
        directives,
        unit,
        etcd,
        members,
        in_force,
        assignment,
        peers,
        cleared,
        spec_record,
        spec_digest: spec.digest(),
        spec,
        elector: agent.shared.elector(),
        no_room: false,
        mount_unknown: false,
        etcd_binaries: EtcdBinaries::default(),
        base_file: None,
        base_unknown: false,
        drift: DriftView::default(),
        tls: TlsView::default(),
        v2: V2View::default(),
    };
    let serves = facts.etcd.known().is_some();
    let dirs = [Some(&facts.spec.etcd.data_dir), facts.spec.etcd.wal_dir.as_ref()];
    let full = dirs.into_iter().flatten().any(|dir| !ports.service.has_room(dir));
    facts.no_room = facts.is_up() && !serves && full;
    facts.base_file = ports.service.base_etcd(&facts.spec.etcd).await;
    let base = facts
        .base_file
        .as_ref()
        .and_then(|file| agent.shared.with(|inner| inner.data.base(file).cloned()));
    facts.base_unknown = serves && facts.base_file.is_some() && base.is_none();
    facts.etcd_binaries = EtcdBinaries {
        base: base.and_then(|base| base.version),
        versions: ports.service.etcd_versions(&facts.spec.etcd.versions_dir),
        pinned: facts.spec.etcd.binary.is_some(),
    };
    facts.drift = drift(agent, &facts);
    let stamp = agent.tls_stamp(facts.assignment.as_ref());
    facts.tls = agent.shared.with(|inner| inner.data.tls(stamp.as_deref()));
    if let Some(unit) = facts.unit.known() {
        facts.v2 = agent.shared.with(|inner| inner.data.v2(unit));
    }
    facts.mount_unknown = serves && !ports.service.knows_mount();
    Ok(facts)
}

/// How the settings of the running etcd differ from those that are written.
fn drift(agent: &Agent, facts: &Facts) -> DriftView {
    let Some(unit) = facts.unit.known().filter(|unit| unit.main_pid != 0) else {
        return DriftView::default();
    };
    let found = agent.shared.with(|inner| inner.data.drift(unit).cloned());
    let serves = facts.etcd.known().is_some();
    let written = facts.in_force.known().is_some();
    DriftView {
        unread: found.is_none() && serves && written && agent.ports.service.compares_settings(),
        found: found.unwrap_or(Fact::Absent),
    }
}

/// The results of recording the facts that the observation needs.
pub(super) struct Recorded {
    /// The record of the etcd process; `None` when it could not be stored.
    pub(super) run: Option<EtcdRun>,
    /// The data directory.
    pub(super) data: Fact<DataState>,
}

/// The observation that follows from the facts and from what was recorded.
pub(super) fn observation(agent: &Agent, facts: Facts, recorded: Recorded) -> Observation {
    let Recorded { run, data } = recorded;
    let ports = &agent.ports;
    let silence = reachability::silence(agent, &facts);
    let pending = agent.shared.undecided();
    let transport = transport::view(agent, &facts, run.as_ref());
    let wanted = version::wanted(agent, &facts, run.as_ref());
    let mut steering = steering(agent, &facts, run.as_ref(), &pending, &transport, &wanted);
    let next = facts
        .assignment
        .as_ref()
        .map(|assigned| assigned.transport(&agent.spec.etcd));
    if let (Some(wish), Some(next)) = (&mut steering.wants_restart, &next)
        && let Some(why) = plan::restart_objection(&facts.tls, next, facts.steady)
    {
        wish.held = Some(why);
        wish.reading = plan::nothing_found(&facts.tls, next);
    }
    let wish = stop_wish(agent, &facts, &steering);
    let tls_trouble = next.and_then(|next| plan::stop_objection(&facts.tls, &next, facts.steady, wish));
    let binary_trouble = version::binary_trouble(agent, &facts, run.as_ref(), wish);
    let v2_entries = version::v2_entries(agent, &facts);
    let store = store::view(agent);
    let Facts {
        steady,
        directives: _,
        unit,
        etcd,
        members,
        in_force,
        assignment,
        peers,
        cleared,
        spec_record,
        spec,
        spec_digest,
        elector,
        no_room,
        mount_unknown,
        etcd_binaries,
        base_file,
        base_unknown,
        drift,
        tls,
        v2,
    } = facts;
    // To all other nodes, a node whose member was removed is a spare.
    let held_to = assignment.as_ref().filter(|a| !a.removed);
    let silent = unit.known().filter(|_| etcd.known().is_none());
    let runs_on = silent.and_then(|unit| agent.shared.with(|inner| inner.data.runs_on(unit)));
    let next = elector
        .known()
        .map(|genesis| genesis.epoch)
        .unwrap_or_default()
        .next();
    let votes = elector.votes.get(&next);
    let seen_round = votes.and_then(|v| v.promised.as_ref()).map_or(0, |b| b.round);
    let accepted = votes.and_then(|v| v.accepted.as_ref()).map(|(_, g)| g.clone());
    let (
        too_old,
        backup,
        backups,
        restore,
        compact,
        hash_check,
        staged,
        fetched,
        outrun,
        last_words,
        last_backup,
        enquired,
        highest,
        removal,
        pushed,
        denied,
        store_failures,
        archive_trouble,
    ) = agent.shared.with(|inner| {
        (
            inner.data.too_old().map(ToOwned::to_owned),
            inner.jobs.job(JobKind::Full),
            inner.jobs.backups(),
            inner.jobs.job(JobKind::Restore),
            inner.jobs.job(JobKind::Compact),
            inner.jobs.job(JobKind::HashCheck),
            inner.data.staged().cloned(),
            inner.jobs.fetched().cloned(),
            inner.genesis.outrun().cloned(),
            inner.data.last_words().cloned(),
            inner.jobs.last_full().cloned(),
            inner.genesis.enquired().clone(),
            inner.genesis.highest_round(),
            inner.removal.clone(),
            inner.genesis.pushed_epoch(),
            inner.genesis.denied().clone(),
            inner.store.failures(),
            inner.data.archive_trouble().map(ToOwned::to_owned),
        )
    });
    // The clock is read last: a backup with a later date was dated by another clock.
    let now = ports.clock.now();
    let newest_backup = store.known().and_then(|s| s.newest_backup.as_ref());
    let me = NodeStatus {
        node: agent.spec.node.clone(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        incarnation: elector.incarnation.clone(),
        boot_id: agent.boot_id.clone(),
        cluster: agent.spec.cluster.clone(),
        spec_digest,
        electorate_digest: agent.shared.electorate.digest.clone(),
        store_digest: Some(agent.spec.store_digest()),
        eligible: elector.eligible,
        unit,
        data,
        assignment: held_to.map(|a| AssignmentSummary {
            generation: a.generation,
            epoch: a.epoch,
            cluster_id: a.cluster_id,
            member_id: a.member_id,
            started_once: a.had_data(),
            etcd_version: a.etcd_version,
        }),
        etcd,
        members,
        etcd_too_old: too_old,
        v2_entries,
        v2_trouble: v2.trouble(steady),
        version_trouble: wanted.err(),
        etcd_binaries: Some(etcd_binaries),
        newest_epoch: elector.newest_epoch,
        voted: elector.voted(),
        genesis: elector.acted_on().cloned(),
        silent_agents: silence.agents,
        silent_etcds: silence.etcds,
        backup_failures: backup.failures,
        store_failures,
        peer_url: agent.spec.peer_url(&agent.spec.node),
        transport: Some(transport),
        tls_trouble,
        binary_trouble,
        archive_trouble,
        last_backup: newest_of(newest_backup.into_iter().chain(&last_backup), &peers, now),
        certificate_not_after: agent.certificate_not_after(),
        steering,
        insecure: agent.insecure,
        now,
        text: String::new(),
    };
    Observation {
        now,
        steady,
        seed: ports.clock.random(),
        me,
        assignment,
        removal,
        newest_epoch: elector.newest_epoch,
        elector: ElectorView {
            eligible: elector.eligible,
            enquired,
            superseded: elector.superseded.clone(),
            may_have_voted: elector.may_have_voted,
            highest_round: highest.max(seen_round),
            accepted,
            hearsay: elector.chosen.is_none() && elector.reported.is_some(),
            pushed,
            denied,
        },
        clocks: ports.peers.clocks(),
        peers,
        store,
        spec_record,
        in_force,
        gate: GateView { cleared },
        last_words,
        no_room,
        mount_unknown,
        runs_on,
        served: run.as_ref().and_then(|run| run.served),
        stored: run.as_ref().and_then(|run| run.stored),
        base: BaseView {
            unknown: base_unknown,
            replaced: run
                .as_ref()
                .is_some_and(|run| run.is_replaced(base_file.as_deref())),
        },
        drift,
        tls,
        v2,
        staged,
        highest_backup_epoch: fetched
            .as_ref()
            .map(|fetched| fetched.highest_epoch)
            .unwrap_or_default(),
        fetched: fetched.map(|fetched| fetched.backup),
        outrun,
        backup,
        backups,
        restore,
        compact,
        hash_check,
        requests: pending.into_iter().map(|r| r.request).collect(),
        spec,
    }
}

/// Who wants to stop etcd here.
fn stop_wish(agent: &Agent, facts: &Facts, steering: &Steering) -> StopWish {
    let pid = facts.unit.known().map_or(0, |unit| unit.main_pid);
    match agent.shared.with(|inner| inner.stop.waited(pid, facts.steady)) {
        Some(waited) => StopWish::Held(waited),
        None if steering.wants_reboot_lock => StopWish::Waits,
        None => StopWish::Nobody,
    }
}

/// Operators' orders, and this node's requests to the coordinator. `wanted` is the answer of [`version::wanted()`].
fn steering(
    agent: &Agent,
    facts: &Facts,
    run: Option<&EtcdRun>,
    pending: &[RequestView],
    transport: &TransportView,
    wanted: &Result<Option<String>, String>,
) -> Steering {
    let process = facts.process(agent);
    let order = facts.directives.restart.as_ref();
    let wants_restart = run.and_then(|run| run.wish(process.known().map(String::as_str), order));
    let wants_restart = version::with_version(agent, facts, run, transport, wanted, wants_restart);
    let leader_ask = pending.iter().find_map(|view| match &view.request {
        OperatorRequest::MoveLeader { to, from, id, .. } => Some(LeaderAsk {
            id: *id,
            to: to.clone(),
            from: *from,
        }),
        _ => None,
    });
    let pid = facts.unit.known().map_or(0, |unit| unit.main_pid);
    let (defragments, compacted, hash_check) = agent.shared.with(|inner| {
        let jobs = &inner.jobs;
        (
            jobs.job(JobKind::Defrag).running,
            jobs.last_compaction(),
            jobs.last_hash_check().cloned(),
        )
    });
    Steering {
        directives: facts.directives.clone(),
        wants_restart,
        defrag: DefragView {
            wish: wants_defrag(agent, facts, run),
            full: facts
                .etcd
                .known()
                .is_some_and(|etcd| is_full(etcd.db_size_bytes, facts.spec.etcd.quota())),
            running: defragments,
        },
        waits_to_stop: agent.shared.with(|inner| inner.stop.waits(pid, facts.steady)),
        compacted,
        hash_check: hash_check.filter(|own| !is_superseded(agent, facts, own)),
        // A grant is published with the decision that gives it.
        grant: None,
        grants_over: None,
        leader_ask,
        vouched_gone: pending
            .iter()
            .flat_map(|r| r.request.without())
            .cloned()
            .collect(),
        restoring: pending
            .iter()
            .any(|r| matches!(r.request, OperatorRequest::Restore { .. })),
        wants_reboot_lock: pending
            .iter()
            .any(|r| matches!(r.request, OperatorRequest::RebootLock { .. })),
        reboot_locks: agent.shared.reboot_locks(),
    }
}

/// True if this node is not the coordinator, and another node has compared the members' data later.
fn is_superseded(agent: &Agent, facts: &Facts, own: &HashCheck) -> bool {
    let etcd = facts.etcd.known();
    let leads = etcd.is_some_and(|etcd| etcd.leader == Some(etcd.member_id));
    let now = agent.ports.clock.now();
    let theirs = facts
        .peers
        .values()
        .filter_map(|peer| peer.known()?.steering.hash_check.as_ref());
    let mut of_it = theirs.filter(|their| their.cluster_id == own.cluster_id);
    !leads && of_it.any(|their| their.at > own.at && their.at <= now)
}

/// Why the etcd that serves here is to be defragmented, if it is.
fn wants_defrag(agent: &Agent, facts: &Facts, run: Option<&EtcdRun>) -> Option<DefragWish> {
    let etcd = facts.etcd.known()?;
    let (job, last) = agent
        .shared
        .with(|inner| (inner.jobs.job(JobKind::Defrag), inner.jobs.last_defrag()));
    plan::wants_defrag(&plan::SpaceSeen {
        node: &facts.spec.node,
        spec: &facts.spec.space,
        quota: facts.spec.etcd.quota(),
        etcd,
        members: facts.members.known().map(|list| list.members.len()),
        order: facts.directives.defrag.as_ref(),
        done: run?.defragmented.as_ref(),
        job: &job,
        last,
        // It copies the statuses of all peers, and counts only then.
        compacted: etcd
            .has_no_space()
            .then(|| agent.newest_compacted(etcd.cluster_id))
            .flatten(),
        steady: facts.steady,
        now: agent.ports.clock.now(),
    })
}

/// The newest backup that this node or an answering peer knows of. Followers rarely read the store
/// themselves.
fn newest_of<'a>(
    own: impl Iterator<Item = &'a BackupSummary>,
    peers: &'a BTreeMap<NodeName, Fact<NodeStatus>>,
    now: UnixMs,
) -> Option<BackupSummary> {
    let reported = peers
        .values()
        .filter_map(|fact| fact.known()?.last_backup.as_ref());
    BackupSummary::newest(reported.chain(own), now).cloned()
}

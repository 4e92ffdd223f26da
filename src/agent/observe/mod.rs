//! One look at everything: local facts fresh, peers and store as last heard.

pub(super) mod reachability;
pub(super) mod store;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{
    AssignmentSummary, BackupSummary, DataState, Directives, ElectorView, Fact, GateView, InForce, LeaderAsk,
    MemberList, NodeName, NodeStatus, Observation, OperatorRequest, RequestView, Spec, Steering, UnitState,
    UnixMs, is_too_old,
};
use crate::ports::PortResult;

use crate::agent::Agent;

use crate::agent::api::size;

/// How often an etcd that was found too old, and does not run, is looked at again.
const OLD_AGAIN: Duration = Duration::from_secs(30);

/// Sees all there is to see.
pub(super) async fn observe(agent: &Agent) -> PortResult<Observation> {
    let ports = &agent.ports;
    let steady = ports.clock.steady();
    // Before what runs is asked for: an order that comes in between would be held against a process that may be gone by
    // then, and count as carried out.
    let directives = agent.shared.directives();
    let unit = match ports.service.etcd_unit().await {
        Ok(unit) if unit.load == "not-found" => Fact::Absent,
        other => Fact::from(other),
    };
    let up = unit
        .known()
        .is_some_and(|u| u.active.is_up() && !u.waits_to_start());
    let running = unit.known().is_some_and(|u| u.main_pid != 0);
    let etcd = if running {
        Fact::from(ports.etcd.status().await)
    } else {
        Fact::Absent
    };
    let leads = etcd.known().is_some_and(|e| e.leader == Some(e.member_id));
    let members: Fact<MemberList> = match etcd.known() {
        Some(_) => Fact::from(ports.etcd.members(leads).await),
        None => Fact::Unreachable("etcd does not serve here".to_owned()),
    };
    let in_force = ports.service.in_force().await;
    let assignment = ports.state.assignment()?;
    let peers = ports.peers.last_seen();
    // A node whose member was removed is a spare for everybody else.
    let held_to = assignment.as_ref().filter(|a| !a.removed);
    // Before its first start under this agent nobody has taken the member out of its hands: a distribution's own
    // etcd that was stopped to make room is not held. A mask always counts.
    let mut unit = unit;
    if let Fact::Known(unit) = &mut unit {
        // Nor is an etcd that ended by itself because its member was removed.
        unit.held &= unit.load == "masked" || held_to.is_some_and(|a| a.started);
    }
    let cleared = ports.state.cleared_gate()?;
    let spec_record = ports.state.spec()?;
    let spec = agent.spec.in_force(&spec_record);
    let spec_digest = spec.digest();
    size::heard(agent, &peers, &spec_digest);
    let elector = agent.shared.elector();
    let silence = reachability::look(agent, steady, &peers, members.known());
    agent.shared.ask_above(agent.asked_above(&elector));
    let pending = agent.shared.undecided();

    let steering = steering(agent, directives, &unit, &in_force, &pending);

    let silent = unit.known().filter(|_| etcd.known().is_none());
    let runs_on = silent.and_then(|unit| agent.shared.runs_on(unit));
    let data = agent.shared.with(|inner| {
        if etcd.known().is_some() {
            inner.last_words = None;
        }
        if up {
            let answers = etcd.known().map(|etcd| (etcd.cluster_id, etcd.member_id));
            inner.data = match answers.or(runs_on) {
                Some((cluster_id, member_id)) => Fact::Known(DataState::Present {
                    cluster_id,
                    member_id,
                }),
                None => Fact::Unreachable("etcd has it open".to_owned()),
            };
        } else if !inner.data.is_unreachable()
            && unit.known().is_some_and(|unit| unit.ended_us > inner.data_after)
        {
            // It may have run while it was looked at, too: systemd restarts a killed etcd before that has ended.
            inner.data = Fact::Unreachable("etcd ran since it was last looked at".to_owned());
        }
        inner.data.clone()
    });
    let no_room = up && etcd.known().is_none() && !ports.service.has_room(&spec.etcd.data_dir);
    let mount_unknown = etcd.known().is_some() && !ports.service.knows_mount();
    let running = etcd.known().map(|etcd| etcd.version.as_str());
    let too_old = agent.shared.with(|inner| {
        if let Some(version) = running {
            inner.too_old = is_too_old(version).then(|| (version.to_owned(), steady));
        } else if let Some((_, seen)) = &inner.too_old
            && steady.since(*seen) >= OLD_AGAIN
            && !up
        {
            // It may have been upgraded since.
            inner.data = Fact::Unreachable("etcd was too old when it was last looked at".to_owned());
        }
        inner.too_old.as_ref().map(|(version, _)| version.clone())
    });

    let next = elector
        .known()
        .map(|genesis| genesis.epoch)
        .unwrap_or_default()
        .next();
    let votes = elector.votes.get(&next);
    let seen_round = votes.and_then(|v| v.promised.as_ref()).map_or(0, |b| b.round);
    let accepted = votes.and_then(|v| v.accepted.as_ref()).map(|(_, g)| g.clone());
    if agent.spec.store_shared {
        let told = peers.values().filter_map(Fact::known);
        told.filter_map(|status| status.last_backup.as_ref())
            .for_each(|full| agent.shared.note_full(full, ports.clock.now()));
    }
    let still = etcd
        .known()
        .filter(|e| e.leader.is_some() && whole(&spec, &spec_digest, &peers))
        .map(|e| (e.cluster_id, e.revision));
    let store = store::view(agent, steady, elector.known().is_none(), still);
    let (
        backup,
        backups,
        restore,
        staged,
        fetched,
        last_words,
        last_backup,
        enquired,
        highest,
        removal,
        pushed,
        denied,
        store_failures,
    ) = agent.shared.with(|inner| {
        (
            inner.backup.clone(),
            inner.backups.clone(),
            inner.restore.clone(),
            inner.staged.clone(),
            inner.fetched.clone().map(|(id, _)| id),
            inner.last_words.clone(),
            inner.last_backup.clone(),
            inner.enquired.clone(),
            inner.highest_round,
            inner.removal.clone(),
            inner.pushed.as_ref().map(|told| told.epoch),
            inner.denied.clone(),
            inner.store_failures,
        )
    });
    // After all that was heard of: no backup among it is dated after now but by another clock.
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
        }),
        etcd,
        members,
        etcd_too_old: too_old,
        newest_epoch: elector.newest_epoch,
        voted: elector.voted(),
        genesis: elector.acted_on().cloned(),
        silent_agents: silence.agents,
        silent_etcds: silence.etcds,
        backup_failures: backup.failures,
        store_failures,
        peer_url: agent.spec.peer_url(&agent.spec.node),
        last_backup: newest_of(newest_backup.into_iter().chain(&last_backup), &peers, now),
        certificate_not_after: agent.certificate_not_after(),
        steering,
        insecure: agent.insecure,
        now,
        text: String::new(),
    };
    Ok(Observation {
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
            highest_round: highest.max(seen_round),
            accepted,
            hearsay: elector.chosen.is_none() && elector.told.is_some(),
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
        staged,
        fetched,
        backup,
        backups,
        restore,
        requests: pending.into_iter().map(|r| r.request).collect(),
        spec,
    })
}

/// What this node has been ordered, and what it wants for it.
fn steering(
    agent: &Agent,
    directives: Directives,
    unit: &Fact<UnitState>,
    in_force: &Fact<InForce>,
    pending: &[RequestView],
) -> Steering {
    let process = match unit {
        Fact::Known(unit) => agent.etcd_process(unit),
        Fact::Absent => Fact::Absent,
        Fact::Unreachable(why) => Fact::Unreachable(why.clone()),
    };
    let digest = in_force.known().map(|f| f.settings_digest.as_str());
    let order = directives.restart.as_ref();
    let looked = agent.shared.update_etcd_run(agent.ports.state.as_ref(), |run| {
        run.look(&process, digest, order, &agent.spec.node)
    });
    let wants_restart = match looked {
        Ok(run) => run.wish(process.known().map(String::as_str), order),
        Err(error) => {
            // Without memory of it a restart could be done twice: rather none.
            tracing::warn!("no restart is asked for: {error}");
            None
        }
    };
    let leader_ask = pending.iter().find_map(|view| match &view.request {
        OperatorRequest::MoveLeader { to, from, id, .. } => Some(LeaderAsk {
            id: *id,
            to: to.clone(),
            from: *from,
        }),
        _ => None,
    });
    Steering {
        directives,
        wants_restart,
        // Told with the decision that it comes from.
        grant: None,
        leader_ask,
        vouched_gone: pending
            .iter()
            .flat_map(|r| r.request.without())
            .cloned()
            .collect(),
    }
}

/// The newest backup that this node or a peer that answers knows of: a follower looks at the store itself but rarely.
fn newest_of<'a>(
    own: impl Iterator<Item = &'a BackupSummary>,
    peers: &'a BTreeMap<NodeName, Fact<NodeStatus>>,
    now: UnixMs,
) -> Option<BackupSummary> {
    let told = peers
        .values()
        .filter_map(|fact| fact.known()?.last_backup.as_ref());
    BackupSummary::newest(told.chain(own), now).cloned()
}

/// Every node answers, and follows this one's spec.
fn whole(spec: &Spec, digest: &str, peers: &BTreeMap<NodeName, Fact<NodeStatus>>) -> bool {
    let follows = |status: &NodeStatus| status.spec_digest == digest;
    let mut others = spec.nodes.keys().filter(|node| **node != spec.node);
    others.all(|node| peers.get(node).and_then(Fact::known).is_some_and(follows))
}

//! What this node's etcd is to be: founder, joiner, or nothing.

use std::time::Duration;

use super::context::Context;
use super::founder::founder;
use super::invitation::{invitations, linearizable_lists};
use super::joiner::{joiner, own_member};
use super::{assigned_version, electors, spares, transport};
use crate::model::{
    Action, ActiveState, Assignment, DataState, EtcdStatus, Fact, FirstStart, Genesis, InitialState,
    MemberList, Origin, ReasonCode, Role,
};

/// Gives this node the assignment that the newest epoch needs, if it has another one.
pub(super) fn assign(cx: &mut Context<'_>) -> Option<Action> {
    let genesis = cx.genesis()?;
    let current = cx.obs.assignment.as_ref().filter(|a| a.epoch == genesis.epoch);
    let wanted = match current {
        None if awaits_stop(cx, genesis) => return None,
        None => founder(cx, genesis)
            .or_else(|| own_member(cx, genesis))
            .or_else(|| joiner(cx, genesis, &invitations(cx, genesis))),
        Some(assignment) => refresh(cx, assignment).or_else(|| replaced(cx, genesis, assignment)),
    };
    let Some(wanted) = wanted else {
        if current.is_none() {
            not_assigned(cx, genesis);
        }
        return None;
    };
    Some(Action::Assign {
        assignment: Box::new(wanted),
    })
}

/// True while an etcd runs that may be of an older epoch. Nothing newer is assigned until that etcd has
/// stopped: etcd is stopped, started and inspected on behalf of the assignment, and a stop can fail.
fn awaits_stop(cx: &mut Context<'_>, genesis: &Genesis) -> bool {
    let down = match &cx.obs.me.unit {
        Fact::Known(unit) => {
            unit.waits_to_start() || !(unit.active.is_up() || unit.active == ActiveState::Deactivating)
        }
        Fact::Absent => true,
        Fact::Unreachable(_) => false,
    };
    let serves_it = |etcd: &EtcdStatus| etcd.cluster_id == genesis.cluster_id;
    let may_be_older = cx.obs.assignment.is_some() || matches!(genesis.origin, Origin::Backup(_));
    if down || !may_be_older || cx.obs.me.etcd.known().is_some_and(serves_it) || mutant!(StopForgotten) {
        return false;
    }
    let epoch = genesis.epoch;
    let foreign = cx.obs.me.etcd.known().map(|etcd| etcd.cluster_id);
    let foreign = foreign.filter(|id| cx.obs.assignment.is_none() && !genesis.replaces(*id));
    let text = match foreign {
        Some(id) => format!(
            "etcd here serves cluster {id}, and this agent does not know whether epoch {epoch} has replaced it: if it has, \
             `systemctl stop etcd`, and this node joins once the data is moved away"
        ),
        None => format!("epoch {epoch} is assigned to this node once etcd.service is known to be down"),
    };
    cx.because(ReasonCode::AwaitingStop, text);
    cx.wake_in(Duration::from_secs(1));
    true
}

fn not_assigned(cx: &mut Context<'_>, genesis: &Genesis) {
    if genesis.members.contains_key(&cx.spec.node) {
        cx.because(
            ReasonCode::LostMembership,
            format!("epoch {} lists this node, which has neither data nor memory of it: it waits to be added anew", genesis.epoch),
        );
    } else if let Some(text) = electors::of_others(cx, genesis) {
        cx.because(ReasonCode::OtherElectorate, text);
    } else {
        cx.because(ReasonCode::Spare, spares::waits_for(cx));
    }
}

/// Updates an assignment of this epoch: the member has started once, etcd's settings have changed, or another
/// version of etcd is selected.
fn refresh(cx: &mut Context<'_>, assignment: &Assignment) -> Option<Assignment> {
    let runs = cx
        .obs
        .me
        .etcd
        .known()
        .is_some_and(|e| assignment.is_of(e.cluster_id, e.member_id));
    let digest = cx.spec.settings_digest();
    let mut wanted = assignment.clone();
    let published = !mutant!(FounderForgets) && has_published(cx, assignment);
    if !assignment.started && (runs || published) {
        cx.because(
            ReasonCode::StartedOnce,
            "from now on its environment says initial-cluster-state=existing",
        );
        wanted.initial_state = InitialState::Existing;
        wanted.started = true;
        wanted.first_start = FirstStart::Allowed;
        wanted.restore = None;
    }
    let here = cx.obs.me.data.known().and_then(DataState::member);
    let own = here.is_some_and(|(cluster, member)| assignment.is_of(cluster, member));
    if wanted.restore.is_some() && own && !wanted.restored {
        cx.because(
            ReasonCode::OwnData,
            "the restored data is in its place: from now on this member never starts without it",
        );
        wanted.restored = true;
    }
    if digest != assignment.settings_digest {
        cx.because(
            ReasonCode::SettingsChanged,
            "etcd's settings have changed: they are written now, and a running etcd asks for a restart",
        );
        wanted.settings_digest = digest;
        wanted.data_dir.clone_from(&cx.spec.etcd.data_dir);
        wanted.wal_dir.clone_from(&cx.spec.etcd.wal_dir);
    }
    transport::follow(cx, assignment, &mut wanted);
    assigned_version::follow(cx, assignment, &mut wanted);
    if wanted == *assignment {
        return None;
    }
    wanted.generation = cx.next_generation();
    Some(wanted)
}

/// True if the other nodes' member lists have client URLs of this member. A member publishes them at its first
/// start, perhaps while no agent was running to see it. If its first start was ever allowed, one list is enough, and
/// the start is written down at once: the node that has the list may fall silent, and a member that has started must
/// not start as a new one again. If it was never allowed, only root's override can have let it start, and one list may
/// be a lie.
fn has_published(cx: &Context<'_>, assignment: &Assignment) -> bool {
    let own = |list: &MemberList| {
        let member = list.get(assignment.member_id);
        list.cluster_id == assignment.cluster_id && member.is_some_and(|m| !m.client_urls.is_empty())
    };
    let witnesses = cx
        .known_peers()
        .filter(|(_, status)| status.members.known().is_some_and(own));
    let enough = if assignment.first_start == FirstStart::Held {
        2
    } else {
        1
    };
    witnesses.count() >= enough
}

/// The assignment to the new member, after this node's member was removed and the node was added again.
fn replaced(cx: &mut Context<'_>, genesis: &Genesis, assignment: &Assignment) -> Option<Assignment> {
    // In an empty directory etcd takes its ID from its peers. So it may have started as the new member before
    // the agent assigned that member.
    let here = cx.obs.me.data.known().and_then(DataState::member);
    let other = here.is_some_and(|(cluster, member)| !assignment.is_of(cluster, member));
    if assignment.removed && other && !linearizable_lists(cx, genesis).is_empty() {
        let taken_up = own_member(cx, genesis);
        if taken_up.is_some() {
            return taken_up;
        }
    }
    let up = cx
        .obs
        .me
        .unit
        .known()
        .is_none_or(|unit| unit.active == ActiveState::Active);
    // One peer's list is not enough to give up a member or a founder's place: `etcd_unit::keep_running` asks
    // the others first.
    let is_member = assignment.started || assignment.role == Role::Founder;
    if up || (is_member && !assignment.removed) {
        return None;
    }
    let mut anew = invitations(cx, genesis);
    let id = assignment.member_id;
    anew.retain(|invitation| invitation.member.id != id && invitation.list.get(id).is_none());
    joiner(cx, genesis, &anew)
}

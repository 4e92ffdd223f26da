//! The version of etcd in this node's assignment, which the next start takes.

use super::context::Context;
use super::restart::leave;
use super::version::{EtcdSeen, is_available, opens, seen_by, unopened, wants_version};
use crate::model::{
    ActiveState, Assignment, ClusterId, EtcdBinaries, EtcdStatus, EtcdVersion, GrantPurpose, MemberId,
    NodeStatus, ReasonCode,
};

/// The version with which a new member begins: the selected one, unless etcd would refuse it. After an upgrade
/// was cancelled, the members that are left may all run a newer minor. The version of the oldest one of them
/// always fits.
pub(super) fn of_new_member(cx: &Context<'_>) -> Option<EtcdVersion> {
    let selected = cx.selected.as_ref().and_then(|selected| selected.version);
    let here = cx.obs.me.etcd_binaries.as_ref();
    let runs = |(status, etcd): (&NodeStatus, &EtcdStatus)| {
        let assigned = status.assignment.as_ref()?.etcd_version;
        Some((EtcdVersion::reported(&etcd.version)?, assigned))
    };
    let members: Vec<(EtcdVersion, Option<EtcdVersion>)> = serving_peers(cx).filter_map(runs).collect();
    let Some(&(oldest, assigned)) = members.iter().min() else {
        return selected;
    };
    // A member that is assigned the binary of `etcd.service` again may still run a newer version.
    let base = here.filter(|_| cx.selected.is_some() && !mutant!(GoesBackLate));
    let fits = match selected.or(base.and_then(|here| here.base)) {
        Some(version) => version.series() >= oldest.series(),
        None => members.iter().any(|(_, assigned)| assigned.is_none()),
    };
    let has = |version| here.is_some_and(|here| !here.pinned && here.versions.contains(&version));
    if fits {
        selected
    } else if has(oldest) {
        Some(oldest)
    } else {
        assigned
    }
}

/// The version of a member that is taken up again by an agent without memory: the one that runs, or else `otherwise`.
/// Its former assignment may have named a version of which it hears from nobody, and the binary of `etcd.service` may
/// not open the data.
pub(super) fn of_own_member(
    cx: &Context<'_>,
    member: (ClusterId, MemberId),
    otherwise: Option<EtcdVersion>,
) -> Option<EtcdVersion> {
    let etcd = cx.obs.me.etcd.known();
    let etcd = etcd.filter(|etcd| (etcd.cluster_id, etcd.member_id) == member);
    let running = etcd.and_then(|etcd| EtcdVersion::reported(&etcd.version));
    let here = cx.obs.me.etcd_binaries.as_ref().filter(|here| !here.pinned);
    match (running, here) {
        (Some(running), Some(here)) if here.base == Some(running) => None,
        (Some(running), Some(here)) if here.base.is_some() && here.versions.contains(&running) => {
            Some(running)
        }
        _ => otherwise,
    }
}

/// Takes the selected version over into the assignment: under a grant, or while etcd is down if it has no
/// data yet or an upgrade was cancelled. An etcd that is down for another reason keeps its version, so that an
/// upgrade stops at its first failure. After a cancelled upgrade the assignment does not keep a version that is known
/// not to open the data, if this host has one that does.
pub(super) fn follow(cx: &mut Context<'_>, assignment: &Assignment, wanted: &mut Assignment) {
    let none = EtcdBinaries::default();
    let seen = seen_by(cx, &none);
    if let Some((version, text)) = kept(&seen, assignment) {
        wanted.etcd_version = version;
        cx.because(ReasonCode::UpgradeRefused, text);
        return;
    }
    let Some(selected) = seen.selected else {
        return;
    };
    let is_assigned = selected.version == assignment.etcd_version;
    if mutant!(GoesBackLate) && is_assigned {
        return;
    }
    let down = cx.obs.me.unit.known().is_some_and(|unit| {
        unit.waits_to_start() || matches!(unit.active, ActiveState::Inactive | ActiveState::Failed)
    });
    // An etcd that has served may have converted its data. It goes back under a grant, once it serves again.
    let served = assignment.etcd_version.is_some() && cx.obs.served == assignment.etcd_version;
    let base = seen.binaries.base;
    let stored = cx.obs.stored.filter(|_| assignment.had_data());
    // One that is back keeps its version, unless that is known not to open its data. What `etcd.service` starts may be
    // unknown.
    let next = assignment.etcd_version.or(base);
    let opens_it =
        next.is_none_or(|next| opens(Some(next), stored).is_ok() && !others_have_converted(cx, next));
    let stays = is_assigned && assignment.had_data() && opens_it;
    let may_change = selected.cancelled && !served && !stays || !is_assigned && !assignment.had_data();
    let (version, text) = if down && may_change {
        let version = of_new_member(cx);
        if opens(version.or(base), stored).is_err() || skips_a_step(assignment, next, version.or(base)) {
            return;
        }
        let here = version.is_none_or(|version| is_available(&seen, version).is_ok());
        if !here || version == assignment.etcd_version {
            return;
        }
        (
            version,
            "etcd is down, and is to start with another version".to_owned(),
        )
    } else {
        if is_assigned {
            return;
        }
        let granted = leave(cx, GrantPurpose::Restart);
        match (wants_version(&seen), granted) {
            (Ok(Some(why)), Some((coordinator, _))) => {
                (selected.version, format!("{why} (granted by {coordinator})"))
            }
            _ => return,
        }
    };
    wanted.etcd_version = version;
    cx.because(ReasonCode::Upgrade, text);
}

/// True if an etcd with data would start with a newer version that does not follow on its own. One node can forge a
/// cancelled upgrade, and an etcd that has crashed must start again all the same (rule 10).
fn skips_a_step(assignment: &Assignment, own: Option<EtcdVersion>, to: Option<EtcdVersion>) -> bool {
    let (Some(own), Some(to)) = (own.filter(|_| assignment.had_data()), to) else {
        return false;
    };
    to > own && own.upgrade_objection(to).is_some()
}

/// The other nodes whose etcd answers as a member of this node's cluster.
fn serving_peers<'a>(cx: &'a Context<'_>) -> impl Iterator<Item = (&'a NodeStatus, &'a EtcdStatus)> {
    let cluster = cx.genesis().map(|genesis| genesis.cluster_id);
    cx.known_peers().filter_map(move |(_, status)| {
        let etcd = status.etcd.known()?;
        (Some(etcd.cluster_id) == cluster).then_some((status, etcd))
    })
}

/// True if all members that serve in this node's cluster report data of a newer format than this version opens, at
/// least two of them: one may lie (rule 10). etcd converts the data of all members, so it has converted those here as
/// well, or does as soon as this member is back.
fn others_have_converted(cx: &Context<'_>, version: EtcdVersion) -> bool {
    let members: Vec<&EtcdStatus> = serving_peers(cx).map(|(_, etcd)| etcd).collect();
    let newer = |etcd: &&EtcdStatus| {
        etcd.storage_version
            .is_some_and(|stored| opens(Some(version), Some(stored)).is_err())
    };
    members.len() > 1 && members.iter().all(newer)
}

/// The version that runs here, if the former version is assigned after a cancelled upgrade and no longer opens the
/// data, and why.
fn kept(seen: &EtcdSeen<'_>, assignment: &Assignment) -> Option<(Option<EtcdVersion>, String)> {
    let etcd = seen
        .etcd
        .filter(|etcd| assignment.is_of(etcd.cluster_id, etcd.member_id))?;
    let running = EtcdVersion::reported(&etcd.version)?;
    let why = unopened(seen, etcd).filter(|_| !mutant!(GoesBackLate))?;
    let base = seen.binaries.base == Some(running);
    let kept = (!base).then_some(running);
    if kept == seen.assigned || !base && is_available(seen, running).is_err() {
        return None;
    }
    Some((kept, format!("etcd {running} stays assigned: {why}")))
}

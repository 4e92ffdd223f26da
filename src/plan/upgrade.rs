//! Orders to upgrade or downgrade etcd: what is checked before the first node gets another version.

use super::context::Context;
use super::coordinator_view::as_coordinator;
use super::ignored_settings;
use super::member_health::{known_members, why_unhealthy};
use super::safety::disturbances;
use super::under_way::under_way;
use super::version::{self, lacks};
use crate::model::{
    DirectiveChange, EtcdSelection, EtcdStatus, EtcdVersion, MemberList, Memory, NodeName, NodeStatus,
    Observation, drops_v2, etcd_or_package, without_v2,
};

/// Why an order to upgrade or downgrade, or to cancel that, is refused; `None` for every other order. The
/// observation has fresh statuses of all nodes that answer.
pub fn upgrade_objection(observation: &Observation, change: &DirectiveChange) -> Option<String> {
    match change {
        DirectiveChange::Upgrade { to, pause_after } => {
            objection(observation, Target::Newer(*to), pause_after.as_ref())
        }
        DirectiveChange::Downgrade { to } => objection(observation, Target::Older(*to), None),
        DirectiveChange::FollowPackage => objection(observation, Target::Package, None),
        DirectiveChange::CancelUpgrade => cancel_objection(observation),
        _ => None,
    }
}

/// The version about which etcd is asked before an order to downgrade is recorded: etcd itself may object. `None` if it
/// is not a question for etcd: another order, another patch of the same minor, or a downgrade to that minor for which
/// etcd prepares already. A node without an etcd of its own cannot ask; the coordinator does when it prepares.
pub fn downgrade_to_validate(observation: &Observation, change: &DirectiveChange) -> Option<EtcdVersion> {
    let DirectiveChange::Downgrade { to } = change else {
        return None;
    };
    let etcd = observation.me.etcd.known()?;
    let running = EtcdVersion::reported(&etcd.version)?;
    let prepares = |now: EtcdVersion| now.series() == to.series();
    (to.series() < running.series() && !etcd.downgrade_to.is_some_and(prepares)).then_some(*to)
}

/// What all members are to run.
#[derive(Clone, Copy)]
enum Target {
    /// A version below `etcd.versions_dir`, by an upgrade.
    Newer(EtcdVersion),
    /// The same by a downgrade.
    Older(EtcdVersion),
    /// The binary of `etcd.service` itself.
    Package,
}

impl Target {
    /// True if operators have selected it already.
    fn is_selected(self, selected: Option<&EtcdSelection>) -> bool {
        let (version, downgrade) = match self {
            Self::Newer(to) => (Some(to), false),
            Self::Older(to) => (Some(to), true),
            Self::Package => return selected.is_none_or(|selected| selected.version.is_none()),
        };
        // The same version again continues an upgrade that was paused. It must not end the way back to that version.
        selected.is_some_and(|selected| {
            selected.version == version && !selected.cancelled && selected.downgrade == downgrade
        })
    }

    /// Why the etcd of a node must not step to it directly.
    fn step_objection(self, running: EtcdVersion, status: &NodeStatus) -> Option<String> {
        let upward = |to| upward_objection(running, to, status);
        match self {
            Self::Newer(to) => upward(to),
            Self::Older(to) => running.downgrade_objection(to),
            Self::Package => running.package_objection(package_of(status), upward),
        }
    }

    /// Why it is not there on all nodes.
    fn lacks(self, cx: &Context<'_>, members: &[&NodeName]) -> Option<String> {
        match self {
            Self::Newer(to) | Self::Older(to) => {
                let mut nodes = cx.known_nodes().into_iter();
                nodes.find_map(|(node, status)| lacks(cx, node, status, to))
            }
            Self::Package => different_packages(cx, members),
        }
    }

    /// The newest version that a member is to run.
    fn newest(self, view: &Observation) -> Option<EtcdVersion> {
        match self {
            Self::Newer(to) | Self::Older(to) => Some(to),
            Self::Package => newest_package(view),
        }
    }
}

fn objection(observation: &Observation, target: Target, pause_after: Option<&NodeName>) -> Option<String> {
    let view = as_coordinator(observation);
    let cx = Context::new(&view, &Memory::default());
    let list = match known_members(&cx) {
        Ok(list) => list,
        Err(reason) => return Some(reason.text),
    };
    let members: Vec<&NodeName> = list.members.iter().filter_map(|m| cx.spec.node_of(m)).collect();
    if let Some(node) = pause_after.filter(|node| !members.contains(node)) {
        return Some(format!("{node} has no member: the upgrade cannot pause after it"));
    }
    if target.is_selected(cx.selected.as_ref()) {
        return None;
    }
    quarantined(&cx)
        .or_else(|| unfinished(&cx, &members))
        .or_else(|| disturbed(&cx, &view, list))
        .or_else(|| each_step(&cx, &members, target))
        .or_else(|| target.lacks(&cx, &members))
        .or_else(|| ignored_settings::objection(cx.spec, target.newest(&view)?))
}

/// The newest version that `etcd.service` starts by itself on a node.
pub fn newest_package(observation: &Observation) -> Option<EtcdVersion> {
    let cx = Context::new(observation, &Memory::default());
    let nodes = cx.known_nodes().into_iter();
    nodes.filter_map(|(_, status)| package_of(status)).max()
}

fn package_of(status: &NodeStatus) -> Option<EtcdVersion> {
    status.etcd_binaries.as_ref()?.base
}

/// The minors of the binaries that `etcd.service` starts by itself, if they are not the same.
fn different_packages(cx: &Context<'_>, members: &[&NodeName]) -> Option<String> {
    let packages = members
        .iter()
        .filter_map(|node| Some((*node, package_of(cx.status_of(node)?)?)));
    let packages: Vec<(&NodeName, EtcdVersion)> = packages.collect();
    let oldest = packages.iter().min_by_key(|(_, version)| *version);
    let newest = packages.iter().max_by_key(|(_, version)| *version);
    let ((one, old), (other, new)) = (oldest?, newest?);
    (old.series() != new.series()).then(|| {
        format!(
            "etcd.service starts etcd {old} by itself on {one} and {new} on {other}: install the same minor on all hosts"
        )
    })
}

/// The quarantine of a move. It ends only while the members run the version that they were moved to.
fn quarantined(cx: &Context<'_>) -> Option<String> {
    let statuses = cx.known_nodes().into_iter().map(|(_, status)| status);
    let mut etcds = statuses.filter_map(|status| status.etcd.known());
    etcds.any(EtcdStatus::in_quarantine).then(|| {
        "the cluster is in quarantine for a move to another version: `etcd-agent move --to VERSION` goes on with it, \
         `etcd-agent move --cancel` ends it"
            .to_owned()
    })
}

/// The upgrade that is still under way, or on its way back.
fn unfinished(cx: &Context<'_>, members: &[&NodeName]) -> Option<String> {
    let selected = cx.selected.as_ref()?;
    let follows = |node: &&&NodeName| {
        let status = cx.status_of(node)?;
        let assigned = status.assignment.as_ref()?.etcd_version;
        let running = EtcdVersion::reported(&status.etcd.known()?.version);
        let runs = selected.version.is_none_or(|version| running == Some(version));
        (assigned == selected.version && runs || stays(status, selected)).then_some(())
    };
    let node = members.iter().find(|node| follows(node).is_none())?;
    let what = selected.noun();
    if selected.cancelled {
        return Some(format!("{node} is not yet back from the cancelled {what}"));
    }
    Some(format!(
        "the {what} to {} is not complete on {node}: let it end, or `etcd-agent {what} --cancel` first",
        etcd_or_package(selected.version)
    ))
}

/// True if a node has checked whether it can go back from a cancelled upgrade, and stays at the version that
/// it runs.
fn stays(status: &NodeStatus, selected: &EtcdSelection) -> bool {
    let knows = status.selected_etcd().as_ref() == Some(selected);
    let wants = status.steering.wants_restart.as_ref();
    selected.cancelled && knows && status.etcd.known().is_some() && wants.is_none_or(|wish| !wish.version)
}

/// Why the cluster is not to be changed now.
pub(super) fn disturbed(cx: &Context<'_>, view: &Observation, list: &MemberList) -> Option<String> {
    let unhealthy = disturbances(cx, list);
    if let Some((member, _)) = unhealthy.first() {
        let why = why_unhealthy(cx, list, member).map(|reason| reason.text);
        let why = why.unwrap_or_else(|| format!("member {} is a learner, or has not caught up", member.id));
        return Some(format!("first all members have to be healthy: {why}"));
    }
    let first = under_way(cx, view, list, &cx.spec.node).into_iter().next()?;
    Some(format!("something else is under way: {}", first.text))
}

/// Why the etcd of this node must not be upgraded directly to `to`.
fn upward_objection(running: EtcdVersion, to: EtcdVersion, status: &NodeStatus) -> Option<String> {
    version::step_objection(running, to, status.v2_entries).or_else(|| {
        // Unknown is no objection: each node reads its own disk before it takes the version.
        let trouble = status.v2_trouble.as_ref().filter(|_| drops_v2(running, to))?;
        Some(without_v2(to, trouble))
    })
}

/// The first member whose etcd must not step to the target directly, and why.
fn each_step(cx: &Context<'_>, members: &[&NodeName], target: Target) -> Option<String> {
    members.iter().find_map(|node| {
        let status = cx.status_of(node)?;
        let etcd = status.etcd.known()?;
        let Some(running) = EtcdVersion::reported(&etcd.version) else {
            return Some(format!("etcd on {node} reports the version {:?}", etcd.version));
        };
        if let Some(stored) = etcd.storage_version
            && stored.series() != running.series()
        {
            return Some(format!(
                "etcd on {node} runs {running}, and its data still has the format of {}.{}: wait until etcd has \
                 converted it, some seconds after the last member was restarted",
                stored.major, stored.minor
            ));
        }
        let why = target.step_objection(running, status)?;
        Some(format!("on {node}: {why}"))
    })
}

fn cancel_objection(observation: &Observation) -> Option<String> {
    let view = as_coordinator(observation);
    let cx = Context::new(&view, &Memory::default());
    let Some(selected) = cx.selected.as_ref().filter(|selected| !selected.opened_epoch()) else {
        return Some("no upgrade was ordered".to_owned());
    };
    if selected.cancelled {
        return None;
    }
    let version = selected.version.or_else(|| newest_package(&view))?;
    // Without a leader nothing is upgraded, and the way back must not depend on one.
    let listed = known_members(&cx).ok().map(|list| list.members.iter());
    let nodes: Vec<&NodeName> = match listed {
        Some(members) => members.filter_map(|member| cx.spec.node_of(member)).collect(),
        // The way back must not depend on a leader.
        None => cx.spec.nodes.keys().collect(),
    };
    let statuses = nodes.iter().filter_map(|node| cx.status_of(node));
    let serving: Vec<(&NodeStatus, &EtcdStatus)> = statuses
        .filter_map(|status| Some((status, status.etcd.known()?)))
        .collect();
    let runs_it = |(status, etcd): &(&NodeStatus, &EtcdStatus)| {
        EtcdVersion::reported(&etcd.version) == selected.version.or_else(|| package_of(status))
    };
    if !serving.iter().all(runs_it) {
        return None;
    }
    if serving.len() == nodes.len() {
        return Some(format!(
            "every member runs etcd {version} already: the {} is complete",
            selected.noun()
        ));
    }
    let stays = |before: EtcdVersion| before.series() == version.series();
    let converted = |etcd: &EtcdStatus| etcd.storage_version.is_some_and(stays);
    let back = selected.downgrade || selected.before.is_some_and(stays);
    (!back && serving.iter().any(|(_, etcd)| converted(etcd))).then(|| {
        format!("every member that serves runs etcd {version}, and etcd has converted its data: it does not go back")
    })
}

//! The versions through which etcd gets from those that run to another one.

use std::collections::BTreeSet;

use super::health;
use crate::model::{AdminStatus, EtcdVersion, Fact, NodeName, NodeStatus};

/// Which way the versions go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To a newer one.
    Up,
    /// To an older one.
    Down,
}

impl Way {
    /// Why etcd must not go from one version directly to the other; `None` if it may.
    fn objection(self, from: EtcdVersion, to: EtcdVersion) -> Option<String> {
        match self {
            Self::Up => from.upgrade_objection(to),
            Self::Down => from.downgrade_objection(to),
        }
    }

    /// True if `next` is nearer to `to` than `at` is.
    fn is_on(self, at: EtcdVersion, next: EtcdVersion, to: EtcdVersion) -> bool {
        match self {
            Self::Up => next > at && next < to,
            Self::Down => next > to && next.series() < at.series(),
        }
    }
}

/// Members' nodes that answer, each with its status.
pub(super) fn members(status: &AdminStatus) -> impl Iterator<Item = (&NodeName, &NodeStatus)> {
    health::nodes(status).filter_map(|(node, seen)| match seen {
        Fact::Known(seen) if seen.assignment.is_some() => Some((node, seen)),
        _ => None,
    })
}

pub(super) fn running(status: &NodeStatus) -> Option<EtcdVersion> {
    EtcdVersion::reported(&status.etcd.known()?.version)
}

/// The versions through which etcd gets to `to`, the last one included: minor by minor, each the newest that
/// all nodes have. Empty if every member runs it.
///
/// # Errors
/// What is missing, for people.
pub(super) fn path(status: &AdminStatus, to: EtcdVersion, way: Way) -> Result<Vec<EtcdVersion>, String> {
    let versions: BTreeSet<EtcdVersion> = members(status).filter_map(|(_, seen)| running(seen)).collect();
    let (Some(oldest), Some(newest)) = (versions.first().copied(), versions.last().copied()) else {
        let verb = match way {
            Way::Up => "upgrade",
            Way::Down => "downgrade",
        };
        return Err(format!("no etcd runs on any node: there is nothing to {verb}"));
    };
    let mut at = match way {
        Way::Up if newest > to => {
            return Err(format!(
                "a member runs etcd {newest}, which is newer than {to}; a downgrade is not an upgrade"
            ));
        }
        Way::Down if oldest < to => {
            return Err(format!(
                "a member runs etcd {oldest}, which is older than {to}; an upgrade is not a downgrade"
            ));
        }
        Way::Up => oldest,
        Way::Down => newest,
    };
    let disks: Vec<(&NodeName, &BTreeSet<EtcdVersion>)> = health::nodes(status)
        .filter_map(|(node, seen)| match seen {
            Fact::Known(seen) => Some((node, &seen.etcd_binaries.as_ref()?.versions)),
            _ => None,
        })
        .collect();
    // Nothing is begun that cannot be ended.
    let lacks = disks
        .iter()
        .find(|(_, versions)| at != to && !versions.contains(&to));
    if let Some((node, _)) = lacks {
        return Err(format!(
            "{node} has no etcd {to}: unpack the release there, below etcd.versions_dir; it has to be a program that \
             belongs to root, as does each directory above it, and only root may be able to write to them"
        ));
    }
    let on_all = |version: &EtcdVersion| disks.iter().all(|(_, versions)| versions.contains(version));
    let have: BTreeSet<EtcdVersion> = disks
        .iter()
        .flat_map(|(_, versions)| versions.iter().copied())
        .filter(on_all)
        .collect();
    let mut steps = Vec::new();
    while at != to {
        let Some(why) = way.objection(at, to) else {
            steps.push(to);
            break;
        };
        let possible = |next: &&EtcdVersion| way.is_on(at, **next, to) && way.objection(at, **next).is_none();
        let Some(next) = have.iter().rfind(possible) else {
            return Err(format!("{why}; no version on the way is on every node"));
        };
        steps.push(*next);
        at = *next;
    }
    Ok(steps)
}

/// The step of an upgrade before which etcd's log must hold no entries of etcd 3.5 any more, and the version before it;
/// `None` if there is no such step. Members of 3.6 may hold none: the order checks their logs itself.
pub(super) fn log_step(status: &AdminStatus, steps: &[EtcdVersion]) -> Option<(EtcdVersion, EtcdVersion)> {
    let oldest = members(status).filter_map(|(_, seen)| running(seen)).min()?;
    let before = std::iter::once(oldest).chain(steps.iter().copied());
    let decides = |(from, to): &(EtcdVersion, EtcdVersion)| from.log_objection(*to, Some(true)).is_some();
    before
        .zip(steps.iter().copied())
        .find(decides)
        .filter(|(from, _)| *from != oldest)
}

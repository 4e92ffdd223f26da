//! The reboot lock: at most one host of a cluster reboots at a time. The coordinator grants it, its holder
//! stores it, and every other agent records it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::directives::MOST_VERSIONS;
use super::{Grant, Incarnation, NodeName, UnixMs};

/// One node's own lock. Only that node changes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebootLock {
    /// Counts the changes, so that an answer that arrives late replaces no newer one.
    pub version: u64,
    /// `None` if the node does not hold the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<RebootHold>,
}

/// That a node holds the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebootHold {
    /// For whom.
    pub owner: LockOwner,
    /// Since when, by the clock of the node.
    pub since: UnixMs,
    /// The coordinator's permission.
    pub grant: Grant,
    /// True once the agents of all members have recorded it. Only then may the host reboot.
    pub confirmed: bool,
}

/// For whom a node holds the lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum LockOwner {
    /// `etcd-agent reboot-lock acquire`.
    #[default]
    Operator,
    /// A client of the FleetLock protocol on this host.
    FleetLock {
        /// Its `id`.
        id: String,
        /// Its `group`.
        group: String,
    },
}

impl LockOwner {
    /// The longest `id` and the longest `group` of a client, in bytes.
    pub const LONGEST: usize = 256;
    /// The group of clients that are configured for no other one.
    pub const DEFAULT_GROUP: &str = "default";

    /// True for a name that the protocol permits for a group
    /// (<https://coreos.github.io/zincati/development/fleetlock/protocol/>), and that is not too long.
    pub fn is_group(name: &str) -> bool {
        let named = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        !name.is_empty() && name.len() <= Self::LONGEST && name.chars().all(named)
    }

    /// False for names that are longer than any agent accepts from a client.
    fn is_short(&self) -> bool {
        match self {
            Self::Operator => true,
            Self::FleetLock { id, group } => id.len() <= Self::LONGEST && group.len() <= Self::LONGEST,
        }
    }
}

impl fmt::Display for LockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator => f.write_str("an operator"),
            Self::FleetLock { id, group } => write!(f, "the FleetLock client {id} of group {group}"),
        }
    }
}

/// Another node's lock, as that node last reported it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedLock {
    /// The identity of that node's state directory. A node with a new one begins to count anew.
    pub incarnation: Incarnation,
    /// The lock.
    pub lock: RebootLock,
}

/// What an agent stores about the lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebootLocks {
    /// This node's own lock.
    pub own: RebootLock,
    /// The locks of the other nodes. It stays while such a node is down.
    #[serde(default)]
    pub others: BTreeMap<NodeName, RecordedLock>,
}

impl RebootLock {
    /// True if this node holds the lock and its host may reboot.
    pub fn is_confirmed(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.confirmed)
    }

    /// False for a version after which too few are left.
    pub fn leaves_room(&self) -> bool {
        self.version <= MOST_VERSIONS
    }

    /// The lock after the node has released it.
    #[must_use]
    pub fn released(&self) -> Self {
        Self {
            version: self.version.saturating_add(1),
            hold: None,
        }
    }

    /// The lock after it was confirmed.
    #[must_use]
    pub fn confirmed(&self) -> Self {
        Self {
            version: self.version.saturating_add(1),
            hold: self.hold.clone().map(|hold| RebootHold {
                confirmed: true,
                ..hold
            }),
        }
    }
}

impl RebootLocks {
    /// True if nobody has ever held the lock.
    pub fn is_unused(&self) -> bool {
        *self == Self::default()
    }

    /// Records what another node reports of its lock. A lock with endless names is a lie (rule 10): every status
    /// would repeat it.
    pub fn record(&mut self, node: &NodeName, incarnation: &Incarnation, reported: &RebootLock) {
        if reported.hold.as_ref().is_some_and(|hold| !hold.owner.is_short()) {
            return;
        }
        let known = self.others.get(node);
        let newer = known
            .is_none_or(|known| known.incarnation != *incarnation || reported.version > known.lock.version);
        if newer && (known.is_some() || reported.version > 0) {
            let recorded = RecordedLock {
                incarnation: incarnation.clone(),
                lock: reported.clone(),
            };
            self.others.insert(node.clone(), recorded);
        }
    }
}

/// The answer to a release of the reboot lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseView {
    /// The node whose lock it was.
    pub node: NodeName,
    /// False if the node did not hold the lock.
    pub changed: bool,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{GrantPurpose, RaftTerm};

    fn held(version: u64) -> RebootLock {
        RebootLock {
            version,
            hold: Some(RebootHold {
                owner: LockOwner::Operator,
                since: UnixMs(5),
                grant: Grant {
                    node: NodeName::new("n1").unwrap(),
                    id: 7,
                    term: RaftTerm(2),
                    purpose: GrantPurpose::Reboot,
                },
                confirmed: false,
            }),
        }
    }

    #[test]
    fn a_late_answer_replaces_no_newer_one_and_a_new_memory_counts_anew() {
        let node = NodeName::new("n1").unwrap();
        let (old, new) = (
            Incarnation::new("a".repeat(32)).unwrap(),
            Incarnation::new("b".repeat(32)).unwrap(),
        );
        let mut locks = RebootLocks::default();
        locks.record(&node, &old, &RebootLock::default());
        assert!(locks.is_unused(), "a node that never held it leaves no trace");
        locks.record(&node, &old, &held(3));
        locks.record(&node, &old, &held(3).released());
        locks.record(&node, &old, &held(3));
        assert_eq!(locks.others[&node].lock, held(3).released(), "the late answer");
        locks.record(&node, &old, &held(5));
        locks.record(&node, &new, &RebootLock::default());
        assert_eq!(
            locks.others[&node].lock.hold, None,
            "a reinstalled host has rebooted"
        );
    }

    #[test]
    fn f02_a_lock_with_endless_names_is_not_recorded() {
        let node = NodeName::new("n1").unwrap();
        let incarnation = Incarnation::new("a".repeat(32)).unwrap();
        for (id, group, recorded) in [(256, 256, true), (257, 1, false), (1, 257, false)] {
            let mut lock = held(3);
            lock.hold.as_mut().unwrap().owner = LockOwner::FleetLock {
                id: "x".repeat(id),
                group: "x".repeat(group),
            };
            let mut locks = RebootLocks::default();
            locks.record(&node, &incarnation, &lock);
            assert_eq!(!locks.is_unused(), recorded, "{id} and {group} bytes");
        }
    }

    #[test]
    fn each_change_is_a_version() {
        let confirmed = held(3).confirmed();
        assert!(confirmed.is_confirmed() && !held(3).is_confirmed());
        assert_eq!((confirmed.version, confirmed.released().version), (4, 5));
    }
}

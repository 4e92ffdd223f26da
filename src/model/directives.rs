//! The operators' orders for the whole cluster: one small register. Every agent keeps it on disk, shows it in
//! its status, and takes over a newer one from any other agent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Epoch, EtcdVersion, Genesis, NodeName, UnixMs};

/// No cluster has more nodes than this. A register with more names is refused.
const MOST_NAMES: usize = 256;
/// A version above this leaves no room for later orders.
pub(super) const MOST_VERSIONS: u64 = u64::MAX / 2;
/// If a single peer reports a register that is more than this many orders ahead of the own one, it is not
/// believed.
const FAR: u64 = 1000;

/// A pause: agents take no autonomous action.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Paused {
    /// When it was ordered, by the clock of the node that took the order.
    pub since: UnixMs,
    /// The node that took the order.
    pub by: NodeName,
}

/// A person's order for some nodes: a restart or a defragmentation of their etcds, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeOrder {
    /// The version of the register that introduced the order. Each order is carried out once.
    pub id: u64,
    /// The node that took the order, because two concurrent orders on two nodes get the same version. `None`
    /// from an agent of an older version.
    #[serde(default)]
    pub by: Option<NodeName>,
    /// On which nodes.
    pub nodes: BTreeSet<NodeName>,
}

impl NodeOrder {
    /// Its identity, which sorts like the registers do.
    pub fn identity(&self) -> (u64, &Option<NodeName>) {
        (self.id, &self.by)
    }
}

/// The etcd that operators have selected for all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EtcdSelection {
    /// A version below `etcd.versions_dir`; `None` for the binary of `etcd.service` itself.
    #[serde(default)]
    pub version: Option<EtcdVersion>,
    /// What was selected before it: a cancelled upgrade goes back to it.
    #[serde(default)]
    pub before: Option<EtcdVersion>,
    /// The node after which no further one is upgraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_after: Option<NodeName>,
    /// True if the version is older than the one before it, by etcd's own downgrade.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub downgrade: bool,
    /// True if an upgrade was cancelled: nodes that run the version of before it need not wait for others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// The epoch in which it was ordered, if that epoch was opened with a version of its own; else 0.
    #[serde(default, skip_serializing_if = "Epoch::is_zero")]
    pub epoch: Epoch,
}

impl EtcdSelection {
    /// `upgrade` or `downgrade`, as the verbs of the program.
    pub fn noun(&self) -> &'static str {
        if self.downgrade { "downgrade" } else { "upgrade" }
    }

    /// True if nothing was ordered in an epoch that was opened with this version: there is nothing to return to.
    pub fn opened_epoch(&self) -> bool {
        !self.epoch.is_zero() && self.before.is_none()
    }

    /// Selects a version, or the binary of `etcd.service` itself.
    fn select(&mut self, to: Option<EtcdVersion>, downgrade: bool) {
        if self.version != to {
            self.before = std::mem::replace(&mut self.version, to);
        }
        self.pause_after = None;
        self.downgrade = downgrade;
        self.cancelled = false;
    }
}

/// The register. The higher version wins. Of two concurrent orders, the one from the later node name wins. A
/// node that has lost its memory may use one version twice; then the content of the register decides, in the
/// same way on all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directives {
    /// Each order increments it; 0 if nothing was ever ordered.
    pub version: u64,
    /// The node that took the last order.
    #[serde(default)]
    pub by: Option<NodeName>,
    /// The pause, if one is in force: no autonomous action.
    #[serde(default)]
    pub paused: Option<Paused>,
    /// Nodes that must not be members until an operator adds them again.
    #[serde(default)]
    pub out: BTreeSet<NodeName>,
    /// The last ordered restart.
    #[serde(default)]
    pub restart: Option<NodeOrder>,
    /// The last ordered defragmentation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defrag: Option<NodeOrder>,
    /// The size that an operator last wrote into the store through an agent. If the store asks for a smaller
    /// size, it is followed only if it equals this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<usize>,
    /// The reboot locks that an operator has released for their holders, by node: this version of the node's
    /// lock and every older one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub released: BTreeMap<NodeName, u64>,
    /// The selected etcd; `None` if no operator has ever selected one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<EtcdSelection>,
}

/// One order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum DirectiveChange {
    /// No autonomous action until `Resume`.
    Pause,
    /// End the pause.
    Resume,
    /// Remove the member of this node and keep the node out.
    Remove {
        /// Which node.
        node: NodeName,
    },
    /// Let this node be a member again.
    Add {
        /// Which node.
        node: NodeName,
    },
    /// Restart etcd on these nodes, one after the other.
    Restart {
        /// On which nodes.
        nodes: BTreeSet<NodeName>,
    },
    /// Cancel the part of an ordered restart that has not been carried out yet.
    CancelRestart,
    /// Defragment etcd on these nodes, one after the other.
    Defrag {
        /// On which nodes.
        nodes: BTreeSet<NodeName>,
    },
    /// Cancel the part of an ordered defragmentation that has not begun yet.
    CancelDefrag,
    /// Release the reboot lock of a node, which does not do it itself.
    ReleaseRebootLock {
        /// The node.
        node: NodeName,
        /// The version of its lock; the agent fills it in.
        #[serde(default)]
        version: u64,
    },
    /// Upgrade etcd to this version, one node after the other.
    Upgrade {
        /// Which version.
        to: EtcdVersion,
        /// The node after which no further one is upgraded.
        #[serde(default)]
        pause_after: Option<NodeName>,
    },
    /// Downgrade etcd to this version, one node after the other, once etcd has converted its data.
    Downgrade {
        /// Which version.
        to: EtcdVersion,
    },
    /// Run the binary of `etcd.service` itself again, and follow its package.
    FollowPackage,
    /// Go back to what was selected before an upgrade or a downgrade that not every node has completed.
    CancelUpgrade,
}

impl fmt::Display for Directives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {}", self.version)?;
        if let Some(by) = &self.by {
            write!(f, " by {by}")?;
        }
        if self.paused.is_some() {
            f.write_str(", paused")?;
        }
        for node in &self.out {
            write!(f, ", {node} is out")?;
        }
        if let Some(order) = &self.restart {
            write!(f, ", restart {} of {} nodes", order.id, order.nodes.len())?;
        }
        if let Some(order) = &self.defrag {
            write!(f, ", defragmentation {} of {} nodes", order.id, order.nodes.len())?;
        }
        if let Some(version) = self.etcd_version() {
            write!(f, ", etcd {version}")?;
        }
        Ok(())
    }
}

impl Directives {
    /// The version that operators have selected; `None` for the binary of `etcd.service` itself.
    pub fn etcd_version(&self) -> Option<EtcdVersion> {
        self.etcd.as_ref().and_then(|selected| selected.version)
    }

    /// The etcd that is selected in the epoch of `genesis`: by an order in that epoch, or else by the genesis. An
    /// order of an earlier epoch does not count in one that was opened with a version of its own.
    pub fn etcd_in(&self, genesis: Option<&Genesis>) -> Option<EtcdSelection> {
        let opened = genesis.and_then(|genesis| Some((genesis.epoch, genesis.etcd?.version)));
        let Some((epoch, version)) = opened else {
            return self.etcd.clone();
        };
        let ordered = self.etcd.clone().filter(|selected| selected.epoch == epoch);
        ordered.or_else(|| {
            Some(EtcdSelection {
                version: Some(version),
                epoch,
                ..EtcdSelection::default()
            })
        })
    }

    /// This register with the etcd that is selected in the epoch of `genesis`.
    #[must_use]
    pub fn in_epoch(&self, genesis: Option<&Genesis>) -> Self {
        Self {
            etcd: self.etcd_in(genesis),
            ..self.clone()
        }
    }

    /// True if this register replaces `other`.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        self.rank() > other.rank()
    }

    fn rank(&self) -> impl PartialOrd + '_ {
        let said = (
            &self.out,
            &self.restart,
            &self.defrag,
            &self.paused,
            self.size,
            &self.released,
            &self.etcd,
        );
        (self.version, &self.by, said)
    }

    /// Why a received register is not believed; `None` if it may be believed.
    pub fn defect(&self) -> Option<String> {
        if self.version > MOST_VERSIONS {
            return Some(format!(
                "version {} leaves no room for later orders",
                self.version
            ));
        }
        if let Some((node, version)) = self
            .released
            .iter()
            .find(|(_, version)| **version > MOST_VERSIONS)
        {
            return Some(format!(
                "version {version} of the released reboot lock of {node} leaves no room for later ones"
            ));
        }
        let orders = self.restart.iter().chain(&self.defrag);
        let ordered: usize = orders.map(|order| order.nodes.len()).sum();
        let names = self.out.len() + ordered + self.released.len();
        (names > MOST_NAMES).then(|| format!("it has {names} node names, expected at most {MOST_NAMES}"))
    }

    /// True if `reported` is too far ahead of this register to be believed from a single peer.
    pub fn is_far_below(&self, reported: &Self) -> bool {
        reported.version > self.version.saturating_add(FAR)
    }

    /// The register after an operator on node `by` has ordered this size; `None` if that was the last ordered
    /// size.
    #[must_use]
    pub fn sized(&self, size: usize, by: &NodeName) -> Option<Self> {
        (self.size != Some(size)).then(|| Self {
            version: self.version.saturating_add(1),
            by: Some(by.clone()),
            size: Some(size),
            ..self.clone()
        })
    }

    /// The next order for these nodes.
    fn order(&self, nodes: &BTreeSet<NodeName>, by: &NodeName) -> NodeOrder {
        NodeOrder {
            id: self.version.saturating_add(1),
            by: Some(by.clone()),
            nodes: nodes.clone(),
        }
    }

    /// The register after one more order, given on node `by`; `None` if the order changes nothing.
    #[must_use]
    pub fn after(&self, change: &DirectiveChange, by: &NodeName, now: UnixMs) -> Option<Self> {
        let mut next = self.clone();
        match change {
            DirectiveChange::Pause => {
                next.paused.get_or_insert_with(|| Paused {
                    since: now,
                    by: by.clone(),
                });
            }
            DirectiveChange::Resume => next.paused = None,
            DirectiveChange::Remove { node } => {
                next.out.insert(node.clone());
            }
            DirectiveChange::Add { node } => {
                next.out.remove(node);
            }
            DirectiveChange::Restart { nodes } => next.restart = Some(self.order(nodes, by)),
            DirectiveChange::CancelRestart => next.restart = None,
            DirectiveChange::Defrag { nodes } => next.defrag = Some(self.order(nodes, by)),
            DirectiveChange::CancelDefrag => next.defrag = None,
            DirectiveChange::Upgrade { to, pause_after } => {
                let selected = next.etcd.get_or_insert_default();
                selected.select(Some(*to), false);
                selected.pause_after.clone_from(pause_after);
            }
            DirectiveChange::Downgrade { to } => next.etcd.get_or_insert_default().select(Some(*to), true),
            DirectiveChange::FollowPackage => {
                if let Some(selected) = &mut next.etcd
                    && selected.version.is_some()
                {
                    selected.select(None, false);
                }
            }
            DirectiveChange::CancelUpgrade => {
                if let Some(selected) = &mut next.etcd
                    && !selected.cancelled
                    && !selected.opened_epoch()
                {
                    std::mem::swap(&mut selected.version, &mut selected.before);
                    selected.pause_after = None;
                    selected.cancelled = true;
                }
            }
            DirectiveChange::ReleaseRebootLock { node, version } => {
                let released = next.released.get(node).copied().unwrap_or_default();
                if *version > released {
                    next.released.insert(node.clone(), *version);
                }
            }
        }
        if next == *self {
            return None;
        }
        next.version = self.version.saturating_add(1);
        next.by = Some(by.clone());
        Some(next)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn name(text: &str) -> NodeName {
        NodeName::new(text).unwrap()
    }

    #[test]
    fn the_newer_register_wins_and_of_two_at_once_the_later_name() {
        let none = Directives::default();
        let paused = none
            .after(&DirectiveChange::Pause, &name("n1"), UnixMs(5))
            .unwrap();
        let resumed = paused
            .after(&DirectiveChange::Resume, &name("n1"), UnixMs(6))
            .unwrap();
        let elsewhere = none
            .after(&DirectiveChange::Pause, &name("n2"), UnixMs(4))
            .unwrap();
        let remove = DirectiveChange::Remove { node: name("n3") };
        let out = none.after(&remove, &name("n1"), UnixMs(7)).unwrap();
        let table = [
            ("an order against none", &paused, &none, true),
            ("none against an order", &none, &paused, false),
            ("itself", &paused, &paused, false),
            ("the later order", &resumed, &elsewhere, true),
            ("at once, the later name", &elsewhere, &paused, true),
            ("at once, the earlier name", &paused, &elsewhere, false),
            ("one version twice, more ordered out", &out, &paused, true),
            ("one version twice, the other way round", &paused, &out, false),
        ];
        for (what, one, other, newer) in table {
            assert_eq!(one.is_newer_than(other), newer, "{what}");
        }
    }

    #[test]
    fn an_order_that_changes_nothing_makes_no_version() {
        let none = Directives::default();
        assert_eq!(none.after(&DirectiveChange::Resume, &name("n1"), UnixMs(5)), None);
        let paused = none
            .after(&DirectiveChange::Pause, &name("n1"), UnixMs(5))
            .unwrap();
        assert_eq!(
            paused.after(&DirectiveChange::Pause, &name("n2"), UnixMs(9)),
            None
        );
    }

    #[test]
    fn an_upgrade_remembers_what_was_before_it_and_goes_back_once() {
        let by = name("n1");
        let upgrade = |to: &str| DirectiveChange::Upgrade {
            to: to.parse().unwrap(),
            pause_after: None,
        };
        let next = |register: &Directives, change| register.after(&change, &by, UnixMs(5)).unwrap();
        let first = next(&Directives::default(), upgrade("3.5.35"));
        let second = next(&first, upgrade("3.6.16"));
        assert_eq!(second.etcd_version().unwrap().to_string(), "3.6.16");
        assert_eq!(
            second.after(&upgrade("3.6.16"), &by, UnixMs(6)),
            None,
            "ordered twice"
        );
        let paused = DirectiveChange::Upgrade {
            to: "3.6.16".parse().unwrap(),
            pause_after: Some(name("n2")),
        };
        let paused = next(&second, paused);
        assert_eq!(paused.etcd.as_ref().unwrap().before, first.etcd_version());
        let back = next(&paused, DirectiveChange::CancelUpgrade);
        assert_eq!(back.etcd_version(), first.etcd_version());
        assert_eq!(back.etcd.as_ref().unwrap().pause_after, None);
        assert_eq!(back.after(&DirectiveChange::CancelUpgrade, &by, UnixMs(7)), None);
        let none = Directives::default();
        assert_eq!(none.after(&DirectiveChange::CancelUpgrade, &by, UnixMs(5)), None);
        let unset = next(&first, DirectiveChange::CancelUpgrade);
        assert_eq!(unset.etcd_version(), None, "the binary of etcd.service");
        let package = next(&second, DirectiveChange::FollowPackage);
        assert_eq!(package.etcd_version(), None);
        assert_eq!(package.etcd.as_ref().unwrap().before, second.etcd_version());
        let again = next(&package, DirectiveChange::CancelUpgrade);
        assert_eq!(again.etcd_version(), second.etcd_version());
        for followed in [&none, &package, &unset] {
            assert_eq!(
                followed.after(&DirectiveChange::FollowPackage, &by, UnixMs(8)),
                None
            );
        }
    }

    #[test]
    fn a_register_of_another_version_is_read_and_an_endless_one_refused() {
        let older: Directives = serde_json::from_str(r#"{"version":3,"later":true}"#).unwrap();
        assert_eq!((older.version, older.defect()), (3, None));
        let endless = Directives {
            out: (0..1000).map(|i| name(&format!("n{i}"))).collect(),
            ..Directives::default()
        };
        assert!(endless.defect().is_some());
    }
}

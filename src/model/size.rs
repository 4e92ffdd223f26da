//! How many voters are wanted: which numbers there may be, and who says so.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{BackupId, MemberList};

/// More voters than this make every write wait for more disks and survive hardly more failures.
pub const MOST_VOTERS: usize = 9;

/// Who says how many voters are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum SizeSource {
    /// Nobody: it follows from the number of nodes.
    #[default]
    Default,
    /// `cluster.size` in a configuration file.
    Config {
        /// The file.
        file: PathBuf,
        /// The line in it, from 1.
        line: usize,
    },
    /// `control/etcd-cluster-spec` in the store that all nodes share.
    Store {
        /// What it last said, as this node wrote it down; `None` as long as it has said nothing.
        #[serde(default)]
        said: Option<usize>,
    },
}

impl fmt::Display for SizeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("by default"),
            Self::Config { file, line } => write!(f, "{}:{line}", file.display()),
            Self::Store { said: Some(_) } => f.write_str("control/etcd-cluster-spec in the store"),
            Self::Store { said: None } => f.write_str("by default: the store says none"),
        }
    }
}

/// Why this many voters are not to be had without `force`, as far as the number alone goes; `None` when they are.
pub fn unwise_size(size: usize) -> Option<String> {
    if size.is_multiple_of(2) {
        return Some(format!(
            "expected an odd number: {size} members survive no more failures than {}",
            size.saturating_sub(1)
        ));
    }
    (size > 7).then(|| format!("expected 1, 3, 5 or 7: every write waits for a majority of {size} disks"))
}

/// What one node remembers of the wanted size and of the members, on disk: the planner's memory would forget it at each reload
/// of the configuration, which is one way to change the size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecRecord {
    /// The size at which this node last saw the cluster whole.
    #[serde(default)]
    pub settled: Option<usize>,
    /// The change of the size that is wanted or under way.
    #[serde(default)]
    pub change: Option<SizeChange>,
    /// The size that the store last said: a store that is silent or was emptied changes nothing.
    #[serde(default)]
    pub stored: Option<usize>,
    /// The members as this node's etcd last named them. An etcd that is started without quorum answers nobody.
    #[serde(default)]
    pub members: Option<MemberList>,
}

/// A wanted change of the size, as one node first saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeChange {
    /// The wanted size.
    pub to: usize,
    /// The newest backup that was known then: the change waits for a newer one.
    pub after: Option<BackupId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_sizes_up_to_seven_are_wise() {
        let wise: Vec<usize> = (0..=MOST_VOTERS)
            .filter(|size| unwise_size(*size).is_none())
            .collect();
        assert_eq!(wise, [1, 3, 5, 7]);
    }

    #[test]
    fn a_record_of_an_older_agent_is_read() {
        let read: Result<SpecRecord, _> = serde_json::from_str(r#"{"settled":3,"change":null}"#);
        assert!(read.is_ok_and(|record| (record.settled, record.stored) == (Some(3), None)));
    }
}

//! The wanted number of voters: the allowed numbers, and the source of the number.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{BackupId, MemberList};

/// With more voters than this, every write waits for more disks, and the cluster survives hardly more
/// failures.
pub const MOST_VOTERS: usize = 9;

/// The source of the wanted number of voters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum SizeSource {
    /// The default, which follows from the number of nodes.
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
        /// The last size in the store that this node recorded; `None` until the store has had one.
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

/// Why this number of voters needs `force`; `None` if it does not. Only the number itself is judged.
pub fn unwise_size(size: usize) -> Option<String> {
    if size.is_multiple_of(2) {
        return Some(format!(
            "expected an odd number: {size} members survive no more failures than {}",
            size.saturating_sub(1)
        ));
    }
    (size > 7).then(|| format!("expected 1, 3, 5 or 7: every write waits for a majority of {size} disks"))
}

/// One node's record, on disk, of the wanted size and the members. The planner's memory is no place for it: a
/// reload of the configuration empties that memory, and a reload is one way to change the size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecRecord {
    /// The size at which this node last saw the cluster whole.
    #[serde(default)]
    pub settled: Option<usize>,
    /// The change of the size that is wanted or in progress.
    #[serde(default)]
    pub change: Option<SizeChange>,
    /// The last size read from the store. A store that does not answer or was emptied changes nothing.
    #[serde(default)]
    pub stored: Option<usize>,
    /// The members as this node's etcd last reported them, because an etcd that starts without quorum does
    /// not answer.
    #[serde(default)]
    pub members: Option<MemberList>,
}

/// A wanted change of the size, as one node first saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeChange {
    /// The wanted size.
    pub to: usize,
    /// The newest backup known at that time. The change waits for a newer one.
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

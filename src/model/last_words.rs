//! The cause of etcd's own exit, from the last lines of its log.

use serde::{Deserialize, Serialize};

/// The problem that etcd's last words name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// The write-ahead log is damaged.
    Log,
    /// The database is damaged.
    Database,
    /// The disk, or a quota on it, is full.
    NoSpace,
    /// The file system is mounted read-only.
    ReadOnly,
    /// etcd may not read or write a file: its owner or mode.
    NotPermitted,
    /// The disk returns errors.
    DiskError,
    /// Another program listens on one of etcd's addresses.
    AddressTaken,
    /// A certificate or key cannot be read or used.
    Certificate,
    /// More than one member is a learner, as this version of etcd reads its data.
    Learners,
}

impl Trouble {
    /// How many consecutive starts must end with this trouble before the data counts as damaged; `None` if
    /// the trouble is not in the data, which is then kept. One is enough for the log: the agent reads it as
    /// etcd does, so both mean the same record. The database needs two: etcd's tools report problems that do
    /// not keep etcd from starting, and a fault while the database is read (`SIGBUS`) may come from a disk
    /// that does not answer.
    fn damage_after(self) -> Option<u32> {
        match self {
            Self::Log => Some(1),
            Self::Database => Some(2),
            _ => None,
        }
    }
}

/// What etcd logged when it ended, in its last starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastWords {
    /// The problem that they name.
    pub trouble: Trouble,
    /// The last message, one line.
    pub text: String,
    /// The number of consecutive starts that ended with this trouble.
    pub starts: u32,
}

impl LastWords {
    /// True if etcd has reported often enough that its data is damaged. This alone is not sufficient
    /// evidence.
    pub fn claim_damage(&self) -> bool {
        self.trouble
            .damage_after()
            .is_some_and(|wanted| self.starts >= wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c11_how_often_etcd_has_to_say_so() {
        let claims = |trouble, starts| {
            let text = String::new();
            LastWords {
                trouble,
                text,
                starts,
            }
            .claim_damage()
        };
        assert!(claims(Trouble::Log, 1));
        assert!(!claims(Trouble::Database, 1));
        assert!(claims(Trouble::Database, 2));
        assert!(!claims(Trouble::DiskError, 9), "the data may be good");
    }
}

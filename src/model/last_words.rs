//! Why etcd ended by itself, as its own last words say it.

use serde::{Deserialize, Serialize};

/// What etcd's last words are about.
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
    /// The disk answers with errors.
    DiskError,
    /// Another program listens at one of etcd's addresses.
    AddressTaken,
    /// A certificate or key cannot be read or used.
    Certificate,
    /// More members than one are learners, as this version of etcd reads its data.
    Learners,
}

impl Trouble {
    /// How many starts in a row have to end so before the data counts as damaged; `None` for trouble around the data, which is
    /// kept. The agent reads the log as etcd does, so both speak of the same record. Of the database etcd's tools say more
    /// than keeps etcd from starting, and a fault while it is read (`SIGBUS`) may come from a disk that does not answer: there
    /// etcd has to say it twice.
    fn damage_after(self) -> Option<u32> {
        match self {
            Self::Log => Some(1),
            Self::Database => Some(2),
            _ => None,
        }
    }
}

/// What etcd said when it ended, in its last starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastWords {
    /// What they are about.
    pub trouble: Trouble,
    /// What it said last, one line.
    pub text: String,
    /// How many starts in a row have ended with this trouble.
    pub starts: u32,
}

impl LastWords {
    /// True when etcd has said often enough that its data is damaged. That alone is not believed.
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

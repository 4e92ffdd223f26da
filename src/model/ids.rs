//! Identifiers as newtypes, so that an epoch is never passed for a revision.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A malformed identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {found:?} is not valid: expected {expected}")]
pub struct IdError {
    /// The kind of identifier.
    pub what: &'static str,
    /// The text that was found.
    pub found: String,
    /// The expected form.
    pub expected: &'static str,
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $expected:literal, $max:literal, $ok:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Checks the form and creates the identifier.
            ///
            /// # Errors
            /// [`IdError`] naming what was found and what was expected.
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                let ok: fn(&str) -> bool = $ok;
                if text.is_empty() || text.len() > $max || !ok(&text) {
                    return Err(IdError { what: $what, found: text, expected: $expected });
                }
                Ok(Self(text))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(d)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

fn host_like(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.' || b == b'_')
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

name_type!(
    /// A node's name: its `ETCD_NAME` and its name among its peers. Default: the short host name.
    NodeName, "node name", "1 to 63 of a-z A-Z 0-9 . _ -, starting with a letter or digit", 63, host_like
);
name_type!(
    /// The name of one logical etcd cluster; it outlives its epochs.
    ClusterName, "cluster name", "1 to 63 of a-z A-Z 0-9 . _ -, starting with a letter or digit", 63, host_like
);
name_type!(
    /// The random identity of one agent state directory. A reinstalled elector gets a new one.
    Incarnation, "incarnation", "32 lower-case hexadecimal digits", 32,
    |t| t.len() == 32 && t.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
);
/// 2200-01-01, in milliseconds since 1970. No clock gives a memory a later time.
const LATEST_MS: u64 = 7_258_118_400_000;

impl Incarnation {
    /// This incarnation with its time moved to right after that of `other`; `None` if the time in `other` is
    /// not from any real clock. The first 12 digits are the creation time in milliseconds since 1970.
    pub fn after(&self, other: &Self) -> Option<Self> {
        let time = u64::from_str_radix(other.as_str().get(..12)?, 16).ok()?;
        let random = self.as_str().get(12..)?;
        let later = Self::new(format!("{:012x}{random}", time.checked_add(1)?)).ok()?;
        (time < LATEST_MS).then_some(later)
    }
}

name_type!(
    /// A backup's directory name below the store: `YYYY-MM-DDTHH:MM:SSZ-<seq6>`.
    BackupId, "backup name", "YYYY-MM-DDTHH:MM:SSZ-NNNNNN", 64,
    |t| t.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b':' | b'.' | b'_'))
        && t.starts_with(|c: char| c.is_ascii_alphanumeric())
);

macro_rules! hex_type {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&format!("{:x}", self.0))
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                u64::from_str_radix(text, 16).map(Self).map_err(|_| IdError {
                    what: $what, found: text.to_owned(), expected: "up to 16 hexadecimal digits, as etcdctl prints them",
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

hex_type!(
    /// etcd's 64-bit member ID, written in hexadecimal as `etcdctl member list` does.
    MemberId, "member ID"
);
hex_type!(
    /// etcd's 64-bit cluster ID, written in hexadecimal.
    ClusterId, "cluster ID"
);

macro_rules! number_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0.to_string())
            }
        }

        impl $name {
            /// The one after this.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }
    };
}

number_type!(
    /// One incarnation of the cluster's data: 0 means none yet, 1 at bootstrap, +1 at each restore.
    Epoch
);
/// How many epochs ahead a reported epoch may be. An honest node is never further ahead, because each epoch
/// needs a person's order.
const FAR: u64 = 1000;

impl Epoch {
    /// True for 0, the epoch before the first.
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// True if a reported epoch is too far ahead to be believed: more than 1,000 ahead of this one, the
    /// newest that is known to be open.
    pub fn is_far_below(self, reported: Self) -> bool {
        reported.0 > self.0.saturating_add(FAR) && !mutant!(BelievesNumbers)
    }

    /// The text for an epoch that is too far ahead of this one.
    pub fn too_far_ahead(self) -> String {
        format!("too far ahead of epoch {self}")
    }

    /// True if a node at this epoch can believe a reported epoch: the epoch after the reported one can then
    /// still be opened.
    pub fn can_believe(self, reported: Self) -> bool {
        !self.is_far_below(reported.next())
    }
}

number_type!(
    /// An assignment's generation on its node. Each new assignment increments it, which fences stale plans.
    Generation
);
number_type!(
    /// A raft term.
    RaftTerm
);
number_type!(
    /// An etcd key-value store revision.
    Revision
);

/// A Paxos ballot: ordered by round, then by the proposer's name, so that no two proposers share one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ballot {
    /// Grows with each attempt.
    pub round: u64,
    /// The proposer.
    pub node: NodeName,
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.round, self.node)
    }
}

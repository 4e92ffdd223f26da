//! The keys of etcd's v2 API, which no version of the v3 API and no backup contains. etcd 3.4 and 3.5 serve them with
//! `enable-v2`; 3.6 does not start on them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The first minor without the v2 API.
pub const WITHOUT_V2: (u64, u64) = (3, 6);

/// What a member's disk says of the keys of the v2 API: its newest snapshot of raft, and the log after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct V2Names {
    /// The number of keys. Some may be gone: the log does not tell which conditions failed and what has expired.
    pub keys: u64,
    /// One of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// The hidden keys and directories, whose names begin with `_`. etcd shows them to nobody who does not ask for them
    /// by name.
    #[serde(default)]
    pub hidden: BTreeSet<String>,
    /// True if the log holds a request of a client of the v2 API. etcd 3.6 panics on it (`v2ToV3Request` in its
    /// `server/etcdserver/apply_v2.go`), whatever the request did.
    #[serde(default)]
    pub in_log: bool,
}

/// A key of the v2 API, as etcd serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V2Key {
    /// The name, which begins with `/`.
    pub name: String,
    /// The value. The v2 API is JSON, so it is text.
    pub value: String,
    /// The seconds after which it expires, by itself or with a directory above it.
    pub ttl: Option<i64>,
}

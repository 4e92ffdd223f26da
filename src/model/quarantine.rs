//! Quarantine: etcd refuses writes on all members while the cluster moves to another version of etcd.
//!
//! It is etcd's own alarm CORRUPT, raised for a member ID that no member has. Raft orders it: from one index on,
//! all members refuse every write, and still serve reads. etcd keeps alarms in its database, so a backup contains
//! the quarantine, and the epoch that is restored from it begins in quarantine. Source: `applierV3Corrupt` in
//! etcd's `server/etcdserver/apply/corrupt.go` (3.4 to 3.7).

use serde::{Deserialize, Serialize};

use super::{AlarmKind, EtcdVersion, MemberId};

/// The member ID for which the alarm is raised: `etcdmove` in ASCII. A member's ID is a hash, so no member has it.
pub const QUARANTINE: (MemberId, AlarmKind) = (MemberId(0x6574_6364_6d6f_7665), AlarmKind::Corrupt);

/// The first minor in which an alarm leaves the checks of users and roles in force. In an older etcd anybody who
/// reaches it could administer users meanwhile (`applierV3backend.Alarm` in 3.4 and 3.5).
pub const CHECKS_USERS_IN_QUARANTINE: (u64, u64) = (3, 6);

/// `POST /v1/quarantine`: an order to begin or to end the quarantine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "quarantine", deny_unknown_fields)]
pub enum QuarantineOrder {
    /// Begin it, for a move to another version.
    Begin {
        /// The version.
        to: EtcdVersion,
        /// Only check whether the cluster can be moved.
        #[serde(default)]
        dry_run: bool,
    },
    /// End it. The data of an epoch that was opened by a move is compared with the backup first.
    End {
        /// Also if a node does not answer, or the comparison fails.
        #[serde(default)]
        force: bool,
    },
}

/// The answer to `POST /v1/quarantine`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineView {
    /// True if the order changed something.
    pub changed: bool,
    /// What was compared, one line; empty if nothing was.
    #[serde(default)]
    pub compared: String,
}

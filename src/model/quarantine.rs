//! Quarantine: etcd refuses writes on all members while the cluster moves to another version of etcd.
//!
//! It is etcd's own alarm CORRUPT, raised for a member ID that no member has. Raft orders it: from one index on,
//! all members refuse every write, and still serve reads. etcd keeps alarms in its database, so a backup contains
//! the quarantine, and the epoch that is restored from it begins in quarantine. Source: `applierV3Corrupt` in
//! etcd's `server/etcdserver/apply/corrupt.go` (3.4 to 3.7).
//!
//! In 3.4 and 3.5 the alarm NOSPACE lifts the quarantine, although CORRUPT stays listed: raising it replaces
//! the applier that refuses everything by one that accepts deletions, and disarming the last one installs the
//! applier that accepts all. Another CORRUPT then changes nothing; a restart of the member does
//! (`applierV3backend.Alarm` and `restoreAlarms` in `server/etcdserver/apply.go` and `server.go` of 3.5;
//! `restoreAlarms` in `uber_applier.go` of 3.6 looks at both after each alarm). So no quarantine goes on with
//! NOSPACE, agents do not disarm NOSPACE in one, and before a new epoch is accepted etcd has to refuse an
//! attempt (`refusal.rs` in `src/agent/execute`).

use serde::{Deserialize, Serialize};

use super::{AlarmKind, EtcdVersion, MemberId};

/// The upper half of the member IDs for which the alarm is raised: `etcd` in ASCII. The ID of a member is a hash, so
/// hardly any member has it.
const UPPER: u64 = 0x6574_6364_0000_0000;
const LOWER: u64 = 0xffff_ffff;

/// The alarm that begins the quarantine; its member ID is `etcdmove` in ASCII.
pub const QUARANTINE: (MemberId, AlarmKind) = (MemberId(0x6574_6364_6d6f_7665), AlarmKind::Corrupt);

/// A seal: the same alarm for an ID of its own. A node raises one before it opens an epoch from the backup. etcd
/// refuses writes while any such alarm is raised. An order to end the quarantine disarms only alarms that were there
/// before it has seen that no node opens an epoch, so it cannot end the quarantine of a node that begins to do so
/// later.
pub fn seal(random: u64) -> (MemberId, AlarmKind) {
    let id = MemberId(UPPER | random & LOWER);
    let other = MemberId(QUARANTINE.0.0 ^ 1);
    (if id == QUARANTINE.0 { other } else { id }, QUARANTINE.1)
}

/// True for the alarm of the quarantine, and for a seal.
pub fn is_quarantine((member, alarm): (MemberId, AlarmKind)) -> bool {
    alarm == QUARANTINE.1 && member.0 & !LOWER == UPPER
}

/// Why there is no move while NOSPACE is raised, and what to do.
pub const NOSPACE_LIFTS_QUARANTINE: &str = "the alarm NOSPACE is raised, with which etcd 3.4 and 3.5 accept writes in quarantine: \
     `etcd-agent move --cancel` if the cluster is in quarantine, free space, and move again";

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
        /// Carry the keys of etcd's v2 API into those of v3 first. Without it a cluster that has any is not moved.
        #[serde(default)]
        include_v2: bool,
    },
    /// End it. The data of an epoch that was opened by a move is compared with the backup first.
    End {
        /// Also if a node does not answer, or the comparison fails.
        #[serde(default)]
        force: bool,
    },
}

/// The answer to `POST /v1/quarantine`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineView {
    /// True if the order changed something.
    pub changed: bool,
    /// What was compared, one line; empty if nothing was.
    #[serde(default)]
    pub compared: String,
    /// The number of keys of etcd's v2 API that are, or would be, carried into v3.
    #[serde(default)]
    pub v2_keys: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_of_the_quarantine_and_not_its_beginning() {
        for random in [0, 1, u64::MAX, QUARANTINE.0.0] {
            let seal = seal(random);
            assert!(is_quarantine(seal) && seal != QUARANTINE, "{random:x}");
        }
        assert!(is_quarantine(QUARANTINE));
        for (member, alarm) in [(7, AlarmKind::Corrupt), (QUARANTINE.0.0, AlarmKind::NoSpace)] {
            assert!(!is_quarantine((MemberId(member), alarm)), "{member:x}");
        }
    }
}

//! `MESSAGE_ID`s. `journalctl -x` explains them from `units/etcd-agent.catalog`, and scripts match on them.
//! The meaning of a released ID never changes.

/// The planner decided on an action.
pub const DECISION: &str = "31eea5df251e4e0ebd5543d1aae59e86";
/// The planner stops until an operator acts.
pub const HALT: &str = "e0082d52013b4f15a9b2f9e6f422a881";
/// Another agent became the coordinator.
pub const COORDINATOR: &str = "f2386411aec74710b8af8430eb09433d";
/// A member that had lost its data is a voter again.
pub const MEMBER_REPAIRED: &str = "6c6d4cc1e90d4ad1a5d6cf9cca0959dc";
/// A full backup was committed.
pub const BACKUP_COMMITTED: &str = "3415a0736bd640218c4c1e76318c6963";
/// A backup was tried and failed.
pub const BACKUP_FAILED: &str = "d66d33ac50f44000bd5de0eb7b1130eb";
/// etcd was put back to an older state, so the increments no longer continue its history.
pub const HISTORY_WENT_BACK: &str = "8c1f0a5be2c94d5f9b0d6e7a4f3c2b19";
/// Old backups were removed.
pub const BACKUPS_PRUNED: &str = "5d1f0d6a1c0e4c2fb0a7c2b8e2f49a61";
/// A backup was verified, and is valid.
pub const BACKUP_VERIFIED: &str = "0dbf3ccc5d91434aad01fa0fba80f539";
/// A backup was verified, and is not valid.
pub const BACKUP_BAD: &str = "bdbbec5c1c504a7b8a035fe816b6f0cc";
/// A backup could not be verified; whether it is valid is unknown.
pub const VERIFY_FAILED: &str = "e64c33eb1da44aa79b2e993e08d25e35";
/// The data of a member differs from the others'.
pub const DATA_DIFFERS: &str = "7c2f1d0e5b0a4e0f9a86d3c4b1e75f28";
/// A restore began, progressed, or ended.
pub const RESTORE: &str = "c2e6ee15161f4a10822a2a028eae8096";
/// The gate delays a start of etcd.service.
pub const GATE_WAITS: &str = "e36302fbd5ba42fe9a968c0909f4f03c";

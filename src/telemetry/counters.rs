//! What a running agent counts for the metrics.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::model::{ActionKind, Cause, Revision, UnixMs};

/// The counters of a running agent.
#[derive(Debug, Default)]
pub struct Counters {
    actions: Mutex<BTreeMap<(ActionKind, ActionResult), u64>>,
    pub(super) stored: Mutex<BTreeMap<BackupKind, Success>>,
    failed: Mutex<BTreeMap<(BackupKind, Cause), u64>>,
}

/// How an executed action ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActionResult {
    /// It was carried out.
    Ok,
    /// Its job was started, and runs concurrently with the loop.
    Begun,
    /// It failed.
    Failed,
}

impl ActionResult {
    /// The results that an action of this kind can have.
    pub fn of(kind: ActionKind) -> [Self; 2] {
        let success = if kind.begins_a_job() {
            Self::Begun
        } else {
            Self::Ok
        };
        [success, Self::Failed]
    }

    /// As a label of a metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Begun => "begun",
            Self::Failed => "failed",
        }
    }
}

/// What an agent stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackupKind {
    /// A full backup.
    Full,
    /// An increment.
    Increment,
}

impl BackupKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Full, Self::Increment];

    /// As a label of a metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Increment => "increment",
        }
    }
}

/// A backup that this agent has stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Success {
    /// When it was committed.
    pub at: UnixMs,
    /// The newest revision that it is known to contain.
    pub revision: Revision,
    /// Its stored size.
    pub size_bytes: u64,
    /// How long it took.
    pub took: Duration,
}

impl Counters {
    /// Counts one executed action.
    pub fn action(&self, kind: ActionKind, result: ActionResult) {
        *locked(&self.actions).entry((kind, result)).or_insert(0) += 1;
    }

    /// Records the last backup of a kind.
    pub fn stored(&self, kind: BackupKind, success: Success) {
        locked(&self.stored).insert(kind, success);
    }

    /// Counts a failed backup.
    pub fn failed(&self, kind: BackupKind, cause: Cause) {
        *locked(&self.failed).entry((kind, cause)).or_insert(0) += 1;
    }

    /// The executed actions of each kind, by each result that they can have.
    pub(super) fn actions(&self) -> Vec<(ActionKind, ActionResult, u64)> {
        let counted = locked(&self.actions);
        let kinds = ActionKind::ALL.iter();
        kinds
            .flat_map(|kind| ActionResult::of(*kind).map(|result| (*kind, result)))
            .map(|(kind, result)| (kind, result, counted.get(&(kind, result)).copied().unwrap_or(0)))
            .collect()
    }

    /// The failed backups of each kind, by each cause.
    pub(super) fn failures(&self) -> Vec<(BackupKind, Cause, u64)> {
        let counted = locked(&self.failed);
        BackupKind::ALL
            .iter()
            .flat_map(|kind| Cause::ALL.map(|cause| (*kind, cause)))
            .map(|(kind, cause)| (kind, cause, counted.get(&(kind, cause)).copied().unwrap_or(0)))
            .collect()
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

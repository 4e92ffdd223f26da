//! What a running agent counts for the metrics.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::model::{Revision, UnixMs};

/// The counters of a running agent.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) actions: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    pub(super) stored: Mutex<BTreeMap<&'static str, Success>>,
    pub(super) failed: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
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
    /// Counts one executed action by its name (`Action::name`) and its result: `ok`, `failed`, or `begun` for
    /// a job that runs concurrently with the loop.
    pub fn action(&self, name: &'static str, result: &'static str) {
        *locked(&self.actions).entry((name, result)).or_insert(0) += 1;
    }

    /// Records the last backup of a kind (`full`, `increment`).
    pub fn stored(&self, kind: &'static str, success: Success) {
        locked(&self.stored).insert(kind, success);
    }

    /// Counts a failed backup of a kind, by the place of the failure (`backup::Cause`).
    pub fn failed(&self, kind: &'static str, cause: &'static str) {
        *locked(&self.failed).entry((kind, cause)).or_insert(0) += 1;
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

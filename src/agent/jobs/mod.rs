//! Long-running work, in the background next to the loop.

pub(super) mod copy;
pub(super) mod corruption;
pub(super) mod flush;
pub(super) mod full;
pub(super) mod handover;
pub(super) mod increments;
pub(super) mod probe;
pub(super) mod prune;
pub(super) mod restore;
pub(super) mod shutdown;
pub(super) mod space;
pub(super) mod store_view;
pub(super) mod verify;

use crate::agent::Agent;
use crate::agent::state::jobs::JobKind;
use crate::backup::Failed;
use crate::ports::{PortError, PortResult};
use crate::telemetry::BackupKind;

/// Runs `work` as the job of this kind. Its result is recorded there and wakes the loop.
pub(super) fn spawn<T: Send + 'static>(
    agent: &Agent,
    kind: JobKind,
    work: impl Future<Output = PortResult<T>> + Send + 'static,
    done: impl FnOnce(&Agent, Result<T, &PortError>) + Send + 'static,
) {
    agent.shared.with(|inner| inner.jobs.begin(kind));
    let agent = agent.clone();
    tokio::spawn(async move {
        let result = work.await;
        let now = agent.ports.clock.steady();
        let error = result.as_ref().err().map(PortError::to_string);
        agent.shared.with(|inner| inner.jobs.end(kind, error, now));
        match result {
            Ok(value) => done(&agent, Ok(value)),
            Err(error) => done(&agent, Err(&error)),
        }
        agent.shared.wake.notify_one();
    });
}

impl Agent {
    /// Counts a failure for `/metrics`.
    pub(super) fn count_failed(&self, kind: BackupKind, failed: Failed) -> PortError {
        self.counters.failed(kind, failed.cause);
        failed.error
    }
}

pub(super) fn no_store() -> PortError {
    PortError::Permanent("no store is configured: set store.url".to_owned())
}

//! The connection to systemd, and the jobs that are queued over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};
use zbus::OwnedObjectPath;

use super::error::{Ask, lost, port_error};
use super::live::{CALL, Live};
use super::watch::{self, Shared};
use crate::model::UnitState;
use crate::paths::Paths;
use crate::ports::{PortError, PortResult};

/// How long to wait for another oneshot to end. All oneshots except the staging of a restore are short.
const ONE_WITHIN: Duration = Duration::from_secs(1);

/// The job mode (systemctl(1), `--job-mode=`) that fails rather than turn a running stop into a start: a stop
/// of etcd takes precedence.
const GENTLY: &str = "fail";

/// The service manager of a real host.
#[derive(Debug)]
pub struct Systemd {
    pub(super) shared: Arc<Shared>,
    watcher: AbortHandle,
    /// One oneshot at a time: each has one request and one result file.
    pub(super) oneshot: Mutex<()>,
    /// One verification at a time. It takes long, and blocks only the next verification.
    pub(super) proving: Mutex<()>,
    /// The unit as loaded, and the count of reloads at which it was read.
    pub(super) loaded: Mutex<Option<(u64, crate::unit::loaded::LoadedUnit)>>,
    pub(super) serial: AtomicU64,
    /// Whether the files that this user may not look at were already logged.
    pub(super) hidden_logged: AtomicBool,
}

impl Systemd {
    /// Begins to follow systemd, and reconnects after every loss of the connection. Needs a tokio runtime.
    pub fn new(paths: Paths) -> Self {
        let shared = Arc::new(Shared::new(paths));
        let watcher = tokio::spawn(watch::watch(Arc::clone(&shared))).abort_handle();
        Self {
            shared,
            watcher,
            oneshot: Mutex::new(()),
            proving: Mutex::new(()),
            loaded: Mutex::new(None),
            serial: AtomicU64::new(0),
            hidden_logged: AtomicBool::new(false),
        }
    }

    /// The connection; if it was just lost, waits for the next one.
    pub(super) async fn live(&self, what: &str) -> PortResult<Live> {
        let mut live = self.shared.live.subscribe();
        let found = timeout(CALL, live.wait_for(Option::is_some)).await;
        if let Ok(Ok(found)) = found
            && let Some(live) = &*found
        {
            return Ok(live.clone());
        }
        let why = match self.shared.state() {
            Err(error) => error.to_string(),
            Ok(_) => "not connected".to_owned(),
        };
        Err(PortError::Retryable(format!("cannot {what}: {why}")))
    }

    /// Queues a job and waits for its end.
    pub(super) async fn run_job(&self, verb: Verb, unit: &str, deadline: Duration) -> PortResult<()> {
        let until = Instant::now() + deadline;
        let what = format!("{} {unit}", verb.word());
        let live = self.live(&what).await?;
        let mut lives = self.shared.live.subscribe();
        // Subscribe before asking: the job may end before the answer arrives.
        let mut jobs = self.shared.jobs.subscribe();
        let job = self.queue(&live, verb, unit).await?;
        let result = loop {
            let next = tokio::select! {
                next = timeout_at(until, jobs.recv()) => next,
                _ = lives.wait_for(Option::is_none) => return Err(lost(&what, Ask::Change, "it left the bus")),
            };
            match next {
                Ok(Ok(end)) if end.job == job => break end.result,
                Ok(Ok(_)) => {}
                Ok(Err(RecvError::Lagged(_) | RecvError::Closed)) => {
                    return Err(lost(&what, Ask::Change, "its answer was missed"));
                }
                Err(_) => {
                    return Err(PortError::OutcomeUnknown(format!(
                        "systemd did not {what} within {} s",
                        deadline.as_secs()
                    )));
                }
            }
        };
        match result.as_str() {
            "done" | "skipped" => Ok(()),
            result => Err(PortError::Retryable(format!(
                "systemd could not {what}: the job ended as {result} (journalctl -u {unit})"
            ))),
        }
    }

    pub(super) async fn queue(&self, live: &Live, verb: Verb, unit: &str) -> PortResult<OwnedObjectPath> {
        let asked = match verb {
            Verb::Start => live.manager.start_unit(unit, GENTLY).await,
            Verb::Stop => live.manager.stop_unit(unit, "replace").await,
            Verb::Restart => live.manager.restart_unit(unit, GENTLY).await,
        };
        asked.map_err(|error| port_error(&format!("{} {unit}", verb.word()), Ask::Change, &error))
    }

    /// The lock that allows to run a oneshot. Does not wait for a long oneshot, such as the staging of a
    /// restore: the loop tries again later, and decides other things meanwhile.
    pub(super) async fn one(&self, what: &str) -> PortResult<MutexGuard<'_, ()>> {
        timeout(ONE_WITHIN, self.oneshot.lock()).await.map_err(|_| {
            PortError::Retryable(format!(
                "cannot {what}: etcd-agent-data.service or etcd-agent-apply.service is at work; the agent tries again"
            ))
        })
    }

    /// The unit's state, read from systemd now, and its activation.
    pub(super) async fn fresh(&self, live: &Live) -> PortResult<(UnitState, u64)> {
        let raw = self
            .shared
            .refresh(live)
            .await
            .map_err(|error| port_error("read etcd.service", Ask::Read, &error))?;
        Ok((self.shared.state()?, raw.inactive_exit))
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Verb {
    Start,
    Stop,
    Restart,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
        }
    }
}

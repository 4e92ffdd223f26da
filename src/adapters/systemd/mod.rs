//! Talks to systemd over D-Bus, and never runs `systemctl`.

mod connection;
mod error;
pub mod live;
mod login;
mod marker;
mod oneshots;
pub mod proxy;
mod state;
mod watch;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::watch::Receiver as Watching;
use tokio::time::timeout;
use zbus::OwnedObjectPath;

use crate::adapters::tls;
use crate::etcd_versions::{base_etcd, etcd_versions, is_started};
use crate::model::{ActiveState, EtcdSpec, EtcdVersion, Fact, InForce, TlsFiles, UnitState};
use crate::ports::{
    DataReport, DataRequest, PortError, PortResult, RestoreReport, ServiceManager, ShutdownLock,
    VerifyRestoreRequest,
};
use crate::unit::roots::roots_own;
pub use connection::Systemd;

use connection::Verb;
use error::{Ask, port_error};
use live::{ETCD, Live};
use watch::{Asking, JobEnd, Shared};

/// systemd's error for a process that belongs to no unit or no longer exists.
const NO_UNIT: &str = "org.freedesktop.systemd1.NoUnitForPID";

/// True if systemd refused the job, or the job ended with another result than `done`.
fn came_to_nothing<T>(asked: &PortResult<T>) -> bool {
    matches!(asked, Err(PortError::Retryable(_) | PortError::Permanent(_)))
}

/// How long to follow the job of a restart. After that time its stop has ended long ago, and etcd is waiting
/// for quorum.
const RESTART_FOLLOWED: Duration = Duration::from_mins(5);

/// Follows the job of a restart to its end. A stop that another user requests meanwhile cancels it.
async fn restarted(
    shared: Arc<Shared>,
    job: OwnedObjectPath,
    mut jobs: Receiver<JobEnd>,
    mut lives: Watching<Option<Live>>,
    asking: Asking,
) {
    let followed = async {
        loop {
            tokio::select! {
                next = jobs.recv() => match next {
                    Ok(end) if end.job == job => return Some(end.result),
                    Ok(_) => {}
                    Err(RecvError::Lagged(_) | RecvError::Closed) => return None,
                },
                _ = lives.wait_for(Option::is_none) => return None,
            }
        }
    };
    let result = timeout(RESTART_FOLLOWED, followed).await.ok().flatten();
    if result.is_some_and(|result| result != "done") {
        marker::remove(&shared.paths);
    }
    drop(asking);
}

#[async_trait]
impl ServiceManager for Systemd {
    async fn etcd_unit(&self) -> PortResult<UnitState> {
        self.live("read etcd.service").await?;
        self.shared.state()
    }

    async fn start_etcd(&self) -> PortResult<()> {
        let live = self.live("start etcd.service").await?;
        let (state, _) = self.fresh(&live).await?;
        if state.active == ActiveState::Failed || state.result == "start-limit-hit" {
            live.manager
                .reset_failed_unit(ETCD)
                .await
                .map_err(|error| port_error("reset the failure of etcd.service", Ask::Change, &error))?;
        }
        self.queue(&live, Verb::Start, ETCD).await?;
        marker::remove(&self.shared.paths);
        self.shared.note();
        Ok(())
    }

    async fn restart_etcd(&self) -> PortResult<()> {
        let live = self.live("restart etcd.service").await?;
        let (_, activation) = self.fresh(&live).await?;
        let asking = self.shared.ask();
        let (jobs, lives) = (self.shared.jobs.subscribe(), self.shared.live.subscribe());
        marker::write(&self.shared.paths, activation)?;
        let queued = self.queue(&live, Verb::Restart, ETCD).await;
        if came_to_nothing(&queued) {
            marker::remove(&self.shared.paths);
        }
        tokio::spawn(restarted(Arc::clone(&self.shared), queued?, jobs, lives, asking));
        self.shared.note();
        Ok(())
    }

    async fn stop_etcd(&self, deadline: Duration) -> PortResult<()> {
        let live = self.live("stop etcd.service").await?;
        let (state, activation) = self.fresh(&live).await?;
        let asking = self.shared.ask();
        // If an operator holds the unit, do not record the stop as the agent's.
        if !state.held {
            marker::write(&self.shared.paths, activation)?;
        }
        let stopped = self.run_job(Verb::Stop, ETCD, deadline).await;
        if came_to_nothing(&stopped) {
            // The next stop is an operator's. If the outcome of this one is unknown, the unit's state shows
            // it later.
            marker::remove(&self.shared.paths);
        }
        drop(asking);
        stopped?;
        self.fresh(&live).await?;
        Ok(())
    }

    async fn apply(&self, deadline: Duration) -> PortResult<InForce> {
        let _one = self.one("apply settings").await?;
        oneshots::apply(self, deadline).await
    }

    async fn in_force(&self) -> Fact<InForce> {
        oneshots::in_force(self).await
    }

    async fn data(&self, request: &DataRequest, deadline: Duration) -> PortResult<DataReport> {
        let _one = self.one("work on the data directory").await?;
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        oneshots::data(self, request, serial, deadline).await
    }

    async fn verify_restore(
        &self,
        request: &VerifyRestoreRequest,
        deadline: Duration,
    ) -> PortResult<RestoreReport> {
        let _one = self.proving.lock().await;
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        oneshots::verify_restore(self, request, serial, deadline).await
    }

    async fn is_etcds(&self, pid: u32) -> PortResult<bool> {
        let what = "find the unit of a process";
        let live = self.live(what).await?;
        match live.manager.get_unit_by_pid(pid).await {
            Ok(unit) => Ok(unit == live.path),
            Err(zbus::Error::MethodError(name, ..)) if name.as_str() == NO_UNIT => Ok(false),
            Err(error) => Err(port_error(what, Ask::Read, &error)),
        }
    }

    fn has_room(&self, dir: &Path) -> bool {
        has_free(dir, LOG_FILE)
    }

    fn etcd_versions(&self, dir: &Path) -> BTreeSet<EtcdVersion> {
        roots_versions(dir)
    }

    async fn base_etcd(&self, spec: &EtcdSpec) -> Option<String> {
        let exec_start = match &*self.loaded.lock().await {
            Some((_, loaded)) => loaded.exec_start.concat(),
            None => Vec::new(),
        };
        let (path, file) = base_etcd(spec.binary.as_deref())?;
        is_started(&path, &exec_start, &spec.versions_dir).then_some(file)
    }

    fn compares_settings(&self) -> bool {
        true
    }

    fn tls_stamp(&self, sets: &[TlsFiles]) -> Option<String> {
        Some(tls::stamp(sets))
    }

    fn knows_mount(&self) -> bool {
        // Checked each time: an operator removes the file if the file system of the data is permanently lost
        // (`missing` in `src/unit/data/inspect.rs`). An unreadable file counts as present.
        self.shared.paths.data_mount().try_exists().unwrap_or(true)
    }

    async fn shuts_down(&self) -> bool {
        let what = "ask whether the host shuts down";
        let state = async {
            let live = self.live(what).await?;
            let state = live.manager.system_state().await;
            state.map_err(|error| port_error(what, Ask::Read, &error))
        };
        // A stop must not wait for an answer of systemd.
        let state = timeout(Duration::from_secs(1), state).await;
        matches!(state, Ok(Ok(state)) if state == "stopping")
    }

    async fn shutdown_begins(&self) -> PortResult<ShutdownLock> {
        let what = "delay a shutdown of this host";
        let live = self.live(what).await?;
        login::shutdown_begins(&live)
            .await
            .map_err(|error| port_error(what, Ask::Read, &error))
    }

    async fn changed(&self) {
        self.shared.changed.notified().await;
    }
}

/// The versions below `dir` that can be selected: only root can have put their etcd there, as apply checks again
/// before etcd is started with one (`src/unit/apply/version.rs`). An order that names another version is refused, and
/// each one while the directory cannot be read.
fn roots_versions(dir: &Path) -> BTreeSet<EtcdVersion> {
    let found = etcd_versions(dir).unwrap_or_default().into_iter();
    let roots = found.filter(|(version, etcd)| roots_own(&format!("etcd {version}"), etcd).is_ok());
    roots.map(|(version, _)| version).collect()
}

/// The size in bytes that etcd preallocates for a file of its write-ahead log (`SegmentSizeBytes` in etcd's
/// `server/storage/wal/wal.go`).
const LOG_FILE: u64 = 64_000_000;

/// Whether this many bytes are free for a user who is not root. If only etcd may enter the directory, its
/// nearest accessible parent is checked. An unknown amount counts as free.
fn has_free(dir: &Path, bytes: u64) -> bool {
    let stat = dir.ancestors().find_map(|dir| rustix::fs::statvfs(dir).ok());
    stat.is_none_or(|stat| stat.f_bavail.saturating_mul(stat.f_frsize) >= bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::paths::Paths;
    use crate::ports::Inspection;

    /// The staging of a restore may take an hour, and the loop decides nothing else while it waits.
    #[tokio::test]
    async fn c09e_the_loop_does_not_wait_for_a_oneshot_that_lasts() {
        let dir = tempfile::tempdir().unwrap();
        let systemd = Systemd::new(Paths::below(dir.path()));
        let staging = systemd.oneshot.lock().await;
        let within = Duration::from_mins(1);
        let applied = timeout(within, systemd.apply(within * 9)).await;
        assert!(matches!(applied, Ok(Err(PortError::Retryable(why))) if why.contains("is at work")));
        let looked = timeout(
            within,
            systemd.data(&DataRequest::Inspect(Inspection::default()), within * 9),
        )
        .await;
        assert!(matches!(looked, Ok(Err(PortError::Retryable(why))) if why.contains("is at work")));
        drop(staging);
    }

    #[test]
    fn f01_a_version_that_is_not_roots_alone_cannot_be_selected() {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("etcd-v3.6.16");
        std::fs::create_dir(&place).unwrap();
        let etcd = place.join("etcd");
        std::fs::write(&etcd, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&etcd, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(etcd_versions(dir.path()).unwrap().len(), 1, "it is there");
        // Anybody can write to the directory for temporary files above it.
        assert_eq!(roots_versions(dir.path()), BTreeSet::new());
        assert_eq!(roots_versions(&dir.path().join("none")), BTreeSet::new());
    }

    #[test]
    fn s34_a_full_disk_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("etcd/default");
        assert!(has_free(&missing, 1));
        assert!(!has_free(&missing, u64::MAX));
    }
}

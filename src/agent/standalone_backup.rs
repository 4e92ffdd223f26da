//! Backs up an etcd that the agent does not manage: the same pipeline, without loop, planner and units.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::adapters::clock::SystemClock;
use crate::adapters::etcd::LocalEtcd;
use crate::adapters::store::{open_backups, open_store};
use crate::backup::{self, BackupMeta, Format};
use crate::config::Settings;
use crate::model::{
    Backoff, BackupFormat, BackupSummary, ClusterId, Epoch, EtcdStatus, TlsFiles, UnixMs, Verdict,
};
use crate::plan;
use crate::ports::{Clock, Etcd, ObjectStore, PortError, PortResult};

use super::watchdog;

/// The pause after the first failure. It doubles with each further one, up to the interval.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// Timeout of removing and of copying. They take longer only if something hangs. The next round continues
/// with the rest.
const ROUND: Duration = Duration::from_hours(6);

/// The settings of a standalone backup.
#[derive(Debug)]
pub struct StandaloneBackup {
    /// `[store]`, `[backup]`, and the cluster's and this node's names.
    pub settings: Settings,
    /// Client URLs of the members.
    pub endpoints: Vec<String>,
    /// The TLS files for `https://` URLs.
    pub tls: Option<TlsFiles>,
    /// The ID of the cluster if it was restored by hand: the newest backup may then be of another one.
    pub cluster_id: Option<ClusterId>,
    /// Take one backup, then end.
    pub once: bool,
}

struct Runner {
    settings: Settings,
    interval: Duration,
    members: Vec<(String, LocalEtcd)>,
    cluster_id: Option<ClusterId>,
    store: Arc<dyn ObjectStore>,
    /// The store without decryption, and `[store.copy]`: encrypted objects are copied as they are.
    copy: Option<(Arc<dyn ObjectStore>, Arc<dyn ObjectStore>)>,
    clock: SystemClock,
}

/// Takes a full backup whenever one is due by `backup.interval` or `backup.on_calendar`, removes old ones and
/// copies to the second store, until SIGTERM.
///
/// # Errors
/// No store, no member or wrong URLs; with `once` also the error of the backup.
pub async fn run_standalone_backup(standalone: StandaloneBackup) -> anyhow::Result<()> {
    let once = standalone.once;
    let runner = Runner::new(standalone)?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen to signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to signals")?;
    let work = async {
        if once {
            let (url, etcd, cluster) = runner.pick().await?;
            runner.newest(Some(cluster)).await?;
            runner.back_up(url, etcd).await?;
            return Ok(runner.look_after().await?);
        }
        watchdog::ready();
        runner.forever().await
    };
    tokio::select! {
        ended = work => return ended,
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    // An uncommitted backup leaves nothing that counts as a backup.
    watchdog::stopping();
    if once {
        bail!("ended by a signal before all was done");
    }
    Ok(())
}

impl Runner {
    fn new(standalone: StandaloneBackup) -> anyhow::Result<Self> {
        let store = standalone.settings.store.as_ref();
        let store = store.context("no store is configured: set store.url")?;
        let second = standalone.settings.store_copy.as_ref();
        let copy = second.map(|second| (open_store(store), open_store(second)));
        let store = open_backups(store, &standalone.settings.encryption)?;
        let interval = standalone
            .settings
            .spec
            .backup_interval
            .unwrap_or(Duration::from_mins(15));
        let mut members = Vec::new();
        for url in &standalone.endpoints {
            let etcd = LocalEtcd::at_url(url, standalone.tls.clone()).map_err(anyhow::Error::msg)?;
            members.push((url.clone(), etcd));
        }
        if members.is_empty() {
            bail!("no member to back up: give --endpoints");
        }
        Ok(Self {
            copy,
            settings: standalone.settings,
            interval,
            members,
            cluster_id: standalone.cluster_id,
            store,
            clock: SystemClock,
        })
    }

    async fn forever(&self) -> anyhow::Result<()> {
        let (mut failures, mut taken) = (0_u32, None);
        loop {
            let pause = match self.step(&mut taken).await {
                Ok(pause) => {
                    failures = 0;
                    pause
                }
                Err(error) => self.failed(&mut failures, &error),
            };
            self.rest(pause).await;
        }
    }

    /// Takes a backup if one is due; returns when to check again.
    async fn step(&self, taken: &mut Option<UnixMs>) -> PortResult<Duration> {
        let member = self.pick().await;
        // Another cluster is refused also while no backup is due.
        let cluster = member.as_ref().ok().map(|(.., cluster)| *cluster);
        let newest = self.newest(cluster).await?;
        if let Some(backup) = &newest {
            watchdog::say(&format!(
                "newest backup {} (revision {})",
                backup.id, backup.revision
            ));
        }
        let calendar = self.settings.spec.backup.on_calendar.as_ref();
        let now = self.clock.now();
        if let Some(wait) = plan::backup_in(newest.as_ref(), *taken, now, self.interval, calendar) {
            return Ok(wait.saturating_add(self.jitter(Duration::from_secs(1))));
        }
        let (url, etcd, _) = member?;
        *taken = Some(self.back_up(url, etcd).await?.at);
        if let Err(error) = self.look_after().await {
            tracing::warn!("{error}");
        }
        Ok(Duration::ZERO)
    }

    async fn back_up(&self, url: &str, etcd: &LocalEtcd) -> PortResult<BackupSummary> {
        watchdog::say(&format!("backing up {url}"));
        let spec = &self.settings.spec;
        let meta = BackupMeta {
            cluster: spec.cluster.clone(),
            // The epochs of this cluster are not numbered.
            epoch: Epoch(0),
            cluster_id: None,
            node: spec.node.clone(),
            started_at: self.clock.now(),
            seq: self.clock.random(),
            ordered: false,
        };
        let format = match spec.backup.format {
            BackupFormat::Native => Format::Native,
            BackupFormat::EtcdManager => {
                let list = etcd.members(false).await?;
                let voters = list.members.iter().filter(|member| !member.is_learner).count();
                Format::EtcdManager { members: voters }
            }
        };
        // Progress feeds the watchdog. The pipeline gives up a stalled stream.
        let progress = |_| watchdog::feed();
        let taken = backup::take_full_as(etcd, self.store.as_ref(), &meta, format, progress).await?;
        tracing::info!(
            message_id = crate::telemetry::message_ids::BACKUP_COMMITTED,
            "backup {} of {url} committed: revision {}, {} bytes stored",
            taken.id,
            taken.revision,
            taken.size_bytes
        );
        Ok(taken)
    }

    /// The newest backup under this name. Refuses a cluster that it does not continue.
    async fn newest(&self, of: Option<ClusterId>) -> PortResult<Option<BackupSummary>> {
        let (store, name) = (self.store.as_ref(), &self.settings.spec.cluster);
        let newest = backup::newest(store, name, || self.clock.now()).await?;
        if let Some(own) = of {
            backup::refuse_other_cluster(store, name, newest.as_ref(), own, self.cluster_id).await?;
        }
        Ok(newest)
    }

    /// The member to take a backup of, and its cluster.
    async fn pick(&self) -> PortResult<(&str, &LocalEtcd, ClusterId)> {
        let asked = self.members.iter().map(|(_, etcd)| etcd.status());
        let answers: Vec<PortResult<EtcdStatus>> = futures::future::join_all(asked).await;
        let known: Vec<Option<EtcdStatus>> = answers
            .iter()
            .map(|answer| answer.as_ref().ok().cloned())
            .collect();
        let picked = plan::backup_of(&known).map_err(PortError::Permanent)?;
        if let Some(place) = picked
            && let (Some((url, etcd)), Some(Some(status))) = (self.members.get(place), known.get(place))
        {
            return Ok((url, etcd, status.cluster_id));
        }
        let why = answers.into_iter().find_map(Result::err);
        Err(why.unwrap_or_else(|| {
            PortError::Retryable("no member serves with quorum: nothing can be backed up".to_owned())
        }))
    }

    /// Removes old backups and copies missing ones to the second store, after a backup.
    async fn look_after(&self) -> PortResult<()> {
        let pruned = alive("old backups are not removed", self.prune()).await;
        alive("backups are not copied", self.copy()).await?;
        pruned
    }

    async fn copy(&self) -> PortResult<()> {
        let Some((from, to)) = &self.copy else {
            return Ok(());
        };
        let copied = backup::copy_missing(from.as_ref(), to.as_ref(), &self.settings.spec.cluster).await?;
        for id in &copied.backups {
            tracing::info!("backup {id} is copied to {}", to.describe());
        }
        if let Some(problem) = copied.problem() {
            tracing::warn!("{}: {problem}", to.describe());
        }
        Ok(())
    }

    async fn prune(&self) -> PortResult<()> {
        let (store, spec) = (self.store.as_ref(), &self.settings.spec);
        if !spec.backup.retention.enabled {
            return Ok(());
        }
        let catalogue = backup::list(store, &spec.cluster).await?;
        let verdicts = plan::judge(&catalogue.backups, self.clock.now(), &spec.backup.retention);
        let goes: Vec<_> = verdicts
            .into_iter()
            .filter(Verdict::goes)
            .map(|verdict| verdict.backup.summary.id)
            .collect();
        let call = || backup::Call {
            now: self.clock.now(),
            random: self.clock.random(),
        };
        let pruned = backup::remove(store, &spec.cluster, &goes, call).await?;
        if pruned != backup::Pruned::default() {
            tracing::info!("{}", pruned.text());
        }
        Ok(())
    }

    fn failed(&self, failures: &mut u32, error: &PortError) -> Duration {
        tracing::error!(
            message_id = crate::telemetry::message_ids::BACKUP_FAILED,
            "the backup failed, nothing was committed: {error}"
        );
        watchdog::say(&format!("the backup failed: {error}"));
        *failures = failures.saturating_add(1);
        Backoff::new(FIRST_PAUSE, self.interval.max(FIRST_PAUSE)).jittered(*failures, self.clock.random())
    }

    /// A random part of `most`.
    fn jitter(&self, most: Duration) -> Duration {
        most * u32::try_from(self.clock.random() % 256).unwrap_or(0) / 256
    }

    async fn rest(&self, pause: Duration) {
        rest(&self.clock, pause).await;
    }
}

/// Waits according to the monotonic clock: the wall clock may be set back meanwhile.
async fn rest(clock: &dyn Clock, pause: Duration) {
    let began = clock.steady();
    loop {
        watchdog::feed();
        let left = pause.saturating_sub(clock.steady().since(began));
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(watchdog::BEAT)).await;
    }
}

/// Waits for work that reports no progress, up to a bound, and feeds the watchdog meanwhile.
async fn alive(failed: &str, work: impl Future<Output = PortResult<()>>) -> PortResult<()> {
    let retryable = |why: &dyn std::fmt::Display| PortError::Retryable(format!("{failed}: {why}"));
    match watchdog::feed_during(ROUND, tokio::time::timeout(ROUND, work)).await {
        Ok(done) => done.map_err(|error| retryable(&error)),
        Err(_) => Err(retryable(&format!(
            "not done within {} h",
            ROUND.as_secs() / 3600
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::model::SteadyMs;

    /// A clock that is set back by an hour at each reading.
    struct SetBack(AtomicU64, tokio::time::Instant);

    impl Clock for SetBack {
        fn now(&self) -> UnixMs {
            UnixMs(self.0.fetch_sub(3_600_000, Ordering::Relaxed))
        }
        fn steady(&self) -> SteadyMs {
            SteadyMs(u64::try_from(self.1.elapsed().as_millis()).unwrap_or(u64::MAX))
        }
        fn random(&self) -> u64 {
            0
        }
    }

    #[tokio::test]
    async fn b08_a_clock_that_is_set_back_makes_nobody_wait_longer() {
        let clock = SetBack(AtomicU64::new(1_772_366_400_000), tokio::time::Instant::now());
        let rest = rest(&clock, Duration::from_millis(20));
        assert!(tokio::time::timeout(Duration::from_mins(2), rest).await.is_ok());
        assert!(clock.steady() >= SteadyMs(20));
    }
}

//! The ports that the loop works through, bound to adapters by `agent::build` or to a simulator.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use crate::backup::{self, BackupContent, BackupMeta, Failed, Format, Room};
use crate::model::{BackupId, BackupSummary, ClusterName, EtcdVersion};
use crate::ports::{Clock, Etcd, NodeState, ObjectStore, Peers, PortResult, ServiceManager};

/// The part of backups that needs threads and the local disk, which a simulator does not have.
#[async_trait]
pub trait Backups: Send + Sync {
    /// Takes a full backup of this member in this form and commits it; `progress` receives the number of
    /// bytes read so far.
    async fn take_full(
        &self,
        etcd: &dyn Etcd,
        store: &dyn ObjectStore,
        meta: &BackupMeta,
        format: Format,
        progress: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<BackupSummary, Failed>;
    /// Fetches a backup and checks it; gives the snapshot's file name in the restore directory.
    async fn fetch(
        &self,
        store: &dyn ObjectStore,
        cluster: &ClusterName,
        id: &BackupId,
    ) -> PortResult<String>;
    /// Removes what was fetched.
    async fn discard(&self) -> PortResult<()>;
    /// What the commit marker of a backup says of its content.
    async fn content(
        &self,
        store: &dyn ObjectStore,
        cluster: &ClusterName,
        id: &BackupId,
    ) -> PortResult<BackupContent>;
    /// Takes out of a fetched snapshot what this version of etcd does not know.
    async fn fit(&self, file_name: &str, to: EtcdVersion) -> PortResult<()>;
}

/// [`Backups`] on this host.
pub(super) struct LocalBackups {
    /// Where fetched snapshots go.
    pub(super) restore_dir: PathBuf,
    /// The local etcd, whose database's size bounds what is fetched.
    pub(super) etcd: Arc<dyn Etcd>,
    /// etcd's quota in bytes, if one is set.
    pub(super) quota_bytes: Option<u64>,
}

#[async_trait]
impl Backups for LocalBackups {
    async fn take_full(
        &self,
        etcd: &dyn Etcd,
        store: &dyn ObjectStore,
        meta: &BackupMeta,
        format: Format,
        progress: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<BackupSummary, Failed> {
        backup::take_full_as(etcd, store, meta, format, progress).await
    }

    async fn fetch(
        &self,
        store: &dyn ObjectStore,
        cluster: &ClusterName,
        id: &BackupId,
    ) -> PortResult<String> {
        backup::remove_fetched(&self.restore_dir).await?;
        // A restore must also work while etcd does not answer.
        let live = self.etcd.status().await.ok().map(|status| status.db_size_bytes);
        let room = Room::for_database(live.max(self.quota_bytes));
        let fetched = backup::fetch_within(store, cluster, id, &self.restore_dir, room).await?;
        tracing::info!("backup {id} is fetched and checked: {} bytes", fetched.size_bytes);
        Ok(fetched.file_name)
    }

    async fn discard(&self) -> PortResult<()> {
        backup::remove_fetched(&self.restore_dir).await
    }

    async fn content(
        &self,
        store: &dyn ObjectStore,
        cluster: &ClusterName,
        id: &BackupId,
    ) -> PortResult<BackupContent> {
        backup::content(store, cluster, id).await
    }

    async fn fit(&self, file_name: &str, to: EtcdVersion) -> PortResult<()> {
        let path = self.restore_dir.join(file_name);
        if backup::fit(path, to).await? {
            tracing::info!("{file_name}: what etcd {to} does not know is taken out");
        }
        Ok(())
    }
}

/// Every port of one agent.
#[derive(Clone)]
pub struct Ports {
    /// systemd.
    pub service: Arc<dyn ServiceManager>,
    /// The local etcd.
    pub etcd: Arc<dyn Etcd>,
    /// Other agents.
    pub peers: Arc<dyn Peers>,
    /// The store, when one is configured.
    pub store: Option<Arc<dyn ObjectStore>>,
    /// Taking and fetching backups.
    pub backups: Arc<dyn Backups>,
    /// What survives a restart.
    pub state: Arc<dyn NodeState>,
    /// Time and randomness.
    pub clock: Arc<dyn Clock>,
}

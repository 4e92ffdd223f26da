//! Takes and fetches backups as a whole: the pipeline's work on bytes has its own tests.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use etcd_agent::agent::Backups;
use etcd_agent::backup::{
    self, BackupContent, BackupMeta, BackupName, Cause, CausedBy, Compression, Failed, Format, Layout,
    Manifest,
};
use etcd_agent::model::{BackupId, BackupSummary, ClusterName, EtcdVersion, UnixMs};
use etcd_agent::ports::{Etcd, ObjectStore, PortError, PortResult};

use super::Seat;
use crate::world::Host;

pub(super) struct Work(pub(super) Arc<Seat>);

#[async_trait]
impl Backups for Work {
    async fn take_full(
        &self,
        etcd: &dyn Etcd,
        store: &dyn ObjectStore,
        meta: &BackupMeta,
        _format: Format,
        _progress: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<BackupSummary, Failed> {
        let taken = async {
            let name = BackupName::new(meta.started_at, meta.seq);
            let id = name
                .id()
                .map_err(|error| PortError::Permanent(error.to_string()))?;
            let layout = Layout::of(store, &meta.cluster);
            // The snapshot holds this revision at least.
            let status = etcd.status().await?;
            let fingerprint = etcd.fingerprint(status.revision, true).await.ok();
            let (writes, quarantined) = {
                let mut world = self.0.sim.world();
                let read = |h: &Host| h.dir.as_ref().is_some_and(|dir| dir.member == status.member_id);
                let read = world.hosts.iter().position(read);
                if read.is_none() && world.lied.is_some() {
                    return Err(PortError::Retryable(
                        "etcd answers as a member of no host".to_owned(),
                    ));
                }
                let from = read.unwrap_or(self.0.host);
                (world.snapshot(from), world.knows_quarantine(from))
            };
            let writes = writes.ok_or_else(|| PortError::Retryable("etcd does not run".to_owned()))?;
            if meta.cluster_id.is_some_and(|wanted| wanted != status.cluster_id) {
                return Err(PortError::Retryable("etcd is of another epoch".to_owned()));
            }
            store
                .put(
                    &layout.in_backup(&id, "etcd.backup.zst"),
                    Bytes::from_static(b"x"),
                )
                .await?;
            if let Some(store) = self.0.sim.world().store_of_mut(self.0.host) {
                store.contents.insert(id.clone(), writes);
                store.clusters.insert(id.clone(), status.cluster_id);
                if quarantined {
                    store.quarantined.insert(id.clone());
                }
            }
            let manifest = Manifest {
                format: 1,
                id: id.clone(),
                cluster: meta.cluster.clone(),
                epoch: meta.epoch,
                cluster_id: status.cluster_id,
                member_id: status.member_id,
                node: meta.node.clone(),
                etcd_version: status.version,
                revision: status.revision,
                revision_at_most: Some(status.revision),
                timeline: Some(0),
                breaks: None,
                changes_sum: None,
                auth_revision: None,
                fingerprint,
                raw_size_bytes: 1,
                stored_size_bytes: 1,
                sha256: String::new(),
                compression: Compression::Zstd,
                encryption: None,
                started_at: meta.started_at,
                finished_at: UnixMs(self.0.sim.clock(self.0.host)),
                agent_version: String::new(),
            };
            let text = manifest
                .to_json()
                .map_err(|error| PortError::Permanent(error.to_string()))?;
            store
                .put(&layout.in_backup(&id, "backup.json"), text.into())
                .await?;
            let host = self.0.host;
            self.0
                .sim
                .world()
                .tell(|w| format!("agent of {} commits a full backup", w.hosts[host].name));
            Ok(manifest.summary())
        };
        taken.await.caused_by(Cause::Store)
    }

    async fn fetch(
        &self,
        store: &dyn ObjectStore,
        cluster: &ClusterName,
        id: &BackupId,
    ) -> PortResult<String> {
        let layout = Layout::of(store, cluster);
        let marker = store.get_small(&layout.in_backup(id, "backup.json")).await?;
        let writes = self
            .0
            .sim
            .world()
            .store_of(self.0.host)
            .and_then(|s| s.contents.get(id).cloned());
        let (Some(_), Some(writes)) = (marker, writes) else {
            return Err(PortError::Permanent(format!("there is no committed backup {id}")));
        };
        self.0.cross().await;
        let mut world = self.0.sim.world();
        world.ever_fetched.insert(id.clone());
        world.hosts[self.0.host].fetched.insert(id.clone(), writes);
        Ok(format!("{id}.db"))
    }

    async fn discard(&self) -> PortResult<()> {
        self.0.sim.world().hosts[self.0.host].fetched.clear();
        Ok(())
    }

    async fn content(
        &self,
        store: &dyn ObjectStore,
        cluster: &ClusterName,
        id: &BackupId,
    ) -> PortResult<BackupContent> {
        backup::content(store, cluster, id).await
    }

    async fn fit(&self, _file_name: &str, _to: EtcdVersion) -> PortResult<()> {
        Ok(())
    }
}

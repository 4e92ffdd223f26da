//! A full backup: etcd's snapshot stream → SHA-256 → zstd → the store, with no temporary file.
//!
//! The upload is completed only if the stream ends with the hash of everything before it. Otherwise a stream
//! that was cut off by an expired deadline or a stopped member would look like a smaller, valid object.
//! `backup.json` is written last; without it there is no backup.

use std::time::Duration;

use futures::StreamExt;

use crate::model::{
    BackupFormat, BackupSummary, ClusterId, ClusterName, Epoch, EtcdStatus, Fingerprint, NodeName, Revision,
    UnixMs,
};
use crate::ports::{ByteStream, Etcd, ObjectStore, PortError, PortResult, Upload};

use super::worker::{Packer, Priority, Stored, Worker, pack_failed};
use crate::backup::batch::{IDLE, next_batch};
use crate::backup::failed::{Cause, CausedBy, Failed};
use crate::backup::increments::timeline;
use crate::backup::store::etcd_manager;
use crate::backup::store::layout::{
    BackupName, FOREIGN_META, Layout, MANIFEST, SNAPSHOT_GZIP, SNAPSHOT_ZSTD,
};
use crate::backup::store::manifest::{Compression, FORMAT, Manifest};

/// The name of the stream in errors.
const STREAM: &str = "etcd's snapshot stream";
/// Hashing blocks writes for about one second per GiB, so only databases up to this size are hashed.
const HASH_UP_TO_BYTES: u64 = 256 * 1024 * 1024;
/// The longest that a backup waits for its optional fingerprint.
const FINGERPRINT_WITHIN: Duration = Duration::from_secs(30);

/// In which form a backup is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// zstd and `backup.json`.
    Native,
    /// gzip, `backup.json`, and what etcd-manager reads.
    EtcdManager {
        /// The wanted number of members, which etcd-manager's marker contains.
        members: usize,
    },
}

impl Format {
    /// The form for a cluster with this wanted number of members.
    pub fn of(format: BackupFormat, members: usize) -> Self {
        match format {
            BackupFormat::Native => Self::Native,
            BackupFormat::EtcdManager => Self::EtcdManager { members },
        }
    }

    fn compression(self) -> Compression {
        match self {
            Self::Native => Compression::Zstd,
            Self::EtcdManager { .. } => Compression::Gzip,
        }
    }
}

/// The identity of a backup, from which its name and its manifest are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupMeta {
    /// Of which cluster.
    pub cluster: ClusterName,
    /// In which epoch.
    pub epoch: Epoch,
    /// The etcd cluster of that epoch. A member of another cluster is not backed up under its name. `None`
    /// accepts any cluster.
    pub cluster_id: Option<ClusterId>,
    /// The node that takes it.
    pub node: NodeName,
    /// Now.
    pub started_at: UnixMs,
    /// A random number that distinguishes backups begun by two agents in the same second.
    pub seq: u64,
    /// True if somebody waits for it: it is packed at the usual priority.
    pub ordered: bool,
}

/// Takes a full backup of this member and commits it. `progress` is called with the number of snapshot bytes
/// read so far. Dropping the future leaves nothing that counts as a backup.
///
/// # Errors
/// What etcd or the store answered, or that the stream was cut off or damaged; nothing is committed then.
pub async fn take_full(
    etcd: &dyn Etcd,
    store: &dyn ObjectStore,
    meta: &BackupMeta,
    progress: impl Fn(u64) + Send + Sync,
) -> PortResult<BackupSummary> {
    let taken = take_full_as(etcd, store, meta, Format::Native, progress).await;
    taken.map_err(PortError::from)
}

/// [`take_full`] in this form.
///
/// # Errors
/// As [`take_full`], and where it failed.
pub async fn take_full_as(
    etcd: &dyn Etcd,
    store: &dyn ObjectStore,
    meta: &BackupMeta,
    format: Format,
    progress: impl Fn(u64) + Send + Sync,
) -> Result<BackupSummary, Failed> {
    if let (Format::EtcdManager { .. }, Some(how)) = (format, store.encryption()) {
        return Err(PortError::Permanent(format!(
            "etcd-manager reads no backup that is encrypted with {how}: leave backup.encrypt_to out, or take the \
             backup in the native form"
        )))
        .caused_by(Cause::Host);
    }
    let layout = Layout::of(store, &meta.cluster);
    let name = BackupName::new(meta.started_at, meta.seq);
    let id = name
        .id()
        .map_err(|error| PortError::Permanent(error.to_string()))
        .caused_by(Cause::Host)?;
    if !store
        .list(&layout.backup(&id))
        .await
        .caused_by(Cause::Store)?
        .is_empty()
    {
        return Err(PortError::Retryable(format!(
            "another agent began the backup {id} in the same second"
        )))
        .caused_by(Cause::Store);
    }
    let asked = etcd.status().await.caused_by(Cause::Etcd)?;
    let (timeline, breaks) = timeline::of(etcd, store, &meta.cluster, meta.epoch, &asked).await?;
    if let Some(breaks) = &breaks {
        tracing::warn!(
            "the backup {id} begins timeline {timeline}: it does not continue {}, which leads to revision {}: {}",
            breaks.backup,
            breaks.covered,
            breaks.why
        );
    }
    // Read before the stream: the snapshot holds this revision or a later one (design §10).
    let status = etcd.status().await.caused_by(Cause::Etcd)?;
    if let Some(wanted) = meta.cluster_id
        && wanted != status.cluster_id
    {
        return Err(PortError::Retryable(format!(
            "etcd serves cluster {}, and epoch {} has cluster {wanted}: nothing is stored under its name",
            status.cluster_id, meta.epoch
        )))
        .caused_by(Cause::Etcd);
    }
    let changes_sum = timeline::changes_sum(etcd, status.revision).await;
    // Also read before the stream: a change meanwhile makes the full look older than it is, so another one is
    // taken.
    let auth_revision = match etcd.auth_revision().await {
        Ok(revision) => Some(revision),
        // etcd 3.4 has no such call. A timeout must fail: otherwise a change of users would go unnoticed.
        Err(PortError::Permanent(why)) => {
            tracing::debug!("the revision of users and roles is not recorded: {why}");
            None
        }
        Err(error) => return Err(error).caused_by(Cause::Etcd),
    };
    let began = std::time::Instant::now();
    let mut stream = etcd.snapshot().await.caused_by(Cause::Etcd)?;
    let first = tokio::time::timeout(IDLE, stream.next()).await.map_err(|_| {
        PortError::Retryable(format!(
            "etcd sent no data of the snapshot for {} s",
            IDLE.as_secs()
        ))
    });
    let first = first.caused_by(Cause::Etcd)?;
    // Once it sends, etcd has fixed the content of the snapshot: nothing later than this revision.
    let at_most = etcd.status().await.caused_by(Cause::Etcd)?.revision;
    let stream: ByteStream = Box::pin(futures::stream::iter(first).chain(stream));
    let packer = Packer::new(format.compression());
    let packer = packer
        .map_err(|error| pack_failed(&error))
        .caused_by(Cause::Host)?;
    let priority = if meta.ordered {
        Priority::Usual
    } else {
        Priority::Idle
    };
    let worker = Worker::start(packer, priority).caused_by(Cause::Host)?;
    let object = match format {
        Format::Native => SNAPSHOT_ZSTD,
        Format::EtcdManager { .. } => SNAPSHOT_GZIP,
    };
    let upload = store.upload(&layout.in_backup(&id, object)).await;
    let mut upload = upload.caused_by(Cause::Store)?;
    let pumped = tokio::try_join!(pump(stream, worker, upload.as_mut(), &progress, IDLE), async {
        Ok(fingerprint(etcd, &status, status.revision).await)
    });
    let (stored, fingerprint) = match pumped {
        Ok(both) => {
            upload.complete().await.caused_by(Cause::Store)?;
            both
        }
        Err(error) => {
            if let Err(more) = upload.abort().await {
                tracing::warn!("the upload of the failed backup {id} could not be thrown away: {more}");
            }
            return Err(error);
        }
    };
    let mut manifest = manifest(
        meta,
        &status,
        at_most,
        id,
        stored,
        meta.started_at.plus(began.elapsed()),
    );
    manifest.timeline = Some(timeline);
    manifest.breaks = breaks;
    manifest.changes_sum = changes_sum;
    manifest.fingerprint = fingerprint;
    manifest.auth_revision = auth_revision;
    manifest.encryption = store.encryption().map(str::to_owned);
    manifest.compression = format.compression();
    let text = manifest
        .to_json()
        .map_err(|error| PortError::Permanent(error.to_string()))
        .caused_by(Cause::Host)?;
    store
        .put(&layout.in_backup(&manifest.id, MANIFEST), text.into())
        .await
        .caused_by(Cause::Store)?;
    if let Format::EtcdManager { members } = format {
        let meta = etcd_manager::meta(&manifest.etcd_version, manifest.started_at, members)
            .caused_by(Cause::Host)?;
        store
            .put(&layout.in_backup(&manifest.id, FOREIGN_META), meta.into())
            .await
            .map_err(|error| {
                let id = &manifest.id;
                PortError::Retryable(format!(
                    "{id} is stored without {FOREIGN_META}, so etcd-manager does not see it: {error}"
                ))
            })
            .caused_by(Cause::Store)?;
        if let Err(error) = etcd_manager::mark_created(store, &layout, manifest.finished_at).await {
            tracing::warn!("etcd-manager's marker that the cluster exists is not written: {error}");
        }
    }
    Ok(manifest.summary())
}

fn manifest(
    meta: &BackupMeta,
    status: &EtcdStatus,
    at_most: Revision,
    id: crate::model::BackupId,
    stored: Stored,
    finished_at: UnixMs,
) -> Manifest {
    Manifest {
        format: FORMAT,
        id,
        cluster: meta.cluster.clone(),
        epoch: meta.epoch,
        cluster_id: status.cluster_id,
        member_id: status.member_id,
        node: meta.node.clone(),
        etcd_version: status.version.clone(),
        revision: status.revision,
        revision_at_most: Some(at_most),
        timeline: None,
        breaks: None,
        changes_sum: None,
        auth_revision: None,
        raw_size_bytes: stored.raw_bytes,
        stored_size_bytes: stored.bytes,
        sha256: stored.sha256,
        compression: Compression::Zstd,
        encryption: None,
        started_at: meta.started_at,
        finished_at,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        fingerprint: None,
    }
}

/// The fingerprint of a member's data at a revision, if the member answers. A backup is valid without it.
pub(in crate::backup) async fn fingerprint(
    etcd: &dyn Etcd,
    status: &EtcdStatus,
    at: Revision,
) -> Option<Fingerprint> {
    let hash = status.db_size_bytes <= HASH_UP_TO_BYTES;
    let asked = tokio::time::timeout(FINGERPRINT_WITHIN, etcd.fingerprint(at, hash)).await;
    match asked {
        Ok(Ok(fingerprint)) => Some(fingerprint),
        Ok(Err(error)) => {
            tracing::debug!("the keys at revision {at} are not counted: {error}");
            None
        }
        Err(_) => None,
    }
}

/// Reads, compresses and sends concurrently: while the worker has one batch, the next is read and parts are
/// uploaded. Succeeds only when the stream was complete.
async fn pump(
    mut stream: ByteStream,
    mut worker: Worker,
    upload: &mut dyn Upload,
    progress: &(impl Fn(u64) + Sync),
    idle: Duration,
) -> Result<Stored, Failed> {
    let mut read = 0;
    let mut batch = next_batch(&mut stream, STREAM, idle)
        .await
        .caused_by(Cause::Etcd)?;
    while !batch.is_empty() {
        read += batch.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
        let (packed, next) = tokio::join!(worker.push(batch), next_batch(&mut stream, STREAM, idle));
        for piece in packed.caused_by(Cause::Host)? {
            upload.write(piece).await.caused_by(Cause::Store)?;
        }
        progress(read);
        batch = next.caused_by(Cause::Etcd)?;
    }
    // A failure at the end means that the snapshot was not whole.
    let (rest, stored) = worker.finish().await.caused_by(Cause::Etcd)?;
    for piece in rest {
        upload.write(piece).await.caused_by(Cause::Store)?;
    }
    Ok(stored)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

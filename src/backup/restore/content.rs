//! What a backup holds, as its commit marker says.

use crate::backup::store::layout::{Layout, MANIFEST};
use crate::backup::store::manifest::Manifest;
use crate::model::{BackupId, ClusterId, ClusterName, Fingerprint, Revision};
use crate::ports::{ObjectStore, PortError, PortResult};

/// What a backup of ours holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupContent {
    /// Of which cluster.
    pub cluster_id: ClusterId,
    /// It holds at least this revision.
    pub revision: Revision,
    /// The revision of users and roles that it holds at least; `None` if etcd did not report one.
    pub auth_revision: Option<u64>,
    /// What the member held at a revision.
    pub fingerprint: Option<Fingerprint>,
}

/// Reads `backup.json` of a full backup.
///
/// # Errors
/// Permanent if there is no such backup of ours, or its marker cannot be read; otherwise of the store.
pub async fn content(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    id: &BackupId,
) -> PortResult<BackupContent> {
    let key = Layout::of(store, cluster).in_backup(id, MANIFEST);
    let text = store.get_small(&key).await?;
    let text = text.ok_or_else(|| PortError::Permanent(format!("{} has no {key}", store.describe())))?;
    let read = Manifest::parse(id, &text);
    let manifest = read.map_err(|error| PortError::Permanent(format!("{key}: {error}")))?;
    Ok(BackupContent {
        cluster_id: manifest.cluster_id,
        revision: manifest.revision,
        auth_revision: manifest.auth_revision,
        fingerprint: manifest.fingerprint,
    })
}

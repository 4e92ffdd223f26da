//! Opens the configured store.

use std::sync::Arc;

use bytes::Bytes;

use crate::config::{Encryption, StoreSettings, StoreUrl};
use crate::ports::{Created, ObjectStore, PortError, PortResult};

use super::dir::DirStore;
use super::s3::S3Store;
use super::seal::Sealed;

/// The store that the settings name. Opens no connection and reads no file yet: the first call does.
pub fn open_store(settings: &StoreSettings) -> Arc<dyn ObjectStore> {
    match &settings.url {
        StoreUrl::Directory(path) => Arc::new(DirStore::new(path)),
        StoreUrl::S3 { bucket, prefix } => Arc::new(S3Store::new(settings, bucket, prefix)),
    }
}

/// The store that the settings name, for backups: what holds data is encrypted when there are recipients, and what
/// was encrypted is read.
///
/// # Errors
/// A recipient that cannot be read.
pub fn open_backups(settings: &StoreSettings, encryption: &Encryption) -> PortResult<Arc<dyn ObjectStore>> {
    Ok(Arc::new(Sealed::new(open_store(settings), encryption)?))
}

/// Makes sure that `create` never overwrites: the error names the store that ignores `If-None-Match: *`.
///
/// # Errors
/// Permanent when the store ignores the header, else what the store answered.
pub async fn probe_conditional_writes(store: &dyn ObjectStore) -> PortResult<()> {
    if store.conditional_writes().await? {
        return Ok(());
    }
    Err(ignores_header(&store.describe()))
}

pub(super) fn ignores_header(store: &str) -> PortError {
    PortError::Permanent(format!(
        "{store} ignores `If-None-Match: *` or does not know it: what had to stay would be overwritten, so it cannot \
         arbitrate an epoch; use a store with conditional writes or a fixed list of nodes"
    ))
}

/// Writes one key twice by `create`; true when the second write was refused and changed nothing, false as well when the
/// store says that it knows no such write (`None`).
pub(super) async fn try_twice<F>(create: impl Fn(Bytes) -> F) -> PortResult<bool>
where
    F: Future<Output = PortResult<Option<Created>>>,
{
    let first = Bytes::from_static(b"etcd-agent tries whether this store honours If-None-Match\n");
    if create(first.clone()).await?.is_none() {
        return Ok(false);
    }
    let second = create(Bytes::from_static(b"this must not be stored\n")).await?;
    Ok(second == Some(Created::Exists(first)))
}

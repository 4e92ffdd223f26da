//! Opens the configured store.

use std::sync::Arc;

use crate::config::{Encryption, StoreSettings, StoreUrl};
use crate::ports::{ObjectStore, PortResult};

use super::dir::DirStore;
use super::s3::S3Store;
use super::s3::conditional::ignores_header;
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

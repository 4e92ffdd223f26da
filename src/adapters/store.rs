//! Opens the configured store.

use std::sync::Arc;

use crate::config::{Encryption, StoreSettings, StoreUrl};
use crate::ports::{ObjectStore, PortResult};

use super::dir::DirStore;
use super::s3::S3Store;
use super::s3::conditional::ignores_header;
use super::seal::Sealed;

/// The store that the settings name. This opens no connection and reads no file; the first call to the store
/// does.
pub fn open_store(settings: &StoreSettings) -> Arc<dyn ObjectStore> {
    match &settings.url {
        StoreUrl::Directory(path) => Arc::new(DirStore::new(path)),
        StoreUrl::S3 { bucket, prefix } => Arc::new(S3Store::new(settings, bucket, prefix)),
    }
}

/// The store that the settings name, for backups. It encrypts objects with data if there are recipients, and
/// it always reads encrypted objects.
///
/// # Errors
/// Permanent if a recipient cannot be parsed.
pub fn open_backups(settings: &StoreSettings, encryption: &Encryption) -> PortResult<Arc<dyn ObjectStore>> {
    Ok(Arc::new(Sealed::new(open_store(settings), encryption)?))
}

/// Makes sure that `create` never overwrites an object. A store that ignores `If-None-Match: *` is an error
/// that names the store.
///
/// # Errors
/// Permanent if the store ignores the header, otherwise the store's error.
pub async fn probe_conditional_writes(store: &dyn ObjectStore) -> PortResult<()> {
    if store.conditional_writes().await? {
        return Ok(());
    }
    Err(ignores_header(&store.describe()))
}

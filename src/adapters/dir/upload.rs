//! An upload in parts into a store in a directory.

use std::io::Write;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use tempfile::NamedTempFile;

use super::files::{blocking, failed};
use super::store::DirStore;
use crate::ports::{PortError, PortResult, Upload};

/// An upload is synced each time this much is written: on a slow disk a single sync of a whole snapshot takes
/// longer than the deadline.
pub(super) const SYNC_BYTES: u64 = 64 * 1024 * 1024;

/// An upload into a temporary file that becomes the object. Dropping the upload removes the file.
pub(super) struct DirUpload {
    pub(super) store: DirStore,
    pub(super) path: PathBuf,
    pub(super) file: Option<NamedTempFile>,
    /// Bytes written since the last sync.
    pub(super) unsynced: u64,
}

impl DirUpload {
    fn take(&mut self) -> PortResult<NamedTempFile> {
        self.file.take().ok_or_else(|| {
            PortError::Permanent(format!("the upload to {} failed earlier", self.path.display()))
        })
    }
}

#[async_trait]
impl Upload for DirUpload {
    async fn write(&mut self, chunk: Bytes) -> PortResult<()> {
        let mut file = self.take()?;
        let path = self.path.clone();
        self.unsynced += chunk.len() as u64;
        let write = move || {
            file.write_all(&chunk)
                .map_err(|error| failed("write", &path, &error))?;
            Ok(file)
        };
        let mut file = blocking(write).await?;
        if self.unsynced >= SYNC_BYTES {
            let path = self.path.clone();
            file = blocking(move || synced(file, &path)).await?;
            self.unsynced = 0;
        }
        self.file = Some(file);
        Ok(())
    }

    async fn complete(mut self: Box<Self>) -> PortResult<()> {
        let (store, path, file) = (self.store.clone(), self.path.clone(), self.take()?);
        // Separate from the rename: work that is cancelled here must not rename the file later.
        let file = blocking({
            let path = path.clone();
            move || {
                let file = synced(file, &path)?;
                let whole = file.as_file().sync_all();
                whole.map_err(|error| failed("sync", &path, &error))?;
                Ok(file)
            }
        })
        .await
        .map_err(not_begun)?;
        blocking(move || store.settle(file, &path, true).map(|_| ())).await
    }

    async fn abort(mut self: Box<Self>) -> PortResult<()> {
        let file = self.file.take();
        blocking(move || {
            drop(file);
            Ok(())
        })
        .await
    }
}

fn synced(file: NamedTempFile, path: &Path) -> PortResult<NamedTempFile> {
    let synced = file.as_file().sync_data();
    synced.map_err(|error| failed("sync", path, &error))?;
    Ok(file)
}

/// Nothing was renamed yet, so a retry is safe.
fn not_begun(error: PortError) -> PortError {
    match error {
        PortError::OutcomeUnknown(text) => PortError::Retryable(text),
        other => other,
    }
}

//! Makes a fetched snapshot fit for an older etcd.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::replay::seal;
use crate::backup::bolt::strip;
use crate::bolt::BoltError;
use crate::model::EtcdVersion;
use crate::ports::{PortError, PortResult};

/// Takes out of a snapshot file what this version of etcd does not know, and writes its trailer anew. Returns
/// false if there was nothing to do. If it is interrupted, the trailer does not match, and no etcd restores the
/// file.
///
/// # Errors
/// Retryable if the file cannot be read or written, permanent if it is not a snapshot.
pub async fn fit(path: PathBuf, to: EtcdVersion) -> PortResult<bool> {
    let shown = path.display().to_string();
    let worked = tokio::task::spawn_blocking(move || fit_now(&path, to)).await;
    let worked =
        worked.map_err(|error| PortError::Retryable(format!("{shown}: the worker ended early: {error}")))?;
    worked.map_err(|error| match error {
        BoltError::Io(error) => PortError::Retryable(format!("{shown}: {error}")),
        BoltError::Damaged(why) => PortError::Permanent(format!("{shown}: {why}")),
    })
}

fn fit_now(path: &Path, to: EtcdVersion) -> Result<bool, BoltError> {
    let mut file = File::options().read(true).write(true).open(path)?;
    if !strip(&file, to)? {
        return Ok(false);
    }
    seal(&mut file)?;
    file.sync_all()?;
    Ok(true)
}

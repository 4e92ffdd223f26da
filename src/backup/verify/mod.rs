//! Verifies a backup by restoring it. The backup is fetched, checked and restored into a throw-away etcd, and
//! the data of that etcd is compared with what the member held when the backup was taken.

mod finding;
mod increments;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::ports::{Etcd, ObjectStore, PortError, PortResult, RestoreReport, VerifyRestoreRequest};

use crate::backup::restore::error::FetchError;
use crate::backup::restore::fetch::{FetchedSnapshot, fetch_checked, raw_size};
use crate::backup::restore::room::{Room, no_room};
use crate::backup::store::layout::{Layout, VERIFICATION};
use crate::backup::store::manifest::Manifest;
use crate::backup::store::verification::Verification;

use finding::Found;
pub use finding::VerifyMeta;

/// A restored database with its write-ahead log and its logs, next to the fetched file.
const COPIES: u64 = 2;
const OVERHEAD_BYTES: u64 = 256 * 1024 * 1024;

/// Verifies one backup in `dir`, first alone and then with all its increments, and records the result next to
/// the backup. `verify_restore` restores the fetched file and inspects it. The state that the increments lead
/// to is compared with `live`, a member of the cluster, or else with what the next full backup records. Only
/// the fetched file is written to `dir`, and it is removed again.
///
/// # Errors
/// Only if there is no result: the store or the disk failed, or nothing could be restored here at all. A bad
/// backup is a [`Verification`] with problems.
pub async fn verify<F>(
    store: &dyn ObjectStore,
    meta: &VerifyMeta,
    dir: &Path,
    live: &dyn Etcd,
    verify_restore: impl Fn(VerifyRestoreRequest) -> F + Send + Sync,
) -> PortResult<Verification>
where
    F: Future<Output = PortResult<RestoreReport>> + Send,
{
    let began = Instant::now();
    // Without an answer the smallest limit applies.
    let database = live.status().await.ok().map(|status| status.db_size_bytes);
    let limits = Room::for_database(database);
    let found = match fetched(store, meta, dir, limits).await {
        Ok(fetched) => {
            let _gone = Scratch(fetched.path.clone());
            let manifest = fetched.manifest.as_ref();
            let revision = manifest.and_then(|m| m.fingerprint).map(|print| print.revision);
            let request = VerifyRestoreRequest {
                snapshot_file: fetched.file_name.clone(),
                revision,
            };
            let mut found = judge(manifest, &fetched.etcd_version, verify_restore(request).await?);
            if let Some(manifest) = manifest.filter(|_| found.problems.is_empty()) {
                let replayed = increments::replayed(store, &meta.cluster, manifest, &fetched, limits).await;
                match replayed {
                    Ok(Some((covered, size_bytes))) => {
                        check_room(limits, dir, size_bytes, COPIES - 1)?;
                        let held = increments::held(store, &meta.cluster, manifest, covered, live).await?;
                        let request = VerifyRestoreRequest {
                            snapshot_file: fetched.file_name.clone(),
                            revision: Some(held.fingerprint.map_or(covered, |print| print.revision)),
                        };
                        increments::judge(&mut found, covered, &held, verify_restore(request).await?);
                    }
                    Ok(None) => {}
                    Err(FetchError::Port(error)) => return Err(error),
                    Err(FetchError::Damaged(why) | FetchError::Increment(why)) => found.problems.push(why),
                }
            }
            found
        }
        Err(FetchError::Damaged(why) | FetchError::Increment(why)) => Found::bad(why),
        Err(FetchError::Port(error)) => return Err(error),
    };
    let verification = found.into_verification(meta, began.elapsed());
    let text = verification
        .to_json()
        .map_err(|error| PortError::Permanent(error.to_string()))?;
    let key = Layout::of(store, &meta.cluster).in_backup(&meta.id, VERIFICATION);
    store.put(&key, text.into()).await?;
    Ok(verification)
}

/// The checked snapshot, if there is room to restore it.
async fn fetched(
    store: &dyn ObjectStore,
    meta: &VerifyMeta,
    dir: &Path,
    limits: Room,
) -> Result<FetchedSnapshot, FetchError> {
    let said = raw_size(store, &meta.cluster, &meta.id).await?;
    check_room(limits, dir, said.unwrap_or(0), COPIES)?;
    let fetched = fetch_checked(store, &meta.cluster, &meta.id, dir, limits).await?;
    let gone = Scratch(fetched.path.clone());
    check_room(limits, dir, fetched.size_bytes, COPIES - 1)?;
    gone.keep();
    Ok(fetched)
}

/// Checks that there is room for so many more copies of a snapshot of this size.
fn check_room(limits: Room, dir: &Path, size_bytes: u64, copies: u64) -> PortResult<()> {
    let need = size_bytes.saturating_mul(copies).saturating_add(OVERHEAD_BYTES);
    let free = limits.free_bytes(dir)?;
    if need > free {
        return Err(no_room(dir, need, free));
    }
    Ok(())
}

/// Removes a file when dropped, so that a verification leaves nothing behind.
struct Scratch(PathBuf);

impl Scratch {
    fn keep(mut self) {
        self.0 = PathBuf::new();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// Compares what the throw-away etcd has with what was recorded when the backup was taken. The stream's hash
/// was compared before.
fn judge(manifest: Option<&Manifest>, taken_by: &str, proof: RestoreReport) -> Found {
    let (version, revision, there) = match proof {
        RestoreReport::Refused { why } => {
            return Found::bad(format!("it cannot be restored: {why}"));
        }
        RestoreReport::Served {
            etcd_version,
            revision,
            fingerprint,
        } => (etcd_version, revision, fingerprint),
    };
    let mut found = Found {
        compared: vec!["sha256".to_owned()],
        ..Found::default()
    };
    if let Some(manifest) = manifest {
        found.compared.push("revision".to_owned());
        if revision < manifest.revision {
            found.problems.push(format!(
                "it ends at revision {revision}, and was taken at {} or later",
                manifest.revision
            ));
        }
    }
    let said = manifest.and_then(|m| m.fingerprint);
    if let (Some(said), Some(there)) = (said, there) {
        if let (Some(said), Some(there)) = (said.keys, there.keys) {
            found.compared.push("keys".to_owned());
            if said != there {
                found.problems.push(format!(
                    "it holds {there} keys at revision {}, and the member held {said}",
                    manifest.map(|m| m.revision).unwrap_or_default()
                ));
            }
        }
        // Versions of etcd may hash differently, and compacted revisions cannot be hashed.
        if let (Some(said), Some(there)) = (said.hash, there.hash)
            && said.compact_revision == there.compact_revision
            && taken_by == version
        {
            found.compared.push("hash".to_owned());
            if said.hash != there.hash {
                found.problems.push(format!(
                    "its keys and values hash to {:08x} at revision {}, and those of the member to {:08x}",
                    there.hash,
                    manifest.map(|m| m.revision).unwrap_or_default(),
                    said.hash
                ));
            }
        }
    }
    found.etcd_version = Some(version);
    found.revision = Some(revision);
    found.fingerprint = there;
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

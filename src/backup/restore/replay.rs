//! Adds increments to a fetched snapshot, so that it equals a snapshot of etcd at that revision.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};

use futures::{StreamExt, TryStreamExt};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use crate::model::{Revision, hex};
use crate::ports::{ObjectStore, PortError};

use super::error::FetchError;
use crate::backup::bolt::Merge;
use crate::backup::increments::increment::Increment;
use crate::backup::increments::read::read;
use crate::backup::store::chain;
use crate::backup::store::layout::{INCREMENTS, Layout};
use crate::backup::store::manifest::Manifest;
use crate::bolt::BoltError;

/// Increments that are downloaded concurrently.
const AT_ONCE: usize = 8;
const TRAILER: u64 = 32;

/// The result of a replay.
#[derive(Debug)]
pub(in crate::backup) struct Replayed {
    pub(in crate::backup) file: File,
    /// With the trailer.
    pub(in crate::backup) size_bytes: u64,
    pub(in crate::backup) sha256: String,
}

/// Adds the increments of a backup up to `until` to its snapshot in `file`, which may grow to about `limit` bytes. A
/// snapshot that holds more than `until` is not changed: for an exact revision, [`crate::backup::find`] chooses a
/// backup that does not hold more.
///
/// # Errors
/// When the increments do not reach `until`, are damaged or of another cluster.
pub(in crate::backup) async fn replay(
    store: &dyn ObjectStore,
    layout: &Layout,
    manifest: &Manifest,
    until: Revision,
    file: File,
    limit: u64,
) -> Result<Replayed, FetchError> {
    let (id, from, encrypted) = (&manifest.id, manifest.revision, manifest.encryption.is_some());
    let listed = store.list(&layout.in_backup(id, INCREMENTS)).await?;
    let path = chain::path(&chain::ranges(layout, id, &listed), from, Some(until));
    let reached = path.last().map_or(from, |range| range.last);
    if reached < until {
        let text = format!(
            "{}: the increments of {id} reach revision {reached} and not {until}",
            store.describe()
        );
        return Err(PortError::Permanent(text).into());
    }
    let (sender, receiver) = mpsc::channel(2);
    let merging = tokio::task::spawn_blocking(move || merge(file, limit, until, receiver));
    let mut increments = futures::stream::iter(path)
        .map(|range| read(store, layout, id, encrypted, range))
        .buffered(AT_ONCE);
    while let Some(increment) = increments.try_next().await? {
        if increment.head.cluster_id != manifest.cluster_id {
            return Err(FetchError::Increment(format!(
                "{}: increment {} of {id} is of another cluster",
                store.describe(),
                increment.head.first
            )));
        }
        if sender.send(increment).await.is_err() {
            // The worker has failed; its error is handled below.
            break;
        }
    }
    drop(sender);
    let merged = merging
        .await
        .map_err(|error| PortError::Retryable(format!("the restore's worker ended early: {error}")))?;
    merged.map_err(|error| match error {
        BoltError::Io(error) => {
            PortError::Permanent(format!("cannot write the restored snapshot: {error}; make room")).into()
        }
        BoltError::Damaged(why) => FetchError::Increment(format!("{}: {id}: {why}", store.describe())),
    })
}

fn merge(
    mut file: File,
    limit: u64,
    until: Revision,
    mut increments: mpsc::Receiver<Increment>,
) -> Result<Replayed, BoltError> {
    let size = file.metadata()?.len().saturating_sub(TRAILER);
    file.set_len(size)?;
    let mut merge = Merge::open(&file, limit)?;
    while let Some(increment) = increments.blocking_recv() {
        merge.grant(&increment.head.leases);
        merge.unasked(&increment.head.unasked);
        for entry in increment.entries.iter().filter(|entry| entry.revision <= until.0) {
            merge.push(entry)?;
        }
    }
    merge.finish()?;
    let (size_bytes, sha256) = seal(&mut file)?;
    Ok(Replayed {
        file,
        size_bytes,
        sha256,
    })
}

/// Appends the SHA-256 that etcd's tools check, as `etcdctl snapshot save` does.
pub(super) fn seal(file: &mut File) -> io::Result<(u64, String)> {
    file.seek(SeekFrom::Start(0))?;
    let mut hash = Sha256::new();
    let mut reader = BufReader::with_capacity(1 << 20, &*file);
    let mut chunk = vec![0; 1 << 20];
    let mut size = 0;
    loop {
        let read = reader.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        hash.update(chunk.get(..read).unwrap_or_default());
        size += read as u64;
    }
    let hash = hash.finalize();
    file.seek(SeekFrom::End(0))?;
    file.write_all(&hash)?;
    Ok((size + TRAILER, hex(&hash)))
}

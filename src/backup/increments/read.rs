//! Reads one increment from the store, and checks it.

use futures::TryStreamExt;

use crate::backup::restore::error::FetchError;
use crate::backup::store::chain::{Range, file_name};
use crate::backup::store::layout::{INCREMENTS, Layout, expected};
use crate::model::BackupId;
use crate::ports::{ObjectStore, PortError};

use super::increment::Increment;

/// The compressed size of an increment is always below this.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Reads and checks one increment of a backup. `encrypted` is true if its manifest says that it is encrypted.
pub(in crate::backup) async fn read(
    store: &dyn ObjectStore,
    layout: &Layout,
    id: &BackupId,
    encrypted: bool,
    range: Range,
) -> Result<Increment, FetchError> {
    let key = format!(
        "{}{}",
        layout.in_backup(id, INCREMENTS),
        file_name(range.first, range.last)
    );
    let damaged = |why: String| {
        FetchError::Increment(format!(
            "{}: {key} is damaged: {why}; what is before revision {} can be restored",
            store.describe(),
            range.first
        ))
    };
    let mut stream = store
        .get_expected(&key, expected(id, encrypted))
        .await?
        .ok_or_else(|| damaged("it is listed and is not there".to_owned()))?;
    let mut body = Vec::new();
    while let Some(chunk) = stream.try_next().await? {
        body.extend_from_slice(&chunk);
        if body.len() > MOST_BYTES {
            return Err(damaged(format!("it has more than {MOST_BYTES} bytes")));
        }
    }
    let decoded = tokio::task::spawn_blocking(move || Increment::decode(&body)).await;
    let increment = decoded
        .map_err(|error| PortError::Retryable(format!("the reader's worker ended early: {error}")))?
        .map_err(|error| damaged(error.to_string()))?;
    if (increment.head.first, increment.head.last) != (range.first, range.last) {
        return Err(damaged("it covers other revisions than its name says".to_owned()));
    }
    Ok(increment)
}

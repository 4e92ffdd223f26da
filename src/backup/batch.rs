//! Chunks of a stream, gathered for a worker.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;

use crate::ports::{ByteStream, PortError, PortResult};

/// A stream that sends nothing for this long is dead: etcd and a store send without a pause.
pub(super) const IDLE: Duration = Duration::from_mins(1);
/// Size of a batch in bytes: large enough that passing it is cheap, small compared with a part of an upload.
const BATCH_BYTES: usize = 1024 * 1024;

/// The next chunks of `stream`, 1 MiB or a little more. Empty at its end. `what` names the stream in an
/// error.
///
/// # Errors
/// Those of the stream, and retryable when it sends nothing for `idle`.
pub(super) async fn next_batch(
    stream: &mut ByteStream,
    what: &str,
    idle: Duration,
) -> PortResult<Vec<Bytes>> {
    let (mut batch, mut size) = (Vec::new(), 0);
    while size < BATCH_BYTES {
        let next = tokio::time::timeout(idle, stream.next())
            .await
            .map_err(|_| PortError::Retryable(format!("{what} stalled for {} s", idle.as_secs())))?;
        let Some(chunk) = next else {
            break;
        };
        let chunk = chunk?;
        size += chunk.len();
        if !chunk.is_empty() {
            batch.push(chunk);
        }
    }
    Ok(batch)
}

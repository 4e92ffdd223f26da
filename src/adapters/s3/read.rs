//! Reads an object to its end, and resumes after a connection broke.

use std::time::Duration;

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream as Body;
use bytes::{Bytes, BytesMut};
use futures::{TryStreamExt, stream};

use crate::model::Backoff;
use crate::ports::{ByteStream, PortError, PortResult};

use super::bucket::S3Store;

/// The size limit of a small object.
pub(super) const SMALL_BYTES: usize = 1024 * 1024;
const IDLE: Duration = Duration::from_mins(1);
/// The most consecutive resumes that each read less than [`PROGRESS`].
const RESUMES: u32 = 5;
const RESUME_BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(2));
/// After this many bytes a connection counts as good. A large object may need many connections.
const PROGRESS: u64 = 1024 * 1024;

struct Reading {
    store: S3Store,
    key: String,
    etag: Option<String>,
    body: Body,
    offset: u64,
    /// The offset at which the current connection began.
    began: u64,
    length: Option<u64>,
    resumes: u32,
}

/// The object's bytes. After a connection broke, a new one resumes at the same byte of the same version of
/// the object.
pub(super) fn resuming(store: &S3Store, key: &str, output: GetObjectOutput) -> ByteStream {
    let reading = Reading {
        store: store.clone(),
        key: key.to_owned(),
        etag: output.e_tag().map(str::to_owned),
        length: output.content_length().and_then(|n| u64::try_from(n).ok()),
        body: output.body,
        offset: 0,
        began: 0,
        resumes: 0,
    };
    Box::pin(stream::try_unfold(reading, |mut reading| async move {
        Ok(reading.next().await?.map(|chunk| (chunk, reading)))
    }))
}

impl S3Store {
    /// Reads the body of a response of at most `most` bytes.
    pub(super) async fn read_small(
        &self,
        key: &str,
        output: GetObjectOutput,
        most: usize,
    ) -> PortResult<Bytes> {
        let mut stream = resuming(self, key, output);
        let mut body = BytesMut::new();
        while let Some(chunk) = stream.try_next().await? {
            if body.len() + chunk.len() > most {
                let text = format!(
                    "{}: {key} is larger than {most} bytes: no agent wrote it",
                    self.name()
                );
                return Err(PortError::Permanent(text));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }
}

impl Reading {
    async fn next(&mut self) -> PortResult<Option<Bytes>> {
        loop {
            let broken = match tokio::time::timeout(IDLE, self.body.next()).await {
                Ok(Some(Ok(chunk))) => {
                    self.offset += chunk.len() as u64;
                    return Ok(Some(chunk));
                }
                Ok(None) if self.length.is_none_or(|length| length == self.offset) => return Ok(None),
                Ok(None) => "it ended early".to_owned(),
                Ok(Some(Err(error))) => error.to_string(),
                Err(_) => format!("no byte received for {} s", IDLE.as_secs()),
            };
            self.resume(&broken).await?;
        }
    }

    async fn resume(&mut self, broken: &str) -> PortResult<()> {
        let what = format!(
            "{}: reading {} broke off at byte {}: {broken}",
            self.store.name(),
            self.key,
            self.offset
        );
        if self.offset - self.began >= PROGRESS {
            self.resumes = 0;
        }
        if self.resumes >= RESUMES || self.etag.is_none() {
            return Err(PortError::Retryable(what));
        }
        self.resumes += 1;
        tracing::debug!("{what}; resuming at this byte");
        tokio::time::sleep(RESUME_BACKOFF.jittered(self.resumes, rand::random())).await;
        let range = (self.offset > 0).then(|| format!("bytes={}-", self.offset));
        let output = self
            .store
            .fetch(&self.key, range.clone(), self.etag.clone())
            .await?;
        let output = output.ok_or_else(|| PortError::Retryable(format!("{what}, and it was deleted")))?;
        if range.is_some() && output.content_range().is_none() {
            return Err(PortError::Retryable(format!(
                "{what}, and the store does not support ranges"
            )));
        }
        self.body = output.body;
        self.began = self.offset;
        Ok(())
    }
}

//! Requests that only a check of the store makes: a range read, and a multipart upload of one small part.

use aws_sdk_s3::types::CompletedMultipartUpload;
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;

use crate::ports::{PortError, PortResult};

use super::bucket::S3Store;
use super::client::Connected;
use super::read::resuming;
use super::sse::{encrypted, with_key};
use super::upload::send_part;

impl S3Store {
    /// Reads a small object from byte `from` on.
    pub(in crate::adapters) async fn read_range(&self, key: &str, from: usize) -> PortResult<Bytes> {
        let output = self.fetch(key, Some(format!("bytes={from}-")), None).await?;
        let output = output.ok_or_else(|| PortError::Permanent(format!("{key} does not exist")))?;
        if output.content_range().is_none() {
            return Err(PortError::Permanent(format!(
                "{}: the store sent the whole of {key}, but a range was requested",
                self.name()
            )));
        }
        let mut body = BytesMut::new();
        let mut stream = resuming(self, key, output);
        while let Some(chunk) = stream.try_next().await? {
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    /// Begins a multipart upload, sends one part, and completes or aborts the upload. It also aborts an
    /// upload that fails in between.
    pub(in crate::adapters) async fn try_parts(
        &self,
        key: &str,
        body: Bytes,
        complete: bool,
    ) -> PortResult<()> {
        let Connected {
            client,
            encryption,
            checksum,
            ..
        } = self.connected().await?;
        let begun = encrypted!(client.create_multipart_upload(), encryption).bucket(self.bucket());
        let begun = begun.set_checksum_algorithm(checksum);
        let begun = begun.key(self.key(key)).send().await;
        let begun = begun.map_err(|error| self.failed("begin the upload of", key, &error))?;
        let id = begun.upload_id().unwrap_or_default().to_owned();
        let sent = self.send_and_complete(key, &id, body, complete).await;
        if complete && sent.is_ok() {
            return Ok(());
        }
        let abort = client.abort_multipart_upload().bucket(self.bucket());
        let abort = abort.key(self.key(key)).upload_id(&id).send().await;
        let abort = abort.map_err(|error| self.failed("abort the upload of", key, &error));
        sent.and(abort.map(drop))
    }

    async fn send_and_complete(&self, key: &str, id: &str, body: Bytes, complete: bool) -> PortResult<()> {
        let part = send_part(self, key, id, 1, body).await?;
        if !complete {
            return Ok(());
        }
        let Connected {
            client, encryption, ..
        } = self.connected().await?;
        let parts = CompletedMultipartUpload::builder().parts(part).build();
        let whole = with_key!(client.complete_multipart_upload(), encryption).bucket(self.bucket());
        let whole = whole.key(self.key(key)).upload_id(id).multipart_upload(parts);
        let whole = whole.send().await;
        whole
            .map(drop)
            .map_err(|error| self.failed("complete the upload of", key, &error))
    }
}

//! Multipart upload in bounded memory: it fills one part while it sends two.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use aws_sdk_s3::primitives::ByteStream as Body;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use bytes::{Bytes, BytesMut};
use tokio::task::JoinSet;

use crate::ports::{ObjectStore, PART_BYTES, PortError, PortResult, Upload};

use super::bucket::S3Store;
use super::client::Connected;
use super::error::status;
use super::sse::{encrypted, with_key};
use crate::adapters::rate_limiter::RateLimiter;

const IN_FLIGHT: usize = 2;
const MOST_PARTS: i32 = 10_000;
/// How many parts have the same size before the size doubles. The first parts have `PART_BYTES`. Memory holds
/// three parts. versitygw on ext4 accepts about 700 parts, because their sizes must fit an extended
/// attribute. 2,500 parts each of 7, 14, 28 and 56 MiB hold 256 GiB in S3's 10,000 parts.
const PARTS_OF_A_SIZE: i32 = 2_500;
/// How long an abort waits for parts that are still being sent.
const PARTS_LAND: Duration = Duration::from_secs(10);
const ABORTS: u32 = 3;
const BETWEEN_ABORTS: Duration = Duration::from_secs(1);

/// The size of part `number`, counted from 1.
fn part_bytes(number: i32) -> usize {
    PART_BYTES << ((number - 1).max(0) / PARTS_OF_A_SIZE).min(3)
}

pub(super) struct S3Upload {
    store: S3Store,
    key: String,
    /// Set once the first part is full.
    upload_id: Option<String>,
    /// Data of less than a part. A single chunk is kept as received; when the next chunk comes, it is copied
    /// into the buffer.
    pending: Bytes,
    buffer: BytesMut,
    next_part: i32,
    length: u64,
    limiter: RateLimiter,
    sending: JoinSet<PortResult<CompletedPart>>,
    sent: Vec<CompletedPart>,
}

impl S3Upload {
    pub(super) fn new(store: S3Store, key: &str) -> Self {
        Self {
            limiter: RateLimiter::new(store.bandwidth()),
            store,
            key: key.to_owned(),
            upload_id: None,
            pending: Bytes::new(),
            buffer: BytesMut::new(),
            next_part: 1,
            length: 0,
            sending: JoinSet::new(),
            sent: Vec::new(),
        }
    }

    async fn begin(&mut self) -> PortResult<String> {
        if let Some(id) = &self.upload_id {
            return Ok(id.clone());
        }
        let Connected {
            client,
            encryption,
            checksum,
            ..
        } = self.store.connected().await?;
        let request = encrypted!(client.create_multipart_upload(), encryption);
        let request = request.set_checksum_algorithm(checksum);
        let answer = request
            .bucket(self.store.bucket())
            .key(self.store.key(&self.key))
            .send()
            .await;
        let answer = answer.map_err(|error| self.store.failed("begin the upload of", &self.key, &error))?;
        let id = answer.upload_id().map(str::to_owned).ok_or_else(|| {
            PortError::Retryable(format!("{}: no upload ID for {}", self.store.name(), self.key))
        })?;
        self.upload_id = Some(id.clone());
        Ok(id)
    }

    async fn send(&mut self, part: Bytes) -> PortResult<()> {
        let id = self.begin().await?;
        while self.sending.len() >= IN_FLIGHT {
            self.one_sent().await?;
        }
        tokio::time::sleep(self.limiter.turn(Instant::now(), part.len())).await;
        let number = self.next_part;
        if number > MOST_PARTS {
            let text = format!(
                "{}: {} does not fit into 10,000 parts",
                self.store.name(),
                self.key
            );
            return Err(PortError::Permanent(text));
        }
        self.next_part += 1;
        self.length += part.len() as u64;
        let (store, key) = (self.store.clone(), self.key.clone());
        self.sending
            .spawn(async move { send_part(&store, &key, &id, number, part).await });
        Ok(())
    }

    async fn one_sent(&mut self) -> PortResult<()> {
        match self.sending.join_next().await {
            Some(Ok(part)) => self.sent.push(part?),
            Some(Err(error)) => {
                return Err(PortError::Retryable(format!(
                    "an upload's task ended early: {error}"
                )));
            }
            None => {}
        }
        Ok(())
    }

    fn rest(&mut self) -> Bytes {
        if self.buffer.is_empty() {
            return std::mem::take(&mut self.pending);
        }
        std::mem::take(&mut self.buffer).freeze()
    }

    async fn finish(&mut self, id: &str) -> PortResult<()> {
        let last = self.rest();
        if !last.is_empty() {
            self.send(last).await?;
        }
        while !self.sending.is_empty() {
            self.one_sent().await?;
        }
        self.sent.sort_unstable_by_key(CompletedPart::part_number);
        let parts = CompletedMultipartUpload::builder().set_parts(Some(std::mem::take(&mut self.sent)));
        let Connected {
            client, encryption, ..
        } = self.store.connected().await?;
        let request = client.complete_multipart_upload().bucket(self.store.bucket());
        let request = with_key!(request, encryption);
        let request = request.key(self.store.key(&self.key)).upload_id(id);
        let Err(error) = request.multipart_upload(parts.build()).send().await else {
            return Ok(());
        };
        // If the first request succeeded and its answer was lost, the SDK's retry finds no upload.
        if status(&error) == Some(404) && self.is_there().await {
            return Ok(());
        }
        Err(self.store.failed("complete the upload of", &self.key, &error))
    }

    async fn is_there(&self) -> bool {
        let Ok(Connected {
            client, encryption, ..
        }) = self.store.connected().await
        else {
            return false;
        };
        let request = with_key!(client.head_object(), encryption)
            .bucket(self.store.bucket())
            .key(self.store.key(&self.key));
        let length = request
            .send()
            .await
            .ok()
            .and_then(|answer| answer.content_length());
        length.and_then(|n| u64::try_from(n).ok()) == Some(self.length)
    }
}

/// Sends one part of an upload that has begun.
pub(super) async fn send_part(
    store: &S3Store,
    key: &str,
    upload_id: &str,
    number: i32,
    part: Bytes,
) -> PortResult<CompletedPart> {
    let Connected {
        client,
        encryption,
        checksum,
        covered,
    } = store.connected().await?;
    let request = client.upload_part().bucket(store.bucket()).key(store.key(key));
    let request = request
        .upload_id(upload_id)
        .part_number(number)
        .body(Body::from(part));
    let request = request.set_checksum_algorithm(checksum);
    let mut request = with_key!(request, encryption).customize();
    if covered {
        request = request.disable_payload_signing();
    }
    let answer = request.send().await;
    let answer = answer.map_err(|error| store.failed("upload a part of", key, &error))?;
    let part = CompletedPart::builder()
        .part_number(number)
        .set_checksum_crc32(answer.checksum_crc32)
        .set_e_tag(answer.e_tag);
    Ok(part.build())
}

async fn abandon(
    store: S3Store,
    key: String,
    id: String,
    mut sending: JoinSet<PortResult<CompletedPart>>,
) -> PortResult<()> {
    // A part that arrives after the abort may stay in the store and cost money, and the server may still
    // process a part whose request was cancelled. So wait up to `PARTS_LAND` for the parts in flight.
    let quiet = tokio::time::timeout(PARTS_LAND, async { while sending.join_next().await.is_some() {} });
    let all_landed = quiet.await.is_ok();
    sending.shutdown().await;
    for _ in 0..ABORTS {
        let request = store.client().await?.abort_multipart_upload();
        let request = request.bucket(store.bucket()).key(store.key(&key)).upload_id(&id);
        match request.send().await {
            Ok(_) if all_landed => break,
            // "It might be necessary to abort a given multipart upload multiple times": S3 API,
            // AbortMultipartUpload.
            Ok(_) => tokio::time::sleep(BETWEEN_ABORTS).await,
            Err(error) if status(&error) == Some(404) => break,
            Err(error) => return Err(store.failed("abort the upload of", &key, &error)),
        }
    }
    Ok(())
}

#[async_trait]
impl Upload for S3Upload {
    async fn write(&mut self, mut chunk: Bytes) -> PortResult<()> {
        while !chunk.is_empty() {
            let wanted = part_bytes(self.next_part);
            if self.buffer.is_empty() && self.pending.is_empty() {
                // A chunk that holds a whole part, or all of the last part, is sent without a copy.
                if chunk.len() < wanted {
                    self.pending = chunk;
                    return Ok(());
                }
                let part = chunk.split_to(wanted);
                self.send(part).await?;
                continue;
            }
            if self.buffer.is_empty() {
                self.buffer.reserve(wanted);
                self.buffer.extend_from_slice(&std::mem::take(&mut self.pending));
            }
            let room = wanted - self.buffer.len();
            let head = chunk.split_to(room.min(chunk.len()));
            self.buffer.extend_from_slice(&head);
            if self.buffer.len() == wanted {
                let part = std::mem::take(&mut self.buffer).freeze();
                self.send(part).await?;
            }
        }
        Ok(())
    }

    async fn complete(mut self: Box<Self>) -> PortResult<()> {
        let Some(id) = self.upload_id.clone() else {
            let body = self.rest();
            return self.store.put(&self.key, body).await;
        };
        self.finish(&id).await?;
        self.upload_id = None;
        Ok(())
    }

    async fn abort(mut self: Box<Self>) -> PortResult<()> {
        match self.upload_id.take() {
            None => Ok(()),
            Some(id) => {
                let sending = std::mem::take(&mut self.sending);
                abandon(self.store.clone(), self.key.clone(), id, sending).await
            }
        }
    }
}

impl Drop for S3Upload {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.upload_id.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let abandoned = abandon(
            self.store.clone(),
            self.key.clone(),
            id,
            std::mem::take(&mut self.sending),
        );
        runtime.spawn(async move {
            if let Err(error) = abandoned.await {
                tracing::warn!("{error}");
            }
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn ten_thousand_parts_hold_any_etcd() {
        assert_eq!(part_bytes(1), 7 * MIB);
        assert_eq!(part_bytes(2_500), 7 * MIB);
        assert_eq!(part_bytes(2_501), 14 * MIB);
        assert_eq!(part_bytes(MOST_PARTS), 56 * MIB);
        let total: usize = (1..=MOST_PARTS).map(part_bytes).sum();
        assert_eq!(total, 262_500 * MIB);
    }
}

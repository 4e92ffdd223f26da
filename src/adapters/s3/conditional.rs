//! Conditional writes: create an object only if there is none (`If-None-Match: *` on `PutObject`), and
//! replace an object only if it did not change since it was read (`If-Match`).

use std::time::Duration;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::operation::put_object::PutObjectError;
use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::primitives::ByteStream as Body;
use bytes::Bytes;

use crate::ports::{Created, ObjectStore, PortError, PortResult, Replaced, Tag};

use super::bucket::S3Store;
use super::client::Connected;
use super::error::{is_not_implemented, status};
use super::read::SMALL_BYTES;
use super::sse::encrypted;

const TRIES: u32 = 4;
/// No object has this `ETag`.
const NO_TAG: &str = "\"00000000000000000000000000000000\"";

impl S3Store {
    /// Whether the store honours `If-None-Match: *`. Only the first call probes the store.
    pub(super) async fn honours_if_none_match(&self) -> PortResult<bool> {
        let known = self.if_none_match().get_or_try_init(|| self.probe_create());
        known.await.copied()
    }

    /// Whether the store honours `If-Match`. Only the first call probes the store.
    pub(super) async fn honours_if_match(&self) -> PortResult<bool> {
        let known = self.if_match().get_or_try_init(|| self.probe_replace());
        known.await.copied()
    }

    /// Sends a `PutObject` with a condition. The outer error means that no client could be created.
    async fn put_if(
        &self,
        key: &str,
        body: &Bytes,
        condition: impl FnOnce(PutObjectFluentBuilder) -> PutObjectFluentBuilder,
    ) -> PortResult<Result<(), SdkError<PutObjectError>>> {
        let Connected {
            client, encryption, ..
        } = self.connected().await?;
        let request = client.put_object().bucket(self.bucket()).key(self.key(key));
        let request = condition(encrypted!(request, encryption)).body(Body::from(body.clone()));
        Ok(request.send().await.map(drop))
    }

    /// `create` without the check that the store honours the condition; `None` if the store reports that it
    /// does not implement conditional writes.
    pub(super) async fn create_unchecked(&self, key: &str, body: Bytes) -> PortResult<Option<Created>> {
        for attempt in 1..=TRIES {
            let answer = self.put_if(key, &body, |put| put.if_none_match("*")).await?;
            let Err(error) = answer else {
                return Ok(Some(Created::Created));
            };
            if is_not_implemented(&error) {
                return Ok(None);
            }
            match status(&error) {
                // 409: another conditional write to the key is in progress (S3's documentation of PutObject).
                Some(409 | 412) => {
                    // An object that another agent has created is about as large as this one. An increment
                    // may be larger than a small object.
                    if let Some(there) = self.fetch(key, None, None).await? {
                        let most = SMALL_BYTES.max(2 * body.len());
                        return Ok(Some(Created::Exists(self.read_small(key, there, most).await?)));
                    }
                }
                Some(_) => return Err(self.failed("create", key, &error)),
                None => return Err(self.unanswered("create", key, &error)),
            }
            pause(attempt).await;
        }
        Err(PortError::Retryable(format!(
            "{}: cannot create {key}: the store reports it as existing and as missing, {TRIES} times",
            self.name()
        )))
    }

    /// Whether `create` never overwrites. The test writes `key`, and may leave it in the store.
    pub(in crate::adapters) async fn try_create(&self, key: &str) -> PortResult<bool> {
        try_twice(|body| self.create_unchecked(key, body)).await
    }

    async fn probe_create(&self) -> PortResult<bool> {
        let key = probe_key();
        let honoured = self.try_create(&key).await;
        self.remove_probe(&key).await;
        honoured
    }

    /// Removes a probe object. A failure is only logged.
    async fn remove_probe(&self, key: &str) {
        if let Err(error) = self.delete(key).await {
            tracing::warn!("cannot remove the probe object {key} from the store: {error}");
        }
    }

    /// The version of a response.
    pub(super) fn tag_of(&self, key: &str, output: &GetObjectOutput) -> PortResult<Tag> {
        let tag = output.e_tag().map(|tag| Tag(tag.to_owned()));
        tag.ok_or_else(|| {
            PortError::Permanent(format!(
                "{}: {key} has no ETag, so a concurrent change could not be detected",
                self.name()
            ))
        })
    }

    /// `replace` without the check that the store honours the condition; `None` if the store reports that it
    /// does not implement conditional writes.
    pub(super) async fn replace_unchecked(
        &self,
        key: &str,
        body: Bytes,
        read: &Tag,
    ) -> PortResult<Option<Replaced>> {
        for attempt in 1..=TRIES {
            let answer = self.put_if(key, &body, |put| put.if_match(&read.0)).await?;
            let Err(error) = answer else {
                return Ok(Some(Replaced::Done));
            };
            if is_not_implemented(&error) {
                return Ok(None);
            }
            match status(&error) {
                // The SDK retries a request whose answer was lost; the retry finds what the first attempt
                // wrote.
                Some(412) => {
                    let there = self.get_small(key).await?;
                    return Ok(Some(if there.as_ref() == Some(&body) {
                        Replaced::Done
                    } else {
                        Replaced::Changed
                    }));
                }
                Some(404) if error.code() == Some("NoSuchKey") => return Ok(Some(Replaced::Changed)),
                // Another conditional write to the key is in progress (S3's documentation of PutObject).
                Some(409) => pause(attempt).await,
                Some(_) => return Err(self.failed("replace", key, &error)),
                None => return Err(self.unanswered("replace", key, &error)),
            }
        }
        Err(PortError::Retryable(format!(
            "{}: cannot replace {key}: other writers keep writing to it",
            self.name()
        )))
    }

    /// Whether the store honours `If-Match`, tested with a probe object.
    async fn probe_replace(&self) -> PortResult<bool> {
        let key = probe_key();
        let first = Bytes::from_static(b"etcd-agent tries whether this store honours If-Match\n");
        self.put(&key, first).await?;
        let second = Bytes::from_static(b"this must not be stored\n");
        let answer = self
            .replace_unchecked(&key, second, &Tag(NO_TAG.to_owned()))
            .await;
        self.remove_probe(&key).await;
        Ok(answer? == Some(Replaced::Changed))
    }
}

pub(super) fn ignores_match(store: &str) -> PortError {
    PortError::Permanent(format!(
        "{store} ignores `If-Match` or does not know it: two concurrent writers would overwrite each other's \
         object; a size is set with cluster.size in the configuration of every node instead"
    ))
}

pub(in crate::adapters) fn ignores_header(store: &str) -> PortError {
    PortError::Permanent(format!(
        "{store} ignores `If-None-Match: *` or does not know it: objects that must stay would be overwritten, so it cannot \
         arbitrate an epoch; use a store with conditional writes or a fixed list of nodes"
    ))
}

/// Calls `create` twice for one key. True if the second write was refused and changed nothing. False
/// otherwise, also if the store does not implement such a write (`None`).
pub(in crate::adapters) async fn try_twice<F>(create: impl Fn(Bytes) -> F) -> PortResult<bool>
where
    F: Future<Output = PortResult<Option<Created>>>,
{
    let first = Bytes::from_static(b"etcd-agent tries whether this store honours If-None-Match\n");
    if create(first.clone()).await?.is_none() {
        return Ok(false);
    }
    let second = create(Bytes::from_static(b"this must not be stored\n")).await?;
    Ok(second == Some(Created::Exists(first)))
}

/// A random key for a probe object.
fn probe_key() -> String {
    format!(".etcd-agent-probe-{:016x}", rand::random::<u64>())
}

/// A growing random pause, so that concurrent writers do not collide again.
async fn pause(attempt: u32) {
    let ms = u64::from(attempt) * rand::random_range(20..120);
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

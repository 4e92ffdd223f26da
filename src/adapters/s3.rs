//! S3 and what speaks it, by aws-sdk-s3.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream as Body;
use bytes::{Bytes, BytesMut};
use tokio::sync::OnceCell;

use crate::config::StoreSettings;
use crate::model::UnixMs;
use crate::ports::{
    ByteStream, Created, ObjectMeta, ObjectStore, PortError, PortResult, Replaced, Tag, Upload,
};

use super::s3_client::{self, Cached, Connected};
use super::s3_error::{explain, is_auth, is_not_implemented, status};
use super::s3_get::resuming;
use super::s3_replace::ignores_match;
use super::s3_sse::{encrypted, with_key};
use super::s3_upload::S3Upload;
use super::store::{ignores_header, try_twice};

const SMALL_BYTES: usize = 1024 * 1024;
pub(super) const CREATE_TRIES: u32 = 4;

/// A bucket, or a prefix in it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct S3Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: StoreSettings,
    bucket: String,
    prefix: String,
    describe: String,
    client: Cached,
    conditional: OnceCell<bool>,
    replaceable: OnceCell<bool>,
}

impl S3Store {
    /// The store at `s3://bucket/prefix`; nothing is read or connected to before the first call.
    pub fn new(settings: &StoreSettings, bucket: &str, prefix: &str) -> Self {
        let prefix = prefix.trim_matches('/');
        let mut describe = format!("s3://{bucket}");
        if !prefix.is_empty() {
            describe = format!("{describe}/{prefix}");
        }
        if let Some(endpoint) = &settings.endpoint {
            describe = format!("{describe} at {}", s3_client::without_user(endpoint));
        }
        Self {
            inner: Arc::new(Inner {
                settings: settings.clone(),
                bucket: bucket.to_owned(),
                prefix: prefix.to_owned(),
                describe,
                client: Cached::default(),
                conditional: OnceCell::new(),
                replaceable: OnceCell::new(),
            }),
        }
    }

    pub(super) async fn client(&self) -> PortResult<Client> {
        Ok(self.connected().await?.client)
    }

    pub(super) async fn connected(&self) -> PortResult<Connected> {
        let inner = &self.inner;
        inner
            .client
            .get(&inner.settings)
            .await
            .map_err(|error| PortError::Permanent(format!("{}: {error}", inner.describe)))
    }

    pub(super) fn bucket(&self) -> &str {
        &self.inner.bucket
    }

    /// How many bytes of large uploads may leave in a second.
    pub(super) fn bandwidth(&self) -> Option<u64> {
        self.inner.settings.options.bandwidth
    }

    pub(super) fn key(&self, key: &str) -> String {
        if self.inner.prefix.is_empty() {
            return key.to_owned();
        }
        format!("{}/{key}", self.inner.prefix)
    }

    /// The error of a call, told in one line. Refused credentials are read anew by the next call.
    pub(super) fn failed<E>(&self, what: &str, key: &str, error: &SdkError<E>) -> PortError
    where
        E: std::error::Error + aws_sdk_s3::error::ProvideErrorMetadata + 'static,
    {
        if is_auth(error) {
            self.inner.client.forget();
        }
        explain(&self.inner.describe, what, key, error)
    }

    pub(super) async fn fetch(
        &self,
        key: &str,
        range: Option<String>,
        etag: Option<String>,
    ) -> PortResult<Option<GetObjectOutput>> {
        let Connected {
            client, encryption, ..
        } = self.connected().await?;
        let request = client.get_object().bucket(self.bucket()).key(self.key(key));
        let request = with_key!(request, encryption);
        match request.set_range(range).set_if_match(etag).send().await {
            Ok(output) => Ok(Some(output)),
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(aws_sdk_s3::operation::get_object::GetObjectError::is_no_such_key) =>
            {
                Ok(None)
            }
            Err(error) => Err(self.failed("read", key, &error)),
        }
    }

    /// Why a write has no answer: retryable only where it surely never reached the store.
    pub(super) fn unanswered<E>(&self, doing: &str, key: &str, error: &SdkError<E>) -> PortError
    where
        E: std::error::Error + aws_sdk_s3::error::ProvideErrorMetadata + 'static,
    {
        match self.failed(doing, key, error) {
            PortError::Retryable(text) if !never_sent(error) => PortError::OutcomeUnknown(text),
            other => other,
        }
    }

    /// `create` without the check that the store honours it; `None` where the store says that it knows no conditions.
    async fn create_unchecked(&self, key: &str, body: Bytes) -> PortResult<Option<Created>> {
        for attempt in 1..=CREATE_TRIES {
            let Connected {
                client, encryption, ..
            } = self.connected().await?;
            let request = client.put_object().bucket(self.bucket()).key(self.key(key));
            let answer = encrypted!(request, encryption)
                .if_none_match("*")
                .body(Body::from(body.clone()))
                .send()
                .await;
            let Err(error) = answer else {
                return Ok(Some(Created::Created));
            };
            if is_not_implemented(&error) {
                return Ok(None);
            }
            match status(&error) {
                // 409: another conditional write to the key is under way (S3's documentation of PutObject).
                Some(409 | 412) => {
                    // What another has put there is about as large: an increment is larger than what is small else.
                    if let Some(there) = self.fetch(key, None, None).await? {
                        let most = SMALL_BYTES.max(2 * body.len());
                        return Ok(Some(Created::Exists(self.small(key, there, most).await?)));
                    }
                }
                Some(_) => return Err(self.failed("create", key, &error)),
                None => return Err(self.unanswered("create", key, &error)),
            }
            pause(attempt).await;
        }
        Err(PortError::Retryable(format!(
            "{}: cannot create {key}: the store says that it is there and that it is not, {CREATE_TRIES} times",
            self.inner.describe
        )))
    }

    /// Whether `create` is what it says, tried on `key`, which may stay.
    pub(super) async fn try_create(&self, key: &str) -> PortResult<bool> {
        try_twice(|body| self.create_unchecked(key, body)).await
    }

    /// What an answer carries, as far as an object of at most so many bytes goes.
    async fn small(&self, key: &str, output: GetObjectOutput, most: usize) -> PortResult<Bytes> {
        let mut stream = resuming(self, key, output);
        let mut body = BytesMut::new();
        while let Some(chunk) = futures::TryStreamExt::try_next(&mut stream).await? {
            if body.len() + chunk.len() > most {
                let text = format!(
                    "{}: {key} is larger than {most} bytes: not one of ours",
                    self.inner.describe
                );
                return Err(PortError::Permanent(text));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    async fn probe(&self) -> PortResult<bool> {
        let key = probe_key();
        let honoured = self.try_create(&key).await;
        self.cleaned(&key).await;
        honoured
    }

    /// Removes a probe object, if it can be.
    pub(super) async fn cleaned(&self, key: &str) {
        if let Err(error) = self.delete(key).await {
            tracing::warn!("the probe object {key} stays in the store: {error}");
        }
    }
}

/// The name of an object that is tried out something on.
pub(super) fn probe_key() -> String {
    format!(".etcd-agent-probe-{:016x}", rand::random::<u64>())
}

/// A pause that grows, so that those who write at once do not meet again.
pub(super) async fn pause(attempt: u32) {
    let ms = u64::from(attempt) * rand::random_range(20..120);
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// True when the request surely never reached the store: nothing can have happened there.
fn never_sent<E: std::error::Error + 'static>(error: &SdkError<E>) -> bool {
    if matches!(error, SdkError::ConstructionFailure(_)) {
        return true;
    }
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = next {
        let refused = cause.downcast_ref::<std::io::Error>();
        if refused.is_some_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        next = cause.source();
    }
    false
}

#[async_trait]
impl ObjectStore for S3Store {
    fn describe(&self) -> String {
        self.inner.describe.clone()
    }

    fn path(&self) -> String {
        self.inner.prefix.clone()
    }

    async fn conditional_writes(&self) -> PortResult<bool> {
        self.inner
            .conditional
            .get_or_try_init(|| self.probe())
            .await
            .copied()
    }

    async fn get_small(&self, key: &str) -> PortResult<Option<Bytes>> {
        match self.fetch(key, None, None).await? {
            Some(output) => self.small(key, output, SMALL_BYTES).await.map(Some),
            None => Ok(None),
        }
    }

    async fn get_tagged(&self, key: &str) -> PortResult<Option<(Bytes, Tag)>> {
        let Some(output) = self.fetch(key, None, None).await? else {
            return Ok(None);
        };
        let tag = self.tag_of(key, &output)?;
        Ok(Some((self.small(key, output, SMALL_BYTES).await?, tag)))
    }

    async fn replace(&self, key: &str, body: Bytes, read: &Tag) -> PortResult<Replaced> {
        let honoured = self.inner.replaceable.get_or_try_init(|| self.probe_replace());
        if !*honoured.await? {
            return Err(ignores_match(&self.inner.describe));
        }
        let replaced = self.replace_unchecked(key, body, read).await?;
        replaced.ok_or_else(|| ignores_match(&self.inner.describe))
    }

    async fn get(&self, key: &str) -> PortResult<Option<ByteStream>> {
        let output = self.fetch(key, None, None).await?;
        Ok(output.map(|output| resuming(self, key, output)))
    }

    async fn put(&self, key: &str, body: Bytes) -> PortResult<()> {
        let Connected {
            client, encryption, ..
        } = self.connected().await?;
        let request = client.put_object().bucket(self.bucket()).key(self.key(key));
        let answer = encrypted!(request, encryption)
            .body(Body::from(body))
            .send()
            .await;
        answer
            .map(|_| ())
            .map_err(|error| self.failed("write", key, &error))
    }

    async fn create(&self, key: &str, body: Bytes) -> PortResult<Created> {
        if !self.conditional_writes().await? {
            return Err(ignores_header(&self.inner.describe));
        }
        let created = self.create_unchecked(key, body).await?;
        created.ok_or_else(|| ignores_header(&self.inner.describe))
    }

    async fn upload(&self, key: &str) -> PortResult<Box<dyn Upload>> {
        Ok(Box::new(S3Upload::new(self.clone(), key)))
    }

    async fn list(&self, prefix: &str) -> PortResult<Vec<ObjectMeta>> {
        let client = self.client().await?;
        let strip = self.key("");
        let mut found = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let request = client
                .list_objects_v2()
                .bucket(self.bucket())
                .prefix(self.key(prefix));
            let page = request.set_continuation_token(token.clone()).send().await;
            let page = page.map_err(|error| self.failed("list", prefix, &error))?;
            for object in page.contents() {
                let Some(key) = object.key().and_then(|key| key.strip_prefix(&strip)) else {
                    continue;
                };
                found.push(ObjectMeta {
                    key: key.to_owned(),
                    size_bytes: object
                        .size()
                        .and_then(|size| u64::try_from(size).ok())
                        .unwrap_or(0),
                    modified: object
                        .last_modified()
                        .and_then(|time| time.to_millis().ok())
                        .and_then(|ms| u64::try_from(ms).ok())
                        .map(UnixMs),
                });
            }
            if page.is_truncated() != Some(true) {
                break;
            }
            let next = page.next_continuation_token().map(str::to_owned);
            if next.is_none() || next == token {
                // Half a listing must never pass for a whole one.
                return Err(PortError::Permanent(format!(
                    "{}: the listing of {prefix} goes on, but the store does not say where",
                    self.inner.describe
                )));
            }
            token = next;
        }
        found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(found)
    }

    async fn delete(&self, key: &str) -> PortResult<()> {
        let request = self
            .client()
            .await?
            .delete_object()
            .bucket(self.bucket())
            .key(self.key(key));
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) if status(&error) == Some(404) && !is_auth(&error) => Ok(()),
            Err(error) => Err(self.failed("delete", key, &error)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

//! A bucket, or a prefix in it: its client, its keys and its errors.

use std::sync::Arc;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use tokio::sync::OnceCell;

use crate::config::StoreSettings;
use crate::ports::{PortError, PortResult};

use super::client::{self, Cached, Connected};
use super::error::{explain, is_auth};
use super::sse::with_key;

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
    if_none_match: OnceCell<bool>,
    if_match: OnceCell<bool>,
}

impl S3Store {
    /// The store at `s3://bucket/prefix`. It reads no file and opens no connection before the first call.
    pub fn new(settings: &StoreSettings, bucket: &str, prefix: &str) -> Self {
        let prefix = prefix.trim_matches('/');
        let mut describe = format!("s3://{bucket}");
        if !prefix.is_empty() {
            describe = format!("{describe}/{prefix}");
        }
        if let Some(endpoint) = &settings.endpoint {
            describe = format!("{describe} at {}", client::without_user(endpoint));
        }
        Self {
            inner: Arc::new(Inner {
                settings: settings.clone(),
                bucket: bucket.to_owned(),
                prefix: prefix.to_owned(),
                describe,
                client: Cached::default(),
                if_none_match: OnceCell::new(),
                if_match: OnceCell::new(),
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

    /// The store's name for messages.
    pub(super) fn name(&self) -> &str {
        &self.inner.describe
    }

    /// The prefix of all keys, without a slash at either end.
    pub(super) fn prefix(&self) -> &str {
        &self.inner.prefix
    }

    /// Whether the store honours `If-None-Match`, once that is known.
    pub(super) fn if_none_match(&self) -> &OnceCell<bool> {
        &self.inner.if_none_match
    }

    /// Whether the store honours `If-Match`, once that is known.
    pub(super) fn if_match(&self) -> &OnceCell<bool> {
        &self.inner.if_match
    }

    pub(super) fn bucket(&self) -> &str {
        &self.inner.bucket
    }

    /// The limit for large uploads, in bytes per second.
    pub(super) fn bandwidth(&self) -> Option<u64> {
        self.inner.settings.options.bandwidth
    }

    pub(super) fn key(&self, key: &str) -> String {
        if self.inner.prefix.is_empty() {
            return key.to_owned();
        }
        format!("{}/{key}", self.inner.prefix)
    }

    /// Describes the error of a call in one line. If the store refused the credentials, the next call reads
    /// them again.
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

    /// Describes why a write has no answer. The error is retryable only if the request certainly never
    /// reached the store.
    pub(super) fn unanswered<E>(&self, doing: &str, key: &str, error: &SdkError<E>) -> PortError
    where
        E: std::error::Error + aws_sdk_s3::error::ProvideErrorMetadata + 'static,
    {
        match self.failed(doing, key, error) {
            PortError::Retryable(text) if !never_sent(error) => PortError::OutcomeUnknown(text),
            other => other,
        }
    }
}

/// True if the request certainly never reached the store.
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

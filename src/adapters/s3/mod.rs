//! An object store in S3 or a compatible service, with aws-sdk-s3.

mod bucket;
mod check;
mod client;
pub(super) mod conditional;
mod error;
mod read;
mod sse;
mod upload;

use async_trait::async_trait;
use aws_sdk_s3::primitives::ByteStream as Body;
use bytes::Bytes;

use crate::model::UnixMs;
use crate::ports::{
    ByteStream, Created, ObjectMeta, ObjectStore, PortError, PortResult, Replaced, Tag, Upload,
};

pub use bucket::S3Store;

use client::Connected;
use conditional::{ignores_header, ignores_match};
use error::{is_auth, status};
use read::{SMALL_BYTES, resuming};
use sse::encrypted;
use upload::S3Upload;

#[async_trait]
impl ObjectStore for S3Store {
    fn describe(&self) -> String {
        self.name().to_owned()
    }

    fn path(&self) -> String {
        self.prefix().to_owned()
    }

    async fn conditional_writes(&self) -> PortResult<bool> {
        self.honours_if_none_match().await
    }

    async fn get_small(&self, key: &str) -> PortResult<Option<Bytes>> {
        match self.fetch(key, None, None).await? {
            Some(output) => self.read_small(key, output, SMALL_BYTES).await.map(Some),
            None => Ok(None),
        }
    }

    async fn get_tagged(&self, key: &str) -> PortResult<Option<(Bytes, Tag)>> {
        let Some(output) = self.fetch(key, None, None).await? else {
            return Ok(None);
        };
        let tag = self.tag_of(key, &output)?;
        Ok(Some((self.read_small(key, output, SMALL_BYTES).await?, tag)))
    }

    async fn replace(&self, key: &str, body: Bytes, read: &Tag) -> PortResult<Replaced> {
        if !self.honours_if_match().await? {
            return Err(ignores_match(self.name()));
        }
        let replaced = self.replace_unchecked(key, body, read).await?;
        replaced.ok_or_else(|| ignores_match(self.name()))
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
            return Err(ignores_header(self.name()));
        }
        let created = self.create_unchecked(key, body).await?;
        created.ok_or_else(|| ignores_header(self.name()))
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
                // A partial listing must never be treated as a complete one.
                return Err(PortError::Permanent(format!(
                    "{}: the listing of {prefix} is truncated, but the store sends no continuation token",
                    self.name()
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

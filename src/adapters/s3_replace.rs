//! Replacing an object only if it is what was read: `If-Match` on `PutObject`.

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream as Body;
use bytes::Bytes;

use crate::ports::{ObjectStore, PortError, PortResult, Replaced, Tag};

use super::s3::{CREATE_TRIES, S3Store, pause, probe_key};
use super::s3_client::Connected;
use super::s3_error::{is_not_implemented, status};
use super::s3_sse::{encrypted, with_key};

/// No object has this `ETag`.
const NO_TAG: &str = "\"00000000000000000000000000000000\"";

impl S3Store {
    /// Which version an answer is.
    pub(super) fn tag_of(&self, key: &str, output: &GetObjectOutput) -> PortResult<Tag> {
        let tag = output.e_tag().map(|tag| Tag(tag.to_owned()));
        tag.ok_or_else(|| {
            PortError::Permanent(format!(
                "{}: {key} comes without an ETag: nobody can tell whether it changes meanwhile",
                self.describe()
            ))
        })
    }

    /// `replace` without the check that the store honours it; `None` where the store says that it knows no conditions.
    pub(super) async fn replace_unchecked(
        &self,
        key: &str,
        body: Bytes,
        read: &Tag,
    ) -> PortResult<Option<Replaced>> {
        for attempt in 1..=CREATE_TRIES {
            let Connected {
                client, encryption, ..
            } = self.connected().await?;
            let request = client.put_object().bucket(self.bucket()).key(self.key(key));
            let answer = encrypted!(request, encryption)
                .if_match(&read.0)
                .body(Body::from(body.clone()))
                .send()
                .await;
            let Err(error) = answer else {
                return Ok(Some(Replaced::Done));
            };
            if is_not_implemented(&error) {
                return Ok(None);
            }
            match status(&error) {
                // The SDK repeats a request whose answer was lost; the repetition finds what the first one wrote.
                Some(412) => {
                    let there = self.get_small(key).await?;
                    return Ok(Some(if there.as_ref() == Some(&body) {
                        Replaced::Done
                    } else {
                        Replaced::Changed
                    }));
                }
                Some(404) if error.code() == Some("NoSuchKey") => return Ok(Some(Replaced::Changed)),
                // Another conditional write to the key is under way (S3's documentation of PutObject).
                Some(409) => pause(attempt).await,
                Some(_) => return Err(self.failed("replace", key, &error)),
                None => return Err(self.unanswered("replace", key, &error)),
            }
        }
        Err(PortError::Retryable(format!(
            "{}: cannot replace {key}: others write to it all the time",
            self.describe()
        )))
    }

    /// Whether the store minds `If-Match`, tried on an object of its own.
    pub(super) async fn probe_replace(&self) -> PortResult<bool> {
        let key = probe_key();
        let first = Bytes::from_static(b"etcd-agent tries whether this store honours If-Match\n");
        self.put(&key, first).await?;
        let second = Bytes::from_static(b"this must not be stored\n");
        let answer = self
            .replace_unchecked(&key, second, &Tag(NO_TAG.to_owned()))
            .await;
        self.cleaned(&key).await;
        Ok(answer? == Some(Replaced::Changed))
    }
}

pub(super) fn ignores_match(store: &str) -> PortError {
    PortError::Permanent(format!(
        "{store} ignores `If-Match` or does not know it: two who write at once would overwrite each other's object; set cluster.size in the configuration of every node instead"
    ))
}

//! Encrypts data with age (<https://age-encryption.org/v1>) before it leaves the host. Wraps any store.
//!
//! Objects with etcd's data (`*.zst`, `*.gz`) are stored under their name plus `.age`. Readers and listings
//! do not see the difference. Objects with metadata only (`backup.json`, the epochs) are not encrypted.

mod decrypt;

use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use age::Encryptor;
use age::x25519::Recipient;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;

use crate::config::Encryption;
use crate::model::UnixMs;
use crate::ports::{
    ByteStream, Created, Expected, ObjectMeta, ObjectStore, PortError, PortResult, Replaced, Tag, Upload,
};

use decrypt::{decrypted, identities, worker_failed};

/// The suffix of an encrypted object's name.
const SUFFIX: &str = ".age";
const SMALL_BYTES: usize = 1024 * 1024;
/// A store whose data objects are encrypted.
pub struct Sealed {
    inner: Arc<dyn ObjectStore>,
    /// If empty, new objects are written unencrypted, and encrypted ones are still read.
    recipients: Arc<[Recipient]>,
    identity_file: Option<PathBuf>,
    /// Unencrypted objects from before this time are read although there are recipients.
    clear_before: Option<UnixMs>,
}

impl Sealed {
    /// `inner` with these encryption settings.
    ///
    /// # Errors
    /// Permanent if a recipient cannot be parsed: nothing may be written then.
    pub fn new(inner: Arc<dyn ObjectStore>, encryption: &Encryption) -> PortResult<Self> {
        let read = |text: &String| {
            Recipient::from_str(text).map_err(|why| {
                PortError::Permanent(format!("backup.encrypt_to: {text:?} is no recipient: {why}"))
            })
        };
        Ok(Self {
            inner,
            recipients: encryption
                .recipients
                .iter()
                .map(read)
                .collect::<PortResult<_>>()?,
            identity_file: encryption.identity_file.clone(),
            clear_before: encryption.accept_plaintext_before,
        })
    }

    fn encrypts(&self) -> bool {
        !self.recipients.is_empty()
    }

    /// Opens the object that holds `key`. It looks first for the form (encrypted or not) that a write would
    /// use now. It refuses an unencrypted object if encryption is required: anyone with write access to the
    /// store can put one there.
    async fn open(&self, key: &str, expected: Option<Expected>) -> PortResult<Option<ByteStream>> {
        if !is_data(key) {
            return self.inner.get(key).await;
        }
        let mut refused = None;
        for sealed in [self.encrypts(), !self.encrypts()] {
            if !sealed {
                if let Some(stream) = self.inner.get(key).await? {
                    match self.objection(expected) {
                        // Without recipients, continue: backup.json says that the backup is encrypted, so the
                        // encrypted object counts, if it exists.
                        Some(why) if self.encrypts() => return Err(self.refused(key, why)),
                        Some(why) => refused = Some(why),
                        None => return Ok(Some(stream)),
                    }
                }
                continue;
            }
            let name = format!("{key}{SUFFIX}");
            if let Some(stream) = self.inner.get(&name).await? {
                let what = format!("{}: {name}", self.inner.describe());
                let identities = identities(self.identity_file.as_deref(), &what).await?;
                return Ok(Some(decrypted(stream, identities, what)));
            }
        }
        refused.map_or(Ok(None), |why| Err(self.refused(key, why)))
    }

    /// Why an unencrypted object is refused; `None` if it is accepted.
    fn objection(&self, expected: Option<Expected>) -> Option<&'static str> {
        if expected.is_some_and(|expected| expected.encrypted) {
            return Some(
                "backup.json says that this backup is encrypted: it was replaced, or encryption was switched off while its \
                 increments continued; restore another backup",
            );
        }
        let before = |at| self.clear_before.is_some_and(|limit| at < limit);
        let accepted = expected.is_some_and(|expected| before(expected.at));
        (self.encrypts() && !accepted).then_some(
            "backup.encrypt_to is set, so anyone with write access to the store may have put it there; if it was taken before \
             encryption was switched on, set restore.accept_plaintext_before to that time on every node",
        )
    }

    fn refused(&self, key: &str, why: &str) -> PortError {
        let store = self.inner.describe();
        PortError::Permanent(format!("{store}: {key} is not encrypted, and {why}"))
    }

    fn seal(&self, body: &[u8]) -> PortResult<Bytes> {
        let sink = Sink::default();
        let mut writer = self.writer(sink.clone())?;
        writer.write_all(body).map_err(|error| seal_failed(&error))?;
        writer.finish().map_err(|error| seal_failed(&error))?;
        Ok(sink.take())
    }

    fn writer(&self, sink: Sink) -> PortResult<age::stream::StreamWriter<Sink>> {
        let recipients = self
            .recipients
            .iter()
            .map(|recipient| recipient as &dyn age::Recipient);
        let encryptor = Encryptor::with_recipients(recipients)
            .map_err(|error| PortError::Permanent(format!("cannot encrypt the backup: {error}")))?;
        encryptor.wrap_output(sink).map_err(|error| seal_failed(&error))
    }
}

/// True for an object that holds etcd's keys and values.
fn is_data(key: &str) -> bool {
    [".zst", ".gz"].iter().any(|end| key.ends_with(end))
}

fn seal_failed(error: &std::io::Error) -> PortError {
    PortError::Permanent(format!("cannot encrypt the backup: {error}"))
}

/// The encrypted bytes that were not taken yet.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn take(&self) -> Bytes {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

impl Write for Sink {
    fn write(&mut self, chunk: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(chunk);
        Ok(chunk.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// An upload that encrypts its data.
struct SealedUpload {
    writer: Option<age::stream::StreamWriter<Sink>>,
    sink: Sink,
    inner: Box<dyn Upload>,
}

#[async_trait]
impl Upload for SealedUpload {
    async fn write(&mut self, chunk: Bytes) -> PortResult<()> {
        let mut writer = self.writer.take().ok_or_else(failed_before)?;
        let worked = tokio::task::spawn_blocking(move || writer.write_all(&chunk).map(|()| writer)).await;
        let worked = worked.map_err(|error| worker_failed(&error))?;
        self.writer = Some(worked.map_err(|error| seal_failed(&error))?);
        let ready = self.sink.take();
        if ready.is_empty() {
            return Ok(());
        }
        self.inner.write(ready).await
    }

    async fn complete(mut self: Box<Self>) -> PortResult<()> {
        let writer = self.writer.take().ok_or_else(failed_before)?;
        writer.finish().map_err(|error| seal_failed(&error))?;
        self.inner.write(self.sink.take()).await?;
        self.inner.complete().await
    }

    async fn abort(self: Box<Self>) -> PortResult<()> {
        self.inner.abort().await
    }
}

fn failed_before() -> PortError {
    PortError::Permanent("the encryption of this upload failed earlier".to_owned())
}

#[async_trait]
impl ObjectStore for Sealed {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn path(&self) -> String {
        self.inner.path()
    }

    fn encryption(&self) -> Option<&'static str> {
        self.encrypts().then_some("age")
    }

    async fn conditional_writes(&self) -> PortResult<bool> {
        self.inner.conditional_writes().await
    }

    async fn get_small(&self, key: &str) -> PortResult<Option<Bytes>> {
        if !is_data(key) {
            return self.inner.get_small(key).await;
        }
        let Some(mut stream) = self.open(key, None).await? else {
            return Ok(None);
        };
        let mut body = BytesMut::new();
        while let Some(chunk) = stream.try_next().await? {
            if body.len() + chunk.len() > SMALL_BYTES {
                return Err(PortError::Permanent(format!(
                    "{key} is larger than 1 MiB: no agent wrote it"
                )));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Some(body.freeze()))
    }

    async fn get(&self, key: &str) -> PortResult<Option<ByteStream>> {
        self.open(key, None).await
    }

    async fn get_expected(&self, key: &str, expected: Expected) -> PortResult<Option<ByteStream>> {
        self.open(key, Some(expected)).await
    }

    async fn put(&self, key: &str, body: Bytes) -> PortResult<()> {
        if !self.encrypts() || !is_data(key) {
            return self.inner.put(key, body).await;
        }
        let body = self.seal(&body)?;
        self.inner.put(&format!("{key}{SUFFIX}"), body).await
    }

    async fn create(&self, key: &str, body: Bytes) -> PortResult<Created> {
        if !self.encrypts() || !is_data(key) {
            return self.inner.create(key, body).await;
        }
        // An existing object is returned in its stored form, because writing needs no identity.
        let body = self.seal(&body)?;
        self.inner.create(&format!("{key}{SUFFIX}"), body).await
    }

    async fn get_tagged(&self, key: &str) -> PortResult<Option<(Bytes, Tag)>> {
        self.inner.get_tagged(key).await
    }

    /// Only unencrypted objects are ever replaced.
    async fn replace(&self, key: &str, body: Bytes, read: &Tag) -> PortResult<Replaced> {
        self.inner.replace(key, body, read).await
    }

    async fn upload(&self, key: &str) -> PortResult<Box<dyn Upload>> {
        if !self.encrypts() || !is_data(key) {
            return self.inner.upload(key).await;
        }
        let sink = Sink::default();
        let writer = self.writer(sink.clone())?;
        let inner = self.inner.upload(&format!("{key}{SUFFIX}")).await?;
        let writer = Some(writer);
        Ok(Box::new(SealedUpload { writer, sink, inner }))
    }

    async fn list(&self, prefix: &str) -> PortResult<Vec<ObjectMeta>> {
        let mut found = self.inner.list(prefix).await?;
        for object in &mut found {
            if let Some(plain) = object.key.strip_suffix(SUFFIX).filter(|key| is_data(key)) {
                object.key = plain.to_owned();
            }
        }
        found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        found.dedup_by(|a, b| a.key == b.key);
        Ok(found)
    }

    async fn delete(&self, key: &str) -> PortResult<()> {
        if is_data(key) {
            self.inner.delete(&format!("{key}{SUFFIX}")).await?;
        }
        self.inner.delete(key).await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

//! Encryption before anything leaves the host: age (<https://age-encryption.org/v1>) around any store.
//!
//! What holds etcd's data (`*.zst`, `*.gz`) is stored under its name and `.age`; those who read and list do not see
//! the difference. What says where and when (`backup.json`, the epochs) stays in the clear.

use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use age::x25519::Recipient;
use age::{DecryptError, Decryptor, Encryptor, Identity, IdentityFile};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::config::Encryption;
use crate::model::UnixMs;
use crate::ports::{
    ByteStream, Created, Expected, ObjectMeta, ObjectStore, PortError, PortResult, Replaced, Tag, Upload,
};

/// What an encrypted object's name ends in.
const SUFFIX: &str = ".age";
/// An identity file is a few lines.
const IDENTITY_BYTES: u64 = 64 * 1024;
const SMALL_BYTES: usize = 1024 * 1024;
const CHUNK_BYTES: usize = 256 * 1024;
/// Decrypted chunks that wait to be taken.
const CHUNKS: usize = 4;

type Identities = Vec<Box<dyn Identity + Send + Sync>>;

/// A store whose data objects are encrypted.
pub struct Sealed {
    inner: Arc<dyn ObjectStore>,
    /// Empty: new objects are written in the clear, and encrypted ones are still read.
    recipients: Arc<[Recipient]>,
    identity_file: Option<PathBuf>,
    /// What was written in the clear before is read in spite of recipients.
    clear_before: Option<UnixMs>,
}

impl Sealed {
    /// `inner` with what the settings say of encryption.
    ///
    /// # Errors
    /// A recipient that cannot be read: nothing may be written then.
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

    /// The object that holds `key`, opened; the one that would be written now is looked for first. One in the clear is
    /// refused where it has to be encrypted: anyone with write access to the store can put one there.
    async fn open(&self, key: &str, expected: Option<Expected>) -> PortResult<Option<ByteStream>> {
        if !is_data(key) {
            return self.inner.get(key).await;
        }
        let mut refused = None;
        for sealed in [self.encrypts(), !self.encrypts()] {
            if !sealed {
                if let Some(stream) = self.inner.get(key).await? {
                    match self.objection(expected) {
                        // Where it says of itself that it is encrypted, the encrypted object is what counts.
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

    /// Why an object in the clear is not taken.
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

/// True for what holds etcd's keys and values.
fn is_data(key: &str) -> bool {
    [".zst", ".gz"].iter().any(|end| key.ends_with(end))
}

fn seal_failed(error: &std::io::Error) -> PortError {
    PortError::Permanent(format!("cannot encrypt the backup: {error}"))
}

/// What the encryption has written so far.
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

/// The identities of `restore.identity_file`, read at each use so that a new one counts at once.
async fn identities(file: Option<&Path>, what: &str) -> PortResult<Identities> {
    let Some(file) = file else {
        return Err(PortError::Permanent(format!(
            "{what} is encrypted with age: set restore.identity_file to a file with the AGE-SECRET-KEY-1... of one of \
             its recipients"
        )));
    };
    let file = file.to_owned();
    let read = move || {
        // Nothing of what is in the file may get into an error.
        let wrong = |why: &str| {
            PortError::Permanent(format!(
                "cannot read restore.identity_file {}: {why}",
                file.display()
            ))
        };
        let mut text = String::new();
        let opened = std::fs::File::open(&file).map_err(|error| wrong(&error.to_string()))?;
        let read = opened.take(IDENTITY_BYTES).read_to_string(&mut text);
        read.map_err(|error| wrong(&error.kind().to_string()))?;
        let parsed = IdentityFile::from_buffer(text.as_bytes())
            .map_err(|_| wrong("it must hold lines with AGE-SECRET-KEY-1..."))?;
        let found = parsed
            .into_identities()
            .map_err(|_| wrong("an identity in it is of a kind that is not known here"))?;
        if found.is_empty() {
            return Err(wrong("there is no AGE-SECRET-KEY-1... in it"));
        }
        Ok(found)
    };
    tokio::task::spawn_blocking(read)
        .await
        .map_err(|error| worker_failed(&error))?
}

fn worker_failed(error: &tokio::task::JoinError) -> PortError {
    PortError::Retryable(format!("the encryption's worker ended early: {error}"))
}

/// A port's stream, read from a worker's thread.
struct Blocking {
    handle: Handle,
    stream: ByteStream,
    chunk: Bytes,
    /// How the stream failed: it comes back in place of what the reader makes of it.
    failed: Arc<Mutex<Option<PortError>>>,
}

impl Read for Blocking {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.chunk.is_empty() {
            match self.handle.block_on(self.stream.next()) {
                None => return Ok(0),
                Some(Ok(chunk)) => self.chunk = chunk,
                Some(Err(error)) => {
                    let text = error.to_string();
                    *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return Err(std::io::Error::other(text));
                }
            }
        }
        let head = self.chunk.split_to(buffer.len().min(self.chunk.len()));
        let (now, _) = buffer.split_at_mut(head.len());
        now.copy_from_slice(&head);
        Ok(head.len())
    }
}

/// The decrypted bytes. Each chunk was authenticated, and the end is only an end where age says so.
fn decrypted(stream: ByteStream, identities: Identities, what: String) -> ByteStream {
    let (sender, receiver) = mpsc::channel::<PortResult<Option<Bytes>>>(CHUNKS);
    let failed: Arc<Mutex<Option<PortError>>> = Arc::default();
    let reader = Blocking {
        handle: Handle::current(),
        stream,
        chunk: Bytes::new(),
        failed: failed.clone(),
    };
    tokio::task::spawn_blocking(move || {
        let ended = decrypt(reader, &identities, &what, &sender);
        let ended = ended.map_err(|error| {
            let first = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
            first.unwrap_or(error)
        });
        // Nobody listens any more: then it does not matter.
        let _ = sender.blocking_send(ended.map(|()| None));
    });
    let chunks = futures::stream::try_unfold(receiver, |mut receiver| async move {
        match receiver.recv().await {
            Some(Ok(Some(chunk))) => Ok(Some((chunk, receiver))),
            Some(Ok(None)) => Ok(None),
            Some(Err(error)) => Err(error),
            None => Err(PortError::Retryable("the decryption ended early".to_owned())),
        }
    });
    Box::pin(chunks)
}

fn decrypt(
    reader: Blocking,
    identities: &Identities,
    what: &str,
    sender: &mpsc::Sender<PortResult<Option<Bytes>>>,
) -> PortResult<()> {
    let decryptor = Decryptor::new_buffered(BufReader::with_capacity(CHUNK_BYTES, reader));
    let decryptor = decryptor.map_err(|error| unreadable(what, &error))?;
    let keys = identities
        .iter()
        .map(|identity| identity.as_ref() as &dyn Identity);
    let mut plain = decryptor
        .decrypt(keys)
        .map_err(|error| unreadable(what, &error))?;
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let read = plain.read(&mut buffer).map_err(|error| {
            PortError::Permanent(format!("{what} is damaged: {error}; restore another backup"))
        })?;
        let chunk = Bytes::copy_from_slice(buffer.get(..read).unwrap_or_default());
        if chunk.is_empty() || sender.blocking_send(Ok(Some(chunk))).is_err() {
            return Ok(());
        }
    }
}

fn unreadable(what: &str, error: &DecryptError) -> PortError {
    PortError::Permanent(match error {
        DecryptError::NoMatchingKeys => format!(
            "{what} is encrypted for others: no identity of restore.identity_file opens it; use one of a recipient of \
             the day it was taken"
        ),
        other => format!("{what} is damaged: {other}; restore another backup"),
    })
}

/// An upload that is encrypted on its way.
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
    PortError::Permanent("the encryption of this upload had failed before".to_owned())
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
                    "{key} is larger than 1 MiB: not one of ours"
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
        // What exists is returned as it is stored: writing needs no identity.
        let body = self.seal(&body)?;
        self.inner.create(&format!("{key}{SUFFIX}"), body).await
    }

    async fn get_tagged(&self, key: &str) -> PortResult<Option<(Bytes, Tag)>> {
        self.inner.get_tagged(key).await
    }

    /// Only what stays in the clear is ever replaced.
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

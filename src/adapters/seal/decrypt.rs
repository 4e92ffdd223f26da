//! Decrypts a stream with the identities of `restore.identity_file`.

use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use age::{DecryptError, Decryptor, Identity, IdentityFile};
use bytes::Bytes;
use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::ports::{ByteStream, PortError, PortResult};

/// How much of an identity file is read. It has a few lines.
const IDENTITY_BYTES: u64 = 64 * 1024;
const CHUNK_BYTES: usize = 256 * 1024;
/// How many decrypted chunks may wait for the reader.
const CHUNKS: usize = 4;

type Identities = Vec<Box<dyn Identity + Send + Sync>>;

/// The identities of `restore.identity_file`, read at each use so that a new one is used at once.
pub(super) async fn identities(file: Option<&Path>, what: &str) -> PortResult<Identities> {
    let Some(file) = file else {
        return Err(PortError::Permanent(format!(
            "{what} is encrypted with age: set restore.identity_file to a file with the AGE-SECRET-KEY-1... of one of \
             its recipients"
        )));
    };
    let file = file.to_owned();
    let read = move || {
        // No part of the file's content may appear in an error.
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
            .map_err(|_| wrong("it contains an identity of an unsupported type"))?;
        if found.is_empty() {
            return Err(wrong("there is no AGE-SECRET-KEY-1... in it"));
        }
        Ok(found)
    };
    tokio::task::spawn_blocking(read)
        .await
        .map_err(|error| worker_failed(&error))?
}

pub(super) fn worker_failed(error: &tokio::task::JoinError) -> PortError {
    PortError::Retryable(format!("the encryption's worker ended early: {error}"))
}

/// A port's stream as a blocking reader, for a worker thread.
struct Blocking {
    handle: Handle,
    stream: ByteStream,
    chunk: Bytes,
    /// The stream's own error. It is returned instead of the reader's error, which hides it.
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

/// The decrypted bytes. age has authenticated each chunk, and the stream ends without an error only if age
/// has confirmed the end.
pub(super) fn decrypted(stream: ByteStream, identities: Identities, what: String) -> ByteStream {
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
        // This fails only if the receiver was dropped. Then nobody needs the result.
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
            "{what} is encrypted for others: no identity of restore.identity_file opens it; use the identity of a recipient \
             that was configured when it was taken"
        ),
        other => format!("{what} is damaged: {other}; restore another backup"),
    })
}

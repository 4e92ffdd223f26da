//! The object store that holds backups and the records of epochs.

use async_trait::async_trait;
use bytes::Bytes;

use crate::model::UnixMs;

use super::{ByteStream, PortError, PortResult};

/// One object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Key relative to the store's prefix.
    pub key: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Last change, when the store reports it.
    pub modified: Option<UnixMs>,
}

/// What a conditional create came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// It was not there, and now is.
    Created,
    /// It was there already, with this content.
    Exists(Bytes),
}

/// One version of an object, as its store names it: an `ETag` of S3, a digest of the content in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag(pub String);

/// What a conditional replacement came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// The object was what was read, and is the new one now.
    Done,
    /// The object had changed since it was read, and stays as it is.
    Changed,
}

/// What an upload is best written in, in bytes: as large as the first parts of one to S3, so that a chunk of this size
/// goes out without a copy.
pub const PART_BYTES: usize = 7 * 1024 * 1024;

/// An upload under way. Nothing is visible in the store until `complete`; dropping it without either call leaves
/// nothing listed.
#[async_trait]
pub trait Upload: Send {
    /// Adds bytes; waits while the bounded buffer is full.
    async fn write(&mut self, chunk: Bytes) -> PortResult<()>;
    /// Makes the object visible.
    async fn complete(self: Box<Self>) -> PortResult<()>;
    /// Throws it away.
    async fn abort(self: Box<Self>) -> PortResult<()>;
}

/// What is known of an object of a backup before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The backup says that it is encrypted.
    pub encrypted: bool,
    /// When the backup was begun, as its name says.
    pub at: UnixMs,
}

/// The store: keys are relative to the configured prefix. A store that does not answer is an error, never an
/// empty listing.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Where it is, for people; no secrets.
    fn describe(&self) -> String;
    /// The configured path or prefix that keys are relative to: its last component tells whether the store is
    /// the cluster's own already.
    fn path(&self) -> String {
        String::new()
    }
    /// How what holds data is encrypted before it leaves the host; `None` when it is not.
    fn encryption(&self) -> Option<&'static str> {
        None
    }
    /// Whether `create` is what it says: false when the store was seen to overwrite in spite of
    /// `If-None-Match: *`. Tried once and remembered.
    async fn conditional_writes(&self) -> PortResult<bool>;
    /// A small object (at most 1 MiB); `None` when it is known not to be there.
    async fn get_small(&self, key: &str) -> PortResult<Option<Bytes>>;
    /// Streams an object; `None` when it is known not to be there.
    async fn get(&self, key: &str) -> PortResult<Option<ByteStream>>;
    /// Streams an object of a backup. A store that knows of encryption refuses one in the clear where it has to be
    /// encrypted; any other has nothing to tell apart.
    async fn get_expected(&self, key: &str, _expected: Expected) -> PortResult<Option<ByteStream>> {
        self.get(key).await
    }
    /// Writes a small object, replacing what is there.
    async fn put(&self, key: &str, body: Bytes) -> PortResult<()>;
    /// Writes a small object only if nothing is there (`If-None-Match: *`).
    async fn create(&self, key: &str, body: Bytes) -> PortResult<Created>;
    /// A small object (at most 1 MiB) and which version of it this is; `None` when it is known not to be there. A store
    /// that cannot replace an object by a condition answers that.
    async fn get_tagged(&self, _key: &str) -> PortResult<Option<(Bytes, Tag)>> {
        Err(no_conditions(&self.describe()))
    }
    /// Replaces a small object only if it still is the version that was read (`If-Match`). A store that was seen to
    /// ignore the condition is an error that names it.
    async fn replace(&self, _key: &str, _body: Bytes, _read: &Tag) -> PortResult<Replaced> {
        Err(no_conditions(&self.describe()))
    }
    /// Begins a large upload.
    async fn upload(&self, key: &str) -> PortResult<Box<dyn Upload>>;
    /// All objects below a prefix, however many pages that takes, ordered by key.
    async fn list(&self, prefix: &str) -> PortResult<Vec<ObjectMeta>>;
    /// Deletes one object; deleting what is not there is no error.
    async fn delete(&self, key: &str) -> PortResult<()>;
}

fn no_conditions(store: &str) -> PortError {
    PortError::Permanent(format!(
        "{store} cannot replace an object by a condition (`If-Match`): two who write at once would overwrite each other"
    ))
}

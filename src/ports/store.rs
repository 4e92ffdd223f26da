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
    /// Last change, if the store reports it.
    pub modified: Option<UnixMs>,
}

/// The result of a conditional create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// The object did not exist and was created.
    Created,
    /// The object already existed, with this content.
    Exists(Bytes),
}

/// One version of an object, as its store identifies it: an `ETag` in S3, a digest of the content in a
/// directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag(pub String);

/// The result of a conditional replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// The object was still the version that was read, and was replaced.
    Done,
    /// The object had changed since it was read, and was not replaced.
    Changed,
}

/// The best chunk size for an upload, in bytes. The first parts of an S3 upload have this size, so a chunk of
/// it is sent without a copy.
pub const PART_BYTES: usize = 7 * 1024 * 1024;

/// An upload in progress. Nothing is visible in the store before `complete`. If the upload is dropped without
/// `complete` or `abort`, no object is listed either.
#[async_trait]
pub trait Upload: Send {
    /// Adds bytes; waits while the bounded buffer is full.
    async fn write(&mut self, chunk: Bytes) -> PortResult<()>;
    /// Makes the object visible.
    async fn complete(self: Box<Self>) -> PortResult<()>;
    /// Discards the upload.
    async fn abort(self: Box<Self>) -> PortResult<()>;
}

/// What is known about an object of a backup before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The backup says that it is encrypted.
    pub encrypted: bool,
    /// When the backup was begun, according to its name.
    pub at: UnixMs,
}

/// The store: keys are relative to the configured prefix. A store that does not answer is an error, never an
/// empty listing.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// The store's location, for people; no secrets.
    fn describe(&self) -> String;
    /// The configured path or prefix that keys are relative to. Its last component shows whether the store is
    /// already the cluster's own.
    fn path(&self) -> String {
        String::new()
    }
    /// How objects with data are encrypted before they leave the host; `None` if they are not.
    fn encryption(&self) -> Option<&'static str> {
        None
    }
    /// Whether `create` is conditional: false if the store was seen to overwrite in spite of `If-None-Match:
    /// *`. Tried once and then remembered.
    async fn conditional_writes(&self) -> PortResult<bool>;
    /// A small object (at most 1 MiB); `None` if it is known not to exist.
    async fn get_small(&self, key: &str) -> PortResult<Option<Bytes>>;
    /// Streams an object; `None` if it is known not to exist.
    async fn get(&self, key: &str) -> PortResult<Option<ByteStream>>;
    /// Streams an object of a backup. A store with encryption refuses an unencrypted object that has to be
    /// encrypted. Other stores ignore `expected`.
    async fn get_expected(&self, key: &str, _expected: Expected) -> PortResult<Option<ByteStream>> {
        self.get(key).await
    }
    /// Writes a small object, replacing an existing one.
    async fn put(&self, key: &str, body: Bytes) -> PortResult<()>;
    /// Writes a small object only if it does not exist (`If-None-Match: *`).
    async fn create(&self, key: &str, body: Bytes) -> PortResult<Created>;
    /// A small object (at most 1 MiB) and its version; `None` if it is known not to exist. A store that
    /// cannot replace an object conditionally returns that as an error.
    async fn get_tagged(&self, _key: &str) -> PortResult<Option<(Bytes, Tag)>> {
        Err(no_conditions(&self.describe()))
    }
    /// Replaces a small object only if it is still the version that was read (`If-Match`). If the store was
    /// seen to ignore the condition, the error names the store.
    async fn replace(&self, _key: &str, _body: Bytes, _read: &Tag) -> PortResult<Replaced> {
        Err(no_conditions(&self.describe()))
    }
    /// Begins a large upload.
    async fn upload(&self, key: &str) -> PortResult<Box<dyn Upload>>;
    /// All objects below a prefix, from as many pages as needed, ordered by key.
    async fn list(&self, prefix: &str) -> PortResult<Vec<ObjectMeta>>;
    /// Deletes one object. No error if it does not exist.
    async fn delete(&self, key: &str) -> PortResult<()>;
}

fn no_conditions(store: &str) -> PortError {
    PortError::Permanent(format!(
        "{store} cannot replace an object conditionally (`If-Match`): two concurrent writers would overwrite each other"
    ))
}

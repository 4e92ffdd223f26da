//! An object store in a directory: `file:///path`.
//!
//! Every object appears whole or not at all: temporary file, fsync, rename, fsync of the directory. Temporary
//! files are `.tmp-*` in the root directory, and `list` never returns them.

mod files;
mod store;
mod upload;

use std::fs;
use std::io::{self, Read};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;

use crate::model::digest;
use crate::ports::{
    ByteStream, Created, ObjectMeta, ObjectStore, PortError, PortResult, Replaced, Tag, Upload,
};

use files::{blocking, failed};
use upload::DirUpload;

pub use store::DirStore;

const SMALL_BYTES: u64 = 1024 * 1024;
const CHUNK_BYTES: usize = 1024 * 1024;

#[async_trait]
impl ObjectStore for DirStore {
    fn describe(&self) -> String {
        format!("file://{}", self.root.display())
    }
    async fn conditional_writes(&self) -> PortResult<bool> {
        Ok(true)
    }

    fn path(&self) -> String {
        self.root.to_string_lossy().into_owned()
    }

    async fn get_small(&self, key: &str) -> PortResult<Option<Bytes>> {
        let (store, key) = (self.clone(), key.to_owned());
        blocking(move || store.small(&key, SMALL_BYTES)).await
    }

    async fn get_tagged(&self, key: &str) -> PortResult<Option<(Bytes, Tag)>> {
        let body = self.get_small(key).await?;
        Ok(body.map(|body| {
            let tag = tag(&body);
            (body, tag)
        }))
    }

    async fn replace(&self, key: &str, body: Bytes, read: &Tag) -> PortResult<Replaced> {
        let (store, path, key, read) = (self.clone(), self.file(key)?, key.to_owned(), read.clone());
        blocking(move || {
            let _lock = store.lock()?;
            if store
                .small(&key, SMALL_BYTES)?
                .is_none_or(|there| tag(&there) != read)
            {
                return Ok(Replaced::Changed);
            }
            store.settle(store.written(&body)?, &path, true)?;
            Ok(Replaced::Done)
        })
        .await
    }

    async fn get(&self, key: &str) -> PortResult<Option<ByteStream>> {
        let (store, key) = (self.clone(), key.to_owned());
        let path = self.root.join(&key);
        let Some(file) = blocking(move || store.opened(&key)).await? else {
            return Ok(None);
        };
        let chunks = stream::try_unfold(file, move |mut file| {
            let path = path.clone();
            blocking(move || {
                let mut chunk = Vec::with_capacity(CHUNK_BYTES);
                (&mut file)
                    .take(CHUNK_BYTES as u64)
                    .read_to_end(&mut chunk)
                    .map_err(|error| failed("read", &path, &error))?;
                Ok((!chunk.is_empty()).then(|| (Bytes::from(chunk), file)))
            })
        });
        Ok(Some(Box::pin(chunks)))
    }

    async fn put(&self, key: &str, body: Bytes) -> PortResult<()> {
        let (store, path) = (self.clone(), self.file(key)?);
        blocking(move || store.settle(store.written(&body)?, &path, true).map(|_| ())).await
    }

    async fn create(&self, key: &str, body: Bytes) -> PortResult<Created> {
        let (store, path) = (self.clone(), self.file(key)?);
        // An object that another agent has created is about as large as this one. An increment may be larger
        // than a small object.
        let most = SMALL_BYTES.max(2 * body.len() as u64);
        if blocking(move || store.settle(store.written(&body)?, &path, false)).await? {
            return Ok(Created::Created);
        }
        let (store, name) = (self.clone(), key.to_owned());
        let there = blocking(move || store.small(&name, most)).await?;
        there.map(Created::Exists).ok_or_else(|| {
            PortError::Retryable(format!(
                "{key} existed and then disappeared: something else deletes it"
            ))
        })
    }

    async fn upload(&self, key: &str) -> PortResult<Box<dyn Upload>> {
        let (store, path) = (self.clone(), self.file(key)?);
        let file = blocking({
            let store = store.clone();
            move || {
                store.sweep();
                store.temporary()
            }
        })
        .await?;
        let file = Some(file);
        Ok(Box::new(DirUpload {
            store,
            path,
            file,
            unsynced: 0,
        }))
    }

    async fn list(&self, prefix: &str) -> PortResult<Vec<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.to_owned());
        blocking(move || {
            let mut found = Vec::new();
            store.walk(&store.root, &prefix, &mut found)?;
            found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            Ok(found)
        })
        .await
    }

    async fn delete(&self, key: &str) -> PortResult<()> {
        let (store, path) = (self.clone(), self.file(key)?);
        blocking(move || {
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return store.present(),
                Err(error) => return Err(failed("delete", &path, &error)),
                Ok(()) => {}
            }
            // Directories exist only because of keys: remove empty ones, up to the root.
            let mut dir = path.parent();
            while let Some(parent) = dir.filter(|d| *d != store.root && fs::remove_dir(d).is_ok()) {
                dir = parent.parent();
            }
            Ok(())
        })
        .await
    }
}

fn tag(body: &[u8]) -> Tag {
    Tag(digest(body))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

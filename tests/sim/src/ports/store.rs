//! The object store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use etcd_agent::model::BackupId;
use etcd_agent::ports::{
    ByteStream, Created, ObjectMeta, ObjectStore, PortError, PortResult, Replaced, Tag, Upload,
};

use super::Seat;
use crate::world::{Store, Weather};

pub(super) struct Bucket(pub(super) Arc<Seat>);

/// How long a slow store takes to answer, and the timeout for one that is down, in milliseconds.
const SLOW_MS: u64 = 4000;

impl Bucket {
    async fn ask<T>(&self, changes: bool, ask: impl FnOnce(&mut Store) -> T + Send) -> PortResult<T> {
        self.0.cross().await;
        if self.0.is_refused() {
            return Err(PortError::Permanent(
                "403: the credentials are refused".to_owned(),
            ));
        }
        let weather = self
            .0
            .sim
            .world()
            .store_of(self.0.host)
            .map_or(Weather::Down, |s| s.weather);
        match weather {
            Weather::Down => {
                tokio::time::sleep(Duration::from_millis(SLOW_MS)).await;
                return Err(PortError::Retryable("the store does not answer".to_owned()));
            }
            Weather::Slow => self.0.pause(SLOW_MS).await,
            Weather::Fair | Weather::Mute => self.0.pause(5).await,
        }
        let answer = self.0.sim.world().store_of_mut(self.0.host).map(ask);
        if weather == Weather::Mute && changes && self.0.sim.world().rng.chance(50) {
            tokio::time::sleep(Duration::from_millis(SLOW_MS)).await;
            return Err(PortError::OutcomeUnknown("the store did not answer".to_owned()));
        }
        self.0.cross().await;
        answer.ok_or_else(|| PortError::Permanent("there is no store".to_owned()))
    }
}

/// The replaced objects are small, so the content serves as its own tag.
fn tag(body: &Bytes) -> Tag {
    Tag(String::from_utf8_lossy(body).into_owned())
}

#[async_trait]
impl ObjectStore for Bucket {
    fn describe(&self) -> String {
        "sim://store".to_owned()
    }
    async fn conditional_writes(&self) -> PortResult<bool> {
        Ok(true)
    }

    async fn get_small(&self, key: &str) -> PortResult<Option<Bytes>> {
        self.ask(false, |store| store.objects.get(key).cloned()).await
    }

    async fn get(&self, _key: &str) -> PortResult<Option<ByteStream>> {
        // Backups are fetched as a whole: `ports::backups`.
        Err(PortError::Permanent("the simulator has no streams".to_owned()))
    }

    async fn put(&self, key: &str, body: Bytes) -> PortResult<()> {
        self.ask(true, |store| {
            store.record(key, &body);
            store.objects.insert(key.to_owned(), body);
        })
        .await
    }

    async fn get_tagged(&self, key: &str) -> PortResult<Option<(Bytes, Tag)>> {
        self.ask(false, |store| {
            let body = store.objects.get(key)?;
            Some((body.clone(), tag(body)))
        })
        .await
    }

    async fn replace(&self, key: &str, body: Bytes, read: &Tag) -> PortResult<Replaced> {
        self.ask(true, |store| {
            if store.objects.get(key).map(tag).as_ref() != Some(read) {
                return Replaced::Changed;
            }
            store.record(key, &body);
            store.objects.insert(key.to_owned(), body);
            Replaced::Done
        })
        .await
    }

    async fn create(&self, key: &str, body: Bytes) -> PortResult<Created> {
        self.ask(true, |store| {
            if let Some(there) = store.objects.get(key) {
                return Created::Exists(there.clone());
            }
            store.record(key, &body);
            store.objects.insert(key.to_owned(), body);
            Created::Created
        })
        .await
    }

    async fn upload(&self, _key: &str) -> PortResult<Box<dyn Upload>> {
        Err(PortError::Permanent("the simulator has no streams".to_owned()))
    }

    async fn list(&self, prefix: &str) -> PortResult<Vec<ObjectMeta>> {
        self.ask(false, |store| {
            store
                .objects
                .range(prefix.to_owned()..)
                .take_while(|(key, _)| key.starts_with(prefix))
                .map(|(key, body)| ObjectMeta {
                    key: key.clone(),
                    size_bytes: body.len() as u64,
                    modified: None,
                })
                .collect()
        })
        .await
    }

    async fn delete(&self, key: &str) -> PortResult<()> {
        let newest = |store: &Store| {
            store
                .objects
                .keys()
                .rfind(|k| k.ends_with("/backup.json"))
                .cloned()
        };
        let lost = self.ask(true, |store| {
            let before = newest(store);
            store.objects.remove(key);
            let dir = key.strip_suffix("/backup.json");
            let kept = |id: &BackupId| dir.is_some_and(|dir| dir.ends_with(id.as_str()));
            if before.is_some() && newest(store) != before {
                return Some("the newest backup");
            }
            store.kept.iter().any(kept).then_some("a kept backup")
        });
        if let Some(what) = lost.await? {
            self.0
                .sim
                .world()
                .violate(7, format!("{what} was removed: {key}"));
        }
        Ok(())
    }
}

//! The object store: strongly consistent, as S3 is, when it answers at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use etcd_agent::model::{BackupId, ClusterId, Epoch, Genesis};

use super::World;

/// How the store behaves now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// It answers.
    Fair,
    /// It does not answer.
    Down,
    /// It answers late.
    Slow,
    /// It carries out requests, and often its answer is lost.
    Mute,
}

/// The store.
#[derive(Debug, Clone)]
pub struct Store {
    /// Everything in it.
    pub objects: BTreeMap<String, Bytes>,
    /// How it behaves.
    pub weather: Weather,
    /// The writes in each backup.
    pub contents: BTreeMap<BackupId, Arc<[u32]>>,
    /// The etcd cluster that each backup is of.
    pub clusters: BTreeMap<BackupId, ClusterId>,
    /// Backups that were taken in quarantine.
    pub quarantined: BTreeSet<BackupId>,
    /// Epochs that were ever recorded, by token.
    pub recorded: BTreeSet<(Epoch, String)>,
    /// True once everything in it was deleted.
    pub emptied: bool,
    /// Hosts whose credentials it refuses.
    pub refuses: BTreeSet<usize>,
    /// The last size of the cluster that was written into it.
    pub size: Option<usize>,
    /// How many backups were ever committed.
    pub committed: usize,
    /// Backups that an operator ordered to keep.
    pub kept: BTreeSet<BackupId>,
}

impl Store {
    /// An empty store.
    pub fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            weather: Weather::Fair,
            quarantined: BTreeSet::new(),
            contents: BTreeMap::new(),
            clusters: BTreeMap::new(),
            recorded: BTreeSet::new(),
            emptied: false,
            refuses: BTreeSet::new(),
            size: None,
            committed: 0,
            kept: BTreeSet::new(),
        }
    }

    /// Records the genesis of an epoch, the wanted size, or that a backup was committed.
    pub fn record(&mut self, key: &str, body: &[u8]) {
        if key.ends_with("/etcd-cluster-spec")
            && let Ok(spec) = serde_json::from_slice::<serde_json::Value>(body)
        {
            let size = spec.get("memberCount").and_then(serde_json::Value::as_u64);
            self.size = size.and_then(|size| usize::try_from(size).ok());
        }
        if key.ends_with("/backup.json") {
            self.committed += 1;
        }
        if key.contains("/epochs/")
            && let Ok(genesis) = serde_json::from_slice::<Genesis>(body)
        {
            self.recorded.insert((genesis.epoch, genesis.token));
        }
    }

    /// Writes the wanted size into it, as anybody with write access can.
    pub fn write_size(&mut self, size: usize) {
        let key = "sim/control/etcd-cluster-spec";
        let body = Bytes::from(format!("{{\"memberCount\":{size}}}"));
        self.record(key, &body);
        self.objects.insert(key.to_owned(), body);
    }

    /// The genesis of the newest epoch in it.
    pub fn genesis(&self) -> Option<Genesis> {
        let epochs = self.objects.iter().filter(|(key, _)| key.contains("/epochs/"));
        epochs
            .filter_map(|(_, body)| serde_json::from_slice::<Genesis>(body).ok())
            .max_by_key(|genesis| genesis.epoch)
    }

    /// The newest backup in it.
    pub fn newest(&self) -> Option<BackupId> {
        self.contents.keys().next_back().cloned()
    }
}

impl World {
    /// Somebody forges the record of an epoch in the store, unless there is one.
    pub(crate) fn forge_record(&mut self, genesis: &Genesis) {
        let (Some(store), Ok(body)) = (&mut self.store, serde_json::to_vec(genesis)) else {
            return;
        };
        let (key, body) = (format!("sim/control/epochs/{}", genesis.epoch), Bytes::from(body));
        if !store.objects.contains_key(&key) {
            store.objects.insert(key.clone(), body.clone());
            self.forged.push((key, body));
        }
    }

    /// People remove the forged records.
    pub(crate) fn remove_forged(&mut self) {
        let Some(store) = &mut self.store else { return };
        for (key, body) in &self.forged {
            if store.objects.get(key) == Some(body) {
                store.objects.remove(key);
            }
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

//! Builds the settings from the merged tree. It applies defaults and checks the rules that concern several
//! fields.

mod backup;
mod cluster;
mod network;
mod store;
mod upkeep;

use std::path::PathBuf;

use super::field::{Defaulted, Optional, Parse};
use super::fields::{
    ARCHIVE_KEEP, ARCHIVE_MAX_AGE, ARCHIVE_MIN_AGE, BACKUP_INTERVAL, CLUSTER_GRACE, CLUSTER_JOIN,
    CLUSTER_NAME, ETCD_BINARY, ETCD_CLIENT_PORT, ETCD_CLIENT_TLS, ETCD_DATA_DIR, ETCD_PEER_PORT,
    ETCD_PEER_TLS, ETCD_PLAIN_CLIENT_PORT, ETCD_VERSIONS_DIR, ETCD_WAL_DIR, NODE_NAME, STORE, STORE_COPY,
};
use super::location::SourceLocation;
use super::machine::Machine;
use super::problem::Problem;
use super::schema::Checked;
use super::settings::{ArchiveSettings, Settings, StoreSettings};
use super::tree::Value;
use crate::model::{ClusterName, EtcdSpec, Spec};

/// Builds the settings, or returns all problems.
pub(super) fn build(checked: &Checked, machine: &Machine) -> Result<Settings, Vec<Problem>> {
    let mut builder = Builder {
        checked,
        problems: Vec::new(),
    };
    let settings = builder.settings(machine);
    match settings {
        Some(settings) if builder.problems.is_empty() => Ok(settings),
        _ => Err(builder.problems),
    }
}

struct Builder<'a> {
    checked: &'a Checked,
    problems: Vec<Problem>,
}

impl<'a> Builder<'a> {
    fn settings(&mut self, machine: &Machine) -> Option<Settings> {
        let node = self.node(&machine.name)?;
        let cluster = self
            .optional(&CLUSTER_NAME)
            .or_else(|| ClusterName::new("default").ok())?;
        let nodes = self.nodes(&node);
        if !nodes.contains_key(&node) && self.optional(&NODE_NAME).is_none() {
            // The host may not have its name yet. What follows depends on which node it is.
            return None;
        }
        let size = self.size(nodes.len());
        let etcd = EtcdSpec {
            data_dir: self.data_dir(machine)?,
            wal_dir: self.optional(&ETCD_WAL_DIR),
            client_port: self.read(&ETCD_CLIENT_PORT),
            plain_client_port: self.optional(&ETCD_PLAIN_CLIENT_PORT),
            peer_port: self.read(&ETCD_PEER_PORT),
            client_tls: self.tls(&ETCD_CLIENT_TLS),
            peer_tls: self.tls(&ETCD_PEER_TLS),
            binary: self.optional(&ETCD_BINARY),
            versions_dir: self.read(&ETCD_VERSIONS_DIR),
            settings: self.with_quota(machine),
        };
        let store = self.store(&STORE);
        let store_copy = self.store_copy(store.as_ref());
        self.log_apart(&etcd);
        self.apart(STORE.url.key, store.as_ref(), &etcd);
        self.apart(STORE_COPY.url.key, store_copy.as_ref(), &etcd);
        let interval = self.read(&BACKUP_INTERVAL);
        let spec = Spec {
            cluster,
            node,
            size,
            size_source: self.size_source(store.as_ref()),
            nodes,
            etcd,
            backup_interval: store.is_some().then_some(interval),
            backup: self.backup(),
            store_shared: store.as_ref().is_some_and(|store| store.shared),
            shared_store: store.as_ref().map(StoreSettings::shared_url).unwrap_or_default(),
            grace: self.read(&CLUSTER_GRACE),
            space: self.space(),
            repair: self.repair(),
            join: self.read(&CLUSTER_JOIN),
        };
        let api = self.api(&spec);
        self.ports(&spec, &api);
        Some(Settings {
            spec,
            api,
            store,
            store_copy,
            encryption: self.encryption(),
            archive: ArchiveSettings {
                keep: self.read(&ARCHIVE_KEEP),
                min_age: self.read(&ARCHIVE_MIN_AGE),
                max_age: self.read(&ARCHIVE_MAX_AGE),
            },
        })
    }

    fn data_dir(&mut self, machine: &Machine) -> Option<PathBuf> {
        if let Some(dir) = self.optional(&ETCD_DATA_DIR) {
            return Some(dir);
        }
        let dir = machine.data_dir.clone();
        let unknown = |text| Problem::at(None, ETCD_DATA_DIR.key, text).may_pass();
        dir.map_err(|text| self.problems.push(unknown(text))).ok()
    }

    /// The data directory and the log must not contain one another: each is replaced by renaming it.
    fn log_apart(&mut self, etcd: &EtcdSpec) {
        let Some(log) = &etcd.wal_dir else { return };
        let (shown, data) = (log.display(), etcd.data_dir.display());
        let text = if log.starts_with(&etcd.data_dir) {
            format!(
                "{shown} is inside etcd.data_dir ({data}): name a directory outside of it, or leave etcd.wal_dir out \
                 for etcd's own place of the log, {data}/member/wal"
            )
        } else if etcd.data_dir.starts_with(log) {
            format!("etcd.data_dir ({data}) is inside {shown}: name a directory of the log's own")
        } else {
            return;
        };
        self.wrong(ETCD_WAL_DIR.key, text);
    }

    /// The value of a field, or its default.
    fn read<T>(&mut self, field: &Defaulted<T>) -> T {
        self.parsed(field.key, field.parse)
            .unwrap_or_else(|| (field.default)())
    }

    /// The value of a field, if it is set.
    fn optional<T>(&mut self, field: &Optional<T>) -> Option<T> {
        self.parsed(field.key, field.parse)
    }

    /// Parses the value of a field. The tree holds only values that parse. If a value does not parse, it is
    /// reported and never silently replaced by a default.
    fn parsed<T>(&mut self, key: &str, parse: Parse<T>) -> Option<T> {
        let parsed = parse(self.value(key)?);
        parsed.map_err(|text| self.wrong(key, text)).ok()
    }

    fn value(&self, field: &str) -> Option<&'a Value> {
        self.checked.merged.get(&field.split('.').collect::<Vec<_>>())
    }

    /// True if a problem was found at, above or below this field. The absence of the field then means
    /// nothing.
    fn is_inconclusive(&self, field: &str) -> bool {
        self.checked.parse_failed
            || self.checked.failed.iter().any(|failed| {
                let below = failed.strip_prefix(field);
                let above = field.strip_prefix(failed.as_str());
                [below, above]
                    .into_iter()
                    .flatten()
                    .any(|rest| rest.is_empty() || rest.starts_with('.'))
            })
    }

    /// Reports a problem of a field.
    fn wrong(&mut self, field: &str, text: String) {
        let problem = Problem::at(self.place(field), field, text);
        self.problems.push(problem);
    }

    /// Reports a problem of a field whose cause is the host's name. A host may get its name after the agent has
    /// started.
    fn wrong_host_name(&mut self, field: &str, text: String) {
        let problem = Problem::at(self.place(field), field, text).may_pass();
        self.problems.push(problem);
    }

    /// The line of the field or of the innermost table around it that a file contains.
    fn place(&self, field: &str) -> Option<&'a SourceLocation> {
        let mut path: Vec<&str> = field.split('.').collect();
        let mut place: Option<&'a SourceLocation> = None;
        while place.is_none() && !path.is_empty() {
            place = self.checked.merged.get(&path).and_then(|value| value.at.as_ref());
            path.pop();
        }
        // If no file contains the field or a table around it, point at `cluster.nodes`, which makes the field
        // necessary.
        let nodes = || self.checked.merged.get(&["cluster", "nodes"])?.at.as_ref();
        place.or_else(nodes)
    }
}

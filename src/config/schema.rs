//! Which fields there are; each file is held against this before anything is merged.

use std::collections::{BTreeMap, BTreeSet};

use super::field_types::{self, FieldType};
use super::flags;
use super::problem::Problem;
use super::sources::Source;
use super::suggest::nearest;
use super::tree::{self, Kind, Value};
use crate::model::NodeName;

/// Every field, by its path.
pub(super) const FIELDS: &[(&str, FieldType)] = &[
    ("node.name", FieldType::NodeName),
    ("cluster.name", FieldType::ClusterName),
    ("cluster.size", FieldType::Size),
    ("cluster.force", FieldType::Flag),
    ("cluster.nodes", FieldType::Nodes),
    ("cluster.grace", FieldType::Duration),
    ("cluster.join", FieldType::Join),
    ("api.listen", FieldType::Listen),
    ("api.insecure", FieldType::Flag),
    ("api.tls.cert_file", FieldType::Path),
    ("api.tls.key_file", FieldType::Path),
    ("api.tls.ca_file", FieldType::Path),
    ("metrics.listen", FieldType::Listen),
    ("etcd.data_dir", FieldType::Path),
    ("etcd.client_port", FieldType::Port),
    ("etcd.peer_port", FieldType::Port),
    ("etcd.binary", FieldType::Binary),
    ("etcd.client_tls.cert_file", FieldType::Path),
    ("etcd.client_tls.key_file", FieldType::Path),
    ("etcd.client_tls.ca_file", FieldType::Path),
    ("etcd.peer_tls.cert_file", FieldType::Path),
    ("etcd.peer_tls.key_file", FieldType::Path),
    ("etcd.peer_tls.ca_file", FieldType::Path),
    ("etcd.settings", FieldType::Settings),
    ("store.url", FieldType::StoreUrl),
    ("store.endpoint", FieldType::Endpoint),
    ("store.region", FieldType::Word),
    ("store.path_style", FieldType::Flag),
    ("store.ca_file", FieldType::Path),
    ("store.credentials_file", FieldType::Path),
    ("store.shared", FieldType::Flag),
    ("store.proxy", FieldType::Proxy),
    ("store.sse", FieldType::Sse),
    ("store.sse_kms_key", FieldType::Word),
    ("store.sse_key_file", FieldType::Path),
    ("store.checksums", FieldType::Flag),
    ("store.bandwidth", FieldType::Bytes),
    ("store.copy.url", FieldType::StoreUrl),
    ("store.copy.endpoint", FieldType::Endpoint),
    ("store.copy.region", FieldType::Word),
    ("store.copy.path_style", FieldType::Flag),
    ("store.copy.ca_file", FieldType::Path),
    ("store.copy.credentials_file", FieldType::Path),
    ("store.copy.proxy", FieldType::Proxy),
    ("store.copy.sse", FieldType::Sse),
    ("store.copy.sse_kms_key", FieldType::Word),
    ("store.copy.sse_key_file", FieldType::Path),
    ("store.copy.checksums", FieldType::Flag),
    ("store.copy.bandwidth", FieldType::Bytes),
    ("backup.interval", FieldType::Duration),
    ("backup.on_calendar", FieldType::Calendar),
    ("backup.increments", FieldType::Flag),
    ("backup.increment_interval", FieldType::Duration),
    ("backup.max_increments", FieldType::Increments),
    ("backup.verify_interval", FieldType::Interval),
    ("backup.format", FieldType::BackupFormat),
    ("backup.retention.enabled", FieldType::Flag),
    ("backup.retention.recent", FieldType::Duration),
    ("backup.retention.hourly", FieldType::Count),
    ("backup.retention.daily", FieldType::Count),
    ("backup.retention.weekly", FieldType::Count),
    ("backup.retention.yearly", FieldType::Count),
    ("backup.retention.count", FieldType::Count),
    ("backup.encrypt_to", FieldType::Recipients),
    ("restore.identity_file", FieldType::Path),
    ("restore.accept_plaintext_before", FieldType::Moment),
    ("archive.keep", FieldType::Keep),
    ("archive.min_age", FieldType::Duration),
    ("archive.max_age", FieldType::Duration),
];

/// All files merged, and what was wrong in any of them. What was wrong is left out of the merged tree.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) merged: Value,
    pub(super) problems: Vec<Problem>,
    /// Fields left out because they were wrong somewhere: nothing is concluded from their absence.
    pub(super) failed: BTreeSet<String>,
    /// True when a file did not parse: nothing is concluded from any absence.
    pub(super) torn: bool,
}

impl Checked {
    /// Parses and checks one more file and lays it on top.
    pub(super) fn add(&mut self, source: &Source) {
        let before = self.problems.len();
        let mut document = tree::parse(source, &mut self.problems);
        if self.problems.len() > before {
            // What a parser guesses after a syntax error is not worth judging.
            self.torn = true;
            return;
        }
        if let Kind::Table(table) = &mut document.kind {
            self.table(table, "");
        }
        self.merged.merge(document);
        // A file's problems in the order of its lines, not of its keys.
        if let Some(mine) = self.problems.get_mut(before..) {
            mine.sort_by_key(|problem| problem.line);
        }
    }

    fn table(&mut self, table: &mut BTreeMap<String, Value>, prefix: &str) {
        table.retain(|key, value| {
            let path = join(prefix, key);
            match FIELDS.iter().find(|(field, _)| *field == path) {
                Some((_, FieldType::Nodes)) => self.entries(value, &path, "node name = \"address\"", node),
                Some((_, FieldType::Settings)) => self.entries(value, &path, "flag = value", setting),
                Some((_, form)) => match form.check(value) {
                    Ok(()) => true,
                    Err(text) => self.wrong(value, path, text),
                },
                None if is_table(&path) => {
                    if let Kind::Table(inner) = &mut value.kind {
                        self.table(inner, &path);
                        return true;
                    }
                    let text = format!("found {}, expected a table: write [{path}]", value.describe());
                    self.wrong(value, path, text)
                }
                None => {
                    let text = unknown(prefix, key);
                    self.wrong(value, path, text)
                }
            }
        });
    }

    /// A table with free keys.
    fn entries(
        &mut self,
        value: &mut Value,
        path: &str,
        expected: &str,
        check: impl Fn(&str, &Value) -> Result<(), String>,
    ) -> bool {
        let Kind::Table(table) = &mut value.kind else {
            let text = format!(
                "found {}, expected a table: {{ {expected}, ... }}",
                value.describe()
            );
            return self.wrong(value, path.to_owned(), text);
        };
        table.retain(|key, value| match check(key, value) {
            Ok(()) => true,
            Err(text) => self.wrong(value, join(path, key), text),
        });
        true
    }

    fn wrong(&mut self, value: &Value, path: String, text: String) -> bool {
        self.problems
            .push(Problem::at(value.at.as_ref(), path.clone(), text));
        self.failed.insert(path);
        false
    }
}

fn node(key: &str, value: &Value) -> Result<(), String> {
    NodeName::new(key).map_err(|error| error.to_string())?;
    field_types::address(value).map(drop)
}

fn setting(key: &str, value: &Value) -> Result<(), String> {
    flags::check(key)?;
    field_types::setting(value).map(drop)
}

fn is_table(path: &str) -> bool {
    FIELDS
        .iter()
        .any(|(field, _)| field.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

fn join(prefix: &str, key: &str) -> String {
    let plain = key
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let key = if plain && !key.is_empty() {
        key.to_owned()
    } else {
        format!("{key:?}")
    };
    if prefix.is_empty() {
        key
    } else {
        format!("{prefix}.{key}")
    }
}

/// The keys that may stand in a table.
fn siblings(prefix: &str) -> BTreeSet<&'static str> {
    FIELDS
        .iter()
        .filter_map(|(field, _)| {
            if prefix.is_empty() {
                Some(*field)
            } else {
                field.strip_prefix(prefix)?.strip_prefix('.')
            }
        })
        .map(|rest| rest.split('.').next().unwrap_or(rest))
        .collect()
}

fn unknown(prefix: &str, key: &str) -> String {
    let here = siblings(prefix);
    if let Some(near) = nearest(key, here.iter().copied()) {
        return format!("no such key; did you mean \"{near}\"?");
    }
    let elsewhere = FIELDS
        .iter()
        .filter_map(|(field, _)| field.rsplit_once('.'))
        .find(|(_, last)| *last == key);
    if let Some((table, _)) = elsewhere {
        return format!("no such key here; \"{key}\" belongs in [{table}]");
    }
    let names: Vec<&str> = here.into_iter().collect();
    format!("no such key; there are: {}", names.join(", "))
}

//! Which fields there are; each file is held against this before anything is merged.

use std::collections::{BTreeMap, BTreeSet};

use super::flags;
use super::forms::{self, Form};
use super::problem::Problem;
use super::sources::Source;
use super::tree::{self, Kind, Value};
use crate::model::NodeName;

/// Every field, by its path.
pub(super) const FIELDS: &[(&str, Form)] = &[
    ("node.name", Form::NodeName),
    ("cluster.name", Form::ClusterName),
    ("cluster.size", Form::Size),
    ("cluster.force", Form::Flag),
    ("cluster.nodes", Form::Nodes),
    ("cluster.grace", Form::Duration),
    ("cluster.join", Form::Join),
    ("api.listen", Form::Listen),
    ("api.insecure", Form::Flag),
    ("api.tls.cert_file", Form::Path),
    ("api.tls.key_file", Form::Path),
    ("api.tls.ca_file", Form::Path),
    ("metrics.listen", Form::Listen),
    ("etcd.data_dir", Form::Path),
    ("etcd.client_port", Form::Port),
    ("etcd.peer_port", Form::Port),
    ("etcd.binary", Form::Binary),
    ("etcd.client_tls.cert_file", Form::Path),
    ("etcd.client_tls.key_file", Form::Path),
    ("etcd.client_tls.ca_file", Form::Path),
    ("etcd.peer_tls.cert_file", Form::Path),
    ("etcd.peer_tls.key_file", Form::Path),
    ("etcd.peer_tls.ca_file", Form::Path),
    ("etcd.settings", Form::Settings),
    ("store.url", Form::StoreUrl),
    ("store.endpoint", Form::Endpoint),
    ("store.region", Form::Word),
    ("store.path_style", Form::Flag),
    ("store.ca_file", Form::Path),
    ("store.credentials_file", Form::Path),
    ("store.shared", Form::Flag),
    ("store.proxy", Form::Proxy),
    ("store.sse", Form::Sse),
    ("store.sse_kms_key", Form::Word),
    ("store.sse_key_file", Form::Path),
    ("store.checksums", Form::Flag),
    ("store.bandwidth", Form::Bytes),
    ("store.copy.url", Form::StoreUrl),
    ("store.copy.endpoint", Form::Endpoint),
    ("store.copy.region", Form::Word),
    ("store.copy.path_style", Form::Flag),
    ("store.copy.ca_file", Form::Path),
    ("store.copy.credentials_file", Form::Path),
    ("store.copy.proxy", Form::Proxy),
    ("store.copy.sse", Form::Sse),
    ("store.copy.sse_kms_key", Form::Word),
    ("store.copy.sse_key_file", Form::Path),
    ("store.copy.checksums", Form::Flag),
    ("store.copy.bandwidth", Form::Bytes),
    ("backup.interval", Form::Duration),
    ("backup.on_calendar", Form::Calendar),
    ("backup.increments", Form::Flag),
    ("backup.increment_interval", Form::Duration),
    ("backup.max_increments", Form::Increments),
    ("backup.verify_interval", Form::Interval),
    ("backup.format", Form::BackupFormat),
    ("backup.retention.enabled", Form::Flag),
    ("backup.retention.recent", Form::Duration),
    ("backup.retention.hourly", Form::Count),
    ("backup.retention.daily", Form::Count),
    ("backup.retention.weekly", Form::Count),
    ("backup.retention.yearly", Form::Count),
    ("backup.retention.count", Form::Count),
    ("backup.encrypt_to", Form::Recipients),
    ("restore.identity_file", Form::Path),
    ("restore.accept_plaintext_before", Form::Moment),
    ("archive.keep", Form::Keep),
    ("archive.min_age", Form::Duration),
    ("archive.max_age", Form::Duration),
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
                Some((_, Form::Nodes)) => self.entries(value, &path, "node name = \"address\"", node),
                Some((_, Form::Settings)) => self.entries(value, &path, "flag = value", setting),
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
    forms::address(value).map(drop)
}

fn setting(key: &str, value: &Value) -> Result<(), String> {
    flags::check(key)?;
    forms::setting(value).map(drop)
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

/// The known word that is nearest, when one is near enough to be meant.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).clamp(1, 4);
    let score = |name: &str| strsim::damerau_levenshtein(word, name);
    known
        .map(|name| (score(&name.replace('-', "_")).min(score(name)), name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name)
}

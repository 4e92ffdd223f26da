//! Checks each file against the table of fields before it is merged.

use std::collections::{BTreeMap, BTreeSet};

use super::field::CheckEntry;
use super::fields::FIELDS;
use super::problem::Problem;
use super::sources::Source;
use super::suggest::nearest;
use super::tree::{self, Kind, Value};

/// All files merged, and the problems found. The merged tree contains no value that has a problem.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) merged: Value,
    pub(super) problems: Vec<Problem>,
    /// Fields that are omitted because of a problem. Their absence means nothing.
    pub(super) failed: BTreeSet<String>,
    /// True if a file did not parse. The absence of any field then means nothing.
    pub(super) parse_failed: bool,
}

impl Checked {
    /// Parses, checks and merges the next file, which takes precedence over the earlier ones.
    pub(super) fn add(&mut self, source: &Source) {
        let before = self.problems.len();
        let mut document = tree::parse(source, &mut self.problems);
        if self.problems.len() > before {
            // After a syntax error the parser only guesses the rest of the tree.
            self.parse_failed = true;
            return;
        }
        if let Kind::Table(table) = &mut document.kind {
            self.table(table, "");
        }
        self.merged.merge(document);
        // Order the problems of a file by line, not by key.
        if let Some(mine) = self.problems.get_mut(before..) {
            mine.sort_by_key(|problem| problem.line);
        }
    }

    fn table(&mut self, table: &mut BTreeMap<String, Value>, prefix: &str) {
        table.retain(|key, value| {
            let path = join(prefix, key);
            match FIELDS.iter().find(|field| field.key() == path) {
                Some(field) => match (field.entries(), field.check(value)) {
                    (Some((form, entries)), _) => self.entries(value, &path, form, entries),
                    (None, Ok(())) => true,
                    (None, Err(text)) => self.wrong(value, path, text),
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

    /// Checks a table with arbitrary keys.
    fn entries(&mut self, value: &mut Value, path: &str, form: &str, entries: &dyn CheckEntry) -> bool {
        let Kind::Table(table) = &mut value.kind else {
            let text = format!("found {}, expected a table: {{ {form}, ... }}", value.describe());
            return self.wrong(value, path.to_owned(), text);
        };
        table.retain(|key, value| match entries.check_entry(key, value) {
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

fn is_table(path: &str) -> bool {
    FIELDS.iter().any(|field| {
        field
            .key()
            .strip_prefix(path)
            .is_some_and(|rest| rest.starts_with('.'))
    })
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

/// The keys that a table may have.
fn siblings(prefix: &str) -> BTreeSet<&'static str> {
    FIELDS
        .iter()
        .filter_map(|field| {
            if prefix.is_empty() {
                Some(field.key())
            } else {
                field.key().strip_prefix(prefix)?.strip_prefix('.')
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
        .filter_map(|field| field.key().rsplit_once('.'))
        .find(|(_, last)| *last == key);
    if let Some((table, _)) = elsewhere {
        return format!("no such key here; \"{key}\" belongs in [{table}]");
    }
    let names: Vec<&str> = here.into_iter().collect();
    format!("no such key; there are: {}", names.join(", "))
}

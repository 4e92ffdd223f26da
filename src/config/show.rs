//! The values in force and their origins, for `config show`.

use std::path::PathBuf;

use serde::Serialize;

use super::fields::FIELDS;
use super::redact::redact;
use super::settings::Settings;
use super::tree::{Kind, Value};

/// One value in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The field, e.g. `cluster.size`.
    pub field: String,
    /// The value; secrets hidden.
    pub value: serde_json::Value,
    /// The file that sets the value; `None` for a default.
    pub file: Option<PathBuf>,
    /// The line in the file.
    pub line: Option<usize>,
}

impl Entry {
    /// The origin of the value, for people.
    pub fn origin(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{}:{line}", file.display()),
            (Some(file), None) => file.display().to_string(),
            (None, _) => "default".to_owned(),
        }
    }
}

/// Every value that is set and every default, in the order of the table of fields.
pub(super) fn entries(merged: &Value, settings: &Settings) -> Vec<Entry> {
    let mut out = Vec::new();
    for field in FIELDS {
        let path: Vec<&str> = field.key().split('.').collect();
        match merged.get(&path) {
            Some(value) => leaves(field.key(), value, &mut out),
            None => out.extend(
                field
                    .when_unset(settings)
                    .into_iter()
                    .map(|(field, value)| Entry {
                        field,
                        value,
                        file: None,
                        line: None,
                    }),
            ),
        }
    }
    out
}

fn leaves(field: &str, value: &Value, out: &mut Vec<Entry>) {
    let shown = match &value.kind {
        Kind::Table(table) => {
            for (key, value) in table {
                leaves(&format!("{field}.{key}"), value, out);
            }
            return;
        }
        Kind::Text(text) => redact(text).into(),
        Kind::List(texts) => texts.iter().map(|text| redact(text)).collect(),
        Kind::Int(number) => (*number).into(),
        Kind::Bool(flag) => (*flag).into(),
        Kind::Other(what) => (*what).into(),
    };
    out.push(Entry {
        field: field.to_owned(),
        value: shown,
        file: value.at.as_ref().map(|at| at.file.to_path_buf()),
        line: value.at.as_ref().map(|at| at.line),
    });
}

//! What is in force and where each value came from, for `config show`.

use std::path::PathBuf;

use serde::Serialize;

use super::redact::redact;
use super::schema::FIELDS;
use super::settings::{Settings, StoreUrl};
use super::tree::{Kind, Value};
use crate::model::SizeSource;

/// One value in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The field, e.g. `cluster.size`.
    pub field: String,
    /// The value; secrets hidden.
    pub value: serde_json::Value,
    /// The file that it came from; `None` for a default.
    pub file: Option<PathBuf>,
    /// The line in it.
    pub line: Option<usize>,
}

impl Entry {
    /// Where it came from, for people.
    pub fn origin(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{}:{line}", file.display()),
            (Some(file), None) => file.display().to_string(),
            (None, _) => "default".to_owned(),
        }
    }
}

/// Every value that was set, and every default that has a value, in the order of the schema.
pub(super) fn entries(merged: &Value, settings: &Settings) -> Vec<Entry> {
    let mut out = Vec::new();
    for (field, _) in FIELDS {
        let path: Vec<&str> = field.split('.').collect();
        match merged.get(&path) {
            Some(value) => leaves(field, value, &mut out),
            None => out.extend(default(field, settings).into_iter().map(|(field, value)| Entry {
                field,
                value,
                file: None,
                line: None,
            })),
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

/// What a field that nobody set came to; nothing when it has no value.
fn default(field: &str, settings: &Settings) -> Vec<(String, serde_json::Value)> {
    let spec = &settings.spec;
    let time = |time| humantime::format_duration(time).to_string().into();
    let value: Option<serde_json::Value> = match field {
        "node.name" => Some(spec.node.to_string().into()),
        "cluster.name" => Some(spec.cluster.to_string().into()),
        // Where the store holds it, the configuration has nothing to show: `spec get` does.
        "cluster.size" if matches!(spec.size_source, SizeSource::Store { .. }) => None,
        "cluster.size" => Some(spec.size.into()),
        "cluster.nodes" => {
            return spec
                .nodes
                .iter()
                .map(|(name, address)| (format!("{field}.{name}"), address.clone().into()))
                .collect();
        }
        "cluster.grace" => Some(time(spec.grace)),
        "cluster.join" => Some(spec.join.as_str().into()),
        "api.listen" => settings.api.listen.map(|address| address.to_string().into()),
        "metrics.listen" => settings.api.metrics.map(|address| address.to_string().into()),
        "api.insecure" => Some(settings.api.insecure.into()),
        "etcd.data_dir" => Some(spec.etcd.data_dir.display().to_string().into()),
        "etcd.client_port" => Some(spec.etcd.client_port.into()),
        "etcd.peer_port" => Some(spec.etcd.peer_port.into()),
        "store.region" => settings
            .store
            .as_ref()
            .and_then(|store| store.region.clone())
            .map(Into::into),
        "store.path_style" => settings
            .store
            .as_ref()
            .filter(|store| matches!(store.url, StoreUrl::S3 { .. }))
            .map(|store| store.path_style.into()),
        "store.shared" => settings.store.as_ref().map(|store| store.shared.into()),
        // The calendar stands in its place.
        "backup.interval" if spec.backup.on_calendar.is_some() => None,
        "backup.interval" => spec.backup_interval.map(time),
        "backup.increments" => Some(spec.backup.increment_interval.is_some().into()),
        "backup.increment_interval" => spec.backup.increment_interval.map(time),
        "backup.max_increments" => Some(spec.backup.max_increments.into()),
        "backup.verify_interval" => Some(spec.backup.verify_interval.map_or_else(|| "off".into(), time)),
        "backup.format" => Some(spec.backup.format.as_str().into()),
        "backup.retention.enabled" => Some(spec.backup.retention.enabled.into()),
        "backup.retention.recent" => Some(time(spec.backup.retention.recent)),
        "backup.retention.hourly" => Some(spec.backup.retention.hourly.into()),
        "backup.retention.daily" => Some(spec.backup.retention.daily.into()),
        "backup.retention.weekly" => Some(spec.backup.retention.weekly.into()),
        "backup.retention.yearly" => Some(spec.backup.retention.yearly.into()),
        "backup.retention.count" => Some(spec.backup.retention.count.into()),
        "archive.keep" => Some(settings.archive.keep.into()),
        "archive.min_age" => Some(time(settings.archive.min_age)),
        "archive.max_age" => Some(time(settings.archive.max_age)),
        _ => None,
    };
    value.into_iter().map(|value| (field.to_owned(), value)).collect()
}

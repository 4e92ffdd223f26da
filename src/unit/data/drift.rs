//! How the settings of the running etcd differ from those that are written for its next start. The process is
//! the truth: the files of `etcd.service` may have changed since it was started.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use super::owner::Owner;
use crate::config::{env_file, redact};
use crate::model::Fact;
use crate::render::OF_THE_FIRST_START;
use crate::unit::apply::Origins;
use crate::unit::{files, journal, process};

/// With this flag etcd ignores all other settings.
const CONFIG_FILE: &str = "config-file";
/// Their values are never shown.
const SECRET: &[&str] = &["auth-token", "discovery-password", "discovery-user"];
/// Longer values are cut off.
const MAX_SHOWN: usize = 120;
/// More settings than these are only counted.
const MAX_LINES: usize = 8;
/// More settings that etcd runs without than these are only counted.
const MAX_NAMES: usize = 8;

/// A setting of the process that differs from what is written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Difference {
    /// The flag, without dashes.
    flag: String,
    /// What the process has.
    runs: Option<String>,
    /// What is written.
    written: Option<String>,
}

/// A line for each setting of the process that differs from what is written.
pub(super) fn drift(owner: &Owner, pid: u32) -> Fact<Vec<String>> {
    match compare(owner, pid) {
        Ok(differences) => Fact::Known(lines(owner, &differences)),
        Err(why) => Fact::Unreachable(why),
    }
}

fn compare(owner: &Owner, pid: u32) -> Result<Vec<Difference>, String> {
    let path = &owner.env_file;
    let failed = |why: String| format!("reading {}: {why}", path.display());
    let text = files::read_bounded(path)
        .map_err(|error| failed(error.to_string()))?
        .ok_or_else(|| failed("it is not there".to_owned()))?;
    let text = String::from_utf8(text).map_err(|error| failed(error.to_string()))?;
    // Our own file has nothing that versions of systemd read differently.
    let written = env_file::parse(&text, u32::MAX);
    let written = process::of_variables(written.into_iter().map(|line| (line.key, line.value)));
    Ok(differences(&of_process(owner, pid)?, &written))
}

/// The settings that the process was started with.
fn of_process(owner: &Owner, pid: u32) -> Result<BTreeMap<String, String>, String> {
    let dir = owner.proc.join(pid.to_string());
    let failed = |error: io::Error| format!("reading the settings of etcd's process {pid}: {error}");
    let uid = fs::metadata(&dir).map_err(failed)?.uid();
    if uid != owner.uid {
        return Err(format!(
            "etcd's process {pid} belongs to uid {uid}, and uid {} reads its settings",
            owner.uid
        ));
    }
    process::settings(&dir)
        .map_err(failed)?
        .ok_or_else(|| format!("etcd's process {pid} has ended"))
}

fn differences(runs: &BTreeMap<String, String>, written: &BTreeMap<String, String>) -> Vec<Difference> {
    if let Some(path) = runs.get(CONFIG_FILE) {
        return vec![Difference {
            flag: CONFIG_FILE.to_owned(),
            runs: Some(path.clone()),
            written: None,
        }];
    }
    let mut flags: Vec<&String> = runs.keys().chain(written.keys()).collect();
    flags.sort_unstable();
    flags.dedup();
    flags
        .into_iter()
        .filter(|flag| !OF_THE_FIRST_START.contains(&flag.as_str()))
        .map(|flag| Difference {
            flag: flag.clone(),
            runs: runs.get(flag).cloned(),
            written: written.get(flag).cloned(),
        })
        .filter(|difference| difference.runs != difference.written)
        .collect()
}

/// One line for each difference: what the process has, what is written, and what to do.
fn lines(owner: &Owner, differences: &[Difference]) -> Vec<String> {
    if differences.is_empty() {
        return Vec::new();
    }
    let origins = (owner.origins)(&owner.env_file);
    if let Err(why) = &origins {
        journal::say(&format!("what sets etcd's settings is not known: {why}"));
    }
    let origins = origins.ok();
    let (missing, others): (Vec<_>, Vec<_>) = differences
        .iter()
        .partition(|difference| difference.runs.is_none() && difference.written.is_some());
    let mut lines: Vec<String> = others
        .iter()
        .take(MAX_LINES)
        .map(|difference| line(difference, origins.as_ref()))
        .collect();
    match missing.as_slice() {
        [] => {}
        [one] => lines.push(line(one, origins.as_ref())),
        several => lines.push(without(several)),
    }
    if let Some(more) = others.len().checked_sub(MAX_LINES).filter(|more| *more > 0) {
        lines.push(format!(
            "etcd runs with {more} more settings that differ from what is configured"
        ));
    }
    lines
}

/// Settings that etcd was started without. An etcd that was taken over has its own, and lacks many of ours.
fn without(missing: &[&Difference]) -> String {
    let names: Vec<&str> = missing
        .iter()
        .take(MAX_NAMES)
        .map(|difference| difference.flag.as_str())
        .collect();
    let more = match missing.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "etcd runs without {} settings that are configured ({}{more}): restart etcd",
        missing.len(),
        names.join(", ")
    )
}

fn line(difference: &Difference, origins: Option<&Origins>) -> String {
    let Difference { flag, runs, written } = difference;
    let Some(runs) = runs else {
        let written = shown(flag, written.as_deref().unwrap_or_default());
        return format!("etcd runs without {flag}, configured is {written}: restart etcd");
    };
    let instead = match written {
        Some(written) => format!("configured is {}", shown(flag, written)),
        None if flag == CONFIG_FILE => "and ignores all other settings".to_owned(),
        None => "which is not configured".to_owned(),
    };
    let then = match origins.map(|origins| origins.of(flag, runs)) {
        Some(Some(place)) => format!("{place} sets it: take it out or configure it, and restart etcd"),
        Some(None) => "nothing sets it any more: restart etcd".to_owned(),
        None => "find out what sets it (`systemctl cat etcd`), take it out, and restart etcd".to_owned(),
    };
    format!("etcd runs with {flag}={}, {instead}; {then}", shown(flag, runs))
}

/// A value on one line, without secrets.
fn shown(flag: &str, value: &str) -> String {
    if SECRET.contains(&flag) {
        return "***".to_owned();
    }
    let plain = redact(value).replace(char::is_control, "?");
    let cut: String = plain.chars().take(MAX_SHOWN).collect();
    if cut.len() < plain.len() { cut + "..." } else { cut }
}

#[cfg(test)]
mod tests;

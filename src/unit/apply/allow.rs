//! The allow-list of what root writes for the agent. The agent writes the assignment, so a compromised agent
//! may have written it: every part of it is checked against root's configuration and against a pattern.

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::{Settings, is_etcd_variable};
use crate::model::{Assignment, Epoch, Generation};
use crate::unit::roots::roots_own;

const MAX_MEMBERS: usize = 64;
const MAX_VALUE_BYTES: usize = 16 << 10;

/// Checks an assignment against the configuration.
///
/// # Errors
/// One line: what is not allowed, and what was expected.
pub fn check(assignment: &Assignment, settings: &Settings) -> Result<(), String> {
    let spec = &settings.spec;
    let refuse = |why: String| Err(format!("the assignment is refused: {why}"));
    if assignment.node != spec.node {
        return refuse(format!(
            "it is for node {}, this is {}",
            assignment.node, spec.node
        ));
    }
    if assignment.data_dir != spec.etcd.data_dir {
        return refuse(format!(
            "its data directory is {:?}, configured is {}",
            assignment.data_dir.display().to_string(),
            spec.etcd.data_dir.display()
        ));
    }
    if assignment.wal_dir != spec.etcd.wal_dir {
        return refuse(format!(
            "it has its write-ahead log in {:?}, configured is {:?}",
            shown(assignment.wal_dir.as_deref()),
            shown(spec.etcd.wal_dir.as_deref())
        ));
    }
    if assignment.generation == Generation(0) || assignment.epoch == Epoch(0) {
        return refuse("it has no generation or no epoch".to_owned());
    }
    let token_ok = assignment
        .token
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
    if assignment.token.is_empty() || assignment.token.len() > 256 || !token_ok {
        return refuse(format!(
            "its token {:?} is not of a-z A-Z 0-9 . _ -",
            assignment.token
        ));
    }
    if !assignment.initial_cluster.contains_key(&assignment.node) {
        return refuse("its initial cluster does not name this node".to_owned());
    }
    if assignment.initial_cluster.len() > MAX_MEMBERS {
        return refuse(format!("its initial cluster has more than {MAX_MEMBERS} members"));
    }
    for url in assignment.initial_cluster.values().flatten() {
        if !is_url(url) {
            return refuse(format!("{url:?} is not a URL like https://host:2380"));
        }
    }
    // The agent still uses the configuration that it read before. The planner makes a new assignment after a
    // reload.
    if assignment.settings_digest != spec.settings_digest() {
        return Err(
            "the configuration on disk has other etcd settings than the agent works with: \
             systemctl reload etcd-agent"
                .to_owned(),
        );
    }
    if let Some(binary) = &spec.etcd.binary {
        roots_own("etcd.binary", binary)?;
    }
    Ok(())
}

/// `etcd.wal_dir`, as it was set.
fn shown(wal_dir: Option<&Path>) -> String {
    wal_dir.map_or_else(
        || "the data directory".to_owned(),
        |dir| dir.display().to_string(),
    )
}

/// Checks the environment before it is written.
///
/// # Errors
/// One line that names the variable.
pub fn check_environment(environment: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in environment {
        if !is_etcd_variable(name) {
            return Err(format!("{name} is not a setting of etcd"));
        }
        if value.len() > MAX_VALUE_BYTES || value.chars().any(char::is_control) {
            return Err(format!(
                "the value of {name} is too long or has control characters"
            ));
        }
    }
    Ok(())
}

fn is_url(url: &str) -> bool {
    let Some(rest) = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
    else {
        return false;
    };
    let Some((host, port)) = rest.rsplit_once(':') else {
        return false;
    };
    let host_ok = !host.is_empty()
        && host.len() <= 255
        && host.bytes().all(|b| {
            b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']' | b'%')
        });
    host_ok && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests;

//! The allow-list of what root writes for the agent. The agent writes the assignment, so a compromised agent
//! may have written it: every part of it is checked against root's configuration and against a pattern.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::Settings;
use crate::model::{
    Assignment, Epoch, Generation, MOST_NODES, TOKEN_BYTES, TlsFiles, Transport, is_etcd_variable,
};
use crate::unit::roots::roots_own;

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
    if assignment.token.is_empty() || assignment.token.len() > TOKEN_BYTES || !token_ok {
        return refuse(format!(
            "its token {:?} is not of a-z A-Z 0-9 . _ -",
            assignment.token
        ));
    }
    if !assignment.initial_cluster.contains_key(&assignment.node) {
        return refuse("its initial cluster does not name this node".to_owned());
    }
    if assignment.initial_cluster.len() > MOST_NODES {
        return refuse(format!("its initial cluster has more than {MOST_NODES} members"));
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

/// Checks the transport of an assignment. Root takes files of certificates only from its own configuration,
/// and from `written`, the environment that it wrote last: without a table in the configuration, etcd needs
/// its files until all members speak plain HTTP. Nothing takes TLS away that is configured and written.
///
/// # Errors
/// One line: what is not allowed.
pub fn check_transport(
    assignment: &Assignment,
    settings: &Settings,
    written: &BTreeMap<String, String>,
) -> Result<(), String> {
    let refuse = |why: String| Err(format!("the assignment is refused: {why}"));
    let etcd = &settings.spec.etcd;
    let next = assignment.transport(etcd);
    let last = written_transport(written);
    for (table, next, configured, last) in [
        ("etcd.client_tls", &next.client, &etcd.client_tls, &last.client),
        ("etcd.peer_tls", &next.peer, &etcd.peer_tls, &last.peer),
    ] {
        match next {
            Some(_) if next != configured && next != last => {
                return refuse(format!(
                    "its files for {table} are neither configured nor those that etcd has"
                ));
            }
            None if configured.is_some() && last.is_some() => {
                return refuse(format!("{table} is configured, and etcd has it already"));
            }
            _ => {}
        }
    }
    if next.peer_listens && next.peer.is_none() {
        return refuse("it listens for members over TLS without certificates".to_owned());
    }
    if !next.peer_listens && etcd.peer_tls.is_some() && last.peer_listens {
        return refuse(
            "etcd.peer_tls is configured, and etcd listens for members over TLS already".to_owned(),
        );
    }
    Ok(())
}

/// The transport of an environment that root wrote.
pub(in crate::unit) fn written_transport(written: &BTreeMap<String, String>) -> Transport {
    let files = |prefix: &str| {
        let path = |file: &str| {
            written
                .get(&format!("ETCD_{prefix}{file}_FILE"))
                .map(PathBuf::from)
        };
        Some(TlsFiles {
            cert_file: path("CERT")?,
            key_file: path("KEY")?,
            ca_file: path("TRUSTED_CA")?,
        })
    };
    let listens = written.get("ETCD_LISTEN_PEER_URLS");
    Transport {
        client: files(""),
        peer: files("PEER_"),
        peer_listens: listens.is_some_and(|urls| urls.starts_with("https://")),
    }
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

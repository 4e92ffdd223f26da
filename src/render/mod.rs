//! etcd's settings as systemd environment, drop-in or flags: pure rendering.
//!
//! The same settings are rendered in the three forms of elastic-etcd (`-o env|dropin|flags`). The drop-in
//! does not contain the values itself: an `EnvironmentFile=` of the base unit overrides `Environment=` in a
//! drop-in, so the drop-in names the agent's own environment file as the last one (systemd.exec(5),
//! `EnvironmentFile=`: later settings override earlier).

mod escape;
mod unset;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

pub use escape::{RenderError, env_value, shell_word};

use crate::model::{Assignment, NodeName, Spec, TlsFiles, digest};

/// The drop-in's file name below `etcd.service.d`.
pub const DROP_IN_NAME: &str = "90-etcd-agent.conf";

/// All settings of etcd, as `ETCD_*` variables. Every rendered form uses the order of the map.
pub fn environment(assignment: &Assignment, spec: &Spec) -> BTreeMap<String, String> {
    settings(assignment, spec)
        .into_iter()
        .map(|(flag, value)| (variable(&flag), value))
        .collect()
}

/// How the member joined: etcd reads these flags only when it starts without data.
pub const OF_THE_FIRST_START: &[&str] = &[
    "initial-advertise-peer-urls",
    "initial-cluster",
    "initial-cluster-state",
    "initial-cluster-token",
];

/// Digest of the settings that matter to a running etcd: all except [`OF_THE_FIRST_START`]. If the digest
/// changes, a restart would change something.
pub fn running_digest(assignment: &Assignment, spec: &Spec) -> String {
    let mut text = String::new();
    for (name, value) in environment(assignment, spec) {
        if !OF_THE_FIRST_START.iter().any(|flag| variable(flag) == name) {
            let _ = writeln!(text, "{name}={value}");
        }
    }
    if let Some(binary) = &spec.etcd.binary {
        let _ = writeln!(text, "{}", binary.display());
    }
    digest(text.as_bytes())
}

/// The environment file, in the syntax of systemd.exec(5) `EnvironmentFile=`; a shell reads it the same way.
///
/// # Errors
/// [`RenderError`] if a value cannot be written in that syntax (a control character).
pub fn env_file(assignment: &Assignment, spec: &Spec) -> Result<String, RenderError> {
    let mut text = format!(
        "# Written by etcd-agent for generation {} (epoch {}). Do not edit: it is written again at the next change.\n",
        assignment.generation, assignment.epoch
    );
    for (name, value) in environment(assignment, spec) {
        let quoted = env_value(&name, &value)?;
        let _ = writeln!(text, "{name}={quoted}");
    }
    Ok(text)
}

/// The drop-in that puts the environment file in force. `env_file` is the path of that file.
///
/// # Errors
/// [`RenderError`] if a path has a character that is not allowed in a unit file.
pub fn drop_in(assignment: &Assignment, spec: &Spec, env_file: &Path) -> Result<String, RenderError> {
    let set = environment(assignment, spec);
    let log = assignment.wal_dir.as_ref();
    let log = log
        .map(|dir| escape::unit_path("etcd.wal_dir", dir))
        .transpose()?;
    let mut text = format!(
        "# Written by etcd-agent. Do not edit: it is written again at the next change.\n\
         # `etcd-agent render -o dropin` prints it; `etcd-agent status` says what overrides it.\n\
         [Unit]\n\
         After=network-online.target\n\
         Wants=network-online.target\n\
         # A data directory whose disk is not mounted yet looks like an empty one.\n\
         RequiresMountsFor={}{}\n\
         \n\
         [Service]\n\
         # The last file wins over those of the base unit.\n\
         EnvironmentFile={}\n\
         # Variables that a base unit's file may set and that etcd-agent does not set.\n",
        escape::unit_path("etcd.data_dir", &assignment.data_dir)?,
        log.map_or_else(String::new, |log| format!(" {log}")),
        escape::unit_path("the environment file", env_file)?
    );
    for name in unset::not_ours(&set) {
        let _ = writeln!(text, "UnsetEnvironment={name}");
    }
    text.push_str(
        "# Holds a start back until the epoch is confirmed; a missing or crashing binary never does (the `-`).\n\
         ExecStartPre=-/usr/bin/etcd-agent gate\n\
         # Holds a stop back, for seconds at most, until the store has what etcd has committed.\n\
         ExecStop=-/usr/bin/etcd-agent gate --stop\n\
         # etcd is activating until there is quorum: systemd must not kill it for that.\n\
         TimeoutStartSec=infinity\n\
         # An etcd that has lost its peers may never end by itself. What it has acknowledged is in its log.\n\
         TimeoutStopSec=30s\n",
    );
    if let Some(binary) = &spec.etcd.binary {
        let binary = escape::unit_path("etcd.binary", binary)?;
        let _ = write!(text, "ExecStart=\nExecStart={binary}\n");
    }
    Ok(text)
}

/// The settings as one line of etcd flags, quoted for a shell where needed.
///
/// # Errors
/// [`RenderError`] if a value has a control character.
pub fn flags(assignment: &Assignment, spec: &Spec) -> Result<String, RenderError> {
    let words: Result<Vec<String>, RenderError> = settings(assignment, spec)
        .into_iter()
        .map(|(flag, value)| shell_word(&flag, &format!("--{flag}={value}")))
        .collect();
    Ok(words?.join(" ") + "\n")
}

/// `initial-cluster` as etcd takes it: `n1=https://n1:2380,n2=https://n2:2380`.
pub fn initial_cluster(members: &BTreeMap<NodeName, Vec<String>>) -> String {
    let mut parts = Vec::new();
    for (name, urls) in members {
        parts.extend(urls.iter().map(|url| format!("{name}={url}")));
    }
    parts.join(",")
}

/// The environment variable of an etcd flag: `ETCD_` and the name in upper case, dashes as underscores.
pub fn variable(flag: &str) -> String {
    format!("ETCD_{}", flag.to_ascii_uppercase().replace('-', "_"))
}

/// Flag name → value. `[etcd.settings]` comes first, so that it can never replace the agent's own settings
/// (the configuration already refuses such names).
fn settings(assignment: &Assignment, spec: &Spec) -> BTreeMap<String, String> {
    let transport = assignment.transport(&spec.etcd);
    let spec = &transport.put_in(spec);
    let mut out = spec.etcd.settings.clone();
    let mut set = |flag: &str, value: String| {
        out.insert(flag.to_owned(), value);
    };
    let own_peer_urls = assignment
        .initial_cluster
        .get(&assignment.node)
        .map(|urls| urls.join(","))
        .or_else(|| spec.peer_url(&assignment.node))
        .unwrap_or_default();
    set("name", assignment.node.to_string());
    set("data-dir", assignment.data_dir.display().to_string());
    if let Some(log) = &assignment.wal_dir {
        set("wal-dir", log.display().to_string());
    }
    set("listen-peer-urls", spec.listen_peer_url());
    set("listen-client-urls", spec.listen_client_urls());
    set("initial-advertise-peer-urls", own_peer_urls);
    set(
        "advertise-client-urls",
        spec.client_url(&assignment.node).unwrap_or_default(),
    );
    set("initial-cluster", initial_cluster(&assignment.initial_cluster));
    set("initial-cluster-token", assignment.token.clone());
    set(
        "initial-cluster-state",
        assignment.initial_state.as_str().to_owned(),
    );
    set("strict-reconfig-check", "true".to_owned());
    let mut tls = |prefix: &str, files: &TlsFiles| {
        set(
            &format!("{prefix}cert-file"),
            files.cert_file.display().to_string(),
        );
        set(&format!("{prefix}key-file"), files.key_file.display().to_string());
        set(
            &format!("{prefix}trusted-ca-file"),
            files.ca_file.display().to_string(),
        );
        set(&format!("{prefix}client-cert-auth"), "true".to_owned());
    };
    if let Some(files) = &transport.client {
        tls("", files);
    }
    // Also where etcd still listens in plain HTTP: it connects to other members with them.
    if let Some(files) = &transport.peer {
        tls("peer-", files);
    }
    out
}

#[cfg(test)]
mod tests;

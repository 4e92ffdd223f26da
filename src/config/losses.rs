//! Detects a configuration that drops the cluster's name, the peers or TLS (etcd's or that of its agent's
//! API) of a node that runs a member, or that names another place for its data or its log. An empty or
//! truncated file is a valid configuration of a single node without TLS, but it is rarely intended on such a
//! node.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde::de::DeserializeOwned;

use super::problem::{Problem, Problems};
use super::settings::Settings;
use super::trusted;
use crate::model::{ApiRecord, Assignment, NodeName, Transport};
use crate::paths::Paths;

const MAX_BYTES: u64 = 1 << 20;

/// The losses, unless root has accepted exactly these settings.
///
/// # Errors
/// Says why it could not be read what this node runs. The losses are then unknown.
pub(super) fn of(paths: &Paths, settings: &Settings) -> Result<Option<Problems>, String> {
    let Some(assignment) = recorded::<Assignment>(&paths.assignment())? else {
        return Ok(None);
    };
    let api = recorded::<ApiRecord>(&paths.api_record())?.unwrap_or_default();
    let mut lost = compare(&assignment, settings);
    lost.extend(lost_api_tls(api, settings));
    if lost.is_empty() {
        return Ok(None);
    }
    let accepted = accepted(paths);
    if accepted == Some(identity(settings)) {
        return Ok(None);
    }
    if accepted == Some(identity_of_etcd(settings)) {
        // Accepted by a version for which the API's TLS was no loss.
        lost.retain(|problem| problem.field == API_TLS);
    }
    Ok((!lost.is_empty()).then(|| Problems::new(lost)))
}

/// The table of the API's certificate.
const API_TLS: &str = "api.tls";

/// All parts of a configuration that can be lost, in the form in which root accepts them.
pub(super) fn identity(settings: &Settings) -> String {
    format!(
        "{}api_tls = {}\n",
        identity_of_etcd(settings),
        settings.api.tls.is_some()
    )
}

fn identity_of_etcd(settings: &Settings) -> String {
    let spec = &settings.spec;
    let nodes: Vec<&str> = spec.nodes.keys().map(NodeName::as_str).collect();
    format!(
        "cluster = {}\nnodes = {}\nclient_tls = {}\npeer_tls = {}\ndata_dir = {:?}\nwal_dir = {:?}\n",
        spec.cluster,
        nodes.join(" "),
        spec.etcd.client_tls.is_some(),
        spec.etcd.peer_tls.is_some(),
        spec.etcd.data_dir.display().to_string(),
        spec.etcd.wal_dir
    )
}

/// What root has accepted, if anything.
fn accepted(paths: &Paths) -> Option<String> {
    let file = trusted::open_below(&paths.host(Path::new("/")), &paths.accepted_losses()).ok()?;
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// What a file of the agent holds; `None` if it does not exist.
fn recorded<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
    let failed = |why: String| format!("{}: {why}", path.display());
    let Some(body) = read(path).map_err(|error| failed(error.to_string()))? else {
        return Ok(None);
    };
    serde_json::from_slice(&body)
        .map(Some)
        .map_err(|error| failed(error.to_string()))
}

/// A part that is lost.
fn loss(field: &str, text: &str) -> Problem {
    Problem::at(
        None,
        field,
        format!(
            "{text}; put it back, or, if this is intended, run `etcd-agent config check --accept-losses` as root, then reload or start the agent"
        ),
    )
}

/// `api.insecure` permits plain HTTP, and may stand next to `[api.tls]` (for etcd's own ports).
fn lost_api_tls(api: ApiRecord, settings: &Settings) -> Option<Problem> {
    let is_lost = api.tls && settings.api.tls.is_none();
    is_lost.then(|| {
        loss(
            API_TLS,
            "is missing, and the API of this node's agent speaks TLS: over plain HTTP anybody who reaches it can give \
             orders",
        )
    })
}

fn compare(assignment: &Assignment, settings: &Settings) -> Vec<Problem> {
    let spec = &settings.spec;
    let mut lost = Vec::new();
    // A token is <cluster>-<epoch>-<random>.
    let name = assignment.token.rsplitn(3, '-').nth(2).unwrap_or_default();
    if name != spec.cluster.as_str() {
        let text = format!(
            "this node runs a member of cluster {name}, and the configuration says {}",
            spec.cluster
        );
        lost.push(loss("cluster.name", &text));
    }
    let members = assignment.initial_cluster.keys();
    let named = members
        .clone()
        .filter(|node| spec.nodes.contains_key(*node))
        .count();
    if named * 2 <= members.len() {
        let names: Vec<&str> = members.map(NodeName::as_str).collect();
        let text = format!(
            "this node's etcd joined a cluster of {}, and the configuration names {named} of them, no majority",
            names.join(", ")
        );
        let problem = loss("cluster.nodes", &text);
        // Without nodes in the configuration, the only one has the host's name, which the host may get late.
        let by_host_name = spec.nodes.len() == 1
            && spec
                .nodes
                .get(&spec.node)
                .is_some_and(|at| *at == spec.node.as_str());
        lost.push(if by_host_name { problem.may_pass() } else { problem });
    }
    let mut say = |field: &str, text: String| lost.push(loss(field, &text));
    // Without its data or its log a member is none. A removed member has neither.
    let has_data = assignment.had_data() && !assignment.removed;
    if has_data && assignment.data_dir != spec.etcd.data_dir {
        say(
            "etcd.data_dir",
            format!(
                "this member's data are in {}, and the configuration says {}: data are moved by hand while etcd is stopped, \
                 or the member leaves first",
                assignment.data_dir.display(),
                spec.etcd.data_dir.display()
            ),
        );
    }
    if has_data && assignment.wal_dir != spec.etcd.wal_dir {
        let log = |wal_dir: Option<&Path>| match wal_dir {
            Some(dir) => dir.display().to_string(),
            None => "the data directory (member/wal)".to_owned(),
        };
        say(
            "etcd.wal_dir",
            format!(
                "this member's write-ahead log is in {}, and the configuration says {}: a log is moved by hand while etcd is \
                 stopped, or the member leaves first",
                log(assignment.wal_dir.as_deref()),
                log(spec.etcd.wal_dir.as_deref())
            ),
        );
    }
    let over = assignment
        .transport
        .as_ref()
        .map(Transport::over)
        .unwrap_or_default();
    for (table, had, has) in [
        ("etcd.peer_tls", over.dials_tls, spec.etcd.peer_tls.is_some()),
        ("etcd.client_tls", over.client_tls, spec.etcd.client_tls.is_some()),
    ] {
        if had && !has {
            say(
                table,
                "is missing, and this node's etcd speaks TLS there".to_owned(),
            );
        }
    }
    lost
}

/// Reads a file that the agent wrote. Root calls this too, so the function follows no symbolic link and never
/// blocks.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is not a regular file"));
    }
    let mut body = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut body)?;
    Ok(Some(body))
}

#[cfg(test)]
mod tests;

//! `etcd-agent spec get`.

use std::fmt::Write;

use super::client::Client;
use super::exit::{Exit, Outcome};
use super::out::Output;
use crate::model::Spec;
use crate::paths::Paths;

/// The spec: what is wanted
#[derive(Debug, clap::Subcommand)]
pub(super) enum SpecVerb {
    /// Show what is wanted of the cluster and of this node
    Get(Output),
}

pub(super) async fn run(paths: &Paths, verb: SpecVerb) -> Outcome {
    let SpecVerb::Get(output) = verb;
    let spec: Spec = Client::new(paths).get("/v1/spec").await?;
    output.print(&spec, render)?;
    Ok(Exit::Ok)
}

pub(super) fn render(spec: &Spec) -> String {
    let nodes: Vec<String> = spec
        .nodes
        .iter()
        .map(|(name, address)| {
            if name.as_str() == address {
                address.clone()
            } else {
                format!("{name}={address}")
            }
        })
        .collect();
    let tls = |on: bool| if on { "mutual TLS" } else { "no TLS" };
    let interval = spec.backup_interval.map_or_else(
        || "none".to_owned(),
        |time| format!("every {}", humantime::format_duration(time)),
    );
    let shared = if spec.store_shared { ", shared store" } else { "" };
    let mut text = String::new();
    let binary = spec.etcd.binary.as_ref().map(|path| path.display().to_string());
    let rows = [
        ("cluster", spec.cluster.to_string()),
        ("node", spec.node.to_string()),
        ("size", spec.size.to_string()),
        ("nodes", nodes.join(", ")),
        ("grace", humantime::format_duration(spec.grace).to_string()),
        ("backups", format!("{interval}{shared}")),
        ("data", spec.etcd.data_dir.display().to_string()),
        (
            "clients",
            format!(
                "port {}, {}",
                spec.etcd.client_port,
                tls(spec.etcd.client_tls.is_some())
            ),
        ),
        (
            "members",
            format!(
                "port {}, {}",
                spec.etcd.peer_port,
                tls(spec.etcd.peer_tls.is_some())
            ),
        ),
        (
            "binary",
            binary.unwrap_or_else(|| "that of etcd.service".to_owned()),
        ),
    ];
    for (name, value) in rows {
        let _ = writeln!(text, "{name:<8} {value}");
    }
    for (flag, value) in &spec.etcd.settings {
        let _ = writeln!(text, "setting  {flag}={value}");
    }
    text
}

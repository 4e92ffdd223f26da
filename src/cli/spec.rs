//! `etcd-agent spec get|set`.

use std::fmt::Write;
use std::path::Path;

use super::client::Client;
use super::exit::{Exit, Failure, Outcome};
use super::out::{self, Output};
use super::plan::decided;
use crate::config::Entry;
use crate::model::{PlanView, Spec};
use crate::paths::Paths;

/// The spec: what is wanted
#[derive(Debug, clap::Subcommand)]
pub(super) enum SpecVerb {
    /// Show what is wanted of the cluster and of this node
    Get(Output),
    /// Change what is wanted
    Set(SetArgs),
}

/// Change what is wanted
#[derive(Debug, clap::Args)]
pub(super) struct SetArgs {
    /// `size=N`: how many voters
    #[arg(value_name = "KEY=VALUE", value_parser = size)]
    size: usize,
    /// Change nothing; show what would follow
    #[arg(long)]
    dry_run: bool,
}

/// `size=N`.
fn size(text: &str) -> Result<usize, String> {
    let expected = || format!("found {text}, expected size=N with N from 1 to 9");
    let number = text.strip_prefix("size=").ok_or_else(expected)?;
    number
        .parse()
        .ok()
        .filter(|size| (1..=9).contains(size))
        .ok_or_else(expected)
}

pub(super) async fn run(paths: &Paths, verb: SpecVerb) -> Outcome {
    let output = match verb {
        SpecVerb::Get(output) => output,
        SpecVerb::Set(args) if args.dry_run => return preview(paths, args.size).await,
        SpecVerb::Set(args) => return set(paths, &args),
    };
    let spec: Spec = Client::new(paths).get("/v1/spec").await?;
    output.print(&spec, render)?;
    Ok(Exit::Ok)
}

/// The configuration holds the size, so that is where it is changed: on every node, as nodes that differ in it would
/// undo each other's work.
fn set(paths: &Paths, args: &SetArgs) -> Outcome {
    let loaded = super::config::load(paths)?;
    let found = loaded.entries.iter().find(|entry| entry.field == "cluster.size");
    Err(Failure::refused(held(args.size, found, &paths.config_file())))
}

/// Shows what would follow from another size: the planner is pure, so it is asked here.
async fn preview(paths: &Paths, size: usize) -> Outcome {
    let seen: PlanView = Client::new(paths).get("/v1/plan").await?;
    let mut observation = seen.observation;
    let now = observation.spec.size;
    observation.spec.size = size;
    let decision = crate::plan::preview(&observation);
    out::print(&format!(
        "Nothing was changed. {now} voters are wanted now; with {size}, the first decision would be:\n{}",
        decided(&decision)
    ))?;
    Ok(Exit::Ok)
}

/// Where the size is held, and what to do.
pub(super) fn held(size: usize, found: Option<&Entry>, main: &Path) -> String {
    let then = "on every node, then `systemctl reload etcd-agent` there";
    match found.filter(|entry| entry.file.is_some()) {
        Some(entry) => format!(
            "the configuration holds cluster.size ({}, now {}): write {size} there {then}",
            entry.origin(),
            entry.value
        ),
        None => format!(
            "the configuration holds cluster.size (by default): write `size = {size}` below [cluster] in {} {then}",
            main.display()
        ),
    }
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

//! `etcd-agent spec get|set`.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::client::Client;
use super::confirm::Yes;
use super::decision::decided;
use super::exit::{Exit, Failure, Outcome};
use super::out::Output;
use super::progress::{Progress, note};
use super::wait;
use crate::config::Entry;
use crate::model::{AdminStatus, Fact, SizeOrder, SizeSource, SizeView, Spec};
use crate::paths::Paths;

/// How long to wait for the agents to adopt an order.
const FOLLOWED: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(300);

/// Show or change how many voters are wanted
#[derive(Debug, clap::Subcommand)]
pub(super) enum SpecVerb {
    /// Show the wanted number of voters, the nodes and the settings of this node
    Get(Output),
    /// Change the wanted number of voters
    Set(SetArgs),
}

/// Change the wanted number of voters
#[derive(Debug, clap::Args)]
pub(super) struct SetArgs {
    /// `size=N`: how many voters
    #[arg(value_name = "KEY=VALUE", value_parser = size)]
    size: usize,
    /// Allow an even number, or nine
    #[arg(long)]
    force: bool,
    /// Change nothing; show what would follow
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    output: Output,
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
        SpecVerb::Set(args) => return set(paths, &args).await,
    };
    let spec: Spec = Client::new(paths).get("/v1/spec").await?;
    output.print_own(&spec, render)?;
    Ok(Exit::Ok)
}

/// A size in the configuration is changed there, on every node: nodes with different sizes would undo each
/// other's work. Otherwise the agent writes it to the store.
async fn set(paths: &Paths, args: &SetArgs) -> Outcome {
    let loaded = super::config::load(paths)?;
    if !args.dry_run && !matches!(loaded.settings.spec.size_source, SizeSource::Store { .. }) {
        let found = loaded.entries.iter().find(|entry| entry.field == "cluster.size");
        let before = loaded.settings.spec.size;
        if before == args.size {
            let place = found.map_or_else(|| "by default".to_owned(), Entry::origin);
            let view = SizeView {
                size: args.size,
                before,
                changed: false,
                place,
                decision: None,
            };
            args.output.print(&view, ordered)?;
            return Ok(Exit::Ok);
        }
        return Err(Failure::refused(held(args.size, found, &paths.config_file())));
    }
    let client = Client::new(paths);
    if !args.dry_run {
        let seen: AdminStatus = client.get("/v1/status").await?;
        if let Some(what) = removes(seen.size, args.size) {
            args.yes.ask(&what)?;
        }
    }
    let order = SizeOrder {
        size: args.size,
        force: args.force,
        dry_run: args.dry_run,
    };
    let view: SizeView = client.post("/v1/spec", &order).await?;
    if view.changed {
        let fate = "the size is in the store and is followed by every agent";
        let silent = wait::or_interrupted(followed(&client, view.size), fate).await?;
        args.output.print(&view, ordered)?;
        for line in &silent {
            note(line);
        }
    } else {
        args.output.print(&view, ordered)?;
    }
    Ok(Exit::Ok)
}

/// What a smaller size removes; `None` for one that is not smaller.
pub(super) fn removes(before: usize, size: usize) -> Option<String> {
    let fewer = before.checked_sub(size).filter(|fewer| *fewer > 0)?;
    let members = if fewer == 1 { "member is" } else { "members are" };
    Some(format!(
        "{before} voters are wanted now, and then {size}: {fewer} {members} removed from the cluster. `--dry-run` shows \
         what would follow."
    ))
}

/// Waits for a while until all reachable agents follow the size, and names those that do not.
async fn followed(client: &Client, size: usize) -> Result<Vec<String>, Failure> {
    let until = Instant::now() + FOLLOWED;
    let mut progress = Progress::new();
    loop {
        let (late, silent) = match wait::status(client).await? {
            Err(text) => (vec![text], Vec::new()),
            Ok(status) => not_following(&status, size),
        };
        if late.is_empty() || Instant::now() >= until {
            return Ok(late.into_iter().chain(silent).collect());
        }
        progress.say(&late.join(", "));
        tokio::time::sleep(LOOK).await;
    }
}

/// The nodes that answer and do not follow this size yet, and those that do not answer, one line each.
pub(super) fn not_following(status: &AdminStatus, size: usize) -> (Vec<String>, Vec<String>) {
    let (mut late, mut silent) = (Vec::new(), Vec::new());
    if status.size != size {
        late.push(format!("{} does not follow it yet", status.node.node));
        return (late, silent);
    }
    for (node, seen) in &status.peers {
        match seen {
            Fact::Known(seen) if seen.spec_digest == status.node.spec_digest => {}
            Fact::Known(_) => late.push(format!("{node} does not follow it yet")),
            Fact::Absent | Fact::Unreachable(_) => {
                silent.push(format!("{node} is silent: it reads the store when it is back"));
            }
        }
    }
    (late, silent)
}

/// The result of an order.
pub(super) fn ordered(view: &SizeView) -> String {
    let SizeView {
        size, before, place, ..
    } = view;
    if let Some(decision) = &view.decision {
        return format!(
            "Nothing was changed. {before} voters are wanted now ({place}); with {size}, the first decision would be:\n{}",
            decided(decision)
        );
    }
    if view.changed {
        format!("{size} voters are wanted ({place}); `etcd-agent plan` shows what follows\n")
    } else {
        format!("{size} voters were wanted already ({place})\n")
    }
}

/// Where the size is configured, and what to do.
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
    let interval = match (spec.backup_interval, &spec.backup.on_calendar) {
        (None, _) => "none".to_owned(),
        (Some(_), Some(calendar)) => format!("on {calendar} (UTC)"),
        (Some(time), None) => format!("every {}", humantime::format_duration(time)),
    };
    let shared = if spec.store_shared { ", shared store" } else { "" };
    let mut text = String::new();
    let binary = spec.etcd.binary.as_ref().map(|path| path.display().to_string());
    let log = spec.etcd.wal_dir.as_ref();
    let log = log.map_or_else(String::new, |dir| format!(", log in {}", dir.display()));
    let data = format!("{}{log}", spec.etcd.data_dir.display());
    let plain = spec.etcd.plain_client_port;
    let plain = plain.map(|port| format!("; port {port}, plain HTTP"));
    let rows = [
        ("cluster", spec.cluster.to_string()),
        ("node", spec.node.to_string()),
        ("size", format!("{} ({})", spec.size, spec.size_source)),
        ("nodes", nodes.join(", ")),
        ("grace", humantime::format_duration(spec.grace).to_string()),
        ("backups", format!("{interval}{shared}")),
        ("data", data),
        (
            "clients",
            format!(
                "port {}, {}{}",
                spec.etcd.client_port,
                tls(spec.etcd.client_tls.is_some()),
                plain.unwrap_or_default()
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

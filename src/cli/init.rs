//! `etcd-agent init`: a single node with local backups, from nothing and with no other input.

use std::io::ErrorKind;
use std::path::Path;

use serde::Serialize;

use super::client::Client;
use super::exit::{Exit, Failure, Outcome};
use super::health::{self, Health};
use super::out::{self, Format, Output};
use super::progress::Progress;
use super::wait::{self, Deadline};
use super::{running_etcd, status_view, systemd};
use crate::config;
use crate::model::{AdminStatus, NodeName};
use crate::paths::Paths;
use crate::unit::apply::refuse_fixed;
use crate::unit::{DataDirs, files};

/// What comes before the name of the log's directory.
const LOG: &str = "\n[etcd]\nwal_dir = ";

/// Make this host a single-node cluster with local backups
#[derive(Debug, clap::Args)]
pub(super) struct InitArgs {
    /// Give up waiting after this long, e.g. 90s or 10m; the work continues
    #[arg(long, value_name = "TIME", value_parser = super::wait::span, default_value = "2m")]
    timeout: std::time::Duration,
    #[command(flatten)]
    output: Output,
}

/// What was done, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Initialized {
    /// True if the configuration was written.
    pub(super) changed: bool,
    pub(super) node: NodeName,
    pub(super) message: String,
}

pub(super) async fn run(paths: &Paths, args: InitArgs) -> Outcome {
    let host = config::short_host_name();
    let node = NodeName::new(host).map_err(|error| {
        Failure::new(
            Exit::Usage,
            format!("the host name cannot serve as a node name: {error}"),
        )
    })?;
    let text = configuration(&node);
    let changed = write_wanted(paths, &text)?;
    if changed {
        let log = if runs_with_default_data(paths).await? {
            running_etcd::wal_dir_to_keep(paths, &config::default_data_dir(paths)?).await?
        } else {
            refuse_foreign_data(paths)?;
            None
        };
        let text = with_log(paths, text, log.as_deref())?;
        write(paths, &text)?;
    }
    systemd::enable_and_reload_agent().await?;
    let after = healthy(&Client::new(paths), &Deadline::after(args.timeout)).await?;
    if args.output.format == Format::Table {
        out::print_clean(&status_view::shown(&after, status_view::Form::Table)?)?;
        return Ok(Exit::Ok);
    }
    let done = Initialized {
        changed,
        message: format!("{node} is a healthy cluster of one, with a backup"),
        node,
    };
    args.output.print_own(&done, |done| done.message.clone())?;
    Ok(Exit::Ok)
}

/// The configuration that `init` writes.
pub(super) fn configuration(node: &NodeName) -> String {
    format!(
        "# Written by `etcd-agent init`: one node, local backups. It is yours to edit; see etcd-agent.toml(5).\n\
         [node]\n\
         name = \"{node}\"\n\
         \n\
         [cluster]\n\
         name = \"default\"\n\
         nodes = {{ \"{node}\" = \"{node}\" }}\n\
         \n\
         [store]\n\
         url = \"file:///var/lib/etcd-agent/backups\"\n"
    )
}

/// The configuration with the write-ahead log in this directory. Refuses a directory that the configuration
/// would not accept.
pub(super) fn with_log(paths: &Paths, text: String, log: Option<&Path>) -> Result<String, Failure> {
    let Some(log) = log else {
        return Ok(text);
    };
    let shown = log.display();
    let refused = |why: &str| {
        Failure::refused(format!(
            "etcd has its write-ahead log in {shown}, which etcd-agent cannot take over: {why}; move the log to a directory \
             next to it (`systemctl stop etcd`, `mv`, change ETCD_WAL_DIR, `systemctl start etcd`), then run init again"
        ))
    };
    let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let dirs = DataDirs::new(config::default_data_dir(paths)?, Some(log.to_owned()));
    refuse_fixed(&dirs, &mountinfo).map_err(|why| refused(&why))?;
    let quoted = log
        .to_str()
        .filter(|text| !text.contains(['"', '\\']) && !text.contains(char::is_control));
    let quoted =
        quoted.ok_or_else(|| refused("its name has characters that the configuration cannot have"))?;
    let text = format!("{text}{LOG}\"{quoted}\"\n");
    config::check_text(&text, paths).map_err(|problems| refused(&problems.one_line()))?;
    Ok(text)
}

/// False when an earlier `init` wrote the same configuration; refuses any other one.
pub(super) fn write_wanted(paths: &Paths, text: &str) -> Result<bool, Failure> {
    let existing = config::existing_files(paths)?;
    let own = paths.config_file();
    if existing.is_empty() {
        return Ok(true);
    }
    if existing == [own.clone()] && std::fs::read_to_string(&own).is_ok_and(|found| is_ours(&found, text)) {
        return Ok(false);
    }
    let names: Vec<String> = existing.iter().map(|file| file.display().to_string()).collect();
    Err(Failure::refused(format!(
        "this host is configured already ({}): init is for a host without a configuration; see `etcd-agent config show` \
         and `etcd-agent status`",
        names.join(", ")
    )))
}

/// What `init` has written, with or without a log that is elsewhere.
fn is_ours(found: &str, text: &str) -> bool {
    let rest = found.strip_prefix(text);
    rest.is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix(LOG).is_some_and(|dir| dir.lines().count() == 1)
    })
}

/// Refuses etcd data that does not belong to an assignment of this agent.
pub(super) fn refuse_foreign_data(paths: &Paths) -> Result<(), Failure> {
    if exists(&paths.assignment())? {
        return Ok(());
    }
    let data = paths.host(&config::default_data_dir(paths)?);
    if exists(&data.join("member"))? {
        let data = data.display();
        return Err(Failure::refused(format!(
            "{data} holds the data of an etcd that etcd-agent did not make, and init does not touch it; if nobody needs \
             it: `mv {data} {data}.old`, else `systemctl start etcd`, then run init again"
        )));
    }
    Ok(())
}

/// True when an etcd runs on the data directory of `etcd.service`: a cluster of one (Debian's `etcd-server`
/// starts one when it is installed) is taken over with its data, and the planner refuses anything larger.
/// Refuses an etcd that runs elsewhere, whose data would no longer be found at its next start.
async fn runs_with_default_data(paths: &Paths) -> Result<bool, Failure> {
    if exists(&paths.assignment())? {
        return Ok(false);
    }
    let state = systemd::active_state("etcd.service").await.map_err(|error| {
        Failure::failed(format!(
            "cannot ask systemd for the state of etcd.service: {error}"
        ))
    })?;
    if !matches!(state.as_str(), "active" | "activating" | "reloading") {
        return Ok(false);
    }
    let data = config::default_data_dir(paths)?;
    if exists(&paths.host(&data).join("member"))? {
        return Ok(true);
    }
    Err(Failure::refused(format!(
        "etcd.service is {state} with its data elsewhere than in {}: write /etc/etcd-agent/config.toml with that \
         etcd.data_dir by hand, or stop it if nobody needs it (`systemctl disable --now etcd`)",
        data.display()
    )))
}

fn exists(path: &Path) -> Result<bool, Failure> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(Failure::failed(format!(
            "cannot look at {}: {error}; run init as root",
            path.display()
        ))),
    }
}

fn write(paths: &Paths, text: &str) -> Result<(), Failure> {
    let file = paths.config_file();
    let made = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| files::write_atomic(&file, text.as_bytes(), 0o644))
        .map_err(|error| {
            Failure::failed(format!(
                "cannot write {}: {error}; run init as root",
                file.display()
            ))
        })
}

/// Waits until the cluster is healthy and has its first backup.
async fn healthy(client: &Client, deadline: &Deadline) -> Result<AdminStatus, Failure> {
    let mut progress = Progress::new();
    loop {
        match wait::status(client).await? {
            // It answers with what it knew before: that there is no configuration.
            Err(_) => progress.say("the agent reads its configuration"),
            Ok(status) => {
                let well = health::judge(&status) == Health::Healthy;
                if well && status.node.last_backup.is_some() {
                    return Ok(status);
                }
                let text = status.store_error.as_deref().unwrap_or(&status.decision.text);
                progress.say(if well {
                    "healthy, waiting for the first backup"
                } else {
                    text
                });
            }
        }
        deadline.next("init", &progress).await?;
    }
}

//! `etcd-agent discard-empty`: moves the data of the distribution's empty etcd away, and nothing else.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep, timeout};

use super::confirm::Yes;
use super::exit::{Exit, Failure, Outcome};
use super::out::Output;
use super::{running_etcd, systemd};
use crate::adapters::etcd::LocalEtcd;
use crate::config;
use crate::model::{Assignment, ClusterId, MemberId};
use crate::paths::Paths;
use crate::ports::Etcd;
use crate::unit::data::archive_empty;
use crate::unit::{DataDirs, files, wal};

const ETCD: &str = "etcd.service";
const CLIENT_PORT: u16 = 2379;
/// How long a call to systemd may take.
const ASK: Duration = Duration::from_secs(10);
/// How long etcd may take to stop. Its unit has systemd's default of 90 s.
const STOP: Duration = Duration::from_secs(100);
const LOOK: Duration = Duration::from_millis(100);
/// The revision of a store in which no key was ever written.
const NEVER_WRITTEN: u64 = 1;

/// Stop the empty etcd that a package started
///
/// Its data is moved into the archive next to the data directory.
#[derive(Debug, clap::Args)]
pub(super) struct DiscardArgs {
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    output: Output,
}

/// What was done.
#[derive(Debug, Serialize)]
pub(super) struct DiscardView {
    /// True if data was moved away.
    pub(super) changed: bool,
    /// The data directory.
    pub(super) data_dir: PathBuf,
    /// Where its content is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) archived: Option<PathBuf>,
    /// One line for people.
    pub(super) message: String,
}

pub(super) async fn run(paths: &Paths, args: DiscardArgs) -> Outcome {
    let settings = config::load_here(paths)?.map(|loaded| loaded.settings);
    let etcd = settings.as_ref().map(|settings| &settings.spec.etcd);
    let data_dir = match etcd {
        Some(etcd) => etcd.data_dir.clone(),
        None => config::default_data_dir(paths)?,
    };
    let port = etcd.map_or(CLIENT_PORT, |etcd| etcd.client_port);
    // The distribution's etcd does not have the settings of the configuration yet.
    let log = match running_etcd::wal_dir(&data_dir).await {
        Ok(log) => log,
        Err(_) => etcd.and_then(|etcd| etcd.wal_dir.clone()),
    };
    let dirs = DataDirs::new(paths.host(&data_dir), log.map(|dir| paths.host(&dir)));
    let view = discard(paths, &dirs, port, args.yes).await?;
    args.output
        .print_own(&view, |view| format!("{}\n", view.message))?;
    Ok(Exit::Ok)
}

async fn discard(paths: &Paths, dirs: &DataDirs, port: u16, yes: Yes) -> Result<DiscardView, Failure> {
    let data_dir = dirs.data().to_owned();
    let shown = data_dir.display().to_string();
    let nothing = |why: String| DiscardView {
        changed: false,
        data_dir: data_dir.clone(),
        archived: None,
        message: format!("Nothing to discard: {why}."),
    };
    if !holds_data(&data_dir)? {
        refuse_log_alone(paths, dirs)?;
        return Ok(nothing(format!("{shown} holds no data")));
    }
    let owner = wal::identify(&dirs.log());
    let (cluster_id, member_id) = owner.map_err(|error| refused(&format!("{shown}: {error}")))?;
    if is_the_agents(paths, cluster_id, member_id)? {
        return Ok(nothing(format!(
            "{shown} is of member {member_id}, which the agent manages"
        )));
    }
    is_empty(port, cluster_id, member_id).await?;
    yes.ask(&format!(
        "etcd.service is stopped, and its empty data in {shown} is moved into the archive."
    ))?;
    stop_etcd().await?;
    let archived = archive_empty(dirs).map_err(|error| {
        Failure::failed(format!(
            "etcd.service is stopped, and its data could not be moved away: {error}; `systemctl start etcd` starts it again"
        ))
    })?;
    let place = archived
        .as_ref()
        .map_or_else(String::new, |to| format!(" to {}", to.display()));
    Ok(DiscardView {
        changed: true,
        message: format!("The empty etcd is stopped, and its data is moved{place}."),
        data_dir,
        archived,
    })
}

/// Refuses a log without data that is not the agent's: an earlier run may have died after it had moved the data.
fn refuse_log_alone(paths: &Paths, dirs: &DataDirs) -> Result<(), Failure> {
    let Some(log) = dirs.wal().filter(|log| wal::is_there(log).unwrap_or(true)) else {
        return Ok(());
    };
    let owner = wal::identify(log).ok();
    if let Some((cluster_id, member_id)) = owner
        && is_the_agents(paths, cluster_id, member_id)?
    {
        return Ok(());
    }
    Err(refused(&format!(
        "{} has a log, and there is no data of it in {}: move it away by hand",
        log.display(),
        dirs.data().display()
    )))
}

fn refused(why: &str) -> Failure {
    Failure::refused(format!("{why}: nothing was changed"))
}

fn holds_data(data_dir: &Path) -> Result<bool, Failure> {
    match std::fs::read_dir(data_dir) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::failed(format!(
            "cannot look into {}: {error}; run discard-empty as root",
            data_dir.display()
        ))),
    }
}

/// True if the agent has this member in its state.
fn is_the_agents(paths: &Paths, cluster_id: ClusterId, member_id: MemberId) -> Result<bool, Failure> {
    let path = paths.assignment();
    let failed = |why: String| Failure::failed(format!("{}: {why}", path.display()));
    let Some(body) = files::read_bounded(&path).map_err(|error| failed(error.to_string()))? else {
        return Ok(false);
    };
    let assigned: Assignment = serde_json::from_slice(&body).map_err(|error| failed(error.to_string()))?;
    Ok(assigned.is_of(cluster_id, member_id))
}

/// Checks that the etcd of this data has one member, and that neither a key nor a user was ever written.
async fn is_empty(port: u16, cluster_id: ClusterId, member_id: MemberId) -> Result<(), Failure> {
    let url = format!("http://127.0.0.1:{port}");
    let etcd = LocalEtcd::at_url(&url, None).map_err(Failure::failed)?;
    let unknown = |error: &dyn std::fmt::Display| {
        refused(&format!(
            "it is not known whether etcd is empty, because it does not answer at {url} ({error}); `systemctl start etcd` \
             if it is stopped, or move its data away by hand"
        ))
    };
    let status = etcd.status().await.map_err(|error| unknown(&error))?;
    if (status.cluster_id, status.member_id) != (cluster_id, member_id) {
        return Err(refused(&format!(
            "the etcd at {url} is member {}, and the data is of member {member_id}",
            status.member_id
        )));
    }
    if status.revision.0 > NEVER_WRITTEN {
        return Err(refused(&format!(
            "the etcd at {url} is in use: keys were written (revision {})",
            status.revision
        )));
    }
    let members = etcd.members(false).await.map_err(|error| unknown(&error))?;
    if members.members.len() != 1 {
        return Err(refused(&format!(
            "the etcd at {url} is in use: its cluster has {} members",
            members.members.len()
        )));
    }
    if etcd.has_had_users().await.map_err(|error| unknown(&error))? {
        return Err(refused(&format!(
            "the etcd at {url} is in use: it has, or had, users or roles"
        )));
    }
    Ok(())
}

/// Stops `etcd.service` and waits until it is down.
async fn stop_etcd() -> Result<(), Failure> {
    ask(systemd::stop(ETCD)).await?;
    let until = Instant::now() + STOP;
    loop {
        let state = ask(systemd::active_state(ETCD)).await?;
        if matches!(state.as_str(), "inactive" | "failed") {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(not_stopped(&format!("it is {state}")));
        }
        sleep(LOOK).await;
    }
}

/// The answer of systemd to a call of the stop.
async fn ask<T>(call: impl Future<Output = zbus::Result<T>>) -> Result<T, Failure> {
    timeout(ASK, call)
        .await
        .map_err(|_| not_stopped("no answer"))?
        .map_err(|error| not_stopped(&error.to_string()))
}

fn not_stopped(why: &str) -> Failure {
    Failure::failed(format!(
        "systemd does not stop etcd.service ({why}): `systemctl stop etcd`, then run discard-empty again"
    ))
}

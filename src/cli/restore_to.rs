//! `etcd-agent restore --to DIR`: builds a data directory from a backup, to inspect it or to start an etcd on
//! it. It needs no agent and changes no cluster.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::config::load;
use super::exit::{Exit, Failure, Outcome};
use super::out::Output;
use super::progress::Progress;
use super::wait;
use crate::adapters::store::open_backups;
use crate::backup;
use crate::config::Settings;
use crate::model::{BackupId, BackupSummary, RestoreTarget, Revision};
use crate::paths::Paths;
use crate::ports::ObjectStore;
use crate::unit::data::build_data_dir;

/// The backup to restore, and the directory to create.
pub(super) struct Target<'a> {
    /// A backup's name, or `latest`.
    pub(super) backup: &'a str,
    /// A point in time, or a revision. Default: the named backup itself, or the newest point for `latest`.
    pub(super) wanted: Option<RestoreTarget>,
    /// The directory to create.
    pub(super) dir: &'a Path,
    /// Passed to `etcdutl snapshot restore`.
    pub(super) more: &'a [String],
    /// The form of the answer.
    pub(super) output: Output,
}

/// The directory that was built, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Built {
    pub(super) changed: bool,
    pub(super) data_dir: PathBuf,
    /// The backup that it holds.
    pub(super) backup: BackupId,
    pub(super) revision: Revision,
    pub(super) message: String,
}

pub(super) async fn run(paths: &Paths, target: &Target<'_>) -> Outcome {
    let stop = wait::interrupted()?;
    run_until(paths, target, stop).await
}

/// As [`run`], but ends at `stop`, and then removes everything that was fetched and built.
pub(super) async fn run_until(paths: &Paths, target: &Target<'_>, stop: impl Future<Output = ()>) -> Outcome {
    let mut stop = std::pin::pin!(stop);
    let parent = free_place(target.dir)?;
    let settings = load(paths)?.settings;
    let store = settings
        .store
        .as_ref()
        .ok_or_else(|| Failure::new(Exit::Usage, "no store is configured: set store.url"))?;
    let store =
        open_backups(store, &settings.encryption).map_err(|error| Failure::failed(error.to_string()))?;
    let mut progress = Progress::new();
    progress.say(&format!("looking for it in {}", store.describe()));
    let point = chosen(store.as_ref(), &settings, target).await?;

    // In the same file system, so that the complete directory is moved by a rename.
    let scratch = tempfile::Builder::new()
        .prefix(".etcd-agent-restore-")
        .tempdir_in(&parent)
        .map_err(|error| cannot_write(&parent, &error))?;
    progress.say(&format!("fetching {}", point.id));
    let cluster = &settings.spec.cluster;
    let fetched = tokio::select! {
        fetched = backup::fetch(store.as_ref(), cluster, &point.id, scratch.path()) => fetched,
        () = &mut stop => return Err(interrupted()),
    };
    let fetched = fetched.map_err(|error| Failure::failed(error.to_string()))?;
    progress.say(&format!("building {}", target.dir.display()));
    let built = scratch.path().join("data");
    let (etcd, to, more) = (
        settings.spec.etcd.binary.clone(),
        built.clone(),
        target.more.to_vec(),
    );
    let mut building = tokio::task::spawn_blocking(move || {
        build_data_dir::build(etcd.as_deref(), &fetched.path, &to, &more)
    });
    let building = tokio::select! {
        built = &mut building => built,
        () = &mut stop => {
            // Ctrl-C ends the tool as well. Until then it writes files that have to be removed.
            let _ = building.await;
            return Err(interrupted());
        }
    };
    let (cluster_id, member_id) = building
        .map_err(|error| Failure::failed(format!("the restore's worker ended early: {error}")))?
        .map_err(Failure::failed)?;
    settle(&built, target.dir, &parent).map_err(|error| cannot_write(target.dir, &error))?;
    drop(progress);
    let message = format!(
        "{} holds {} at revision {}: member {member_id} of cluster {cluster_id}, taken by etcd {}",
        target.dir.display(),
        point.id,
        point.revision,
        fetched.etcd_version,
    );
    let built = Built {
        changed: true,
        data_dir: target.dir.to_owned(),
        backup: point.id,
        revision: point.revision,
        message,
    };
    target
        .output
        .print_own(&built, |built| format!("{}\n", built.message))?;
    Ok(Exit::Ok)
}

fn interrupted() -> Failure {
    Failure::failed("interrupted: nothing was built, and what was fetched is removed")
}

/// The parent of a path that does not exist yet.
fn free_place(dir: &Path) -> Result<PathBuf, Failure> {
    let refuse = |why: String| {
        Err(Failure::new(
            Exit::Usage,
            format!("--to {}: {why}", dir.display()),
        ))
    };
    match fs::read_dir(dir).map(|mut entries| entries.next().is_some()) {
        Ok(true) => return refuse("it exists and is not empty: name one that does not exist yet".to_owned()),
        Ok(false) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return refuse(error.to_string()),
    }
    let parent = match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return refuse("it is the root directory".to_owned()),
    };
    if !parent.is_dir() {
        return refuse(format!("{} does not exist: create it first", parent.display()));
    }
    Ok(parent.to_owned())
}

/// The backup or the point to restore; `latest` is the newest point.
async fn chosen(
    store: &dyn ObjectStore,
    settings: &Settings,
    target: &Target<'_>,
) -> Result<BackupSummary, Failure> {
    let cluster = &settings.spec.cluster;
    let failed = |error: crate::ports::PortError| Failure::failed(error.to_string());
    if target.backup == "latest" {
        let wanted = target.wanted.unwrap_or(RestoreTarget::Latest);
        return backup::find(store, cluster, None, wanted).await.map_err(failed);
    }
    let id = BackupId::new(target.backup).map_err(|error| Failure::new(Exit::Usage, error))?;
    let wanted = target.wanted.unwrap_or(RestoreTarget::Full);
    backup::find(store, cluster, Some(&id), wanted)
        .await
        .map_err(failed)
}

/// Moves the complete directory to its path, atomically.
fn settle(built: &Path, dir: &Path, parent: &Path) -> io::Result<()> {
    fs::rename(built, dir)?;
    fs::File::open(parent)?.sync_all()
}

fn cannot_write(at: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", at.display()))
}

//! Restores a snapshot next to the data directory. Nothing is replaced, and a complete restore has a marker.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::owner::{Owner, parent};
use super::tool;
use crate::bolt::compare::difference;
use crate::model::{BackupId, ClusterId, Epoch, MemberId, NodeName};
use crate::ports::{DataRequest, STAGE_WITHIN};
use crate::unit::{DataDirs, files, wal};

/// Revisions of the restored cluster start this much higher, so that no watcher sees a revision go backwards.
const BUMP: &str = "1000000000";
/// The tool is stopped before the agent gives up, so that it is not running at the next attempt.
const TOOL_WITHIN: Duration = STAGE_WITHIN.saturating_sub(Duration::from_mins(5));

/// The content of a staged directory. It is written last, next to the directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marker {
    pub(super) epoch: Epoch,
    pub(super) backup: BackupId,
    pub(super) cluster_id: ClusterId,
    pub(super) member_id: MemberId,
    /// The inode of the staged data directory, by which it is known again in its place.
    pub(super) inode: u64,
}

/// How far a complete restore is swapped in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Swap {
    /// It is next to the data directory, and its log next to that of the member.
    Ahead,
    /// The data is in place, and its log, which is elsewhere, is still staged.
    Half,
    /// All is in place.
    Done,
}

/// What is staged for a directory has this before its epoch.
fn prefix(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    format!("{name}.etcd-agent-staged-")
}

fn staged(dir: &Path, epoch: Epoch) -> PathBuf {
    dir.with_file_name(format!("{}{epoch}", prefix(dir)))
}

/// Where an epoch's restore is staged, and its log if that is elsewhere.
pub(super) fn dirs(owner: &Owner, epoch: Epoch) -> DataDirs {
    let log = owner.dirs.wal().map(|dir| staged(dir, epoch));
    DataDirs::new(staged(owner.dirs.data(), epoch), log)
}

/// Its marker.
pub(super) fn marker_path(owner: &Owner, epoch: Epoch) -> PathBuf {
    let dir = owner.dirs.data();
    dir.with_file_name(format!("{}{epoch}.json", prefix(dir)))
}

/// An epoch's marker, whether or not its directory is still there.
pub(super) fn marker(owner: &Owner, epoch: Epoch) -> Option<Marker> {
    let body = files::read_bounded(&marker_path(owner, epoch)).ok()??;
    serde_json::from_slice::<Marker>(&body)
        .ok()
        .filter(|marker| marker.epoch == epoch)
}

/// How far the restore of this marker is swapped in; `None` if it is not complete.
pub(super) fn swap(owner: &Owner, marker: &Marker) -> Option<Swap> {
    let staged = dirs(owner, marker.epoch);
    let is_its =
        |log: &Path| wal::identify(log).is_ok_and(|ids| ids == (marker.cluster_id, marker.member_id));
    let is_the_data = |dir: &Path| fs::metadata(dir).is_ok_and(|meta| meta.ino() == marker.inode);
    if is_the_data(staged.data()) {
        return is_its(&staged.log()).then_some(Swap::Ahead);
    }
    if !is_the_data(owner.dirs.data()) {
        return None;
    }
    if is_its(&owner.dirs.log()) {
        return Some(Swap::Done);
    }
    let staged = staged.wal().is_some_and(is_its);
    staged.then_some(Swap::Half)
}

/// The restore of an epoch that is complete and not in place yet.
pub(super) fn complete(owner: &Owner, epoch: Epoch) -> Option<Marker> {
    let marker = marker(owner, epoch)?;
    let swap = swap(owner, &marker)?;
    (swap != Swap::Done).then_some(marker)
}

/// The newest complete staged restore.
pub(super) fn newest(owner: &Owner) -> Option<(Epoch, BackupId)> {
    let mut epochs = staged_epochs(owner).ok()?;
    epochs.sort_unstable();
    epochs
        .into_iter()
        .rev()
        .find_map(|epoch| complete(owner, epoch).map(|marker| (epoch, marker.backup)))
}

/// Every epoch with a staged restore, complete or not, or with a rest of it.
fn staged_epochs(owner: &Owner) -> Result<Vec<Epoch>, String> {
    let mut epochs = Vec::new();
    for dir in [Some(owner.dirs.data()), owner.dirs.wal()].into_iter().flatten() {
        let (parent, prefix) = (parent(dir)?, prefix(dir));
        let entries = fs::read_dir(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        epochs.extend(entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let rest = name.strip_prefix(&prefix)?;
            let number = [".json", ".tmp"].iter().find_map(|end| rest.strip_suffix(end));
            number.unwrap_or(rest).parse().ok().map(Epoch)
        }));
    }
    epochs.sort_unstable();
    epochs.dedup();
    Ok(epochs)
}

/// Removes what is staged for an epoch: the marker first, so that an interrupted removal does not look like a
/// complete restore.
fn remove(owner: &Owner, epoch: Epoch) -> Result<(), String> {
    let (dirs, marker) = (dirs(owner, epoch), marker_path(owner, epoch));
    let failed = |path: &Path, error: &io::Error| format!("removing {}: {error}", path.display());
    files::remove_file(&marker).map_err(|error| failed(&marker, &error))?;
    files::sync_dir(parent(&marker)?).map_err(|error| failed(&marker, &error))?;
    // etcd's tool makes the log under the second of these names.
    let log = dirs
        .wal()
        .map(|dir| [dir.to_owned(), dir.with_added_extension("tmp")]);
    for dir in log.into_iter().flatten().chain([dirs.data().to_owned()]) {
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&dir, &error)),
            _ => {}
        }
    }
    Ok(())
}

/// Restores the requested snapshot next to the data directory. Does nothing when exactly that is staged.
pub(super) fn stage(owner: &Owner, request: &DataRequest) -> Result<(), String> {
    let DataRequest::Stage {
        epoch,
        backup,
        snapshot_file,
        name,
        initial_cluster,
        token,
        cluster_id,
        member_id,
        continues,
    } = request
    else {
        return Err("not a request to stage".to_owned());
    };
    let is_wanted = |marker: &Marker| {
        (&marker.backup, marker.cluster_id, marker.member_id) == (backup, *cluster_id, *member_id)
    };
    if complete(owner, *epoch).as_ref().is_some_and(is_wanted) {
        return Ok(());
    }
    if snapshot_file.is_empty() || snapshot_file.contains('/') || snapshot_file.starts_with('.') {
        return Err(format!("{snapshot_file:?} is not a plain file name"));
    }
    let snapshot = owner.restore.join(snapshot_file);
    if !fs::symlink_metadata(&snapshot).is_ok_and(|meta| meta.is_file()) {
        return Err(format!("{} is not there", snapshot.display()));
    }
    let own_urls = initial_cluster
        .get(name)
        .ok_or_else(|| format!("{name} is not in the initial cluster"))?;
    let tool = if *continues {
        owner.tools.own_restore_tool()?
    } else {
        owner.tools.restore_tool()?
    };
    // Any other staged restore is of a former epoch, of another backup, or incomplete.
    for old in staged_epochs(owner)? {
        remove(owner, old)?;
    }
    let target = dirs(owner, *epoch);
    let mut args = vec![
        "snapshot".to_owned(),
        "restore".to_owned(),
        snapshot.display().to_string(),
        format!("--data-dir={}", target.data().display()),
        format!("--name={name}"),
        format!("--initial-cluster={}", cluster_flag(initial_cluster)),
        format!("--initial-cluster-token={token}"),
        format!("--initial-advertise-peer-urls={}", own_urls.join(",")),
    ];
    if let Some(log) = target.wal() {
        args.push(format!("--wal-dir={}", log.display()));
    }
    if !continues && tool::bumps(&tool)? {
        args.push(format!("--bump-revision={BUMP}"));
        args.push("--mark-compacted".to_owned());
    }
    tool::run(&tool, &args, TOOL_WITHIN)?;
    let found = wal::identify(&target.log()).map_err(|error| error.to_string())?;
    if found != (*cluster_id, *member_id) {
        return Err(format!(
            "the restored data is of member {} of cluster {}, expected member {member_id} of cluster {cluster_id}",
            found.1, found.0
        ));
    }
    if *continues {
        compare(&snapshot, &target.database())?;
    }
    let failed = |error: io::Error| format!("{}: {error}", target.data().display());
    let marker = Marker {
        epoch: *epoch,
        backup: backup.clone(),
        cluster_id: *cluster_id,
        member_id: *member_id,
        inode: fs::metadata(target.data()).map_err(failed)?.ino(),
    };
    finish(owner, &marker).map_err(failed)
}

/// Compares what clients had stored in the snapshot with the restored database.
fn compare(snapshot: &Path, restored: &Path) -> Result<(), String> {
    let open = |path: &Path| fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()));
    let found = difference(&open(snapshot)?, &open(restored)?);
    match found.map_err(|error| format!("{}: {error}", restored.display()))? {
        None => Ok(()),
        Some(what) => Err(format!(
            "the restored data is not that of {}: {what}",
            snapshot.display()
        )),
    }
}

/// Syncs the restore to disk, then writes the marker.
pub(super) fn finish(owner: &Owner, marker: &Marker) -> io::Result<()> {
    let dirs = dirs(owner, marker.epoch);
    for dir in [Some(dirs.data()), dirs.wal()].into_iter().flatten() {
        rustix::fs::syncfs(fs::File::open(dir)?)?;
    }
    let body = serde_json::to_vec_pretty(marker)?;
    files::write_atomic(&marker_path(owner, marker.epoch), &body, 0o644)
}

/// `n1=http://n1:2380,n2=http://n2:2380`; a member with two URLs is listed twice, as etcd requires.
fn cluster_flag(members: &std::collections::BTreeMap<NodeName, Vec<String>>) -> String {
    let pairs: Vec<String> = members
        .iter()
        .flat_map(|(name, urls)| urls.iter().map(move |url| format!("{name}={url}")))
        .collect();
    pairs.join(",")
}

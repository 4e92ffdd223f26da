//! Restores a snapshot next to the data directory. Nothing is replaced, and a complete restore has a marker.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::owner::Owner;
use super::tool;
use crate::bolt::compare::difference;
use crate::model::{BackupId, ClusterId, Epoch, MemberId, NodeName};
use crate::ports::{DataRequest, STAGE_WITHIN};
use crate::unit::{files, wal};

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
}

/// `<data_dir>.etcd-agent-staged-`
fn prefix(owner: &Owner) -> String {
    let name = owner.data_dir.file_name().unwrap_or_default().to_string_lossy();
    format!("{name}.etcd-agent-staged-")
}

/// Where an epoch's restore is staged.
pub(super) fn dir(owner: &Owner, epoch: Epoch) -> PathBuf {
    owner.data_dir.with_file_name(format!("{}{epoch}", prefix(owner)))
}

/// Its marker.
pub(super) fn marker_path(owner: &Owner, epoch: Epoch) -> PathBuf {
    owner
        .data_dir
        .with_file_name(format!("{}{epoch}.json", prefix(owner)))
}

/// An epoch's marker, whether or not its directory is still there.
pub(super) fn marker(owner: &Owner, epoch: Epoch) -> Option<Marker> {
    let body = files::read_bounded(&marker_path(owner, epoch)).ok()??;
    serde_json::from_slice::<Marker>(&body)
        .ok()
        .filter(|marker| marker.epoch == epoch)
}

/// The complete staged restore of an epoch.
pub(super) fn complete(owner: &Owner, epoch: Epoch) -> Option<Marker> {
    let marker = marker(owner, epoch)?;
    let ids = wal::identify(&dir(owner, epoch).join("member/wal")).ok()?;
    (ids == (marker.cluster_id, marker.member_id)).then_some(marker)
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

/// Every epoch with a staged restore, complete or not.
fn staged_epochs(owner: &Owner) -> Result<Vec<Epoch>, String> {
    let parent = owner.parent()?;
    let prefix = prefix(owner);
    let entries = fs::read_dir(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    let mut epochs: Vec<Epoch> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let rest = name.strip_prefix(&prefix)?;
            rest.strip_suffix(".json").unwrap_or(rest).parse().ok().map(Epoch)
        })
        .collect();
    epochs.sort_unstable();
    epochs.dedup();
    Ok(epochs)
}

/// Removes what is staged for an epoch: the marker first, so that an interrupted removal does not look like a
/// complete restore.
fn remove(owner: &Owner, epoch: Epoch) -> Result<(), String> {
    let (dir, marker) = (dir(owner, epoch), marker_path(owner, epoch));
    let failed = |path: &Path, error: &io::Error| format!("removing {}: {error}", path.display());
    files::remove_file(&marker).map_err(|error| failed(&marker, &error))?;
    files::sync_dir(owner.parent()?).map_err(|error| failed(&marker, &error))?;
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&dir, &error)),
        _ => Ok(()),
    }
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
    let wanted = Marker {
        epoch: *epoch,
        backup: backup.clone(),
        cluster_id: *cluster_id,
        member_id: *member_id,
    };
    if complete(owner, *epoch).as_ref() == Some(&wanted) {
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
    let target = dir(owner, *epoch);
    let mut args = vec![
        "snapshot".to_owned(),
        "restore".to_owned(),
        snapshot.display().to_string(),
        format!("--data-dir={}", target.display()),
        format!("--name={name}"),
        format!("--initial-cluster={}", cluster_flag(initial_cluster)),
        format!("--initial-cluster-token={token}"),
        format!("--initial-advertise-peer-urls={}", own_urls.join(",")),
    ];
    if !continues && tool::bumps(&tool)? {
        args.push(format!("--bump-revision={BUMP}"));
        args.push("--mark-compacted".to_owned());
    }
    tool::run(&tool, &args, TOOL_WITHIN)?;
    let found = wal::identify(&target.join("member/wal")).map_err(|error| error.to_string())?;
    if found != (*cluster_id, *member_id) {
        return Err(format!(
            "the restored data is of member {} of cluster {}, expected member {member_id} of cluster {cluster_id}",
            found.1, found.0
        ));
    }
    if *continues {
        compare(&snapshot, &target.join("member/snap/db"))?;
    }
    finish(owner, &wanted).map_err(|error| format!("{}: {error}", target.display()))
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
    rustix::fs::syncfs(fs::File::open(dir(owner, marker.epoch))?)?;
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

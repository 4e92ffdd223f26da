//! Moves the data directory into the archive, and a staged restore into its place. A log that is elsewhere
//! goes with its data.
//!
//! Each step is one rename, which is on disk before the next one, and each can be the last before a crash.
//! The order is: the old data, its log, the new data, its log, the marker. So a log is never in its place
//! with data of another member, and a new log never without its data. The next run finishes what the last one
//! began, and never archives a swapped directory again for the old request.

use std::path::Path;

use super::ages::Moment;
use super::owner::Owner;
use super::stage::{self, Swap};
use super::{archive, archive_prune, inspect, moves};
use crate::model::{ClusterId, Epoch, MemberId};
use crate::unit::{files, journal};

/// Replaces the data directory for an epoch. Only the data of `whose` is moved: an operator may have put
/// other data there since the agent decided.
pub(super) fn replace(
    owner: &Owner,
    epoch: Epoch,
    why: &str,
    staged: bool,
    whose: (ClusterId, MemberId),
) -> Result<(), String> {
    let now = (owner.now)();
    // Before anything is moved, check that the staged restore is complete.
    let swap = if staged {
        Some(incoming(owner, epoch)?)
    } else {
        None
    };
    if matches!(swap, None | Some(Swap::Ahead)) {
        put_away(owner, why, whose, &now)?;
    }
    let from = stage::dirs(owner, epoch);
    if swap == Some(Swap::Ahead) {
        swap_in(from.data(), owner.dirs.data())?;
    }
    if matches!(swap, Some(Swap::Ahead | Swap::Half))
        && let (Some(log), Some(target)) = (from.wal(), owner.dirs.wal())
    {
        swap_in(log, target)?;
    }
    if staged {
        finished(owner, epoch)?;
    }
    archive_prune::prune(owner, &now)
}

fn put_away(owner: &Owner, why: &str, whose: (ClusterId, MemberId), now: &Moment) -> Result<(), String> {
    let shown = owner.dirs.data().display();
    if let Some((cluster_id, member_id)) = inspect::inspect(owner)?.whose()
        && (cluster_id, member_id) != whose
    {
        return Err(format!(
            "{shown} now holds member {member_id} of cluster {cluster_id}, expected member {} of cluster {}: \
             nothing was moved",
            whose.1, whose.0
        ));
    }
    if let Some(path) = archive::put(&owner.dirs, why, now)? {
        journal::say(&format!(
            "{shown} was moved to {} ({why}); nothing was deleted",
            path.display()
        ));
    }
    Ok(())
}

/// An empty directory may be in the way; rename(2) replaces an empty directory, and nothing else.
fn swap_in(dir: &Path, target: &Path) -> Result<(), String> {
    moves::rename(dir, target)
        .map_err(|error| format!("renaming {} to {}: {error}", dir.display(), target.display()))
}

/// How far the staged restore is swapped in.
fn incoming(owner: &Owner, epoch: Epoch) -> Result<Swap, String> {
    let marker = stage::marker(owner, epoch)
        .ok_or_else(|| format!("no complete restore is staged for epoch {epoch}: nothing was moved"))?;
    stage::swap(owner, &marker).ok_or_else(|| {
        format!("the restore staged for epoch {epoch} is damaged: nothing was moved, stage it again")
    })
}

/// The marker is removed last, so that a run after a crash knows what happened.
fn finished(owner: &Owner, epoch: Epoch) -> Result<(), String> {
    let marker = stage::marker_path(owner, epoch);
    files::remove_file(&marker)
        .and_then(|()| files::sync_dir(marker.parent().unwrap_or(&marker)))
        .map_err(|error| format!("removing {}: {error}", marker.display()))
}

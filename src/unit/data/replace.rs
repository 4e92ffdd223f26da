//! Moves the data directory into the archive, and a staged restore into its place.
//!
//! Each step is one rename, and each can be the last before a crash: the next run finishes a swap after an
//! archival, and never archives a swapped directory again for the old request.

use std::fs;

use super::owner::Owner;
use super::{archive, inspect, stage};
use crate::model::{ClusterId, DataState, Epoch, MemberId};
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
    // Before anything is moved, check that the staged restore is complete.
    let incoming = if staged {
        match incoming(owner, epoch)? {
            None => return finished(owner, epoch),
            incoming => incoming,
        }
    } else {
        None
    };
    if let Some((cluster_id, member_id)) = inspect::inspect(owner)?.member()
        && (cluster_id, member_id) != whose
    {
        return Err(format!(
            "{} now holds member {member_id} of cluster {cluster_id}, expected member {} of cluster {}: \
             nothing was moved",
            owner.data_dir.display(),
            whose.1,
            whose.0
        ));
    }
    let now = (owner.now)();
    if let Some(path) = archive::put(owner, why, &now)? {
        journal::say(&format!(
            "{} was moved to {} ({why}); nothing was deleted",
            owner.data_dir.display(),
            path.display()
        ));
    }
    if let Some(dir) = incoming {
        // An empty directory may be in the way; rename(2) replaces an empty directory, and nothing else.
        fs::rename(&dir, &owner.data_dir).map_err(|error| {
            format!(
                "renaming {} to {}: {error}",
                dir.display(),
                owner.data_dir.display()
            )
        })?;
        files::sync_dir(owner.parent()?).map_err(|error| error.to_string())?;
        finished(owner, epoch)?;
    }
    archive::prune(owner, &now)
}

/// The staged directory to swap in; `None` when it is in place already.
fn incoming(owner: &Owner, epoch: Epoch) -> Result<Option<std::path::PathBuf>, String> {
    if stage::complete(owner, epoch).is_some() {
        return Ok(Some(stage::dir(owner, epoch)));
    }
    let marker = stage::marker(owner, epoch)
        .ok_or_else(|| format!("no complete restore is staged for epoch {epoch}: nothing was moved"))?;
    match inspect::inspect(owner)? {
        DataState::Present {
            cluster_id,
            member_id,
        } if (cluster_id, member_id) == (marker.cluster_id, marker.member_id) => Ok(None),
        _ => Err(format!(
            "the restore staged for epoch {epoch} is damaged: nothing was moved, stage it again"
        )),
    }
}

/// The marker is removed last, so that a run after a crash knows what happened.
fn finished(owner: &Owner, epoch: Epoch) -> Result<(), String> {
    let marker = stage::marker_path(owner, epoch);
    files::remove_file(&marker)
        .and_then(|()| files::sync_dir(marker.parent().unwrap_or(&marker)))
        .map_err(|error| format!("removing {}: {error}", marker.display()))
}

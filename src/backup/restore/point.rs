//! Points that can be restored: a full backup, or a revision that its increments lead to.
//!
//! A point is named `<backup>.r<revision>`. Agents exchange only the name, and each builds the same database
//! from it.

use crate::model::{
    BackupId, BackupSummary, ClusterName, IdError, RestoreTarget, Revision, StoredBackup, UnixMs,
};
use crate::ports::{ObjectStore, PortError, PortResult};

use crate::backup::increments::increment::Increment;
use crate::backup::increments::read::read;
use crate::backup::store::catalogue::{Part, unverified};
use crate::backup::store::chain::{self, Range};
use crate::backup::store::layout::{BackupName, INCREMENTS, Layout};

/// A full backup, and up to which revision its increments are added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// The full backup.
    pub backup: BackupId,
    /// The revision; `None` for the full alone.
    pub until: Option<Revision>,
}

impl Point {
    /// Parses a name; a name without a revision is that of a full backup.
    pub fn parse(id: &BackupId) -> Self {
        let split = id.as_str().rsplit_once(".r").and_then(|(backup, revision)| {
            let number: u64 = revision.parse().ok()?;
            let plain = number.to_string() == revision;
            Some((BackupId::new(backup).ok().filter(|_| plain)?, Revision(number)))
        });
        match split {
            Some((backup, until)) => Self {
                backup,
                until: Some(until),
            },
            None => Self {
                backup: id.clone(),
                until: None,
            },
        }
    }

    /// Its name.
    ///
    /// # Errors
    /// Never for the name of a backup.
    pub fn id(&self) -> Result<BackupId, IdError> {
        match self.until {
            Some(until) => BackupId::new(format!("{}.r{until}", self.backup)),
            None => Ok(self.backup.clone()),
        }
    }
}

/// Finds the point for a target, in this backup or in the most suitable one.
///
/// # Errors
/// What the store answered; permanent when nothing in the store leads to the target. The text says how to
/// find what does.
pub async fn find(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    backup: Option<&BackupId>,
    wanted: RestoreTarget,
) -> PortResult<BackupSummary> {
    let layout = Layout::of(store, cluster);
    let part = backup.cloned().map_or(Part::All, Part::Only);
    let known = unverified(store, cluster, &part).await?;
    let mut candidates = known.backups;
    let living = candidates.iter().filter_map(StoredBackup::history).max();
    let fits = |b: &StoredBackup| match wanted {
        RestoreTarget::Latest | RestoreTarget::Full => true,
        RestoreTarget::Revision(until) => {
            b.revision_at_most.is_some_and(|most| most <= until) && until <= b.covered
        }
        RestoreTarget::Time(time) => b.summary.at <= time,
    };
    let nothing = |why: String| PortError::Permanent(format!("{}: {why}", store.describe()));
    if let (Some(id), [(_, why)]) = (backup, known.unreadable.as_slice()) {
        return Err(nothing(format!("backup {id} cannot be read: {why}")));
    }
    candidates.retain(fits);
    let Some(newest) = StoredBackup::latest(&candidates).cloned() else {
        return Err(nothing(match wanted {
            RestoreTarget::Latest | RestoreTarget::Full => match backup {
                Some(id) => format!("there is no backup {id}: see `etcd-agent backup list`"),
                None => "there is no backup that can be read: see `etcd-agent backup list`".to_owned(),
            },
            RestoreTarget::Revision(revision) => format!(
                "no backup with its increments leads to revision {revision}; `etcd-agent backup list` shows what each covers"
            ),
            RestoreTarget::Time(_) => "there was no such backup yet at that time; `etcd-agent backup list` shows when each was taken".to_owned(),
        }));
    };
    // Unreadable is not absent: a newer backup may hold what this one does not.
    let until = |id: &BackupId| match wanted {
        RestoreTarget::Time(time) => BackupName::begun(id).is_none_or(|at| at <= time),
        _ => true,
    };
    let mut hidden = known.unreadable.iter().rev();
    let hidden = hidden.find(|(id, _)| *id > newest.summary.id && until(id));
    if let Some((id, why)) = hidden.filter(|_| !matches!(wanted, RestoreTarget::Revision(_))) {
        let good = &newest.summary.id;
        return Err(nothing(format!(
            "backup {id} is newer than {good} and cannot be read: {why}; make it readable, or restore {good} by its name"
        )));
    }
    if wanted == RestoreTarget::Full {
        return Ok(newest.summary);
    }
    // The revision exists in two histories. The operator has to say which one is meant.
    if let (RestoreTarget::Revision(revision), None, Some(living), Some(history)) =
        (wanted, backup, living, newest.history())
        && living.0 == history.0
        && living != history
    {
        let id = &newest.summary.id;
        return Err(nothing(format!(
            "revision {revision} is only in the history that etcd had before it was put back to an older state: to restore \
             it nevertheless, name the backup: `etcd-agent restore {id} --revision {revision}`"
        )));
    }
    // Use that full, unless an older one of its history leads further: the older chain continues until the
    // newer full has its own.
    let mut best = reach(store, &layout, newest.clone(), wanted).await?;
    candidates.retain(|b| {
        b.epoch.is_some() && b.history() == newest.history() && b.summary.id != newest.summary.id
    });
    for older in candidates.into_iter().rev() {
        let further = best.is_less_than(older.covered);
        if further && !matches!(wanted, RestoreTarget::Revision(_)) {
            let other = reach(store, &layout, older, wanted).await?;
            if best.is_less_than(other.holds) {
                best = other;
            }
        }
    }
    Ok(best.summary)
}

/// A full backup with the increments up to the target.
struct Reach {
    summary: BackupSummary,
    /// It certainly holds this revision.
    holds: Revision,
    /// It may hold up to this revision: the content of a full is known only as a range.
    at_most: Revision,
}

impl Reach {
    /// A backup that certainly holds `revision` is never less, and may be more.
    fn is_less_than(&self, revision: Revision) -> bool {
        revision > self.holds && revision >= self.at_most
    }
}

async fn reach(
    store: &dyn ObjectStore,
    layout: &Layout,
    full: StoredBackup,
    wanted: RestoreTarget,
) -> PortResult<Reach> {
    let mut summary = full.summary;
    let holds = summary.revision;
    let at_most = full.revision_at_most.unwrap_or(holds);
    let listed = store.list(&layout.in_backup(&summary.id, INCREMENTS)).await?;
    let ranges = chain::ranges(layout, &summary.id, &listed);
    let path = chain::path(&ranges, summary.revision, None);
    let until = match wanted {
        RestoreTarget::Latest => path.last().map_or(summary.revision, |range| range.last),
        RestoreTarget::Full => summary.revision,
        RestoreTarget::Revision(until) => until,
        RestoreTarget::Time(time) => until_time(store, layout, &summary, &path, time).await?,
    };
    if let Some(range) = path
        .iter()
        .find(|range| range.last >= until && until > summary.revision)
    {
        summary.at = when(&read(store, layout, &summary.id, false, *range).await?, until);
        let point = Point {
            backup: summary.id,
            until: Some(until),
        };
        summary.id = point
            .id()
            .map_err(|error| PortError::Permanent(error.to_string()))?;
        summary.revision = until;
    }
    Ok(Reach {
        summary,
        holds: holds.max(until),
        at_most: at_most.max(until),
    })
}

/// When a revision was received.
fn when(increment: &Increment, revision: Revision) -> UnixMs {
    let entry = increment
        .entries
        .iter()
        .rfind(|entry| entry.revision <= revision.0);
    entry.map_or(increment.head.at, |entry| UnixMs(entry.at_ms))
}

/// The newest revision received until `time`. Binary search over the increments, so that not all are read.
async fn until_time(
    store: &dyn ObjectStore,
    layout: &Layout,
    full: &BackupSummary,
    path: &[Range],
    time: UnixMs,
) -> PortResult<Revision> {
    let (mut low, mut high) = (0, path.len());
    let mut until = full.revision;
    while low < high {
        let middle = usize::midpoint(low, high);
        let Some(range) = path.get(middle) else {
            break;
        };
        let increment = read(store, layout, &full.id, false, *range).await?;
        let last_received = increment.entries.iter().rfind(|entry| entry.at_ms <= time.0);
        match last_received {
            Some(entry) => {
                until = until.max(Revision(entry.revision));
                low = middle + 1;
            }
            None => high = middle,
        }
    }
    Ok(until)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::backup::store::layout::{MANIFEST, SNAPSHOT_ZSTD};
    use crate::backup::store::manifest::{Manifest, example};
    use crate::backup::testing;
    use crate::model::Epoch;

    /// Two backups that began at nearly the same time: the exact content of the one with the later name is
    /// not known.
    #[tokio::test]
    async fn the_latest_is_what_surely_holds_the_most() {
        let (older, newer) = ("2026-03-01T04:05:06Z-000001", "2026-03-01T04:05:06Z-000002");
        let rows = [
            ("surely no less", (1, 2), 2, [1, 1], older),
            ("exactly as much", (2, 2), 2, [1, 1], newer),
            ("perhaps more", (1, 3), 2, [1, 1], newer),
            ("less", (3, 3), 2, [1, 1], newer),
            ("another history", (1, 2), 2, [1, 2], newer),
            ("dated last by a clock that is ahead", (3, 3), 2, [2, 1], older),
        ];
        for (what, (revision, at_most), other, epochs, expected) in rows {
            let dir = tempfile::tempdir().unwrap();
            let store = testing::store(dir.path());
            let both = [(older, other, other), (newer, revision, at_most)];
            for ((id, revision, at_most), epoch) in both.into_iter().zip(epochs) {
                let manifest = Manifest {
                    id: BackupId::new(id).unwrap(),
                    epoch: Epoch(epoch),
                    revision: Revision(revision),
                    revision_at_most: Some(Revision(at_most)),
                    ..example()
                };
                let put = async |file: &str, body: Vec<u8>| {
                    let key = Layout::of(&store, &testing::cluster()).in_backup(&manifest.id, file);
                    store.put(&key, body.into()).await.unwrap();
                };
                put(SNAPSHOT_ZSTD, b"x".to_vec()).await;
                put(MANIFEST, manifest.to_json().unwrap()).await;
            }
            let found = find(&store, &testing::cluster(), None, RestoreTarget::Latest)
                .await
                .unwrap();
            assert_eq!(found.id.as_str(), expected, "{what}");
        }
    }

    #[test]
    fn a_point_is_its_name() {
        let full = BackupId::new("2026-03-01T04:05:06Z-000042").unwrap();
        let point = Point {
            backup: full.clone(),
            until: Some(Revision(81_240)),
        };
        let id = point.id().unwrap();
        assert_eq!(id.as_str(), "2026-03-01T04:05:06Z-000042.r81240");
        assert_eq!(Point::parse(&id), point);
        assert_eq!(Point::parse(&full).until, None);
        for other in ["x.r", "x.r01", "x.r-1", "x.rx"] {
            let id = BackupId::new(other).unwrap();
            assert_eq!(
                Point::parse(&id),
                Point {
                    backup: id.clone(),
                    until: None
                },
                "{other}"
            );
        }
    }
}

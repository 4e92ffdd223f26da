//! The archive of replaced data directories: next to the data, on the same file system, bounded.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;

use super::ages::{self, Moment};
use super::inspect;
use super::owner::{Owner, parent};
use crate::config::ArchiveSettings;
use crate::model::ClusterId;
use crate::unit::{files, journal, wal};

/// `<parent of the data directory>/etcd-agent-archive`
pub(super) fn dir(owner: &Owner) -> Result<PathBuf, String> {
    beside(&owner.data_dir)
}

fn beside(data_dir: &Path) -> Result<PathBuf, String> {
    Ok(parent(data_dir)?.join("etcd-agent-archive"))
}

const FORM: &str = "%Y%m%dT%H%M%SZ";

/// Renames the data directory into the archive as `<UTC time>-<why>-<cluster>-<member>`. Nothing to do when
/// it is not there or empty.
pub(super) fn put(owner: &Owner, why: &str, now: &Moment) -> Result<Option<PathBuf>, String> {
    put_dir(&owner.data_dir, why, now)
}

/// As [`put`], for root: the archive belongs to the owner of the data. The caller knows that the data is of
/// no use.
pub(super) fn put_as_root(data_dir: &Path, why: &str, now: &Moment) -> Result<Option<PathBuf>, String> {
    let failed = |error: io::Error| format!("{}: {error}", data_dir.display());
    let data = fs::metadata(data_dir).map_err(failed)?;
    let put = put_dir(data_dir, why, now)?;
    let archive = beside(data_dir)?;
    let made: Vec<PathBuf> = [archive.clone(), ages::path(&archive)].into();
    for path in made.iter().filter(|path| path.exists()) {
        std::os::unix::fs::lchown(path, Some(data.uid()), Some(data.gid())).map_err(failed)?;
    }
    Ok(put)
}

fn put_dir(data_dir: &Path, why: &str, now: &Moment) -> Result<Option<PathBuf>, String> {
    match inspect::is_empty(data_dir) {
        Ok(true) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // Unreadable, or not a directory: move it away as well.
        Ok(false) | Err(_) => {}
    }
    let archive = beside(data_dir)?;
    let failed = |what: &Path, error: &io::Error| format!("{}: {error}", what.display());
    match fs::create_dir(&archive) {
        Ok(()) => files::sync_dir(parent(data_dir)?).map_err(|error| failed(&archive, &error))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(&archive, &error)),
    }
    let ids = wal::identify(&data_dir.join("member/wal"))
        .map_or_else(|_| "unknown-unknown".to_owned(), |(c, m)| format!("{c}-{m}"));
    let stem = format!("{}-{}-{ids}", now.wall.strftime(FORM), name_part(why));
    let target = (1..100)
        .map(|n| {
            archive.join(if n == 1 {
                stem.clone()
            } else {
                format!("{stem}-{n}")
            })
        })
        .find(|path| fs::symlink_metadata(path).is_err())
        .ok_or_else(|| format!("{} holds too many of {stem}", archive.display()))?;
    let _lock = inspect::lock(data_dir)?;
    fs::rename(data_dir, &target).map_err(|error| match error.raw_os_error() {
        // EBUSY and EXDEV
        Some(16 | 18) => format!(
            "{} is a mount point and cannot be archived: configure a directory below it",
            data_dir.display()
        ),
        _ => format!("renaming {} to {}: {error}", data_dir.display(), target.display()),
    })?;
    if let Some(name) = target.file_name().and_then(|name| name.to_str()) {
        // Without the note, the uptime of the host counts.
        let _ = ages::note(&archive, name, now);
    }
    files::sync_dir(&archive).map_err(|error| failed(&archive, &error))?;
    files::sync_dir(parent(data_dir)?).map_err(|error| failed(data_dir, &error))?;
    Ok(Some(target))
}

/// The reason as a part of a name: lower-case letters, digits and dashes, at most 40.
fn name_part(why: &str) -> String {
    let part: String = why
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    let part = part.trim_matches('-');
    if part.is_empty() {
        "replaced".to_owned()
    } else {
        part.to_owned()
    }
}

/// Removes surplus directories and logs them; see [`surplus`]. When the disk is nearly full, those beyond the
/// count are removed regardless of their age.
pub(super) fn prune(owner: &Owner, now: &Moment) -> Result<(), String> {
    let archive = dir(owner)?;
    let names = match fs::read_dir(&archive) {
        Ok(entries) => entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("{}: {error}", archive.display())),
    };
    let put = ages::read(&archive);
    let mut entries: Vec<Entry> = names
        .filter_map(|name| Entry::new(&archive, name, &put, now))
        .collect();
    entries.sort_unstable_by(|a, b| b.name.cmp(&a.name));
    let remove = |name: &str, why: &str| {
        let path = archive.join(name);
        fs::remove_dir_all(&path).map_err(|error| format!("removing {}: {error}", path.display()))?;
        journal::say(&format!("{} was removed: {why}", path.display()));
        Ok::<(), String>(())
    };
    let gone = surplus(&entries, owner.archive);
    for name in &gone {
        remove(name, "it is old, and beyond archive.keep or archive.max_age")?;
    }
    for name in for_space(&entries, owner.archive) {
        if gone.contains(&name) || !(owner.short_of_space)(&archive) {
            continue;
        }
        remove(
            &name,
            "the disk is nearly full, and there are more than archive.keep",
        )?;
    }
    ages::forget(&archive, put).map_err(|error| format!("{}: {error}", archive.display()))
}

/// One archived data directory.
#[derive(Debug, Clone)]
struct Entry {
    name: String,
    /// By the clock.
    age: Duration,
    /// A lower bound, independent of changes of the clock.
    lived: Duration,
    /// The cluster of its data, if that can be read.
    cluster: Option<ClusterId>,
}

impl Entry {
    /// `None` if its name is not one of ours.
    fn new(archive: &Path, name: String, put: &ages::Ages, now: &Moment) -> Option<Self> {
        let time = time_of(&name)?;
        Some(Self {
            age: Duration::try_from(now.wall.duration_since(time)).unwrap_or_default(),
            lived: ages::lived(put.get(&name), now),
            cluster: wal::identify(&archive.join(&name).join("member/wal"))
                .ok()
                .map(|ids| ids.0),
            name,
        })
    }
}

/// Whether each of them stays whatever its age: the newest, and the newest of each cluster. `entries` is
/// newest first.
fn stays(entries: &[Entry]) -> Vec<bool> {
    let mut seen = BTreeSet::new();
    entries.iter().map(|entry| seen.insert(entry.cluster)).collect()
}

/// The directories beyond the configured count or age. A replacement that fails repeatedly, or a clock that
/// jumps, must not empty the archive: nothing is removed before `min_age`, by the clock and by the time that
/// has certainly passed.
fn surplus(entries: &[Entry], limits: ArchiveSettings) -> Vec<String> {
    let old = |entry: &Entry| entry.age > limits.min_age && entry.lived > limits.min_age;
    entries
        .iter()
        .zip(stays(entries))
        .enumerate()
        .filter(|(at, (entry, stays))| {
            !stays && old(entry) && (*at >= limits.keep || entry.age > limits.max_age)
        })
        .map(|(_, (entry, _))| entry.name.clone())
        .collect()
}

/// The directories that may be removed when space is short, the oldest first.
fn for_space(entries: &[Entry], limits: ArchiveSettings) -> Vec<String> {
    let beyond = entries
        .iter()
        .zip(stays(entries))
        .enumerate()
        .filter(|(at, (_, stays))| !stays && *at >= limits.keep)
        .map(|(_, (entry, _))| entry.name.clone());
    let mut beyond: Vec<String> = beyond.collect();
    beyond.reverse();
    beyond
}

fn time_of(name: &str) -> Option<Timestamp> {
    let time = DateTime::strptime(FORM, name.split('-').next()?).ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    /// Newest first: days by the clock, days that have certainly passed, the cluster.
    fn entries(of: &[(u32, u32, u64)]) -> Vec<Entry> {
        of.iter()
            .map(|(age, lived, cluster)| Entry {
                name: format!("{age}"),
                age: DAY * *age,
                lived: DAY * *lived,
                cluster: Some(ClusterId(*cluster)),
            })
            .collect()
    }

    fn limits(keep: usize, min: u32, max: u32) -> ArchiveSettings {
        ArchiveSettings {
            keep,
            min_age: DAY * min,
            max_age: DAY * max,
        }
    }

    #[test]
    fn what_goes() {
        let same = entries(&[(1, 1, 1), (8, 8, 1), (10, 10, 1), (40, 40, 1)]);
        let cases = [
            ("by count", limits(2, 7, 365), vec!["10", "40"]),
            ("by age", limits(9, 7, 30), vec!["40"]),
            ("by both", limits(3, 7, 9), vec!["10", "40"]),
            (
                "the newest stays, by count",
                limits(0, 7, 365),
                vec!["8", "10", "40"],
            ),
            ("the newest stays, by age", limits(9, 0, 0), vec!["8", "10", "40"]),
            ("nothing", limits(9, 7, 365), vec![]),
            ("nothing that is young", limits(1, 20, 0), vec!["40"]),
        ];
        for (case, limits, expected) in cases {
            assert_eq!(surplus(&same, limits), expected, "{case}");
        }
    }

    #[test]
    fn f06_the_newest_of_each_cluster_stays() {
        let mixed = entries(&[(1, 1, 1), (50, 50, 2), (60, 60, 1), (70, 70, 2), (80, 80, 3)]);
        assert_eq!(surplus(&mixed, limits(1, 7, 30)), ["60", "70"]);
        assert_eq!(
            for_space(&mixed, limits(1, 7, 30)),
            ["70", "60"],
            "the oldest first"
        );
    }

    /// All of them are 30 days older by the clock than they are.
    #[test]
    fn f06_a_clock_that_jumps_empties_nothing() {
        let jumped = entries(&[(0, 0, 1), (31, 1, 1), (33, 3, 1), (36, 6, 1), (50, 20, 1)]);
        assert_eq!(surplus(&jumped, limits(2, 7, 30)), ["50"]);
    }

    #[test]
    fn a_reason_becomes_part_of_a_name() {
        assert_eq!(name_part("Data lost / ../x"), "data-lost------x");
        assert_eq!(name_part("…"), "replaced");
    }
}

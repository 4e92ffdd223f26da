//! The archive of replaced data directories: next to the data, on the same file system, bounded. A log that
//! is elsewhere has an archive next to it, in which it has the name of its data with `.wal` after it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;

use super::ages::{self, Moment};
use super::owner::{Owner, parent};
use super::{inspect, moves};
use crate::config::ArchiveSettings;
use crate::model::ClusterId;
use crate::unit::{DataDirs, files, journal, wal};

const FORM: &str = "%Y%m%dT%H%M%SZ";

/// The archive of the data, and that of the log. They are one if both are in the same directory, or if the
/// log is part of the data.
struct Archives {
    data: PathBuf,
    log: PathBuf,
}

impl Archives {
    fn of(dirs: &DataDirs) -> Result<Self, String> {
        Ok(Self {
            data: beside(dirs.data())?,
            log: beside(dirs.wal().unwrap_or(dirs.data()))?,
        })
    }

    fn data(&self, name: &str) -> PathBuf {
        self.data.join(name)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.log.join(format!("{name}.wal"))
    }

    fn has(&self, name: &str) -> bool {
        is_there(&self.data(name)) || is_there(&self.log(name))
    }

    /// The names of what is archived, whether of data, of a log or of both.
    fn names(&self) -> Result<BTreeSet<String>, String> {
        let mut names = BTreeSet::new();
        for archive in [&self.data, &self.log] {
            let entries = match fs::read_dir(archive) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(format!("{}: {error}", archive.display())),
            };
            for entry in entries.flatten() {
                let Ok(name) = entry.file_name().into_string() else {
                    continue;
                };
                if time_of(&name).is_some() {
                    names.insert(name.strip_suffix(".wal").unwrap_or(&name).to_owned());
                }
            }
        }
        Ok(names)
    }
}

/// `<parent of the data directory>/etcd-agent-archive`
#[cfg(test)]
pub(super) fn dir(owner: &Owner) -> Result<PathBuf, String> {
    beside(owner.dirs.data())
}

pub(super) fn beside(dir: &Path) -> Result<PathBuf, String> {
    Ok(parent(dir)?.join("etcd-agent-archive"))
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// As [`put`], for root: the archive belongs to the owner of the data. The caller knows that the data is of
/// no use.
pub(super) fn put_as_root(dirs: &DataDirs, why: &str, now: &Moment) -> Result<Option<PathBuf>, String> {
    let failed = |error: io::Error| format!("{}: {error}", dirs.data().display());
    let owner = fs::metadata(dirs.data()).map_err(failed)?;
    let put = put(dirs, why, now)?;
    let archives = Archives::of(dirs)?;
    let made = [ages::path(&archives.data), archives.data, archives.log];
    for path in made.iter().filter(|path| path.exists()) {
        std::os::unix::fs::lchown(path, Some(owner.uid()), Some(owner.gid())).map_err(failed)?;
    }
    Ok(put)
}

/// Renames the data directory into the archive as `<UTC time>-<why>-<cluster>-<member>`, then its log, if
/// that is elsewhere. Nothing to do for what is not there or empty. Returns where the data, or the log alone,
/// is now.
///
/// Each rename is on disk before the next one. A log without data is what is left after a crash between them:
/// it is archived under the name that its data has.
pub(super) fn put(dirs: &DataDirs, why: &str, now: &Moment) -> Result<Option<PathBuf>, String> {
    let data = holds_something(dirs.data());
    let log = dirs.wal().filter(|dir| holds_something(dir));
    if !data && log.is_none() {
        return Ok(None);
    }
    let archives = Archives::of(dirs)?;
    let ids =
        wal::identify(&dirs.log()).map_or_else(|_| "unknown-unknown".to_owned(), |(c, m)| format!("{c}-{m}"));
    let without_log = if data { None } else { without_log(&archives, &ids)? };
    let name = match without_log {
        Some(name) => name,
        None => free_name(&archives, &ids, why, now)?,
    };
    let _lock = inspect::lock(dirs)?;
    make(&archives.data)?;
    if log.is_some() {
        make(&archives.log)?;
    }
    if data {
        rename(dirs.data(), &archives.data(&name))?;
    }
    // Without the note, the uptime of the host counts.
    let _ = ages::note(&archives.data, &name, now);
    let Some(log) = log else {
        return Ok(Some(archives.data(&name)));
    };
    rename(log, &archives.log(&name))?;
    Ok(Some(if data {
        archives.data(&name)
    } else {
        archives.log(&name)
    }))
}

/// Unreadable, or not a directory: it is moved away as well.
fn holds_something(dir: &Path) -> bool {
    match inspect::is_empty(dir) {
        Ok(empty) => !empty,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// The newest of the archive, if it is data of this member without its log.
fn without_log(archives: &Archives, ids: &str) -> Result<Option<String>, String> {
    let suffix = format!("-{ids}");
    let of_it = |name: &String| {
        let numbered = name.rsplit_once('-').filter(|(_, n)| n.len() < 3);
        name.ends_with(&suffix) || numbered.is_some_and(|(stem, _)| stem.ends_with(&suffix))
    };
    let newest = archives.names()?.pop_last();
    Ok(newest.filter(|name| of_it(name) && !is_there(&archives.log(name))))
}

fn free_name(archives: &Archives, ids: &str, why: &str, now: &Moment) -> Result<String, String> {
    let stem = format!("{}-{}-{ids}", now.wall.strftime(FORM), name_part(why));
    let names = (1..100).map(|n| {
        if n == 1 {
            stem.clone()
        } else {
            format!("{stem}-{n}")
        }
    });
    let mut free = names.filter(|name| !archives.has(name));
    free.next()
        .ok_or_else(|| format!("{} holds too many of {stem}", archives.data.display()))
}

fn make(archive: &Path) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", archive.display());
    match fs::create_dir(archive) {
        Ok(()) => files::sync_dir(parent(archive)?).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && archive.is_dir() => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

fn rename(dir: &Path, target: &Path) -> Result<(), String> {
    moves::rename(dir, target).map_err(|error| match error.raw_os_error() {
        // EBUSY and EXDEV
        Some(16 | 18) => format!(
            "{} is a mount point and cannot be archived: configure a directory below it",
            dir.display()
        ),
        _ => format!("renaming {} to {}: {error}", dir.display(), target.display()),
    })
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

/// Removes surplus directories, each with its log, and logs them; see [`surplus`]. When a disk is nearly
/// full, those beyond the count are removed regardless of their age.
pub(super) fn prune(owner: &Owner, now: &Moment) -> Result<(), String> {
    let archives = Archives::of(&owner.dirs)?;
    if !is_there(&archives.data) {
        return Ok(());
    }
    let put = ages::read(&archives.data);
    let names = archives.names()?.into_iter();
    let mut entries: Vec<Entry> = names
        .filter_map(|name| Entry::new(&archives, name, &put, now))
        .collect();
    entries.sort_unstable_by(|a, b| b.name.cmp(&a.name));
    let gone = surplus(&entries, owner.archive);
    for name in &gone {
        remove(
            &archives,
            name,
            "it is old, and beyond archive.keep or archive.max_age",
        )?;
    }
    let short = || {
        [&archives.data, &archives.log]
            .into_iter()
            .any(|dir| (owner.short_of_space)(dir))
    };
    for name in for_space(&entries, owner.archive) {
        if gone.contains(&name) || !short() {
            continue;
        }
        remove(
            &archives,
            &name,
            "the disk is nearly full, and there are more than archive.keep",
        )?;
    }
    ages::forget(&archives.data, put, |name| archives.has(name))
        .map_err(|error| format!("{}: {error}", archives.data.display()))
}

/// Removes the log first: what a crash leaves is found by its data.
fn remove(archives: &Archives, name: &str, why: &str) -> Result<(), String> {
    for path in [archives.log(name), archives.data(name)] {
        match fs::remove_dir_all(&path) {
            Ok(()) => journal::say(&format!("{} was removed: {why}", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("removing {}: {error}", path.display())),
        }
    }
    Ok(())
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
    fn new(archives: &Archives, name: String, put: &ages::Ages, now: &Moment) -> Option<Self> {
        let time = time_of(&name)?;
        let log = [archives.log(&name), archives.data(&name).join("member/wal")];
        Some(Self {
            age: Duration::try_from(now.wall.duration_since(time)).unwrap_or_default(),
            lived: ages::lived(put.get(&name), now),
            cluster: log
                .iter()
                .find_map(|log| wal::identify(log).ok())
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

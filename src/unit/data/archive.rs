//! The archive of replaced data directories: next to the data, on the same file system, bounded. A log that
//! is elsewhere has an archive next to it, in which it has the name of its data with `.wal` after it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::civil::DateTime;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::ages::{self, Moment};
#[cfg(test)]
use super::owner::Owner;
use super::owner::parent;
use super::{inspect, moves};
use crate::model::{ClusterId, MemberId};
use crate::unit::{DataDirs, files, wal};

const FORM: &str = "%Y%m%dT%H%M%SZ";
/// How long the oneshot waits for a command that works on the archive, and how often it tries.
const WAIT: Duration = if cfg!(test) {
    Duration::from_millis(100)
} else {
    Duration::from_secs(5)
};
const EVERY: Duration = Duration::from_millis(20);

/// The archive of the data, and that of the log. They are one if both are in the same directory, or if the
/// log is part of the data.
#[derive(Debug)]
pub(super) struct Archives {
    pub(super) data: PathBuf,
    pub(super) log: PathBuf,
}

impl Archives {
    pub(super) fn of(dirs: &DataDirs) -> Result<Self, String> {
        Ok(Self {
            data: archive_next_to(dirs.data())?,
            log: archive_next_to(dirs.wal().unwrap_or(dirs.data()))?,
        })
    }

    /// Where the data of this name is.
    pub(super) fn data(&self, name: &str) -> PathBuf {
        self.data.join(name)
    }

    /// Where its log is, if it was elsewhere.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.log.join(format!("{name}.wal"))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        is_there(&self.data(name)) || is_there(&self.log(name))
    }

    /// The names of what is archived, whether of data, of a log or of both.
    pub(super) fn names(&self) -> Result<BTreeSet<String>, String> {
        let names = self.entries()?.into_iter().map(|(_, name)| name);
        Ok(names
            .filter(|name| time_of(name).is_some())
            .map(|name| name.strip_suffix(".wal").unwrap_or(&name).to_owned())
            .collect())
    }

    /// Everything in the archives: where it is, and its name.
    pub(super) fn entries(&self) -> Result<BTreeSet<(PathBuf, String)>, String> {
        let mut found = BTreeSet::new();
        for archive in [&self.data, &self.log] {
            let entries = match fs::read_dir(archive) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(format!("{}: {error}", archive.display())),
            };
            for entry in entries.flatten() {
                if let Ok(name) = entry.file_name().into_string() {
                    found.insert((entry.path(), name));
                }
            }
        }
        Ok(found)
    }

    /// Keeps other archivals and removals apart for as long as the file is open. `None` if one is at work.
    pub(super) fn lock(&self) -> io::Result<Option<File>> {
        let archive = match files::open_no_link(&self.data)? {
            Some(archive) => archive,
            None => files::open_no_link(&self.log)?.ok_or(io::ErrorKind::NotFound)?,
        };
        match flock(&archive, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(archive)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Self::lock`], after a while. The oneshot goes on without it then: a command must not keep a restore from
    /// its place, and each step is safe without the lock.
    pub(super) fn lock_soon(&self) -> Option<File> {
        let until = Instant::now() + WAIT;
        loop {
            match self.lock() {
                Ok(None) if Instant::now() < until => thread::sleep(EVERY),
                locked => return locked.ok().flatten(),
            }
        }
    }
}

/// `<parent of the data directory>/etcd-agent-archive`
#[cfg(test)]
pub(super) fn dir(owner: &Owner) -> Result<PathBuf, String> {
    archive_next_to(owner.dirs.data())
}

/// The archive of what is replaced at this place.
pub(super) fn archive_next_to(dir: &Path) -> Result<PathBuf, String> {
    Ok(parent(dir)?.join("etcd-agent-archive"))
}

pub(super) fn is_there(path: &Path) -> bool {
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
    let _alone = archives.lock_soon();
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

/// When it was archived; `None` if the name is not one of the agent's.
pub(super) fn time_of(name: &str) -> Option<Timestamp> {
    let time = DateTime::strptime(FORM, name.split('-').next()?).ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

/// What [`free_name`] has written into a name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    pub(super) why: Option<&'a str>,
    pub(super) ids: Option<(ClusterId, MemberId)>,
}

/// The parts of a name after its time. IDs that were not known are `unknown` there.
pub(super) fn parts(name: &str) -> Parts<'_> {
    let Some((_, rest)) = name.split_once('-') else {
        return Parts::default();
    };
    let is_number = |text: &str| text.len() < 3 && text.bytes().all(|b| b.is_ascii_digit());
    let numbered = rest.rsplit_once('-').filter(|(_, last)| is_number(last));
    let found = numbered.and_then(|(stem, _)| why_and_ids(stem));
    found.or_else(|| why_and_ids(rest)).unwrap_or(Parts {
        why: Some(rest),
        ids: None,
    })
}

fn why_and_ids(text: &str) -> Option<Parts<'_>> {
    let (rest, member) = text.rsplit_once('-')?;
    let (why, cluster) = rest.rsplit_once('-')?;
    let ids = if (cluster, member) == ("unknown", "unknown") {
        None
    } else {
        Some((cluster.parse().ok()?, member.parse().ok()?))
    };
    Some(Parts { why: Some(why), ids })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_becomes_part_of_a_name() {
        assert_eq!(name_part("Data lost / ../x"), "data-lost------x");
        assert_eq!(name_part("…"), "replaced");
    }

    #[test]
    fn a_name_says_why_and_whose() {
        let ids = |cluster, member| Some((ClusterId(cluster), MemberId(member)));
        for (rest, why, of) in [
            (
                "-older-epoch-cafe0123-beef0456",
                "older-epoch",
                ids(0xcafe_0123, 0xbeef_0456),
            ),
            (
                "-restore-cafe0123-beef0456-2",
                "restore",
                ids(0xcafe_0123, 0xbeef_0456),
            ),
            ("-restore-1-2", "restore", ids(1, 2)),
            ("-data-lost-1-2", "data-lost", ids(1, 2)),
            ("-unusable-unknown-unknown", "unusable", None),
            ("-unusable-unknown-unknown-3", "unusable", None),
            ("-by-hand", "by-hand", None),
        ] {
            let name = format!("20261127T120000Z{rest}");
            let expected = Parts {
                why: Some(why),
                ids: of,
            };
            assert_eq!(parts(&name), expected, "{name}");
            assert!(time_of(&name).is_some(), "{name}");
        }
        assert_eq!(parts("20261127T120000Z"), Parts::default());
        assert_eq!(time_of("by-hand"), None);
    }

    #[test]
    fn one_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let archives = Archives::of(&DataDirs::new(root.path().join("default"), None)).unwrap();
        assert!(
            archives.lock().is_err() && archives.lock_soon().is_none(),
            "no archive"
        );
        fs::create_dir(&archives.data).unwrap();
        let held = archives.lock().unwrap();
        assert!(held.is_some());
        assert!(archives.lock().unwrap().is_none() && archives.lock_soon().is_none());
        drop(held);
        assert!(archives.lock_soon().is_some());
    }
}

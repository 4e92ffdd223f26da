//! The archive of replaced data directories: beside the data, on the same file system, bounded.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;

use super::{Owner, inspect};
use crate::config::ArchiveSettings;
use crate::unit::{files, wal};

/// `<parent of the data directory>/etcd-agent-archive`
pub(super) fn dir(owner: &Owner) -> Result<PathBuf, String> {
    Ok(owner.parent()?.join("etcd-agent-archive"))
}

const FORM: &str = "%Y%m%dT%H%M%SZ";

/// Renames the data directory into the archive as `<UTC time>-<why>-<cluster>-<member>`. Nothing to do when it
/// is not there or empty.
pub(super) fn put(owner: &Owner, why: &str, now: Timestamp) -> Result<Option<PathBuf>, String> {
    let data_dir = &owner.data_dir;
    match inspect::is_empty(data_dir) {
        Ok(true) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // Not readable or not a directory: it is moved away all the same.
        Ok(false) | Err(_) => {}
    }
    let archive = dir(owner)?;
    let failed = |what: &Path, error: &io::Error| format!("{}: {error}", what.display());
    match fs::create_dir(&archive) {
        Ok(()) => files::sync_dir(owner.parent()?).map_err(|error| failed(&archive, &error))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(&archive, &error)),
    }
    let ids = wal::identify(&data_dir.join("member/wal"))
        .map_or_else(|_| "unknown-unknown".to_owned(), |(c, m)| format!("{c}-{m}"));
    let stem = format!("{}-{}-{ids}", now.strftime(FORM), word(why));
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
    files::sync_dir(&archive).map_err(|error| failed(&archive, &error))?;
    files::sync_dir(owner.parent()?).map_err(|error| failed(data_dir, &error))?;
    Ok(Some(target))
}

/// What goes into a name: lower-case letters, digits and dashes, at most 40.
fn word(why: &str) -> String {
    let word: String = why
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    let word = word.trim_matches('-');
    if word.is_empty() {
        "replaced".to_owned()
    } else {
        word.to_owned()
    }
}

/// Removes what is beyond the configured count or age, never the newest, never what is not ours by its name.
pub(super) fn prune(owner: &Owner, now: Timestamp) -> Result<(), String> {
    let archive = dir(owner)?;
    let entries = match fs::read_dir(&archive) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("{}: {error}", archive.display())),
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    for name in surplus(names, owner.archive, now) {
        let path = archive.join(name);
        fs::remove_dir_all(&path).map_err(|error| format!("removing {}: {error}", path.display()))?;
    }
    Ok(())
}

fn surplus(mut names: Vec<String>, limits: ArchiveSettings, now: Timestamp) -> Vec<String> {
    names.retain(|name| time_of(name).is_some());
    names.sort_unstable_by(|a, b| b.cmp(a));
    let old = |name: &String| {
        time_of(name).is_some_and(|time| {
            Duration::try_from(now.duration_since(time)).unwrap_or_default() > limits.max_age
        })
    };
    names
        .into_iter()
        .enumerate()
        .filter(|(at, name)| *at > 0 && (*at >= limits.keep || old(name)))
        .map(|(_, name)| name)
        .collect()
}

fn time_of(name: &str) -> Option<Timestamp> {
    let time = DateTime::strptime(FORM, name.split('-').next()?).ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_goes() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        let name = |day: u8| format!("202601{day:02}T000000Z-restore-1-2");
        let limits = |keep, days: u64| ArchiveSettings {
            keep,
            max_age: Duration::from_hours(24 * days),
        };
        let names = vec![
            name(1),
            "lost+found".to_owned(),
            name(9),
            name(5),
            "x-y".to_owned(),
        ];
        let cases = [
            ("count", 2, 365, vec![name(1)]),
            ("age", 9, 6, vec![name(1)]),
            ("both", 2, 2, vec![name(5), name(1)]),
            ("never the newest, by count", 0, 365, vec![name(5), name(1)]),
            ("never the newest, by age", 9, 0, vec![name(5), name(1)]),
            ("nothing", 9, 365, vec![]),
        ];
        for (case, keep, days, expected) in cases {
            assert_eq!(
                surplus(names.clone(), limits(keep, days), now),
                expected,
                "{case}"
            );
        }
    }

    #[test]
    fn words() {
        assert_eq!(word("Data lost / ../x"), "data-lost------x");
        assert_eq!(word("…"), "replaced");
    }
}

//! Removes archived data directories. Nothing but directories with the agent's names goes, and no link is followed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ages::{self, Moment};
use super::archive::{Archives, is_there, time_of};
use super::archive_retention::{Judged, entries, for_space, judge, surplus};
use super::moves;
use super::owner::Owner;
use crate::unit::journal;

/// What is being removed has this before its name: it is none of the archived directories any more.
const GOING: &str = ".etcd-agent-removing-";

/// Why an archived data directory is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemovalCause {
    /// It is beyond `archive.keep` or `archive.max_age`.
    Retention,
    /// The disk is nearly full, and it is beyond `archive.keep`.
    Space,
    /// An operator named it.
    Order,
}

/// Removes surplus directories, each with its log, and logs them.
pub(super) fn prune(owner: &Owner, now: &Moment) -> Result<(), String> {
    let archives = Archives::of(&owner.dirs)?;
    if !is_there(&archives.data) {
        return Ok(());
    }
    let _alone = archives.lock_soon();
    sweep(&archives)?;
    let judged = judge(entries(&archives, now)?, owner.archive);
    by_retention(&archives, &judged, owner.short_of_space, &mut |name, cause| {
        let why = match cause {
            RemovalCause::Space => "the disk is nearly full, and there are more than archive.keep",
            RemovalCause::Retention | RemovalCause::Order => {
                "it is old, and beyond archive.keep or archive.max_age"
            }
        };
        for path in remove(&archives, name)? {
            journal::say(&format!("{} was removed: {why}", path.display()));
        }
        Ok(())
    })?;
    forget(&archives)
}

/// Calls `remove` with what retention no longer keeps. When a disk is nearly full, those beyond the count go regardless
/// of their age, the oldest first, until it is not.
pub(super) fn by_retention(
    archives: &Archives,
    judged: &[Judged],
    short_of_space: fn(&Path) -> bool,
    remove: &mut dyn FnMut(&str, RemovalCause) -> Result<(), String>,
) -> Result<(), String> {
    let gone = surplus(judged);
    for name in &gone {
        remove(name, RemovalCause::Retention)?;
    }
    let short = || {
        [&archives.data, &archives.log]
            .into_iter()
            .any(|dir| short_of_space(dir))
    };
    for name in for_space(judged) {
        if !gone.contains(&name) && short() {
            remove(&name, RemovalCause::Space)?;
        }
    }
    Ok(())
}

/// Removes one with its log, and returns what was there. Both get hidden names first, so a crash leaves no half of them
/// in the archive: [`sweep`] removes the rest. The data goes first: a log without it still says whose it is.
pub(super) fn remove(archives: &Archives, name: &str) -> Result<Vec<PathBuf>, String> {
    let mut taken = Vec::new();
    for path in [archives.data(name), archives.log(name)] {
        let Some(file) = path.file_name() else { continue };
        let hidden = path.with_file_name(format!("{GOING}{}", file.to_string_lossy()));
        match moves::rename(&path, &hidden) {
            Ok(()) => taken.push((path, hidden)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&path, &error)),
        }
    }
    let mut removed = Vec::new();
    for (path, hidden) in taken {
        delete(&hidden)?;
        removed.push(path);
    }
    Ok(removed)
}

/// Removes the rest of what a crash has interrupted.
pub(super) fn sweep(archives: &Archives) -> Result<(), String> {
    for (path, name) in archives.entries()? {
        let was = name.strip_prefix(GOING);
        if was.is_some_and(|was| time_of(was).is_some()) {
            delete(&path)?;
        }
    }
    Ok(())
}

/// Removes a directory; a link itself, and not what it leads to.
fn delete(path: &Path) -> Result<(), String> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, &error)),
        _ => Ok(()),
    }
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("removing {}: {error}", path.display())
}

/// Forgets when those were archived that are gone.
pub(super) fn forget(archives: &Archives) -> Result<(), String> {
    let put = ages::read(&archives.data);
    ages::forget(&archives.data, put, |name| archives.has(name))
        .map_err(|error| format!("{}: {error}", archives.data.display()))
}

//! The archive, for the commands of an operator: what is in it, and the removal of what is not kept or was named.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ages::Moment;
use super::archive::{Archives, Parts, parts, time_of};
use super::archive_prune::{RemovalCause, by_retention, forget, remove, sweep};
use super::archive_retention::{ArchiveKeep, Judged, entries, judge};
use super::{archive_access, owner};
use crate::config::ArchiveSettings;
use crate::model::{ClusterId, MemberId, UnixMs};
use crate::unit::DataDirs;

/// One archived data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archived {
    /// Its name in the archive.
    pub name: String,
    /// Where its data is; `None` if only its log is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<PathBuf>,
    /// Where its log is, if that was elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_dir: Option<PathBuf>,
    /// When it was archived.
    pub at: UnixMs,
    /// Why, in a few words with dashes between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The cluster of its data, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<ClusterId>,
    /// The member of its data, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_id: Option<MemberId>,
    /// Bytes on the disk; `None` if it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Why retention keeps it; empty if the next pruning removes it.
    pub keep: Vec<ArchiveKeep>,
    /// Until when at least, if nothing else is archived and the disk is not nearly full. `None` if it goes now, or if
    /// it stays as long as it is the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<UnixMs>,
}

/// One that is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Removal {
    /// Its name in the archive.
    pub name: String,
    /// Bytes on the disk; `None` if it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Why.
    pub cause: RemovalCause,
}

/// Why nothing, or not all, was removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// It would not be safe, or not now. Nothing was removed.
    #[error("{0}")]
    Refused(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}

impl From<String> for ArchiveError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// The archive of one data directory.
#[derive(Debug)]
pub struct Archive {
    archives: Archives,
    limits: ArchiveSettings,
    now: fn() -> Moment,
    short_of_space: fn(&Path) -> bool,
}

impl Archive {
    /// Opens it. This thread of root's process gives its rights away for those of the owner, for good.
    ///
    /// # Errors
    /// One line: this user is neither root nor the owner, or there is something else in the place of the archive.
    pub fn open(dirs: &DataDirs, limits: ArchiveSettings) -> Result<Self, String> {
        let archives = Archives::of(dirs)?;
        archive_access::enter(&archives)?;
        Ok(Self {
            archives,
            limits,
            now: Moment::now,
            short_of_space: owner::short_of_space,
        })
    }

    /// The directories that are looked into: that of the data, and that of the log if it is another one.
    pub fn places(&self) -> Vec<&Path> {
        let (data, log) = (self.archives.data.as_path(), self.archives.log.as_path());
        if data == log { vec![data] } else { vec![data, log] }
    }

    /// All that is archived, the newest first.
    ///
    /// # Errors
    /// One line: what cannot be read.
    pub fn list(&self) -> Result<Vec<Archived>, String> {
        let now = (self.now)();
        let judged = self.judged(&now)?.into_iter();
        Ok(judged.map(|one| self.shown(one, &now)).collect())
    }

    /// What [`Self::prune`] would remove now. Those for space are the most that it would remove.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn surplus(&self) -> Result<Vec<Removal>, ArchiveError> {
        let mut found = Vec::new();
        let judged = self.judged(&(self.now)())?;
        by_retention(
            &self.archives,
            &judged,
            self.short_of_space,
            &mut |name, cause| {
                found.push(self.removal(name, cause));
                Ok(())
            },
        )?;
        Ok(found)
    }

    /// Removes what retention no longer keeps: what the oneshot removes at its next replacement.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn prune(&self) -> Result<Vec<Removal>, ArchiveError> {
        let Some(_alone) = self.lock()? else {
            return Ok(Vec::new());
        };
        let mut done = Vec::new();
        let judged = self.judged(&(self.now)())?;
        let pruned = by_retention(
            &self.archives,
            &judged,
            self.short_of_space,
            &mut |name, cause| {
                done.push(self.remove_one(name, cause)?);
                Ok(())
            },
        );
        self.finish(pruned, done)
    }

    /// What [`Self::remove`] would remove: those of the names that are there.
    ///
    /// # Errors
    /// [`ArchiveError::Refused`] for what is no directory, and without `force` for what retention always keeps.
    pub fn named(&self, names: &[String], force: bool) -> Result<Vec<Removal>, ArchiveError> {
        let judged = self.judged(&(self.now)())?;
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let named: Vec<&Judged> = judged
            .iter()
            .filter(|one| names.contains(one.entry.name.as_str()))
            .collect();
        let refused: Vec<String> = named
            .iter()
            .filter_map(|one| Some(format!("{} {}", one.entry.name, objection(&one.keep, force)?)))
            .collect();
        if !refused.is_empty() {
            return Err(ArchiveError::Refused(format!(
                "{}; nothing was removed",
                refused.join("; ")
            )));
        }
        let removal = |one: &&Judged| self.removal(&one.entry.name, RemovalCause::Order);
        Ok(named.iter().map(removal).collect())
    }

    /// Removes exactly these. Nothing to do for those that are not there.
    ///
    /// # Errors
    /// As [`Self::named`], and [`ArchiveError::Failed`].
    pub fn remove(&self, names: &[String], force: bool) -> Result<Vec<Removal>, ArchiveError> {
        let Some(_alone) = self.lock()? else {
            return Ok(Vec::new());
        };
        let mut done = Vec::new();
        let mut removed = Ok(());
        for wanted in self.named(names, force)? {
            removed = remove(&self.archives, &wanted.name).map(drop);
            if removed.is_err() {
                break;
            }
            done.push(wanted);
        }
        self.finish(removed, done)
    }

    /// `None` without an archive. Also removes what a crash has left of an earlier removal.
    fn lock(&self) -> Result<Option<File>, ArchiveError> {
        let shown = self.archives.data.display();
        match self.archives.lock() {
            Ok(Some(alone)) => {
                sweep(&self.archives)?;
                Ok(Some(alone))
            }
            Ok(None) => Err(ArchiveError::Refused(format!(
                "{shown} is in use by etcd-agent-data.service or another command: run it again; nothing was removed"
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ArchiveError::Failed(format!("cannot lock {shown}: {error}"))),
        }
    }

    fn finish(&self, removed: Result<(), String>, done: Vec<Removal>) -> Result<Vec<Removal>, ArchiveError> {
        let forgotten = forget(&self.archives);
        let Err(why) = removed.and(forgotten) else {
            return Ok(done);
        };
        let names: Vec<&str> = done.iter().map(|one| one.name.as_str()).collect();
        Err(ArchiveError::Failed(match names.as_slice() {
            [] => why,
            names => format!("{why}; removed before: {}", names.join(", ")),
        }))
    }

    fn remove_one(&self, name: &str, cause: RemovalCause) -> Result<Removal, String> {
        let removal = self.removal(name, cause);
        remove(&self.archives, name)?;
        Ok(removal)
    }

    fn judged(&self, now: &Moment) -> Result<Vec<Judged>, String> {
        Ok(judge(entries(&self.archives, now)?, self.limits))
    }

    fn removal(&self, name: &str, cause: RemovalCause) -> Removal {
        Removal {
            name: name.to_owned(),
            size_bytes: size(&self.there(name)),
            cause,
        }
    }

    /// Its data and its log, those that are there.
    fn there(&self, name: &str) -> Vec<PathBuf> {
        let mut there = vec![self.archives.data(name), self.archives.log(name)];
        there.retain(|path| fs::symlink_metadata(path).is_ok());
        there
    }

    fn shown(&self, one: Judged, now: &Moment) -> Archived {
        let name = one.entry.name;
        let there = self.there(&name);
        let (data, log) = (self.archives.data(&name), self.archives.log(&name));
        let Parts { why, ids } = parts(&name);
        let ids = one.entry.ids.or(ids);
        let until = one.stays_for.map(|span| unix(now.wall).plus(span));
        Archived {
            data_dir: there.contains(&data).then_some(data),
            wal_dir: there.contains(&log).then_some(log),
            at: time_of(&name).map_or(UnixMs(0), unix),
            why: why.map(str::to_owned),
            cluster_id: ids.map(|ids| ids.0),
            member_id: ids.map(|ids| ids.1),
            size_bytes: size(&there),
            keep: one.keep,
            kept_until: until,
            name,
        }
    }
}

/// True for a name as the agent gives them in the archive.
pub fn is_archive_name(name: &str) -> bool {
    !name.contains('/') && !name.contains(char::is_control) && time_of(name).is_some()
}

/// Why an operator's order does not remove it.
fn objection(keep: &[ArchiveKeep], force: bool) -> Option<&'static str> {
    keep.iter().find_map(|keep| match keep {
        ArchiveKeep::NotADirectory => Some("is a symbolic link or a file: remove it by hand, and what it leads to"),
        ArchiveKeep::Newest if !force => {
            Some("is the newest one, and there may be no other copy of its data: --force removes it")
        }
        ArchiveKeep::NewestOfCluster if !force => {
            Some("is the newest one of its cluster, and there may be no other copy of its data: --force removes it")
        }
        _ => None,
    })
}

/// The bytes that these take on their disk; `None` if one cannot be read.
fn size(paths: &[PathBuf]) -> Option<u64> {
    let sizes = paths.iter().map(|path| size_of_one(path));
    sizes.sum::<io::Result<u64>>().ok()
}

/// Of a directory with all that is in it. Links are not followed.
fn size_of_one(path: &Path) -> io::Result<u64> {
    /// `stat(2)` counts in these.
    const BLOCK: u64 = 512;
    let meta = fs::symlink_metadata(path)?;
    let mut blocks = meta.blocks();
    let mut left = Vec::new();
    if meta.is_dir() {
        left.push(path.to_owned());
    }
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            blocks += meta.blocks();
            if meta.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Ok(blocks.saturating_mul(BLOCK))
}

fn unix(at: Timestamp) -> UnixMs {
    UnixMs(u64::try_from(at.as_millisecond()).unwrap_or(0))
}

#[cfg(test)]
mod tests;

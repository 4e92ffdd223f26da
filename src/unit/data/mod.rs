//! `etcd-agent data`, run by `etcd-agent-data.service` as the owner of etcd's data: it inspects, archives and
//! swaps the one configured data directory, stages restores next to it, and reports.

mod ages;
mod archive;
mod archive_access;
mod archive_prune;
mod archive_retention;
mod archive_trouble;
mod archived;
pub mod build_data_dir;
mod database;
mod drift;
mod inspect;
mod judge;
mod last_words;
mod learners;
mod moves;
mod owner;
mod replace;
mod stage;
mod starts;
mod tls_files;
pub(super) mod tool;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use serde::{Deserialize, Serialize};

use super::mounts::HeldBy;
use super::{DataDirs, boot, config_copy, files, wal};
use crate::model::{DataState, V2Names};
use crate::paths::Paths;
use crate::ports::{DataReport, DataRequest, Inspection, ProcessReport};

pub use archive_prune::RemovalCause;
pub use archive_retention::ArchiveKeep;
pub use archive_trouble::archive_trouble;
pub use archived::{Archive, ArchiveError, Archived, Removal, is_archive_name};
pub use tls_files::tls_troubles;

use owner::Owner;

/// What the agent writes: a request that is valid once, in one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestFile {
    /// Random; the report carries it back, so that a stale report is never taken for an answer.
    pub id: String,
    /// The kernel's boot ID: a request left over from an earlier boot is not carried out.
    pub boot_id: String,
    /// What to do.
    pub request: DataRequest,
}

/// What the owner writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportFile {
    /// The ID of the request.
    pub id: String,
    /// What was found; `None` when even that is not known.
    pub report: Option<DataReport>,
    /// Why nothing could be found out. The data directory is then unknown, neither missing nor unusable.
    pub unknown: Option<String>,
    /// What holds the data, if it is to be remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<HeldBy>,
}

impl Owner {
    fn carry_out(&self, request: &DataRequest) -> Result<(), String> {
        match request {
            DataRequest::Inspect(_) => Ok(()),
            DataRequest::Stage { .. } => stage::stage(self, request),
            DataRequest::Replace {
                epoch,
                why,
                staged,
                cluster_id,
                member_id,
            } => replace::replace(self, *epoch, why, *staged, (*cluster_id, *member_id)),
        }
    }

    /// Carries out the request and reports the state afterwards, whether or not it worked.
    pub(crate) fn answer(&self, file: &RequestFile, done_before: bool) -> ReportFile {
        let mut error = if done_before {
            None
        } else {
            self.carry_out(&file.request).err()
        };
        let asked = match &file.request {
            DataRequest::Inspect(asked) => asked.clone(),
            DataRequest::Stage { .. } | DataRequest::Replace { .. } => Inspection::default(),
        };
        // Concurrently: most of the time goes into starting programs.
        let (mut found, starts, (base, too_old)) = thread::scope(|scope| {
            let installed = scope.spawn(|| self.installed(asked.base));
            let starts = asked.failed.then(|| scope.spawn(|| (self.starts)()));
            let found = inspect::inspect(self);
            let starts = starts.and_then(|starts| starts.join().ok());
            (found, starts, installed.join().unwrap_or_default())
        });
        let words = starts
            .filter(|_| matches!(found, Ok(DataState::Present { .. })))
            .and_then(|starts| starts::last_words(&starts));
        if let Some(words) = &words {
            found = found.map(|data| judge::judge(self, data, words));
        }
        // A member that has not started yet will have its data where the directory is now.
        let remembers = match &found {
            Ok(DataState::Present { .. }) => true,
            Ok(_) => self.started.is_none(),
            Err(_) => false,
        };
        // etcd may have been about to write when it was read. The agent asks again.
        let v2_entries = asked
            .log
            .then(|| wal::v2::holds_v2(&self.dirs.log(), &self.dirs.snap()).ok());
        let v2_keys = asked.v2_keys.then(|| self.store_of_v2());
        let v2_keys = v2_keys.and_then(|found| found.map_err(|why| error.get_or_insert(why)).ok());
        let process = asked.process.map(|pid| ProcessReport {
            pid,
            drift: drift::drift(self, pid),
        });
        let tls = asked.tls.then(|| {
            let process = asked.process.map(|pid| self.proc.join(pid.to_string()));
            tls_files::check(&self.tls, process.as_deref())
        });
        let held_by = if remembers { self.holds_now() } else { None };
        let (report, unknown) = match found {
            Ok(data) => {
                let report = DataReport {
                    data,
                    staged: stage::newest(self),
                    error,
                    etcd_too_old: too_old,
                    last_words: words,
                    v2_entries: v2_entries.flatten(),
                    base,
                    process,
                    tls,
                    v2_keys,
                    archive_trouble: archive_trouble::find(&self.dirs, &self.mounts.1, &self.may_write),
                };
                (Some(report), None)
            }
            Err(why) => (
                None,
                Some(error.map_or_else(|| why.clone(), |error| format!("{error}; {why}"))),
            ),
        };
        ReportFile {
            id: file.id.clone(),
            report,
            unknown,
            held_by,
        }
    }

    /// What the disk says of the store of v2.
    fn store_of_v2(&self) -> Result<V2Names, String> {
        let names = wal::v2_keys::names(&self.dirs.log(), &self.dirs.snap());
        let names = names.map_err(|why| format!("looking for keys of etcd's v2 API: {why}"))?;
        Ok(V2Names {
            learners: learners::learners(&self.dirs.database())?,
            ..names
        })
    }
}

/// Moves the data of an etcd that was found to be empty into the archive, as root. Returns where it is now.
///
/// # Errors
/// Why it cannot be moved, for example because etcd still has its database open. Nothing was moved then.
pub fn archive_empty(dirs: &DataDirs) -> Result<Option<PathBuf>, String> {
    archive::put_as_root(dirs, "empty", &ages::Moment::now())
}

/// Carries out the request in [`Paths::data_request`]. Succeeds when a report was written, whatever it says.
pub fn run(paths: &Paths) -> ExitCode {
    super::journal::exit_code("data", try_run(paths))
}

fn try_run(paths: &Paths) -> Result<(), String> {
    let uid = rustix::process::geteuid().as_raw();
    if uid == 0 {
        return Err("not as root: etcd-agent-data.service runs it as the owner of etcd's data".to_owned());
    }
    let path = paths.data_request();
    let body = files::read_bounded(&path)
        .map_err(|error| format!("reading {}: {error}", path.display()))?
        .ok_or_else(|| format!("{} is not there: nothing was asked", path.display()))?;
    let request: RequestFile =
        serde_json::from_slice(&body).map_err(|error| format!("{}: {error}", path.display()))?;
    let answer = match config_copy::load(paths) {
        Ok(settings) if request.boot_id == boot::id() => {
            let owner = Owner::new(paths, &settings, uid);
            owner.answer(&request, was_done(&paths.data_report(), &request.id))
        }
        Ok(_) => refused(&request, "the request is from an earlier boot"),
        Err(why) => {
            super::journal::say(&format!("etcd-agent data: {why}"));
            refused(&request, &why)
        }
    };
    let path = paths.data_report();
    let body = serde_json::to_vec_pretty(&answer).map_err(|error| error.to_string())?;
    files::write_atomic(&path, &body, 0o644).map_err(|error| format!("writing {}: {error}", path.display()))
}

fn refused(request: &RequestFile, why: &str) -> ReportFile {
    ReportFile {
        id: request.id.clone(),
        report: None,
        unknown: Some(why.to_owned()),
        held_by: None,
    }
}

/// Whether this request was carried out already, e.g. when an operator starts the unit by hand.
fn was_done(path: &Path, id: &str) -> bool {
    let Ok(Some(body)) = files::read_bounded(path) else {
        return false;
    };
    serde_json::from_slice::<ReportFile>(&body)
        .is_ok_and(|old| old.id == id && old.report.is_some_and(|report| report.error.is_none()))
}

#[cfg(test)]
mod tests;

//! Configuration: fragments → merged → validated settings.
//!
//! Sources are read in ascending order of precedence and merged by key. All problems of all files are
//! reported at once.

mod build;
pub mod env_file;
mod etcd_unit;
mod field;
mod field_types;
mod fields;
mod flags;
mod location;
mod losses;
mod machine;
mod problem;
mod redact;
mod schema;
mod settings;
mod show;
mod sources;
mod suggest;
mod tree;
mod trusted;
mod warnings;

use std::path::{Path, PathBuf};

pub use problem::{Problem, Problems};
pub use redact::redact;
pub use settings::{
    ApiSettings, ArchiveSettings, Encryption, Proxy, S3Options, Settings, Sse, StoreSettings, StoreUrl,
};
pub use show::Entry;

use crate::paths::Paths;
use machine::Machine;
use sources::Source;

/// A validated configuration and the origin of each value.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings that the rest of the program uses.
    pub settings: Settings,
    /// Every value in force, by field, with its origin.
    pub entries: Vec<Entry>,
    /// The files that were read, lowest precedence first.
    pub files: Vec<PathBuf>,
    /// [`digest`] of these files.
    pub digest: String,
}

impl Loaded {
    /// Refuses the configuration for these fields, each with the reason, unless there are none.
    ///
    /// # Errors
    /// [`Problems`]: each field with the file and the line that set it.
    pub fn refuse(&self, fields: Vec<(String, String)>) -> Result<(), Problems> {
        let problem = |(field, text): (String, String)| {
            let entry = self.entries.iter().find(|entry| entry.field == field);
            Problem {
                file: entry.and_then(|entry| entry.file.clone()),
                line: entry.and_then(|entry| entry.line),
                field,
                text,
                may_pass: false,
            }
        };
        if fields.is_empty() {
            return Ok(());
        }
        Err(Problems::new(fields.into_iter().map(problem).collect()))
    }
}

/// Reads, merges and checks all sources. `None` if there is no source file at all: the agent is not
/// configured.
///
/// # Errors
/// [`Problems`]: all errors in all files, each with file, line, field, what was expected and what to do.
pub fn load(paths: &Paths) -> Result<Option<Loaded>, Problems> {
    load_from(paths, &sources::find(paths)?)
}

fn load_from(paths: &Paths, found: &[Source]) -> Result<Option<Loaded>, Problems> {
    if found.is_empty() {
        return Ok(None);
    }
    assemble(found, &Machine::here(paths)).map(Some)
}

/// The path and the content of each source, lowest precedence first, for [`load_copied`].
///
/// # Errors
/// [`Problems`] if a source cannot be read, or is not root's alone.
pub fn copy(paths: &Paths) -> Result<Vec<(String, String)>, Problems> {
    let found = sources::find(paths)?.into_iter();
    Ok(found
        .map(|source| (source.path.display().to_string(), source.text))
        .collect())
}

/// [`load`] from a [`copy`] of the sources.
///
/// # Errors
/// [`Problems`], as [`load`].
pub fn load_copied(paths: &Paths, copied: Vec<(String, String)>) -> Result<Option<Loaded>, Problems> {
    let source = |(path, text): (String, String)| Source {
        path: path.into(),
        text,
    };
    let found: Vec<Source> = copied.into_iter().map(source).collect();
    load_from(paths, &found)
}

/// [`load`] for a node that may already run a member. A configuration that drops the member's cluster name,
/// peers or TLS, or the TLS of its agent's API, is a problem too, unless root has accepted it.
///
/// # Errors
/// [`Problems`], as [`load`].
pub fn load_here(paths: &Paths) -> Result<Option<Loaded>, Problems> {
    let Some(loaded) = load(paths)? else {
        return Ok(None);
    };
    match losses(paths, &loaded.settings) {
        Ok(None) => Ok(Some(loaded)),
        Ok(Some(problems)) => Err(problems),
        Err(why) => Err(Problems::new(vec![
            Problem::file(
                paths.assignment(),
                format!("cannot find out what this node runs: {why}"),
            )
            .may_pass(),
        ])),
    }
}

/// What the node would lose with these settings, unless root has accepted the loss.
///
/// # Errors
/// Says why the losses are unknown: only root and the agent may read what the node runs.
pub fn losses(paths: &Paths, settings: &Settings) -> Result<Option<Problems>, String> {
    losses::of(paths, settings)
}

/// The content of [`Paths::accepted_losses`] that accepts these settings.
pub fn loss_identity(settings: &Settings) -> String {
    losses::identity(settings)
}

/// Reads only this file, for a command that runs without an agent.
///
/// # Errors
/// [`Problems`], as [`load`]; also if the file does not exist.
pub fn load_file(path: &Path) -> Result<Loaded, Problems> {
    assemble(&sources::only(path)?, &Machine::here(&Paths::system()))
}

/// Checks a text as the only source.
///
/// # Errors
/// [`Problems`], as [`load`].
pub fn check_text(text: &str, paths: &Paths) -> Result<(), Problems> {
    let source = Source {
        path: "config.toml".into(),
        text: text.to_owned(),
    };
    assemble(&[source], &Machine::here(paths)).map(drop)
}

/// Checks the configuration as it would be with `candidate`. If `candidate` is one of the sources, it is read
/// in its own place. Otherwise it is the new content of `place`: Puppet and Ansible pass a temporary copy to
/// a validator.
///
/// # Errors
/// [`Problems`], as [`load`].
pub fn check_candidate(paths: &Paths, candidate: &Path, place: &Path) -> Result<Loaded, Problems> {
    let found = sources::find_with(paths, candidate, place)?;
    assemble(&found, &Machine::here(paths))
}

/// Warnings about settings that are allowed but rarely intended, one line each.
pub fn warnings(settings: &Settings) -> Vec<String> {
    warnings::of(settings)
}

/// A one-line warning if there are fragments in the directory that earlier versions read and this version
/// does not.
pub fn no_longer_read(paths: &Paths) -> Option<String> {
    sources::no_longer_read(paths)
}

/// The sources that exist. If there are none, the agent is not configured.
///
/// # Errors
/// [`Problems`] if a source cannot be read.
pub fn existing_files(paths: &Paths) -> Result<Vec<PathBuf>, Problems> {
    Ok(sources::find(paths)?
        .into_iter()
        .map(|source| source.path)
        .collect())
}

/// A digest of the paths and contents of all sources.
///
/// # Errors
/// [`Problems`] if a source cannot be read.
pub fn digest(paths: &Paths) -> Result<String, Problems> {
    Ok(sources::digest(&sources::find(paths)?))
}

/// [`digest`] if there is no source file.
pub fn no_files_digest() -> String {
    sources::digest(&[])
}

/// The host name up to its first dot, from uname(2).
pub fn short_host_name() -> String {
    machine::short_host_name()
}

/// The value of `etcd.data_dir` if no file sets it: the data directory of `etcd.service`.
///
/// # Errors
/// [`Problems`] if it is unknown.
pub fn default_data_dir(paths: &Paths) -> Result<PathBuf, Problems> {
    let dir = etcd_unit::data_dir(paths);
    dir.map_err(|text| Problems::new(vec![Problem::at(None, "etcd.data_dir", text)]))
}

fn assemble(found: &[Source], machine: &Machine) -> Result<Loaded, Problems> {
    let files = found.iter().map(|source| source.path.clone()).collect();
    let mut checked = schema::Checked::default();
    for source in found {
        checked.add(source);
    }
    let built = build::build(&checked, machine);
    let mut problems = checked.problems;
    match built {
        Ok(settings) if problems.is_empty() => Ok(Loaded {
            entries: show::entries(&checked.merged, &settings),
            settings,
            files,
            digest: sources::digest(found),
        }),
        Ok(_) => Err(Problems::new(problems)),
        Err(more) => {
            problems.extend(more);
            Err(Problems::new(problems))
        }
    }
}

#[cfg(test)]
mod tests;

//! Finds and reads the source files, lowest precedence first.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::problem::{Problem, Problems};
use super::trusted::{self, Refusal};
use crate::model::hex;
use crate::paths::Paths;

/// The maximum size of a file. A configuration is much smaller, so a larger file is not a configuration.
const MAX_BYTES: u64 = 1 << 20;

/// One source file and its content.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// All source files that exist.
pub(super) fn find(paths: &Paths) -> Result<Vec<Source>, Problems> {
    read_all(&list(paths)?, |path| open_source(paths, path))
}

/// Reads only this file. It may have any owner, because the command that names it runs with its user's
/// rights.
pub(super) fn only(path: &Path) -> Result<Vec<Source>, Problems> {
    read_all(&[path.to_owned()], open_named)
}

/// All source files, with `candidate` as the content of `place`. If the candidate is itself a source, it is
/// read in its own place.
pub(super) fn find_with(paths: &Paths, candidate: &Path, place: &Path) -> Result<Vec<Source>, Problems> {
    let mut files = list(paths)?;
    let real = candidate.canonicalize().unwrap_or_else(|_| candidate.to_owned());
    if files
        .iter()
        .any(|file| file.canonicalize().is_ok_and(|file| file == real))
    {
        return read_all(&files, |path| open_source(paths, path));
    }
    if !files.iter().any(|file| file == place) {
        files.push(place.to_owned());
        files.sort_by_key(|file| rank(paths, file));
    }
    let read = files
        .iter()
        .map(|file| if file == place { candidate } else { file.as_path() }.to_owned());
    read_all(&read.collect::<Vec<_>>(), |path| {
        if path == candidate {
            open_named(path)
        } else {
            open_source(paths, path)
        }
    })
}

/// A digest of the paths and contents of these sources.
pub(super) fn digest(found: &[Source]) -> String {
    let mut hash = Sha256::new();
    for source in found {
        for part in [source.path.as_os_str().as_bytes(), source.text.as_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    hex(&hash.finalize())
}

/// The precedence of a file: the index of its source, then its name.
fn rank(paths: &Paths, file: &Path) -> (usize, PathBuf) {
    let sources = paths.config_sources();
    let index = sources
        .iter()
        .position(|source| source == file || file.parent() == Some(source));
    (index.unwrap_or(sources.len()), file.to_owned())
}

fn list(paths: &Paths) -> Result<Vec<PathBuf>, Problems> {
    let mut files = Vec::new();
    let mut problems = Vec::new();
    for source in paths.config_sources() {
        let found = if source.extension().is_some_and(|ext| ext == "toml") {
            one_file(&source)
        } else {
            directory(&source)
        };
        match found {
            Ok(found) => files.extend(found),
            Err(error) => problems.push(cannot_read(&source, &error)),
        }
    }
    if problems.is_empty() {
        Ok(files)
    } else {
        Err(Problems::new(problems))
    }
}

fn one_file(path: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(vec![path.to_owned()]),
        Err(error) if absent(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// `*.toml` in name order, without the files of editors and package managers (`.x.toml.swp`,
/// `x.toml.dpkg-new`).
fn directory(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(".toml") && !name.starts_with('.') {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn read_all(
    files: &[PathBuf],
    open: impl Fn(&Path) -> Result<File, Problem>,
) -> Result<Vec<Source>, Problems> {
    let mut sources = Vec::new();
    let mut problems = Vec::new();
    for path in files {
        match open(path).and_then(|file| read(file).map_err(|error| cannot_read(path, &error))) {
            Ok(text) => sources.push(Source {
                path: path.clone(),
                text,
            }),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(sources)
    } else {
        Err(Problems::new(problems))
    }
}

fn open_source(paths: &Paths, path: &Path) -> Result<File, Problem> {
    trusted::open_below(&paths.host(Path::new("/")), path).map_err(|refusal| match refusal {
        Refusal::Unreadable(error) => cannot_read(path, &error),
        Refusal::Untrusted(why) => Problem::file(path.to_owned(), format!("is refused: {why}")),
    })
}

fn open_named(path: &Path) -> Result<File, Problem> {
    let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    OpenOptions::new()
        .read(true)
        .custom_flags(nonblock)
        .open(path)
        .map_err(|error| cannot_read(path, &error))
}

fn read(file: File) -> io::Result<String> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is larger than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

fn cannot_read(path: &Path, error: &io::Error) -> Problem {
    let problem = |text: String| Problem::file(path.to_owned(), text);
    match error.kind() {
        ErrorKind::PermissionDenied => problem(format!(
            "cannot be read: {error}; let the user etcd-agent read it (chgrp etcd-agent, chmod 640), or run this as root"
        ))
        .may_pass(),
        ErrorKind::InvalidInput | ErrorKind::InvalidData => problem(format!("cannot be read: {error}")),
        _ => problem(format!("cannot be read: {error}")).may_pass(),
    }
}

/// A warning about fragments in the directory of earlier versions. The agent ignores that directory, because
/// the daemon's user can write there.
pub(super) fn no_longer_read(paths: &Paths) -> Option<String> {
    let before = paths.config_dir_of_old();
    let mut entries = std::fs::read_dir(&before).ok()?.flatten();
    let found = entries.any(|entry| entry.file_name().to_string_lossy().ends_with(".toml"));
    found.then(|| {
        format!(
            "{} is not read any more, because other users than root can write in it: if its files are yours, move them to {}",
            before.display(),
            paths.config_dir_of_boot().display()
        )
    })
}

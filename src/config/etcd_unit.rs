//! The data directory of `etcd.service`, which is the default of `etcd.data_dir`: each distribution has its own
//! (Debian `/var/lib/etcd/default`, Fedora `/var/lib/etcd/default.etcd`). It is read from root's files, not over
//! D-Bus, because root's oneshots must not take it from the agent.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::env_file;
use crate::paths::Paths;

/// If neither the unit nor its files name a directory.
const DEFAULT_DATA_DIR: &str = "/var/lib/etcd/default";
const DATA_DIR: &str = "ETCD_DATA_DIR";
const UNIT: &str = "etcd.service";
/// Where systemd looks for units, the first place first (systemd.unit(5)).
const UNIT_DIRS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
const MAX_BYTES: u64 = 1 << 20;

/// The data directory. What the agent once gave to etcd stays: a change of the distribution's files must not move
/// etcd away from its data.
///
/// # Errors
/// One line: what is unknown, and what to do.
pub(super) fn data_dir(paths: &Paths) -> Result<PathBuf, String> {
    let given = read(&paths.etcd_env()).map_err(|error| unread(&paths.etcd_env(), &error))?;
    if let Some(dir) = given.as_deref().and_then(assigned) {
        return absolute(&dir, &paths.etcd_env());
    }
    let mut dir = None;
    let mut files = Vec::new();
    for path in unit_files(paths)? {
        let Some(text) = read(&path).map_err(|error| unread(&path, &error))? else {
            continue;
        };
        for (key, value) in settings(&text) {
            match key.as_str() {
                "Environment" if value.is_empty() => dir = None,
                "EnvironmentFile" if value.is_empty() => files.clear(),
                "Environment" => {
                    let found = words(&value).into_iter().rev().find_map(|word| {
                        let (key, value) = word.split_once('=')?;
                        (key == DATA_DIR).then(|| value.to_owned())
                    });
                    dir = found.map(|value| (value, path.clone())).or(dir);
                }
                "EnvironmentFile" => files.push(value),
                _ => (),
            }
        }
    }
    // Files win over Environment=, the last one first (systemd.exec(5)).
    for file in files.iter().rev() {
        let named = expand(file.trim_start_matches('-')).ok_or_else(|| {
            format!("is not set, and {UNIT} reads {file}, a name that is not known here: set it")
        })?;
        let path = paths.host(Path::new(&named));
        let text = read(&path).map_err(|error| unread(&path, &error))?;
        if let Some(dir) = text.as_deref().and_then(assigned) {
            return absolute(&dir, &path);
        }
    }
    match dir {
        None => Ok(DEFAULT_DATA_DIR.into()),
        Some((value, path)) => absolute(&expand(&value).unwrap_or(value), &path),
    }
}

fn unread(path: &Path, error: &io::Error) -> String {
    format!(
        "is not set, and {}, which may name etcd's data directory, cannot be read ({error}): set it",
        path.display()
    )
}

fn absolute(dir: &str, place: &Path) -> Result<PathBuf, String> {
    let path = PathBuf::from(dir);
    if path.is_absolute() && !dir.contains('%') {
        return Ok(path);
    }
    Err(format!(
        "is not set, and {} has {DATA_DIR}={dir}, not an absolute path: set it",
        place.display()
    ))
}

/// The value in an environment file.
fn assigned(text: &str) -> Option<String> {
    let lines = env_file::parse(text, u32::MAX);
    lines
        .into_iter()
        .rfind(|line| line.key == DATA_DIR)
        .map(|line| line.value)
}

/// The unit file and its drop-ins, in the order in which they apply.
fn unit_files(paths: &Paths) -> Result<Vec<PathBuf>, String> {
    let dirs = UNIT_DIRS.map(|dir| paths.host(Path::new(dir)));
    let mut drop_ins = BTreeMap::new();
    for dir in dirs.iter().map(|dir| dir.join(format!("{UNIT}.d"))) {
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(unread(&dir, &error)),
        };
        for entry in entries {
            let path = entry.map_err(|error| unread(&dir, &error))?.path();
            if path.extension().is_some_and(|extension| extension == "conf")
                && let Some(name) = path.file_name()
            {
                drop_ins.entry(name.to_owned()).or_insert(path);
            }
        }
    }
    let unit = dirs
        .into_iter()
        .map(|dir| dir.join(UNIT))
        .find(|path| path.exists());
    Ok(unit.into_iter().chain(drop_ins.into_values()).collect())
}

/// `None` for a file that does not exist. A unit may be a link, also to `/dev/null` (masked).
fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// `key=value` of the section `[Service]`. A backslash at the end of a line continues it.
fn settings(text: &str) -> Vec<(String, String)> {
    let text = text.replace("\\\n", " ");
    let mut in_service = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            in_service = line == "[Service]";
        } else if in_service
            && !line.starts_with(['#', ';'])
            && let Some((key, value)) = line.split_once('=')
        {
            found.push((key.trim_end().to_owned(), value.trim_start().to_owned()));
        }
    }
    found
}

/// The words of `Environment=`, where quotes group and go away.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c.is_whitespace() => words.push(String::new()),
            _ => words.iter_mut().last().into_iter().for_each(|word| word.push(c)),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Replaces the specifiers of systemd.unit(5) that mean the unit's name. `None` if there are others.
fn expand(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    while let Some(part) = parts.next() {
        if part.is_empty() {
            // `%%` is a percent sign.
            out.push('%');
            out.push_str(parts.next()?);
        } else if let Some(rest) = part.strip_prefix(['p', 'N']) {
            out.push_str("etcd");
            out.push_str(rest);
        } else {
            out.push_str(part.strip_prefix('n').map(|_| UNIT)?);
            out.push_str(part.get(1..)?);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests;

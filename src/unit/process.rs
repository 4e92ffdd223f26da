//! The settings that a running etcd was started with.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::apply::flags_of_process;
use super::files;
use crate::model::is_etcd_variable;

/// The settings of a process by flag: its variables, and its flags, which beat them. `dir` is its directory
/// in `/proc`. `None` for a process that has ended.
///
/// # Errors
/// As the kernel says: only root and its own user may read them.
pub fn settings(dir: &Path) -> io::Result<Option<BTreeMap<String, String>>> {
    let args = strings(&dir.join("cmdline"))?;
    if args.is_empty() {
        return Ok(None);
    }
    let environ = strings(&dir.join("environ"))?;
    let pairs = environ.iter().filter_map(|pair| pair.split_once('='));
    let mut settings = of_variables(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
    for flag in flags_of_process(&args) {
        settings.insert(flag.name, flag.value.unwrap_or_else(|| "true".to_owned()));
    }
    Ok(Some(settings))
}

/// The strings of a file of `/proc` (`proc_pid_cmdline(5)`, `proc_pid_environ(5)`).
fn strings(path: &Path) -> io::Result<Vec<String>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(files::MAX_BYTES).read_to_end(&mut bytes)?;
    let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    Ok(parts
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect())
}

/// The settings of etcd among these variables, by flag.
pub(super) fn of_variables(variables: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    variables
        .filter(|(key, _)| is_etcd_variable(key))
        .filter_map(|(key, value)| {
            let flag = key.strip_prefix("ETCD_")?.to_ascii_lowercase().replace('_', "-");
            Some((flag, value))
        })
        .collect()
}

//! Which etcd `etcd.service` runs, as far as the agent has decided it.

use std::path::PathBuf;

use super::files;
use crate::config::Settings;
use crate::paths::Paths;
use crate::render::DROP_IN_NAME;

/// The etcd that `etcd.binary` names, or that our drop-in starts because an operator selected its version.
/// `None` for the binary of the base unit.
pub(super) fn etcd_binary(paths: &Paths, settings: &Settings) -> Option<PathBuf> {
    let drop_in = || {
        let dirs = [paths.drop_in_dir(), paths.drop_in_dir_runtime()];
        let mut files = dirs.iter().map(|dir| dir.join(DROP_IN_NAME));
        // Root writes it, from checked values.
        let text = files.find_map(|file| files::read_bounded(&file).ok()?)?;
        exec_start(&String::from_utf8(text).ok()?)
    };
    settings.spec.etcd.binary.clone().or_else(drop_in)
}

/// The last `ExecStart=` of our drop-in.
fn exec_start(text: &str) -> Option<PathBuf> {
    let mut values = text.lines().filter_map(|line| line.strip_prefix("ExecStart="));
    values
        .next_back()
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts() {
        assert_eq!(
            exec_start("[Service]\nExecStop=-/usr/bin/etcd-agent gate --stop\n"),
            None
        );
        let pinned = "[Service]\nExecStart=\nExecStart=/opt/etcd-v3.6.16/etcd\n";
        assert_eq!(exec_start(pinned), Some("/opt/etcd-v3.6.16/etcd".into()));
        assert_eq!(exec_start("ExecStart=/opt/x\nExecStart=\n"), None);
    }
}

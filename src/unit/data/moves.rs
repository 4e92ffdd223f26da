//! Renames a directory so that it is on disk before the next step.

use std::fs;
use std::io;
use std::path::Path;

use crate::unit::files;

/// Renames a directory on its file system, and syncs the directories above both names.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    for dir in [to, from].into_iter().filter_map(Path::parent) {
        files::sync_dir(dir)?;
    }
    #[cfg(test)]
    count()?;
    Ok(())
}

#[cfg(test)]
thread_local! {
    static LEFT: std::cell::Cell<Option<u32>> = const { std::cell::Cell::new(None) };
}

/// Has this thread die after so many renames: the next steps are not taken. `None`: all are.
#[cfg(test)]
pub(super) fn dies_after(renames: Option<u32>) {
    LEFT.set(renames);
}

#[cfg(test)]
fn count() -> io::Result<()> {
    let left = LEFT.get().map(|left| left.saturating_sub(1));
    LEFT.set(left);
    match left {
        Some(0) => Err(io::Error::other("it died here")),
        _ => Ok(()),
    }
}

//! Directories that are slow to make and the same for every lab. Each is made once and keyed by its recipe.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

/// The directory that holds all entries: `$ETCD_AGENT_LAB_CACHE`, else `~/.cache/etcd-agent-lab`.
pub(crate) fn root() -> PathBuf {
    if let Some(dir) = std::env::var_os("ETCD_AGENT_LAB_CACHE") {
        return PathBuf::from(dir);
    }
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    home.join(".cache/etcd-agent-lab")
}

/// The directory made by `make` from exactly this `recipe`. It is made now if it does not exist.
///
/// Nothing is made twice: if another process of the machine is making the entry, this call waits for it.
/// `make` fills a temporary directory that is renamed when complete, so an entry is complete or absent.
pub(crate) fn entry(name: &str, recipe: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let root = root();
    let path = root.join(format!("{name}-{:016x}", fingerprint(recipe.as_bytes())));
    if path.exists() {
        return Ok(path);
    }
    fs::create_dir_all(&root).with_context(|| format!("creating {}", root.display()))?;
    let _lock = lock(&root.join(format!("{name}.lock")))?;
    if path.exists() {
        return Ok(path);
    }
    let temporary = root.join(format!("{name}.making"));
    remove_tree(&temporary)?;
    fs::create_dir_all(&temporary)?;
    let start = std::time::Instant::now();
    eprintln!("lab: making {name} (once, kept in {})", root.display());
    make(&temporary).with_context(|| format!("making {name} for the lab"))?;
    fs::rename(&temporary, &path)?;
    eprintln!("lab: made {name} in {:.0} s", start.elapsed().as_secs_f64());
    Ok(path)
}

/// An exclusive lock on `path`, held until the file is dropped or the process ends.
pub(crate) fn lock(path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .with_context(|| format!("opening the lock {}", path.display()))?;
    file.lock()
        .with_context(|| format!("locking {}", path.display()))?;
    Ok(file)
}

/// Removes a directory and its content. A missing directory is not an error.
pub(crate) fn remove_tree(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Removes the entries of this name that were made, or marked as used, longer than `age` ago.
pub(crate) fn forget(name: &str, age: Duration) -> Result<()> {
    for entry in fs::read_dir(root())? {
        let entry = entry?;
        let found = entry
            .file_name()
            .to_string_lossy()
            .starts_with(&format!("{name}-"));
        // The time is in the future if the clock was set back.
        if found && entry.metadata()?.modified()?.elapsed().is_ok_and(|old| old > age) {
            remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

/// FNV-1a, 64 bits: the same in every build, unlike the standard library's hasher.
pub(crate) fn fingerprint(content: &[u8]) -> u64 {
    content.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

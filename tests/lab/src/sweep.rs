//! Removes a lab: processes, mounts, namespaces, directories. All of it is found by the lab's id, so the
//! remains of a killed process are removed in the same way.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

use anyhow::{Context, Result};

use crate::cache;
use crate::cgroup::Cgroup;
use crate::cmd::Cmd;
use crate::place::{self, Record, names_in};

/// Labs owned by this process. A signal handler removes them.
static LIVE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Ends every lab whose owner is dead, and returns their ids.
pub fn sweep() -> Result<Vec<String>> {
    let _lock = place::lock()?;
    sweep_locked()
}

/// Ends every lab whose owner is dead, and claims a place for a new one.
pub(crate) fn claim(record: Record) -> Result<Record> {
    let _lock = place::lock()?;
    sweep_locked()?;
    record.claim()
}

fn sweep_locked() -> Result<Vec<String>> {
    let mut swept = Vec::new();
    for gone in place::gone() {
        // The process that renamed it may still be removing it. Anything left is removed the next time.
        let _ = cache::remove_tree(&gone);
    }
    for id in place::ids() {
        let dead = match Record::load(&id) {
            Ok(record) => record.owner.is_some_and(|owner| !owner.is_alive()),
            // Records are written under the lock that is held here: a lab without one was partly removed.
            Err(_) => true,
        };
        if dead {
            teardown(&id)?;
            swept.push(id);
        }
    }
    Ok(swept)
}

/// Ends the lab with this id. It may be repeated, and called for a lab that is incomplete.
pub(crate) fn teardown(id: &str) -> Result<()> {
    Cgroup::new(id).kill()?;
    let dir = place::dir_of(id);
    for mount in mounts_below(&dir) {
        Cmd::new("umount")
            .arg(&mount)
            .ok()
            .or_else(|_| Cmd::new("umount").arg("-l").arg(&mount).ok())?;
    }
    let prefix = format!("{id}-");
    for name in names_in("/run/netns", &prefix) {
        Cmd::new("ip").args(["netns", "del", &name]).ok()?;
    }
    // systemd-nspawn leaves these when it is killed.
    for base in ["/run/systemd/nspawn/propagate", "/run/systemd/nspawn/unix-export"] {
        for name in names_in(base, &prefix) {
            let path = Path::new(base).join(name);
            let _ = Cmd::new("umount").arg(&path).run();
            let _ = fs::remove_dir_all(&path);
        }
    }
    // In one step, so that no other process meanwhile takes a partly removed lab for a dead one, or its id
    // for free.
    let gone = place::gone_dir(id);
    match fs::rename(&dir, &gone) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("removing {}", dir.display()));
        }
        _ => cache::remove_tree(&gone)?,
    }
    forget(id);
    Ok(())
}

/// All mount points at or below `dir`, deepest first.
pub(crate) fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut found: Vec<PathBuf> = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(4))
        .map(PathBuf::from)
        .filter(|path| path.starts_with(dir))
        .collect();
    found.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    found
}

/// From now on SIGINT, SIGTERM and SIGHUP end this lab before they end the process.
pub(crate) fn remember(id: &str) -> Result<()> {
    static HANDLER: Once = Once::new();
    LIVE.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(id.to_owned());
    let mut result = Ok(());
    HANDLER.call_once(|| result = handle_signals());
    result
}

pub(crate) fn forget(id: &str) {
    LIVE.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .retain(|live| live != id);
}

fn handle_signals() -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
        .context("installing signal handlers")?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for id in live {
                if let Err(error) = teardown(&id) {
                    eprintln!("lab: ending {id} after a signal: {error:#}; the next lab sweeps it");
                }
            }
            #[expect(clippy::disallowed_methods, reason = "a signal has no main to go back to")]
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

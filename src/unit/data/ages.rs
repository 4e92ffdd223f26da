//! How long ago something was archived, independent of changes of the clock.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::unit::{boot, files};

/// A moment: by the clock, and as the time since a boot.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    pub(crate) wall: Timestamp,
    pub(crate) boot: String,
    /// Time since that boot; setting the clock does not change it.
    pub(crate) uptime: Duration,
}

impl Moment {
    /// Now. Without `/proc/uptime` no time counts as passed.
    pub(crate) fn now() -> Self {
        let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
        let seconds = text
            .split(['.', ' '])
            .next()
            .and_then(|seconds| seconds.parse().ok());
        Self {
            wall: Timestamp::now(),
            boot: boot::id(),
            uptime: Duration::from_secs(seconds.unwrap_or(0)),
        }
    }
}

/// When a directory was archived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Put {
    boot: String,
    uptime_s: u64,
}

/// By the name in the archive.
pub(super) type Ages = BTreeMap<String, Put>;

/// The file with the recorded times.
pub(super) fn path(archive: &Path) -> PathBuf {
    archive.join(".ages.json")
}

/// The recorded times; empty when they cannot be read.
pub(super) fn read(archive: &Path) -> Ages {
    let body = files::read_bounded(&path(archive)).ok().flatten();
    body.and_then(|body| serde_json::from_slice(&body).ok())
        .unwrap_or_default()
}

/// Records that `name` is archived now.
pub(super) fn note(archive: &Path, name: &str, now: &Moment) -> io::Result<()> {
    let mut ages = read(archive);
    let put = Put {
        boot: now.boot.clone(),
        uptime_s: now.uptime.as_secs(),
    };
    ages.insert(name.to_owned(), put);
    write(archive, &ages)
}

/// Removes the entries of what is no longer there.
pub(super) fn forget(archive: &Path, mut ages: Ages, is_there: impl Fn(&str) -> bool) -> io::Result<()> {
    let before = ages.len();
    ages.retain(|name, _| is_there(name));
    if ages.len() == before {
        return Ok(());
    }
    write(archive, &ages)
}

fn write(archive: &Path, ages: &Ages) -> io::Result<()> {
    let body = serde_json::to_vec_pretty(ages)?;
    files::write_atomic(&path(archive), &body, 0o600)
}

/// A lower bound for the time since it was archived: measured if that was in this boot, else the time since
/// this boot.
pub(super) fn lived(put: Option<&Put>, now: &Moment) -> Duration {
    match put {
        Some(put) if put.boot == now.boot => now.uptime.saturating_sub(Duration::from_secs(put.uptime_s)),
        _ => now.uptime,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn f06_what_surely_has_passed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |boot: &str, seconds| Moment {
            wall: Timestamp::UNIX_EPOCH,
            boot: boot.to_owned(),
            uptime: Duration::from_secs(seconds),
        };
        note(dir.path(), "x", &at("a", 100)).unwrap();
        let lived = |name: &str, now: &Moment| lived(read(dir.path()).get(name), now).as_secs();
        assert_eq!(lived("x", &at("a", 107)), 7, "in the same boot");
        assert_eq!(lived("x", &at("b", 50)), 50, "in a later boot");
        assert_eq!(lived("y", &at("a", 107)), 107, "by an earlier version");
        forget(dir.path(), read(dir.path()), |_| false).unwrap();
        assert!(read(dir.path()).is_empty(), "what is gone is forgotten");
        std::fs::write(path(dir.path()), "x").unwrap();
        assert!(read(dir.path()).is_empty());
    }
}

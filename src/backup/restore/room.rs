//! How much a fetch may write. It often writes to the file system of etcd's own data, and etcd stops when
//! that is full.

use std::path::Path;

use crate::ports::{PortError, PortResult};

use super::error::write_failed;

const RESERVE_BYTES: u64 = 2 << 30;
/// The reserve grows with the file system up to four times as much: the largest quota that etcd's
/// documentation suggests.
const TIMES_RESERVE: u64 = 4;
/// A backup may be larger than the database is now, which may have been lost or compacted.
const TIMES_LIVE: u64 = 8;
/// Twice the largest quota that etcd's documentation suggests.
const ALWAYS_BYTES: u64 = 16 << 30;

/// The limits of one fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The least free space that stays.
    reserve_bytes: u64,
    /// The largest snapshot that is accepted; `None` when an operator asked for it.
    most_bytes: Option<u64>,
}

impl Room {
    /// For a backup of a cluster whose database has this size or may grow to it, if that is known.
    pub fn for_database(database_bytes: Option<u64>) -> Self {
        let most = database_bytes.unwrap_or(0).saturating_mul(TIMES_LIVE);
        Self {
            reserve_bytes: RESERVE_BYTES,
            most_bytes: Some(most.max(ALWAYS_BYTES)),
        }
    }

    /// For an operator who asked for this backup, however large it is.
    pub fn of_a_person() -> Self {
        Self {
            reserve_bytes: RESERVE_BYTES,
            most_bytes: None,
        }
    }

    /// The most bytes that a snapshot which states this size may have in `dir`.
    ///
    /// # Errors
    /// Permanent when it is too large.
    pub(in crate::backup) fn limit(&self, dir: &Path, stated: Option<u64>) -> PortResult<u64> {
        let free = self.free_bytes(dir)?;
        let most = self.most_bytes.unwrap_or(u64::MAX);
        match stated {
            Some(size) if size > most => Err(PortError::Permanent(format!(
                "the snapshot has {size} bytes, more than the {most} that one of this cluster may have (8 times its database \
                 or its quota, at least 16 GiB); if it is right, set etcd.settings.quota-backend-bytes to its size, or build \
                 it by hand with `etcd-agent restore --to`"
            ))),
            Some(size) if size > free => Err(no_room(dir, size, free)),
            Some(size) => Ok(size),
            None => Ok(free.min(most)),
        }
    }

    /// The most bytes to which a snapshot of this size in `dir` may grow.
    pub(in crate::backup) fn growth(&self, dir: &Path, size: u64) -> PortResult<u64> {
        let most = self.most_bytes.unwrap_or(u64::MAX).max(size);
        Ok(size.saturating_add(self.free_bytes(dir)?).min(most))
    }

    /// The number of bytes that may be written to a file system: a tenth of it stays free, at least 2 GiB and
    /// at most 8 GiB. On a small file system a quarter is enough, because 2 GiB may be all of it.
    pub(in crate::backup) fn free_bytes(&self, dir: &Path) -> PortResult<u64> {
        let stat = rustix::fs::statvfs(dir).map_err(|error| write_failed(dir, &error.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(bytes(stat.f_bavail).saturating_sub(self.reserve(bytes(stat.f_blocks))))
    }

    fn reserve(&self, total_bytes: u64) -> u64 {
        let most = self.reserve_bytes.saturating_mul(TIMES_RESERVE);
        (total_bytes / 10)
            .clamp(self.reserve_bytes, most)
            .min(total_bytes / 4)
    }

    /// Limits for tests: no more than this, and no reserve.
    #[cfg(test)]
    pub(super) fn of_tests(most_bytes: u64) -> Self {
        Self {
            reserve_bytes: 0,
            most_bytes: Some(most_bytes),
        }
    }
}

pub(in crate::backup) fn no_room(dir: &Path, size: u64, free: u64) -> PortError {
    PortError::Permanent(format!(
        "the snapshot has {size} bytes, and {} has room for {free} besides what has to stay free for etcd; make room there",
        dir.display()
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn f09_what_stays_free() {
        let room = Room::for_database(None);
        for (total, stays) in [
            (1000 * GIB, 8 * GIB),
            (50 * GIB, 5 * GIB),
            (20 * GIB, 2 * GIB),
            (10 * GIB, 2 * GIB),
            (4 * GIB, GIB),
            (600 << 20, 150 << 20),
        ] {
            assert_eq!(room.reserve(total), stays, "{total}");
        }
    }

    #[test]
    fn f09_a_manifest_that_states_too_much_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            Room::for_database(Some(GIB)),
            Room::for_database(None),
            "small databases count as one"
        );
        assert_eq!(Room::for_database(Some(5 * GIB)).most_bytes, Some(40 * GIB));
        let refused = Room::for_database(None)
            .limit(dir.path(), Some(17 * GIB))
            .unwrap_err();
        assert!(refused.to_string().contains("quota-backend-bytes"), "{refused}");
        let refused = Room::of_a_person().limit(dir.path(), Some(1 << 60)).unwrap_err();
        assert!(refused.to_string().contains("make room there"), "{refused}");
    }
}

//! The summary of a backup that agents exchange.

use serde::{Deserialize, Serialize};

use super::{BackupId, Revision, UnixMs};

/// A backup as `status` and the catalogue show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupSummary {
    /// Its name.
    pub id: BackupId,
    /// When it was committed.
    pub at: UnixMs,
    /// The revision that it contains at least.
    pub revision: Revision,
    /// Stored size in bytes.
    pub size_bytes: u64,
}

impl BackupSummary {
    /// The newest of these backups by date, without those dated after `now`. Such a date comes from a wrong
    /// clock. If such a backup counted as the newest, no further backup would become due before its date, and
    /// none taken until then would be newer. Nor would one be newer than a name with a later date than its backup,
    /// which one node may report (rule 10): of two names, that counts only for backups of one date.
    pub fn newest<'a>(of: impl IntoIterator<Item = &'a Self>, now: UnixMs) -> Option<&'a Self> {
        let past = of.into_iter().filter(|backup| backup.at <= now);
        past.max_by_key(|backup| (backup.at, &backup.id))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_backup_is_none_that_is_dated_after_now() {
        let backup = |number: u64| BackupSummary {
            id: BackupId::new(format!("b-{number}")).unwrap(),
            at: UnixMs(number),
            revision: Revision(1),
            size_bytes: 1,
        };
        let all = [backup(3), backup(1), backup(2)];
        for (now, expected) in [(0, None), (1, Some(1)), (2, Some(2)), (3, Some(3)), (9, Some(3))] {
            let newest = BackupSummary::newest(&all, UnixMs(now));
            assert_eq!(newest, expected.map(backup).as_ref(), "{now}");
        }
        assert_eq!(BackupSummary::newest(&[], UnixMs(9)), None);
        let reported = BackupSummary {
            id: BackupId::new("b-9").unwrap(),
            ..backup(2)
        };
        let both = [reported, backup(3)];
        assert_eq!(
            BackupSummary::newest(&both, UnixMs(9)),
            both.last(),
            "a later name"
        );
    }
}

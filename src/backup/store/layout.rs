//! Keys in the store, and names of backups.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

use crate::model::{BackupId, ClusterName, Epoch, IdError, UnixMs};
use crate::ports::{Expected, ObjectStore};

/// The commit marker of a backup of ours.
pub(in crate::backup) const MANIFEST: &str = "backup.json";
/// Our snapshot: zstd of what `etcdctl snapshot save` writes.
pub(in crate::backup) const SNAPSHOT_ZSTD: &str = "etcd.backup.zst";
/// etcd-manager's snapshot: gzip of the same.
pub(in crate::backup) const SNAPSHOT_GZIP: &str = "etcd.backup.gz";
/// Where the increments of a backup are.
pub(in crate::backup) const INCREMENTS: &str = "increments/";
/// The commit marker of a backup of etcd-manager's.
pub(in crate::backup) const FOREIGN_META: &str = "_etcd_backup.meta";
/// The result of the last verification.
pub(in crate::backup) const VERIFICATION: &str = "verify.json";
/// What operators noted on the backup.
pub(in crate::backup) const MARKS: &str = "marks.json";

/// True for the commit marker of a backup, ours or etcd-manager's.
pub(super) fn is_marker(file: &str) -> bool {
    matches!(file, MANIFEST | FOREIGN_META)
}

/// Key names for one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    base: String,
}

impl Layout {
    /// `<store>/<cluster>/…`, or `<store>/…` if the store's path already ends in the cluster's name, as it
    /// does for etcd-manager.
    pub fn of(store: &dyn ObjectStore, cluster: &ClusterName) -> Self {
        Self::below(&store.path(), cluster)
    }

    fn below(path: &str, cluster: &ClusterName) -> Self {
        let last = path.trim_end_matches('/').rsplit('/').next();
        let base = if last == Some(cluster.as_str()) {
            String::new()
        } else {
            format!("{cluster}/")
        };
        Self { base }
    }

    /// The prefix of all keys of the cluster; empty or ending in a slash.
    pub fn base(&self) -> &str {
        &self.base
    }
    /// The key of a file of a backup.
    pub fn in_backup(&self, id: &BackupId, file: &str) -> String {
        format!("{}{id}/{file}", self.base)
    }
    /// The prefix of all files of a backup.
    pub fn backup(&self, id: &BackupId) -> String {
        format!("{}{id}/", self.base)
    }
    /// The prefix of the control records, ours and etcd-manager's.
    pub fn control(&self) -> String {
        format!("{}control/", self.base)
    }
    /// The key of etcd-manager's marker that its cluster was created.
    pub fn created(&self) -> String {
        format!("{}control/etcd-cluster-created", self.base)
    }
    /// The key of the cluster's spec, which etcd-manager uses too.
    pub fn spec(&self) -> String {
        format!("{}control/etcd-cluster-spec", self.base)
    }
    /// The prefix of the epoch records.
    pub fn epochs(&self) -> String {
        format!("{}control/epochs/", self.base)
    }
    /// The key of an epoch's record.
    pub fn epoch(&self, epoch: Epoch) -> String {
        format!("{}control/epochs/{epoch}", self.base)
    }
    /// The backup that a key belongs to, and the file's name in that backup.
    pub fn split<'a>(&self, key: &'a str) -> Option<(BackupName, &'a str)> {
        let (name, file) = key.strip_prefix(&self.base)?.split_once('/')?;
        Some((name.parse().ok()?, file))
    }
    /// The epoch whose record has this key; `None` for other objects next to the records.
    pub fn split_epoch(&self, key: &str) -> Option<Epoch> {
        let name = key.strip_prefix(&self.epochs())?;
        let number: u64 = name.parse().ok()?;
        (number.to_string() == name).then_some(Epoch(number))
    }
}

/// A backup's name, `YYYY-MM-DDTHH:MM:SSZ-<seq6>`: ordered by the time in it, then by the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupName {
    seconds: i64,
    seq: u32,
}

impl BackupName {
    /// The name of a backup begun at `at`. The number consists of the milliseconds and the last three digits
    /// of `seq`. Take `seq` at random: it distinguishes backups that two agents begin at the same time. Of
    /// two backups begun in one second the later one has the later name.
    pub fn new(at: UnixMs, seq: u64) -> Self {
        let seconds = i64::try_from(at.0 / 1000).unwrap_or(i64::MAX);
        Self {
            // One second before 9999-12-30T22:00:00Z: the latest time of `Timestamp`.
            seconds: seconds.min(253_402_207_199),
            seq: u32::try_from(at.0 % 1000 * 1000 + seq % 1000).unwrap_or(0),
        }
    }

    /// The time in the name.
    pub fn at(self) -> UnixMs {
        UnixMs(u64::try_from(self.seconds).unwrap_or(0).saturating_mul(1000))
    }

    /// The time in the name of a backup; `None` for a name of another form.
    pub fn begun(id: &BackupId) -> Option<UnixMs> {
        id.as_str().parse().ok().map(Self::at)
    }

    /// The name as the model's type.
    ///
    /// # Errors
    /// Never for a name that was made or parsed here.
    pub fn id(self) -> Result<BackupId, IdError> {
        BackupId::new(self.to_string())
    }
}

impl fmt::Display for BackupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = Timestamp::from_second(self.seconds).map_err(|_| fmt::Error)?;
        write!(f, "{}-{:06}", time.strftime("%Y-%m-%dT%H:%M:%SZ"), self.seq)
    }
}

impl FromStr for BackupName {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError {
            what: "backup name",
            found: text.to_owned(),
            expected: "YYYY-MM-DDTHH:MM:SSZ-NNNNNN",
        };
        let (time, seq) = text.split_at_checked(20).ok_or_else(wrong)?;
        let time: Timestamp = time.parse().map_err(|_| wrong())?;
        let digits = seq.strip_prefix('-').ok_or_else(wrong)?;
        let name = Self {
            seconds: time.as_second(),
            seq: digits.parse().map_err(|_| wrong())?,
        };
        // Each backup has exactly one name. Text that does not round-trip is not a name.
        if name.seconds < 0 || name.to_string() != text {
            return Err(wrong());
        }
        Ok(name)
    }
}

/// How the data of a backup must be stored, given whether its manifest says that it is encrypted. An ID that
/// is not a backup's name counts as newest, so that no exception for old backups applies.
pub(in crate::backup) fn expected(id: &BackupId, encrypted: bool) -> Expected {
    Expected {
        encrypted,
        at: BackupName::begun(id).unwrap_or(UnixMs(u64::MAX)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cluster() -> ClusterName {
        ClusterName::new("prod").unwrap()
    }

    #[test]
    fn a_store_that_ends_in_the_cluster_is_its_own() {
        for (path, base) in [
            ("", "prod/"),
            ("etcd/backups", "prod/"),
            ("etcd/prod", ""),
            ("prod", ""),
            ("/srv/prod/", ""),
            ("/srv/nonprod", "prod/"),
        ] {
            assert_eq!(Layout::below(path, &cluster()).base(), base, "{path}");
        }
    }

    #[test]
    fn keys_are_what_they_say() {
        let layout = Layout::below("x", &cluster());
        let id = BackupId::new("2026-03-01T04:05:06Z-000042").unwrap();
        assert_eq!(
            layout.in_backup(&id, MANIFEST),
            "prod/2026-03-01T04:05:06Z-000042/backup.json"
        );
        let (name, file) = layout
            .split("prod/2026-03-01T04:05:06Z-000042/increments/1-2.zst")
            .unwrap();
        assert_eq!((name.id().unwrap(), file), (id, "increments/1-2.zst"));
        assert_eq!(name.at(), UnixMs(1_772_337_906_000));
        assert_eq!(layout.epoch(Epoch(10)), "prod/control/epochs/10");
        assert_eq!(layout.split_epoch("prod/control/epochs/10"), Some(Epoch(10)));
        for other in [
            "prod/control/epochs/010",
            "prod/control/epochs/x",
            "prod/control/epochs/1/y",
            "other/1",
        ] {
            assert_eq!(layout.split_epoch(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in [
            "",
            "control",
            "2026-03-01T04:05:06Z",
            "2026-03-01T04:05:06Z-42",
            "2026-03-01T04:05:06Z-0000042",
            "2026-13-01T04:05:06Z-000042",
            "2026-03-01T04:05:60Z-000042",
            "2026-03-01T04:05:06Z-+00042",
            "2026-03-01t04:05:06z-000042",
            "1969-03-01T04:05:06Z-000042",
            "ééééééééééééééééé",
        ] {
            assert!(text.parse::<BackupName>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn names_come_back_and_keep_their_order(a in 0_u64..253_402_207_199, b in 0_u64..253_402_207_199, s in 0_u64..1_000_000, t in any::<u64>()) {
            let (x, y) = (BackupName::new(UnixMs(a * 1000), s), BackupName::new(UnixMs(b * 1000 + 7), t));
            prop_assert_eq!(x.to_string().parse::<BackupName>().unwrap(), x);
            prop_assert_eq!(y.to_string().parse::<BackupName>().unwrap(), y);
            prop_assert_eq!(x.cmp(&y), x.to_string().cmp(&y.to_string()));
            prop_assert!(x.id().is_ok());
        }

        #[test]
        fn any_time_has_a_name(at in any::<u64>(), seq in any::<u64>()) {
            prop_assert!(BackupName::new(UnixMs(at), seq).id().is_ok());
        }

        #[test]
        fn garbage_is_no_name_or_its_own(text in "\\PC{0,40}") {
            if let Ok(name) = text.parse::<BackupName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}

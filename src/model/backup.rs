//! What is wanted of backups, what the store holds, and what is to become of each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{BackupId, BackupSummary, Calendar, Epoch, Job, Revision, UnixMs, Verified};

/// In which form full backups are written; all forms are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackupFormat {
    /// zstd, and `backup.json`.
    #[default]
    Native,
    /// gzip, and both markers: etcd-manager lists and restores it too.
    EtcdManager,
}

impl BackupFormat {
    /// As the configuration has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::EtcdManager => "etcd-manager",
        }
    }
}

/// A command in etcd-manager's queue in the store. Whoever may write into the store can leave one there, so it is
/// shown and never carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCommand {
    /// The name of its directory.
    pub name: String,
    /// When it was left there, by its own word.
    pub at: Option<UnixMs>,
    /// The backup that it asks to restore.
    pub restore: Option<BackupId>,
    /// Why it cannot be understood.
    pub problem: Option<String>,
}

/// Names a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandName {
    /// The name of its directory.
    pub name: String,
}

/// What is wanted of backups beyond their interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupSpec {
    /// When full backups are due, in place of an interval.
    pub on_calendar: Option<Calendar>,
    /// Which backups stay.
    pub retention: Retention,
    /// How often a backup is verified by restoring it; `None`: only when a person asks.
    pub verify_interval: Option<Duration>,
    /// The longest that a change waits for being in the store; `None`: no increments.
    pub increment_interval: Option<Duration>,
    /// After so many increments a new full backup is taken, however young the last one is.
    pub max_increments: usize,
    /// In which form they are written.
    pub format: BackupFormat,
}

impl Default for BackupSpec {
    fn default() -> Self {
        Self {
            on_calendar: None,
            retention: Retention::default(),
            verify_interval: None,
            increment_interval: Some(Duration::from_secs(1)),
            max_increments: 10_000,
            format: BackupFormat::default(),
        }
    }
}

/// Which backups stay. A backup stays when any of these wants it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retention {
    /// False: nothing is ever deleted.
    pub enabled: bool,
    /// All that are younger than this.
    pub recent: Duration,
    /// The newest of each of the last so many hours that have one.
    pub hourly: usize,
    /// The same of days (UTC).
    pub daily: usize,
    /// The same of weeks (Monday to Sunday, UTC).
    pub weekly: usize,
    /// The same of years (UTC).
    pub yearly: usize,
    /// The newest so many, whatever their age.
    pub count: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            enabled: true,
            recent: Duration::from_hours(1),
            hourly: 24,
            daily: 7,
            weekly: 5,
            yearly: 5,
            count: 3,
        }
    }
}

/// Who wrote a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Writer {
    /// An agent of ours.
    #[default]
    EtcdAgent,
    /// etcd-manager.
    EtcdManager,
}

/// A committed backup in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredBackup {
    /// What it is.
    #[serde(flatten)]
    pub summary: BackupSummary,
    /// Who wrote it.
    #[serde(default)]
    pub writer: Writer,
    /// What its last verification came to; `None` when there was none.
    #[serde(default)]
    pub verified: Option<Verified>,
    /// Why it cannot be said what its last verification came to: the store does not give `verify.json` away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_unreadable: Option<String>,
    /// In which epoch it was taken; `None` when that is not known.
    #[serde(default)]
    pub epoch: Option<Epoch>,
    /// Which history of that epoch it is of: a higher one began when etcd was put back to an older state.
    #[serde(default)]
    pub timeline: Option<u64>,
    /// What was seen, when etcd had been put back to an older state before this was taken.
    #[serde(default)]
    pub went_back: Option<String>,
    /// The full holds no later revision than this; `None` when that is not known.
    #[serde(default)]
    pub revision_at_most: Option<Revision>,
    /// The newest revision that its increments lead to without a gap.
    #[serde(default)]
    pub covered: Revision,
}

impl StoredBackup {
    /// Which history it is of: none is compared with another one by its revisions. `None` where that is not known.
    pub fn history(&self) -> Option<(Epoch, u64)> {
        Some((self.epoch?, self.timeline.unwrap_or_default()))
    }

    /// The backup that `latest` starts from: the newest of the newest timeline of the highest epoch. What is dated later may
    /// be of an older one, as clocks differ, and that one was replaced. Of a backup without an epoch, as etcd-manager writes
    /// them, nothing but its date is known.
    pub fn latest(backups: &[Self]) -> Option<&Self> {
        let newest_of = |wanted: &dyn Fn(&Self) -> bool| {
            let those = backups.iter().filter(|backup| wanted(backup));
            those.max_by_key(|backup| (backup.summary.at, &backup.summary.id))
        };
        let newest = newest_of(&|_| true)?;
        if newest.epoch.is_none() {
            return Some(newest);
        }
        let highest = backups.iter().map(Self::history).max()?;
        newest_of(&|backup| backup.history() == highest)
    }
}

/// A backup as `backup list` has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ListedBackup {
    /// Committed, but cannot be read or understood.
    Unreadable {
        /// Its name.
        id: BackupId,
        /// Why.
        unreadable: String,
    },
    /// All is known of it.
    Readable(Box<StoredBackup>),
}

impl ListedBackup {
    /// Its name.
    pub fn id(&self) -> &BackupId {
        match self {
            Self::Unreadable { id, .. } => id,
            Self::Readable(stored) => &stored.summary.id,
        }
    }
}

/// Some of a long answer, and what to ask for the rest after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    /// Oldest first.
    pub items: Vec<T>,
    /// The last of these, where there are more after it.
    #[serde(default)]
    pub next: Option<BackupId>,
}

/// What is to be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestoreTarget {
    /// As much as there is.
    Latest,
    /// The full backup as it was taken, without its increments.
    Full,
    /// The state at this revision.
    Revision(Revision),
    /// The state at this time: all changes received until then.
    Time(UnixMs),
}

/// Why a backup stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// It is the newest full backup: whatever is configured, that one stays (design rule 7).
    Newest,
    /// Its increments lead further than any newer backup: it is what `restore latest` restores (design rule 7).
    Increments,
    /// The newest epoch is restored from it, and not all its founders have started yet (design rule 7).
    Origin,
    /// It is the newest one that was verified and found good: that one stays as well (design rule 7).
    Verified,
    /// Younger than `recent`.
    Recent,
    /// The newest of its hour.
    Hourly,
    /// The newest of its day.
    Daily,
    /// The newest of its week.
    Weekly,
    /// The newest of its year.
    Yearly,
    /// Among the newest `count`.
    Count,
    /// It is dated after now, so a clock is wrong, and nothing is concluded from its age.
    Future,
    /// Another program wrote it.
    NotOurs,
    /// What its verification came to cannot be read: it may be the newest good one.
    Unreadable,
}

impl Keep {
    /// One word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Increments => "increments",
            Self::Origin => "origin",
            Self::Verified => "verified",
            Self::Recent => "recent",
            Self::Hourly => "hourly",
            Self::Daily => "daily",
            Self::Weekly => "weekly",
            Self::Yearly => "yearly",
            Self::Count => "count",
            Self::Future => "future",
            Self::NotOurs => "not-ours",
            Self::Unreadable => "unreadable",
        }
    }
}

/// What retention says of one backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Which.
    #[serde(flatten)]
    pub backup: StoredBackup,
    /// Why it stays; when nothing wants it, it goes.
    pub keep: Vec<Keep>,
}

impl Verdict {
    /// True when nothing wants it.
    pub fn goes(&self) -> bool {
        self.keep.is_empty()
    }
}

/// A chain of increments under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainView {
    /// The full backup that it hangs on.
    pub backup: BackupId,
    /// How many increments it has.
    pub increments: usize,
    /// Users or roles have changed since the full, which no increment tells.
    pub auth_changed: bool,
}

/// What this agent does in the store in addition to full backups, as the planner sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupView {
    /// Own pruning job.
    pub prune: Job,
    /// The newest backup when this agent pruned last.
    pub pruned: Option<BackupId>,
    /// Own verification.
    pub verify: Job,
    /// Own following of etcd's changes.
    pub increments: Job,
    /// The newest revision that this agent has stored, full or increment, and when.
    pub covered: Option<(Revision, UnixMs)>,
    /// The chain of increments that this agent makes longer.
    pub chain: Option<ChainView>,
    /// What was written until now is being stored, as a person asked.
    pub flushing: bool,
    /// The full backup whose increments cannot go on: a new one has to be taken.
    pub gap: Option<BackupId>,
    /// What was seen, when that is because etcd was put back to an older state.
    pub went_back: Option<String>,
}

//! The backup settings, the backups in the store, and the verdict of retention on each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{BackupId, BackupSummary, Calendar, Epoch, Job, Marks, Revision, UnixMs, Verified};

/// The format in which full backups are written. The agent reads all formats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackupFormat {
    /// zstd, and `backup.json`.
    #[default]
    Native,
    /// gzip, and both markers. etcd-manager can also list and restore it.
    EtcdManager,
}

impl BackupFormat {
    /// The word of the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::EtcdManager => "etcd-manager",
        }
    }
}

/// A command in etcd-manager's queue in the store. Anyone with write access to the store can leave one there,
/// so the agent shows it and never carries it out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCommand {
    /// The name of its directory.
    pub name: String,
    /// When it was left there, according to the command itself.
    pub at: Option<UnixMs>,
    /// The backup that it asks to restore.
    pub restore: Option<BackupId>,
    /// Why it cannot be parsed.
    pub problem: Option<String>,
}

/// The name of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandName {
    /// The name of its directory.
    pub name: String,
}

impl CommandName {
    /// The error text of the agent for a command that is not in the store (HTTP status 404).
    pub fn absent(&self) -> String {
        format!("there is no command {} in the store", self.name)
    }
}

/// The backup settings other than the interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupSpec {
    /// When full backups are due, instead of an interval.
    pub on_calendar: Option<Calendar>,
    /// Which backups are kept.
    pub retention: Retention,
    /// How often a backup is verified by a restore; `None`: only when a person asks.
    pub verify_interval: Option<Duration>,
    /// The longest time until a change is in the store; `None`: no increments.
    pub increment_interval: Option<Duration>,
    /// After this many increments a new full backup is taken, regardless of the age of the last one.
    pub max_increments: usize,
    /// The format of full backups.
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

/// Which backups are kept. A backup is kept if any of these rules wants it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retention {
    /// False: nothing is ever deleted.
    pub enabled: bool,
    /// Keeps all backups that are younger than this.
    pub recent: Duration,
    /// Keeps the newest backup of each hour, for this many of the last hours that have one.
    pub hourly: usize,
    /// The same for days (UTC).
    pub daily: usize,
    /// The same for weeks (Monday to Sunday, UTC).
    pub weekly: usize,
    /// The same for years (UTC).
    pub yearly: usize,
    /// Keeps this many of the newest backups, regardless of their age.
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
    /// An etcd-agent.
    #[default]
    EtcdAgent,
    /// etcd-manager.
    EtcdManager,
}

/// A committed backup in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredBackup {
    /// Its summary.
    #[serde(flatten)]
    pub summary: BackupSummary,
    /// Who wrote it.
    #[serde(default)]
    pub writer: Writer,
    /// The result of its last verification; `None` if there was none.
    #[serde(default)]
    pub verified: Option<Verified>,
    /// Why the result of its last verification is unknown: the store did not return `verify.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_unreadable: Option<String>,
    /// The epoch in which it was taken; `None` if unknown.
    #[serde(default)]
    pub epoch: Option<Epoch>,
    /// Its timeline in that epoch. A higher timeline began when etcd was put back to an older state.
    #[serde(default)]
    pub timeline: Option<u64>,
    /// The evidence that etcd was put back to an older state before this backup was taken, if it was.
    #[serde(default)]
    pub went_back: Option<String>,
    /// The upper bound of the revisions in the full backup; `None` if unknown.
    #[serde(default)]
    pub revision_at_most: Option<Revision>,
    /// The newest revision that its increments reach without a gap.
    #[serde(default)]
    pub covered: Revision,
    /// What operators noted on it.
    #[serde(flatten)]
    pub marks: Marks,
}

impl StoredBackup {
    /// The history that it belongs to. Revisions of different histories must not be compared. `None` if
    /// unknown.
    pub fn history(&self) -> Option<(Epoch, u64)> {
        Some((self.epoch?, self.timeline.unwrap_or_default()))
    }

    /// The backup that `latest` starts from: the newest of the newest timeline of the highest epoch. A backup
    /// with a later date may belong to an older history, because clocks differ, and that history was
    /// replaced. A backup without an epoch, as etcd-manager writes them, can only be ranked by its date.
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

/// A backup as `backup list` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ListedBackup {
    /// Committed, but it cannot be read or parsed.
    Unreadable {
        /// Its name.
        id: BackupId,
        /// Why.
        unreadable: String,
    },
    /// Committed and readable.
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

/// A part of a long answer, and where the next part begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    /// Oldest first.
    pub items: Vec<T>,
    /// The last of these items, if more follow; the next request names it.
    #[serde(default)]
    pub next: Option<BackupId>,
}

/// The state that a restore builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestoreTarget {
    /// The newest state in the store.
    Latest,
    /// The full backup alone, without its increments.
    Full,
    /// The state at this revision.
    Revision(Revision),
    /// The state at this time, with all changes received until then.
    Time(UnixMs),
}

/// Why a backup is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// It is the newest full backup, which is kept regardless of the configuration (design rule 7).
    Newest,
    /// Its increments reach a later revision than any newer backup, so `restore latest` restores it (design
    /// rule 7).
    Increments,
    /// The newest epoch is restored from it, and not all its founders have started yet (design rule 7).
    Origin,
    /// It is the newest backup that was verified and found good, which is kept as well (design rule 7).
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
    /// Its date is in the future, so a clock is wrong and its age means nothing.
    Future,
    /// Another program wrote it.
    NotOurs,
    /// The result of its verification cannot be read, so it may be the newest good backup. Or its marks
    /// cannot be read, so it may be kept by an operator's order.
    Unreadable,
    /// An operator ordered to keep it.
    Kept,
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
            Self::Kept => "kept",
        }
    }

    /// Why the backup cannot be replaced by others, and what to do first. An operator's order to delete it is
    /// refused then. `None` if a class of the configuration keeps it, which an order overrides.
    pub fn irreplaceable(self) -> Option<&'static str> {
        match self {
            Self::Newest => Some("it is the newest one: take another one first (`etcd-agent backup now`)"),
            Self::Increments => Some(
                "no newer backup of its history leads to the state that it leads to: take another one first \
                 (`etcd-agent backup now`); in an older timeline it stays as long as backup.retention.daily says",
            ),
            Self::Origin => {
                Some("the newest epoch is restored from it, and not all its members have started yet")
            }
            Self::Verified => Some(
                "it is the newest one that was verified and is good: verify a newer one first \
                 (`etcd-agent backup verify`)",
            ),
            Self::NotOurs => Some("etcd-manager wrote it: delete it with its own tools"),
            Self::Unreadable => Some(
                "the result of its verification or its marks cannot be read, so it may be the one to keep: \
                 `etcd-agent backup list` says why",
            ),
            Self::Kept => {
                Some("it is kept by an operator's order: `etcd-agent backup keep --undo` withdraws it")
            }
            Self::Recent
            | Self::Hourly
            | Self::Daily
            | Self::Weekly
            | Self::Yearly
            | Self::Count
            | Self::Future => None,
        }
    }
}

/// The verdict of retention on one backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The backup.
    #[serde(flatten)]
    pub backup: StoredBackup,
    /// Why it is kept; if empty, it is deleted.
    pub keep: Vec<Keep>,
}

impl Verdict {
    /// True if no rule keeps it.
    pub fn goes(&self) -> bool {
        self.keep.is_empty()
    }
}

/// A chain of increments that is being written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainView {
    /// The full backup that it extends.
    pub backup: BackupId,
    /// The number of its increments.
    pub increments: usize,
    /// Users or roles have changed since the full backup. Increments do not contain such changes.
    pub auth_changed: bool,
}

/// This agent's work in the store in addition to full backups, as the planner sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupView {
    /// This agent's pruning job.
    pub prune: Job,
    /// The newest backup at the time of this agent's last pruning.
    pub pruned: Option<BackupId>,
    /// This agent's verification job.
    pub verify: Job,
    /// This agent's job that stores etcd's changes as increments.
    pub increments: Job,
    /// The newest revision that this agent has stored, in a full backup or an increment, and when.
    pub covered: Option<(Revision, UnixMs)>,
    /// The chain of increments that this agent extends.
    pub chain: Option<ChainView>,
    /// True while the agent stores the changes received so far, because a person asked for it.
    pub flushing: bool,
    /// The full backup whose increments cannot continue, so a new full backup is needed.
    pub gap: Option<BackupId>,
    /// The evidence, if the cause of the gap is that etcd was put back to an older state.
    pub went_back: Option<String>,
}

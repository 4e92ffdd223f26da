//! Which archived data directories `[archive]` keeps, and why.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ages::{self, Moment};
use super::archive::{Archives, time_of};
use crate::config::ArchiveSettings;
use crate::model::{ClusterId, MemberId};
use crate::unit::wal;

/// Why an archived data directory stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArchiveKeep {
    /// It is the newest one.
    Newest,
    /// It is the newest one of its cluster ID, or of those whose cluster ID cannot be read.
    NewestOfCluster,
    /// It is not older than `archive.min_age`, by the clock or by the time that has certainly passed.
    MinAge,
    /// It is one of the newest `archive.keep`, and not older than `archive.max_age`.
    Count,
    /// It is a symbolic link or a file, which the agent does not remove.
    NotADirectory,
}

impl ArchiveKeep {
    /// One word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::NewestOfCluster => "newest-of-cluster",
            Self::MinAge => "min-age",
            Self::Count => "count",
            Self::NotADirectory => "not-a-directory",
        }
    }

    /// True if it stays whatever its age and their number: there may be no other copy.
    pub fn is_lasting(self) -> bool {
        matches!(self, Self::Newest | Self::NewestOfCluster)
    }
}

/// One archived data directory.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: String,
    /// By the clock.
    age: Duration,
    /// A lower bound, independent of changes of the clock.
    lived: Duration,
    /// The cluster and the member of its data, if they can be read.
    pub(super) ids: Option<(ClusterId, MemberId)>,
    /// Its data and its log are directories.
    is_directory: bool,
}

impl Entry {
    /// `None` if its name is not one of ours.
    fn new(archives: &Archives, name: String, put: &ages::Ages, now: &Moment) -> Option<Self> {
        let time = time_of(&name)?;
        let log = [archives.log(&name), archives.data(&name).join("member/wal")];
        let parts = [archives.log(&name), archives.data(&name)];
        let mut found = parts.iter().filter_map(|part| fs::symlink_metadata(part).ok());
        Some(Self {
            age: Duration::try_from(now.wall.duration_since(time)).unwrap_or_default(),
            lived: ages::lived(put.get(&name), now),
            ids: log.iter().find_map(|log| wal::identify(log).ok()),
            is_directory: found.all(|meta| meta.is_dir()),
            name,
        })
    }
}

/// All that is archived, the newest first.
pub(super) fn entries(archives: &Archives, now: &Moment) -> Result<Vec<Entry>, String> {
    let put = ages::read(&archives.data);
    let names = archives.names()?.into_iter();
    let mut entries: Vec<Entry> = names
        .filter_map(|name| Entry::new(archives, name, &put, now))
        .collect();
    entries.sort_unstable_by(|a, b| b.name.cmp(&a.name));
    Ok(entries)
}

/// What retention says about one of them.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    pub(super) entry: Entry,
    /// Why it stays; empty if the next pruning removes it.
    pub(super) keep: Vec<ArchiveKeep>,
    /// How long it stays at least if nothing else is archived and the disk is not nearly full; `None` if it goes now,
    /// or if it stays as long as it is the newest.
    pub(super) stays_for: Option<Duration>,
    /// It is beyond the count, and may go when space is short.
    goes_for_space: bool,
}

/// Judges all of them; `entries` is newest first. A replacement that fails repeatedly, or a clock that jumps, must not
/// empty the archive: nothing is removed before `min_age`, by the clock and by the time that has certainly passed.
/// What is no directory is left alone, and does not count.
pub(super) fn judge(entries: Vec<Entry>, limits: ArchiveSettings) -> Vec<Judged> {
    let mut clusters = BTreeSet::new();
    let mut directories = 0;
    let one = |entry: Entry| {
        if !entry.is_directory {
            return Judged {
                entry,
                keep: vec![ArchiveKeep::NotADirectory],
                stays_for: None,
                goes_for_space: false,
            };
        }
        let place = directories;
        directories += 1;
        let is_first = clusters.insert(entry.ids.map(|ids| ids.0));
        let is_beyond = place >= limits.keep;
        let reasons = [
            (ArchiveKeep::Newest, place == 0),
            (ArchiveKeep::NewestOfCluster, place > 0 && is_first),
            (
                ArchiveKeep::MinAge,
                entry.age <= limits.min_age || entry.lived <= limits.min_age,
            ),
            (ArchiveKeep::Count, !is_beyond && entry.age <= limits.max_age),
        ];
        let holding = reasons.into_iter().filter(|(_, holds)| *holds);
        let keep: Vec<ArchiveKeep> = holding.map(|(keep, _)| keep).collect();
        let is_lasting = keep.iter().any(|keep| keep.is_lasting());
        let most = if is_beyond {
            limits.min_age
        } else {
            limits.min_age.max(limits.max_age)
        };
        let left = most
            .saturating_sub(entry.age)
            .max(limits.min_age.saturating_sub(entry.lived));
        Judged {
            stays_for: (!is_lasting && !keep.is_empty()).then_some(left),
            goes_for_space: !is_lasting && is_beyond,
            entry,
            keep,
        }
    };
    entries.into_iter().map(one).collect()
}

/// The names of those beyond the configured count or age.
pub(super) fn surplus(judged: &[Judged]) -> Vec<String> {
    let gone = judged.iter().filter(|one| one.keep.is_empty());
    gone.map(|one| one.entry.name.clone()).collect()
}

/// The names of those that may be removed when space is short, the oldest first.
pub(super) fn for_space(judged: &[Judged]) -> Vec<String> {
    let beyond = judged.iter().rev().filter(|one| one.goes_for_space);
    beyond.map(|one| one.entry.name.clone()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    /// Newest first: days by the clock, days that have certainly passed, the cluster.
    fn entries(of: &[(u32, u32, u64)]) -> Vec<Entry> {
        of.iter()
            .map(|(age, lived, cluster)| Entry {
                name: format!("{age}"),
                age: DAY * *age,
                lived: DAY * *lived,
                ids: Some((ClusterId(*cluster), MemberId(1))),
                is_directory: true,
            })
            .collect()
    }

    fn limits(keep: usize, min: u32, max: u32) -> ArchiveSettings {
        ArchiveSettings {
            keep,
            min_age: DAY * min,
            max_age: DAY * max,
        }
    }

    #[test]
    fn what_goes() {
        let same = entries(&[(1, 1, 1), (8, 8, 1), (10, 10, 1), (40, 40, 1)]);
        let cases = [
            ("by count", limits(2, 7, 365), vec!["10", "40"]),
            ("by age", limits(9, 7, 30), vec!["40"]),
            ("by both", limits(3, 7, 9), vec!["10", "40"]),
            (
                "the newest stays, by count",
                limits(0, 7, 365),
                vec!["8", "10", "40"],
            ),
            ("the newest stays, by age", limits(9, 0, 0), vec!["8", "10", "40"]),
            ("nothing", limits(9, 7, 365), vec![]),
            ("nothing that is young", limits(1, 20, 0), vec!["40"]),
        ];
        for (case, limits, expected) in cases {
            assert_eq!(surplus(&judge(same.clone(), limits)), expected, "{case}");
        }
    }

    #[test]
    fn f06_the_newest_of_each_cluster_stays() {
        let mixed = entries(&[(1, 1, 1), (50, 50, 2), (60, 60, 1), (70, 70, 2), (80, 80, 3)]);
        let judged = judge(mixed, limits(1, 7, 30));
        assert_eq!(surplus(&judged), ["60", "70"]);
        assert_eq!(for_space(&judged), ["70", "60"], "the oldest first");
    }

    /// All of them are 30 days older by the clock than they are.
    #[test]
    fn f06_a_clock_that_jumps_empties_nothing() {
        let jumped = entries(&[(0, 0, 1), (31, 1, 1), (33, 3, 1), (36, 6, 1), (50, 20, 1)]);
        assert_eq!(surplus(&judge(jumped, limits(2, 7, 30))), ["50"]);
    }

    #[test]
    fn why_one_stays_and_for_how_long() {
        use ArchiveKeep::{Count, MinAge, Newest, NewestOfCluster, NotADirectory};
        let mut mixed = entries(&[
            (0, 0, 1),
            (1, 1, 1),
            (2, 2, 1),
            (3, 1, 1),
            (8, 8, 1),
            (9, 9, 2),
            (10, 10, 2),
        ]);
        mixed.get_mut(1).unwrap().is_directory = false;
        let judged = judge(mixed, limits(2, 7, 30));
        let found: Vec<(&[ArchiveKeep], Option<Duration>)> = judged
            .iter()
            .map(|one| (one.keep.as_slice(), one.stays_for))
            .collect();
        let expected: [(&[ArchiveKeep], Option<Duration>); 7] = [
            (&[Newest, MinAge, Count], None),
            (&[NotADirectory], None),
            (&[MinAge, Count], Some(DAY * 28)),
            (&[MinAge], Some(DAY * 6)),
            (&[], None),
            (&[NewestOfCluster], None),
            (&[], None),
        ];
        assert_eq!(found, expected);
        assert_eq!(for_space(&judged), ["10", "8", "3"], "the young one too");
        for keep in [Newest, NewestOfCluster, MinAge, Count, NotADirectory] {
            let written = serde_json::to_string(&keep).unwrap();
            assert_eq!(written, format!("\"{}\"", keep.as_str()));
        }
    }
}

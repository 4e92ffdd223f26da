//! The decisions of `etcd-agent backup run`, which has no observation: which member is backed up next, and
//! when.

use std::time::Duration;

use super::backup::due_in;
use crate::model::{BackupSummary, Calendar, EtcdStatus, UnixMs};

/// A member this many entries behind the furthest one is not backed up.
const MOST_BEHIND: u64 = 1000;

/// Time until the next backup; `None` if it is due. Processes that back up into the same store share one
/// schedule: a backup of any of them counts. A backup dated after now does not count, because one of the two
/// clocks is wrong. The last backup `taken` here counts instead.
pub fn backup_in(
    newest: Option<&BackupSummary>,
    taken: Option<UnixMs>,
    now: UnixMs,
    interval: Duration,
    calendar: Option<&Calendar>,
) -> Option<Duration> {
    let dated = newest.map(|backup| backup.at).filter(|at| *at <= now);
    let last = dated.max(taken.filter(|at| *at <= now))?;
    Some(due_in(last, now, interval, calendar)).filter(|wait| !wait.is_zero())
}

/// Which of the asked members is backed up: a caught-up follower if there is one, because the raft leader is
/// busy enough. `None` if no member serves with quorum.
///
/// # Errors
/// If the members belong to more than one cluster: chance would decide which cluster is backed up.
pub fn backup_of(answers: &[Option<EtcdStatus>]) -> Result<Option<usize>, String> {
    let known = || answers.iter().flatten();
    if let Some(first) = known().next()
        && let Some(other) = known().find(|status| status.cluster_id != first.cluster_id)
    {
        return Err(format!(
            "the members are of two clusters, {} and {}: name the endpoints of one",
            first.cluster_id, other.cluster_id
        ));
    }
    let furthest = known().map(|status| status.applied).max().unwrap_or(0);
    let good = |status: &EtcdStatus| {
        status.leader.is_some()
            && !status.is_learner
            && status.applied.saturating_add(MOST_BEHIND) >= furthest
    };
    let best = answers
        .iter()
        .enumerate()
        .filter_map(|(place, answer)| Some((place, answer.as_ref().filter(|status| good(status))?)))
        .min_by_key(|(_, status)| {
            let leads = status.leader == Some(status.member_id);
            (!status.errors.is_empty(), leads, u64::MAX - status.applied)
        });
    Ok(best.map(|(place, _)| place))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{BackupId, ClusterId, MemberId, RaftTerm, Revision};

    fn at(ms: u64) -> BackupSummary {
        BackupSummary {
            id: BackupId::new("2026-03-01T04:05:06Z-000042").unwrap(),
            at: UnixMs(ms),
            revision: Revision(7),
            size_bytes: 1,
        }
    }

    #[test]
    fn one_backup_an_interval_from_any_node() {
        let interval = Duration::from_mins(1);
        let in_s = |seconds| Some(Duration::from_secs(seconds));
        for (what, newest, taken, expected) in [
            ("an empty store", None, None, None),
            ("a young one of anybody", Some(90_000), None, in_s(50)),
            ("an old one", Some(40_000), None, None),
            (
                "an old one, and a young one of ours that was removed",
                Some(40_000),
                Some(95_000),
                in_s(55),
            ),
            ("one from the future", Some(9_000_000), None, None),
            (
                "one from the future, and ours",
                Some(9_000_000),
                Some(70_000),
                in_s(30),
            ),
            ("the clock was set back", None, Some(9_000_000), None),
        ] {
            let newest = newest.map(at);
            let found = backup_in(
                newest.as_ref(),
                taken.map(UnixMs),
                UnixMs(100_000),
                interval,
                None,
            );
            assert_eq!(found, expected, "{what}");
        }
        // With a calendar, the interval does not matter.
        let calendar: Calendar = "*:*:30".parse().unwrap();
        for (newest, expected) in [(89_000, None), (90_000, in_s(50)), (95_000, in_s(50))] {
            let found = backup_in(
                Some(&at(newest)),
                None,
                UnixMs(100_000),
                interval,
                Some(&calendar),
            );
            assert_eq!(found, expected, "{newest}");
        }
    }

    fn member(id: u64, applied: u64) -> EtcdStatus {
        EtcdStatus {
            version: "3.6.16".to_owned(),
            storage_version: None,
            downgrade_to: None,
            cluster_id: ClusterId(1),
            member_id: MemberId(id),
            leader: Some(MemberId(1)),
            is_learner: false,
            term: RaftTerm(2),
            index: applied,
            applied,
            db_size_bytes: 0,
            db_in_use_bytes: None,
            revision: Revision(applied),
            errors: vec![],
        }
    }

    #[test]
    fn a_caught_up_follower_is_backed_up_and_never_a_guess() {
        let with = |change: fn(&mut EtcdStatus)| {
            let mut status = member(2, 5000);
            change(&mut status);
            Some(status)
        };
        let leader = || Some(member(1, 5000));
        for (what, answers, expected) in [
            ("nobody answers", vec![None, None], None),
            ("the leader alone", vec![None, leader()], Some(1)),
            ("a follower", vec![leader(), Some(member(2, 4999))], Some(1)),
            (
                "the further follower",
                vec![Some(member(2, 4998)), Some(member(3, 4999))],
                Some(1),
            ),
            ("behind", vec![leader(), with(|s| s.applied = 3999)], Some(0)),
            (
                "a learner",
                vec![leader(), with(|s| s.is_learner = true)],
                Some(0),
            ),
            (
                "an alarm",
                vec![leader(), with(|s| s.errors = vec!["NOSPACE".to_owned()])],
                Some(0),
            ),
            ("no quorum", vec![with(|s| s.leader = None)], None),
        ] {
            assert_eq!(backup_of(&answers), Ok(expected), "{what}");
        }
        let error = backup_of(&[leader(), with(|s| s.cluster_id = ClusterId(2))]).unwrap_err();
        assert!(error.contains("two clusters, 1 and 2"), "{error}");
    }
}

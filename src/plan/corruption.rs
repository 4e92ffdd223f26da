//! Members whose data differs from the others'. The coordinator has etcd hash the data of all voters (`HashKV`) from
//! time to time. A member that differs from a majority is rebuilt from the others, if the configuration says so.

use std::collections::BTreeSet;
use std::time::Duration;

use super::context::{Context, names};
use super::failure::Failing;
use super::hashes::{is_corrupt, own_check};
use super::leader;
use super::removal::{may_lose, may_remove_voters, remove};
use super::safety::healthy_members;
use crate::model::{Action, Backoff, HashCheck, MemberId, MemberList, NodeName, ReasonCode, Removal};

/// The pauses after a comparison that failed, or that lacks the hash of a voter.
const RETRY: Backoff = Backoff::new(Duration::from_mins(1), Duration::from_hours(1));
/// A difference that another node reports is confirmed at most this often.
const CONFIRM: Duration = Duration::from_mins(10);

/// Begins to compare the data of all voters when `repair.check_interval` has passed, or when another node has found a
/// difference.
pub(super) fn due(cx: &mut Context<'_>) -> Option<Action> {
    let interval = cx.spec.repair.check_interval?;
    let (genesis, list) = (cx.genesis()?, cx.coordinated_list()?);
    if list.voters().count() < 2 || cx.obs.hash_check.running {
        return None;
    }
    let own = own_check(cx, list.cluster_id);
    let reported: Vec<&HashCheck> = cx
        .known_peers()
        .filter_map(|(_, status)| status.steering.hash_check.as_ref())
        .filter(|check| check.cluster_id == list.cluster_id && check.at <= cx.obs.now)
        .collect();
    let unconfirmed = |check: &&HashCheck| own.is_none_or(|own| own.at < check.at) && concerns(check, list);
    let rested = own.is_none_or(|own| cx.obs.now.since(own.at) >= CONFIRM);
    let claimed = rested && reported.iter().any(unconfirmed);
    let last = reported.into_iter().chain(own).map(|check| check.at).max();
    let since = cx.obs.now.since(last.unwrap_or(genesis.created));
    if since < interval && !claimed {
        cx.wake_in(interval.saturating_sub(since));
        return None;
    }
    if !list.voter_ids().is_subset(&healthy_members(cx, list)) {
        return None;
    }
    let job = &cx.obs.hash_check;
    let pause = RETRY.jittered(job.failures, cx.obs.seed);
    let failed = "the members' data could not be compared";
    if cx.rests(job, pause, ReasonCode::HashCheckFailed, failed) {
        return None;
    }
    let why = if claimed {
        "another node has found members whose data differs"
    } else {
        "the members' data was not compared within repair.check_interval"
    };
    cx.because(ReasonCode::HashCheckDue, why);
    Some(Action::CheckHashes { term: list.term })
}

/// Reports members whose data differs, as this node has found.
pub(super) fn report(cx: &mut Context<'_>) {
    let Some(list) = cx.obs.me.members.known() else {
        return;
    };
    let Some(check) = own_check(cx, list.cluster_id) else {
        return;
    };
    let (corrupt, unclear) = (
        nodes_of(cx, list, &check.found.corrupt),
        nodes_of(cx, list, &check.found.unclear),
    );
    let revision = check.revision;
    if !corrupt.is_empty() {
        let then = if cx.spec.repair.corrupt {
            "they are rebuilt one at a time"
        } else {
            "repair.corrupt = true has them rebuilt"
        };
        let text = format!(
            "the data of {} differs from the majority's at revision {revision}: {then}",
            names(corrupt)
        );
        cx.because(ReasonCode::DataDiffers, text);
    }
    if !unclear.is_empty() {
        let text = format!(
            "the data of {} differs at revision {revision}, and no majority has the same: find out which is right, then \
             `etcd-agent member remove NODE` (`--force` without a spare) and `etcd-agent member add NODE` for a \
             wrong one",
            names(unclear)
        );
        cx.because(ReasonCode::DataDiffers, text);
    }
}

/// Removes a voter whose data differs from the majority's, if the configuration says so. Its node comes back as a
/// learner with the data of the raft leader, so a leader whose own data differs gives the leadership away first.
pub(super) fn replace<'a>(cx: &mut Context<'a>, list: &'a MemberList) -> Option<Action> {
    if !cx.spec.repair.corrupt {
        return None;
    }
    let corrupt = list
        .voters()
        .filter(|voter| is_corrupt(cx, list.cluster_id, voter.id));
    let (member, node) = corrupt
        .filter_map(|voter| Some((voter, cx.spec.node_of(voter)?)))
        .max_by_key(|(_, node)| **node == cx.spec.node)?;
    let failing = Failing {
        member,
        node,
        why: Removal::Corrupt,
    };
    if !may_remove_voters(cx, &failing) || !may_lose(cx, list, &failing) {
        return None;
    }
    if !has_majority_left(cx, list) {
        let text = format!(
            "{node} is to be rebuilt, but too few members with the majority's data are left: lost ones are replaced first, \
             or the data is compared again"
        );
        cx.because(ReasonCode::TooFewHealthy, text);
        return None;
    }
    if *node == cx.spec.node {
        cx.because(
            ReasonCode::LeaderFirst,
            "this node's data differs from the others': another member leads first",
        );
        return leader::away(cx, list);
    }
    cx.because(
        ReasonCode::ReplaceCorrupt,
        format!("{node} is rebuilt from the others: {}", Removal::Corrupt),
    );
    remove(cx, member, node, Removal::Corrupt, None, list)
}

/// True if the voters that do not differ are still a majority of those that were compared. One of them may have lost
/// its data and its membership since. Another removal would leave the last one alone with what was the majority's
/// data, and the removed ones without a second node that confirms their removal.
fn has_majority_left(cx: &Context<'_>, list: &MemberList) -> bool {
    let right = list
        .voters()
        .filter(|voter| !is_corrupt(cx, list.cluster_id, voter.id))
        .count();
    own_check(cx, list.cluster_id).is_some_and(|check| 2 * right > check.compared)
}

/// True if the comparison found a corrupt voter that is still in the list.
fn concerns(check: &HashCheck, list: &MemberList) -> bool {
    !check.found.corrupt.is_disjoint(&list.voter_ids())
}

fn nodes_of<'a>(cx: &Context<'a>, list: &MemberList, ids: &BTreeSet<MemberId>) -> Vec<&'a NodeName> {
    let members = list.members.iter().filter(|member| ids.contains(&member.id));
    members.filter_map(|member| cx.spec.node_of(member)).collect()
}

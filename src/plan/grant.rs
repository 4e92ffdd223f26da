//! Grants to restart etcd, to take the reboot lock or to defragment etcd. The coordinator gives one to one
//! node at a time (rule 4). Restarts come first: followers, then the leader, and only after another member
//! leads. Defragmentations come last, in the same order. A grant is published in the status and is valid in
//! one raft term. A grant to restart or to defragment ends when its node is healthy again and no longer asks;
//! a grant of the reboot lock, when its node holds the lock, which then takes its place.

use std::time::Duration;

use super::context::{Context, names};
use super::next_start::stays_down;
use super::orders::{is_out, paused};
use super::safety::undisturbed;
use super::{downgrade, leader, lock_holder, space, spares, transport_list};
use crate::model::{
    Action, Grant, GrantPurpose, Join, MemberList, NodeName, NodeStatus, RaftTerm, ReasonCode,
};

/// A node that has not used its grant within this time loses it.
const UNUSED: Duration = Duration::from_secs(30);
/// A restart that is not over after this time no longer delays other changes.
const LONGEST: Duration = Duration::from_mins(3);
/// How long nothing is granted while a node may still act on an earlier grant: one that was withdrawn, or one
/// of the previous coordinator, which does not say that there is none. Longer than `agent/execute/restart.rs`
/// takes from its last check to the restart, which is asserted there.
pub const GRANT_COOLDOWN: Duration = Duration::from_secs(5);
/// A node that did not use a grant gets the next one after this time.
const GRANT_UNUSED_AGAIN: Duration = Duration::from_mins(1);

/// Grants restarts and the reboot lock, one node at a time. Moves the leader when only its node is left to be
/// restarted.
pub(super) fn give(cx: &mut Context<'_>) -> Option<Action> {
    let Some(list) = cx.coordinated_list() else {
        if cx.memory.grant.is_some() {
            withdraw(cx);
        }
        note_leader(cx);
        cx.memory.coordinates = None;
        return None;
    };
    let action = give_for(cx, list);
    cx.memory.grants_over = (cx.memory.grant.is_none() && has_rested(cx, list)).then_some(list.term);
    action
}

fn give_for(cx: &mut Context<'_>, list: &MemberList) -> Option<Action> {
    if cx.memory.coordinates.is_none_or(|(term, _)| term != list.term) {
        cx.memory.grant = None;
        cx.memory.coordinates = Some((list.term, cx.obs.steady));
        cx.memory.leader_waits = None;
    }
    let statuses = statuses(cx, list);
    let whole = undisturbed(cx, list);
    settle(cx, &statuses, whole.is_ok());
    if let Some((grant, _)) = cx.memory.grant.clone() {
        let (code, text) = in_progress(&grant);
        cx.because(code, text);
        cx.wake_in(Duration::from_secs(1));
        let restarts = (grant.purpose == GrantPurpose::Restart).then(|| grant.node.clone());
        return restarts.and_then(|node| transport_list::list_anew(cx, list, Some(&node)));
    }
    let mut wanting = wanting(cx, list);
    if let Some((node, why)) = goes_for_good(&statuses) {
        // The gate lets it stop soon, whatever is granted. Only members whose stop the gate holds back as
        // well go first.
        let text =
            format!("etcd on {node} is being stopped, which is not granted: it might not start again: {why}");
        cx.because(ReasonCode::RestartWaits, text);
        cx.wake_in(Duration::from_secs(1));
        let held = |node: &NodeName| {
            let status = cx.status_of(node);
            status.is_some_and(|status| status.steering.waits_to_stop && stays_down(status).is_none())
        };
        wanting.retain(|node| held(node));
        if wanting.is_empty() {
            return None;
        }
    }
    let half = transport_list::half_switched(cx, list);
    if !half.is_empty() && wanting.iter().any(|node| half.contains(node)) {
        wanting.retain(|node| half.contains(node));
    } else if !half.is_empty() {
        let text = format!(
            "etcd on {} does not listen at the peer URL under which it is listed: nothing else is disturbed before it does",
            names(half)
        );
        cx.because(ReasonCode::TransportWaits, text);
        return None;
    }
    if wanting.is_empty() {
        cx.memory.leader_waits = None;
        report_left_alone(cx, &statuses);
        lend(cx, list, &whole);
        let wanting = wanting_defrag(cx, list);
        if cx.memory.grant.is_some() || wanting.is_empty() || cx.obs.backup.running {
            // A snapshot that is read would hold a defragmentation up, with etcd's writes behind it.
            return None;
        }
        return followers_first(cx, list, &whole, &wanting, &DEFRAG);
    }
    followers_first(cx, list, &whole, &wanting, &RESTART)
}

/// A node on which something other than the agent stops an etcd that might not start again, and why.
fn goes_for_good<'a>(statuses: &[&'a NodeStatus]) -> Option<(&'a NodeName, &'a str)> {
    let mut stopping = statuses.iter().filter(|status| status.steering.waits_to_stop);
    stopping.find_map(|status| Some((&status.node, stays_down(status)?)))
}

/// What differs between grants to restart and to defragment.
struct Work {
    purpose: GrantPurpose,
    /// What is done to etcd.
    done: &'static str,
    waits: ReasonCode,
    unused: ReasonCode,
    granted: ReasonCode,
}

const RESTART: Work = Work {
    purpose: GrantPurpose::Restart,
    done: "restarted",
    waits: ReasonCode::RestartWaits,
    unused: ReasonCode::RestartUnused,
    granted: ReasonCode::RestartGranted,
};
const DEFRAG: Work = Work {
    purpose: GrantPurpose::Defrag,
    done: "defragmented",
    waits: ReasonCode::DefragWaits,
    unused: ReasonCode::DefragWaits,
    granted: ReasonCode::DefragGranted,
};

/// Grants the work to the first node that wants it: followers first, and the leader once another member leads.
fn followers_first(
    cx: &mut Context<'_>,
    list: &MemberList,
    whole: &Result<(), String>,
    wanting: &[&NodeName],
    work: &Work,
) -> Option<Action> {
    let Work { purpose, done, .. } = *work;
    let waits_since = cx.memory.leader_waits.take();
    let to_do = format!("etcd on {} is to be {done}", names(wanting.iter().copied()));
    if !may_grant(cx, list, whole, (work.waits.clone(), &to_do)) {
        return None;
    }
    let me = &cx.spec.node;
    let mut others = wanting
        .iter()
        .copied()
        .filter(|node| *node != me || wanting.len() == 1);
    let Some(node) = others.find(|node| may_have_another(cx, node)) else {
        let text = format!("{to_do}, and the last grant was not used: another one follows");
        cx.because(work.unused.clone(), text);
        cx.wake_in(Duration::from_secs(5));
        return None;
    };
    if node == me && list.members.len() > 1 {
        if let Some(node) = lacks_orders(cx, list) {
            // It may have to follow first.
            let text = format!("{to_do}, but the last order has not reached {node} yet");
            cx.because(work.waits.clone(), text);
            cx.wake_in(Duration::from_millis(100));
            return None;
        }
        let statuses = statuses(cx, list);
        if purpose == GrantPurpose::Restart
            && let Some((awaited, left)) = leader::waits_for_reading(cx, &statuses, waits_since)
        {
            let text = format!("{to_do}, and waits for {awaited}");
            cx.because(work.waits.clone(), text);
            cx.wake_in(left);
            return None;
        }
        if let Some(node) = downgrade::still_converts(cx, &statuses) {
            // It asks for its restart then, and the leader must not move twice.
            let text = format!("{to_do}, but first etcd on {node} converts its data");
            cx.because(work.waits.clone(), text);
            cx.wake_in(Duration::from_millis(100));
            return None;
        }
        cx.because(
            ReasonCode::LeaderLast,
            format!("etcd here is to be {done} too: another member leads first"),
        );
        return leader::away(cx, list);
    }
    cx.because(
        work.granted.clone(),
        format!("etcd on {node} is {done} now: all members are healthy"),
    );
    grant_to(cx, list, node, purpose);
    None
}

/// A member's node that does not have this node's orders yet: what it wants may change with them.
fn lacks_orders<'a>(cx: &Context<'a>, list: &MemberList) -> Option<&'a NodeName> {
    let mine = &cx.obs.me.steering.directives;
    let mut statuses = statuses(cx, list).into_iter();
    let late = statuses.find(|status| mine.is_newer_than(&status.steering.directives));
    late.map(|status| &status.node)
}

/// The nodes whose etcd is to be defragmented, by name.
pub(super) fn wanting_defrag<'a>(cx: &Context<'a>, list: &MemberList) -> Vec<&'a NodeName> {
    let is_paused = paused(cx).is_some();
    let wants = |status: &&NodeStatus| {
        let wish = status.steering.defrag.wish.as_ref();
        wish.is_some_and(|wish| space::may_begin(cx, wish) && (wish.order.is_some() || !is_paused))
    };
    let wanting = statuses(cx, list).into_iter().filter(wants);
    wanting.map(|status| &status.node).collect()
}

/// Grants the reboot lock to the first node that asks for it.
fn lend(cx: &mut Context<'_>, list: &MemberList, whole: &Result<(), String>) {
    let nodes = cx.known_nodes().into_iter();
    let asking = nodes.filter(|(node, status)| status.steering.wants_reboot_lock && !is_out(cx, node));
    let (refused, asking): (Vec<_>, Vec<_>) = asking
        .map(|(node, status)| (node, stays_down(status)))
        .partition(|(_, why)| why.is_some());
    for (node, why) in refused {
        let why = why.unwrap_or_default();
        let text = format!("{node} asks for the reboot lock, and etcd there might not start again: {why}");
        cx.because(ReasonCode::RebootLockWaits, text);
    }
    let asking: Vec<&NodeName> = asking.into_iter().map(|(node, _)| node).collect();
    if asking.is_empty() {
        return;
    }
    let to_do = format!("{} asks for the reboot lock", names(asking.iter().copied()));
    if !may_grant(cx, list, whole, (ReasonCode::RebootLockWaits, &to_do)) {
        return;
    }
    let Some(node) = asking.into_iter().find(|node| may_have_another(cx, node)) else {
        let text = format!("{to_do}, and has not used the last grant: another one follows");
        cx.because(ReasonCode::RebootLockWaits, text);
        cx.wake_in(Duration::from_secs(5));
        return;
    };
    cx.because(
        ReasonCode::RebootLockGranted,
        format!("{node} may take the reboot lock: all members are healthy"),
    );
    grant_to(cx, list, node, GrantPurpose::Reboot);
}

/// True if a grant may be given now. `what` is the code and the text of the reason if not.
fn may_grant(
    cx: &mut Context<'_>,
    list: &MemberList,
    whole: &Result<(), String>,
    what: (ReasonCode, &str),
) -> bool {
    let (code, to_do) = what;
    if let Some((holder, _)) = lock_holder::holder(cx, None) {
        cx.because(code, format!("{to_do}, but {holder} holds the reboot lock"));
        cx.wake_in(Duration::from_secs(1));
        return false;
    }
    if let Err(why) = whole {
        cx.because(
            code,
            format!("{to_do}, but first all members have to be healthy: {why}"),
        );
        cx.wake_in(Duration::from_secs(1));
        return false;
    }
    if let Some(joiner) = replacement(cx, list) {
        let text = format!("{to_do}, but first {joiner} takes the place of a lost member");
        cx.because(code, text);
        return false;
    }
    if !has_rested(cx, list) {
        cx.wake_in(GRANT_COOLDOWN.saturating_sub(coordinates_for(cx)));
        return false;
    }
    true
}

/// How long this node has been the coordinator and has withdrawn no grant.
fn coordinates_for(cx: &Context<'_>) -> Duration {
    let since = cx.memory.coordinates.map(|(_, since)| since);
    cx.obs.steady.since(since.unwrap_or(cx.obs.steady))
}

/// True if no node can act on an earlier grant any more: after the cooldown, or at once if the coordinator of
/// the raft term before says so. There is no other coordinator between two terms that follow each other. The
/// word of a former coordinator counts only in a status in which its etcd knows of the new term: it gives no
/// grant of the old one afterwards.
fn has_rested(cx: &Context<'_>, list: &MemberList) -> bool {
    if list.members.len() == 1 || coordinates_for(cx) >= GRANT_COOLDOWN {
        return true;
    }
    let over = |term: RaftTerm| cx.memory.grants_over == Some(term);
    let Some(before) = list.term.0.checked_sub(1).map(RaftTerm) else {
        return false;
    };
    if over(list.term) || over(before) {
        return true;
    }
    let Some((_, leader)) = cx.memory.followed.filter(|(term, _)| *term == before) else {
        return false;
    };
    cx.known_peers().any(|(_, status)| {
        let etcd = status.etcd.known();
        let led = etcd.is_some_and(|etcd| etcd.member_id == leader && etcd.term >= list.term);
        led && status.steering.grants_over == Some(before)
    })
}

/// Notes which member leads, for the case that this node leads next.
fn note_leader(cx: &mut Context<'_>) {
    let Some(etcd) = cx.obs.me.etcd.known() else {
        return;
    };
    if let Some(leader) = etcd.leader.filter(|leader| *leader != etcd.member_id) {
        cx.memory.followed = Some((etcd.term, leader));
    }
}

/// True unless this node has not used a grant a short time ago.
fn may_have_another(cx: &Context<'_>, node: &NodeName) -> bool {
    let unused = cx.memory.grant_unused.get(node);
    unused.is_none_or(|at| cx.obs.steady.since(*at) >= GRANT_UNUSED_AGAIN)
}

fn grant_to(cx: &mut Context<'_>, list: &MemberList, node: &NodeName, purpose: GrantPurpose) {
    let grant = Grant {
        node: node.clone(),
        id: cx.obs.seed,
        term: list.term,
        purpose,
    };
    cx.memory.grant = Some((grant, cx.obs.steady));
    cx.memory.granted_process = cx.status_of(node).and_then(process);
    cx.wake_in(Duration::from_secs(1));
}

/// The etcd process of a node: boot ID and PID.
fn process(status: &NodeStatus) -> Option<(String, u32)> {
    let pid = status.unit.known()?.main_pid;
    (pid != 0).then(|| (status.boot_id.clone(), pid))
}

/// The reason for which a grant holds back everything else.
pub(super) fn in_progress(grant: &Grant) -> (ReasonCode, String) {
    match grant.purpose {
        GrantPurpose::Restart => (
            ReasonCode::Restarting,
            format!("etcd on {} is being restarted", grant.node),
        ),
        GrantPurpose::Reboot => (
            ReasonCode::RebootLockGranted,
            format!("{} takes the reboot lock", grant.node),
        ),
        GrantPurpose::Defrag => (
            ReasonCode::Defragmenting,
            format!("etcd on {} is being defragmented", grant.node),
        ),
    }
}

/// The nodes whose etcd is to be restarted, by name: also those where something other than the agent stops it.
pub(super) fn wanting<'a>(cx: &Context<'a>, list: &MemberList) -> Vec<&'a NodeName> {
    let is_paused = paused(cx).is_some();
    let only_ordered = is_paused || list.members.len() == 1;
    statuses(cx, list)
        .into_iter()
        .filter(|status| {
            let wish = status.steering.wants_restart.as_ref();
            let wish = wish.filter(|wish| wish.held.is_none());
            status.steering.waits_to_stop
                || wish
                    .is_some_and(|wish| wish.order.is_some() || !only_ordered || wish.version && !is_paused)
        })
        .map(|status| &status.node)
        .collect()
}

/// The node that is about to join in place of a lost member. Until it has joined, no other member is
/// restarted.
fn replacement<'a>(cx: &mut Context<'a>, list: &MemberList) -> Option<&'a NodeName> {
    let had = cx.obs.spec_record.settled.unwrap_or(cx.spec.size);
    if list.voters().count() >= had.min(cx.spec.size) || cx.spec.join == Join::Prepare || paused(cx).is_some()
    {
        return None;
    }
    let genesis = cx.genesis()?;
    spares::next(cx, genesis, list)
}

/// The known statuses of the members' nodes, sorted by node name.
fn statuses<'a>(cx: &Context<'a>, list: &MemberList) -> Vec<&'a NodeStatus> {
    let node = |member| cx.spec.node_of(member);
    let mut known: Vec<&NodeStatus> = list
        .members
        .iter()
        .filter_map(|member| cx.status_of(node(member)?))
        .collect();
    known.sort_by_key(|status| &status.node);
    known
}

/// Ends a grant whose restart is over, or that was not used.
fn settle(cx: &mut Context<'_>, statuses: &[&NodeStatus], whole: bool) {
    let Some((grant, at)) = cx.memory.grant.clone() else {
        return;
    };
    let age = cx.obs.steady.since(at);
    let (done, unused) = match grant.purpose {
        GrantPurpose::Restart => {
            let status = statuses.iter().find(|status| status.node == grant.node);
            let wants = status.is_some_and(|status| {
                status.steering.wants_restart.is_some() || status.steering.waits_to_stop
            });
            // A person who stopped it may start it again at any time.
            let held = status
                .and_then(|status| status.unit.known())
                .is_some_and(|unit| unit.held);
            (
                whole && !wants || held,
                whole && wants && age >= UNUSED || age >= LONGEST,
            )
        }
        GrantPurpose::Reboot => (lock_holder::is_taken(cx, &grant), age >= UNUSED),
        GrantPurpose::Defrag => {
            let status = statuses.iter().find(|status| status.node == grant.node);
            let steering = status.map(|status| &status.steering);
            let works = steering.is_some_and(|steering| steering.defrag.running);
            let wish = steering.and_then(|steering| steering.defrag.wish.as_ref());
            let wants = wish.is_some_and(|wish| !wish.rests);
            (
                whole && !wants && !works,
                whole && wants && age >= UNUSED || age >= LONGEST,
            )
        }
    };
    // It was restarted, is healthy, and wants another restart already.
    let restarted = grant.purpose == GrantPurpose::Restart && whole && {
        let status = statuses.iter().find(|status| status.node == grant.node);
        let runs = status.and_then(|status| process(status));
        cx.memory.granted_process.is_some() && runs.is_some() && runs != cx.memory.granted_process
    };
    if restarted && !done {
        withdraw(cx);
    } else if done {
        cx.memory.grant = None;
        cx.memory.grant_unused.remove(&grant.node);
    } else if unused {
        withdraw(cx);
        cx.memory.grant_unused.insert(grant.node, cx.obs.steady);
    }
}

/// Withdraws the grant. The node may still act on it, so the cooldown starts again, and no former coordinator
/// can shorten it.
fn withdraw(cx: &mut Context<'_>) {
    cx.memory.grant = None;
    cx.memory.coordinates = cx.memory.coordinates.map(|(term, _)| (term, cx.obs.steady));
    cx.memory.followed = None;
    cx.memory.grants_over = None;
}

/// Reports an etcd that is not restarted automatically, and why.
fn report_left_alone(cx: &mut Context<'_>, statuses: &[&NodeStatus]) {
    let wish = |status: &&NodeStatus| status.steering.wants_restart.clone();
    let (held, others): (Vec<_>, Vec<_>) = statuses
        .iter()
        .filter_map(|status| Some((&status.node, wish(status)?)))
        .partition(|(_, wish)| wish.held.is_some());
    for (node, wish) in held {
        if *node != cx.spec.node {
            let why = wish.held.unwrap_or_default();
            let text = format!("etcd on {node} is to be restarted, and keeps running: {why}");
            cx.because(ReasonCode::RestartWaits, text);
        }
    }
    if !others.is_empty() && paused(cx).is_none() {
        cx.because(
            ReasonCode::RestartManual,
            "etcd's settings or authorities have changed, and a cluster of one is not restarted by itself: \
             `etcd-agent restart` does it",
        );
    }
}

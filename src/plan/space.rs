//! The space of etcd's database: which etcd is defragmented and why, and the way back from NOSPACE.
//!
//! etcd refuses writes once its database has reached the quota, until its history is compacted, its members
//! are defragmented, and the alarm is disarmed (etcd's maintenance guide). A member that is defragmented
//! serves nothing, so it needs a grant as a restart does.

use std::time::Duration;

use super::context::Context;
use super::{orders, restart};
use crate::model::{
    Action, ActionKind, Backoff, DefragEnd, DefragWish, EtcdStatus, GrantPurpose, Job, NodeName, NodeOrder,
    NodeStatus, ReasonCode, Revision, SpaceSpec, SteadyMs, UnixMs, crowded_at, is_full,
};

/// How long after a time of `space.defrag_on_calendar` a defragmentation may begin.
const WINDOW: Duration = Duration::from_hours(1);
/// The pauses after a defragmentation or a compaction that failed.
const RETRY: Backoff = Backoff::new(Duration::from_mins(1), Duration::from_hours(1));

/// What decides whether an etcd is to be defragmented.
#[derive(Debug, Clone, Copy)]
pub struct SpaceSeen<'a> {
    /// This node.
    pub node: &'a NodeName,
    /// Its settings.
    pub spec: &'a SpaceSpec,
    /// Its quota in bytes; `None` if etcd has none.
    pub quota: Option<u64>,
    /// The status of its etcd.
    pub etcd: &'a EtcdStatus,
    /// The number of members, if it is known.
    pub members: Option<usize>,
    /// The last ordered defragmentation.
    pub order: Option<&'a NodeOrder>,
    /// The ordered defragmentation that was carried out here last.
    pub done: Option<&'a (u64, Option<NodeName>)>,
    /// This node's defragmentation.
    pub job: &'a Job,
    /// The end of the last one.
    pub last: Option<DefragEnd>,
    /// The newest revision before which a coordinator has compacted the history because of NOSPACE.
    pub compacted: Option<Revision>,
    /// The time by the monotonic clock.
    pub steady: SteadyMs,
    /// The time by the wall clock.
    pub now: UnixMs,
}

/// Whether the etcd of this node is to be defragmented, and why.
pub fn wants_defrag(seen: &SpaceSeen<'_>) -> Option<DefragWish> {
    let order = seen.order.filter(|order| {
        let done = seen.done.map(|(id, by)| (*id, by));
        order.nodes.contains(seen.node) && done.is_none_or(|done| done < order.identity())
    });
    let no_space = lacks_space(seen);
    let why = match order {
        Some(_) => "an operator ordered it".to_owned(),
        None if no_space => "etcd has no space (alarm NOSPACE)".to_owned(),
        None => much_free(seen)?,
    };
    let job = seen.job;
    Some(DefragWish {
        why,
        order: order.map(|order| order.id),
        failed: job.error.clone(),
        no_space,
        rests: job
            .failed_at
            .is_some_and(|at| seen.steady.since(at) < RETRY.after(job.failures)),
    })
}

/// True for an etcd whose database is full while NOSPACE is raised, unless a defragmentation did not help and
/// nothing was compacted since. What etcd reports as in use does not count here: it frees pages only with its
/// next write.
fn lacks_space(seen: &SpaceSeen<'_>) -> bool {
    let no_use = |last: DefragEnd| is_full(last.size, seen.quota) && last.compacted >= seen.compacted;
    seen.spec.recover
        && seen.etcd.has_no_space()
        && is_full(seen.etcd.db_size_bytes, seen.quota)
        && !seen.last.is_some_and(no_use)
}

/// The reason to defragment an etcd of whose file a large part is free. A cluster of one serves nothing
/// meanwhile: an operator or the calendar has to choose the time.
fn much_free(seen: &SpaceSeen<'_>) -> Option<String> {
    let (etcd, spec) = (seen.etcd, seen.spec);
    let percent = u64::try_from(spec.defrag_percent).unwrap_or(100);
    let much = percent > 0
        && etcd.db_size_bytes >= spec.defrag_min_size
        && etcd.free_bytes()?.saturating_mul(100) >= etcd.db_size_bytes.saturating_mul(percent);
    let may_begin = match &spec.defrag_on_calendar {
        None => seen.members? > 1,
        Some(calendar) => {
            let window = u64::try_from(WINDOW.as_millis()).unwrap_or_default();
            let next = calendar.next_after(UnixMs(seen.now.0.saturating_sub(window)));
            next.is_some_and(|time| time <= seen.now)
        }
    };
    (much && may_begin).then(|| free(etcd))
}

fn free(etcd: &EtcdStatus) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let free = etcd.free_bytes().unwrap_or_default();
    format!(
        "{} of the {} MiB of its file are free",
        mib(free),
        mib(etcd.db_size_bytes)
    )
}

fn is_compacted(cx: &Context<'_>, etcd: &EtcdStatus) -> bool {
    let compacted = cx.obs.me.steering.compacted;
    compacted.is_some_and(|done| done.cluster_id == etcd.cluster_id && done.revision >= etcd.revision)
}

/// True if a defragmentation alone would not give the etcd of this node much space, because its history was not
/// compacted.
fn needs_compaction(cx: &Context<'_>, etcd: &EtcdStatus) -> bool {
    let in_use = etcd.db_in_use_bytes.unwrap_or(etcd.db_size_bytes);
    let crowded = cx
        .spec
        .etcd
        .quota()
        .is_some_and(|quota| in_use >= crowded_at(quota));
    cx.obs.compact.running || crowded && !is_compacted(cx, etcd)
}

/// True if the coordinator may grant this wish: a member that has no space waits for the compaction.
pub(super) fn may_begin(cx: &Context<'_>, wish: &DefragWish) -> bool {
    let etcd = cx.obs.me.etcd.known();
    let compacts = orders::paused(cx).is_none();
    let waits = compacts && wish.no_space && etcd.is_none_or(|etcd| needs_compaction(cx, etcd));
    !wish.rests && !waits
}

/// Begins the defragmentation of this node's etcd if the coordinator has granted it.
pub(super) fn granted(cx: &mut Context<'_>) -> Option<Action> {
    let wish = cx.obs.me.steering.defrag.wish.as_ref()?;
    if wish.rests || cx.obs.me.steering.defrag.running || !cx.obs.me.is_active() {
        return None;
    }
    let (coordinator, grant) = restart::leave(cx, GrantPurpose::Defrag)?;
    if restart::is_used(cx, &grant, ActionKind::Defrag) {
        return None;
    }
    if !cx.may_try(
        ActionKind::Defrag,
        Duration::from_millis(200),
        Duration::from_secs(5),
    ) {
        return None;
    }
    let text = format!("{} (granted by {coordinator})", wish.why);
    cx.because(ReasonCode::Defragmenting, text);
    cx.memory.grant_used = Some(grant.id);
    let ordered = cx.obs.me.steering.directives.defrag.clone();
    Some(Action::Defrag {
        order: ordered.filter(|order| Some(order.id) == wish.order),
        grant,
        coordinator,
    })
}

/// What the coordinator does about NOSPACE: it compacts the history if too much of the database is in use,
/// lets the members be defragmented by grants, and disarms the alarm once all have space. In a quarantine it
/// does nothing: etcd 3.4 and 3.5 accept all writes once NOSPACE is disarmed, although the alarm of the
/// quarantine is raised.
pub(super) fn recover(cx: &mut Context<'_>) -> Option<Action> {
    let list = cx.coordinated_list()?;
    let etcd = cx.obs.me.etcd.known()?;
    if !cx.spec.space.recover || !etcd.has_no_space() || etcd.in_quarantine() {
        return None;
    }
    let members = list.members.iter();
    let statuses: Option<Vec<&NodeStatus>> = members
        .map(|member| cx.status_of(cx.spec.node_of(member)?))
        .map(|status| status.filter(|status| status.etcd.known().is_some()))
        .collect();
    let statuses = statuses?;
    let full = |status: &&&NodeStatus| status.steering.defrag.full;
    let Some(first) = statuses.iter().find(full).copied() else {
        // Before the alarm was raised, a member may have had space.
        let shows_it = |status: &&NodeStatus| status.etcd.known().is_some_and(EtcdStatus::has_no_space);
        if let Some(earlier) = statuses.iter().find(|status| !shows_it(status)) {
            let text = format!(
                "the alarm NOSPACE stays until {} reports its etcd's space with it",
                earlier.node
            );
            cx.because(ReasonCode::EtcdAlarm, text);
            cx.wake_in(Duration::from_secs(1));
            return None;
        }
        let (first, longest) = (Duration::from_secs(1), Duration::from_mins(1));
        if !cx.may_try(ActionKind::DisarmNoSpace, first, longest) {
            return None;
        }
        let text = "all members have space again: the alarm NOSPACE is disarmed";
        cx.because(ReasonCode::EtcdAlarm, text);
        return Some(Action::DisarmNoSpace { term: list.term });
    };
    cx.wake_in(Duration::from_secs(1));
    if cx.obs.compact.running {
        return None;
    }
    let without_use = first.steering.defrag.wish.is_none();
    if !needs_compaction(cx, etcd) && (!without_use || is_compacted(cx, etcd)) {
        if without_use {
            cx.because(
                ReasonCode::EtcdAlarm,
                format!(
                    "the database on {} has no space after its defragmentation: delete keys, or set a larger \
                     space.quota",
                    first.node
                ),
            );
        }
        return None;
    }
    let (job, pause) = (&cx.obs.compact, RETRY.after(cx.obs.compact.failures));
    if cx.rests(job, pause, ReasonCode::EtcdAlarm, "the history was not compacted") {
        return None;
    }
    let text = format!("the history before revision {} is compacted", etcd.revision);
    cx.because(ReasonCode::EtcdAlarm, text);
    Some(Action::Compact {
        revision: etcd.revision,
        term: list.term,
    })
}

//! What the loop, its jobs and the servers share. Locks are held for moments and never across an await.

pub(super) mod events;
pub(super) mod gate;
mod probes;
pub(super) mod store;
pub(super) mod version;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent::state::gate::update_gate;
use crate::agent::state::probes::Probes;
use crate::agent::state::store::StoreCache;
use crate::agent::state::version::Version;
use crate::genesis::Electorate;
use crate::model::{
    BackupId, BackupSummary, BackupView, ClusterId, CopyStatus, DataState, Decision, Denial, Directives,
    ElectorRecord, Epoch, EtcdRun, Fact, Genesis, Job, LastWords, MemberId, NodeName, NodeStatus,
    Observation, OperatorRequest, RemovalView, RequestState, RequestView, Revision, SteadyMs, UnitState,
    UnixMs,
};
use crate::ports::{DataReport, NodeState, PortError, PortResult};

use crate::agent::state::events::Events;

/// The message of a request before the first tick that sees it.
pub(super) const QUEUED: &str = "queued";

/// The progress of the first tick of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FirstLook {
    /// Nothing was seen yet.
    Begun,
    /// This node was looked at.
    Here,
    /// Every peer was asked too, or time is up.
    Done,
}

/// What the run after a reload continues with.
#[derive(Debug, Default)]
pub(super) struct Carried {
    events: Events,
    requests: BTreeMap<u64, RequestView>,
    next_request: u64,
}

/// Bound on pending requests; more indicates a mistake.
const REQUESTS_LIMIT: usize = 16;
/// How many ended requests are kept.
const ENDED_LIMIT: usize = 64;

/// Everything that more than one task looks at.
#[derive(Default)]
pub(super) struct Inner {
    pub(super) data: Fact<DataState>,
    /// When etcd had ended last (`UnitState::ended_us`) as that was asked for.
    pub(super) data_after: u64,
    /// The process of etcd, by its PID and `UnitState::ended_us`, beside which the owner found a member's data, and whose.
    pub(super) runs_on: Option<((u32, u64), (ClusterId, MemberId))>,
    /// When its owner reported it.
    pub(super) data_reported: Option<SteadyMs>,
    /// The version of an etcd that is too old, and when that was seen.
    pub(super) too_old: Option<(String, SteadyMs)>,
    /// What etcd said when it last ended by itself, until it serves again.
    pub(super) last_words: Option<LastWords>,
    pub(super) staged: Option<(Epoch, BackupId)>,
    pub(super) fetched: Option<(BackupId, String)>,
    pub(super) backup: Job,
    pub(super) backups: BackupView,
    pub(super) restore: Job,
    pub(super) last_backup: Option<BackupSummary>,
    pub(super) store: StoreCache,
    pub(super) copy: Option<CopyStatus>,
    pub(super) enquired: BTreeSet<NodeName>,
    /// The genesis that a message reported as chosen since the electors were last asked.
    pub(super) pushed: Option<Genesis>,
    /// The sources that reported an epoch that the electors denied.
    pub(super) denied: BTreeMap<String, Denial>,
    /// The last check of whether a member of this node was removed.
    pub(super) removal: Option<RemovalView>,
    pub(super) probes: Probes,
    pub(super) highest_round: u64,
    pub(super) status: Option<NodeStatus>,
    /// What of `status` a peer's planner could act on.
    pub(super) material: Option<NodeStatus>,
    pub(super) observation: Option<Observation>,
    pub(super) decision: Option<Decision>,
    pub(super) config_error: Option<String>,
    pub(super) progress: Option<SteadyMs>,
    pub(super) events: Events,
    requests: BTreeMap<u64, RequestView>,
    /// Those that another node carries out.
    handed: BTreeSet<u64>,
    /// Those that another node has handed over to this one.
    taken: BTreeSet<u64>,
    next_request: u64,
}

/// The shared state of one agent.
pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// The elector's memory; what is in here is on disk.
    elector: Mutex<ElectorRecord>,
    /// What operators have ordered; what is in here is on disk.
    directives: Mutex<Directives>,
    /// The etcd process; what is in here is on disk.
    etcd_run: Mutex<EtcdRun>,
    pub(super) electorate: Electorate,
    /// Wakes the loop.
    pub(super) wake: Notify,
    /// Wakes what copies to the second store.
    pub(super) copy_wanted: Notify,
    /// Wakes it when there are increments to copy, which can wait a little.
    pub(super) copy_increments: Notify,
    /// Grows with each material change of the status.
    pub(super) version: Version,
    /// Cancelled when the loop ends: what runs without an end of its own ends with it.
    pub(super) stopped: CancellationToken,
    /// The newest full backup that this agent knows of.
    pub(super) newest_full: watch::Sender<Option<BackupSummary>>,
    /// Up to this revision etcd's changes are to be stored at once: a person asked for it.
    pub(super) flush_to: watch::Sender<Revision>,
    /// Until then etcd's changes are received without delay: etcd is about to stop.
    pub(super) awake: watch::Sender<Instant>,
    /// How far the first look around has come.
    pub(super) first_look: watch::Sender<FirstLook>,
}

fn relock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// `run` is a random number: the first version differs from run to run, so that a peer that waits for a version
    /// of an older run is answered.
    pub(super) fn new(state: &dyn NodeState, electorate: Electorate, run: u64) -> PortResult<Self> {
        Ok(Self {
            inner: Mutex::new(Inner::default()),
            elector: Mutex::new(state.elector()?),
            directives: Mutex::new(usable(state.directives()?)),
            etcd_run: Mutex::new(state.etcd_run()?),
            electorate,
            wake: Notify::new(),
            copy_wanted: Notify::new(),
            copy_increments: Notify::new(),
            version: Version::new((run >> 32) << 16),
            stopped: CancellationToken::new(),
            newest_full: watch::Sender::new(None),
            flush_to: watch::Sender::new(Revision(0)),
            awake: watch::Sender::new(Instant::now()),
            first_look: watch::Sender::new(FirstLook::Begun),
        })
    }

    /// What the agent after a reload continues with. Pending requests fail: they were made under other settings.
    pub(super) fn carry(&self) -> Carried {
        self.set_request_state(
            |_| true,
            RequestState::Failed,
            "the configuration was reloaded meanwhile: see `etcd-agent status`, and ask again if it is still wanted",
        );
        self.with(|inner| Carried {
            events: std::mem::take(&mut inner.events),
            requests: std::mem::take(&mut inner.requests),
            next_request: inner.next_request,
        })
    }

    /// Continues with what the previous run left.
    pub(super) fn go_on(&self, carried: Carried) {
        self.with(|inner| {
            inner.events = carried.events;
            inner.requests = carried.requests;
            inner.next_request = carried.next_request;
        });
    }

    /// Records the progress of the first tick, which never goes back.
    pub(super) fn looked(&self, stage: FirstLook) {
        self.first_look.send_if_modified(|now| {
            let further = stage > *now;
            *now = stage.max(*now);
            further
        });
    }

    /// Returns when the first tick has reached this stage.
    pub(super) async fn until(&self, stage: FirstLook) {
        let mut stages = self.first_look.subscribe();
        // The sender is in this very object.
        let _ = stages.wait_for(|now| *now >= stage).await;
    }

    pub(super) fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        f(&mut relock(&self.inner))
    }

    /// A copy of the elector's memory.
    pub(super) fn elector(&self) -> ElectorRecord {
        relock(&self.elector).clone()
    }

    /// Changes the elector's memory; what `f` returns leaves only after the change is on disk. When it cannot be
    /// stored the old memory stays and the error is returned, so nothing is promised that could be forgotten. The gate
    /// is told of a newer epoch first: an agent that dies between the two leaves a gate that holds a start back, never one
    /// that lets an older epoch's etcd through.
    pub(super) fn update_elector<T>(
        &self,
        state: &dyn NodeState,
        f: impl FnOnce(&mut ElectorRecord) -> T,
    ) -> PortResult<T> {
        let mut record = relock(&self.elector);
        let mut changed = record.clone();
        let answer = f(&mut changed);
        if changed != *record {
            let (epoch, voted) = (changed.newest_epoch, changed.voted());
            let newer = epoch > record.newest_epoch && !mutant!(GateUnaware);
            if newer || voted > record.voted() {
                update_gate(state, &changed)?;
            }
            state.save_elector(&changed)?;
            if epoch < record.newest_epoch || voted < record.voted() {
                // A denied epoch holds back no start. The record is saved first: a crash in between only holds one back longer.
                update_gate(state, &changed)?;
            }
            *record = changed;
            drop(record);
            self.wake.notify_one();
        }
        Ok(answer)
    }

    /// What operators have ordered.
    pub(super) fn directives(&self) -> Directives {
        relock(&self.directives).clone()
    }

    /// Changes what operators have ordered to what `f` makes of it, on disk first; answers the register and whether
    /// it was changed.
    pub(super) fn direct(
        &self,
        state: &dyn NodeState,
        f: impl FnOnce(&Directives) -> Option<Directives>,
    ) -> PortResult<(Directives, bool)> {
        let mut directives = relock(&self.directives);
        let Some(next) = f(&directives) else {
            return Ok((directives.clone(), false));
        };
        state.save_directives(&next)?;
        *directives = next.clone();
        drop(directives);
        self.wake.notify_one();
        Ok((next, true))
    }

    /// Changes what is remembered of the etcd process to what `f` makes of it, on disk first.
    pub(super) fn update_etcd_run(
        &self,
        state: &dyn NodeState,
        f: impl FnOnce(&EtcdRun) -> EtcdRun,
    ) -> PortResult<EtcdRun> {
        let mut run = relock(&self.etcd_run);
        let next = f(&run);
        if next != *run {
            state.save_etcd_run(&next)?;
            run.clone_from(&next);
        }
        Ok(next)
    }

    /// True when etcd has ended by itself since it last served.
    pub(super) fn etcd_failed(&self) -> bool {
        self.with(|inner| {
            let unit = inner.status.as_ref().and_then(|status| status.unit.known());
            inner.last_words.is_some() || unit.is_some_and(|unit| unit.result != "success")
        })
    }

    /// Takes over what the data directory's owner reported. `unit` is what `etcd.service` was before it was asked.
    pub(super) fn take_report(&self, report: &DataReport, unit: &UnitState, now: SteadyMs) {
        self.with(|inner| {
            inner.data_after = unit.ended_us;
            inner.data_reported = Some(now);
            inner.too_old = report.etcd_too_old.clone().map(|version| (version, now));
            inner.data = Fact::Known(report.data.clone());
            let process = (unit.main_pid, unit.ended_us);
            let runs_on = report.data.member().filter(|_| unit.main_pid != 0);
            inner.runs_on = runs_on.map(|member| (process, member));
            inner.last_words.clone_from(&report.last_words);
            inner.staged.clone_from(&report.staged);
        });
    }

    /// Whose data the etcd has open that runs as `unit`, where the data directory's owner has looked beside this process.
    pub(super) fn runs_on(&self, unit: &UnitState) -> Option<(ClusterId, MemberId)> {
        let (of, whose) = self.with(|inner| inner.runs_on)?;
        (of == (unit.main_pid, unit.ended_us)).then_some(whose)
    }

    /// Drops what was seen in the data directory, also from the status for peers: etcd is about to use it. An observation waits for
    /// etcd to answer, and the coordinator may remove a member whose data is gone before that.
    pub(super) fn forget_data(&self, why: &str) {
        self.with(|inner| {
            inner.data = Fact::Unreachable(why.to_owned());
            if let Some(status) = inner.status.as_mut().filter(|_| !mutant!(LookStillTold)) {
                status.data = inner.data.clone();
            }
        });
        self.version.grow();
    }

    /// Notes a full backup.
    pub(super) fn note_full(&self, full: &BackupSummary, now: UnixMs) {
        self.newest_full.send_if_modified(|known| {
            let both = known.iter().chain([full]);
            let newer = BackupSummary::newest(both, now).filter(|newest| known.as_ref() != Some(*newest));
            let newer = newer.cloned();
            let changed = newer.is_some();
            if changed {
                *known = newer;
            }
            changed
        });
    }

    /// Queues an operator's request. One that was `taken` over from another node is not handed over again.
    pub(super) fn submit(&self, request: OperatorRequest, taken: bool) -> PortResult<RequestView> {
        let view = self.with(|inner| {
            let pending = inner
                .requests
                .values()
                .filter(|r| r.state == RequestState::Pending);
            if pending.clone().count() >= REQUESTS_LIMIT {
                return Err(PortError::Retryable(format!(
                    "{REQUESTS_LIMIT} requests are under way already"
                )));
            }
            let restoring = |r: &OperatorRequest| matches!(r, OperatorRequest::Restore { .. });
            if restoring(&request) && pending.clone().any(|r| restoring(&r.request)) {
                return Err(PortError::Permanent(
                    "a restore is under way already; wait for it".to_owned(),
                ));
            }
            let moving = |r: &OperatorRequest| matches!(r, OperatorRequest::MoveLeader { .. });
            if moving(&request) && pending.clone().any(|r| moving(&r.request)) {
                return Err(PortError::Permanent(
                    "another move of the leader is under way already; wait for it".to_owned(),
                ));
            }
            if let Some(same) = pending.clone().find(|r| r.request == request) {
                return Ok(same.clone());
            }
            inner.next_request += 1;
            let id = inner.next_request;
            let view = RequestView {
                id,
                request,
                state: RequestState::Pending,
                message: QUEUED.to_owned(),
            };
            inner.requests.insert(id, view.clone());
            if taken {
                inner.taken.insert(id);
            }
            let ended: Vec<u64> = inner
                .requests
                .values()
                .filter(|r| r.state != RequestState::Pending)
                .map(|r| r.id)
                .collect();
            for id in ended.iter().take(ended.len().saturating_sub(ENDED_LIMIT)) {
                inner.requests.remove(id);
                inner.taken.remove(id);
            }
            Ok(view)
        })?;
        self.wake.notify_one();
        Ok(view)
    }

    pub(super) fn request(&self, id: u64) -> Option<RequestView> {
        self.with(|inner| inner.requests.get(&id).cloned())
    }

    pub(super) fn pending(&self) -> Vec<RequestView> {
        self.with(|inner| {
            inner
                .requests
                .values()
                .filter(|r| r.state == RequestState::Pending)
                .cloned()
                .collect()
        })
    }

    /// Sets the epoch that a restore replaces on requests that were made while it was not known.
    pub(super) fn ask_above(&self, newest: Option<Epoch>) {
        self.with(|inner| {
            for view in inner.requests.values_mut() {
                if let OperatorRequest::Restore { above, .. } = &mut view.request {
                    *above = above.or(newest);
                }
            }
        });
    }

    /// The pending requests that this node decides on.
    pub(super) fn undecided(&self) -> Vec<RequestView> {
        let handed = self.with(|inner| inner.handed.clone());
        let mut pending = self.pending();
        pending.retain(|request| !handed.contains(&request.id));
        pending
    }

    /// Notes that another node carries this request out. `None` when it is no longer pending, or is handed over already. A
    /// request that was handed over to this node fails instead: the leader has changed, and two nodes must not hand it back
    /// and forth.
    pub(super) fn hand_over(&self, request: &OperatorRequest) -> Option<u64> {
        self.with(|inner| {
            let mut pending = inner
                .requests
                .values_mut()
                .filter(|r| r.state == RequestState::Pending && r.request == *request);
            let view = pending.next()?;
            if inner.taken.contains(&view.id) {
                view.state = RequestState::Failed;
                "the raft leader has moved meanwhile: ask again".clone_into(&mut view.message);
                return None;
            }
            inner.handed.insert(view.id).then_some(view.id)
        })
    }

    /// Updates a request that another node carries out.
    pub(super) fn handed(&self, id: u64, state: RequestState, message: &str) {
        self.with(|inner| {
            if state != RequestState::Pending {
                inner.handed.remove(&id);
            }
            if let Some(request) = inner.requests.get_mut(&id)
                && request.state == RequestState::Pending
            {
                request.state = state;
                message.clone_into(&mut request.message);
            }
        });
    }

    /// Updates the pending requests of this kind.
    pub(super) fn set_request_state(
        &self,
        which: impl Fn(&OperatorRequest) -> bool,
        state: RequestState,
        message: &str,
    ) {
        self.with(|inner| {
            let handed = &inner.handed;
            let pending = inner
                .requests
                .values_mut()
                .filter(|r| r.state == RequestState::Pending && !handed.contains(&r.id));
            for request in pending.filter(|r| which(&r.request)) {
                request.state = state;
                message.clone_into(&mut request.message);
            }
        });
    }
}

/// A register that leaves no room for later orders would keep operators out for good.
fn usable(directives: Directives) -> Directives {
    let Some(why) = directives.defect() else {
        return directives;
    };
    tracing::error!("what is stored of operators' orders is not believed ({why}): it is begun anew");
    Directives::default()
}

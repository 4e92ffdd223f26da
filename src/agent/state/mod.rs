//! The state that the loop, its jobs and the servers share. No lock is held across an await.

mod data;
pub(super) mod events;
pub(super) mod gate;
mod genesis_notes;
pub(super) mod jobs;
mod last_tick;
mod looks;
mod probes;
pub(super) mod request_list;
pub(super) mod requests;
pub(super) mod stop;
pub(super) mod store;
pub(super) mod version;

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent::state::data::LocalData;
use crate::agent::state::gate::update_gate;
use crate::agent::state::genesis_notes::GenesisNotes;
use crate::agent::state::jobs::Jobs;
use crate::agent::state::last_tick::LastTick;
use crate::agent::state::looks::Looks;
use crate::agent::state::probes::Probes;
use crate::agent::state::request_list::RequestList;
use crate::agent::state::stop::StopAsk;
use crate::agent::state::store::StoreCache;
use crate::agent::state::version::Version;
use crate::genesis::Electorate;
use crate::model::{
    BackupSummary, CopyStatus, Directives, ElectorRecord, EtcdRun, RebootLocks, RemovalView, Revision, UnixMs,
};
use crate::ports::{NodeState, PortResult};

use crate::agent::state::events::Events;

/// The progress of the first tick of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FirstLook {
    /// No tick has observed anything yet.
    Begun,
    /// This node was observed.
    Here,
    /// Every peer was asked too, or the time for that is over.
    Done,
}

/// The state that the run after a reload continues with.
#[derive(Debug, Default)]
pub(super) struct Carried {
    events: Events,
    requests: RequestList,
}

/// The state that several tasks share.
#[derive(Default)]
pub(super) struct Inner {
    pub(super) data: LocalData,
    pub(super) jobs: Jobs,
    pub(super) store: StoreCache,
    pub(super) copy: Option<CopyStatus>,
    /// The last check of whether a member of this node was removed.
    pub(super) removal: Option<RemovalView>,
    pub(super) probes: Probes,
    /// The stop of etcd that waits for leave.
    pub(super) stop: StopAsk,
    pub(super) genesis: GenesisNotes,
    pub(super) last: LastTick,
    pub(super) config_error: Option<String>,
    pub(super) events: Events,
    requests: RequestList,
}

/// The shared state of one agent.
pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// The elector's memory, identical to the copy on disk.
    elector: Mutex<ElectorRecord>,
    /// Operators' orders, identical to the copy on disk.
    directives: Mutex<Directives>,
    /// The record of the etcd process, identical to the copy on disk.
    etcd_run: Mutex<EtcdRun>,
    /// The reboot locks, identical to the copy on disk.
    reboot_locks: Mutex<RebootLocks>,
    pub(super) electorate: Electorate,
    /// Wakes the loop.
    pub(super) wake: Notify,
    /// Wakes the task that copies to the second store.
    pub(super) copy_wanted: Notify,
    /// Wakes the same task when there are increments to copy, which can wait a little.
    pub(super) copy_increments: Notify,
    /// Grows with each material change of the status.
    pub(super) version: Version,
    /// The looks of the loop.
    pub(super) looks: Looks,
    /// Cancelled when the loop ends. Tasks that run forever end with it.
    pub(super) stopped: CancellationToken,
    /// The newest full backup that this agent knows of.
    pub(super) newest_full: watch::Sender<Option<BackupSummary>>,
    /// etcd's changes up to this revision have to be stored at once.
    pub(super) flush_to: watch::Sender<Revision>,
    /// Until this time etcd's changes are received without delay, because etcd is about to stop.
    pub(super) awake: watch::Sender<Instant>,
    /// The progress of the first tick.
    pub(super) first_look: watch::Sender<FirstLook>,
}

fn relock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// `run` is a random number: the first version differs from run to run, so that a peer that waits for a
    /// version of an older run is answered.
    pub(super) fn new(state: &dyn NodeState, electorate: Electorate, run: u64) -> PortResult<Self> {
        Ok(Self {
            inner: Mutex::new(Inner::default()),
            elector: Mutex::new(state.elector()?),
            directives: Mutex::new(usable(state.directives()?)),
            etcd_run: Mutex::new(state.etcd_run()?),
            reboot_locks: Mutex::new(state.reboot_locks()?),
            electorate,
            wake: Notify::new(),
            copy_wanted: Notify::new(),
            copy_increments: Notify::new(),
            version: Version::new((run >> 32) << 16),
            looks: Looks::default(),
            stopped: CancellationToken::new(),
            newest_full: watch::Sender::new(None),
            flush_to: watch::Sender::new(Revision(0)),
            awake: watch::Sender::new(Instant::now()),
            first_look: watch::Sender::new(FirstLook::Begun),
        })
    }

    /// The state that the agent after a reload continues with. Pending requests fail: they were made under
    /// other settings. Another node may still carry them out.
    pub(super) fn carry(&self) -> Carried {
        let why = "the configuration was reloaded meanwhile: see `etcd-agent status`, and ask again if it is still wanted";
        self.with(|inner| Carried {
            events: std::mem::take(&mut inner.events),
            requests: inner.requests.carry(why),
        })
    }

    /// Continues with what the previous run left.
    pub(super) fn go_on(&self, carried: Carried) {
        self.with(|inner| {
            inner.events = carried.events;
            inner.requests = carried.requests;
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
        // This object owns the sender, so waiting cannot fail.
        let _ = stages.wait_for(|now| *now >= stage).await;
    }

    pub(super) fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        f(&mut relock(&self.inner))
    }

    /// A copy of the elector's memory.
    pub(super) fn elector(&self) -> ElectorRecord {
        relock(&self.elector).clone()
    }

    /// Changes the elector's memory. The result of `f` is returned only after the change is on disk. If the
    /// change cannot be stored, the old memory stays and the error is returned, so nothing is promised that
    /// could be forgotten. The gate's state gets a newer epoch first: if the agent dies between the two
    /// writes, the gate holds a start back, and never lets an older epoch's etcd through.
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
                // A denied epoch holds back no start. The record is saved first: a crash in between only
                // holds a start back longer.
                update_gate(state, &changed)?;
            }
            *record = changed;
            drop(record);
            self.wake.notify_one();
        }
        Ok(answer)
    }

    /// Operators' orders.
    pub(super) fn directives(&self) -> Directives {
        relock(&self.directives).clone()
    }

    /// Replaces the register of operators' orders by the result of `f`, on disk first. Returns the register
    /// and whether it was changed.
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

    /// The record of the etcd process.
    pub(super) fn etcd_run(&self) -> EtcdRun {
        relock(&self.etcd_run).clone()
    }

    /// Replaces the record of the etcd process by the result of `f`, on disk first.
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

    /// The reboot locks.
    pub(super) fn reboot_locks(&self) -> RebootLocks {
        relock(&self.reboot_locks).clone()
    }

    /// Changes the reboot locks, on disk first. An error of `f` changes nothing.
    pub(super) fn update_reboot_locks<T>(
        &self,
        state: &dyn NodeState,
        f: impl FnOnce(&mut RebootLocks) -> PortResult<T>,
    ) -> PortResult<T> {
        let mut locks = relock(&self.reboot_locks);
        let mut next = locks.clone();
        let answer = f(&mut next)?;
        if next != *locks {
            state.save_reboot_locks(&next)?;
            *locks = next;
            drop(locks);
            self.wake.notify_one();
        }
        Ok(answer)
    }

    /// True when etcd has ended by itself since it last served.
    pub(super) fn etcd_failed(&self) -> bool {
        self.with(|inner| {
            let unit = inner.last.status().and_then(|status| status.unit.known());
            inner.data.last_words().is_some() || unit.is_some_and(|unit| unit.result != "success")
        })
    }

    /// Drops what was seen in the data directory, also from the status for peers: etcd is about to use the
    /// directory. The next observation waits for etcd's answer, and before that the coordinator could remove
    /// a member whose data is reported lost.
    pub(super) fn forget_data(&self, why: &str) {
        self.with(|inner| {
            inner.data.forget(why);
            if !mutant!(LookStillReported) {
                inner.last.set_data(inner.data.state().clone());
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
}

/// The stored register, or an empty one if it is defective. A register that leaves no room for later orders
/// would lock operators out permanently.
fn usable(directives: Directives) -> Directives {
    let Some(why) = directives.defect() else {
        return directives;
    };
    tracing::error!("the stored operators' orders are not believed ({why}): an empty register replaces them");
    Directives::default()
}

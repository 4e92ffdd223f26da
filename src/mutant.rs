//! Planners that break a safety rule on purpose. They prove that the simulator detects it
//! (`tests/sim/tests/schedules/mutants.rs`).
//!
//! No shipped build has the feature `mutants`. Without it `mutant!(Name)` is `false`, and this file contains
//! nothing else.

/// True in the planner that is broken in this way.
macro_rules! mutant {
    ($name:ident) => {{
        #[cfg(feature = "mutants")]
        {
            $crate::mutant::is($crate::mutant::Mutant::$name)
        }
        #[cfg(not(feature = "mutants"))]
        {
            false
        }
    }};
}

#[cfg(feature = "mutants")]
pub use chosen::{Mutant, is, restores_unasked, set};

#[cfg(feature = "mutants")]
mod chosen {
    use std::cell::Cell;

    use crate::model::{BackupId, Epoch, EpochEtcd, Observation, OperatorRequest, UnixMs};

    /// One way to break a planner.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Mutant {
        /// Rule 1: an elector forgets its promises.
        PromiseForgotten,
        /// Rule 1: the gate does not learn of a newer epoch.
        GateUnaware,
        /// Rule 1: an agent that has not observed anything yet tells the gate that etcd may start.
        GateBlind,
        /// Rule 1: an elector that has accepted a later epoch counts as one that knows no later epoch.
        VotesForgotten,
        /// Rule 1: the store's last answer clears the gate, however old that answer is.
        StoreNotAskedAgain,
        /// Rule 1: the newer epoch is assigned before the etcd of the older epoch has ended, and that etcd is
        /// then forgotten.
        StopForgotten,
        /// Rule 2: a data directory that waits for a person is inspected only once.
        LooksOnce,
        /// Rule 2: a founder that has lost its data starts like a new one.
        FounderForgets,
        /// Rule 2: the gate is cleared for a first start before that is on disk.
        FirstStartUnmarked,
        /// Rule 2: an empty cluster is formed although a node has data.
        FormsDespiteData,
        /// Rule 2: a move opens its epoch whatever was written since its backup.
        MovesUnfenced,
        /// Rule 3: a voter is removed without a check of the other voters.
        RemovesAnyway,
        /// Rule 3: a second member is added while one is still a learner.
        TwoLearners,
        /// Rule 3: the address of a learner is updated, and etcd then lists it as a voter.
        UpdatesLearners,
        /// Rule 4: a member restarts without the coordinator's leave.
        RestartsTogether,
        /// Rule 4: etcd is restarted with certificate files in which nobody has looked.
        FilesUnchecked,
        /// Rule 4: an agent that is started again does not know that etcd still defragments its database.
        DefragForgotten,
        /// Rule 4: the coordinator grants a restart or the reboot lock although another node holds the lock.
        RebootsTogether,
        /// Rule 4: a host reboots before all members have recorded its lock.
        RebootsUnrecorded,
        /// Rule 5: data counts as right although no majority has the same.
        TrustsAnyHash,
        /// Rule 5: the data of a cluster without a leader counts as useless.
        ReplacesOwnData,
        /// Rule 6: a restore begins before its backup is fetched.
        RestoresUnfetched,
        /// Rule 6: a restore begins without an order.
        RestoresUnasked,
        /// Rule 7: retention keeps nothing.
        PrunesAll,
        /// Rule 7: an operator's order to keep a backup is overlooked.
        KeptPruned,
        /// Rule 7: a backup also answers orders that were given after its snapshot.
        AnswersLater,
        /// Rule 7: the backup that founders have yet to be restored from is not kept.
        OriginPruned,
        /// The coordinator waits forever for a founder that never starts.
        FounderAwaited,
        /// Rule 8: data that nobody could inspect counts as lost.
        UnknownIsLost,
        /// Rule 8: an agent that takes over a running member does not record the mount that holds its data.
        MountForgotten,
        /// Rule 8: an agent still reports its last inspection of the data directory after it has started
        /// etcd.
        LookStillReported,
        /// A node that a majority has ordered out keeps its own register, because that one is newer.
        StaysIn,
        /// An etcd that runs and does not answer is not identified by its data.
        SilentUnknown,
        /// A restore proceeds although a node uses another store.
        RestoresApart,
        /// Nobody takes backups if the coordinator cannot.
        NobodyStandsIn,
        /// A request that only another node can carry out is refused.
        HandsNothingOver,
        /// Rule 8: a minority chooses a genesis.
        MinorityChooses,
        /// Rule 8: an epoch is opened without the electors of the epoch that it replaces.
        FormerElectorsUnasked,
        /// Rule 1: an agent that was started again tells the gate how many voters the epoch had at first.
        VotersForgotten,
        /// Rule 1: the gate lets an etcd without data start on settings of an earlier assignment.
        SettingsUnchecked,
        /// Rule 1: nodes that were added after an epoch was opened count for it like its electors.
        AddedNodesVouch,
        /// Rule 1: lost memories count only against the configured nodes, not against the electors of the
        /// epoch.
        FormerLossesUncounted,
        /// An operator's restore is neither carried out nor refused.
        RestoresDropped,
        /// Rule 8: a new memory never asks for its vote.
        MemoriesStayNew,
        /// Rule 10: an etcd goes back to an older minor than that of its data.
        OpensAnyData,
        /// Rule 4: an etcd that has converted its data goes back, because it had leave to do so before, and stays down.
        GoesBackLate,
        /// Rule 10: any copy of a genesis is believed about the electors' memories.
        BelievesElectorates,
        /// Rule 2: one peer's statement turns a node that may have had a member into a joiner.
        BelievesInvitations,
        /// Rule 10: an epoch that any single source reports is learned.
        BelievesEpochs,
        /// Rule 10: a removal is believed from one peer.
        BelievesRemovals,
        /// Rule 10: orders of any version are accepted from any node.
        BelievesOrders,
        /// Rule 10: epochs of any number are believed.
        BelievesNumbers,
        /// Rule 10: the cluster shrinks when only the store asks for it.
        BelievesSizes,
    }

    thread_local! {
        static NOW: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Breaks all planners of this thread in this way from now on; `None` repairs them.
    pub fn set(mutant: Option<Mutant>) {
        NOW.set(mutant);
    }

    /// True if the planners of this thread are broken in this way.
    pub fn is(mutant: Mutant) -> bool {
        NOW.get() == Some(mutant)
    }

    /// An order to restore: the request, its backup, the epoch above which it applies, when it was given, and the
    /// etcd of the new epoch.
    type Restore = (
        OperatorRequest,
        BackupId,
        Option<Epoch>,
        UnixMs,
        Option<EpochEtcd>,
    );

    /// A restore of the newest backup that nobody has ordered, in the planner that is broken in this way.
    pub fn restores_unasked(seen: &Observation) -> Option<Restore> {
        let newest = seen.store.known()?.newest_backup.as_ref()?.id.clone();
        let asked = OperatorRequest::Backup;
        is(Mutant::RestoresUnasked).then(|| (asked, newest, Some(Epoch::default()), seen.now, None))
    }
}

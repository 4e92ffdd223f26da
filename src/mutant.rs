//! Planners that break a safety rule on purpose, to show that the simulator would notice (`tests/sim/tests/mutants.rs`).
//!
//! Without the feature `mutants`, which nothing that is shipped has, `mutant!(Name)` is the word `false` and this
//! file has nothing else in it.

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

    use crate::model::{BackupId, Epoch, Observation, OperatorRequest, UnixMs};

    /// One way to be broken.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Mutant {
        /// Rule 1: an elector forgets what it has promised.
        PromiseForgotten,
        /// Rule 1: the gate does not learn of a newer epoch.
        GateUnaware,
        /// Rule 1: an agent that has not looked yet tells the gate that etcd may start.
        GateBlind,
        /// Rule 1: an elector that has accepted a later epoch counts as one that knows of none.
        VotesForgotten,
        /// Rule 1: the gate is cleared by what the store said last, however long ago.
        StoreNotAskedAgain,
        /// Rule 1: an etcd of an older epoch is forgotten once the newer epoch is assigned, which does not wait for its end.
        StopForgotten,
        /// Rule 2: data that waits for a person is looked at once.
        LooksOnce,
        /// Rule 2: a founder that has lost its data starts as if it were new.
        FounderForgets,
        /// Rule 2: an empty cluster is formed although a node has data.
        FormsBesideData,
        /// Rule 3: a voter is removed without a look at the others.
        RemovesAnyway,
        /// Rule 3: a second member is added while one is still a learner.
        TwoLearners,
        /// Rule 4: a member restarts without the coordinator's leave.
        RestartsTogether,
        /// Rule 5: data that has no leader is taken for useless.
        ReplacesOwnData,
        /// Rule 6: what is restored is not fetched first.
        RestoresUnfetched,
        /// Rule 6: a restore begins by itself.
        RestoresUnasked,
        /// Rule 7: retention wants nothing.
        PrunesAll,
        /// Rule 7: nothing is kept for founders that have still to be restored.
        OriginPruned,
        /// A founder that does not come to its first start is waited for without end.
        FounderAwaited,
        /// Rule 8: data that nobody could look at is taken for lost.
        UnknownIsLost,
        /// Rule 8: an agent that takes a running member over does not note what its data is on.
        MountForgotten,
        /// Rule 8: an agent goes on telling what it saw in the data directory while it has etcd started.
        LookStillTold,
        /// A node that a majority has ordered out keeps its own newer register.
        StaysIn,
        /// An etcd that runs and does not answer is not known by its data.
        SilentUnknown,
        /// A restore goes on while a node has another store.
        RestoresApart,
        /// Nobody takes backups where the coordinator cannot.
        NobodyStandsIn,
        /// What only another node can do is refused.
        HandsNothingOver,
        /// Rule 8: a minority chooses a genesis.
        MinorityChooses,
        /// Rule 8: an epoch is opened without the electors of the one that it replaces.
        FormerElectorsUnasked,
        /// Rule 1: nodes that were added since an epoch was opened count for it like its electors.
        AddedNodesVouch,
        /// Rule 1: memories that are lost count against the configured nodes alone, not against the electors of the epoch.
        FormerLossesUncounted,
        /// An operator's restore is neither carried out nor refused.
        RestoresDropped,
        /// Rule 8: a new memory never asks for its vote.
        MemoriesStayNew,
        /// Rule 10: what any copy of a genesis says of the electors' memories is believed.
        BelievesElectorates,
        /// Rule 2: one peer's word makes a joiner of a node that may have had a member.
        BelievesInvitations,
        /// Rule 10: an epoch is learned from any source.
        BelievesEpochs,
        /// Rule 10: a removal is believed from one peer.
        BelievesRemovals,
        /// Rule 10: orders of any version are taken over from any node.
        BelievesOrders,
        /// Rule 10: epochs of any number are believed.
        BelievesNumbers,
        /// Rule 10: a smaller size that only the store wants is followed.
        BelievesSizes,
    }

    thread_local! {
        static NOW: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// All planners of this thread are broken in this way from now on.
    pub fn set(mutant: Option<Mutant>) {
        NOW.set(mutant);
    }

    /// Whether they are.
    pub fn is(mutant: Mutant) -> bool {
        NOW.get() == Some(mutant)
    }

    /// A restore of the newest backup that nobody has asked for, in the planner that is broken in this way.
    pub fn restores_unasked(
        seen: &Observation,
    ) -> Option<(OperatorRequest, BackupId, Option<Epoch>, UnixMs)> {
        let newest = seen.store.known()?.newest_backup.as_ref()?.id.clone();
        let asked = OperatorRequest::Backup;
        is(Mutant::RestoresUnasked).then(|| (asked, newest, Some(Epoch::default()), seen.now))
    }
}

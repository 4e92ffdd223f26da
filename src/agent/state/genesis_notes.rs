//! What this node learned about epochs since its agent started. Nothing of it is on disk.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{BackupId, Ballot, Denial, Epoch, Genesis, MemberId, NodeName};

/// The farthest that one answer moves the round of this node's ballots. No elector can exhaust the numbers.
const STEP: u64 = 1 << 20;

/// What was learned about epochs since the agent started.
#[derive(Debug, Default)]
pub(crate) struct GenesisNotes {
    /// The electors that have answered an enquiry.
    enquired: BTreeSet<NodeName>,
    /// The genesis that a message reported as chosen since the electors were last asked.
    pushed: Option<Genesis>,
    /// The sources that reported an epoch that the electors denied.
    denied: BTreeMap<String, Denial>,
    /// The highest round of a ballot that preempted one of this node's.
    highest_round: u64,
    /// The seal of the quarantine under which this node has tried to open an epoch.
    seal: Option<MemberId>,
    /// The backup that was found to lack something that this cluster holds, and what.
    outrun: Option<(BackupId, String)>,
}

impl GenesisNotes {
    /// These electors have answered an enquiry.
    pub(crate) fn note_enquired(&mut self, electors: impl IntoIterator<Item = NodeName>) {
        self.enquired.extend(electors);
    }

    pub(crate) fn enquired(&self) -> &BTreeSet<NodeName> {
        &self.enquired
    }

    /// A message reports this genesis as chosen. The electors are asked before it counts.
    pub(crate) fn push(&mut self, genesis: Genesis) {
        self.pushed = Some(genesis);
    }

    /// The genesis that was pushed, once: the electors are about to be asked.
    pub(crate) fn take_pushed(&mut self) -> Option<Genesis> {
        self.pushed.take()
    }

    pub(crate) fn pushed_epoch(&self) -> Option<Epoch> {
        self.pushed.as_ref().map(|genesis| genesis.epoch)
    }

    /// The electors have denied the epoch that this source reports. True if this is the source's first.
    pub(crate) fn deny(&mut self, who: &str, denial: Denial) -> bool {
        self.denied.insert(who.to_owned(), denial).is_none()
    }

    /// The epoch that these sources report is confirmed.
    pub(crate) fn confirm<'a>(&mut self, sources: impl IntoIterator<Item = &'a String>) {
        for who in sources {
            self.denied.remove(who);
        }
    }

    /// The sources that reported an epoch that the electors denied.
    pub(crate) fn denied(&self) -> &BTreeMap<String, Denial> {
        &self.denied
    }

    /// This ballot preempted one of this node's.
    pub(crate) fn preempted_by(&mut self, ballot: &Ballot) {
        let most = self.highest_round.saturating_add(STEP);
        self.highest_round = self.highest_round.max(ballot.round.min(most));
    }

    pub(crate) fn highest_round(&self) -> u64 {
        self.highest_round
    }

    /// This node tries to open an epoch under this seal. Returns the seal that it replaces.
    pub(crate) fn seal_with(&mut self, seal: MemberId) -> Option<MemberId> {
        self.seal.replace(seal)
    }

    /// The cluster holds something that this backup lacks.
    pub(crate) fn note_outrun(&mut self, backup: BackupId, why: String) {
        self.outrun = Some((backup, why));
    }

    pub(crate) fn outrun(&self) -> Option<&(BackupId, String)> {
        self.outrun.as_ref()
    }
}

//! The background jobs of the agent, and what they have found.

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;

use crate::agent::state::request_list::Begun;
use crate::model::{
    BackupId, BackupSummary, BackupView, ChainView, Compaction, DefragEnd, Epoch, HashCheck, Job, Revision,
    SteadyMs, UnixMs,
};

/// What a background job does. One of each kind runs at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum JobKind {
    /// It takes a full backup.
    Full,
    /// It stores etcd's changes.
    Increments,
    /// It deletes old backups.
    Prune,
    /// It verifies a backup.
    Verify,
    /// It fetches a backup, or restores it next to the data directory.
    Restore,
    /// It defragments this node's etcd.
    Defrag,
    /// It compacts etcd's history.
    Compact,
    /// It compares the members' data.
    HashCheck,
}

/// The background jobs and their results.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// Each that has ever begun.
    by_kind: BTreeMap<JobKind, Job>,
    /// As in [`BackupView`].
    pruned: Option<BackupId>,
    covered: Option<(Revision, UnixMs)>,
    chain: Option<ChainView>,
    flushing: bool,
    gap: Option<BackupId>,
    went_back: Option<String>,
    last_defrag: Option<DefragEnd>,
    last_compaction: Option<Compaction>,
    last_hash_check: Option<HashCheck>,
    /// Ends the job that stores etcd's changes.
    stop_increments: CancellationToken,
    /// The requests that the present or last flush answers.
    flushed: Begun,
    last_full: Option<BackupSummary>,
    fetched: Option<Fetched>,
}

/// A backup that was fetched and checked for a restore.
#[derive(Debug, Clone)]
pub(crate) struct Fetched {
    pub(crate) backup: BackupId,
    /// The name of its file.
    pub(crate) file_name: String,
    /// The highest epoch of the backups in the store.
    pub(crate) highest_epoch: Epoch,
}

impl Jobs {
    pub(crate) fn job(&self, kind: JobKind) -> Job {
        self.by_kind.get(&kind).cloned().unwrap_or_default()
    }

    pub(crate) fn begin(&mut self, kind: JobKind) {
        self.by_kind.entry(kind).or_default().running = true;
    }

    /// The job has ended, with this error if it failed.
    pub(crate) fn end(&mut self, kind: JobKind, error: Option<String>, now: SteadyMs) {
        let job = self.by_kind.entry(kind).or_default();
        let failures = job.failures.saturating_add(1);
        *job = Job::default();
        if let Some(error) = error {
            job.failures = failures;
            job.failed_at = Some(now);
            job.error = Some(error);
        }
    }

    /// The order for which backups were fetched is answered: the failures of the next one are counted anew.
    pub(crate) fn forget_restore(&mut self) {
        self.by_kind.remove(&JobKind::Restore);
    }

    /// Increments, pruning and verification.
    pub(crate) fn backups(&self) -> BackupView {
        BackupView {
            prune: self.job(JobKind::Prune),
            pruned: self.pruned.clone(),
            verify: self.job(JobKind::Verify),
            increments: self.job(JobKind::Increments),
            covered: self.covered,
            chain: self.chain.clone(),
            flushing: self.flushing,
            gap: self.gap.clone(),
            went_back: self.went_back.clone(),
        }
    }

    /// A full backup was taken here.
    pub(crate) fn note_full(&mut self, full: BackupSummary) {
        self.last_full = Some(full);
    }

    /// The last full backup that this node took.
    pub(crate) fn last_full(&self) -> Option<&BackupSummary> {
        self.last_full.as_ref()
    }

    /// Backups were pruned. `newest` was the newest one then.
    pub(crate) fn note_pruned(&mut self, newest: Option<BackupId>) {
        self.pruned = newest;
    }
}

/// The job that stores etcd's changes.
impl Jobs {
    /// It begins, and ends with this token.
    pub(crate) fn follow(&mut self, stop: CancellationToken) {
        self.stop_increments = stop;
    }

    pub(crate) fn stop_increments(&self) -> CancellationToken {
        self.stop_increments.clone()
    }

    /// Everything up to this revision is stored. Returns the chain as it was before.
    pub(crate) fn note_covered(
        &mut self,
        covered: Revision,
        now: UnixMs,
        chain: ChainView,
    ) -> Option<ChainView> {
        self.covered = Some((covered, now));
        self.chain.replace(chain)
    }

    /// What is stored, while changes are followed. What was covered before may be of another epoch.
    pub(crate) fn covered(&self) -> Option<Revision> {
        let covered = self.chain.as_ref().and(self.covered);
        covered.map(|(covered, _)| covered)
    }

    /// The chain of increments that this agent extends, while changes are followed.
    pub(crate) fn chain(&self) -> Option<&ChainView> {
        self.chain.as_ref()
    }

    /// Changes are not followed any more.
    pub(crate) fn leave_chain(&mut self) {
        self.chain = None;
        self.flushing = false;
    }

    /// The increments of this backup cannot go on, because etcd was put back if there is evidence for that.
    pub(crate) fn note_gap(&mut self, backup: BackupId, went_back: Option<String>) {
        self.gap = Some(backup);
        self.went_back = went_back;
    }

    /// These requests wait until what was received is stored.
    pub(crate) fn begin_flush(&mut self, requests: Begun) {
        self.flushing = true;
        self.flushed = requests;
    }

    /// It is stored. Returns the requests that waited for it; `None` if nothing was flushed.
    pub(crate) fn end_flush(&mut self) -> Option<Begun> {
        std::mem::take(&mut self.flushing).then(|| std::mem::take(&mut self.flushed))
    }
}

/// Restores.
impl Jobs {
    /// This backup is fetched for a restore.
    pub(crate) fn note_fetched(&mut self, fetched: Fetched) {
        self.fetched = Some(fetched);
    }

    pub(crate) fn fetched(&self) -> Option<&Fetched> {
        self.fetched.as_ref()
    }

    /// Its file is there no more, or is about to be removed.
    pub(crate) fn forget_fetched(&mut self) {
        self.fetched = None;
    }
}

/// Upkeep.
impl Jobs {
    pub(crate) fn note_defrag(&mut self, end: DefragEnd) {
        self.last_defrag = Some(end);
    }

    /// The end of the last defragmentation.
    pub(crate) fn last_defrag(&self) -> Option<DefragEnd> {
        self.last_defrag
    }

    pub(crate) fn note_compaction(&mut self, compaction: Compaction) {
        self.last_compaction = Some(compaction);
    }

    pub(crate) fn last_compaction(&self) -> Option<Compaction> {
        self.last_compaction
    }

    pub(crate) fn note_hash_check(&mut self, check: HashCheck) {
        self.last_hash_check = Some(check);
    }

    pub(crate) fn last_hash_check(&self) -> Option<&HashCheck> {
        self.last_hash_check.as_ref()
    }
}

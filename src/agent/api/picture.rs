//! What the metrics and the status page show in addition to the status. All of it is in memory: a reader of
//! them costs etcd and the store nothing.

use crate::agent::Agent;
use crate::model::{RecentBackup, Revision, SeenVerification, Vitals};

/// Numbers that no decision depends on.
pub(crate) fn vitals(agent: &Agent) -> Vitals {
    let spec = &agent.spec;
    let calendar = spec.backup.on_calendar.is_some();
    let (looked_at, clocks) = agent.shared.with(|inner| {
        let seen = inner.last.observation();
        (
            seen.map(|seen| seen.now),
            seen.map(|seen| seen.clocks.clone()).unwrap_or_default(),
        )
    });
    Vitals {
        looked_at,
        etcd_quota_bytes: spec.etcd.quota(),
        backup_interval: spec.backup_interval.filter(|_| !calendar),
        etcd_certificate_not_after: agent
            .etcd_certificates
            .as_ref()
            .and_then(|files| files.not_after()),
        clocks,
    }
}

/// The newest backups, oldest first: those of the last listing of the store, and what this agent has stored
/// and verified since.
pub(crate) fn recent_backups(agent: &Agent) -> Vec<RecentBackup> {
    let newest = agent.shared.newest_full.borrow().clone();
    let (mut recent, verified) = agent.shared.with(|inner| {
        let verified = inner.store.view().and_then(|view| view.verify.last.clone());
        (inner.store.recent().to_vec(), verified)
    });
    if let Some(full) = newest
        && recent.iter().all(|backup| backup.id < full.id)
    {
        recent.push(RecentBackup {
            id: full.id,
            at: full.at,
            size_bytes: Some(full.size_bytes),
            increments: 0,
            covered: Revision(0),
            verification: SeenVerification::None,
            verification_changed: None,
        });
    }
    if let Some((id, result)) = verified
        && let Some(backup) = recent.iter_mut().find(|backup| backup.id == id)
    {
        backup.verification = SeenVerification::Read(result);
    }
    recent
}

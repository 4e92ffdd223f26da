//! The store as this node knows it.

use crate::agent::Agent;
use crate::model::{BackupSummary, Fact, StoreView};

/// The last answer of the store. A store that does not answer makes its facts unknown, never absent.
pub(crate) fn view(agent: &Agent) -> Fact<StoreView> {
    if agent.ports.store.is_none() {
        return Fact::Absent;
    }
    let last = agent.shared.with(|inner| inner.store.last().cloned());
    let mut last = last.unwrap_or_default();
    // A full backup that this agent has learned of since counts at once.
    if let Fact::Known(view) = &mut last {
        let known = agent.shared.newest_full.borrow();
        let both = view.newest_backup.iter().chain(known.as_ref());
        // The clock may have been set back since.
        view.newest_backup = BackupSummary::newest(both, agent.ports.clock.now()).cloned();
    }
    last
}

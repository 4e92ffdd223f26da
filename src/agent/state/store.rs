//! The last answer of the store, and when the store is asked again: as rarely as possible, because each
//! request costs.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{ClusterId, Fact, Genesis, NodeName, RecentBackup, Revision, SteadyMs, StoreView};

/// How old the view may become while there is no epoch, or the store does not answer.
const REFRESH_UNKNOWN: Duration = Duration::from_secs(2);
/// The same while data is written.
const REFRESH_ACTIVE: Duration = Duration::from_mins(5);
/// The same while no data is written.
const REFRESH_IDLE: Duration = Duration::from_hours(12);

/// The data of this cluster at this revision, while all nodes answer and agree on the spec. While this stays
/// the same, no node of this cluster writes to the store.
pub(crate) type Idle = (ClusterId, Revision);

/// How old the view may become.
fn limit(good: bool, idle: Option<Idle>, before: Option<Idle>) -> Duration {
    match good {
        false => REFRESH_UNKNOWN,
        true if idle.is_some() && idle == before => REFRESH_IDLE,
        true => REFRESH_ACTIVE,
    }
}

/// The last view of the store.
#[derive(Debug, Default)]
pub(crate) struct StoreCache {
    view: Option<Fact<StoreView>>,
    /// When the last request ended, with or without an answer.
    at: Option<SteadyMs>,
    /// The data at the time of the last request.
    idle: Option<Idle>,
    asking: bool,
    /// How many requests in a row failed.
    failures: u32,
    /// Ask as soon as possible.
    again: bool,
    /// The newest backups in the last listing, oldest first.
    recent: Vec<RecentBackup>,
    /// The digest of the spec that each peer follows.
    peer_specs: BTreeMap<NodeName, String>,
}

impl StoreCache {
    /// The last answer, or why there was none.
    pub(crate) fn last(&self) -> Option<&Fact<StoreView>> {
        self.view.as_ref()
    }

    /// The last answer; `None` while the store does not answer.
    pub(crate) fn view(&self) -> Option<&StoreView> {
        self.view.as_ref().and_then(Fact::known)
    }

    /// The last answer, so that this node can add what it has learned since.
    pub(crate) fn view_mut(&mut self) -> Option<&mut StoreView> {
        match &mut self.view {
            Some(Fact::Known(view)) => Some(view),
            _ => None,
        }
    }

    /// The newest genesis in the store.
    pub(crate) fn genesis(&self) -> Option<&Genesis> {
        self.view()?.genesis.as_ref()
    }

    /// The newest backups in the last listing, oldest first.
    pub(crate) fn recent(&self) -> &[RecentBackup] {
        &self.recent
    }

    /// Notes the newest backups in a listing.
    pub(crate) fn note_recent(&mut self, recent: Vec<RecentBackup>) {
        self.recent = recent;
    }

    /// How many requests in a row failed.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Asks the store as soon as possible: its content may have changed.
    pub(crate) fn ask_again(&mut self) {
        self.again = true;
    }

    /// Notes the spec that a peer follows, and asks the store again when it begins to differ from this
    /// node's.
    pub(crate) fn note_spec(&mut self, node: &NodeName, digest: &str, mine: &str) {
        let before = self.peer_specs.insert(node.clone(), digest.to_owned());
        self.again |= before.as_deref() != Some(digest) && digest != mine;
    }

    /// True when the store has to be asked now. It counts as being asked from then on.
    pub(crate) fn start_due(&mut self, now: SteadyMs, no_epoch: bool, idle: Option<Idle>) -> bool {
        let limit = limit(self.view().is_some() && !no_epoch, idle, self.idle);
        let old = self.at.is_none_or(|at| now.since(at) >= limit);
        let due = (old || self.again) && !self.asking;
        self.asking |= due;
        self.again &= !due;
        if due {
            self.idle = idle;
        }
        due
    }

    /// Takes the store's answer.
    pub(crate) fn answered(&mut self, view: Fact<StoreView>, now: SteadyMs) {
        self.asking = false;
        self.at = Some(now);
        self.failures = match &view {
            Fact::Known(_) => 0,
            _ => self.failures.saturating_add(1),
        };
        self.view = Some(view);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_cluster_asks_nothing() {
        let at = |revision| Some((ClusterId(1), Revision(revision)));
        let restored = Some((ClusterId(2), Revision(7)));
        let rows = [
            ("nothing written since", true, at(7), at(7), REFRESH_IDLE),
            ("something written", true, at(8), at(7), REFRESH_ACTIVE),
            (
                "another cluster at this revision",
                true,
                at(7),
                restored,
                REFRESH_ACTIVE,
            ),
            ("a node is silent", true, None, at(7), REFRESH_ACTIVE),
            ("as long as one is", true, None, None, REFRESH_ACTIVE),
            ("the store did not answer", false, at(7), at(7), REFRESH_UNKNOWN),
        ];
        for (what, good, idle, before, expected) in rows {
            assert_eq!(limit(good, idle, before), expected, "{what}");
        }
    }
}

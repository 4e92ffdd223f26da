//! The requests of operators that this agent has taken.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::RequestView;

/// The requests, by their number.
#[derive(Debug, Default)]
pub(crate) struct RequestList {
    pub(super) all: BTreeMap<u64, RequestView>,
    /// Those that another node carries out.
    pub(super) handed: BTreeSet<u64>,
    /// Those that another node has handed over to this one.
    pub(super) taken: BTreeSet<u64>,
    pub(super) newest: u64,
}

impl RequestList {
    /// The requests for the agent that runs after a reload.
    pub(crate) fn carry(&mut self) -> Self {
        Self {
            all: std::mem::take(&mut self.all),
            newest: self.newest,
            ..Self::default()
        }
    }
}

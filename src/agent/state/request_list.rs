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
    /// Those that a job has begun to carry out.
    pub(super) begun: BTreeSet<u64>,
    pub(super) newest: u64,
}

impl RequestList {
    /// Follows those no longer that another node carries out.
    pub(super) fn let_go(&mut self) {
        self.handed.clear();
    }

    /// The requests for the agent that runs after a reload.
    pub(crate) fn carry(&mut self) -> Self {
        Self {
            all: std::mem::take(&mut self.all),
            newest: self.newest,
            ..Self::default()
        }
    }
}

/// The requests that a job carries out: those that were pending when it began, by their numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Begun(pub(super) Vec<u64>);

impl Begun {
    /// True if nobody asked for what the job does.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

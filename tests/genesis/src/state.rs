//! One state of the whole system, as numbers.

/// The maximum number of nodes in a check.
pub(crate) const MOST_NODES: usize = 5;

/// A state. Equal states have equal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct State {
    /// Each elector's record, which is stored on disk.
    pub(crate) electors: [u32; MOST_NODES],
    /// The progress of each agent's process, which is not stored.
    pub(crate) processes: [u32; MOST_NODES],
    /// All requests that were ever sent.
    pub(crate) sent: u32,
    /// The checker's notes.
    pub(crate) notes: u32,
}

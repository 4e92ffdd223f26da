//! One state of the whole, as numbers.

/// The most nodes that are checked.
pub(crate) const MOST_NODES: usize = 5;

/// A state: equal states have equal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct State {
    /// Each elector's record, which is on disk.
    pub(crate) electors: [u32; MOST_NODES],
    /// What each agent's process is at, which is not.
    pub(crate) processes: [u32; MOST_NODES],
    /// The requests that were ever sent.
    pub(crate) sent: u32,
    /// The checker's notes.
    pub(crate) notes: u32,
}

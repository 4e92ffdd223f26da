//! What a watch of all keys tells.

use super::{ClusterId, Revision};

/// One key changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// True for a deletion.
    pub deleted: bool,
    /// etcd's `mvccpb.KeyValue`, encoded as etcd stores it; of a deletion only the key is set.
    pub stored: Vec<u8>,
    /// The lease that the key hangs on, 0 for none.
    pub lease: i64,
}

/// All changes of one revision, in the order of the transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionChanges {
    /// The revision.
    pub revision: Revision,
    /// Its changes.
    pub changes: Vec<KeyChange>,
}

/// What a watch of all keys has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// Whole revisions, ascending.
    Revisions {
        /// What was written.
        changes: Vec<RevisionChanges>,
        /// The revision that etcd was at when it said so: it has more to tell where this is a later one.
        at: Revision,
        /// The cluster that says so.
        of: ClusterId,
    },
    /// What was asked for was compacted away: nothing before this revision can be told any more.
    Compacted(Revision),
}

/// What etcd says of one of its revisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Past {
    /// These were its changes.
    Changes(RevisionChanges),
    /// It is compacted, or its changes are not told for another reason; etcd is at this revision.
    Gone(Revision),
    /// etcd has not come so far: this is its newest revision, read through quorum.
    Ahead(Revision),
}

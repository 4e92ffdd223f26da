//! The events of a watch of all keys.

use super::{ClusterId, Revision};

/// One key changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// True for a deletion.
    pub deleted: bool,
    /// etcd's `mvccpb.KeyValue`, encoded as etcd stores it. For a deletion only the key is set.
    pub stored: Vec<u8>,
    /// The lease that the key is attached to, 0 for none.
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

/// One event of a watch of all keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// Whole revisions, ascending.
    Revisions {
        /// The changes.
        changes: Vec<RevisionChanges>,
        /// etcd's revision when it sent them. If it is later than the last change, more changes follow.
        at: Revision,
        /// The cluster that sent them.
        of: ClusterId,
    },
    /// The requested revision was compacted. No change before this revision is available any more.
    Compacted(Revision),
}

/// etcd's answer about one of its revisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Past {
    /// The changes of this revision.
    Changes(RevisionChanges),
    /// The revision is compacted, or its changes are unavailable for another reason. The value is etcd's
    /// current revision.
    Gone(Revision),
    /// etcd has not reached the revision. The value is its newest revision, read through quorum.
    Ahead(Revision),
}

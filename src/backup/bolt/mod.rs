//! The part of bbolt's file format that is needed to append revisions to an etcd snapshot.
//!
//! The file is copy-on-write: existing pages are not changed, new pages are appended, and a new meta page
//! makes them take effect. So a restore to a point in time writes only new pages, and etcd's own tools check
//! and restore the result like any snapshot. Source: `go.etcd.io/bbolt` 1.3 and 1.4,
//! `internal/common/{page,meta}.go`.

mod merge;
mod page;
mod read;
mod write;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub(super) use merge::Merge;

/// Why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum BoltError {
    /// The disk failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Not a bbolt file of etcd, or a damaged one.
    #[error("the snapshot is not an etcd database: {0}")]
    Damaged(String),
}

type Bolt<T> = Result<T, BoltError>;

fn damaged<T>(why: impl Into<String>) -> Bolt<T> {
    Err(BoltError::Damaged(why.into()))
}

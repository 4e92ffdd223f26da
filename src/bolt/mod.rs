//! bbolt's file format, as far as it is needed to read etcd's databases and to append to them.
//!
//! A file is copy-on-write: existing pages are not changed, new pages are appended, and a new meta page makes
//! them take effect. Source: `go.etcd.io/bbolt` 1.3 to 1.5, `internal/common/{page,meta}.go`.

pub(crate) mod compare;
pub(crate) mod meta;
pub(crate) mod page;
pub(crate) mod read;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod write;

/// Why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BoltError {
    /// The disk failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Not a bbolt file of etcd, or a damaged one.
    #[error("the snapshot is not an etcd database: {0}")]
    Damaged(String),
}

pub(crate) type Bolt<T> = Result<T, BoltError>;

pub(crate) fn damaged<T>(why: impl Into<String>) -> Bolt<T> {
    Err(BoltError::Damaged(why.into()))
}

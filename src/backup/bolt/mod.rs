//! Changes to a snapshot before it is restored: the revisions of increments are appended, and what an older
//! etcd does not know is taken out. Only new pages are written, and etcd's own tools check and restore the
//! result like any snapshot.

mod merge;
mod strip;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub(super) use merge::Merge;
pub(super) use strip::strip;

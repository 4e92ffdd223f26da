//! Restores: a full backup and its increments become the file that `etcdctl snapshot save` would have
//! written.

pub(super) mod content;
pub(super) mod error;
pub(super) mod fetch;
pub(super) mod fit;
pub(super) mod point;
pub(super) mod replay;
pub(super) mod room;
pub(super) mod unpack;

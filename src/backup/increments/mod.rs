//! Increments: every change after a full backup, read from a watch of all keys.

pub(super) mod follow;
pub(super) mod increment;
pub(super) mod read;
pub(super) mod timeline;

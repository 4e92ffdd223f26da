//! The status page: the same picture as `etcd-agent status`, `backup list` and `events`, as one document of
//! HTML without scripts.
//!
//! Everything here is a pure function of the picture. The templates escape each value (`maud`), and [`page`]
//! makes characters visible that a reader could not see, in the whole document at once.

mod backups;
mod document;
mod events;
mod guide;
mod nodes;
mod parts;
mod picture;
mod reasons;
mod timeline;
mod verdict;
mod visible;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use document::{STYLE, STYLE_PATH, page};
pub use picture::Picture;

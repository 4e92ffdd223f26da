//! Full backups: the streaming pipeline, the catalogue, restore, and the store's control records: epochs, and the wanted size.
//!
//! The layout is told in `docs/backup-format.md`. What is not committed by its last object is not a backup.

mod catalogue;
mod compress;
mod control;
mod copy;
mod fetch;
mod layout;
mod manifest;
mod pieces;
mod pipeline;
mod prune;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod testing;
mod trailer;
mod unpack;
mod verification;
mod verify;
mod view;
mod wanted;

pub use catalogue::{Catalogue, list, newest};
pub use control::{Recorded, newest_epoch, record_epoch};
pub use copy::{Copied, copy_missing};
pub use fetch::{FetchedSnapshot, fetch};
pub use layout::{BackupName, Layout};
pub use manifest::{Compression, Manifest, ManifestError};
pub use pipeline::{BackupMeta, take_full};
pub use prune::{Pruned, remove};
pub use verification::Verification;
pub use verify::{VerifyMeta, verify};
pub use view::store_view;
pub use wanted::{Written, want_size, wanted_size};

//! Full backups: the streaming pipeline, the catalogue, restore, and the store's control records: epochs, and the wanted size.
//!
//! The layout is told in `docs/backup-format.md`. What is not committed by its last object is not a backup.

mod bolt;
mod catalogue;
mod chain;
mod compress;
mod control;
mod copy;
mod cutter;
mod failed;
mod fetch;
mod follow;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gzip;
mod increment;
mod layout;
mod manager;
mod manifest;
mod pipeline;
mod point;
mod prune;
mod replay;
mod room;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod testing;
mod timeline;
mod trailer;
mod unpack;
mod verification;
mod verify;
mod view;
mod wanted;
mod worker;

pub use catalogue::{Catalogue, Part, list, newest, page};
pub use control::{Recorded, newest_epoch, record_epoch};
pub use copy::{Copied, copy_missing};
pub use failed::{Blame, Cause, Failed};
pub use fetch::{FetchedSnapshot, fetch, fetch_within};
pub use follow::{Chain, Ended, Following, Progress, StoredIncrement, follow, resume};
pub use increment::{Change, Entry, Head, Increment, IncrementError, Lease};
pub use layout::{BackupName, Layout};
pub use manager::{commands, delete_command};
pub use manifest::{Compression, Manifest, ManifestError};
pub use pipeline::{BackupMeta, Format, take_full, take_full_as};
pub use point::{Point, find};
pub use prune::{Pruned, remove};
pub use room::Room;
pub use verification::Verification;
pub use verify::{VerifyMeta, verify};
pub use view::store_view;
pub use wanted::{Written, want_size, wanted_size};

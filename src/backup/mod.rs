//! Full backups and their increments, restore, verification, and the store's control records: epochs, and the
//! wanted size.
//!
//! The layout is described in `docs/backup-format.md`. A backup counts once its last object, the commit
//! marker, is there.

mod batch;
mod bolt;
mod compress;
mod failed;
mod full;
#[cfg(fuzzing)]
pub mod fuzzing;
mod increments;
mod part_buffer;
mod restore;
mod store;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod testing;
mod trailer;
mod verify;

pub use failed::{Cause, CausedBy, Failed};
pub use full::pipeline::{BackupMeta, Format, take_full, take_full_as};
pub use increments::follow::{Chain, Ended, Following, Progress, StoredIncrement, follow, resume};
pub use increments::increment::{Change, Entry, Head, Increment, IncrementError, Lease};
pub use restore::content::{BackupContent, content};
pub use restore::fetch::{FetchedSnapshot, fetch, fetch_within, remove_fetched};
pub use restore::fit::fit;
pub use restore::point::{Point, find};
pub use restore::room::Room;
pub use store::catalogue::{Catalogue, Part, highest_epoch, list, newest, page};
pub use store::change_marks::{Marked, change_marks};
pub use store::cluster_spec::{Written, want_size, wanted_size};
pub use store::copy::{Copied, copy_missing};
pub use store::epochs::{Recorded, newest_epoch, record_epoch};
pub use store::etcd_manager::{commands, delete_command};
pub use store::layout::{BackupName, Layout};
pub use store::manifest::{Compression, Manifest, ManifestError};
pub use store::marks::{Call, MarkChange, MarksFile};
pub use store::prune::{Pruned, Pruning, Removed, remove, remove_named};
pub use store::recent::read_verifications;
pub use store::same_cluster::refuse_other_cluster;
pub use store::verification::Verification;
pub use store::view::look_at_store;
pub use verify::{VerifyMeta, verify};

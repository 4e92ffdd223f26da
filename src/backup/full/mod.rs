//! Full backups: etcd's snapshot, compressed and stored in one stream.

mod gzip;
pub(super) mod pipeline;
mod worker;

//! Takes out of a snapshot what an older etcd does not know, so that it opens the restored data. What clients
//! have stored is the same in all versions of etcd 3 and is left alone.

use std::fs::File;

use crate::bolt::Bolt;
use crate::bolt::page::Item;
use crate::bolt::read::{Bucket, Reader, bucket};
use crate::bolt::write::{Writer, publish, tree_item, tree_of};
use crate::model::EtcdVersion;

const META: &[u8] = b"meta";
/// The version of etcd whose format the database has, since 3.6. An older etcd does not start with a newer one.
const STORAGE_VERSION: &[u8] = b"storageVersion";
/// What etcd 3.4 keeps in the bucket `meta`. An etcd 3.5 to which it is upgraded later would take the rest for
/// its own.
const META_OF_3_4: [&[u8]; 3] = [b"consistent_index", b"scheduledCompactRev", b"finishedCompactRev"];
/// The bucket with the version of the cluster, since 3.5. etcd 3.4 would keep it and never change it.
const CLUSTER: &[u8] = b"cluster";
/// The first minor that keeps the version of the cluster in its database.
const KEEPS_CLUSTER: (u64, u64) = (3, 5);

/// Takes out what etcd of version `to` does not know. The file is a snapshot without its trailer. Returns false
/// if there was nothing to do.
///
/// # Errors
/// If the file cannot be read or written, or is damaged.
pub(in crate::backup) fn strip(file: &File, to: EtcdVersion) -> Bolt<bool> {
    let reader = Reader::open(file)?;
    let meta = reader.meta;
    let mut buckets = reader.buckets()?;
    let Some(at) = buckets.iter().position(|item| item.key == META) else {
        return Ok(false);
    };
    let found = buckets.get(at).map(bucket).transpose()?;
    let Some(found) = found else { return Ok(false) };
    let sequence = match &found {
        Bucket::Tree { sequence, .. } | Bucket::Inline { sequence, .. } => *sequence,
    };
    let mut items = reader.contents(&found)?;
    let before = (items.len(), buckets.len());
    items.retain(|item| is_known(item, to));
    if to.series() < KEEPS_CLUSTER {
        buckets.retain(|item| item.key != CLUSTER);
    }
    if before == (items.len(), buckets.len()) {
        return Ok(false);
    }
    file.set_len(meta.file_bytes())?;
    let mut writer = Writer::new(file, meta.page_size, meta.high);
    let root = tree_of(&mut writer, items)?;
    for item in buckets.iter_mut().filter(|item| item.key == META) {
        *item = tree_item(META, root, sequence);
    }
    let root = tree_of(&mut writer, buckets)?;
    publish(file, meta, root, writer.high)?;
    Ok(true)
}

/// False for an element of the bucket `meta` that this version of etcd does not know.
fn is_known(item: &Item, to: EtcdVersion) -> bool {
    if to.series() < KEEPS_CLUSTER {
        return META_OF_3_4.contains(&item.key.as_slice());
    }
    let stored = || EtcdVersion::reported(&String::from_utf8_lossy(&item.value));
    // etcd takes a database without this element for one of 3.5, and converts it.
    item.key != STORAGE_VERSION || stored().is_some_and(|stored| stored.series() <= to.series())
}

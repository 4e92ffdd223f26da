//! Shared by tests: small databases.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::meta::VERSION;
use super::page::{ELEMENT, IS_BUCKET, Item, LEAF, Meta, head, meta_page};
use super::write::{Writer, tree_item, tree_of};

const PAGE: u32 = 4096;

/// Writes a database with these buckets into an empty file.
pub(crate) fn database(file: &File, buckets: impl FnOnce(&mut Writer<'_>) -> Vec<Item>) {
    file.set_len(2 * u64::from(PAGE)).unwrap();
    let mut writer = Writer::new(file, PAGE, 2);
    let buckets = buckets(&mut writer);
    let root = tree_of(&mut writer, buckets).unwrap();
    let meta = Meta {
        version: VERSION,
        page_size: PAGE,
        root,
        sequence: 0,
        high: writer.high,
        txid: 7,
    };
    for id in [0, 1] {
        file.write_all_at(&meta_page(meta, id).unwrap(), id * u64::from(PAGE))
            .unwrap();
    }
}

/// An inline bucket with these elements, as bbolt stores small ones: laid out like a page without a number.
pub(crate) fn inline(name: &str, items: &[(&[u8], &[u8])]) -> Item {
    let mut value = vec![0; 16];
    value.extend_from_slice(&head(0, LEAF, items.len(), 0).unwrap());
    let mut bodies = Vec::new();
    for (n, (key, body)) in items.iter().enumerate() {
        let offset = (items.len() - n) * ELEMENT + bodies.len();
        for word in [0, offset, key.len(), body.len()] {
            value.extend_from_slice(&u32::try_from(word).unwrap().to_le_bytes());
        }
        bodies.extend_from_slice(key);
        bodies.extend_from_slice(body);
    }
    value.extend_from_slice(&bodies);
    Item {
        flags: IS_BUCKET,
        key: name.as_bytes().to_vec(),
        value,
    }
}

/// A bucket with these elements in a tree of its own.
pub(crate) fn tree(writer: &mut Writer<'_>, name: &str, items: &[(&str, &str)]) -> Item {
    let item = |(key, value): &(&str, &str)| Item {
        flags: 0,
        key: key.as_bytes().to_vec(),
        value: value.as_bytes().to_vec(),
    };
    let root = tree_of(writer, items.iter().map(item)).unwrap();
    tree_item(name.as_bytes(), root, 0)
}

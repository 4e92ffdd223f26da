//! Appends pages: leaves in the order of their elements, then the branches above them.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::page::{self, BRANCH, BUCKET, Child, ELEMENT, HEAD, IS_BUCKET, Item, LEAF, Meta, meta_page};
use super::{Bolt, damaged};

/// Appends pages after `high`.
pub(crate) struct Writer<'a> {
    file: &'a File,
    page_size: usize,
    /// The first page number that is not used yet.
    pub(crate) high: u64,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(file: &'a File, page_size: u32, high: u64) -> Self {
        Self {
            file,
            page_size: page_size as usize,
            high,
        }
    }

    /// Writes the heads and bodies of elements as one page, with overflow if they do not fit. Returns its
    /// number.
    fn put(&mut self, flags: u16, heads: &[[u8; ELEMENT]], bodies: &[u8]) -> Bolt<u64> {
        let size = HEAD + heads.len() * ELEMENT + bodies.len();
        let pages = size.div_ceil(self.page_size);
        let id = self.high;
        let mut page = Vec::with_capacity(pages * self.page_size);
        page.extend_from_slice(&page::head(id, flags, heads.len(), pages - 1)?);
        page.extend(heads.iter().flatten());
        page.extend_from_slice(bodies);
        page.resize(pages * self.page_size, 0);
        self.file.write_all_at(&page, id * self.page_size as u64)?;
        self.high += pages as u64;
        Ok(id)
    }

    /// One leaf page.
    fn leaf(&mut self, items: &[Item]) -> Bolt<Child> {
        let (mut heads, mut bodies) = (Vec::new(), Vec::new());
        for (n, item) in items.iter().enumerate() {
            let offset = (items.len() - n) * ELEMENT + bodies.len();
            heads.push(words([
                item.flags,
                word(offset)?,
                word(item.key.len())?,
                word(item.value.len())?,
            ]));
            bodies.extend_from_slice(&item.key);
            bodies.extend_from_slice(&item.value);
        }
        let key = items.first().map(|item| item.key.clone()).unwrap_or_default();
        let page = self.put(LEAF, &heads, &bodies)?;
        Ok(Child { key, page })
    }

    fn branch(&mut self, children: &[Child]) -> Bolt<Child> {
        let (mut heads, mut bodies) = (Vec::new(), Vec::new());
        for (n, child) in children.iter().enumerate() {
            let offset = (children.len() - n) * ELEMENT + bodies.len();
            let mut head = [0; ELEMENT];
            head[..4].copy_from_slice(&word(offset)?.to_le_bytes());
            head[4..8].copy_from_slice(&word(child.key.len())?.to_le_bytes());
            head[8..].copy_from_slice(&child.page.to_le_bytes());
            heads.push(head);
            bodies.extend_from_slice(&child.key);
        }
        let key = children
            .first()
            .map(|child| child.key.clone())
            .unwrap_or_default();
        let page = self.put(BRANCH, &heads, &bodies)?;
        Ok(Child { key, page })
    }

    /// Writes the branches above these pages and returns the root. Without any page the root is an empty
    /// leaf.
    pub(crate) fn tree(&mut self, mut level: Vec<Child>) -> Bolt<u64> {
        loop {
            match level.as_slice() {
                [] => return Ok(self.leaf(&[])?.page),
                [root] => return Ok(root.page),
                _ => {}
            }
            let mut above = Vec::new();
            let mut rest = level.as_slice();
            while !rest.is_empty() {
                let (mut taken, mut size) = (0, HEAD);
                for child in rest {
                    size += ELEMENT + child.key.len();
                    if taken >= 2 && size > self.page_size {
                        break;
                    }
                    taken += 1;
                }
                // No branch has a single child.
                if rest.len() - taken == 1 && taken > 2 {
                    taken -= 1;
                } else if rest.len() - taken == 1 {
                    taken += 1;
                }
                let (these, later) = rest.split_at(taken);
                above.push(self.branch(these)?);
                rest = later;
            }
            level = above;
        }
    }
}

/// Writes leaves while their elements arrive.
pub(crate) struct Leaves {
    pending: Vec<Item>,
    size: usize,
    pub(crate) written: Vec<Child>,
}

impl Leaves {
    pub(crate) fn new() -> Self {
        Self {
            pending: Vec::new(),
            size: HEAD,
            written: Vec::new(),
        }
    }

    /// Takes the next element; keys ascend.
    pub(crate) fn push(&mut self, writer: &mut Writer<'_>, item: Item) -> Bolt<()> {
        let size = ELEMENT + item.key.len() + item.value.len();
        if !self.pending.is_empty() && self.size + size > writer.page_size {
            self.flush(writer)?;
        }
        self.size += size;
        self.pending.push(item);
        Ok(())
    }

    /// Writes what is left.
    pub(crate) fn flush(&mut self, writer: &mut Writer<'_>) -> Bolt<()> {
        if !self.pending.is_empty() {
            self.written.push(writer.leaf(&self.pending)?);
        }
        self.pending.clear();
        self.size = HEAD;
        Ok(())
    }
}

/// Writes a whole tree of elements whose keys ascend; returns its root.
pub(crate) fn tree_of(writer: &mut Writer<'_>, items: impl IntoIterator<Item = Item>) -> Bolt<u64> {
    let mut leaves = Leaves::new();
    for item in items {
        leaves.push(writer, item)?;
    }
    leaves.flush(writer)?;
    writer.tree(leaves.written)
}

/// The top-level element of a bucket whose tree begins at this page.
pub(crate) fn tree_item(name: &[u8], root: u64, sequence: u64) -> Item {
    let mut value = Vec::with_capacity(BUCKET);
    value.extend_from_slice(&root.to_le_bytes());
    value.extend_from_slice(&sequence.to_le_bytes());
    Item {
        flags: IS_BUCKET,
        key: name.to_vec(),
        value,
    }
}

/// Writes both meta pages, so that appended pages take effect. `before` is the meta page in force, `root` the
/// new root, and `high` the first page number that is not used.
pub(crate) fn publish(file: &File, before: Meta, root: u64, high: u64) -> Bolt<()> {
    // All pages are on disk before a meta page names them.
    file.sync_data()?;
    for (id, txid) in [(1, before.txid + 1), (0, before.txid + 2)] {
        let meta = Meta {
            root,
            high,
            txid,
            ..before
        };
        let at = id * u64::from(before.page_size);
        file.write_all_at(&meta_page(meta, id)?, at)?;
    }
    Ok(())
}

fn word(number: usize) -> Bolt<u32> {
    u32::try_from(number).or_else(|_| damaged("a value is too large for a page"))
}

fn words(four: [u32; 4]) -> [u8; ELEMENT] {
    let mut head = [0; ELEMENT];
    for (place, word) in head.chunks_exact_mut(4).zip(four) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    head
}

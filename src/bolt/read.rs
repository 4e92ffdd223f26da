//! Reads trees of a file that may be hostile: a pointer outside the file is an error, and every walk of a
//! tree ends.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::page::{self, BRANCH, BUCKET, Child, HEAD, IS_BUCKET, Item, LEAF, Meta, u16_at, u32_at, u64_at};
use super::{Bolt, damaged};

/// The greatest depth that is read. A bbolt tree that fits on a disk is far less deep.
const DEEPEST: usize = 32;

/// An opened file.
pub(crate) struct Reader<'a> {
    file: &'a File,
    pub(crate) meta: Meta,
}

/// A bucket: a tree, or a few elements inside the element of its parent.
#[derive(Debug, Clone)]
pub(crate) enum Bucket {
    Tree { root: u64, sequence: u64 },
    Inline { items: Vec<Item>, sequence: u64 },
}

impl<'a> Reader<'a> {
    /// Reads the meta pages and takes the valid one with the higher transaction number.
    pub(crate) fn open(file: &'a File) -> Bolt<Self> {
        let mut first = [0; 80];
        file.read_exact_at(&mut first, 0)?;
        let size = match page::meta(&first)? {
            Some(meta) => meta.page_size,
            // The page size is only known from a meta page; snapshots begin with a valid one.
            None => return damaged("its first meta page is not valid"),
        };
        if !size.is_power_of_two() || !(512..=65536).contains(&size) {
            return damaged(format!("pages of {size} bytes"));
        }
        let mut second = [0; 80];
        file.read_exact_at(&mut second, u64::from(size))?;
        let metas = [page::meta(&first)?, page::meta(&second)?];
        let newest = metas.into_iter().flatten().max_by_key(|meta| meta.txid);
        let Some(meta) = newest.filter(|meta| meta.page_size == size) else {
            return damaged("it has no valid meta page");
        };
        if meta.file_bytes() > file.metadata().map_or(0, |m| m.len()) {
            return damaged("it is shorter than its meta page states");
        }
        Ok(Self { file, meta })
    }

    /// A page with all its overflow.
    fn page(&self, id: u64) -> Bolt<Vec<u8>> {
        let size = u64::from(self.meta.page_size);
        if id >= self.meta.high {
            return damaged(format!("page {id} is outside of the file"));
        }
        let mut head = [0; HEAD];
        self.file.read_exact_at(&mut head, id * size)?;
        let pages = u64::from(u32_at(&head, 12)?) + 1;
        if u64_at(&head, 0)? != id || id + pages > self.meta.high {
            return damaged(format!("the head of page {id} is wrong"));
        }
        let mut page = vec![0; usize::try_from(pages * size).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut page, id * size)?;
        Ok(page)
    }

    /// The leaf pages below a page, in order, each with the first key below it. It reads a leaf page itself
    /// only if the root is one.
    pub(crate) fn leaves(&self, root: u64) -> Bolt<Vec<Child>> {
        let page = self.page(root)?;
        if u16_at(&page, 8)? == LEAF {
            let first = page::items(&page)?.into_iter().next();
            return Ok(first
                .map(|item| Child {
                    key: item.key,
                    page: root,
                })
                .into_iter()
                .collect());
        }
        // Level by level: all pages of one level are of the same kind.
        let mut level = page::children(&page)?;
        for _ in 0..DEEPEST {
            if level.len() as u64 > self.meta.high {
                break;
            }
            let Some(first) = level.first() else {
                return Ok(level);
            };
            if self.flags(first.page)? == LEAF {
                return Ok(level);
            }
            let mut below = Vec::new();
            for child in &level {
                if self.flags(child.page)? != BRANCH {
                    return damaged("its tree is not balanced");
                }
                below.extend(page::children(&self.page(child.page)?)?);
            }
            level = below;
        }
        damaged("its tree is too deep")
    }

    fn flags(&self, id: u64) -> Bolt<u16> {
        let mut head = [0; HEAD];
        if id >= self.meta.high {
            return damaged(format!("page {id} is outside of the file"));
        }
        self.file
            .read_exact_at(&mut head, id * u64::from(self.meta.page_size))?;
        u16_at(&head, 8)
    }

    /// All elements below a page.
    pub(crate) fn all(&self, root: u64) -> Bolt<Vec<Item>> {
        let mut items = Vec::new();
        for leaf in self.leaves(root)? {
            items.extend(self.leaf(leaf.page)?);
        }
        Ok(items)
    }

    /// The elements of one leaf page.
    pub(crate) fn leaf(&self, id: u64) -> Bolt<Vec<Item>> {
        page::items(&self.page(id)?)
    }

    /// The top-level buckets.
    pub(crate) fn buckets(&self) -> Bolt<Vec<Item>> {
        self.all(self.meta.root)
    }

    /// A bucket's elements, wherever they are.
    pub(crate) fn contents(&self, bucket: &Bucket) -> Bolt<Vec<Item>> {
        match bucket {
            Bucket::Tree { root, .. } => self.all(*root),
            Bucket::Inline { items, .. } => Ok(items.clone()),
        }
    }
}

/// The bucket in a top-level element.
pub(crate) fn bucket(item: &Item) -> Bolt<Bucket> {
    if item.flags & IS_BUCKET == 0 {
        return damaged("a top-level element is not a bucket");
    }
    let (root, sequence) = (u64_at(&item.value, 0)?, u64_at(&item.value, 8)?);
    if root != 0 {
        return Ok(Bucket::Tree { root, sequence });
    }
    let items = page::items(item.value.get(BUCKET..).unwrap_or_default())?;
    Ok(Bucket::Inline { items, sequence })
}

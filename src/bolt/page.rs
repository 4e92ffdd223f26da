//! Pages and their elements, little-endian as on every platform that etcd supports.

use super::meta::VERSION;
pub(crate) use super::meta::{HEAD, Meta};
use super::{Bolt, damaged};

/// Bytes of one element's head, on branch and leaf pages alike.
pub(crate) const ELEMENT: usize = 16;
/// Bytes of a bucket's head, which is the value of its element.
pub(crate) const BUCKET: usize = 16;
pub(crate) const BRANCH: u16 = 0x01;
pub(crate) const LEAF: u16 = 0x02;
pub(crate) const META: u16 = 0x04;
/// An element of a leaf that is a bucket.
pub(crate) const IS_BUCKET: u32 = 0x01;

/// One element of a leaf page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) flags: u32,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// One element of a branch page: a child and the first key below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) key: Vec<u8>,
    pub(crate) page: u64,
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Bolt<u16> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or_else(|| damaged("a page is too short"), |b| Ok(u16::from_le_bytes(*b)))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Bolt<u32> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or_else(|| damaged("a page is too short"), |b| Ok(u32::from_le_bytes(*b)))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Bolt<u64> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or_else(|| damaged("a page is too short"), |b| Ok(u64::from_le_bytes(*b)))
}

fn slice(bytes: &[u8], at: usize, offset: u32, size: u32) -> Bolt<Vec<u8>> {
    let found = (at.checked_add(offset as usize))
        .and_then(|from| Some(from..from.checked_add(size as usize)?))
        .and_then(|range| bytes.get(range));
    found.map_or_else(
        || damaged("an element points outside its page"),
        |b| Ok(b.to_vec()),
    )
}

fn kind(page: &[u8], wanted: u16, what: &str) -> Bolt<usize> {
    if u16_at(page, 8)? != wanted {
        return damaged(format!("page {} is not a {what} page", u64_at(page, 0)?));
    }
    Ok(usize::from(u16_at(page, 10)?))
}

/// The elements of a leaf page.
pub(crate) fn items(page: &[u8]) -> Bolt<Vec<Item>> {
    let count = kind(page, LEAF, "leaf")?;
    (0..count)
        .map(|n| {
            let at = HEAD + n * ELEMENT;
            let (flags, offset) = (u32_at(page, at)?, u32_at(page, at + 4)?);
            let (key, value) = (u32_at(page, at + 8)?, u32_at(page, at + 12)?);
            Ok(Item {
                flags,
                key: slice(page, at, offset, key)?,
                value: slice(page, at, offset.saturating_add(key), value)?,
            })
        })
        .collect()
}

/// The elements of a branch page.
pub(crate) fn children(page: &[u8]) -> Bolt<Vec<Child>> {
    let count = kind(page, BRANCH, "branch")?;
    (0..count)
        .map(|n| {
            let at = HEAD + n * ELEMENT;
            Ok(Child {
                key: slice(page, at, u32_at(page, at)?, u32_at(page, at + 4)?)?,
                page: u64_at(page, at + 8)?,
            })
        })
        .collect()
}

/// A page's head.
pub(crate) fn head(id: u64, flags: u16, count: usize, overflow: usize) -> Bolt<[u8; HEAD]> {
    let (Ok(count), Ok(overflow)) = (u16::try_from(count), u32::try_from(overflow)) else {
        return damaged("a value is too large for a page");
    };
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&id.to_le_bytes());
    head[8..10].copy_from_slice(&flags.to_le_bytes());
    head[10..12].copy_from_slice(&count.to_le_bytes());
    head[12..].copy_from_slice(&overflow.to_le_bytes());
    Ok(head)
}

/// Reads a meta page; `None` when it is not valid. bbolt then uses the other one.
pub(crate) fn meta(page: &[u8]) -> Bolt<Option<Meta>> {
    if u16_at(page, 8)? != META {
        return Ok(None);
    }
    Ok(Meta::read(page).filter(|meta| meta.version == VERSION))
}

/// Meta page `id` (0 or 1).
pub(crate) fn meta_page(meta: Meta, id: u64) -> Bolt<Vec<u8>> {
    let mut page = head(id, META, 0, 0)?.to_vec();
    page.extend(meta.to_bytes());
    page.resize(meta.page_size as usize, 0);
    Ok(page)
}

//! Large buffers that go out as [`Bytes`] and come back when the last clone is dropped.
//!
//! They are mapped, not allocated: glibc raises its threshold for mapping to the largest block freed so far, after
//! which blocks of this size fragment its heaps and stay resident (measured: 92 MB at the peak of a backup and
//! 57 MB after it, against 42 and 16). Reusing them saves the page faults as well.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use memmap2::MmapMut;

type Free = Mutex<Vec<MmapMut>>;

/// Buffers of one size.
pub(super) struct Pieces {
    free: Arc<Free>,
    bytes: usize,
}

impl Pieces {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            free: Arc::default(),
            bytes,
        }
    }

    /// One that came back, else a new one.
    pub(super) fn take(&self) -> io::Result<MmapMut> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.map_or_else(|| MmapMut::map_anon(self.bytes), Ok)
    }

    /// The first `len` bytes of `map`, which comes back once nobody reads them any more.
    pub(super) fn lend(&self, map: MmapMut, len: usize) -> Bytes {
        let home = Arc::downgrade(&self.free);
        let map = Some(map);
        Bytes::from_owner(Lent { map, len, home })
    }
}

struct Lent {
    map: Option<MmapMut>,
    len: usize,
    home: Weak<Free>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.map.as_ref().map_or(&[], |map| &map[..self.len])
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(map), Some(home)) = (self.map.take(), self.home.upgrade()) {
            home.lock().unwrap_or_else(PoisonError::into_inner).push(map);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_comes_back_and_what_is_held_does_not() {
        let pieces = Pieces::new(8192);
        let mut map = pieces.take().unwrap();
        map[..3].copy_from_slice(b"abc");
        let at = map.as_ptr();
        let lent = pieces.lend(map, 3);
        let clone = lent.slice(1..);
        drop(lent);
        assert_ne!(pieces.take().unwrap().as_ptr(), at);
        assert_eq!(clone, "bc");
        drop(clone);
        let again = pieces.take().unwrap();
        assert_eq!(again.as_ptr(), at);
        let lent = pieces.lend(again, 2);
        drop(pieces);
        assert_eq!(lent, "ab");
    }
}

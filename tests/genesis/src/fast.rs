//! A fast hash of a few small numbers. The checker itself assigns the numbers, so only speed matters.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

/// A map whose keys consist of such numbers.
pub(crate) type FastMap<K, V> = HashMap<K, V, Fast>;

/// Similar to FNV-1a, but over whole numbers, with one more mixing step at the end.
#[derive(Debug)]
pub(crate) struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }
    fn write_usize(&mut self, number: usize) {
        self.write_u32(u32::try_from(number).unwrap_or(u32::MAX));
    }
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number))
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(23);
    }
}

#[derive(Debug, Clone, Copy, Default)]
/// Builds the hasher.
pub(crate) struct Fast;

impl BuildHasher for Fast {
    type Hasher = Fnv;
    fn build_hasher(&self) -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

pub(crate) fn hash(thing: &impl Hash) -> u64 {
    Fast.hash_one(thing)
}

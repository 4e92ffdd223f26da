//! Pseudorandom numbers that depend only on a seed.

/// A generator of the xorshift family (Marsaglia: "Xorshift RNGs", 2003).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// All numbers follow from `seed`.
    pub fn new(seed: u64) -> Self {
        // Seeds that differ by one bit start far apart, and none starts at zero, where xorshift would stay.
        Self(
            seed.wrapping_mul(0x5851_F42D_4C95_7F2D)
                .wrapping_add(0x9E37_79B9_7F4A_7C15)
                | 1,
        )
    }

    /// Any number except zero.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// An index into a slice with `len` elements; 0 if it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        // The upper half depends on more bits of the seed.
        let number = usize::try_from(self.number() >> 32).unwrap_or(0);
        number.checked_rem(len).unwrap_or(0)
    }

    /// One element, `None` of an empty slice.
    pub fn choose<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.index(from.len()))
    }

    /// Shuffles the elements (Fisher and Yates).
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for end in (1..elements.len()).rev() {
            elements.swap(end, self.index(end + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_decides_the_order_and_neighbours_differ() {
        let order = |seed| {
            let mut all: Vec<u8> = (0..10).collect();
            Random::new(seed).shuffle(&mut all);
            all
        };
        assert_eq!(order(7), order(7));
        let first: std::collections::BTreeSet<u8> = (0..100).map(|seed| order(seed)[0]).collect();
        assert_eq!(first.len(), 10, "each comes first under some of 100 seeds");
        let mut sorted = order(7);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<u8>>());
    }
}

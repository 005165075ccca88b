//! Numbers by chance that are the same for the same seed, on every machine and with every version of a library.

use bson::Bson;

/// A source of numbers: splitmix64.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The source that the seed and a number within it give.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut random = Self(seed ^ number.wrapping_mul(0xD1B5_4A32_D192_ED03));
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("lengths fit");
        usize::try_from(self.next() % bound).expect("below a length")
    }

    /// A whole number from `low` to `high`.
    pub(crate) fn between(&mut self, low: i32, high: i32) -> i32 {
        let span = usize::try_from(i64::from(high) - i64::from(low) + 1).expect("low is not above high");
        low + i32::try_from(self.below(span)).expect("a small span")
    }

    /// True with a chance of `of_hundred` in a hundred.
    pub(crate) fn percent(&mut self, of_hundred: usize) -> bool {
        self.below(100) < of_hundred
    }

    /// One of the items.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// One of the words, as a value.
    pub(crate) fn word(&mut self, words: &[&str]) -> Bson {
        Bson::String((*self.pick(words)).to_owned())
    }

    /// The position of one of the weights, the heavier the likelier.
    pub(crate) fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (position, weight) in weights.iter().enumerate() {
            if left < *weight {
                return position;
            }
            left -= weight;
        }
        weights.len() - 1
    }
}

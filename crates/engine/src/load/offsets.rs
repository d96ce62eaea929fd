//! Random orders: a permutation that needs no memory, and Zipf popularity.

use rand_core::RngCore;
use rand_distr::Distribution;

/// A pseudo-random permutation of `0..len`: a four-round Feistel network on the next even power of two, walked
/// until it falls inside the range (cycle walking; Black and Rogaway, "Ciphers with arbitrary finite domains",
/// CT-RSA 2002). No bitmap, no allocation, on average less than four steps a value.
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; 4],
}

/// Spreads every bit over all: the finalizer of splitmix64 (Steele, Lea, Flood 2014).
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl Permutation {
    /// A permutation of `0..len` chosen by `seed`. `len` 0 is treated as 1.
    pub fn new(len: u64, seed: u64) -> Self {
        let len = len.max(1);
        let bits = (64 - (len - 1).leading_zeros()).max(2);
        let keys = std::array::from_fn(|round| mix(seed ^ (round as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        Self { len, half_bits: bits.div_ceil(2), keys }
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Never: a permutation has at least one value.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Where `index` (below `len`) goes.
    #[inline]
    pub fn get(&self, index: u64) -> u64 {
        debug_assert!(index < self.len);
        let mask = (1u64 << self.half_bits) - 1;
        let mut value = index;
        loop {
            let (mut left, mut right) = (value >> self.half_bits, value & mask);
            for key in self.keys {
                (left, right) = (right, left ^ (mix(right ^ key) & mask));
            }
            value = (left << self.half_bits) | right;
            if value < self.len {
                return value;
            }
        }
    }
}

/// Zipf-distributed block numbers, the popular ones scattered over the whole range.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: rand_distr::Zipf<f64>,
    places: Permutation,
}

impl Zipf {
    /// Over `0..len` with exponent `theta` (above 0), scattered by `seed`.
    pub fn new(len: u64, theta: f64, seed: u64) -> Self {
        let ranks =
            rand_distr::Zipf::new(len.max(1) as f64, theta).expect("the planner refuses exponents of 0 or less");
        Self { ranks, places: Permutation::new(len, seed) }
    }

    /// The next block number.
    pub fn draw(&self, rng: &mut impl RngCore) -> u64 {
        let rank = self.ranks.sample(rng) as u64 - 1;
        self.places.get(rank.min(self.places.len() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_permutation_hits_every_value_once(len in 1u64..3000, seed in any::<u64>()) {
            let permutation = Permutation::new(len, seed);
            let mut seen = vec![false; len as usize];
            for index in 0..len {
                let value = permutation.get(index) as usize;
                prop_assert!(!seen[value]);
                seen[value] = true;
            }
        }
    }

    #[test]
    fn a_permutation_is_not_nearly_in_order() {
        let permutation = Permutation::new(100_000, 3);
        let mean: f64 =
            (0..99_999).map(|i| permutation.get(i + 1).abs_diff(permutation.get(i)) as f64).sum::<f64>() / 99_999.0;
        // Two independent uniform values are a third of the range apart on average.
        assert!((mean / 33_333.0 - 1.0).abs() < 0.02, "{mean}");
    }
}

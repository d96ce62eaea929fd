//! The random numbers of a load: one small generator for each purpose, so that a draw of one kind does not shift those
//! of another.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoroshiro128Plus;

/// The smallest good generator; its weak bits are the lowest ones, and every draw here uses the high ones.
#[derive(Clone, Debug)]
pub(super) struct Rng(Xoroshiro128Plus);

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014), for seeds that follow from a seed.
pub(super) fn mix(seed: u64, number: u64) -> u64 {
    let mut x = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(Xoroshiro128Plus::seed_from_u64(seed))
    }

    /// Uniform below `n` by Lemire's multiplication; the bias is below n / 2^64.
    #[inline(always)]
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Returns true with this probability, percent.
    #[inline(always)]
    pub(super) fn percent(&mut self, percent: u32) -> bool {
        percent >= 100 || (percent > 0 && self.below(100) < u64::from(percent))
    }

    /// Uniform in (0, 1].
    pub(super) fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Any 64 bits: a new seed.
    pub(super) fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// The generator itself, for distributions from other crates.
    pub(super) fn core(&mut self) -> &mut Xoroshiro128Plus {
        &mut self.0
    }
}

//! Seeded random numbers for the generators of disks with known truth: the same on every machine.

use std::f64::consts::TAU;

use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;

/// A SplitMix64 stream (Steele et al. 2014), and numbers drawn from it.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in 0..1, never 0.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Uniform between `low` and `high`.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Two independent standard normal numbers, by Box and Muller.
    pub(crate) fn normal_pair(&mut self) -> (f64, f64) {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let angle = TAU * self.uniform();
        (radius * angle.cos(), radius * angle.sin())
    }

    /// Standard normal.
    pub(crate) fn normal(&mut self) -> f64 {
        self.normal_pair().0
    }

    /// Exponential with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }
}

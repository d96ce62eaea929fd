//! When requests are due: immediately (closed loop), evenly spaced, or Poisson.

use qd1_model::plan::Arrival;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The due times of one worker's requests, in nanoseconds of the engine's clock.
pub struct Arrivals {
    gap_ns: f64,
    poisson: bool,
    next_ns: f64,
    rng: Xoshiro256PlusPlus,
}

impl Arrivals {
    /// Due times from `start_ns` on; `None` for a closed loop, where a request is due when a slot is free. The first
    /// one is due after `phase` (0..1) of a mean gap, so that several workers do not issue requests at the same
    /// moments.
    pub fn new(arrival: Arrival, start_ns: u64, phase: f64, seed: u64) -> Option<Self> {
        let (iops, poisson) = match arrival {
            Arrival::Closed => return None,
            Arrival::Fixed { iops } | Arrival::Paced { iops, .. } => (iops, false),
            Arrival::Poisson { iops } => (iops, true),
        };
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xA5A5_5A5A);
        let gap_ns = 1e9 / iops;
        Some(Self { gap_ns, poisson, next_ns: start_ns as f64 + phase * gap_ns, rng })
    }

    /// When the next request is due.
    #[inline]
    pub fn due_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// Moves on to the next one.
    #[inline]
    pub fn advance(&mut self) {
        let scale = if self.poisson {
            // Inversion: an exponential draw from a uniform one in (0, 1].
            let uniform = ((self.rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            -uniform.ln()
        } else {
            1.0
        };
        self.next_ns += self.gap_ns * scale;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(arrival: Arrival, n: usize) -> Vec<f64> {
        let mut arrivals = Arrivals::new(arrival, 1_000, 0.0, 42).unwrap();
        let mut last = arrivals.due_ns();
        (0..n)
            .map(|_| {
                arrivals.advance();
                let gap = arrivals.due_ns() - last;
                last = arrivals.due_ns();
                gap as f64
            })
            .collect()
    }

    #[test]
    fn fixed_rate_is_evenly_spaced() {
        assert!(gaps(Arrival::Fixed { iops: 1000.0 }, 100).iter().all(|gap| (gap - 1e6).abs() <= 1.0));
    }

    #[test]
    fn poisson_gaps_have_mean_and_deviation_of_an_exponential() {
        let gaps = gaps(Arrival::Poisson { iops: 1000.0 }, 100_000);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        assert!((deviation / 1e6 - 1.0).abs() < 0.02, "{deviation}");
    }

    #[test]
    fn closed_loop_has_no_due_times() {
        assert!(Arrivals::new(Arrival::Closed, 0, 0.0, 0).is_none());
    }
}

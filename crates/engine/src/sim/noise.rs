//! What others add to a request: neighbours on the same hardware, and the network in between.

use rand_core::SeedableRng as _;
use rand_distr::{Distribution as _, Exp1, LogNormal, Open01, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Neighbours that share the device: their load makes it slower and faster over seconds, and now and then they occupy
/// it completely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbours {
    /// Standard deviation of the logarithm of the service time that their load adds; wanders as AR(1).
    pub sigma: f64,
    /// Correlation time of the load (after which the correlation is 1/e), ns.
    pub memory_ns: f64,
    /// How often per second everything waits; a Poisson process.
    pub stalls_per_s: f64,
    /// Median length of such a wait, ns.
    pub stall_ns: f64,
    /// Standard deviation of its logarithm.
    pub stall_sigma: f64,
}

/// The network to a remote device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Median round-trip time, ns; paid by every request, and by a flush if it is sent.
    pub round_trip_ns: f64,
    /// Standard deviation of its logarithm.
    pub sigma: f64,
    /// Time a byte takes on the link, ns; the link carries one at a time, whatever the depth.
    pub per_byte_ns: f64,
    /// Whether flushes are sent. Devices whose writes are durable when answered do not ask for any.
    pub sends_flushes: bool,
}

/// Slow phases: the whole device is slower for a while, then fast again, at unpredictable times (both lengths are
/// exponential).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phases {
    /// Mean length of a slow phase, ns.
    pub slow_ns: f64,
    /// Mean time between two, ns.
    pub fast_ns: f64,
    /// Factor by which it is slower.
    pub factor: f64,
}

/// Time step of the wandering load, ns: well below its correlation time.
const STEP_NS: f64 = 50e6;

/// The load of the neighbours over time.
#[derive(Clone, Debug)]
pub(super) struct NeighbourLoad {
    neighbours: Neighbours,
    rng: Xoshiro256PlusPlus,
    /// Logarithm of the slowdown, and the number of its time step.
    level: (f64, u64),
    /// The next wait: from, to.
    stall_ns: (f64, f64),
}

impl NeighbourLoad {
    pub(super) fn new(neighbours: Neighbours, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x6E65_6967);
        // Begins with a draw from its stationary law, since a run begins at no special time.
        let first: f64 = StandardNormal.sample(&mut rng);
        let mut load = Self { neighbours, rng, level: (first * neighbours.sigma, 0), stall_ns: (0.0, 0.0) };
        load.next_stall(0.0);
        load
    }

    fn next_stall(&mut self, after_ns: f64) {
        let wait: f64 = Exp1.sample(&mut self.rng);
        let from = after_ns + wait * 1e9 / self.neighbours.stalls_per_s.max(1e-9);
        let law = LogNormal::new(self.neighbours.stall_ns.max(1.0).ln(), self.neighbours.stall_sigma);
        let length = law.map_or(self.neighbours.stall_ns, |law| law.sample(&mut self.rng));
        self.stall_ns = (from, from + length);
    }

    /// Factor by which the device is slower than on its own at `at_ns`.
    pub(super) fn slowness(&mut self, at_ns: f64) -> f64 {
        let step = (at_ns / STEP_NS) as u64;
        let keeps = (-STEP_NS / self.neighbours.memory_ns).exp();
        while self.level.1 < step {
            let push: f64 = StandardNormal.sample(&mut self.rng);
            self.level.0 = keeps * self.level.0 + (1.0 - keeps * keeps).sqrt() * self.neighbours.sigma * push;
            self.level.1 += 1;
        }
        self.level.0.exp()
    }

    /// Moves the end of a request that falls into a wait to the end of that wait.
    pub(super) fn after_stall(&mut self, begin_ns: f64, end_ns: f64) -> f64 {
        while self.stall_ns.1 <= begin_ns {
            self.next_stall(self.stall_ns.1);
        }
        if end_ns >= self.stall_ns.0 { end_ns + (self.stall_ns.1 - self.stall_ns.0.max(begin_ns)) } else { end_ns }
    }
}

/// The slow phases over time.
#[derive(Clone, Debug)]
pub(super) struct PhasesOver {
    phases: Phases,
    rng: Xoshiro256PlusPlus,
    is_slow: bool,
    /// When this phase ends.
    until_ns: f64,
}

impl PhasesOver {
    pub(super) fn new(phases: Phases, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x7068_6173);
        // Begins anywhere: in a slow phase with the probability of slow phases; exponential lengths have no memory.
        let at: f64 = Open01.sample(&mut rng);
        let is_slow = at < phases.slow_ns / (phases.slow_ns + phases.fast_ns);
        let mut over = Self { phases, rng, is_slow, until_ns: 0.0 };
        over.until_ns = over.length_ns();
        over
    }

    fn length_ns(&mut self) -> f64 {
        let length: f64 = Exp1.sample(&mut self.rng);
        length * if self.is_slow { self.phases.slow_ns } else { self.phases.fast_ns }
    }

    /// Factor by which the device is slower than on its own at `at_ns`.
    pub(super) fn slowness(&mut self, at_ns: f64) -> f64 {
        while self.until_ns <= at_ns {
            self.is_slow = !self.is_slow;
            self.until_ns += self.length_ns();
        }
        if self.is_slow { self.phases.factor } else { 1.0 }
    }
}

/// The link over time.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    link: Link,
    rng: Xoshiro256PlusPlus,
    free_ns: f64,
}

impl Wire {
    pub(super) fn new(link: Link, seed: u64) -> Self {
        Self { link, rng: Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x7769_7265), free_ns: 0.0 }
    }

    /// When a request submitted at `now_ns` with `len` bytes of data has crossed the link, both ways together.
    pub(super) fn crossed_ns(&mut self, len: u32, now_ns: f64) -> f64 {
        let begin = self.free_ns.max(now_ns);
        self.free_ns = begin + self.link.per_byte_ns * f64::from(len);
        let law = LogNormal::new(self.link.round_trip_ns.ln(), self.link.sigma);
        self.free_ns + law.map_or(self.link.round_trip_ns, |law| law.sample(&mut self.rng))
    }

    pub(super) fn sends_flushes(&self) -> bool {
        self.link.sends_flushes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Neighbours =
        Neighbours { sigma: 0.5, memory_ns: 1e9, stalls_per_s: 0.5, stall_ns: 30e6, stall_sigma: 0.5 };

    #[test]
    fn the_load_wanders_around_the_device_with_its_memory() {
        let mut load = NeighbourLoad::new(BUSY, 3);
        let levels: Vec<f64> = (0..20_000).map(|step| load.slowness(f64::from(step) * STEP_NS).ln()).collect();
        let mean = levels.iter().sum::<f64>() / 20_000.0;
        let product = |lag: usize| levels.windows(lag + 1).map(|w| w[0] * w[lag]).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.1 && (product(0).sqrt() - 0.5).abs() < 0.07, "{mean} {}", product(0).sqrt());
        let after_a_second = product(20) / product(0);
        assert!((0.2..0.55).contains(&after_a_second), "{after_a_second}");
    }

    #[test]
    fn slow_phases_take_their_share_of_the_time_and_last() {
        let phases = Phases { slow_ns: 1e9, fast_ns: 3e9, factor: 5.0 };
        let mut over = PhasesOver::new(phases, 7);
        let slow: Vec<bool> = (0..40_000).map(|step| over.slowness(f64::from(step) * 1e8) > 1.0).collect();
        let share = slow.iter().filter(|slow| **slow).count() as f64 / slow.len() as f64;
        let begun = slow.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        assert!((0.2..0.3).contains(&share) && (800..1100).contains(&begun), "{share} {begun}");
    }

    #[test]
    fn only_what_falls_into_a_wait_is_delayed_past_it() {
        let mut load = NeighbourLoad::new(BUSY, 4);
        let late = (0..100_000u32).filter(|ms| {
            let now_ns = f64::from(*ms) * 1e6;
            load.after_stall(now_ns, now_ns + 1e5) > now_ns + 1e6
        });
        // Fifty waits of 34 ms on average, of 100 s: about 1.7 % of the time.
        let share = late.count() as f64 / 100_000.0;
        assert!((0.005..0.04).contains(&share), "{share}");
    }

    #[test]
    fn a_link_carries_one_byte_at_a_time_and_hides_no_round_trip() {
        let link = Link { round_trip_ns: 300e3, sigma: 0.0, per_byte_ns: 8.0, sends_flushes: true };
        let mut wire = Wire::new(link, 1);
        let times = [wire.crossed_ns(1000, 0.0), wire.crossed_ns(1000, 0.0), wire.crossed_ns(0, 1e9)];
        assert_eq!(times.map(f64::round), [308e3, 316e3, 1e9 + 300e3]);
    }
}

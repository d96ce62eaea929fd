//! `rate`, `rate_iops` and their minima: when the next request of each direction may be issued.

use qd1_fio::FioJob;
use qd1_fio::types::RateProcess;
use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The rates of one thread.
pub(crate) struct Pace {
    rates: [Option<Rate>; 3],
}

/// One direction's rate: the amount issued so far determines when the next request is due, so that delays are caught
/// up.
struct Rate {
    /// Nanoseconds that one unit (a byte, or a request) takes.
    unit_ns: f64,
    counts_bytes: bool,
    poisson: Option<Xoshiro256PlusPlus>,
    due_ns: f64,
}

impl Pace {
    /// The rates of a job, counted from `start_ns`.
    pub(crate) fn new(job: &FioJob, start_ns: u64, seed: u64) -> Self {
        let rates = std::array::from_fn(|direction| {
            let (per_second, counts_bytes) = match (job.rate[direction], job.rate_iops[direction]) {
                (0, 0) => return None,
                (0, iops) => (f64::from(iops), false),
                (bytes, _) => (bytes as f64, true),
            };
            let poisson = (job.rate_process == RateProcess::Poisson)
                .then(|| Xoshiro256PlusPlus::seed_from_u64(seed ^ direction as u64 ^ 0x9A7E));
            Some(Rate { unit_ns: 1e9 / per_second, counts_bytes, poisson, due_ns: start_ns as f64 })
        });
        Self { rates }
    }

    /// Whether any direction has a rate.
    pub(crate) fn is_paced(&self) -> bool {
        self.rates.iter().any(Option::is_some)
    }

    /// When the next request of a direction is due; 0 if it has no rate.
    pub(crate) fn due_ns(&self, direction: usize) -> u64 {
        self.rates[direction].as_ref().map_or(0, |rate| rate.due_ns as u64)
    }

    /// The direction to issue next, and when: the one the mix wants, unless only another one is due. `mixed` are
    /// the directions that the job mixes.
    pub(crate) fn choose(&self, wanted: usize, mixed: [bool; 3], now_ns: u64) -> (usize, u64) {
        let due_ns = self.due_ns(wanted);
        if due_ns <= now_ns {
            return (wanted, due_ns);
        }
        (0..3)
            .filter(|other| mixed[*other] && self.rates[*other].is_some())
            .map(|other| (other, self.due_ns(other)))
            .min_by_key(|(other, due_ns)| (*due_ns, *other != wanted))
            .unwrap_or((wanted, due_ns))
    }

    /// A request of this many bytes was issued.
    pub(crate) fn issued(&mut self, direction: usize, bytes: u32) {
        let Some(rate) = &mut self.rates[direction] else { return };
        let units = if rate.counts_bytes { f64::from(bytes) } else { 1.0 };
        let scale = match &mut rate.poisson {
            // Inversion: an exponential draw from a uniform one in (0, 1].
            Some(rng) => -((((rng.next_u64() >> 11) + 1) as f64) / (1u64 << 53) as f64).ln(),
            None => 1.0,
        };
        rate.due_ns += units * rate.unit_ns * scale;
    }
}

/// `rate_min` and `rate_iops_min`: whether a job keeps up, checked in each `rate_cycle`.
pub(crate) struct Minimum {
    wanted: [(u64, u32); 3],
    cycle_ns: u64,
    since_ns: u64,
    before: [(u64, u64); 3],
}

impl Minimum {
    /// The minima of a job, if any.
    pub(crate) fn new(job: &FioJob, cycle_ns: u64, start_ns: u64) -> Option<Self> {
        // A single number is for all directions, and applies to those the job has.
        let used = job.rw.kind.directions();
        let of = |direction: usize| (job.rate_min[direction], job.rate_iops_min[direction]);
        let wanted = std::array::from_fn(|direction| if used[direction] { of(direction) } else { (0, 0) });
        let any = wanted.iter().any(|(bytes, iops)| *bytes > 0 || *iops > 0);
        any.then_some(Self { wanted, cycle_ns: cycle_ns.max(1), since_ns: start_ns, before: [(0, 0); 3] })
    }

    /// Checks whether the last cycle was too slow; `moved` is (bytes, requests) so far. The text says which minimum was
    /// missed.
    pub(crate) fn missed(&mut self, now_ns: u64, moved: [(u64, u64); 3]) -> Option<String> {
        let spent_ns = now_ns.saturating_sub(self.since_ns);
        if spent_ns < self.cycle_ns {
            return None;
        }
        let seconds = spent_ns as f64 / 1e9;
        let mut text = None;
        for ((wanted, moved), before) in self.wanted.iter().zip(moved).zip(self.before) {
            let rate = (moved.0 - before.0) as f64 / seconds;
            let iops = (moved.1 - before.1) as f64 / seconds;
            if wanted.0 > 0 && rate < wanted.0 as f64 {
                text = Some(format!("min rate {} bytes/s not met, got {rate:.0}", wanted.0));
            } else if wanted.1 > 0 && iops < f64::from(wanted.1) {
                text = Some(format!("min iops rate {} not met, got {iops:.0}", wanted.1));
            }
        }
        (self.since_ns, self.before) = (now_ns, moved);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_bytes_spaces_requests_by_their_size() {
        let mut job = FioJob::new("t");
        job.rate = [4096 * 1000, 0, 0];
        let mut pace = Pace::new(&job, 5, 1);
        assert_eq!(pace.due_ns(0), 5);
        pace.issued(0, 4096);
        assert_eq!(pace.due_ns(0), 1_000_005);
        pace.issued(0, 8192);
        assert_eq!((pace.due_ns(0), pace.due_ns(1)), (3_000_005, 0));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_on_average() {
        let mut job = FioJob::new("t");
        (job.rate_iops, job.rate_process) = ([1000, 0, 0], RateProcess::Poisson);
        let mut pace = Pace::new(&job, 0, 7);
        (0..100_000).for_each(|_| pace.issued(0, 512));
        assert!((pace.due_ns(0) as f64 / 1e11 - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_direction_that_is_due_goes_before_one_that_is_not() {
        let mut job = FioJob::new("t");
        job.rate_iops = [100, 1000, 0];
        let mut pace = Pace::new(&job, 0, 1);
        pace.issued(0, 512);
        assert_eq!(pace.choose(0, [true, true, false], 1), (1, 0));
        pace.issued(1, 512);
        assert_eq!(pace.choose(0, [true, true, false], 1), (1, 1_000_000));
        assert_eq!(pace.choose(0, [true, true, false], 20_000_000), (0, 10_000_000));
    }

    #[test]
    fn a_slow_cycle_is_missed_and_a_fast_one_is_not() {
        let mut job = FioJob::new("t");
        job.rate_min = [1000, 0, 0];
        let mut minimum = Minimum::new(&job, 1_000_000_000, 0).unwrap();
        assert_eq!(minimum.missed(500_000_000, [(0, 0); 3]), None);
        assert_eq!(minimum.missed(1_000_000_000, [(1000, 1), (0, 0), (0, 0)]), None);
        assert!(minimum.missed(2_000_000_000, [(1500, 2), (0, 0), (0, 0)]).unwrap().contains("got 500"));
    }

    /// Of a job that reads it was said that it got none: the trims did.
    #[test]
    fn what_is_missed_is_that_of_a_direction_that_the_job_has() {
        let mut job = FioJob::new("t");
        job.rate_iops_min = [1000; 3];
        let mut minimum = Minimum::new(&job, 1_000_000_000, 0).unwrap();
        assert!(minimum.missed(1_000_000_000, [(0, 700), (0, 0), (0, 0)]).unwrap().contains("got 700"));
    }
}

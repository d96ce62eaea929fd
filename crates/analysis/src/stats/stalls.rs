//! Stalls: how long a disk stood still at most, and in what share of the moments a request would meet one.
//!
//! A percentile counts requests, and a stall delays few of them, however long it is: where one request waits for the one
//! before, a second of standstill is one slow request among thousands. Programs count otherwise. What they ask for comes
//! at its own time, and all that comes during a stall waits. So the figures here count moments.
//!
//! **Share.** Of the moments in which a request was on its way, the share at which another one would have waited longer
//! than [`STALL_NS`] for it to end: the sum of what latencies exceed that by, over the sum of all latencies. For requests
//! that are due at their own times it is simply the share of them that waited longer. Neighbouring intervals that hold
//! such a wait are one stall. The number of stalls is a Poisson count; where their lengths d differ, as good as
//! (sum d)^2 / sum d^2 of one length (the variance of a compound Poisson sum). A run without a stall bounds how often one
//! can come, not how long it would be: the upper limit is for stalls of twice [`STALL_NS`].
//!
//! **Longest.** What was seen is exact. Its interval says what another run of the same length would see: less than the
//! sixth longest of all visits in one of 64 (each of the six is as likely in the other run as in this one). Above, the
//! longest of the visits are taken to fall off as a power, whose exponent they give (Hill 1975, Annals of Statistics 3),
//! so that the longest of a run is Frechet's: beyond 39^H times this one in one of 40 runs.
//!
//! All steps with visits that did the same kind of operation are taken together: what stops the disk stops each of them.

use qd1_model::op::OpClass;
use qd1_model::plan::{Plan, Work};
use qd1_model::record::{Interval, StepRecord};
use qd1_model::{Estimate, Record};

use super::episodes::upper_limit;
use super::series::{bin_middle_ns, of_class};

/// From so long a wait on it is a stall: the interval at which etcd's leader is heard from, and as long as a person
/// takes for immediate.
pub const STALL_NS: f64 = 100_000_000.0;

/// Which of the visits' longest waits, from the longest on, bounds another run's from below: that one is shorter in
/// 2^-6 of the runs.
const LOWER_RANK: usize = 6;
/// Odds against a longest wait beyond the upper limit: 39 to 1.
const UPPER_ODDS: f64 = 39.0;
/// Standard errors by which the tail's exponent, of so few visits, is taken flatter than it looks.
const TAIL_SIGMA: f64 = 1.0;
/// A stall longer than all others by this and more is one of a kind: nothing is known of what lies above it.
const TAIL_MAX: f64 = 3.0;

/// The stalls that one kind of operation met.
#[derive(Debug)]
pub struct Stalls {
    /// The longest wait of each visit, ns.
    longest_ns: Vec<f64>,
    /// Moments at which a request would have met each stall, ns.
    stalls: Vec<f64>,
    /// All moments in which one could have been met, ns.
    watched_ns: f64,
    /// Operations.
    ios: u64,
}

impl Stalls {
    /// What the steps of `record` with visits saw of them; `None` where none of these did this kind of operation.
    #[must_use]
    pub fn new(record: &Record, class: OpClass) -> Option<Self> {
        let mut all = Self { longest_ns: Vec::new(), stalls: Vec::new(), watched_ns: 0.0, ios: 0 };
        let visited = record.steps.iter().filter(|step| is_visited(&record.plan, step));
        visited.for_each(|step| all.add(step, class, is_open(&record.plan, &step.name)));
        (all.ios > 0).then_some(all)
    }

    fn add(&mut self, step: &StepRecord, class: OpClass, is_open: bool) {
        let of_step = || step.intervals.iter().filter_map(|interval| of_class(interval, class));
        let ios: u64 = of_step().map(|stream| stream.ios).sum();
        if ios == 0 {
            return;
        }
        let length_ns: f64 = step.intervals.iter().map(|interval| interval.length_ns as f64).sum();
        let lat_sum_ns: f64 = of_step().map(|stream| stream.lat_sum_ns as f64).sum();
        // A request stands for its share of the time, or for its own time.
        let each_ns = length_ns / ios as f64;
        let at_once = (lat_sum_ns / length_ns.max(1.0)).max(1.0);
        for visit in step.intervals.chunk_by(Interval::goes_on) {
            let mut stall_ns = 0.0;
            let mut longest_ns = 0.0f64;
            for interval in visit {
                let stream = of_class(interval, class);
                let met_ns = stream.map_or(0.0, |stream| {
                    let lat_max_ns = stream.lat_max_ns as f64;
                    longest_ns = longest_ns.max(lat_max_ns);
                    // The longest is known to the nanosecond, the others by their bins.
                    let lat_ns = |bin: u16| bin_middle_ns(usize::from(bin)).min(lat_max_ns);
                    let beyond = stream.bins.iter().filter(|(bin, _)| lat_ns(*bin) > STALL_NS);
                    let weight = |bin: u16| if is_open { each_ns } else { (lat_ns(bin) - STALL_NS) / at_once };
                    beyond.map(|(bin, count)| f64::from(*count) * weight(*bin)).sum()
                });
                if met_ns == 0.0 && stall_ns > 0.0 {
                    self.stalls.push(std::mem::take(&mut stall_ns));
                }
                stall_ns += met_ns;
            }
            self.stalls.extend((stall_ns > 0.0).then_some(stall_ns));
            self.longest_ns.extend((longest_ns > 0.0).then_some(longest_ns));
        }
        self.watched_ns += if is_open { length_ns } else { lat_sum_ns / at_once };
        self.ios += ios;
    }

    /// Share of the moments at which a request would wait longer than [`STALL_NS`], 0..1.
    #[must_use]
    pub fn share(&self) -> Estimate {
        let met_ns: f64 = self.stalls.iter().sum();
        let squares: f64 = self.stalls.iter().map(|stall_ns| stall_ns * stall_ns).sum();
        let (value, n) = (met_ns / self.watched_ns.max(1.0), self.ios);
        if squares == 0.0 {
            let high = (upper_limit(0.0) * STALL_NS / self.watched_ns.max(1.0)).min(1.0);
            return Estimate { high: Some(high), ..Estimate::exact(0.0, n) };
        }
        let count = met_ns * met_ns / squares;
        let low = value * lower_limit(count) / count;
        let high = (value * upper_limit(count) / count).min(1.0);
        Estimate { value: Some(value), low: Some(low), high: Some(high), n, n_effective: count, n_needed: 0 }
    }

    /// The longest wait, ns; its interval is what another run of this length would see.
    #[must_use]
    pub fn longest(&self) -> Estimate {
        let mut longest = self.longest_ns.clone();
        longest.sort_by(|a, b| b.total_cmp(a));
        let (n, n_effective) = (self.ios, longest.len() as f64);
        let [first, .., sixth] = longest[..longest.len().min(LOWER_RANK)] else {
            return Estimate { n, n_effective, n_needed: 2 * n, ..Estimate::default() };
        };
        let logs = longest.iter().take(LOWER_RANK).map(|longest| (longest / sixth).ln());
        let spaces = (longest.len().min(LOWER_RANK) - 1) as f64;
        let hill = logs.sum::<f64>() / spaces * (1.0 + TAIL_SIGMA / spaces.sqrt());
        let high = (hill < TAIL_MAX).then(|| first * UPPER_ODDS.powf(hill));
        Estimate { value: Some(first), low: Some(sixth), high, n, n_effective, n_needed: 0 }
    }
}

/// Lower 97.5 % limit of the mean of a Poisson count `k`, as [`upper_limit`].
fn lower_limit(k: f64) -> f64 {
    let k = k.max(0.1);
    (k * (1.0 - 1.0 / (9.0 * k) - super::Z_975 / (3.0 * k.sqrt())).max(0.0).powi(3)).max(0.0)
}

fn is_visited(plan: &Plan, step: &StepRecord) -> bool {
    plan.steps.iter().any(|planned| planned.name == step.name && planned.visits > 1)
}

fn is_open(plan: &Plan, name: &str) -> bool {
    let of_step = |planned: &&qd1_model::plan::StepPlan| planned.name == name;
    plan.steps.iter().find(of_step).is_some_and(|planned| match &planned.work {
        Work::Io(io) => io.arrival.is_open(),
        _ => false,
    })
}

//! Do the 95 % intervals hold? Measured, not assumed.
//!
//! Processes with known distribution, independent and dependent, are run closed-loop as workers run them, giving the
//! same histogram and intervals as a real step, at no cost but arithmetic. Each interval is compared with the truth,
//! which is known in closed form. `cargo run --release -p qd1-truth --example coverage` prints the table; the
//! test of the same name asserts a part of it, and `docs/statistics.md` says what it shows.
//!
//! Two claims are checked. A figure that at least half of the runs resolve must be *covered* in 93 to 97 % of those
//! that do. And any figure may be *wrong* (resolved, with the truth outside the interval) in at most 7 % of all runs,
//! except in runs that met no slow phase: what did not happen cannot be in the data.
//!
//! The constants of the analysis were chosen on [`cases`]; [`held_out`] contains processes and sizes never used for
//! that.

mod process;
mod run;

pub use process::Process;

use crate::random::Random;
use run::run_once;

/// One case of the study: a process, a mean latency, a duration, and perhaps an early stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// The latencies.
    pub process: Process,
    /// Their mean, ns.
    pub mean_ns: u64,
    /// Duration, or longest duration with `stop`, ns.
    pub duration_ns: u64,
    /// Stop early: watched quantile, tolerance, shortest duration in ns.
    pub stop: Option<(f64, f64, u64)>,
    /// Workers that share the process, each with one request in flight.
    pub depth: usize,
    /// Whether the process is the sync part of commits whose write part depends on it, and the figures are those
    /// of the part.
    pub part: bool,
}

impl Case {
    /// A process run by one worker for a fixed time.
    #[must_use]
    pub fn fixed(process: Process, mean_ns: u64, duration_ns: u64) -> Self {
        Self { process, mean_ns, duration_ns, stop: None, depth: 1, part: false }
    }
}

/// One line of the table: how often the nominal 95 % interval of one figure covered the truth.
#[derive(Clone, Debug, PartialEq)]
pub struct CoverageRow {
    /// What was simulated.
    pub case: Case,
    /// Figure: `p50`, `p99`, `p99.9`, `mean`, `iops`.
    pub figure: &'static str,
    /// Its true value, ns or per second.
    pub truth: f64,
    /// Runs.
    pub runs: usize,
    /// Runs in which the figure was resolved.
    pub resolved: usize,
    /// Of these, runs whose interval held the truth.
    pub covered: usize,
    /// Resolved runs whose interval lay wholly below the truth.
    pub below: usize,
    /// Resolved runs whose interval missed the truth, and that met no slow phase long enough to be seen.
    pub unmet: usize,
    /// Runs, resolved or not, whose lower limit lay above the truth.
    pub low_wrong: usize,
    /// Mean half width of the interval, relative to the truth, over resolved runs.
    pub half_width: f64,
    /// Mean duration of the runs, ns: less than the longest where they stopped early.
    pub mean_duration_ns: f64,
}

impl CoverageRow {
    /// Share of resolved runs whose interval covers the truth; NaN when none was resolved.
    #[must_use]
    pub fn coverage(&self) -> f64 {
        self.covered as f64 / self.resolved as f64
    }

    /// Share of runs in which the figure was resolved.
    #[must_use]
    pub fn resolved_share(&self) -> f64 {
        self.resolved as f64 / self.runs.max(1) as f64
    }

    /// Share of all runs that resolved the figure and missed the truth.
    #[must_use]
    pub fn wrong_share(&self) -> f64 {
        (self.resolved - self.covered) as f64 / self.runs.max(1) as f64
    }

    /// The part of [`Self::wrong_share`] that met no slow phase, and so could not know.
    #[must_use]
    pub fn unmet_share(&self) -> f64 {
        self.unmet as f64 / self.runs.max(1) as f64
    }

    /// Share of all runs whose lower limit is above the truth: this alone may fail a disk.
    #[must_use]
    pub fn low_wrong_share(&self) -> f64 {
        self.low_wrong as f64 / self.runs.max(1) as f64
    }
}

/// Figures of the study and their true values; for a part there are only quantiles.
fn truths(case: &Case) -> Vec<(&'static str, f64)> {
    let mean = case.mean_ns as f64;
    let quantile = |q| case.process.quantile_ns(mean, q);
    let mut all = vec![("p50", quantile(0.5)), ("p99", quantile(0.99)), ("p99.9", quantile(0.999))];
    if !case.part {
        all.extend([("mean", mean), ("iops", 1e9 * case.depth as f64 / mean)]);
    }
    all
}

/// `runs` seeded runs of one case: a row per figure.
#[must_use]
pub fn study(case: Case, runs: usize, seed: u64) -> Vec<CoverageRow> {
    let mut rows: Vec<CoverageRow> = truths(&case)
        .into_iter()
        .map(|(figure, truth)| CoverageRow {
            case,
            figure,
            truth,
            runs,
            resolved: 0,
            covered: 0,
            below: 0,
            unmet: 0,
            low_wrong: 0,
            half_width: 0.0,
            mean_duration_ns: 0.0,
        })
        .collect();
    let mut seeds = Random::new(seed);
    for _ in 0..runs {
        let outcome = run_once(&case, seeds.next_u64());
        for (row, estimate) in rows.iter_mut().zip(&outcome.estimates) {
            row.mean_duration_ns += outcome.duration_ns as f64 / runs as f64;
            row.low_wrong += usize::from(estimate.low.is_some_and(|low| low > row.truth));
            let (Some(_), Some(low), Some(high)) = (estimate.value, estimate.low, estimate.high) else { continue };
            // The histogram's resolution is 0.1 %: an interval narrower than that is as good as exact.
            let covered = (low..=high).contains(&row.truth);
            row.resolved += 1;
            row.covered += usize::from(covered);
            row.unmet += usize::from(!covered && !outcome.met_episode);
            row.below += usize::from(high < row.truth);
            row.half_width += 0.5 * (high - low) / row.truth;
        }
    }
    for row in &mut rows {
        row.half_width /= row.resolved.max(1) as f64;
    }
    rows
}

/// The processes used to choose the constants.
const PROCESSES: [Process; 8] = [
    Process::LogNormal { sigma: 0.5 },
    Process::LogNormal { sigma: 1.0 },
    Process::Bimodal { slow: 0.1, ratio: 10.0 },
    Process::Ar1 { sigma: 0.5, rho: 0.5 },
    Process::Ar1 { sigma: 0.5, rho: 0.9 },
    Process::Phases { fast_ops: 100.0, slow_ops: 25.0, ratio: 5.0 },
    Process::Phases { fast_ops: 1000.0, slow_ops: 50.0, ratio: 10.0 },
    Process::Phases { fast_ops: 2000.0, slow_ops: 8.0, ratio: 20.0 },
];

/// Mean latency and duration, ns.
const SIZES: [(u64, u64); 5] = [
    (100_000, 2_000_000_000),
    (300_000, 5_000_000_000),
    (1_000_000, 3_000_000_000),
    (1_000_000, 10_000_000_000),
    (10_000_000, 10_000_000_000),
];

/// An early stop at +-5 % of p99 after at least 2 s.
const STOP: (f64, f64, u64) = (0.99, 0.05, 2_000_000_000);

/// Every process at every size, then those with an early stop.
#[must_use]
pub fn cases() -> Vec<Case> {
    let fixed = PROCESSES
        .iter()
        .flat_map(|process| SIZES.iter().map(|&(mean_ns, duration_ns)| Case::fixed(*process, mean_ns, duration_ns)));
    let stopping =
        PROCESSES.iter().map(|process| Case { stop: Some(STOP), ..Case::fixed(*process, 300_000, 10_000_000_000) });
    fixed.chain(stopping).collect()
}

/// Processes never used to choose the constants.
const HELD_OUT: [Process; 6] = [
    Process::Hyper { slow: 0.05, ratio: 20.0 },
    Process::Hyper { slow: 0.01, ratio: 50.0 },
    Process::HyperPhases { fast_ops: 200.0, slow_ops: 20.0, ratio: 8.0 },
    Process::HyperPhases { fast_ops: 3000.0, slow_ops: 100.0, ratio: 6.0 },
    Process::Ar1 { sigma: 0.8, rho: 0.7 },
    Process::Phases { fast_ops: 500.0, slow_ops: 5.0, ratio: 30.0 },
];

/// Sizes never used to choose them.
const HELD_OUT_SIZES: [(u64, u64); 3] =
    [(150_000, 4_000_000_000), (700_000, 8_000_000_000), (4_000_000, 15_000_000_000)];

/// Held-out cases: other processes and sizes, an early stop, four workers in parallel, and the sync part of commits.
/// Run after the constants were frozen, and not used to change them.
#[must_use]
pub fn held_out() -> Vec<Case> {
    let fixed = HELD_OUT.iter().flat_map(|process| {
        HELD_OUT_SIZES.iter().map(|&(mean_ns, duration_ns)| Case::fixed(*process, mean_ns, duration_ns))
    });
    let at = |process: &Process| Case::fixed(*process, 500_000, 8_000_000_000);
    let stopping = HELD_OUT.iter().map(|process| Case { stop: Some(STOP), ..at(process) });
    let deep = HELD_OUT.iter().map(|process| Case { depth: 4, ..at(process) });
    let parts = HELD_OUT.iter().map(|process| Case { part: true, ..at(process) });
    fixed.chain(stopping).chain(deep).chain(parts).collect()
}

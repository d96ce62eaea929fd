//! What the intervals of a step show about one kind of operation, as a series in time: the raw material of every
//! correction for autocorrelation.
//!
//! Histograms forget the order in which things happened; the intervals of about 100 ms keep it, coarsely. All
//! estimates here are ratios of two sums over intervals (exceedances per operation, latency per operation,
//! operations per second), so one kind of series, numerator and denominator, serves all of them.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::LazyLock;

use qd1_model::hist::{COARSE_BINS, coarse_low_ns};
use qd1_model::op::OpClass;
use qd1_model::record::{Interval, IntervalStream};

use crate::episodes::Episodes;
use crate::level::{self, Evidence, Of};
use crate::long_run::{self, LongRun};
use crate::sample;

/// Largest number of batches into which a series is cut. More would not sharpen a variance that already has hundreds of
/// degrees of freedom, and the cost of [`long_run::long_run`] grows with their square.
const BATCHES_MAX: usize = 400;

/// Fewest operations per batch on average, so that slow disks do not give a series of mostly empty intervals.
const OPS_PER_BATCH: f64 = 2.0;

/// One kind of operation over time, in batches of one or more neighbouring intervals.
#[derive(Clone, Debug)]
pub struct Series {
    /// Per batch.
    batches: Vec<Batch>,
    /// Operations per coarse bin, over all batches.
    totals: Vec<u64>,
    /// Operations.
    pub n: u64,
    /// Whether each batch is a visit at a random time of a long span (see `sample.rs`).
    is_sample: bool,
    known: Known,
}

/// Results computed once for a series.
#[derive(Debug, Default)]
struct Known {
    /// By the edge of a bin: how the operations above it vary.
    runs: RefCell<BTreeMap<usize, Option<LongRun>>>,
    /// By the edge of a bin: [`Series::above`].
    above: OnceCell<Vec<(f64, f64)>>,
    episodes: OnceCell<Rc<Episodes>>,
    evidence: [OnceCell<Option<Evidence>>; level::FIGURES],
}

impl Clone for Known {
    /// A copy is made in order to be changed.
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// The contents of one batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// ns since the step's measurement began.
    pub(crate) start_ns: f64,
    pub(crate) length_ns: f64,
    pub(crate) ios: f64,
    pub(crate) bytes: f64,
    pub(crate) lat_sum_ns: f64,
    /// Coarse bins in rising order, and how many operations are in each.
    pub(crate) bins: Vec<(u16, u32)>,
}

/// A quantity of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Quantity {
    /// Length, ns.
    Length,
    /// Operations.
    Ios,
    /// Bytes.
    Bytes,
    /// Sum of latencies, ns.
    LatSum,
}

impl Series {
    /// [`Series::new`] without the intervals before the first and after the last operation of `class`: for figures
    /// that count operations and not time, in steps that do different things one after another.
    pub fn while_active(intervals: &[Interval], class: OpClass) -> Self {
        let active = |interval: &Interval| of_class(interval, class).is_some_and(|stream| stream.ios > 0);
        let first = intervals.iter().position(active).unwrap_or(0);
        let end = intervals.iter().rposition(active).map_or(0, |last| last + 1);
        Self::new(intervals.get(first..end).unwrap_or_default(), class)
    }

    /// Gathers `class` from `intervals`, with neighbours merged if there are too many or they hold too little.
    pub fn new(intervals: &[Interval], class: OpClass) -> Self {
        let n: u64 = intervals.iter().filter_map(|interval| of_class(interval, class)).map(|s| s.ios).sum();
        let most = ((n as f64 / OPS_PER_BATCH) as usize).clamp(1, BATCHES_MAX);
        let is_sample = sample::is_one(intervals);
        // A visit of a sample is one observation.
        let merge = if is_sample { 1 } else { intervals.len().div_ceil(most).max(1) };
        let mut totals = vec![0; COARSE_BINS];
        let mut merged = vec![0; COARSE_BINS];
        // No batch has a part in two visits. While a slow disk is measured there are gaps where nothing completed:
        // these do not separate visits, and are too many.
        let are_visits = intervals.chunk_by(Interval::goes_on).count() * merge <= intervals.len();
        let batches = intervals
            .chunk_by(|one, next| !are_visits || one.goes_on(next))
            .flat_map(|visit| visit.chunks(if is_sample { visit.len() } else { merge }))
            .map(|chunk| {
                let mut batch = Batch { start_ns: chunk[0].start_ns as f64, ..Batch::default() };
                for interval in chunk {
                    batch.length_ns += interval.length_ns as f64;
                    let Some(stream) = of_class(interval, class) else { continue };
                    batch.ios += stream.ios as f64;
                    batch.bytes += stream.bytes as f64;
                    batch.lat_sum_ns += stream.lat_sum_ns as f64;
                    for (bin, count) in &stream.bins {
                        merged[usize::from(*bin).min(COARSE_BINS - 1)] += *count;
                    }
                }
                for (bin, count) in merged.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
                    totals[bin] += u64::from(*count);
                    batch.bins.push((bin as u16, std::mem::take(count)));
                }
                batch
            })
            .collect();
        Self { batches, totals, n, is_sample, known: Known::default() }
    }

    /// Whether the batches are visits at random times of a long span, which its figures describe.
    pub(crate) fn is_sample(&self) -> bool {
        self.is_sample
    }

    /// Variance of the sum of `residuals`, one per batch, whose sum is zero; `None` for fewer than
    /// [`long_run::BATCHES_MIN`].
    pub(crate) fn run(&self, residuals: &[f64]) -> Option<LongRun> {
        if self.is_sample { sample::variance(residuals) } else { long_run::long_run(residuals) }
    }

    /// Two estimates of it, as [`long_run::long_runs`].
    pub(crate) fn runs(&self, residuals: &[f64], fixed: usize, most: usize) -> Option<[LongRun; 2]> {
        if self.is_sample {
            return sample::variance(residuals).map(|run| [run; 2]);
        }
        long_run::long_runs(residuals, fixed, most)
    }

    /// The batches in time order.
    pub(crate) fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// This series and more batches, in time order.
    pub(crate) fn with(mut self, more: Vec<Batch>) -> Self {
        for (bin, count) in more.iter().flat_map(|batch| &batch.bins) {
            self.totals[usize::from(*bin)] += u64::from(*count);
        }
        self.n += more.iter().map(|batch| batch.ios as u64).sum::<u64>();
        self.batches.extend(more);
        self.batches.sort_by(|a, b| a.start_ns.total_cmp(&b.start_ns));
        self.known = Known::default();
        self
    }

    /// Variance of the operations in coarse bin `edge` or above, which `share` of all reach, as [`Series::run`].
    pub(crate) fn run_above(&self, edge: usize, share: f64) -> Option<LongRun> {
        *self.known.runs.borrow_mut().entry(edge).or_insert_with(|| {
            let residuals = crate::estimate::residuals(&self.exceedances(edge), &self.each(Quantity::Ios), share);
            self.run(&residuals)
        })
    }

    /// Its clustered levels.
    pub(crate) fn episodes(&self) -> Rc<Episodes> {
        Rc::clone(self.known.episodes.get_or_init(|| Rc::new(Episodes::new(self))))
    }

    /// What its stretches show about its level.
    pub(crate) fn evidence(&self, of: Of) -> Option<&Evidence> {
        self.known.evidence[of as usize].get_or_init(|| Evidence::new(self, of)).as_ref()
    }

    /// One value per batch.
    pub fn each(&self, of: Quantity) -> Vec<f64> {
        self.batches
            .iter()
            .map(|batch| match of {
                Quantity::Length => batch.length_ns,
                Quantity::Ios => batch.ios,
                Quantity::Bytes => batch.bytes,
                Quantity::LatSum => batch.lat_sum_ns,
            })
            .collect()
    }

    /// Per batch, the operations in coarse bin `edge` or above.
    pub fn exceedances(&self, edge: usize) -> Vec<f64> {
        let above = |batch: &Batch| {
            let from = batch.bins.partition_point(|(bin, _)| usize::from(*bin) < edge);
            batch.bins[from..].iter().map(|(_, count)| f64::from(*count)).sum()
        };
        self.batches.iter().map(above).collect()
    }

    /// The bin edge that leaves a share of the operations above it as close to `share` as possible (in log odds), and
    /// that share; `None` when all operations lie in one bin, so that no edge divides them.
    pub fn edge_for(&self, share: f64) -> Option<(usize, f64)> {
        let odds = |p: f64| (p / (1.0 - p)).ln();
        let distance = |p: f64| (odds(p) - odds(share)).abs();
        let total = self.total();
        let (mut above, mut before) = (0, None);
        for bin in (1..COARSE_BINS).rev().filter(|bin| self.totals[*bin] > 0) {
            above += self.totals[bin];
            if above >= total {
                break;
            }
            let p = above as f64 / total as f64;
            // The share only grows from here: the closest is this one or the one before.
            if p >= share {
                return match before {
                    Some((_, less)) if distance(less) <= distance(p) => before,
                    _ => Some((bin, p)),
                };
            }
            before = Some((bin, p));
        }
        before
    }

    /// Both ends of the one coarse bin that holds all operations, ns; `None` if there are several.
    pub(crate) fn only_bin_ns(&self) -> Option<(f64, f64)> {
        let mut filled = self.totals.iter().enumerate().filter(|(_, count)| **count > 0);
        let (bin, _) = filled.next()?;
        filled.next().is_none().then(|| bin_ends_ns(bin))
    }

    /// The batches of each visit: those without a gap between them.
    pub fn visits(&self) -> Vec<Range<usize>> {
        let goes_on = |one: &Batch, next: &Batch| one.start_ns + one.length_ns >= next.start_ns;
        let mut from = 0;
        let range = |visit: &[Batch]| {
            from += visit.len();
            from - visit.len()..from
        };
        self.batches.chunk_by(goes_on).map(range).collect()
    }

    /// Time of the middle of some batches, ns since the step's measurement began.
    pub fn middle_ns(&self, batches: Range<usize>) -> f64 {
        let part = &self.batches[batches];
        let end = part.last().map_or(0.0, |last| last.start_ns + last.length_ns);
        0.5 * (part.first().map_or(0.0, |first| first.start_ns) + end)
    }

    /// Median latency of some batches, ns, as if the operations were evenly spread in their coarse bins; `None` if
    /// there are none.
    pub fn median_of(&self, batches: Range<usize>) -> Option<f64> {
        let mut bins: Vec<(u16, u32)> =
            self.batches[batches].iter().flat_map(|batch| batch.bins.iter().copied()).collect();
        bins.sort_unstable_by_key(|(bin, _)| *bin);
        let half = 0.5 * bins.iter().map(|(_, count)| f64::from(*count)).sum::<f64>();
        let mut below = 0.0;
        for (bin, count) in bins {
            let count = f64::from(count);
            if below + count >= half {
                let (low, high) = bin_ends_ns(usize::from(bin));
                return Some((low + (high - low) * (half - below) / count).max(1.0));
            }
            below += count;
        }
        None
    }

    /// The latency at fractional 1-based `rank`, ns, interpolated inside the coarse bin as if its operations
    /// were evenly spread there.
    pub fn at_rank(&self, rank: f64) -> f64 {
        let mut below = 0.0;
        let mut last = 0.0;
        for (bin, count) in self.totals.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            let (low, high) = bin_ends_ns(bin);
            if rank <= below + count {
                return low + (high - low) * ((rank - 0.5 - below) / count).clamp(0.0, 1.0);
            }
            below += count;
            last = high;
        }
        last
    }

    /// Operations in coarse bin `edge` and above, and the sum of their latencies as far as the bins resolve them, ns.
    pub fn above(&self, edge: usize) -> (f64, f64) {
        let above = self.known.above.get_or_init(|| {
            let mut above = vec![(0.0, 0.0); COARSE_BINS + 1];
            for bin in (0..COARSE_BINS).rev() {
                let (count, (ios, lat_sum_ns)) = (self.totals[bin] as f64, above[bin + 1]);
                above[bin] = (ios + count, lat_sum_ns + count * bin_middle_ns(bin));
            }
            above
        });
        above[edge]
    }

    /// Operations in the bins.
    fn total(&self) -> u64 {
        self.totals.iter().sum()
    }
}

/// Both ends of coarse bin `bin`, ns.
pub fn bin_ends_ns(bin: usize) -> (f64, f64) {
    ENDS_NS[bin]
}

static ENDS_NS: LazyLock<Vec<(f64, f64)>> = LazyLock::new(|| {
    let low = |bin: usize| coarse_low_ns(bin) as f64;
    let high = |bin: usize| if bin + 1 < COARSE_BINS { low(bin + 1) } else { 2.0 * low(bin) };
    (0..COARSE_BINS).map(|bin| (low(bin), high(bin))).collect()
});

/// Its middle.
pub(crate) fn bin_middle_ns(bin: usize) -> f64 {
    let (low, high) = bin_ends_ns(bin);
    0.5 * (low + high)
}

/// The entry of `class` in `interval`.
pub(crate) fn of_class(interval: &Interval, class: OpClass) -> Option<&IntervalStream> {
    interval.streams.iter().find(|stream| stream.class == class)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interval of 100 ms from `tenths` of a second on, with this many operations.
    fn interval(tenths: u64, ios: u32) -> Interval {
        let (class, bins) = (OpClass::Read, vec![(100, ios)]);
        let (ios, bytes) = (u64::from(ios), u64::from(ios) * 4096);
        let stream = IntervalStream { class, ios, bytes, lat_sum_ns: ios * 1000, lat_max_ns: 1000, bins };
        Interval { start_ns: tenths * 100_000_000, length_ns: 100_000_000, streams: vec![stream] }
    }

    #[test]
    fn no_batch_has_a_part_in_two_visits() {
        let intervals: Vec<Interval> = (0..3u64).flat_map(|v| (0..7).map(move |i| interval(v * 40 + i, 1))).collect();
        let series = Series::new(&intervals, OpClass::Read);
        assert_eq!((series.n, series.visits().len()), (21, 3));
        // Two operations to a batch, and one for the rest of a visit.
        assert_eq!(series.each(Quantity::Ios), [3.0, 3.0, 1.0].repeat(3));
    }

    #[test]
    fn gaps_of_a_slow_disk_are_no_visits() {
        let intervals: Vec<Interval> = (0..40).map(|number| interval(number * 3, 1)).collect();
        let series = Series::new(&intervals, OpClass::Read);
        assert!(series.each(Quantity::Ios).iter().all(|ios| *ios == 2.0), "{:?}", series.each(Quantity::Ios));
    }
}

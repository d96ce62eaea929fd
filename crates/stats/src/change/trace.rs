//! One kind of operation of a step as a row of points in time: the input of segmentation, drift and steady state.
//!
//! A point is one interval, or as many neighbours as it takes to hold [`OPS_MIN`] operations on average, and to keep
//! a long run below [`POINTS_MAX`] points. The last interval of a step is often a sliver; it is left out.

use qd1_model::hist::coarse_low_ns;
use qd1_model::op::OpClass;
use qd1_model::record::{Interval, IntervalStream};

/// Smallest average number of operations per point, so that the logarithm of their number is near normal.
const OPS_MIN: f64 = 8.0;
/// Most points: the exact segmentation takes the square of their number.
const POINTS_MAX: usize = 2400;

/// Kinds of operation whose course over time means something: file operations take turns in one step.
pub(super) const CLASSES: [OpClass; 4] = [OpClass::Read, OpClass::Write, OpClass::Trim, OpClass::Commit];

/// One point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Start, ns since the step's measurement began.
    pub(super) start_ns: u64,
    /// Length, ns.
    pub(super) length_ns: u64,
    /// Natural logarithm of operations per second; half an operation if there was none.
    pub(super) log_rate: f64,
    /// Natural logarithm of the median latency, ns; that of the point before if there was no operation.
    pub(super) log_median: f64,
}

/// The points of one class.
#[derive(Debug)]
pub(super) struct Trace {
    /// In time order.
    pub(super) points: Vec<Point>,
    /// Intervals in each.
    merge: usize,
    /// Index of the first interval.
    first: usize,
}

impl Trace {
    /// The points of `class` in `intervals`, from its first to its last operation.
    pub(super) fn new(intervals: &[Interval], class: OpClass) -> Self {
        let (first, end) = active(intervals, class);
        let part = &intervals[first..end];
        let n: u64 = part.iter().filter_map(|interval| of_class(interval, class)).map(|stream| stream.ios).sum();
        let most = ((n as f64 / OPS_MIN) as usize).clamp(1, POINTS_MAX);
        let merge = part.len().div_ceil(most).max(1);
        let mut points: Vec<Point> = Vec::new();
        // The rest of the last chunk is too short to be comparable.
        for chunk in part.chunks_exact(merge) {
            let length_ns: u64 = chunk.iter().map(|interval| interval.length_ns).sum();
            let streams: Vec<&IntervalStream> = chunk.iter().filter_map(|interval| of_class(interval, class)).collect();
            let ios: u64 = streams.iter().map(|stream| stream.ios).sum();
            let before = points.last().map(|point| point.log_median);
            points.push(Point {
                start_ns: chunk[0].start_ns,
                length_ns,
                log_rate: ((ios as f64).max(0.5) * 1e9 / length_ns.max(1) as f64).ln(),
                log_median: median_ns(&streams).map(f64::ln).or(before).unwrap_or(0.0),
            });
        }
        Self { points, merge, first }
    }

    /// Intervals of points `from..to`.
    pub(super) fn intervals<'a>(&self, intervals: &'a [Interval], from: usize, to: usize) -> &'a [Interval] {
        &intervals[self.first + from * self.merge..self.first + to * self.merge]
    }

    /// End of the last point, ns.
    pub(super) fn end_ns(&self) -> u64 {
        self.points.last().map_or(0, |point| point.start_ns + point.length_ns)
    }

    /// Logarithms of the rate.
    pub(super) fn rates(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.log_rate).collect()
    }

    /// Logarithms of the median latency.
    pub(super) fn medians(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.log_median).collect()
    }
}

/// The entry of `class` in `interval`.
pub(super) fn of_class(interval: &Interval, class: OpClass) -> Option<&IntervalStream> {
    interval.streams.iter().find(|stream| stream.class == class)
}

/// Intervals from the first to the last operation of `class`, without a final sliver.
fn active(intervals: &[Interval], class: OpClass) -> (usize, usize) {
    let busy = |interval: &Interval| of_class(interval, class).is_some_and(|stream| stream.ios > 0);
    let first = intervals.iter().position(busy).unwrap_or(0);
    let mut end = intervals.iter().rposition(busy).map_or(first, |last| last + 1);
    let usual = intervals.get(intervals.len() / 2).map_or(0, |interval| interval.length_ns);
    while end > first && intervals[end - 1].length_ns * 2 < usual {
        end -= 1;
    }
    (first, end)
}

/// Median latency of `streams` together, ns, interpolated inside its coarse bin; `None` without operations.
fn median_ns(streams: &[&IntervalStream]) -> Option<f64> {
    let mut bins: Vec<(u16, u32)> = streams.iter().flat_map(|stream| stream.bins.iter().copied()).collect();
    bins.sort_unstable_by_key(|(bin, _)| *bin);
    let total: f64 = bins.iter().map(|(_, count)| f64::from(*count)).sum();
    let mut below = 0.0;
    for (bin, count) in bins {
        let count = f64::from(count);
        if below + count >= 0.5 * total {
            let (low, high) = (coarse_low_ns(usize::from(bin)) as f64, coarse_low_ns(usize::from(bin) + 1) as f64);
            return Some((low + (high - low) * ((0.5 * total - below) / count)).max(1.0));
        }
        below += count;
    }
    None
}

/// Median of `values`, which it reorders; 0 if there are none.
pub(super) fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let (middle, odd) = (values.len() / 2, values.len() % 2 == 1);
    let (below, at, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let at = *at;
    if odd { at } else { 0.5 * (at + below.iter().copied().fold(f64::NEG_INFINITY, f64::max)) }
}

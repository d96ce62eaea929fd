//! A step's intervals as windows of 100 ms, and the lumps in which a limiter may release requests.

use qd1_model::limits::Quantity;
use qd1_model::order::Order as _;
use qd1_model::record::{Interval, IntervalStream};

/// Length of a window, ns: that of an interval of a long step.
pub(super) const WINDOW_NS: u64 = 100_000_000;
/// Shortest interval of a step, ns, except for its last one, which is the remainder.
const SHORTEST_NS: u64 = 10_000_000;
/// Requests that a window should hold.
const REQUESTS_MIN: f64 = 10.0;
/// Number of windows that remain at least when they are merged.
const WINDOWS_MIN: usize = 20;
/// Smallest lump, requests: every count is nearly a multiple of a smaller one.
const LUMP_MIN: f64 = 6.0;
/// Share of intervals that hold a whole number of lumps, where throughput comes in lumps.
const LUMPS_WHOLE: f64 = 0.97;
/// Share of intervals that differ from the usual number of lumps, from which they matter.
const LUMPS_DIFFER: f64 = 0.08;
/// Largest distance of the count from a line, in lumps: a gap that no lump makes up for is a stall.
const LUMPS_ASTRAY: f64 = 2.2;

/// (length in ns, amount) of each interval, with missing ones filled in.
pub(super) fn cells(intervals: &[Interval], quantity: Quantity) -> Vec<(u64, u64)> {
    let mut cells = Vec::with_capacity(intervals.len());
    let mut end_ns = intervals.first().map_or(0, |interval| interval.start_ns);
    for interval in intervals {
        let length_ns = interval.length_ns.max(1);
        let missing_ns = length_ns.max(SHORTEST_NS);
        let missing = interval.start_ns.saturating_sub(end_ns) / missing_ns;
        cells.extend(std::iter::repeat_n((missing_ns, 0), usize::try_from(missing).unwrap_or(0)));
        let of = |stream: &IntervalStream| if quantity == Quantity::Bytes { stream.bytes } else { stream.ios };
        cells.push((length_ns, interval.streams.iter().map(of).sum()));
        end_ns = interval.start_ns + interval.length_ns;
    }
    cells
}

/// (length in s, amount) of windows of 100 ms, with cells of other lengths divided between them; the remainder at the
/// end is dropped. The kernel's slices have that length, so that each window holds one, wherever the cells began.
pub(super) fn windows(cells: &[(u64, u64)]) -> Vec<(f64, f64)> {
    let mut windows = Vec::with_capacity(cells.len());
    let (mut length_ns, mut amount) = (0u64, 0.0f64);
    for (cell_ns, cell_amount) in cells {
        let mut left_ns = *cell_ns;
        while left_ns > 0 {
            // A cell slightly longer than a window counts as one.
            let is_whole = length_ns == 0 && left_ns == *cell_ns && (WINDOW_NS..2 * WINDOW_NS).contains(&left_ns);
            let part_ns = if is_whole { left_ns } else { left_ns.min(WINDOW_NS - length_ns) };
            length_ns += part_ns;
            left_ns -= part_ns;
            amount += *cell_amount as f64 * part_ns as f64 / *cell_ns as f64;
            if length_ns >= WINDOW_NS {
                windows.push((length_ns as f64 / 1e9, amount));
                (length_ns, amount) = (0, 0.0);
            }
        }
    }
    windows
}

/// The same with neighbours merged until a window holds about ten requests, as long as enough windows remain: with two
/// requests a window, a stall takes away no more than counting does, but the requests after it are visible.
pub(super) fn joined(windows: Vec<(f64, f64)>, unit: f64) -> Vec<(f64, f64)> {
    let mean = windows.iter().map(|(_, amount)| amount).sum::<f64>() / unit / windows.len().max(1) as f64;
    let wanted = if mean > 0.0 { (REQUESTS_MIN / mean).ceil().min(64.0) as usize } else { 1 };
    let count = wanted.min(windows.len() / WINDOWS_MIN).max(1);
    let add = |all: (f64, f64), one: &(f64, f64)| (all.0 + one.0, all.1 + one.1);
    windows.chunks_exact(count).map(|some| some.iter().fold((0.0, 0.0), add)).collect()
}

/// The lump let through at a time, if throughput comes in lumps of one size: nearly every interval holds a whole number
/// of them, not all the same, and each that lacks one is made up for.
pub(super) fn lump(cells: &[(u64, u64)], unit: f64) -> Option<f64> {
    let amounts: Vec<f64> = cells.iter().map(|(_, amount)| *amount as f64).collect();
    let full: Vec<f64> = amounts.iter().copied().filter(|amount| *amount > 0.0).collect();
    if full.len() < 10 {
        return None;
    }
    let usual = median(&full);
    [1.0, 2.0, 3.0].into_iter().map(|held| usual / held).find(|lump| {
        let tolerance = (0.05 * lump).max(1.01 * unit);
        let whole = |amount: f64| (amount - (amount / lump).round() * lump).abs() <= tolerance;
        let share = |is: &dyn Fn(f64) -> bool| {
            amounts.iter().filter(|amount| is(**amount)).count() as f64 / amounts.len() as f64
        };
        let rate = amounts.iter().sum::<f64>() / amounts.len() as f64;
        let (mut count, mut lowest, mut highest) = (0.0f64, 0.0f64, 0.0f64);
        for amount in &amounts {
            count += amount - rate;
            (lowest, highest) = (lowest.min(count), highest.max(count));
        }
        *lump >= LUMP_MIN * unit
            && share(&whole) >= LUMPS_WHOLE
            && share(&|amount| (amount - usual).abs() > tolerance) >= LUMPS_DIFFER
            && highest - lowest <= LUMPS_ASTRAY * lump
    })
}

/// Slope of the line through the count at the ends of the windows, by least squares: lumps shift it less than they
/// shift the mean, which depends on where the first and the last one fell.
pub(super) fn slope(windows: &[(f64, f64)]) -> f64 {
    let (mut at, mut count) = (0.0, 0.0);
    let points: Vec<(f64, f64)> = std::iter::once((0.0, 0.0))
        .chain(windows.iter().map(|(length, amount)| {
            (at, count) = (at + length, count + amount);
            (at, count)
        }))
        .collect();
    let n = points.len() as f64;
    let (middle, mean) =
        (points.iter().map(|(at, _)| at).sum::<f64>() / n, points.iter().map(|(_, c)| c).sum::<f64>() / n);
    let over: f64 = points.iter().map(|(at, count)| (at - middle) * (count - mean)).sum();
    over / points.iter().map(|(at, _)| (at - middle).powi(2)).sum::<f64>().max(1e-9)
}

/// Half of the 95 % interval of that slope: a count that is off by a lump's own scatter, lump / sqrt 12, at as many
/// independent points as there are lumps.
pub(super) fn lump_half(lump: f64, rate: f64, seconds: f64) -> f64 {
    let lumps = (rate * seconds / lump).max(1.0);
    2.0 * rate * lumps.powf(-1.5)
}

/// The median of some figures; 0 if there are none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.order_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

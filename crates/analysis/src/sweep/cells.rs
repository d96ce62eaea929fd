//! From steps to cells: all passes over one combination merged, with a check by Little's law.
//!
//! A closed loop keeps N requests in flight, so throughput times mean latency has to be N (Little 1961), not
//! approximately but exactly, except at the edges of the time examined. If it is not, the depth was not reached, or the
//! figures are wrong. The kernel's counters are shown next to it: the time that requests spent at the device, summed,
//! divided by the time that passed, is the depth that the device saw.

use qd1_model::hist::Hist;
use qd1_model::op::{Ended, OpClass};
use qd1_model::order::Order as _;
use qd1_model::plan::{Arrival, IoWork, StepPlan, Work};
use qd1_model::record::{Interval, IntervalStream, StepRecord};
use qd1_model::sweep::{Cell, CellFlag};
use qd1_model::{Estimate, Record};

use qd1_stats::{self as stats, Quantiles, sigma, t_975};

/// Deviation from Little's law that the edges do not explain, relative.
const LITTLE_TOLERANCE: f64 = 0.05;
/// Below this share of the requested depth, the device saw a different depth.
const DEVICE_SHARE: f64 = 0.5;
/// From this depth up, the device's share of it is examined: below it, our own time between requests is part of it.
const DEVICE_DEPTH_MIN: u32 = 4;
/// Counters in milliseconds cannot resolve fewer.
const DEVICE_MS_MIN: u64 = 50;
/// Passes that differ by less than this agree, whatever their spread.
const PASSES_APART: f64 = 0.15;
/// All operations of a step under one name: the sweep treats them together.
const CLASS: OpClass = OpClass::Read;
/// Fewer whole intervals than this do not show their spread.
const INTERVALS_MIN: usize = 4;

/// What one step contributes to its cell.
struct StepPart {
    lat: Hist,
    intervals: Vec<Interval>,
    /// Requests in flight at the device, and the time over which this is the mean, ns.
    device: Option<(f64, f64)>,
    lat_max_ns: u64,
    errors: bool,
}

/// All cells, by rw, block size and depth in the order in which the plan first names them, sorted by size and depth.
pub(super) fn cells(record: &Record) -> Vec<Cell> {
    let mut groups: Vec<(&IoWork, Vec<(&StepPlan, &StepRecord)>)> = Vec::new();
    for step in &record.steps {
        let Some(plan) = record.plan.steps.iter().find(|plan| plan.name == step.name) else { continue };
        let Work::Io(io) = &plan.work else { continue };
        if io.arrival != Arrival::Closed || step.streams.is_empty() {
            continue;
        }
        match groups.iter_mut().find(|(known, _)| key(known) == key(io)) {
            Some((_, steps)) => steps.push((plan, step)),
            None => groups.push((io, vec![(plan, step)])),
        }
    }
    groups.order_by_key(|(io, _)| key(io));
    groups.iter().map(|(io, steps)| cell(io, steps)).collect()
}

fn key(io: &IoWork) -> (u8, u32, u32) {
    (io.rw as u8, io.block_max(), io.in_flight())
}

fn cell(io: &IoWork, steps: &[(&StepPlan, &StepRecord)]) -> Cell {
    let parts: Vec<StepPart> = steps.iter().map(|(plan, step)| part(plan, step)).collect();
    let mut lat = Hist::new();
    parts.iter().for_each(|part| lat.merge(&part.lat));
    let intervals: Vec<Interval> = parts.iter().flat_map(|part| part.intervals.iter().cloned()).collect();
    let quantiles = Quantiles::new(&lat, &intervals, CLASS);
    let (length, ios, sum) = totals(&intervals);
    let passes: Vec<(f64, Option<f64>)> = parts.iter().map(pass_rate).collect();
    let mut cell = Cell {
        rw: io.rw,
        block: io.block_max(),
        iodepth: io.in_flight(),
        steps: steps.iter().map(|(plan, _)| plan.name.clone()).collect(),
        iops: between_passes(stats::rate(&intervals, CLASS), &passes),
        bytes_per_second: Estimate::default(),
        lat_mean_ns: stats::mean(&lat, &intervals, CLASS),
        lat_p50_ns: quantiles.at(0.5),
        lat_p99_ns: quantiles.at(0.99),
        lat_p999_ns: quantiles.at(0.999),
        pass_iops: passes.iter().map(|(rate, _)| *rate).collect(),
        in_flight: if length > 0.0 { sum / length } else { 0.0 },
        in_flight_tolerance: LITTLE_TOLERANCE + edge(&parts, length),
        in_flight_device: in_flight_device(&parts),
        flags: Vec::new(),
    };
    cell.bytes_per_second = stats::scaled(cell.iops, f64::from(cell.block));
    let apart = disagree(&passes);
    cell.flags = flags(&cell, apart, ios > 0.0 && parts.iter().any(|part| part.errors));
    cell
}

fn flags(cell: &Cell, passes_apart: bool, errors: bool) -> Vec<CellFlag> {
    let depth = f64::from(cell.iodepth);
    let mut flags = Vec::new();
    if cell.in_flight < depth * (1.0 - cell.in_flight_tolerance) {
        flags.push(CellFlag::DepthNotReached);
    } else if cell.in_flight > depth * (1.0 + cell.in_flight_tolerance) {
        flags.push(CellFlag::LittleBroken);
    }
    if cell.iodepth >= DEVICE_DEPTH_MIN && cell.in_flight_device.is_some_and(|device| device < DEVICE_SHARE * depth) {
        flags.push(CellFlag::DeviceQueueShallow);
    }
    if passes_apart {
        flags.push(CellFlag::PassesDisagree);
    }
    if errors {
        flags.push(CellFlag::Errors);
    }
    flags
}

/// What a step measured while its queue was full: the time after its end, when the last requests return and no new ones
/// are sent, is left out.
fn part(plan: &StepPlan, step: &StepRecord) -> StepPart {
    let lat_max_ns = step.streams.iter().map(|stream| stream.lat.max_ns()).max().unwrap_or(0);
    let full_ns = match step.ended {
        Ended::Time => step.runtime_ns.min(plan.stop.max_ns),
        // It ended on its own; its last requests were in flight for no longer than the slowest took.
        _ => step.runtime_ns.saturating_sub(lat_max_ns),
    };
    let mut lat = Hist::new();
    step.streams.iter().for_each(|stream| lat.merge(&stream.lat));
    let intervals = between_completions(&step.intervals, full_ns);
    let device = step.device.and_then(|delta| {
        let counted = delta.counted;
        // The counters also hold the ramp, during which as many requests were in flight.
        let passed_ns = (step.runtime_ns + plan.stop.ramp_ns) as f64;
        let ticks_ms = counted.read_ticks_ms + counted.write_ticks_ms;
        let (asked, seen) = (delta.asked_reads + delta.asked_writes, counted.reads + counted.writes);
        let ours = asked > 0 && seen as f64 >= 0.9 * asked as f64;
        (ours && ticks_ms >= DEVICE_MS_MIN).then(|| (ticks_ms as f64 * 1e6 / passed_ns, passed_ns))
    });
    StepPart {
        lat,
        intervals: intervals.iter().map(merge_streams).collect(),
        device,
        lat_max_ns,
        errors: !step.errors.is_empty(),
    }
}

/// The intervals before `full_ns` from after the first completion to the last one.
///
/// A device that completes in lumps (large blocks, many at once) has as many completions in a fixed time as happen to
/// fall into it; from lump to lump, each lump has its own time.
fn between_completions(all: &[Interval], full_ns: u64) -> &[Interval] {
    let whole = all.iter().take_while(|interval| interval.start_ns + interval.length_ns <= full_ns).count();
    let busy = |interval: &Interval| !interval.streams.is_empty();
    let (first, last) = (all[..whole].iter().position(busy), all[..whole].iter().rposition(busy));
    match (first, last) {
        (Some(first), Some(last)) if last - first >= INTERVALS_MIN => &all[first + 1..=last],
        _ => all,
    }
}

/// An interval with all its operations as one stream.
fn merge_streams(interval: &Interval) -> Interval {
    let streams = match interval.streams.as_slice() {
        [] => Vec::new(),
        [one] => vec![IntervalStream { class: CLASS, ..one.clone() }],
        many => {
            let mut bins = std::collections::BTreeMap::<u16, u32>::new();
            many.iter()
                .flat_map(|stream| &stream.bins)
                .for_each(|(bin, count)| *bins.entry(*bin).or_default() += count);
            vec![IntervalStream {
                class: CLASS,
                ios: many.iter().map(|stream| stream.ios).sum(),
                bytes: many.iter().map(|stream| stream.bytes).sum(),
                lat_sum_ns: many.iter().map(|stream| stream.lat_sum_ns).sum(),
                lat_max_ns: many.iter().map(|stream| stream.lat_max_ns).max().unwrap_or(0),
                bins: bins.into_iter().collect(),
            }]
        }
    };
    Interval { start_ns: interval.start_ns, length_ns: interval.length_ns, streams }
}

/// Length, operations and sum of latencies, ns.
fn totals(intervals: &[Interval]) -> (f64, f64, f64) {
    let length: u64 = intervals.iter().map(|interval| interval.length_ns).sum();
    let streams = || intervals.iter().flat_map(|interval| &interval.streams);
    let (ios, sum) = (streams().map(|s| s.ios).sum::<u64>(), streams().map(|s| s.lat_sum_ns).sum::<u64>());
    (length as f64, ios as f64, sum as f64)
}

/// The most that the edges can add to or take from the sum of latencies: at most the longest request on each slot and
/// each pass.
fn edge(parts: &[StepPart], length: f64) -> f64 {
    let most: u64 = parts.iter().map(|part| part.lat_max_ns).sum();
    if length > 0.0 { most as f64 / length } else { 1.0 }
}

/// Operations per second of one pass, and the standard deviation of its logarithm.
fn pass_rate(part: &StepPart) -> (f64, Option<f64>) {
    let (length, ios, _) = totals(&part.intervals);
    (if length > 0.0 { ios * 1e9 / length } else { 0.0 }, sigma(&stats::rate(&part.intervals, CLASS)))
}

/// The rate over all passes, with an interval that covers their differences: they are few, so it uses Student's t.
pub(crate) fn between_passes(rate: Estimate, passes: &[(f64, Option<f64>)]) -> Estimate {
    let Some(value) = rate.value.filter(|_| passes.len() >= 2) else { return rate };
    let logs: Vec<f64> = passes.iter().filter(|(rate, _)| *rate > 0.0).map(|(rate, _)| rate.ln()).collect();
    if logs.len() < 2 {
        return rate;
    }
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let error = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    // For two passes t is 12.7, so the interval is their difference, not six times that.
    let factor = (error * t_975(n - 1.0).min(4.0)).exp();
    let widen = |bound: Option<f64>, by: f64, pick: fn(f64, f64) -> f64| bound.map(|bound| pick(bound, value * by));
    Estimate { low: widen(rate.low, 1.0 / factor, f64::min), high: widen(rate.high, factor, f64::max), ..rate }
}

/// Whether any two passes differ by more than chance.
fn disagree(passes: &[(f64, Option<f64>)]) -> bool {
    let apart = |(a, sa): &(f64, Option<f64>), (b, sb): &(f64, Option<f64>)| {
        let (Some(sa), Some(sb)) = (sa, sb) else { return false };
        let difference = (a / b).ln().abs();
        difference > PASSES_APART && difference > 3.0 * sa.hypot(*sb)
    };
    passes
        .iter()
        .enumerate()
        .any(|(at, one)| passes[..at].iter().any(|other| one.0 > 0.0 && other.0 > 0.0 && apart(one, other)))
}

/// The mean over the passes, weighted by their time.
fn in_flight_device(parts: &[StepPart]) -> Option<f64> {
    let known: Vec<(f64, f64)> = parts.iter().filter_map(|part| part.device).collect();
    let total: f64 = known.iter().map(|(_, time)| time).sum();
    (known.len() == parts.len() && total > 0.0)
        .then(|| known.iter().map(|(depth, time)| depth * time).sum::<f64>() / total)
}

//! Figures that differ between kinds of storage, derived from what the steps were planned to do.

use qd1_model::hist::coarse_low_ns;
use qd1_model::op::OpClass;
use qd1_model::plan::{Arrival, IoWork, Order, Work};
use qd1_model::record::{Interval, Stream};
use qd1_model::units::{format_ns, format_rate};
use qd1_model::{Hist, Record};

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Feature {
    /// Its name in `kinds.tsv`.
    pub(super) name: &'static str,
    /// In the feature's own unit.
    pub(super) value: f64,
    /// In words.
    pub(super) text: String,
}

/// The figures that a Record has, and those it lacks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FeatureSet {
    pub(super) features: Vec<Feature>,
    /// How many different things were measured; several figures of one step count as one.
    pub(super) parts: u32,
    /// What could not be examined, in words.
    pub(super) missing: Vec<String>,
    /// Share of their time that workers waited for a processor, if it is large; else 0.
    pub(super) waited: f64,
    /// Whether a limit on requests per second decides how long they take.
    pub(super) limited: bool,
}

/// Requests that a figure needs at least.
const REQUESTS_MIN: u64 = 60;
/// Small blocks, bytes.
const SMALL: u32 = 4096;
const MIDDLE: u32 = 64 << 10;
const LARGE: u32 = 1 << 20;
/// A part of the file so small that a disk head hardly moves within it, relative to the whole file.
const NEAR: f64 = 1.0 / 16.0;
/// Least and most requests in flight that count as a deep queue.
const DEEP: std::ops::RangeInclusive<u32> = 16..=64;
/// A request this many times as slow as the median took a different path.
const SLOW: f64 = 3.0;
/// A request this many times as slow was held up.
const STALLED: f64 = 10.0;
/// Shares below these count as none: too few requests, or none at all.
const SLOW_MIN: f64 = 1e-5;
const STALLED_MIN: f64 = 1e-4;
/// Wandering below this cannot be distinguished from none.
const WANDER_MIN: f64 = 0.005;
/// Blocks of time over which the wandering of a step is computed.
const BLOCKS: std::ops::RangeInclusive<usize> = 6..=24;
/// Workers that wait for a processor longer than this share of their time measure the processor as well.
const WAITED_MIN: f64 = 0.1;
/// Figures that a worker without a processor spoils in the same way as a busy disk.
const UNSTEADY: [&str; 5] = ["read_tail", "slow_share", "stall_share", "wander", "flush_tail"];
/// The figures by which each thing is measured.
const PARTS: [&[&str]; 6] = [
    &["read_median", "read_low", "read_tail", "slow_share", "stall_share", "wander"],
    &["near_far"],
    &["seq_random"],
    &["parallel"],
    &["size_slope"],
    &["write_read", "flush", "flush_tail"],
];
/// Faster reads, at 5,000 a second, come from memory, which gains nothing either.
const LIMITED_MIN_NS: f64 = 200e3;
/// A factor below this does not count as faster.
const GAIN_MIN: f64 = 1.25;
/// Requests in such a block.
const BLOCK_REQUESTS: u64 = 30;

/// A step that measured something, with what it was planned to do.
struct Step<'a> {
    work: &'a IoWork,
    stream: &'a Stream,
    intervals: &'a [Interval],
    runtime_ns: u64,
    direct: bool,
}

impl Step<'_> {
    fn in_flight(&self) -> u32 {
        self.work.in_flight()
    }

    fn median_ns(&self) -> f64 {
        self.stream.lat.quantile(0.5) as f64
    }

    fn rate(&self) -> f64 {
        self.stream.lat.count() as f64 * 1e9 / self.runtime_ns.max(1) as f64
    }

    fn block(&self) -> u32 {
        if self.work.blocks.len() == 1 { self.work.block_max() } else { 0 }
    }
}

/// The steps of `record` with operations of `class`: closed loop, with no load beside them, leaving out those too short
/// to say anything.
fn steps(record: &Record, class: OpClass) -> Vec<Step<'_>> {
    let of = |step| {
        let step: &qd1_model::record::StepRecord = step;
        let plan = record.plan.steps.iter().find(|plan| plan.name == step.name)?;
        let Work::Io(work) = &plan.work else { return None };
        let stream = step.stream(class)?;
        let fits = work.arrival == Arrival::Closed
            && step.background.is_empty()
            && stream.lat.count() >= REQUESTS_MIN
            && step.engine.is_some_and(qd1_model::plan::EngineKind::does_io);
        let (intervals, runtime_ns, direct) = (&step.intervals[..], step.runtime_ns, step.direct);
        fits.then_some(Step { work, stream, intervals, runtime_ns, direct })
    };
    record.steps.iter().filter_map(of).collect()
}

/// All figures that `record` has.
pub(super) fn collect(record: &Record) -> FeatureSet {
    let mut found = FeatureSet::default();
    let reads = steps(record, OpClass::Read);
    if reads.iter().any(|step| !step.direct) && !reads.iter().any(|step| step.direct) {
        found.missing.push("the disk's own reads: there is no O_DIRECT here, so the page cache answered".to_owned());
    }
    // Otherwise a page cache in front would be measured.
    let one = |step: &&Step<'_>| step.direct && step.in_flight() == 1;
    let random = |step: &&Step<'_>| matches!(step.work.order, Order::Random | Order::RandomFull);
    let pure = |step: &&Step<'_>| !step.work.rw.writes() || step.work.rwmixread == 100;
    let small = || reads.iter().filter(one).filter(random).filter(|step| step.block() == SMALL);
    // Over the largest part of the file; only reads, if there is such a step.
    let far = small().max_by_key(|step| (pure(step), step.work.size.0));
    if let Some(far) = far {
        of_reads(&mut found, far);
        let near = small().filter(pure).find(|step| step.work.size.0 as f64 <= far.work.size.0 as f64 * NEAR);
        near_far(&mut found, far, near);
        let forward = |step: &&Step<'_>| step.work.order == Order::Sequential && step.block() == SMALL;
        sequential(&mut found, far, reads.iter().filter(one).filter(pure).find(forward));
        let deep = |step: &&Step<'_>| step.direct && DEEP.contains(&step.in_flight()) && step.block() == SMALL;
        parallel(&mut found, far, reads.iter().filter(random).filter(pure).find(deep));
    } else {
        found.missing.push("random 4 KiB reads, one at a time: the suite has none".to_owned());
    }
    let sized = |block: u32| reads.iter().filter(one).filter(random).filter(pure).find(|step| step.block() == block);
    slope(&mut found, sized(MIDDLE).or(far), sized(LARGE));
    let mut of_commits = steps(record, OpClass::Commit);
    of_commits.retain(|step| step.work.sync.is_durable());
    commits(&mut found, far, &of_commits);
    found.waited = waited(record);
    if found.waited > 0.0 {
        let share = share(found.waited);
        let why =
            format!("the workers waited for a processor {share} of their time, which looks like an unsteady disk");
        found.missing.push(format!("how steady the disk itself is: {why}"));
        found.features.retain(|feature| !UNSTEADY.contains(&feature.name));
    }
    found.limited = is_limited(&found.features);
    if found.limited {
        let why = "reads are no faster with many in flight than one at a time, and no faster in order than at random";
        found.missing.push(format!("which kind of disk is behind a limit on requests: {why}"));
    }
    found.parts = parts(&found.features);
    found
}

/// Whether neither more requests in flight nor reading in order makes reads any faster: a disk with a single head gains
/// from both.
fn is_limited(features: &[Feature]) -> bool {
    let value = |name| features.iter().find(|feature| feature.name == name).map(|feature| feature.value);
    let gains_nothing = |name| value(name).is_some_and(|gain| gain < GAIN_MIN);
    value("read_median").is_some_and(|ns| ns > LIMITED_MIN_NS)
        && gains_nothing("parallel")
        && gains_nothing("seq_random")
}

/// How many different things these figures are of.
pub(super) fn parts(features: &[Feature]) -> u32 {
    let has = |names: &&&[&str]| features.iter().any(|feature| names.contains(&feature.name));
    PARTS.iter().filter(has).count() as u32
}

/// Share of their time that the workers of the direct steps waited for a processor.
fn waited(record: &Record) -> f64 {
    let steps = || record.steps.iter().filter(|step| step.direct);
    let time_ns = |step: &qd1_model::record::StepRecord| {
        let plan = record.plan.steps.iter().find(|plan| plan.name == step.name);
        let workers = plan.map_or(1, |plan| if let Work::Io(io) = &plan.work { io.numjobs.max(1) } else { 1 });
        step.runtime_ns as f64 * f64::from(workers)
    };
    let share = |step: &qd1_model::record::StepRecord| step.cost.run_delay_ns as f64 / time_ns(step).max(1.0);
    let mean = steps().map(|step| share(step).min(1.0)).sum::<f64>() / steps().count().max(1) as f64;
    if mean >= WAITED_MIN { mean } else { 0.0 }
}

/// Everything that random reads, one at a time, show on their own.
fn of_reads(found: &mut FeatureSet, far: &Step<'_>) {
    let lat = &far.stream.lat;
    let median = far.median_ns().max(1.0);
    let ratio = |q: f64| lat.quantile(q) as f64 / median;
    let mut add = |name, value: f64, text: String| found.features.push(Feature { name, value, text });
    add("read_median", median, format!("random 4 KiB reads take {}", format_ns(median)));
    let low = ratio(0.05);
    add("read_low", low, format!("the fastest 5 % of them take {low:.2} times as long"));
    let tail = ratio(0.99);
    add("read_tail", tail, format!("one in a hundred takes {tail:.1} times as long"));
    let slow = lat.count_above((SLOW * median) as u64) as f64 / lat.count() as f64;
    add("slow_share", slow.max(SLOW_MIN), format!("{} take more than {SLOW} times as long", share(slow)));
    let held = held_share(lat, STALLED * median);
    add("stall_share", held.max(STALLED_MIN), format!("{} of the time goes to reads that were held up", share(held)));
    match wander(far.intervals, OpClass::Read) {
        Some(wander) => {
            let text = format!("their latency wanders by {:.1} % within the step", wander * 100.0);
            add("wander", wander.max(WANDER_MIN), text);
        }
        None => found.missing.push("how steady it is: the step was too short".to_owned()),
    }
}

/// Share of the time that went to operations longer than `beyond_ns`.
fn held_share(lat: &Hist, beyond_ns: f64) -> f64 {
    let (mut held, mut all) = (0.0, 0.0);
    for (middle_ns, count) in lat.bins() {
        let time_ns = middle_ns as f64 * count as f64;
        all += time_ns;
        held += if middle_ns as f64 > beyond_ns { time_ns } else { 0.0 };
    }
    if all > 0.0 { held / all } else { 0.0 }
}

/// By how much (standard deviation of the logarithm) the median of blocks of time moves beyond what chance explains for
/// so many operations.
fn wander(intervals: &[Interval], class: OpClass) -> Option<f64> {
    let ops = |interval: &Interval| of_class(interval, class).map_or(0, |stream| stream.ios);
    let total: u64 = intervals.iter().map(ops).sum();
    let blocks = ((total / BLOCK_REQUESTS) as usize).min(*BLOCKS.end()).min(intervals.len());
    if blocks < *BLOCKS.start() {
        return None;
    }
    let (mut levels, mut chance) = (Vec::new(), 0.0);
    for block in 0..blocks {
        let part = &intervals[block * intervals.len() / blocks..(block + 1) * intervals.len() / blocks];
        let mut bins: Vec<(u16, u32)> = Vec::new();
        part.iter().filter_map(|i| of_class(i, class)).for_each(|stream| bins.extend(&stream.bins));
        bins.sort_unstable();
        let n: f64 = bins.iter().map(|(_, count)| f64::from(*count)).sum();
        if n < 8.0 {
            continue;
        }
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|q| quantile(&bins, q * n).ln());
        levels.push(middle);
        // A normal law's median has pi/2 times the variance of its mean; its quartiles lie 1.349 deviations apart.
        chance += std::f64::consts::FRAC_PI_2 * ((high - low) / 1.349).powi(2) / n;
    }
    let n = levels.len() as f64;
    let mean = levels.iter().sum::<f64>() / n;
    let variance = levels.iter().map(|level| (level - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (levels.len() >= *BLOCKS.start()).then(|| (variance - chance / n).max(0.0).sqrt())
}

fn of_class(interval: &Interval, class: OpClass) -> Option<&qd1_model::record::IntervalStream> {
    interval.streams.iter().find(|stream| stream.class == class)
}

/// The value with `rank` operations below it, from sorted coarse bins, interpolated inside the bin.
fn quantile(bins: &[(u16, u32)], rank: f64) -> f64 {
    let mut below = 0.0;
    for (index, group) in bins.chunk_by(|a, b| a.0 == b.0).map(|group| (group[0].0 as usize, group)) {
        let count: f64 = group.iter().map(|(_, count)| f64::from(*count)).sum();
        if below + count >= rank {
            let (low, high) = (coarse_low_ns(index) as f64, coarse_low_ns(index + 1) as f64);
            return (low + (high - low) * (rank - below) / count).max(1.0);
        }
        below += count;
    }
    bins.last().map_or(1.0, |(index, _)| coarse_low_ns(usize::from(*index)).max(1) as f64)
}

fn near_far(found: &mut FeatureSet, far: &Step<'_>, near: Option<&Step<'_>>) {
    let Some(near) = near else {
        found.missing.push("whether distance costs time: no reads stay within a small part of the file".to_owned());
        return;
    };
    let value = near.median_ns() / far.median_ns().max(1.0);
    let text = format!("reads within {} take {:.0} % as long as over {}", near.work.size, value * 100.0, far.work.size);
    found.features.push(Feature { name: "near_far", value, text });
}

fn sequential(found: &mut FeatureSet, far: &Step<'_>, forward: Option<&Step<'_>>) {
    let Some(forward) = forward else {
        found.missing.push("sequential 4 KiB reads, one at a time: the suite has none".to_owned());
        return;
    };
    let value = far.median_ns() / forward.median_ns().max(1.0);
    let text = format!("a read that continues where the last one ended is {value:.1} times as fast as a random one");
    found.features.push(Feature { name: "seq_random", value, text });
}

fn parallel(found: &mut FeatureSet, far: &Step<'_>, deep: Option<&Step<'_>>) {
    let Some(deep) = deep else {
        found.missing.push("what a deep queue gains: there are no random reads with many in flight".to_owned());
        return;
    };
    // Reads that share their step with writes do not have all of its time.
    let alone = 1e9 / far.stream.lat.mean_ns().max(1.0);
    let value = deep.rate() / alone;
    let text = format!("with {} in flight, {value:.1} times as many reads a second as with one", deep.in_flight());
    found.features.push(Feature { name: "parallel", value, text });
}

fn slope(found: &mut FeatureSet, small: Option<&Step<'_>>, large: Option<&Step<'_>>) {
    let (Some(small), Some(large)) = (small, large) else {
        found.missing.push("what a byte costs: there are no 1 MiB reads, one at a time".to_owned());
        return;
    };
    let bytes = f64::from(large.block() - small.block());
    // If size makes no difference at all, the rate is beyond that of any link.
    let value = ((large.median_ns() - small.median_ns()) / bytes).max(0.01);
    let text = format!("each extra byte costs {value:.2} ns ({}, one request at a time)", format_rate(1e9 / value));
    found.features.push(Feature { name: "size_slope", value, text });
}

/// What a direct write costs, and the flush behind it.
fn commits(found: &mut FeatureSet, far: Option<&Step<'_>>, commits: &[Step<'_>]) {
    let plain = |step: &&Step<'_>| step.direct && step.in_flight() == 1 && step.block() == SMALL;
    let Some(step) = commits.iter().find(plain) else {
        found.missing.push("what a write and a flush each cost: no direct commits by a single writer".to_owned());
        return;
    };
    let (Some(write), Some(sync)) = (&step.stream.write_part, &step.stream.sync_part) else { return };
    let [write_ns, sync_ns] = [write, sync].map(|part| part.quantile(0.5).max(1) as f64);
    let tail = step.stream.lat.quantile(0.99) as f64 / step.median_ns().max(1.0);
    let mut add = |name, value: f64, text: String| found.features.push(Feature { name, value, text });
    // Given the level of reads, only the ratio adds information.
    if let Some(far) = far {
        let (value, time) = (write_ns / far.median_ns().max(1.0), format_ns(write_ns));
        add("write_read", value, format!("direct 4 KiB writes take {time}, {} as long as reads", times(value)));
    }
    add("flush", sync_ns, format!("the flush after each takes {}", format_ns(sync_ns)));
    add("flush_tail", tail, format!("one commit in a hundred takes {tail:.1} times as long as the median"));
}

fn times(value: f64) -> String {
    if value < 0.095 { format!("{value:.3} times") } else { format!("{value:.1} times") }
}

fn share(value: f64) -> String {
    match value * 100.0 {
        percent if percent < 0.1 => "less than 0.1 %".to_owned(),
        percent if percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

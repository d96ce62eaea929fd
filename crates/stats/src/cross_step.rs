//! What the other steps of a run saw of the disk while one step was not measured.
//!
//! Steps whose visits take turns have a few seconds each, but together nearly the whole run. A phase in which the disk
//! was slow may have affected commits but no reads; the next one will affect reads. So each step's figures are computed
//! again over the time that the other steps saw, as this step would have measured it. Its own operations, corrected for
//! the level of their moment, are its *base*; wherever another step's median latency was f times its usual one, the
//! base is taken f times slower (and that much rarer, since one request waits for the one before). Single requests that
//! took many times as long as usual are stalls, which last equally long for all steps; they are used unchanged.
//!
//! Requests at their own times are few, and all that are due during a stall wait for its end. A step that happened to
//! meet no slow phase would take them as enough for a tail, so that only lucky runs would print tails: [`OPEN_SPARE`]
//! times as many are required, whatever was met. In their mean a stall twice as long weighs four times as much: if
//! stalls may matter to it ([`STALLED_MAX`], for the largest number of stalls consistent with those met) a run does not
//! know it.
//!
//! Nothing becomes more certain by this: the interval shown is the step's own one, widened to include the other. That
//! reads and commits are affected equally is an assumption; if it is wrong, intervals are too wide.

use std::collections::{BTreeMap, BTreeSet};

use qd1_model::Estimate;
use qd1_model::hist::{COARSE_BINS, coarse_index};
use qd1_model::plan::{Order, StepPlan, Sync, Work};
use qd1_model::record::StepRecord;

use crate::episodes::upper_limit;
use crate::estimate::{quantile_of, ratio, scaled, widened, with_limits};
use crate::level::{self, Belief, Evidence, Of, Widths};
use crate::rank;
use crate::series::{Batch, Quantity, Series, bin_middle_ns};

/// Number of moments of other steps examined for all steps together, several times those of a check; and the minimum
/// for each.
const MOMENTS_MAX: usize = 20_000;
const MOMENTS_MIN: usize = 250;
/// Fewest operations whose median shows the level.
const OPS_MIN: f64 = 32.0;
/// From this many times the median of its moment, a request met a stall.
const STALL: f64 = 20.0;

/// Parts into which the requests that come during a stall are divided by how long they wait.
const STALL_PARTS: u32 = 16;
/// Smallest share of the time in which a kind of operation is on its way, for its stalls to be counted over that time.
const AT_ONCE_MIN: f64 = 0.05;
/// Range of a step's own level, as a logarithm, that counts as none, and that of the others, which have their own
/// noise.
const SAME_MAX: f64 = 0.02;
const OTHERS_SAME_MAX: f64 = 0.06;
/// Share of the others' time below which a level that stays as it is shows a step that goes its own way.
const APART_MAX: f64 = 0.03;
/// How far before or after a step with one visit the others' level is that of its own time, ns.
const NEAR_NS: f64 = 7e8;
/// Requests at their own times that a percentile above the median needs, as a multiple of independent ones.
const OPEN_SPARE: f64 = 8.0;
/// From this possible share of stalls in the latencies of requests at their own times, their mean is not resolved.
const STALLED_MAX: f64 = 0.05;

/// The level of the disk in a part of a step, by one kind of operation.
#[derive(Clone)]
struct Moment {
    /// ns of the run.
    start_ns: f64,
    length_ns: f64,
    /// Median latency divided by the usual one.
    factor: f64,
    /// Requests that met stalls: coarse bins and how many, one request at a time.
    stalls: Vec<(u16, f64)>,
}

/// One kind of operation of one visited step.
struct Course {
    step: String,
    moments: Vec<Moment>,
    /// What it says about how the level moves.
    evidence: Option<Evidence>,
}

impl Course {
    /// Start and length of each visit, ns, and the logarithm of its level, the mean of its moments.
    fn visit_levels(&self) -> Vec<(f64, f64, f64)> {
        let goes_on = |one: &Moment, next: &Moment| one.start_ns + one.length_ns >= next.start_ns;
        let level = |visit: &[Moment]| {
            let length_ns: f64 = visit.iter().map(|moment| moment.length_ns).sum();
            let sum: f64 = visit.iter().map(|moment| moment.factor.ln() * moment.length_ns).sum();
            (visit[0].start_ns, length_ns, sum / length_ns.max(1.0))
        };
        self.moments.chunk_by(goes_on).map(level).collect()
    }
}

/// The level of the others around the time of a step with one visit, as a factor of the usual one; 1 if none of them
/// was near.
fn level_near(others: &[&Course], start_ns: f64, end_ns: f64) -> f64 {
    let distance =
        |moment: &Moment| (start_ns - moment.start_ns - moment.length_ns).max(moment.start_ns - end_ns).max(0.0);
    let near = others.iter().flat_map(|course| &course.moments).filter(|moment| distance(moment) < NEAR_NS);
    let (sum, length_ns) = near.fold((0.0, 0.0), |(sum, all_ns), moment| {
        (sum + moment.factor.ln() * moment.length_ns, all_ns + moment.length_ns)
    });
    if length_ns > 0.0 { (sum / length_ns).exp() } else { 1.0 }
}

/// The largest minus the smallest; 0 if there are none.
fn range(values: impl Iterator<Item = f64>) -> f64 {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    (high - low).max(0.0)
}

/// The courses of all steps of a run whose visits take turns.
#[derive(Default)]
pub struct CrossStep {
    courses: Vec<Course>,
    /// Steps whose requests are due at their own times.
    is_open: BTreeSet<String>,
    /// Steps with one visit that suffer as those with several do: requests one after another, as fast as the disk is.
    once: BTreeSet<String>,
}

impl CrossStep {
    /// From the steps of a run, as planned and as measured; empty if none of them has visits.
    #[must_use]
    pub fn new(planned: &[StepPlan], steps: &[StepRecord]) -> Self {
        let open = planned.iter().filter(|planned| planned.is_open());
        let is_open: BTreeSet<String> = open.map(|planned| planned.name.clone()).collect();
        let visited = steps.iter().filter_map(|step| {
            // The most frequent kind of operation of each says most about its times.
            let most = step.streams.iter().max_by_key(|stream| stream.lat.count())?;
            let series = Series::while_active(&step.intervals, most.class);
            let is_visited = series.visits().len() > 1;
            // Requests at their own times come too rarely to show the level.
            let moments = |series| {
                if is_open.contains(&step.name) { Vec::new() } else { moments(series, step.started_ns as f64) }
            };
            is_visited.then(|| Course {
                step: step.name.clone(),
                evidence: Evidence::new(&series, Of::Latency),
                moments: moments(&series),
            })
        });
        let is_plain = |planned: &&StepPlan| {
            planned.visits <= 1
                && !planned.is_open()
                && matches!(&planned.work, Work::Io(io) if io.sync != Sync::EndFsync && io.order != Order::RandomFull)
        };
        let once = planned.iter().filter(is_plain).map(|planned| planned.name.clone()).collect();
        Self { courses: visited.collect(), is_open, once }
    }

    /// What the other steps show about how the level of `step` moves.
    #[must_use]
    pub fn belief(&self, step: &StepRecord, own: &Series) -> Belief {
        let others = self.others(step).into_iter();
        let known = Belief::from_others(others.filter_map(|course| course.evidence.as_ref()));
        if self.is_apart(own, step) { known.apart() } else { known }
    }

    /// The other steps with visits; `None` for a step that is not affected as they are.
    fn others(&self, step: &StepRecord) -> Vec<&Course> {
        let others: Vec<&Course> = self.courses.iter().filter(|course| course.step != step.name).collect();
        let is_visited = others.len() < self.courses.len();
        if is_visited || self.once.contains(&step.name) { others } else { Vec::new() }
    }

    /// Whether a step with one visit goes its own way: the others' level hardly ever stays this constant for so long.
    ///
    /// A rate held by a limit of the disk is the same whatever neighbours do.
    fn is_apart(&self, own: &Series, step: &StepRecord) -> bool {
        let (visits, others) = (own.visits(), self.others(step));
        let [visit] = &visits[..] else { return false };
        let length_ns: f64 = own.batches()[visit.clone()].iter().map(|batch| batch.length_ns).sum();
        // Each visit of the others as a whole, without the noise of its moments.
        let mut levels: Vec<(f64, f64, f64)> = others.iter().flat_map(|course| course.visit_levels()).collect();
        levels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let each_ns = levels.iter().map(|(_, length_ns, _)| length_ns).sum::<f64>() / levels.len().max(1) as f64;
        let parts = ((length_ns / each_ns.max(1.0)) as usize).clamp(2, 8);
        let size = visit.len().div_ceil(parts).max(1);
        // Its rate, since a median that differs by less than a bin is not known as well.
        let rates = visit.clone().step_by(size).map(|from| {
            let part = &own.batches()[from..(from + size).min(visit.end)];
            let sum = |of: fn(&Batch) -> f64| part.iter().map(of).sum::<f64>();
            (sum(|batch| batch.ios).max(0.5) / sum(|batch| batch.length_ns).max(1.0)).ln()
        });
        if range(rates) > SAME_MAX {
            return false;
        }
        let windows: Vec<f64> = levels.windows(parts).map(|window| range(window.iter().map(|one| one.2))).collect();
        let alike = windows.iter().filter(|range| **range <= OTHERS_SAME_MAX).count();
        !windows.is_empty() && (alike as f64) < APART_MAX * windows.len() as f64
    }

    /// What `step` would have measured instead of `own`, had it run all the time; `None` without visits or other steps.
    #[must_use]
    pub fn estimate(&self, step: &StepRecord, own: &Series, belief: &Belief) -> Option<CrossEstimates> {
        let others = self.others(step);
        if others.is_empty() {
            return None;
        }
        let started_ns = step.started_ns as f64;
        let mut own_moments = moments(own, started_ns);
        let is_apart = belief.is_apart();
        if own.visits().len() == 1 && !is_apart {
            let end_ns = own_moments.last().map_or(started_ns, |last| last.start_ns + last.length_ns);
            let near = level_near(&others, started_ns, end_ns);
            own_moments.iter_mut().for_each(|moment| moment.factor *= near);
        }
        let mut base = Base::new(own, &own_moments, self.is_open.contains(&step.name))?;
        let there = some_of(&others)
            .map(|moment| {
                let factor = if is_apart { 1.0 } else { moment.factor };
                base.at(&Moment { factor, ..moment.clone() }, moment.start_ns - started_ns)
            })
            .collect();
        let series = own.clone().with(there);
        let latencies_ns: f64 = series.each(Quantity::LatSum).iter().sum();
        let stalled = base.is_open.then(|| base.stalled_at_most_ns() / latencies_ns);
        Some(CrossEstimates {
            widths: belief.widths(own, &series),
            width_of_rate: belief.half_width(own, Of::Rate, &series),
            series,
            stalled,
        })
    }
}

/// Moments of the other steps: if there are more than each step's part of [`MOMENTS_MAX`], those of every second step,
/// or third. Their visits take turns, so they still see the whole run; with all of them a run of a hundred such steps
/// took a minute.
fn some_of<'a>(others: &'a [&'a Course]) -> impl Iterator<Item = &'a Moment> {
    let count: usize = others.iter().map(|course| course.moments.len()).sum();
    let most = (MOMENTS_MAX / (others.len() + 1)).max(MOMENTS_MIN);
    others.iter().step_by(count.div_ceil(most).max(1)).flat_map(|course| &course.moments)
}

/// The figures of a step over the time of the whole run.
pub struct CrossEstimates {
    series: Series,
    widths: Widths,
    /// The same of rates.
    width_of_rate: f64,
    /// For requests at their own times, the share that stalls may have in the sum of all latencies.
    stalled: Option<f64>,
}

impl CrossEstimates {
    /// Quantile `q` of the latencies, ns.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Estimate {
        let at = |rank| self.series.at_rank(rank);
        level::beyond(
            quantile_of(&self.series, self.series.n, q, at),
            at(0.5 * self.series.n as f64),
            q,
            self.widths.of_quantile(q),
        )
    }

    /// Mean latency, ns.
    #[must_use]
    pub fn mean(&self) -> Estimate {
        if self.stalled.is_some_and(|share| share.is_nan() || share > STALLED_MAX) {
            return Estimate { n: self.series.n, n_needed: 2 * self.series.n, ..Estimate::default() };
        }
        widened(ratio(&self.series, Quantity::LatSum, Quantity::Ios), self.widths.mean)
    }

    /// Operations per second.
    #[must_use]
    pub fn rate(&self) -> Estimate {
        self.per_second(Quantity::Ios)
    }

    /// Bytes per second.
    #[must_use]
    pub fn byte_rate(&self) -> Estimate {
        self.per_second(Quantity::Bytes)
    }

    fn per_second(&self, quantity: Quantity) -> Estimate {
        let rate = ratio(&self.series, quantity, Quantity::Length);
        scaled(widened(rate, self.width_of_rate), 1e9)
    }
}

/// Quantile `q` of requests at their own times, which are too few for a tail (see the top).
#[must_use]
pub fn at_own_times(estimate: Estimate, q: f64) -> Estimate {
    let needed = OPEN_SPARE * rank::samples_needed(q);
    if q <= 0.5 || estimate.n as f64 >= needed {
        return estimate;
    }
    Estimate { value: None, high: None, n_needed: (needed as u64).max(estimate.n_needed), ..estimate }
}

/// A step's own figure with an interval that includes both; not resolved if one of them is not.
#[must_use]
pub fn union(own: Estimate, around: Option<Estimate>) -> Estimate {
    let Some(around) = around else { return own };
    let low = own.low.zip(around.low).map(|(own, around)| own.min(around));
    if own.is_resolved() && !around.is_resolved() {
        let longer = around.n_needed as f64 / around.n.max(1) as f64;
        let n_needed = (own.n as f64 * longer.max(1.0)).ceil() as u64;
        return Estimate { value: None, low, high: None, n_needed, ..own };
    }
    let high = own.high.zip(around.high).map(|(own, around)| own.max(around));
    with_limits(own, low, high)
}

/// The level over time: as many neighbouring batches of a visit as contain [`OPS_MIN`] operations form a moment.
fn moments(series: &Series, started_ns: f64) -> Vec<Moment> {
    // First with the median itself as its factor.
    let mut all: Vec<Moment> = Vec::new();
    for visit in series.visits() {
        let mut from = visit.start;
        while from < visit.end {
            let mut to = from;
            let mut ios = 0.0;
            while to < visit.end && ios < OPS_MIN {
                ios += series.batches()[to].ios;
                to += 1;
            }
            // The rest of a visit belongs to its last moment.
            if series.batches()[to..visit.end].iter().map(|batch| batch.ios).sum::<f64>() < OPS_MIN {
                to = visit.end;
            }
            let part = &series.batches()[from..to];
            // A visit in which nothing was completed shows no level.
            let Some(median) = series.median_of(from..to) else { break };
            let (length_ns, lat_sum_ns) =
                part.iter().fold((0.0, 0.0), |sum, batch| (sum.0 + batch.length_ns, sum.1 + batch.lat_sum_ns));
            let at_once = (lat_sum_ns / length_ns.max(1.0)).max(AT_ONCE_MIN);
            let is_stall = |bin: u16| bin_middle_ns(usize::from(bin)) > STALL * median;
            let bins = part.iter().flat_map(|batch| batch.bins.iter());
            let stalls = bins.filter(|(bin, _)| is_stall(*bin)).map(|(bin, count)| (*bin, f64::from(*count) / at_once));
            let (start_ns, stalls) = (started_ns + part[0].start_ns, stalls.collect());
            all.push(Moment { start_ns, length_ns, factor: median, stalls });
            from = to;
        }
    }
    let usual = weighted_median(all.iter().map(|moment| (moment.factor, moment.length_ns)).collect());
    all.iter_mut().for_each(|moment| moment.factor /= usual.max(1.0));
    all
}

/// The value with half of the weight on each side; 1 if there are none.
fn weighted_median(mut values: Vec<(f64, f64)>) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = 0.5 * values.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut below = 0.0;
    let middle = values.iter().find(|(_, weight)| {
        below += weight;
        below >= half
    });
    middle.map_or(1.0, |(value, _)| *value)
}

/// What a step measures on the disk at its usual level, without stalls.
struct Base {
    /// Share of the operations in each coarse bin.
    shares: Vec<(usize, f64)>,
    /// Sum of the latencies divided by that of the middles of their bins.
    exact: f64,
    /// Operations per ns.
    rate: f64,
    /// Bytes of each.
    bytes: f64,
    /// Requests on their way at a time.
    at_once: f64,
    /// Whether requests are due at their own times: as many then, however slow the disk is, and all of them meet a stall
    /// that come during it.
    is_open: bool,
    /// Parts of operations that are still owed, of each entry of `shares`, and of stalls.
    owed: Vec<f64>,
    owed_stalls: f64,
    /// Sum of the latencies of requests that met stalls, of the step itself and, at their own times, of the others.
    stalled_ns: f64,
    /// Moments with stalls.
    stalls: f64,
}

impl Base {
    fn new(own: &Series, moments: &[Moment], is_open: bool) -> Option<Self> {
        let mut bins = vec![0.0; COARSE_BINS];
        let (mut ios, mut usual_ns, mut exact_sum, mut middle_sum, mut all_stalled_ns) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let mut all_stalls = 0.0;
        let usual_median = own.at_rank(0.5 * own.n as f64);
        let first = own.batches().first()?;
        let started_ns = moments.first()?.start_ns - first.start_ns;
        let mut later = moments.iter().peekable();
        let mut factor = 1.0;
        for batch in own.batches() {
            while let Some(moment) = later.next_if(|moment| moment.start_ns <= started_ns + batch.start_ns) {
                factor = moment.factor;
            }
            let (mut stalled_ns, mut stalls) = (0.0, 0.0);
            for (bin, count) in &batch.bins {
                let (lat_ns, count) = (bin_middle_ns(usize::from(*bin)), f64::from(*count));
                if lat_ns > STALL * usual_median * factor {
                    (stalled_ns, stalls) = (stalled_ns + count * lat_ns, stalls + count);
                    continue;
                }
                bins[coarse_index((lat_ns / factor) as u64).min(COARSE_BINS - 1)] += count;
                middle_sum += count * lat_ns / factor;
            }
            all_stalled_ns += stalled_ns;
            all_stalls += f64::from(stalls > 0.0);
            ios += batch.ios - stalls;
            exact_sum += (batch.lat_sum_ns - stalled_ns).max(0.0) / factor;
            usual_ns += if is_open { batch.length_ns } else { batch.length_ns / factor };
        }
        let sum = |of: fn(&Batch) -> f64| own.batches().iter().map(of).sum::<f64>();
        let filled = bins.iter().enumerate().filter(|(_, count)| **count > 0.0);
        let shares: Vec<(usize, f64)> = filled.map(|(bin, count)| (bin, count / ios)).collect();
        (ios > 0.0 && usual_ns > 0.0).then(|| Self {
            owed: vec![0.5; shares.len()],
            is_open,
            shares,
            exact: exact_sum / middle_sum,
            rate: ios / usual_ns,
            bytes: sum(|batch| batch.bytes) / own.n as f64,
            at_once: sum(|batch| batch.lat_sum_ns) / sum(|batch| batch.length_ns),
            owed_stalls: 0.5,
            stalled_ns: all_stalled_ns,
            stalls: all_stalls,
        })
    }

    /// What requests may wait in stalls, ns, if the run met the smallest number of them to be expected.
    fn stalled_at_most_ns(&self) -> f64 {
        if self.stalls > 0.0 { self.stalled_ns * upper_limit(self.stalls) / self.stalls } else { 0.0 }
    }

    /// What it measures in a moment of the disk.
    fn at(&mut self, moment: &Moment, start_ns: f64) -> Batch {
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        let mut batch = Batch { start_ns, length_ns: moment.length_ns, ..Batch::default() };
        let mut add = |bin: usize, count: f64, lat_ns: f64| {
            if count > 0.0 {
                let of_bin = counts.entry(bin.min(COARSE_BINS - 1)).or_default();
                *of_bin = of_bin.saturating_add(count as u32);
                (batch.ios, batch.lat_sum_ns) = (batch.ios + count, batch.lat_sum_ns + count * lat_ns);
            }
        };
        let mut waited_ns = 0.0;
        self.stalls += f64::from(!moment.stalls.is_empty());
        for (bin, count) in &moment.stalls {
            let lat_ns = bin_middle_ns(usize::from(*bin));
            waited_ns += count * lat_ns;
            if !self.is_open {
                add(usize::from(*bin), whole(&mut self.owed_stalls, count * self.at_once), lat_ns);
                continue;
            }
            // Requests that arrive early in it wait long, and those that arrive late wait briefly.
            for part in 0..STALL_PARTS {
                let left_ns = lat_ns * (f64::from(part) + 0.5) / f64::from(STALL_PARTS);
                let here = count * self.rate * lat_ns / f64::from(STALL_PARTS);
                self.stalled_ns += here * left_ns;
                add(coarse_index(left_ns as u64), whole(&mut self.owed_stalls, here), left_ns);
            }
        }
        let ready_ns = (moment.length_ns - waited_ns).max(0.0);
        let expected = self.rate * if self.is_open { ready_ns } else { ready_ns / moment.factor };
        for ((bin, share), owed) in self.shares.iter().zip(&mut self.owed) {
            let lat_ns = bin_middle_ns(*bin) * moment.factor;
            add(coarse_index(lat_ns as u64), whole(owed, expected * share), lat_ns * self.exact);
        }
        batch.bytes = batch.ios * self.bytes;
        batch.bins = counts.into_iter().map(|(bin, count)| (bin as u16, count)).collect();
        batch
    }
}

/// Adds `more` to the amount owed, and takes the whole operations from it: over many moments each bin gets its share.
fn whole(owed: &mut f64, more: f64) -> f64 {
    *owed += more;
    let whole = owed.floor();
    *owed -= whole;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::hist::CoarseHist;
    use qd1_model::record::{Interval, IntervalStream, Stream};
    use qd1_model::{Hist, OpClass};

    const SECOND_NS: u64 = 1_000_000_000;

    /// Twelve visits of half a second, 4 s apart from `started_ns` on; the latencies of an interval of 100 ms by the
    /// number of its visit.
    fn step(name: &str, class: OpClass, started_ns: u64, latencies: impl Fn(u64) -> Vec<u64>) -> StepRecord {
        let mut lat = Hist::new();
        let mut intervals = Vec::new();
        for number in 0..12 * 5 {
            let mut coarse = CoarseHist::default();
            let all = latencies(number / 5);
            all.iter().for_each(|lat_ns| {
                lat.record(*lat_ns);
                coarse.record(*lat_ns);
            });
            let (ios, lat_sum_ns, lat_max_ns) = (all.len() as u64, all.iter().sum(), *all.iter().max().unwrap());
            let stream =
                IntervalStream { class, ios, bytes: ios * 4096, lat_sum_ns, lat_max_ns, bins: coarse.sparse() };
            let start_ns = number / 5 * 4 * SECOND_NS + number % 5 * 100_000_000;
            intervals.push(Interval { start_ns, length_ns: 100_000_000, streams: vec![stream] });
        }
        let parts = (None, None, None, None);
        let stream = Stream {
            class,
            bytes: qd1_model::Bytes(lat.count() * 4096),
            lat,
            slat: parts.0,
            clat: parts.1,
            write_part: parts.2,
            sync_part: parts.3,
            slowest: Vec::new(),
            waits: None,
            in_device: None,
        };
        StepRecord { name: name.to_owned(), started_ns, streams: vec![stream], intervals, ..StepRecord::default() }
    }

    /// As many operations of about this latency as fit into 100 ms, one after another.
    fn busy(lat_ns: u64) -> Vec<u64> {
        (0..100_000_000 / lat_ns).map(|number| lat_ns + lat_ns / 10 * (number * 7 % 5) / 5).collect()
    }

    fn reads() -> StepRecord {
        step("reads", OpClass::Read, 0, |_| busy(100_000))
    }

    /// Commits whose visits lie between those of the reads.
    fn commits(latencies: impl Fn(u64) -> Vec<u64>) -> StepRecord {
        step("commits", OpClass::Commit, 2 * SECOND_NS, latencies)
    }

    fn around(steps: &[StepRecord; 2]) -> CrossEstimates {
        estimate_in(&cross_step(steps), steps).unwrap()
    }

    fn estimate_in(seen: &CrossStep, steps: &[StepRecord]) -> Option<CrossEstimates> {
        let own = Series::while_active(&steps[0].intervals, OpClass::Read);
        seen.estimate(&steps[0], &own, &seen.belief(&steps[0], &own))
    }

    fn cross_step(steps: &[StepRecord]) -> CrossStep {
        CrossStep::new(&[], steps)
    }

    /// Regression: a visit of commits in which none was completed passed for one with latencies of a nanosecond:
    /// billions of reads were expected from it.
    #[test]
    fn a_visit_in_which_nothing_was_completed_tells_no_level() {
        let mut steps = [reads(), commits(|_| busy(30_000_000))];
        let expected = around(&steps).quantile(0.5).value.unwrap();
        let of_visit = |interval: &&mut Interval| interval.start_ns / (4 * SECOND_NS) == 3;
        steps[1].intervals.iter_mut().filter(of_visit).for_each(|interval| interval.streams.clear());
        let seen = around(&steps);
        let (median, all) = (seen.quantile(0.5).value.unwrap(), seen.series.n as f64);
        assert!((median / expected - 1.0).abs() < 0.1, "{median} and not {expected}");
        let once = steps[0].streams[0].lat.count() as f64;
        assert!((1.5..3.0).contains(&(all / once)), "{all} reads beside {once}");
    }

    #[test]
    fn steady_others_leave_a_step_as_it_is() {
        let steps = [reads(), commits(|_| busy(1_000_000))];
        let (around, own) = (around(&steps), crate::mean(&steps[0].streams[0].lat, &steps[0].intervals, OpClass::Read));
        let ratio = around.mean().value.unwrap() / own.value.unwrap();
        assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
        let rate = around.rate().value.unwrap() / crate::rate(&steps[0].intervals, OpClass::Read).value.unwrap();
        assert!((rate - 1.0).abs() < 0.02, "{rate}");
    }

    #[test]
    fn a_slow_phase_that_only_commits_met_is_in_the_interval_of_reads() {
        let slow = |visit| if visit == 5 || visit == 9 { busy(5_000_000) } else { busy(1_000_000) };
        let steps = [reads(), commits(slow)];
        let own = crate::quantile(&steps[0].streams[0].lat, &steps[0].intervals, OpClass::Read, 0.99);
        let seen = union(own, Some(around(&steps).quantile(0.99)));
        assert!(own.high.unwrap() < 120_000.0, "{own:?}");
        assert!(seen.high.is_none_or(|high| high > 450_000.0), "{seen:?}");
        assert!(seen.low.unwrap() <= own.low.unwrap() && seen.value.is_none_or(|value| Some(value) == own.value));
    }

    /// Commits of 1 ms; those of every third visit meet a stall of 60 ms in each 100.
    fn stalled(visit: u64) -> Vec<u64> {
        let mut latencies = busy(1_000_000);
        if visit % 3 == 1 {
            latencies.truncate(90);
            latencies.push(60_000_000);
        }
        latencies
    }

    #[test]
    fn of_few_requests_at_their_own_times_no_tail_is_known_and_no_mean_where_others_met_stalls() {
        // 100 a second: 600.
        let reads = || step("reads", OpClass::Read, 0, |_| busy(100_000)[..10].to_vec());
        let others_with = |latencies: fn(u64) -> Vec<u64>| {
            let steps = [reads(), commits(latencies)];
            let mut seen = cross_step(&steps);
            seen.is_open.insert("reads".to_owned());
            estimate_in(&seen, &steps).unwrap()
        };
        let steady = others_with(|_| busy(1_000_000));
        assert!(steady.quantile(0.5).is_resolved() && steady.mean().is_resolved());
        let own = crate::quantile(&reads().streams[0].lat, &reads().intervals, OpClass::Read, 0.99);
        let p99 = at_own_times(own, 0.99);
        assert!(own.is_resolved() && !p99.is_resolved() && p99.low == own.low && p99.n_needed > p99.n, "{p99:?}");
        assert_eq!(at_own_times(own, 0.5), own);
        let stalled = others_with(stalled);
        assert!(stalled.quantile(0.5).is_resolved() && !stalled.mean().is_resolved());
    }

    /// Regression: a run that met one stall of a disk that has more of them printed a mean that was too low.
    #[test]
    fn one_stall_that_others_met_may_stand_for_more_in_the_mean_at_own_times() {
        let reads = step("reads", OpClass::Read, 0, |_| busy(100_000)[..10].to_vec());
        let with_stall_of = |stall_ns: u64| {
            let mut steps = [reads.clone(), commits(|_| busy(200_000))];
            let met = commits(|_| [busy(200_000), vec![stall_ns]].concat());
            steps[1].intervals[20] = met.intervals[20].clone();
            let mut seen = cross_step(&steps);
            seen.is_open.insert("reads".to_owned());
            estimate_in(&seen, &steps).unwrap()
        };
        let share = |around: &CrossEstimates| around.stalled.unwrap() / upper_limit(1.0);
        let short = with_stall_of(4_200_000);
        assert!(share(&short) < STALLED_MAX / 5.0 && short.mean().is_resolved(), "{}", share(&short));
        let long = with_stall_of(8_000_000);
        assert!(share(&long) < STALLED_MAX && !long.mean().is_resolved(), "{}", share(&long));
    }

    #[test]
    fn stalls_that_others_met_are_in_the_mean() {
        let steps = [reads(), commits(stalled)];
        let own = crate::mean(&steps[0].streams[0].lat, &steps[0].intervals, OpClass::Read);
        let seen = union(own, Some(around(&steps).mean()));
        assert!(seen.high.unwrap() > 1.1 * own.high.unwrap(), "{own:?} {seen:?}");
    }

    #[test]
    fn without_visits_or_without_others_there_is_nothing_around() {
        let steps = [reads()];
        assert!(estimate_in(&cross_step(&steps), &steps).is_none());
        let mut steps = [reads(), commits(|_| busy(1_000_000))];
        for step in &mut steps {
            step.intervals.iter_mut().enumerate().for_each(|(at, one)| one.start_ns = at as u64 * 100_000_000);
        }
        assert!(estimate_in(&cross_step(&steps), &steps).is_none());
    }
}

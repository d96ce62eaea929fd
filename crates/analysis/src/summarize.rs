//! From what a step measured to the figures shown for it: one row of estimates per kind of operation.

use qd1_model::figure::Estimate;
use qd1_model::figure::WithoutWaits;
use qd1_model::op::OpClass;
use qd1_model::plan::{StepPlan, Sync, Work};
use qd1_model::record::{Background, Record, StepRecord, Stream};
use qd1_model::{LoadSummary, StepSummary, StreamSummary, Summary};

use crate::apps::Shortfall;
use crate::tail;
use qd1_stats::{self as stats, Belief, CrossEstimates, CrossStep, Quantiles, Series, Stalls, at_own_times, union};

/// Relative error of a latency without waits ([`qd1_model::Hist::to_two_digits`]).
const RESOLUTION: f64 = 0.005;

/// Every figure of every step, with intervals.
#[must_use]
pub fn summarize(record: &Record) -> Summary {
    let cross_step = cross_step(record);
    let of_classes = OpClass::ALL.map(|class| (class, Stalls::new(visited(record), class)));
    let stalls_of = |plan: Option<&StepPlan>, stream: &Stream| {
        let is_visited = plan.is_some_and(|plan| plan.visits > 1);
        let mut of_class = of_classes.iter().filter(|(class, _)| is_visited && *class == stream.class);
        of_class.find_map(|(_, stalls)| stalls.as_ref())
    };
    let steps = record
        .steps
        .iter()
        .map(|step| {
            let plan = record.plan.steps.iter().find(|plan| plan.name == step.name);
            StepSummary {
                name: step.name.clone(),
                title: plan.map_or_else(|| step.name.clone(), |plan| plan.title.clone()),
                engine: step.engine.map_or_else(String::new, |engine| engine.name().to_owned()),
                runtime_ns: step.runtime_ns,
                ended: step.ended,
                errors: step.errors.iter().map(|error| error.count).sum(),
                streams: step
                    .streams
                    .iter()
                    .map(|stream| StreamSummary {
                        stall_longest_ns: stalls_of(plan, stream).map(Stalls::longest),
                        stall_share: stalls_of(plan, stream).map(Stalls::share),
                        ..summarize_stream(step, plan, stream, &cross_step)
                    })
                    .collect(),
                background: step.background.iter().flat_map(load).collect(),
            }
        })
        .collect();
    Summary { steps }
}

/// What the steps of a run say about each other; nothing in a check over hours, whose steps see the same moments.
pub(crate) fn cross_step(record: &Record) -> CrossStep {
    if record.plan.over.is_some() {
        return CrossStep::default();
    }
    CrossStep::new(&record.plan.steps, &record.steps)
}

/// The steps with visits, and whether their requests are due at their own times.
fn visited(record: &Record) -> impl Iterator<Item = (&StepRecord, bool)> {
    let planned = record.plan.steps.iter().filter(|planned| planned.visits > 1);
    planned.filter_map(|planned| Some((record.step(&planned.name)?, planned.is_open())))
}

/// What a background load did, for each kind of operation.
fn load(background: &Background) -> impl Iterator<Item = LoadSummary> {
    let seconds = background.runtime_ns.max(1) as f64 / 1e9;
    background.streams.iter().map(move |stream| LoadSummary {
        class: stream.class,
        iops: stream.lat.count() as f64 / seconds,
        bytes_per_second: stream.bytes.0 as f64 / seconds,
    })
}

/// One stream.
fn summarize_stream(
    step: &StepRecord,
    plan: Option<&StepPlan>,
    stream: &Stream,
    cross_step: &CrossStep,
) -> StreamSummary {
    let class = stream.class;
    let percentiles = Percentiles::new(step, plan, stream, cross_step);
    let Percentiles { ref quantiles, ref around, ref shortfall, ref belief, is_open, .. } = percentiles;
    let in_run = |own: Estimate, of: &dyn Fn(&CrossEstimates) -> Estimate| union(own, around.as_ref().map(of));
    let of_sync = stream.sync_part.as_ref().map(|part| quantiles.of_part(part));
    let quantile = |q: f64| percentiles.at(q);
    // What the other steps saw is known for whole operations; their parts are assumed to be affected equally.
    let sync_quantile = |q: f64| of_sync.as_ref().map_or_else(Estimate::default, |part| part.at(q));
    let medians = stream.sync_part.as_ref().map(|part| (part.quantile(0.5) as f64, stream.lat.quantile(0.5) as f64));
    let share_of_sync = medians.filter(|(_, whole)| *whole > 0.0).map(|(part, whole)| (part / whole).min(1.0));
    // No part takes longer than the whole, whatever the bins of the two are.
    let of_sync = of_sync.as_ref().map(|part| {
        let own = |q: f64| at_most(as_much(part.at(q), quantiles.at(q), quantile(q)), quantile(q));
        let [p50, p99] = [0.5, 0.99].map(own);
        // If there are too few, the sync gets its usual share of what is known about the whole.
        let low = p50.low.or_else(|| Some(quantile(0.5).low? * share_of_sync?));
        ordered([Estimate { low, ..p50 }, p99])
    });
    let is_as_asked = is_open && shortfall.is_none();
    let (iops, bytes_per_second) = rates(step, plan, stream, belief, is_as_asked);
    let [p50, p99, p999, p9999] = ordered([0.5, 0.99, 0.999, 0.9999].map(quantile));
    let sync_p99_ns = of_sync.map(|[_, p99]| p99);
    let without_waits = stream.waits.as_ref().and_then(|waits| waits.lat.as_ref()).map(|lat| {
        let shorter = quantiles.of_part(lat);
        let tail = [(0.99, p99), (0.999, p999), (0.9999, p9999)];
        let [p99, p999, p9999] =
            ordered(tail.map(|(q, whole)| shorter_than(as_much(shorter.at(q), quantiles.at(q), whole), whole)));
        WithoutWaits {
            lat_p99_ns: p99,
            lat_p999_ns: p999,
            lat_p9999_ns: p9999,
            sync_p99_ns: sync_p99_ns.map(|whole| match stream.waits.as_ref().and_then(|waits| waits.sync.as_ref()) {
                Some(sync) => {
                    let own = quantiles.of_part(sync).at(0.99);
                    shorter_than(as_much(own, sync_quantile(0.99), whole), whole)
                }
                None => whole,
            }),
        }
    });
    StreamSummary {
        class,
        ios: stream.lat.count(),
        iops: if is_open { iops } else { in_run(iops, &CrossEstimates::rate) },
        bytes_per_second: if is_open { bytes_per_second } else { in_run(bytes_per_second, &CrossEstimates::byte_rate) },
        lat_mean_ns: match shortfall {
            Some(_) => Estimate { n: stream.lat.count(), ..Estimate::default() },
            None => in_run(quantiles.mean(&stream.lat), &CrossEstimates::mean),
        },
        lat_p50_ns: p50,
        lat_p99_ns: p99,
        lat_p999_ns: p999,
        lat_p9999_ns: p9999,
        lat_max_ns: stream.lat.max_ns(),
        sync_p50_ns: of_sync.map(|[p50, _]| p50),
        sync_p99_ns,
        stall_longest_ns: None,
        stall_share: None,
        without_waits,
        tail: tail::time(stream),
    }
}

/// A figure without the waits for a processor, if that is less than the whole by more than the histogram can be off;
/// otherwise the whole.
fn shorter_than(without: Estimate, whole: Estimate) -> Estimate {
    let Some((value, whole_value)) = without.value.zip(whole.value) else { return without };
    if value >= (1.0 - RESOLUTION) * whole_value {
        return whole;
    }
    at_most(without, whole)
}

/// A figure that cannot be above another, with its interval.
fn at_most(figure: Estimate, whole: Estimate) -> Estimate {
    let least = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a.min(b)).or(a);
    Estimate {
        value: least(figure.value, whole.value),
        low: least(figure.low, whole.low),
        high: least(figure.high, whole.high),
        ..figure
    }
}

/// Percentiles of one stream with their intervals, using everything known about the run.
pub(crate) struct Percentiles {
    quantiles: Quantiles,
    around: Option<CrossEstimates>,
    /// What the other steps show about its level.
    belief: Belief,
    /// Whether requests came at their own times.
    is_open: bool,
    shortfall: Option<Shortfall>,
    ios: u64,
}

impl Percentiles {
    pub(crate) fn new(step: &StepRecord, plan: Option<&StepPlan>, stream: &Stream, cross_step: &CrossStep) -> Self {
        let series = Series::while_active(&step.intervals, stream.class);
        let belief = cross_step.belief(step, &series);
        let quantiles = Quantiles::knowing(&belief, &stream.lat, series);
        Self {
            around: cross_step.estimate(step, quantiles.series(), &belief),
            quantiles,
            belief,
            is_open: plan.is_some_and(StepPlan::is_open),
            shortfall: plan.and_then(|plan| Shortfall::of(plan, step)),
            ios: stream.lat.count(),
        }
    }

    /// Returns the latency at quantile `q`, ns.
    pub(crate) fn at(&self, q: f64) -> Estimate {
        let Some(shortfall) = &self.shortfall else {
            let seen = union(self.quantiles.at(q), self.around.as_ref().map(|around| around.quantile(q)));
            let low = seen.low.or_else(|| self.quantiles.least_of_visits().filter(|_| q >= 0.5));
            let seen = Estimate { low, ..seen };
            return if self.is_open { at_own_times(seen, q) } else { seen };
        };
        // Those without an answer are above it only if they are known to have waited longer.
        let waited_ns = shortfall.waited_ns.unwrap_or(0.0);
        let among_answered =
            (!shortfall.hides(q)).then(|| at_own_times(self.quantiles.at(q / (1.0 - shortfall.share())), q));
        among_answered.filter(|seen| seen.high.is_some_and(|high| high <= waited_ns)).unwrap_or_else(|| Estimate {
            low: shortfall.waited_ns.filter(|_| shortfall.hides(q)),
            n: self.ios,
            ..Estimate::default()
        })
    }
}

/// The figure of a part, its limits widened as much as those of the whole were from `own` to `seen`.
fn as_much(part: Estimate, own: Estimate, seen: Estimate) -> Estimate {
    let further = |part: Option<f64>, own: Option<f64>, seen: Option<f64>| Some(part? * (seen? / own?));
    if own.is_resolved() && !seen.is_resolved() {
        let low = further(part.low, own.low, seen.low);
        return Estimate { value: None, low, high: None, n_needed: seen.n_needed, ..part };
    }
    let low = further(part.low, own.low, seen.low).or(part.low);
    let high = further(part.high, own.high, seen.high).or(part.high);
    Estimate { low, high, ..part }
}

/// Percentiles from the lowest to the highest, each limit no lower than that of the one before: what bounds a percentile
/// from below bounds all higher ones, and what bounds it from above all lower ones.
pub(crate) fn in_order(quantiles: &mut [Estimate]) {
    for at in 1..quantiles.len() {
        quantiles[at].low = [quantiles[at].low, quantiles[at - 1].low].into_iter().flatten().reduce(f64::max);
    }
    for at in (1..quantiles.len()).rev() {
        if let (Some(lower), Some(upper)) = (quantiles[at - 1].high, quantiles[at].high) {
            quantiles[at - 1].high = Some(lower.min(upper));
        }
    }
}

fn ordered<const N: usize>(mut quantiles: [Estimate; N]) -> [Estimate; N] {
    in_order(&mut quantiles);
    quantiles
}

/// Operations and bytes per second.
///
/// Four cases. Requests at their own times, all of them answered, have the requested rate. File operations that take
/// turns in a step have the rate over their own time. If one fsync ends the step, the data is on the disk only after
/// it: the rate is all bytes over all time, and it has no interval, because one drain is one observation. Otherwise it
/// is the rate over the intervals.
fn rates(
    step: &StepRecord,
    plan: Option<&StepPlan>,
    stream: &Stream,
    belief: &Belief,
    is_as_asked: bool,
) -> (Estimate, Estimate) {
    let class = stream.class;
    let (ios, bytes) = (stream.lat.count(), stream.bytes.0 as f64);
    if is_as_asked {
        // It was requested, and is not a figure of the disk.
        let seconds = step.runtime_ns.max(1) as f64 / 1e9;
        return (Estimate::exact(ios as f64 / seconds, ios), Estimate::exact(bytes / seconds, ios));
    }
    let files = plan.and_then(|plan| if let Work::Files(files) = &plan.work { Some(files) } else { None });
    let takes_turns = files.is_none_or(|files| files.ops.len() > 1);
    if takes_turns && is_of_many_files(class) {
        // Workers run in parallel.
        let workers = files.map_or(1, |files| files.workers.max(1));
        let iops = stats::scaled(stats::rate_of_own_time(&step.intervals, class), f64::from(workers));
        let size = bytes / ios.max(1) as f64;
        return (iops, stats::scaled(iops, size));
    }
    let ends_with_fsync =
        plan.is_some_and(|plan| matches!(&plan.work, Work::Io(io) if io.sync == Sync::EndFsync && io.rw.writes()));
    if (ends_with_fsync || step.end_fsync_ns > 0) && class != OpClass::Read {
        let seconds = step.runtime_ns.max(1) as f64 / 1e9;
        let once = |value: f64| Estimate { value: Some(value), n: ios, ..Estimate::default() };
        return (once(ios as f64 / seconds), once(bytes / seconds));
    }
    stats::rates_knowing(belief, &step.intervals, class).into()
}

fn is_of_many_files(class: OpClass) -> bool {
    use OpClass::{Create, Delete, Link, List, Open, Rename, Stat};
    matches!(class, Create | Stat | Open | List | Rename | Link | Delete)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::plan::program::{AppWork, Program};
    use qd1_model::plan::{FileOp, FilesWork, Rw};
    use qd1_model::record::ProcessorWaits;

    #[test]
    fn every_stream_of_every_step_gets_its_figures() {
        let summary = summarize(&testing::record());
        let reads = summary.stream("reads", OpClass::Read).unwrap();
        assert_eq!((reads.ios, reads.iops.value), (16_000, Some(8000.0)));
        assert_eq!(reads.bytes_per_second.value, Some(8000.0 * 4096.0));
        assert!(reads.lat_p999_ns.is_resolved());
        assert_eq!(reads.sync_p99_ns, None);
        let commits = summary.stream("commits", OpClass::Commit).unwrap();
        assert!(commits.sync_p99_ns.unwrap().is_resolved());
        assert!(!commits.lat_p999_ns.is_resolved(), "1,000 commits do not resolve p99.9");
    }

    /// Regression: coarser bins of the parts made a sync's p99 longer than its commit's, and a tail without waits
    /// differ from one with.
    #[test]
    fn no_part_is_longer_than_its_whole_and_rounding_is_no_wait() {
        let mut record = testing::record();
        let stream = record.steps.iter_mut().find(|step| step.name == "commits").unwrap().streams.first_mut().unwrap();
        let whole = stream.lat.to_two_digits();
        stream.sync_part = Some(whole.clone());
        stream.waits = Some(ProcessorWaits { lat: Some(whole.clone()), sync: Some(whole), looked_at: Vec::new() });
        let summary = summarize(&record);
        let commits = summary.stream("commits", OpClass::Commit).unwrap();
        let sync = commits.sync_p99_ns.unwrap();
        assert!(sync.value <= commits.lat_p99_ns.value && sync.high <= commits.lat_p99_ns.high);
        let without = commits.without_waits().unwrap();
        assert_eq!(without.lat_p99_ns, commits.lat_p99_ns);
        assert_eq!(without.sync_p99_ns, commits.sync_p99_ns);
    }

    /// Regression: loads of programs at a fixed rate had tails, and their rate had an interval, as if the disk had set
    /// it.
    #[test]
    fn a_programs_load_at_a_rate_is_one_at_its_own_times() {
        let mut record = testing::record();
        record.steps.truncate(1);
        record.plan.steps.truncate(1);
        let of = |record: &Record| summarize(record).steps[0].streams[0].clone();
        let work = |rate| Work::App(AppWork { program: Program::Postgres, clients: 10, rate });
        record.plan.steps[0].work = work(None);
        assert!(of(&record).lat_p999_ns.is_resolved());
        record.plan.steps[0].work = work(Some(50));
        let at_a_rate = of(&record);
        assert!(at_a_rate.lat_p99_ns.is_resolved(), "16,000 are enough for p99");
        assert!(!at_a_rate.lat_p999_ns.is_resolved(), "but not for p99.9");
        assert_eq!(at_a_rate.iops.low, at_a_rate.iops.high);
    }

    /// Regression: p99 was at least 1.39 ms, and p99.9 at least 0.96 ms.
    #[test]
    fn limits_of_percentiles_do_not_contradict_each_other() {
        let of = |value, low, high| Estimate { value, low: Some(low), high, ..Estimate::default() };
        let [p50, p99, p999] =
            ordered([of(Some(1.0), 0.9, Some(1.1)), of(Some(2.0), 1.4, Some(6.0)), of(Some(3.0), 0.9, Some(5.0))]);
        assert_eq!((p50.low, p50.high), (Some(0.9), Some(1.1)));
        assert_eq!((p99.low, p99.high), (Some(1.4), Some(5.0)));
        assert_eq!((p999.low, p999.high), (Some(1.4), Some(5.0)));
        let [p99, p999] = ordered([of(Some(2.0), 1.4, Some(6.0)), of(None, 0.9, None)]);
        assert_eq!((p99.high, p999.low, p999.high), (Some(6.0), Some(1.4), None));
    }

    #[test]
    fn a_parts_interval_goes_out_with_that_of_the_whole() {
        let of = |value, low, high| Estimate { value, low: Some(low), high, n: 100, ..Estimate::default() };
        let (part, own) = (of(Some(10.0), 8.0, Some(12.0)), of(Some(20.0), 16.0, Some(24.0)));
        let wider = as_much(part, own, of(Some(20.0), 12.0, Some(48.0)));
        assert_eq!((wider.value, wider.low, wider.high), (Some(10.0), Some(6.0), Some(24.0)));
        assert_eq!(as_much(part, own, own), part);
        let open = as_much(part, own, Estimate { n_needed: 7, ..of(None, 8.0, None) });
        assert_eq!((open.value, open.low, open.high, open.n_needed), (None, Some(4.0), None, 7));
    }

    #[test]
    fn a_final_fsync_is_in_the_rate_and_has_no_interval() {
        let mut record = testing::empty();
        let step =
            testing::step(&mut record, "big", testing::io(Rw::Write, 1 << 20, Sync::EndFsync, false), 50, 500_000);
        (step.end_fsync_ns, step.runtime_ns) = (2_000_000_000, 4_000_000_000);
        let rate = summarize(&record).steps[0].streams[0].bytes_per_second;
        assert_eq!((rate.value, rate.low, rate.high), (Some(1000.0 * 1048576.0 / 4.0), None, None));
    }

    #[test]
    fn file_operations_are_counted_over_their_own_time() {
        let mut record = testing::empty();
        let step = testing::step(&mut record, "files", testing::io(Rw::Write, 4096, Sync::None, false), 10, 1_000_000);
        // Creates take a tenth of each interval; the rest of the time is spent on other things.
        step.streams[0].class = OpClass::Create;
        step.intervals.iter_mut().for_each(|interval| interval.streams[0].class = OpClass::Create);
        let creates = summarize(&record).stream("files", OpClass::Create).unwrap().iops;
        assert!((850.0..1000.0).contains(&creates.value.unwrap()), "{creates:?}");
        let ops = vec![FileOp::Create, FileOp::Delete];
        record.plan.steps[0].work = Work::Files(FilesWork { ops, workers: 2, ..FilesWork::default() });
        let by_two = summarize(&record).stream("files", OpClass::Create).unwrap().iops;
        assert_eq!(by_two.value, creates.value.map(|rate| 2.0 * rate), "two workers do it beside each other");
    }
}

//! The hours of a check over hours: each judged by its rounds' measurements, by the same rules as the whole time.
//!
//! Each hour has its own Record, made from the intervals of its rounds: the requests of a bin are assumed to be spread
//! evenly over it. The sync part of a commit is not in the intervals: it is taken as its share of the whole over the
//! whole time.
//!
//! Fifteen rounds do not see all of an hour. If a tenth of the time is slow, one hour in five has no round in it, and
//! would look like an hour of another disk. So an hour counts as different from the whole only if its rounds are: a
//! permutation test says how often as many rounds, drawn from all, differ as much (Fisher 1935; 5 %, both sides). For
//! an hour that does not differ, each interval is widened to hold the whole time's, and its grade follows from that.

use qd1_model::finding::Finding;
use qd1_model::hist::coarse_index;
use qd1_model::long_check::{Hour, Hours, LongCheckSummary};
use qd1_model::record::{Interval, IntervalStream, StepRecord, Stream};
use qd1_model::verdict::ThresholdClass;
use qd1_model::{Estimate, Grade, Hist, OpClass, Record, StreamSummary, Summary, Thresholds};

use crate::judge::{asked_for, is_limited_by_processors, judge};
use crate::summarize::summarize;
use qd1_stats::random::Random;
use qd1_stats::{bin_ends_ns, union};

/// Number of parts of a bin over which its requests are spread.
const PARTS: u32 = 16;
/// Draws of a permutation test, and the chance on each side at which an hour differs.
const DRAWS: usize = 400;
const CHANCE: f64 = 0.025;
/// An hour, ns.
const HOUR_NS: u64 = 3_600_000_000_000;

/// The thresholds that apply to a check over hours: without the classes of which it measures nothing.
pub(crate) fn thresholds(record: &Record, all: &Thresholds) -> Thresholds {
    let plan = &record.plan;
    let is_known = |step: &str| plan.step(step).is_some() || plan.skipped.iter().any(|skipped| skipped.name == step);
    // For a class that is measured in part, the rest is not resolved.
    let is_measured = |class: &&ThresholdClass| class.criterion.iter().any(|criterion| is_known(&criterion.step));
    Thresholds { class: all.class.iter().filter(is_measured).filter_map(|class| asked_for(record, class)).collect() }
}

/// Judges each hour of a check over hours like the whole time; `None` for any other run.
pub(crate) fn summary(
    record: &Record,
    whole: &Summary,
    findings: &[Finding],
    thresholds: &Thresholds,
) -> Option<LongCheckSummary> {
    let plan = record.plan.over?;
    let over = record.over.clone().unwrap_or_default();
    let of_class = thresholds.class.iter().flat_map(|class| class.criterion.iter().map(|one| (&class.name, one)));
    let mut criteria: Vec<Hours> = of_class
        .map(|(class, criterion)| Hours { class: class.clone(), criterion: criterion.clone(), hours: Vec::new() })
        .collect();
    let limited: Vec<bool> =
        criteria.iter().map(|hours| is_limited_by_processors(record, whole, &hours.criterion)).collect();
    let end_ns = if record.interrupted { record.elapsed_ns.min(plan.duration_ns) } else { plan.duration_ns };
    let mut unseen_hours = 0;
    // What an hour has in common with the whole, without the measurements.
    let common = Record { steps: Vec::new(), over: None, ..record.clone() };
    for from_ns in (0..end_ns).step_by(HOUR_NS as usize) {
        let in_hour = |at_ns: u64| at_ns >= from_ns && at_ns - from_ns < HOUR_NS;
        let rounds = over.rounds.iter().filter(|round| in_hour(round.used.at_ns)).count() as u32;
        if rounds == 0 {
            unseen_hours += 1;
            continue;
        }
        let steps = record.steps.iter().map(|step| of_hour(step, whole, in_hour)).collect();
        let hour = Record { steps, ..common.clone() };
        let mut summary = summarize(&hour);
        for step in &mut summary.steps {
            let (own, all) = (hour.step(&step.name), record.step(&step.name));
            for stream in &mut step.streams {
                if let (Some(own), Some(all), Some(of_day)) = (own, all, whole.stream(&step.name, stream.class)) {
                    widen(stream, of_day, &Unlike::new(own, all, stream.class, record.plan.seed ^ from_ns));
                }
            }
        }
        let of_hour = judge(&hour, &summary, findings, thresholds);
        let judged = of_hour.into_iter().flat_map(|verdict| verdict.judged);
        let from_unix_ns = record.started_unix_ns.saturating_add(from_ns);
        for ((judged, is_limited), hours) in judged.zip(&limited).zip(&mut criteria) {
            // The time slow operations waited for a processor is not known per hour.
            let grade = if *is_limited && judged.grade != Grade::Pass { Grade::NotResolved } else { judged.grade };
            hours.hours.push(Hour { from_unix_ns, rounds, figure: judged.figure, grade });
        }
    }
    Some(LongCheckSummary {
        duration_ns: plan.duration_ns,
        rounds_planned: plan.rounds,
        rounds: over.rounds.len() as u32,
        unseen_hours,
        busy_share: over.busy_ns() as f64 / plan.duration_ns.max(1) as f64,
        written_bytes: over.written().0,
        resumed: over.resumed(),
        criteria,
    })
}

/// What a step measured in one hour.
fn of_hour(step: &StepRecord, whole: &Summary, in_hour: impl Fn(u64) -> bool) -> StepRecord {
    let is_in = |interval: &&Interval| in_hour(step.started_ns.saturating_add(interval.start_ns));
    let intervals: Vec<Interval> = step.intervals.iter().filter(is_in).cloned().collect();
    let streams = step.streams.iter().filter_map(|stream| {
        let lat = latencies(&intervals, stream.class, 1.0)?;
        let sync_part = stream.sync_part.as_ref().and_then(|_| {
            let of_step = whole.stream(&step.name, stream.class)?;
            let share = of_step.sync_p99_ns?.value? / of_step.lat_p99_ns.value?;
            latencies(&intervals, stream.class, share.min(1.0))
        });
        Some(Stream { sync_part, ..Stream::of(stream.class, stream.bytes, lat) })
    });
    StepRecord {
        name: step.name.clone(),
        engine: step.engine,
        direct: step.direct,
        started_ns: step.started_ns,
        runtime_ns: intervals.iter().map(|interval| interval.length_ns).sum(),
        ended: step.ended,
        streams: streams.collect(),
        errors: step.errors.clone(),
        intervals,
        ..StepRecord::default()
    }
}

/// The latencies of `class`, each times `factor`; `None` if there are none.
fn latencies(intervals: &[Interval], class: OpClass, factor: f64) -> Option<Hist> {
    let of_class = || intervals.iter().flat_map(|one| &one.streams).filter(|stream| stream.class == class);
    let values = of_class().flat_map(|stream| {
        let longest_ns = stream.lat_max_ns as f64;
        stream.bins.iter().flat_map(move |(bin, count)| {
            let (low, high) = bin_ends_ns(usize::from(*bin));
            let at = move |part: u32| low + (high - low) * (f64::from(part) + 0.5) / f64::from(PARTS);
            let upto = move |part: u32| u64::from(*count) * u64::from(part) / u64::from(PARTS);
            (0..PARTS).map(move |part| ((at(part).min(longest_ns) * factor) as u64, upto(part + 1) - upto(part)))
        })
    });
    let values = values.filter(|(_, count)| *count > 0);
    let sum_ns: f64 = of_class().map(|stream| stream.lat_sum_ns as f64 * factor).sum();
    let hist = Hist::of_values(values, sum_ns as u128);
    (hist.count() > 0).then_some(hist)
}

/// Whether an hour's rounds differ from those of the whole time.
struct Unlike<'a> {
    /// All visits, and those of the hour.
    all: Vec<&'a IntervalStream>,
    own: Vec<&'a IntervalStream>,
    /// Latencies of all visits.
    lat: Option<&'a Hist>,
    seed: u64,
}

impl<'a> Unlike<'a> {
    fn new(own: &'a StepRecord, all: &'a StepRecord, class: OpClass, seed: u64) -> Self {
        let visits = |step: &'a StepRecord| {
            let streams = step.intervals.iter().flat_map(|interval| &interval.streams);
            streams.filter(|stream| stream.class == class && stream.ios > 0).collect()
        };
        Self { all: visits(all), own: visits(own), lat: all.stream(class).map(|stream| &stream.lat), seed }
    }

    /// By the share of requests as slow as quantile `q` of all, to the precision of a bin: there are always some.
    fn in_quantile(&self, q: f64) -> bool {
        let Some(level_ns) = self.lat.map(|lat| lat.quantile(q)) else { return false };
        let edge = coarse_index(level_ns);
        self.differs(|visit| {
            let slower =
                visit.bins.iter().filter(|(bin, _)| usize::from(*bin) >= edge).map(|(_, count)| f64::from(*count));
            (slower.sum(), visit.ios as f64)
        })
    }

    /// By the mean latency, of which a rate is the inverse.
    fn in_mean(&self) -> bool {
        self.differs(|visit| (visit.lat_sum_ns as f64, visit.ios as f64))
    }

    /// Whether a ratio of sums over the hour's visits is more extreme than those of equally many visits drawn from all.
    fn differs(&self, of_visit: impl Fn(&IntervalStream) -> (f64, f64)) -> bool {
        let ratio = |sums: (f64, f64)| sums.0 / sums.1.max(1.0);
        let add = |sum: (f64, f64), one: (f64, f64)| (sum.0 + one.0, sum.1 + one.1);
        let seen = ratio(self.own.iter().map(|visit| of_visit(visit)).fold((0.0, 0.0), add));
        let mut values: Vec<(f64, f64)> = self.all.iter().map(|visit| of_visit(visit)).collect();
        let count = self.own.len().min(values.len());
        let mut random = Random::new(self.seed);
        let (mut no_less, mut no_more) = (1, 1);
        for _ in 0..DRAWS {
            let mut sums = (0.0, 0.0);
            for at in 0..count {
                let other = at + (random.uniform() * (values.len() - at) as f64) as usize;
                let last = values.len() - 1;
                values.swap(at, other.min(last));
                sums = add(sums, values[at]);
            }
            let drawn = ratio(sums);
            no_less += usize::from(drawn >= seen);
            no_more += usize::from(drawn <= seen);
        }
        (no_less.min(no_more) as f64) < CHANCE * (DRAWS + 1) as f64
    }
}

/// Widens the figures of an hour that do not differ from those of the whole time, to include those.
fn widen(hour: &mut StreamSummary, of_day: &StreamSummary, unlike: &Unlike<'_>) {
    let widened = |own: Estimate, of_day: Estimate, differs: bool| {
        if differs || !of_day.is_resolved() { own } else { union(own, Some(of_day)) }
    };
    let part = |own: Option<Estimate>, of_day: Option<Estimate>, differs: bool| {
        own.map(|own| widened(own, of_day.unwrap_or_default(), differs))
    };
    let [p50, p99, p999, p9999] = [0.5, 0.99, 0.999, 0.9999].map(|q| unlike.in_quantile(q));
    hour.lat_p50_ns = widened(hour.lat_p50_ns, of_day.lat_p50_ns, p50);
    hour.lat_p99_ns = widened(hour.lat_p99_ns, of_day.lat_p99_ns, p99);
    hour.lat_p999_ns = widened(hour.lat_p999_ns, of_day.lat_p999_ns, p999);
    hour.lat_p9999_ns = widened(hour.lat_p9999_ns, of_day.lat_p9999_ns, p9999);
    hour.sync_p50_ns = part(hour.sync_p50_ns, of_day.sync_p50_ns, p50);
    hour.sync_p99_ns = part(hour.sync_p99_ns, of_day.sync_p99_ns, p99);
    let mean = unlike.in_mean();
    hour.lat_mean_ns = widened(hour.lat_mean_ns, of_day.lat_mean_ns, mean);
    hour.iops = widened(hour.iops, of_day.iops, mean);
    hour.bytes_per_second = widened(hour.bytes_per_second, of_day.bytes_per_second, mean);
    hour.stall_share = part(hour.stall_share, of_day.stall_share, false);
    // Half a percent of an hour says nothing about its longest stall.
    hour.stall_longest_ns = hour.stall_longest_ns.map(|longest| Estimate { high: None, ..longest });
}

#[cfg(test)]
mod tests {
    use qd1_model::plan::criterion::Criterion;
    use qd1_model::plan::{LongCheckPlan, Rw, Skipped, Sync};
    use qd1_model::record::ProcessorWaits;
    use qd1_model::record::long_check::{LongCheckRecord, RoundRecord, Use};
    use qd1_model::{Report, op::Ended};

    use super::*;
    use crate::{analyse, testing};

    const ROUNDS: u32 = 30;

    /// Two hours of fifteen rounds each: reads of 100 us, in the second hour of the given time.
    fn two_hours(second_us: u64) -> Record {
        let mut record = testing::empty();
        let over = LongCheckPlan { duration_ns: 2 * HOUR_NS, rounds: ROUNDS, round_max_ns: 1, busy_max_ns: u64::MAX };
        let mut rounds = Vec::new();
        for number in 0..ROUNDS {
            let at_ns = u64::from(number) * over.duration_ns / u64::from(ROUNDS);
            let us = if at_ns < HOUR_NS { 100 } else { second_us };
            let mut one = testing::empty();
            testing::step(&mut one, "reads", testing::io(Rw::Randread, 4096, Sync::None, true), 20, us * 1000);
            let visit = one.steps.remove(0).in_one_interval();
            StepRecord { started_ns: at_ns, ..visit }.add_to(&mut record.steps);
            record.plan.steps = one.plan.steps;
            rounds.push(RoundRecord { number, used: Use { at_ns, busy_ns: 1, ..Use::default() } });
        }
        record.plan.steps[0].visits = ROUNDS;
        record.plan.over = Some(over);
        record.over = Some(LongCheckRecord { starts: vec![Use::default()], rounds });
        record
    }

    /// Judged by a class of p50 of these steps, up to 150 us.
    fn judged(record: Record, steps: &[&str]) -> Report {
        let criterion = |step: &&str| Criterion {
            step: (*step).to_owned(),
            op: OpClass::Read,
            metric: "lat_p50_ns".to_owned(),
            pass: 150_000.0,
            fail: 150_000.0,
            published: None,
            label: String::new(),
            source: "test".to_owned(),
        };
        let class = ThresholdClass {
            name: "mine".to_owned(),
            title: "mine".to_owned(),
            criterion: steps.iter().map(criterion).collect(),
        };
        analyse(record, &Thresholds { class: vec![class] })
    }

    fn grades(report: &Report) -> Vec<Grade> {
        report.part::<LongCheckSummary>().unwrap().criteria[0].hours.iter().map(|hour| hour.grade).collect()
    }

    #[test]
    fn each_hour_has_the_grade_of_its_own_rounds_where_they_differ() {
        let report = judged(two_hours(400), &["reads"]);
        assert_eq!(grades(&report), [Grade::Pass, Grade::Fail]);
        let hours = &report.part::<LongCheckSummary>().unwrap().criteria[0].hours;
        assert_eq!((hours[0].rounds, hours[1].from_unix_ns), (15, HOUR_NS));
        let value = |hour: usize| hours[hour].figure.unwrap().value.unwrap() / 1e3;
        assert!((90.0..130.0).contains(&value(0)) && (360.0..500.0).contains(&value(1)), "{} {}", value(0), value(1));
        assert_eq!(grades(&judged(two_hours(100), &["reads"])), [Grade::Pass; 2]);
    }

    /// What a single round met is not certain to belong to that hour: it may belong to the whole time.
    #[test]
    fn an_hour_that_does_not_differ_has_the_whole_times_interval_in_its_own() {
        let mut record = two_hours(100);
        let slow = two_hours(400).steps.remove(0).intervals.pop().unwrap();
        record.steps[0].intervals[3].streams = slow.streams;
        let report = judged(record, &["reads"]);
        let whole = report.summary.stream("reads", OpClass::Read).unwrap().lat_mean_ns;
        let summary = summarize(&report.record);
        assert_eq!(summary.stream("reads", OpClass::Read).unwrap().lat_mean_ns, whole);
        let all = report.record.step("reads").unwrap();
        let second = of_hour(all, &summary, |at_ns| at_ns >= HOUR_NS);
        let unlike = Unlike::new(&second, all, OpClass::Read, 1);
        assert!(!unlike.in_mean(), "one slow round of thirty is in either hour by chance");
        let mut own = summarize(&Record { steps: vec![second.clone()], over: None, ..report.record.clone() });
        let stream = &mut own.steps[0].streams[0];
        widen(stream, summary.stream("reads", OpClass::Read).unwrap(), &unlike);
        assert!(stream.lat_mean_ns.high >= whole.high && stream.lat_mean_ns.low <= whole.low);
    }

    /// Regression: hours without a round were silently left out.
    #[test]
    fn hours_without_a_round_are_counted_as_far_as_the_run_has_come() {
        let mut record = two_hours(100);
        record.plan.over.as_mut().unwrap().duration_ns = 6 * HOUR_NS;
        let unseen =
            |record: &Record| judged(record.clone(), &["reads"]).part::<LongCheckSummary>().unwrap().unseen_hours;
        assert_eq!(unseen(&record), 4);
        (record.interrupted, record.elapsed_ns) = (true, 2 * HOUR_NS);
        assert_eq!(unseen(&record), 0);
        record.elapsed_ns = 3 * HOUR_NS;
        assert_eq!(unseen(&record), 1);
    }

    /// Regression: six rounds of the first half passed for a whole day.
    #[test]
    fn a_step_that_failed_on_the_way_is_not_resolved() {
        let mut record = two_hours(100);
        (record.steps[0].ended, record.steps[0].fault) = (Ended::Failed, "no space".to_owned());
        let report = judged(record, &["reads"]);
        let judged = &report.verdicts[0].judged[0];
        assert_eq!(judged.grade, Grade::NotResolved);
        assert!(judged.why.contains("no space"), "{}", judged.why);
    }

    /// Regression: a class passed by the part of it that was measured.
    #[test]
    fn a_class_that_is_measured_in_part_is_not_resolved_and_one_that_is_not_is_left_out() {
        let report = judged(two_hours(100), &["reads", "seqread"]);
        assert_eq!(report.verdicts[0].grade, Grade::NotResolved);
        assert!(judged(two_hours(100), &["seqread"]).verdicts.is_empty());
        let mut left_out = two_hours(100);
        left_out.plan.skipped.push(Skipped::because("seqread", "it is not part of a round"));
        let report = judged(left_out, &["seqread"]);
        assert!(report.verdicts[0].judged[0].why.contains("not part of a round"));
    }

    /// Regression: an hour failed although the whole was limited by the processors.
    #[test]
    fn an_hour_does_not_fail_for_what_the_processors_did() {
        let mut record = two_hours(400);
        let mut shorter = Hist::new();
        (0..record.steps[0].streams[0].lat.count()).for_each(|_| shorter.record(100_000));
        let waits = ProcessorWaits { lat: Some(shorter), sync: None, looked_at: Vec::new() };
        record.steps[0].streams[0].waits = Some(waits);
        let p99 = |record: Record| {
            let mut report = judged(record, &["reads"]);
            let mut class = report.verdicts.remove(0);
            class.judged[0].criterion.metric = "lat_p99_ns".to_owned();
            let criterion = vec![class.judged[0].criterion.clone()];
            let class = ThresholdClass { name: "mine".to_owned(), title: "mine".to_owned(), criterion };
            grades(&analyse(report.record, &Thresholds { class: vec![class] }))
        };
        assert_eq!(p99(record), [Grade::Pass, Grade::NotResolved]);
        assert_eq!(p99(two_hours(400)), [Grade::Pass, Grade::Fail]);
    }
}

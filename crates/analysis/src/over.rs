//! The hours of a check over hours: each judged by what its rounds measured, by the same rules as the whole time.
//!
//! An hour has a Record of its own, made of the intervals of its rounds. Their bins are 6.25 % wide, which is how exact
//! its figures are. The sync part of a commit is not in the intervals: it is taken as the share of the whole that it has
//! over the whole time.

use qd1_model::finding::Finding;
use qd1_model::over::{Hour, Hours, OverSummary};
use qd1_model::record::{Interval, StepRecord, Stream};
use qd1_model::{Hist, OpClass, Record, Summary, Thresholds};

use crate::judge::judge;
use crate::stats::bin_middle_ns;
use crate::summarize::summarize;

/// An hour, ns.
const HOUR_NS: u64 = 3_600_000_000_000;

/// The thresholds that a check over hours can be held to: it leaves out the steps that would use up the disk's time.
pub(crate) fn thresholds(record: &Record, all: &Thresholds) -> Thresholds {
    let is_planned = |step: &str| record.plan.step(step).is_some();
    let mut class = all.class.clone();
    class.iter_mut().for_each(|class| class.criterion.retain(|criterion| is_planned(&criterion.step)));
    class.retain(|class| !class.criterion.is_empty());
    Thresholds { class }
}

/// Judges each hour of a check over hours as the whole time is; `None` of any other run.
pub(crate) fn summary(
    record: &Record,
    whole: &Summary,
    findings: &[Finding],
    thresholds: &Thresholds,
) -> Option<OverSummary> {
    let plan = record.plan.over?;
    let over = record.over.clone().unwrap_or_default();
    let of_class = thresholds.class.iter().flat_map(|class| class.criterion.iter().map(|one| (&class.name, one)));
    let mut criteria: Vec<Hours> = of_class
        .map(|(class, criterion)| Hours { class: class.clone(), criterion: criterion.clone(), hours: Vec::new() })
        .collect();
    for from_ns in (0..plan.duration_ns).step_by(HOUR_NS as usize) {
        let in_hour = |at_ns: u64| at_ns >= from_ns && at_ns - from_ns < HOUR_NS;
        let rounds = over.rounds.iter().filter(|round| in_hour(round.at_ns)).count() as u32;
        if rounds == 0 {
            continue;
        }
        let steps = record.steps.iter().map(|step| of_hour(step, whole, in_hour)).collect();
        let hour = Record { steps, over: None, mounts: Vec::new(), programs: Vec::new(), ..record.clone() };
        let verdicts = judge(&hour, &summarize(&hour), findings, thresholds);
        let judged = verdicts.into_iter().flat_map(|verdict| verdict.judged);
        let from_unix_ns = record.started_unix_ns.saturating_add(from_ns);
        for (judged, hours) in judged.zip(&mut criteria) {
            hours.hours.push(Hour { from_unix_ns, rounds, figure: judged.figure, grade: judged.grade });
        }
    }
    Some(OverSummary {
        duration_ns: plan.duration_ns,
        rounds_planned: plan.rounds,
        rounds: over.rounds.len() as u32,
        busy_share: over.busy_ns() as f64 / plan.duration_ns.max(1) as f64,
        written_bytes: over.rounds.iter().map(|round| round.written.0).sum(),
        resumed: over.begun_ns.len().saturating_sub(1) as u32,
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
        Some(Stream {
            class: stream.class,
            bytes: stream.bytes,
            lat,
            slat: None,
            clat: None,
            write_part: None,
            sync_part,
            slowest: Vec::new(),
            waits: None,
        })
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

/// The latencies of `class`, each times `factor`; `None` where there are none.
fn latencies(intervals: &[Interval], class: OpClass, factor: f64) -> Option<Hist> {
    let mut hist = Hist::new();
    for stream in intervals.iter().flat_map(|interval| &interval.streams).filter(|stream| stream.class == class) {
        for (bin, count) in &stream.bins {
            let lat_ns = bin_middle_ns(usize::from(*bin)).min(stream.lat_max_ns as f64);
            hist.record_n((lat_ns * factor) as u64, u64::from(*count));
        }
    }
    (hist.count() > 0).then_some(hist)
}

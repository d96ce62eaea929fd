//! From what a step measured to the figures shown for it: one row of estimates per kind of operation.

use qd1_model::figure::Estimate;
use qd1_model::plan::{StepPlan, Sync, Work};
use qd1_model::record::{OpClass, Record, StepRecord, Stream};
use qd1_model::{StepSummary, StreamSummary, Summary};

use crate::stats;

/// Every figure of every step, with intervals.
#[must_use]
pub fn summarize(record: &Record) -> Summary {
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
                streams: step.streams.iter().map(|stream| summarize_stream(step, plan, stream)).collect(),
            }
        })
        .collect();
    Summary { steps }
}

/// One stream.
fn summarize_stream(step: &StepRecord, plan: Option<&StepPlan>, stream: &Stream) -> StreamSummary {
    let class = stream.class;
    let quantile = |q| stats::quantile(&stream.lat, &step.intervals, class, q);
    let sync = |q| stream.sync_part.as_ref().map(|part| stats::quantile_of_part(part, &step.intervals, class, q));
    let (iops, bytes_per_second) = rates(step, plan, stream);
    StreamSummary {
        class,
        ios: stream.lat.count(),
        iops,
        bytes_per_second,
        lat_mean_ns: stats::mean(&stream.lat, &step.intervals, class),
        lat_p50_ns: quantile(0.5),
        lat_p99_ns: quantile(0.99),
        lat_p999_ns: quantile(0.999),
        lat_p9999_ns: quantile(0.9999),
        lat_max_ns: stream.lat.max_ns(),
        sync_p50_ns: sync(0.5),
        sync_p99_ns: sync(0.99),
    }
}

/// Operations and bytes per second.
///
/// Three cases. File operations take turns, so theirs is the rate over their own time. Where one fsync ends the
/// step, the data is on the disk only after it: the rate is all bytes over all time, and it has no interval,
/// because one drain is one observation. Otherwise it is the rate over the intervals.
fn rates(step: &StepRecord, plan: Option<&StepPlan>, stream: &Stream) -> (Estimate, Estimate) {
    let class = stream.class;
    let (ios, bytes) = (stream.lat.count(), stream.bytes.0 as f64);
    if matches!(class, OpClass::Create | OpClass::Stat | OpClass::Delete) {
        let iops = stats::rate_of_own_time(&step.intervals, class);
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
    (stats::rate(&step.intervals, class), stats::byte_rate(&step.intervals, class))
}

//! Shared by the detectors that compare steps with each other: which steps are comparable, and whether they were
//! disturbed.

use qd1_model::op::OpClass;
use qd1_model::plan::{FileUse, IoWork};
use qd1_model::record::{DeviceDelta, StepRecord};
use qd1_model::units::format_ns;
use qd1_model::{Estimate, Record};

use super::{counted_steps, io_of};

/// Share of the due requests that a step has to have made for its latencies to be those of the disk and not of the
/// queue.
const PACE_KEPT: f64 = 0.95;

/// Returns the steps whose latencies can be compared with each other: one request at a time past the page cache, of one
/// block size, without a background load.
pub(super) fn single_requests(record: &Record) -> impl Iterator<Item = (&StepRecord, &IoWork)> {
    let steps = record.steps.iter().filter_map(|step| Some((step, io_of(record, step)?)));
    steps.filter(|(step, io)| is_single(step, io))
}

/// Whether a step is one of them.
pub(super) fn is_single(step: &StepRecord, io: &IoWork) -> bool {
    io.in_flight() == 1 && step.direct && step.background.is_empty() && io.blocks.len() == 1
}

/// Whether a step only reads.
pub(super) fn only_reads(io: &IoWork) -> bool {
    !io.rw.writes() && io.rw.reads()
}

/// Whether a step only writes.
pub(super) fn only_writes(io: &IoWork) -> bool {
    io.rw.writes() && !io.rw.reads()
}

/// Whether a file's space was written before the step.
pub(super) fn was_written(io: &IoWork) -> bool {
    matches!(io.file, FileUse::Shared | FileUse::Own)
}

/// The one kind of operation of a step that only reads or only writes.
pub(super) fn class_of(io: &IoWork) -> OpClass {
    match (only_reads(io), io.sync.commits()) {
        (true, _) => OpClass::Read,
        (false, true) => OpClass::Commit,
        (false, false) => OpClass::Write,
    }
}

/// How many times the step went over its region: above 1, some blocks were visited more than once.
pub(super) fn rounds(step: &StepRecord, io: &IoWork) -> f64 {
    let bytes: u64 = step.streams.iter().map(|stream| stream.bytes.0).sum();
    bytes as f64 / io.size.0.max(1) as f64
}

/// Whether requests queued behind each other although they came at a fixed rate: then latency is not only that of the
/// disk any more.
pub(super) fn is_behind(step: &StepRecord, io: &IoWork) -> bool {
    let Some(iops) = io.arrival.iops() else { return false };
    let ios: u64 = step.streams.iter().map(|stream| stream.lat.count()).sum();
    let median_ns = step.streams.first().map_or(0, |stream| stream.lat.quantile(0.5));
    (ios as f64) < PACE_KEPT * iops * step.runtime_ns as f64 / 1e9 || median_ns as f64 > 1e9 / iops
}

/// The device's counters over a step, where they can be compared with its requests.
pub(super) fn counters<'a>(record: &'a Record, step: &StepRecord) -> Option<&'a DeviceDelta> {
    counted_steps(record).find(|(known, ..)| known.name == step.name).map(|(.., device)| device)
}

/// Formats a latency with its interval: `412 us (398 us to 430 us)`.
pub(super) fn format_estimate(estimate: &Estimate) -> String {
    let span = |ns: f64| format_ns(ns);
    match (estimate.value, estimate.low, estimate.high) {
        (Some(value), Some(low), Some(high)) => format!("{} ({} to {})", span(value), span(low), span(high)),
        (Some(value), ..) => span(value),
        (None, Some(low), _) => format!("at least {}", span(low)),
        _ => "not resolved".to_owned(),
    }
}

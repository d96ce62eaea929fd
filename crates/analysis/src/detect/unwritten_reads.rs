//! Reads of space that was allocated but never written are answered without the disk, so that a benchmark on a fresh
//! file shows figures that no disk achieves.
//!
//! Formula: P(written > never written) over the latencies of two steps that read one block at a time, one from a file
//! written in full, the other from one whose space was only allocated (Mann-Whitney, see `qd1_stats::contrast`);
//! reported from 4 standard deviations, 85 % and a ratio of the medians of 1.4. Where the device's counters can be
//! compared, they show what answers: the filesystem if the device saw less than a tenth of the reads, else something
//! below.
//!
//! It fails if the disk is as fast as an answer without it, and reports nothing about holes in files that the user
//! gave.

use qd1_model::FindingId;
use std::cmp::Reverse;

use qd1_model::op::OpClass;
use qd1_model::plan::FileUse;
use qd1_model::record::StepRecord;
use qd1_model::{Finding, Record, Severity, Summary};

use super::paired::{counters, format_estimate, is_behind, only_reads, rounds, single_requests, was_written};
use super::{base_finding, percent};
use qd1_stats::contrast::{Sample, contrast};

const Z_MIN: f64 = 4.0;
const ABOVE_MIN: f64 = 0.85;
const RATIO_MIN: f64 = 1.4;
/// The two are so far apart that no significance test is needed.
const FAR_RATIO: f64 = 10.0;
const FAR_ABOVE: f64 = 0.98;

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let reads: Vec<_> = single_requests(record).filter(|(_, io)| only_reads(io) && io.rw.is_random()).collect();
    let Some((fresh, io)) = reads.iter().find(|(_, io)| io.file == FileUse::Allocated) else { return Vec::new() };
    // Reads that did not repeat, so that no cache answered them: the first of the widest.
    let written = reads.iter().filter(|(step, other)| {
        was_written(other) && other.blocks == io.blocks && other.arrival == io.arrival && rounds(step, other) < 0.5
    });
    let Some((written, work)) = written.min_by_key(|(_, io)| Reverse(io.size)) else { return Vec::new() };
    let samples = (Sample::of(fresh, OpClass::Read), Sample::of(written, OpClass::Read));
    let (Some(nothing), Some(something)) = samples else { return Vec::new() };
    let difference = contrast(&something, &nothing);
    let ratio = something.seen(0.5) / nothing.seen(0.5).max(1.0);
    // Queued reads depend on each other, so few of them count as samples; but no queue makes this large a difference.
    let far_apart = ratio >= FAR_RATIO && difference.above >= FAR_ABOVE;
    if difference.z < Z_MIN && !far_apart || difference.above < ABOVE_MIN || ratio < RATIO_MIN || is_behind(fresh, io) {
        return Vec::new();
    }
    let who = answered_by(record, fresh);
    let queued = if is_behind(written, work) { ", queue included" } else { "" };
    vec![Finding {
        step: fresh.name.clone(),
        title: format!(
            "reads of space that was never written are answered {who}, {ratio:.1} times as fast as the disk"
        ),
        evidence: format!(
            "median of {} reads of allocated space {}, of {} reads of written data {}{queued}; {} of pairs",
            nothing.n(),
            format_estimate(&nothing.at(0.5)),
            something.n(),
            format_estimate(&something.at(0.5)),
            percent(difference.above)
        ),
        advice: "Write the whole file before reading it, as qd1 does; figures of benchmarks that did not are \
                 meaningless."
            .to_owned(),
        ..base_finding(FindingId::UnwrittenReads, Severity::Info, if difference.above > 0.97 { 0.95 } else { 0.85 })
    }]
}

/// What answered the reads.
fn answered_by(record: &Record, step: &StepRecord) -> &'static str {
    match counters(record, step) {
        Some(device) if device.counted.reads * 10 < device.asked_reads => "by the filesystem",
        Some(_) => "below the filesystem, without the disk",
        None => "without the disk",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::plan::{Rw, Sync};

    /// Written data is read in 100 us, and space that was only allocated in `fresh_ns`.
    fn reading(fresh_ns: u64) -> Record {
        let mut record = testing::record();
        record.steps[0].streams[0].bytes.0 /= 100;
        let mut work = testing::io(Rw::Randread, 4096, Sync::None, true);
        work.file = FileUse::Allocated;
        let step = testing::step(&mut record, "fresh", work, 50, fresh_ns);
        step.device.as_mut().unwrap().counted.reads = 0;
        record
    }

    #[test]
    fn reads_of_nothing_that_are_fast_are_fantasy() {
        let found = testing::run(detect, &reading(3_000));
        assert_eq!(testing::ids(&found), ["unwritten_reads"]);
        assert!(found[0].title.contains("by the filesystem"), "{}", found[0].title);
    }

    #[test]
    fn reads_of_nothing_that_take_as_long_as_others_go_to_the_disk() {
        assert_eq!(testing::run(detect, &reading(100_000)), []);
        assert_eq!(testing::run(detect, &testing::record()), [], "nothing to compare with");
    }
}

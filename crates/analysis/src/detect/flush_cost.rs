//! What a flush does, judging by its cost: it waits for the written data, or it takes the same few microseconds however
//! much there is to write out.
//!
//! Formula: the sync parts of commits of a small and of a large block (at least 16 times as large). If those of the
//! large block are above those of the small one (P above 80 %, 4 standard deviations, see `qd1_stats::contrast`) and at
//! least 1.3 times as long, the device has a write cache and writes it out on a flush: the difference in bytes over the
//! difference in time is its rate. If both medians' intervals lie below 100 us, nothing is written out: flash takes 200
//! us and more to program (a triple-level cell 400 to 800 us), a disk milliseconds, and another machine with stable
//! storage cannot be reached in less either. Then the cache is protected against power loss, as in enterprise SSDs and
//! controllers with a battery, or the flush is ignored, as by a hypervisor with cache=unsafe. Seen from inside the two
//! are the same, so it does not claim that flushes are ignored.
//!
//! It reports nothing if no flush reached the device (`flush_ignored` does that), and cannot see a cache that ignores
//! flushes at the far end of a network: a round trip looks like an honest flush with nothing to do.

use qd1_model::FindingId;
use qd1_model::plan::{IoWork, Sync};
use qd1_model::record::StepRecord;
use qd1_model::units::{Bytes, format_rate};
use qd1_model::{Finding, Record, Severity, Summary};

use super::base_finding;
use super::paired::{counters, format_estimate, only_writes, single_requests, was_written};
use qd1_stats::contrast::{Sample, contrast};

/// A flush faster than this wrote nothing to flash or a platter.
const FLOOR_NS: f64 = 100e3;
/// The large block is at least this many times the small one.
const BLOCKS_APART: u32 = 16;
const Z_MIN: f64 = 4.0;
const ABOVE_MIN: f64 = 0.8;
const RATIO_MIN: f64 = 1.3;
/// With fewer flushes per sync than this, the device was not asked to flush.
const FLUSHES_MIN: f64 = 0.5;
const SYNCS_MIN: u64 = 12;

/// Commits of a small and of a large block, whose flushes are compared with each other.
pub(crate) struct Flushes<'a> {
    pub(crate) small: (&'a StepRecord, &'a IoWork),
    pub(crate) large: (&'a StepRecord, &'a IoWork),
    pub(crate) after_small: Sample,
    pub(crate) after_large: Sample,
}

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let Some(Flushes { small, large, after_small, after_large }) = Flushes::of(record) else { return Vec::new() };
    let (few, many) = (small.1.block_max(), large.1.block_max());
    let evidence = format!(
        "sync after {}: {}, n={}; after {}: {}, n={}",
        Bytes(few.into()),
        format_estimate(&after_small.at(0.5)),
        after_small.n(),
        Bytes(many.into()),
        format_estimate(&after_large.at(0.5)),
        after_large.n()
    );
    let below = |sample: &Sample| sample.at(0.5).high.unwrap_or(sample.seen(0.75)) < FLOOR_NS;
    let finding = if below(&after_small) && below(&after_large) {
        nothing(record)
    } else {
        waits(&after_small, &after_large, many - few)
    };
    finding.map(|finding| Finding { step: large.0.name.clone(), evidence, ..finding }).into_iter().collect()
}

impl<'a> Flushes<'a> {
    /// Those of a run; `None` if it does not have enough of both.
    pub(crate) fn of(record: &'a Record) -> Option<Self> {
        let commits: Vec<_> = single_requests(record)
            .filter(|(step, io)| {
                only_writes(io) && was_written(io) && io.data.is_random() && is_flushed(record, step, io)
            })
            .collect();
        let small = *commits.iter().min_by_key(|(_, io)| io.block_max())?;
        let large = *commits.iter().max_by_key(|(_, io)| io.block_max())?;
        if large.1.block_max() < BLOCKS_APART * small.1.block_max() {
            return None;
        }
        let (after_small, after_large) = (Sample::of_syncs(small.0)?, Sample::of_syncs(large.0)?);
        let are_enough = after_small.n() >= SYNCS_MIN && after_large.n() >= SYNCS_MIN;
        are_enough.then_some(Self { small, large, after_small, after_large })
    }
}

/// Whether each commit was followed by a flush, as far as that can be seen.
fn is_flushed(record: &Record, step: &StepRecord, io: &IoWork) -> bool {
    let counted = counters(record, step);
    matches!(io.sync, Sync::Fsync | Sync::Fdatasync)
        && counted.is_none_or(|device| device.counted.flushes as f64 >= FLUSHES_MIN * device.asked_syncs as f64)
}

fn nothing(record: &Record) -> Option<Finding> {
    let rotates = record.environment.devices.iter().any(|device| device.rotational == Some(true));
    let severity = if rotates { Severity::Warning } else { Severity::Info };
    Some(Finding {
        title: "a flush writes nothing out: data is safe only if it was written through or the cache is protected"
            .to_owned(),
        advice: "Flash and disks take longer than this. An SSD with capacitors or a controller with a battery may \
                 answer this fast honestly; a hypervisor that ignores flushes (cache=unsafe) looks the same. It \
                 cannot be proved from inside: ask who runs the storage before trusting it with a database."
            .to_owned(),
        ..base_finding(FindingId::FlushCostNothing, severity, 0.6)
    })
}

fn waits(small: &Sample, large: &Sample, more_bytes: u32) -> Option<Finding> {
    let difference = contrast(large, small);
    let ratio = large.seen(0.5) / small.seen(0.5).max(1.0);
    if difference.z < Z_MIN || difference.above < ABOVE_MIN || ratio < RATIO_MIN {
        return None;
    }
    let rate = f64::from(more_bytes) / ((large.seen(0.5) - small.seen(0.5)) / 1e9);
    Some(Finding {
        title: format!("the disk has a write cache that a flush writes out, at about {}", format_rate(rate)),
        advice: "Data written without fsync or fdatasync can be lost in a power cut; preventing that is what they are \
                 for."
            .to_owned(),
        ..base_finding(FindingId::FlushCostWaits, Severity::Info, 0.85)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::plan::Rw;

    fn committing(small_ns: u64, large_ns: u64) -> Record {
        let mut record = testing::empty();
        for (name, block, lat_ns) in [("small", 4096, small_ns), ("large", 1 << 20, large_ns)] {
            testing::step(&mut record, name, testing::io(Rw::Randwrite, block, Sync::Fdatasync, true), 10, lat_ns);
        }
        record
    }

    #[test]
    fn a_flush_that_waits_for_more_data_is_that_of_an_honest_cache() {
        let found = testing::run(detect, &committing(400_000, 2_400_000));
        assert_eq!(testing::ids(&found), ["flush_cost.waits"]);
        assert!(found[0].title.contains("475 MB/s") || found[0].title.contains("MB/s"), "{}", found[0].title);
    }

    #[test]
    fn a_flush_that_never_takes_time_is_named_and_not_accused() {
        let found = testing::run(detect, &committing(30_000, 30_000));
        assert_eq!(testing::ids(&found), ["flush_cost.nothing"]);
        assert_eq!(found[0].severity, Severity::Info);
        assert!(found[0].advice.contains("cannot be proved"));
    }

    #[test]
    fn an_honest_flush_without_a_cache_is_nothing_to_tell() {
        assert_eq!(testing::run(detect, &committing(400_000, 400_000)), []);
        assert_eq!(testing::run(detect, &testing::record()), []);
    }

    #[test]
    fn where_no_flush_reached_the_device_its_cost_tells_nothing() {
        let mut record = committing(30_000, 30_000);
        record.steps.iter_mut().for_each(|step| step.device.as_mut().unwrap().counted.flushes = 0);
        assert_eq!(testing::run(detect, &record), []);
    }
}

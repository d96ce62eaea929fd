//! The first write of a block costs more than writing it again: a thin volume or an image allocates space, or the
//! filesystem turns an unwritten extent into a written one. The first read can cost more as well: a restored snapshot
//! is loaded from remote storage.
//!
//! Formula, writes: P(first > again) over two steps that write the same blocks at the same rate, one to space that was
//! only allocated, the other over existing data (Mann-Whitney, see `qd1_stats::contrast`); reported from 3.5 standard
//! deviations where the median, the 75th or the 90th percentile is 1.3 times as high. If there are several of each,
//! every first step has to be slower than every later one, which rules out a disk that merely changed meanwhile. Reads:
//! as in `host_cache`, on a file or device that existed before and is fast everywhere once read. That cannot be told
//! apart from a cache that holds all of it, so both are named.
//!
//! It fails where a cache takes first writes and pays for them later.

use qd1_model::FindingId;
use qd1_model::plan::{FileUse, IoWork, TargetKind};
use qd1_model::record::StepRecord;
use qd1_model::units::format_ns;
use qd1_model::{Finding, Record, Severity, Summary};

use super::host_cache::{CacheSize, find_cache};
use super::paired::{
    class_of, counters, format_estimate, is_behind, only_writes, rounds, single_requests, was_written,
};
use super::{base_finding, percent};
use qd1_stats::contrast::{Sample, contrast};

const Z_MIN: f64 = 3.5;
/// Smallest ratio of a percentile of first writes to that of later ones.
const RATIO_MIN: f64 = 1.3;
/// The two are so far apart that no significance test is needed.
const FAR_RATIO: f64 = 10.0;
const FAR_ABOVE: f64 = 0.95;
/// Percentiles examined: a chunk may be so large that few writes are the first in theirs.
const LOOKED_AT: [f64; 3] = [0.5, 0.75, 0.9];

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    writes(record).into_iter().chain(reads(record)).collect()
}

fn alike(a: &IoWork, b: &IoWork) -> bool {
    (a.rw, a.sync, a.arrival, a.data, &a.blocks) == (b.rw, b.sync, b.arrival, b.data, &b.blocks)
}

fn writes(record: &Record) -> Option<Finding> {
    let writes: Vec<_> = single_requests(record).filter(|(_, io)| only_writes(io) && io.rw.is_random()).collect();
    let is_first = |step: &StepRecord, io: &IoWork| io.file == FileUse::Allocated && rounds(step, io) < 0.5;
    let (one, work) = writes.iter().find(|(step, io)| is_first(step, io))?;
    let class = class_of(work);
    let of = |wanted: &dyn Fn(&StepRecord, &IoWork) -> bool| -> Vec<Sample> {
        let steps = writes.iter().filter(|(step, io)| alike(io, work) && wanted(step, io));
        steps.filter_map(|(step, _)| Sample::of(step, class)).collect()
    };
    // First writes that cannot keep a pace that later ones keep are slower, with or without a queue.
    let (first, again) = (of(&is_first), of(&|step, io| was_written(io) && !is_behind(step, io)));
    let all = |samples: &[Sample]| samples.iter().cloned().reduce(|all, one| all.and(&one));
    let (new, old) = (all(&first)?, all(&again)?);
    let difference = contrast(&new, &old);
    let ratios = LOOKED_AT.map(|q| (q, new.seen(q) / old.seen(q).max(1.0)));
    let (at, ratio) = ratios.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0.5, 0.0));
    let steady = first.iter().all(|new| again.iter().all(|old| contrast(new, old).above > 0.5));
    // Queued writes depend on each other, so few of them count as samples; but the later ones kept the pace.
    let far_apart = ratio >= FAR_RATIO && difference.above >= FAR_ABOVE;
    if difference.z < Z_MIN && !far_apart || ratio < RATIO_MIN || !steady {
        return None;
    }
    let extra = counters(record, one).filter(|device| device.asked_writes > 0).map_or_else(String::new, |device| {
        format!("; the device counted {:.1} writes for each", device.counted.writes as f64 / device.asked_writes as f64)
    });
    Some(Finding {
        step: one.name.clone(),
        title: format!(
            "the first write of a block takes {ratio:.1} times as long as writing it again ({})",
            if at == 0.5 { "median".to_owned() } else { format!("p{:.0}", at * 100.0) }
        ),
        evidence: format!(
            "first: median {}, p90 {}, n={}; again: median {}, p90 {}, n={}; {} of pairs{extra}",
            format_estimate(&new.at(0.5)),
            format_ns(new.seen(0.9)),
            new.n(),
            format_estimate(&old.at(0.5)),
            format_ns(old.seen(0.9)),
            old.n(),
            percent(difference.above)
        ),
        advice: "A growing log pays this for each block; a log file that is written once and then reused does not. \
                 The other figures of this run are for blocks written before."
            .to_owned(),
        ..base_finding(FindingId::FirstTouchWrite, Severity::Warning, if difference.z > 5.0 { 0.9 } else { 0.8 })
    })
}

/// Slow first reads of data that existed before.
fn reads(record: &Record) -> Option<Finding> {
    if !matches!(record.plan.target.kind, TargetKind::File | TargetKind::BlockReadOnly) {
        return None;
    }
    let seen = find_cache(record)?;
    let CacheSize::AtLeast(size) = seen.size else { return None };
    Some(Finding {
        step: seen.step,
        title: format!("first reads take {:.1} times as long as later ones", seen.ratio),
        evidence: seen.evidence,
        advice: format!(
            "Either data is loaded from elsewhere when it is first read (a volume restored from a snapshot), or a \
             cache of at least {size} answers reads of data read before. Reading the whole device once shows which it \
             is, and fixes the former."
        ),
        ..base_finding(FindingId::FirstTouchRead, Severity::Warning, 0.7)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::plan::{Rw, Sync};

    /// Two rounds of first writes and overwrites with these latencies.
    fn writing(first_ns: [u64; 2], again_ns: [u64; 2]) -> Record {
        let mut record = testing::empty();
        for round in 0..2 {
            let again = testing::io(Rw::Randwrite, 65_536, Sync::None, true);
            let first = IoWork { file: FileUse::Allocated, ..again.clone() };
            testing::step(&mut record, &format!("first-{round}"), first, 8, first_ns[round]);
            testing::step(&mut record, &format!("again-{round}"), again, 8, again_ns[round]);
        }
        record
    }

    #[test]
    fn first_writes_that_are_slower_both_times_are_reported() {
        let found = testing::run(detect, &writing([400_000, 420_000], [150_000, 160_000]));
        assert_eq!(testing::ids(&found), ["first_touch.write"]);
        assert!(found[0].title.contains("2."), "{}", found[0].title);
    }

    #[test]
    fn a_disk_that_slows_down_or_stays_the_same_is_not_reported() {
        assert_eq!(testing::run(detect, &writing([150_000, 400_000], [160_000, 410_000])), []);
        assert_eq!(testing::run(detect, &writing([400_000, 150_000], [401_000, 160_000])), []);
        assert_eq!(testing::run(detect, &writing([150_000; 2], [150_000; 2])), []);
        assert_eq!(testing::run(detect, &testing::record()), []);
    }
}

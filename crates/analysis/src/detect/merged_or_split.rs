//! The device saw a different number of requests than were issued: large ones were split, or adjacent ones merged.
//!
//! Formula: ratio = requests the device counted / requests we made, for direct I/O only, and only where the bytes agree
//! within 20 %, so that neither a cache nor other traffic explains it. From 1.5 up requests were split (the queue's
//! `max_sectors_kb`, a stripe of a RAID); from 2/3 down they were merged (by the scheduler, at depth above 1). A
//! latency then belongs to the slowest part, or to the merged whole, and the IOPS of device and program differ. Source:
//! the kernel's `iostats` and `queue-sysfs` documentation.
//!
//! It cannot see what lies below: a hypervisor splits and merges on its own. Commits are left out, since a journal
//! adds requests of its own.

use qd1_model::FindingId;
use qd1_model::units::Bytes;
use qd1_model::{Finding, Record, Severity, Summary};

use super::{base_finding, counted_steps};

/// Ratio from which requests count as split; its inverse, as merged.
const RATIO: f64 = 1.5;
/// Bytes must agree within this.
const BYTES_TOLERANCE: f64 = 0.2;
/// Fewer requests than this prove nothing.
const REQUESTS_MIN: u64 = 100;

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let mut all = Vec::new();
    for (step, io, device) in counted_steps(record) {
        if !step.direct || io.sync.commits() {
            continue;
        }
        let counted = &device.counted;
        let reads = (device.asked_reads, device.asked_read_bytes.0, counted.reads, counted.read_bytes);
        let writes = (device.asked_writes, device.asked_write_bytes.0, counted.writes, counted.write_bytes);
        for (what, (asked, asked_bytes, seen, seen_bytes)) in [("reads", reads), ("writes", writes)] {
            if asked < REQUESTS_MIN || seen == 0 || asked_bytes == 0 {
                continue;
            }
            let agree = (seen_bytes as f64 / asked_bytes as f64 - 1.0).abs() <= BYTES_TOLERANCE;
            let ratio = seen as f64 / asked as f64;
            if !agree || (1.0 / RATIO..RATIO).contains(&ratio) {
                continue;
            }
            let (id, did) = match ratio > 1.0 {
                true => (FindingId::MergedOrSplitSplit, format!("split into {ratio:.1} on average")),
                false => (FindingId::MergedOrSplitMerged, format!("merged, {:.1} into one", 1.0 / ratio)),
            };
            all.push(Finding {
                step: step.name.clone(),
                title: format!("{what} of step {} were {did} on their way to the device", step.name),
                evidence: format!(
                    "requested {asked} {what} of {}; the device counted {seen} of {}",
                    Bytes(asked_bytes / asked),
                    Bytes(seen_bytes / seen)
                ),
                ..base_finding(id, Severity::Info, 0.9)
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::plan::{Rw, Sync};

    #[test]
    fn large_reads_split_in_four_are_named() {
        let mut record = testing::empty();
        let step = testing::step(&mut record, "large", testing::io(Rw::Read, 1 << 20, Sync::None, true), 50, 2_000_000);
        step.device.as_mut().unwrap().counted.reads *= 4;
        let found = testing::run(detect, &record);
        assert_eq!(testing::ids(&found), ["merged_or_split.split"]);
        assert!(found[0].evidence.contains("of 256 KiB"), "{}", found[0].evidence);
    }

    #[test]
    fn merged_writes_are_named() {
        let mut record = testing::empty();
        let step = testing::step(&mut record, "small", testing::io(Rw::Write, 4096, Sync::None, true), 500, 20_000);
        step.device.as_mut().unwrap().counted.writes /= 8;
        assert_eq!(testing::ids(&testing::run(detect, &record)), ["merged_or_split.merged"]);
    }

    #[test]
    fn equal_counts_other_traffic_and_commits_are_not_taken_for_it() {
        let mut record = testing::record();
        assert_eq!(testing::run(detect, &record), []);
        let device = record.steps[0].device.as_mut().unwrap();
        device.counted.reads *= 3;
        device.counted.read_bytes *= 3;
        record.steps[1].device.as_mut().unwrap().counted.writes *= 3;
        assert_eq!(testing::run(detect, &record), []);
    }
}

//! The file that is read is not entirely on the disk: parts are unwritten, holes, or compressed.
//!
//! Formula: (unwritten + hole bytes) / file, from FIEMAP after preparation. The filesystem answers such reads with
//! zeroes and never asks the disk, so latency looks like that of memory; from 1 % it warns, from 10 % it is critical.
//! Encoded extents (compressed, encrypted) read a different amount of data than requested; from 1 % they warn. Source:
//! kernel `filesystems/fiemap.rst` (FIEMAP_EXTENT_UNWRITTEN, FIEMAP_EXTENT_ENCODED).
//!
//! Reported only when some step reads the shared file. Filesystems without FIEMAP (tmpfs, many network ones) go unseen;
//! a thin volume or the provider's first-touch loading lies below the filesystem and is not seen here either.

use qd1_model::FindingId;
use qd1_model::plan::{FileUse, Work};
use qd1_model::record::Extents;
use qd1_model::units::Bytes;
use qd1_model::{Finding, Record, Severity, Summary};

use super::{base_finding, percent};

const WARNING: f64 = 0.01;
const CRITICAL: f64 = 0.10;

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let reads_shared = record
        .plan
        .steps
        .iter()
        .any(|plan| matches!(&plan.work, Work::Io(io) if io.file == FileUse::Shared && io.rw.reads()));
    let extents = record.prepare.as_ref().and_then(|prepare| prepare.extents);
    match extents {
        Some(extents) if reads_shared => missing(&extents).into_iter().chain(encoded(&extents)).collect(),
        _ => Vec::new(),
    }
}

fn total(extents: &Extents) -> f64 {
    let parts = [extents.written, extents.unwritten, extents.delayed, extents.encoded, extents.hole];
    parts.iter().map(|bytes| bytes.0).sum::<u64>().max(1) as f64
}

fn missing(extents: &Extents) -> Option<Finding> {
    let absent = Bytes(extents.unwritten.0 + extents.hole.0);
    let share = absent.0 as f64 / total(extents);
    (share >= WARNING).then(|| Finding {
        title: format!("{} of the test file is not on the disk: reading that part involves no disk", percent(share)),
        evidence: format!(
            "{} written, {} allocated but unwritten, {} holes, in {} extents",
            extents.written, extents.unwritten, extents.hole, extents.count
        ),
        advice: "Let qd1 write its own file in a directory, or write the given file fully with random data.".to_owned(),
        ..base_finding(
            FindingId::UnwrittenExtentsMissing,
            if share >= CRITICAL { Severity::Critical } else { Severity::Warning },
            0.95,
        )
    })
}

fn encoded(extents: &Extents) -> Option<Finding> {
    let share = extents.encoded.0 as f64 / total(extents);
    (share >= WARNING).then(|| Finding {
        title: format!("the filesystem compresses or encodes {} of the test file", percent(share)),
        evidence: format!("{} marked as encoded; the file has {} extents", extents.encoded, extents.count),
        advice: "Small reads then read and decode a larger extent. Mount without compression to measure the disk."
            .to_owned(),
        ..base_finding(FindingId::UnwrittenExtentsEncoded, Severity::Warning, 0.9)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn with(extents: Extents) -> Record {
        let mut record = testing::record();
        record.prepare.as_mut().unwrap().extents = Some(extents);
        record
    }

    #[test]
    fn reads_of_unwritten_extents_are_fantasy() {
        let half = Extents { written: Bytes::mib(512), unwritten: Bytes::mib(512), ..Extents::default() };
        let found = testing::run(detect, &with(half));
        assert_eq!(testing::ids(&found), ["unwritten_extents.missing"]);
        assert_eq!(found[0].severity, Severity::Critical);
    }

    #[test]
    fn compressed_extents_are_named() {
        let all = Extents { encoded: Bytes::gib(1), count: 8192, ..Extents::default() };
        assert_eq!(testing::ids(&testing::run(detect, &with(all))), ["unwritten_extents.encoded"]);
    }

    #[test]
    fn a_fully_written_file_and_an_unread_one_are_fine() {
        assert_eq!(testing::run(detect, &testing::record()), []);
        let mut unread = with(Extents { hole: Bytes::gib(1), ..Extents::default() });
        unread.plan.steps.remove(0);
        assert_eq!(testing::run(detect, &unread), []);
    }
}

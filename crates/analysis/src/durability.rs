//! Whether flushes write out the written data, as far as a run can tell.
//!
//! It can tell if a flush takes longer the more was written before it (`detect/flush_cost.rs`). If it takes equally
//! long, the device may have had nothing to write out, or ignore flushes: from inside the two look the same, so nothing
//! is claimed.

use qd1_model::environment::FilesystemClass;
use qd1_model::finding::{Finding, Severity};
use qd1_model::op::OpClass;
use qd1_model::units::format_ns;
use qd1_model::verdict::Durability;
use qd1_model::{Bytes, Record};
use qd1_model::{Detector, FindingId};

use crate::detect::Flushes;

/// Multiple of the median after a small write, from which the median after a large one is no longer "as long".
const AS_LONG: f64 = 1.1;

/// Returns it for a check of a disk that made commits; `None` if a critical finding says that no flush reached it.
pub(crate) fn of(record: &Record, findings: &[Finding]) -> Option<Durability> {
    let has_commits = record.steps.iter().flat_map(|step| &step.streams).any(|s| s.class == OpClass::Commit);
    let has = |id| findings.iter().any(|finding| finding.id == id);
    let is_missing = findings
        .iter()
        .any(|found| found.id.detector() == Detector::FlushIgnored && found.severity == Severity::Critical);
    if !has_commits || is_missing {
        return None;
    }
    let unverified = |why: String| Some(Durability { is_seen: false, why });
    let filesystem = &record.environment.filesystem;
    if matches!(filesystem.class, FilesystemClass::Network | FilesystemClass::Fuse) {
        return unverified(format!("{} hides what happens to a commit", filesystem.kind));
    }
    // A loop device writes out the cache of its file, whatever the disk below it does.
    if record.environment.devices.iter().any(|device| device.kind == "loop") {
        return unverified("a loop device is in front of the disk".to_owned());
    }
    let flushes = Flushes::of(record);
    let is_longer = has(FindingId::FlushCostWaits);
    if !is_longer && has(FindingId::FlushIgnoredWriteThrough) {
        return unverified(
            "the device says that it has no volatile cache, so the kernel sends it no flushes".to_owned(),
        );
    }
    let Some(flushes) = flushes else {
        let is_planned = record.plan.steps.iter().any(|step| step.name.starts_with("flush-"));
        let why = if is_planned {
            "too few flushes were measured"
        } else {
            "a check without --quick or --only measures what a flush costs"
        };
        return unverified(why.to_owned());
    };
    let [small, large] = [(flushes.small, &flushes.after_small), (flushes.large, &flushes.after_large)]
        .map(|((_, io), syncs)| (Bytes(io.block_max().into()), syncs.seen(0.5)));
    let compared = |words: [&str; 2]| {
        let after = |(block, ns): (Bytes, f64)| format!("after {block} ({})", format_ns(ns));
        format!("a flush takes {} {} {} {}", words[0], after(large), words[1], after(small))
    };
    if is_longer {
        return Some(Durability { is_seen: true, why: compared(["longer", "than"]) });
    }
    let seen = match large.1 / small.1 {
        times if times * AS_LONG < 1.0 => compared(["no longer", "than"]),
        times if times < AS_LONG => compared(["as long", "as"]),
        // The ratio alone proves nothing: single flushes scatter more, and memory also takes longer for more data.
        _ => format!("it is not certain that {}", compared(["longer", "than"])),
    };
    unverified(format!(
        "{seen}, as with a protected cache, a write-through disk or ignored flushes; qd1 powercut can tell"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::plan::{Rw, Sync};
    use qd1_model::{Subject, Thresholds};

    fn seen(flushes: &[(u32, u64)], edit: impl Fn(&mut Record)) -> Option<Durability> {
        let mut record = testing::empty();
        record.plan.subject = Subject::Check;
        for (block, lat_ns) in flushes {
            let work = testing::io(Rw::Randwrite, *block, Sync::Fdatasync, true);
            testing::step(&mut record, &format!("commits-{block}"), work, 10, *lat_ns);
        }
        edit(&mut record);
        crate::analyse(record, &Thresholds { class: Vec::new() }).durability
    }

    #[test]
    fn a_flush_that_takes_longer_the_more_there_is_was_seen() {
        let found = seen(&[(4096, 300_000), (1 << 20, 3_000_000)], |_| ()).unwrap();
        assert!(found.is_seen && found.why.starts_with("a flush takes longer after 1 MiB ("), "{found:?}");
    }

    /// "takes as long after 1 MiB (115 us) as after 4 KiB (1.76 ms)"
    #[test]
    fn a_shorter_one_is_not_said_to_take_as_long() {
        let found = seen(&[(4096, 2_000_000), (1 << 20, 100_000)], |_| ()).unwrap();
        assert!(!found.is_seen && found.why.starts_with("a flush takes no longer after 1 MiB ("), "{found:?}");
    }

    #[test]
    fn one_that_does_not_is_unverified_however_long_it_takes() {
        for lat_ns in [40_000, 2_000_000] {
            let found = seen(&[(4096, lat_ns), (1 << 20, lat_ns)], |_| ()).unwrap();
            assert!(!found.is_seen && found.why.starts_with("a flush takes as long after 1 MiB ("), "{found:?}");
        }
        let quick = seen(&[(4096, 300_000)], |_| ()).unwrap();
        assert!(!quick.is_seen && quick.why.contains("without --quick"), "{quick:?}");
        // Both are below what flash takes, so nothing was written out; but they do not take equally long.
        let longer = seen(&[(4096, 40_000), (1 << 20, 75_000)], |_| ()).unwrap();
        let expected = "it is not certain that a flush takes longer after 1 MiB (";
        assert!(!longer.is_seen && longer.why.starts_with(expected), "{longer:?}");
        let on_loop = |record: &mut Record| record.environment.devices[0].kind = "loop".to_owned();
        let unseen = seen(&[(4096, 300_000), (1 << 20, 3_000_000)], on_loop).unwrap();
        assert!(!unseen.is_seen, "{unseen:?}");
    }

    #[test]
    fn nothing_is_said_without_commits_and_where_there_is_no_disk() {
        assert_eq!(seen(&[], |_| ()), None);
        let memory = |record: &mut Record| {
            record.environment.filesystem.class = qd1_model::environment::FilesystemClass::Memory;
        };
        assert_eq!(seen(&[(4096, 1000), (1 << 20, 1000)], memory), None);
    }
}

//! Reads were answered without the device: by the page cache, or by a filesystem that ignores O_DIRECT.
//!
//! Formula: missing = 1 - bytes read by the device / bytes read by us, over the step. With O_DIRECT, hardly any should
//! be missing: 10 % is a warning, half is critical. Buffered reads may well be cached, so they only warn, except in a
//! check, which reads past the page cache wherever it can. Source: the kernel's `iostats` documentation (sectors read
//! are counted at the device).
//!
//! ZFS does not reveal its devices, so nothing can be counted. Before version 2.3 it accepts O_DIRECT but still answers
//! from its own cache (OpenZFS 2.3 release notes: Direct IO), so its reads show nothing about the disk: critical for
//! every step.
//!
//! It cannot see a cache below the counters: in the device, the controller or the hypervisor. It may mistake holes and
//! unwritten extents for a cache; `unwritten_extents` distinguishes these.

use qd1_model::FindingId;
use qd1_model::plan::{FileOp, FileUse, Work};
use qd1_model::record::StepRecord;
use qd1_model::units::Bytes;
use qd1_model::{Finding, OpClass, Record, Severity, Subject, Summary};

use super::{base_finding, counted_steps, percent, plan_of};
use crate::version::version_of;

/// Share of the bytes missing at the device from which it is reported.
const MISSING_WARNING: f64 = 0.1;
/// Share from which direct reads are critical.
const MISSING_CRITICAL: f64 = 0.5;
/// With fewer bytes requested, the counts prove nothing.
const ASKED_MIN: Bytes = Bytes::mib(1);

/// The first version of ZFS whose direct reads go past its cache.
const ZFS_DIRECT: (u32, u32) = (2, 3);

/// The reads of a ZFS that ignores O_DIRECT, or may.
fn of_zfs(record: &Record) -> Option<Finding> {
    let fs = &record.environment.filesystem;
    let version = version_of(&fs.version);
    if fs.kind != "zfs" || version.is_some_and(|version| version >= ZFS_DIRECT) {
        return None;
    }
    let known = if version.is_some() { format!("version {}", fs.version) } else { "of unknown version".to_owned() };
    Some(Finding {
        title: "ZFS may have answered the reads from its own cache: versions before 2.3 accept O_DIRECT but ignore it"
            .to_owned(),
        evidence: format!("{} is ZFS, {known}", fs.mount_point),
        advice: "Measure a dataset with primarycache=metadata, or look at commits only; measuring reads needs OpenZFS \
                 2.3."
            .to_owned(),
        ..base_finding(FindingId::CacheAnswered, Severity::Critical, 0.8)
    })
}

/// A large file that is read through the page cache and fits into it. If the file is twice as large as memory
/// (bonnie++'s rule), at most half of it is cached.
fn of_large_file(record: &Record) -> Option<Finding> {
    let memory = record.environment.memory;
    let large = |step: &&StepRecord| match plan_of(record, step).map(|plan| &plan.work) {
        Some(Work::Files(files)) => {
            let is_read = files.ops.iter().any(|op| op.is_block() && *op != FileOp::BlockWrite);
            is_read && files.size.0 < memory.0.saturating_mul(2)
        }
        _ => false,
    };
    let steps: Vec<&StepRecord> = record.steps.iter().filter(large).collect();
    let Some(Work::Files(files)) = plan_of(record, steps.first()?).map(|plan| &plan.work) else { return None };
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    let what = if files.size.0 > memory.0 { "is partly answered from" } else { "fits into" };
    Some(Finding {
        title: format!("the large file ({}) {what} memory ({memory}): the page cache answered its reads", files.size),
        evidence: format!("steps {}", names.join(", ")),
        advice: format!("Leave out --ram, or choose --size {} or more.", Bytes(memory.0.saturating_mul(2))),
        ..base_finding(FindingId::CacheAnswered, Severity::Warning, 0.9)
    })
}

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let reads = record.steps.iter().flat_map(|step| &step.streams).any(|stream| stream.class == OpClass::Read);
    let mut all: Vec<Finding> = of_zfs(record).filter(|_| reads).into_iter().chain(of_large_file(record)).collect();
    for (step, io, device) in counted_steps(record) {
        // Space that was never written cannot be read from the device; `unwritten_reads` reports that.
        if matches!(io.file, FileUse::Allocated | FileUse::Empty) && !io.rw.writes() {
            continue;
        }
        // Predictions measure the page cache on purpose.
        if record.plan.subject == Subject::Predict && !step.direct {
            continue;
        }
        let asked = device.asked_read_bytes;
        if asked < ASKED_MIN {
            continue;
        }
        let missing = 1.0 - device.counted.read_bytes as f64 / asked.0 as f64;
        if missing < MISSING_WARNING {
            continue;
        }
        let is_the_disks = step.direct || record.plan.subject == Subject::Check;
        let severity = if is_the_disks && missing >= MISSING_CRITICAL { Severity::Critical } else { Severity::Warning };
        let who = if step.direct { "although it used O_DIRECT" } else { "but from the page cache" };
        all.push(Finding {
            step: step.name.clone(),
            title: format!(
                "{} of the bytes read in step {} did not come from the device, {who}",
                percent(missing),
                step.name
            ),
            evidence: format!(
                "requested {asked} in {} reads; the device counted {} in {} reads",
                device.asked_reads,
                Bytes(device.counted.read_bytes),
                device.counted.reads
            ),
            advice: if step.direct {
                "The read figures of this step describe memory, not the disk. Use a block device or a filesystem that honours O_DIRECT."
            } else {
                "Use direct I/O, or a test file much larger than memory."
            }
            .to_owned(),
            ..base_finding(FindingId::CacheAnswered, severity, if step.direct { 0.9 } else { 0.95 })
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zfs_before_its_direct_reads_spoils_them() {
        let found = |version: &str| {
            let mut record = crate::testing::record();
            let fs = &mut record.environment.filesystem;
            "zfs".clone_into(&mut fs.kind);
            version.clone_into(&mut fs.version);
            let all = crate::testing::run(detect, &record);
            all.iter().any(|finding| finding.id == FindingId::CacheAnswered && finding.step.is_empty())
        };
        assert!(found("2.2.7-1") && found("") && found("0.8.3"));
        assert!(!found("2.3.0-rc1") && !found("2.10.1"));
    }

    use crate::testing;
    use qd1_model::environment::FilesystemClass;
    use qd1_model::plan::FilesWork;

    #[test]
    fn direct_reads_that_the_device_never_saw_are_critical() {
        let mut record = testing::record();
        let device = record.steps[0].device.as_mut().unwrap();
        device.counted.read_bytes /= 10;
        let found = testing::run(detect, &record);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Critical));
        assert!(found[0].title.starts_with("90 %"), "{}", found[0].title);
    }

    #[test]
    fn buffered_reads_from_the_cache_only_warn() {
        let mut record = testing::record();
        record.plan.subject = Subject::Suite;
        record.steps[0].direct = false;
        record.steps[0].device.as_mut().unwrap().counted.read_bytes = 0;
        assert_eq!(testing::run(detect, &record)[0].severity, Severity::Warning);
        record.plan.subject = Subject::Check;
        assert_eq!(testing::run(detect, &record)[0].severity, Severity::Critical, "direct I/O was refused");
        record.plan.subject = Subject::Predict;
        assert_eq!(testing::run(detect, &record), [], "meant to be");
    }

    #[test]
    fn reads_the_device_served_are_not_suspected() {
        let mut record = testing::record();
        assert_eq!(testing::run(detect, &record), []);
        record.steps[0].device = None;
        assert_eq!(testing::run(detect, &record), [], "no device, nothing to say");
    }

    /// 512 MiB with 23 GiB of memory gave 5.46 GB/s without a warning.
    #[test]
    fn a_large_file_that_fits_into_memory_is_said_to() {
        let of = |mib: u64| {
            let mut record = testing::record();
            record.environment.memory = Bytes::gib(23);
            let files = FilesWork { size: Bytes::mib(mib), ops: vec![FileOp::BlockRead], ..FilesWork::default() };
            let name = record.steps[0].name.clone();
            let plan = record.plan.steps.iter_mut().find(|plan| plan.name == name).unwrap();
            plan.work = Work::Files(files);
            testing::run(detect, &record)
        };
        let found = of(512);
        assert_eq!((testing::ids(&found), found[0].severity), (vec!["cache_answered"], Severity::Warning));
        assert!(found[0].title.contains("(512 MiB) fits into memory (23 GiB)"), "{}", found[0].title);
        assert!(of(30 << 10)[0].title.contains("partly"));
        assert_eq!(of(46 << 10), []);
    }

    #[test]
    fn on_a_network_there_are_no_counters_to_compare() {
        let mut record = testing::record();
        record.steps[0].device.as_mut().unwrap().counted.read_bytes = 0;
        record.environment.filesystem.class = FilesystemClass::Network;
        assert_eq!(testing::run(detect, &record), []);
    }
}

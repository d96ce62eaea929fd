//! Commits were made, but (almost) no flush reached the device: either nothing needs flushing, or nothing is durable.
//!
//! Formula: flushes the device counted < 10 % of our syncs / parallel writers; a journal may serve the syncs of all
//! writers with one flush, so only a deficit far beyond that counts. Then:
//! - a filesystem mounted with `barrier=0` or `nobarrier`, or overlayfs with `volatile`: critical, the kernel was asked
//!   not to flush;
//! - a device that claims `write through`: info. The kernel sends no flush because the device says it has no
//!   volatile cache. Whether that is true of a virtual disk cannot be seen from inside;
//! - a device with a `write back` cache: critical, since a commit then rests in a volatile cache.
//!
//! Sources: kernel `Documentation/block/writeback_cache_control.rst`; `admin-guide/iostats` (flushes are counted
//! since 5.5, and only on whole disks, not on partitions, dm or md devices).
//!
//! It reports nothing if it cannot know: kernels before 5.5, no device, FUSE and network filesystems, O_SYNC and
//! O_DSYNC with direct I/O (the write may carry FUA instead), and a partition or dm device on top whose flush count
//! stayed zero throughout, unless the reason is known. A flush that the device acknowledges and drops is invisible.

use qd1_model::FindingId;
use qd1_model::environment::Environment;
use qd1_model::{Finding, Record, Severity, Summary};

use super::{base_finding, counted_steps, workers};
use crate::doctor::mounts::no_barrier;
use crate::version::version_of;

/// Flushes per sync and writer below which they count as missing.
const DEFICIT: f64 = 0.1;
/// Fewer syncs than this prove nothing.
const SYNCS_MIN: u64 = 20;
/// First kernel that counts flushes.
const KERNEL_MIN: (u32, u32) = (5, 5);

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let environment = &record.environment;
    if version_of(&environment.kernel).is_none_or(|version| version < KERNEL_MIN) {
        return Vec::new();
    }
    let ever_counted = record.steps.iter().any(|step| step.device.is_some_and(|device| device.counted.flushes > 0));
    let mut deficits = Vec::new();
    for (step, io, device) in counted_steps(record) {
        let may_be_fua = step.direct && io.sync.is_in_the_write();
        if !io.sync.is_durable() || may_be_fua || device.asked_syncs < SYNCS_MIN {
            continue;
        }
        let expected = device.asked_syncs as f64 / workers(io, step) as f64;
        if (device.counted.flushes as f64) < DEFICIT * expected {
            deficits.push((step.name.as_str(), device.asked_syncs, device.counted.flushes));
        }
    }
    if deficits.is_empty() {
        return Vec::new();
    }
    conclude(environment, &deficits, ever_counted).into_iter().collect()
}

/// What the deficits (step, syncs, flushes) mean on this machine, in one finding for all of them.
fn conclude(environment: &Environment, deficits: &[(&str, u64, u64)], ever_counted: bool) -> Option<Finding> {
    let each: Vec<String> = deficits
        .iter()
        .map(|(step, syncs, flushes)| format!("{step}: {syncs} syncs, {flushes} flushes counted"))
        .collect();
    let counts = each.join("; ");
    let step = if deficits.len() == 1 { deficits[0].0.to_owned() } else { String::new() };
    let caches: Vec<&str> = environment
        .devices
        .iter()
        .map(|device| device.write_cache.as_str())
        .filter(|cache| !cache.is_empty())
        .collect();
    if let Some(option) = no_barrier(&environment.filesystem.options) {
        return Some(Finding {
            step,
            title: format!("the filesystem is mounted with {option}: commits do not flush the disk's cache"),
            evidence: counts,
            advice: "Remount with barriers; without them, a power cut can lose or corrupt committed data.".to_owned(),
            ..base_finding(FindingId::FlushIgnoredNoBarrier, Severity::Critical, 0.95)
        });
    }
    if !caches.is_empty() && caches.iter().all(|cache| *cache == "write through") {
        return Some(Finding {
            step,
            title: "the device claims to have no volatile write cache, so the kernel sends it no flushes".to_owned(),
            evidence: format!("{counts}; write_cache is \"write through\""),
            advice: "Commits are durable only if that claim is true. For a virtual disk, only the provider knows."
                .to_owned(),
            ..base_finding(FindingId::FlushIgnoredWriteThrough, Severity::Info, 0.9)
        });
    }
    let whole_disk = environment.devices.first().is_some_and(|device| device.kind == "disk");
    if !caches.contains(&"write back") || !(whole_disk || ever_counted) {
        return None;
    }
    Some(Finding {
        step,
        title: "commits returned without a flush reaching the device, which has a volatile write cache".to_owned(),
        evidence: format!("{counts}; write_cache is \"write back\""),
        advice: "Look for what swallows the syncs: a preloaded library such as eatmydata, a layer between filesystem \
                 and device, or a journal on another device. Until this is fixed, commit latencies are not those of \
                 durable writes."
            .to_owned(),
        ..base_finding(FindingId::FlushIgnoredMissing, Severity::Critical, 0.75)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::plan::{Rw, Sync, Work};

    fn without_flushes() -> Record {
        let mut record = testing::record();
        record.environment.devices.remove(0);
        record.steps[1].device.as_mut().unwrap().counted.flushes = 0;
        record
    }

    #[test]
    fn a_write_back_cache_that_is_never_flushed_is_critical() {
        let found = testing::run(detect, &without_flushes());
        assert_eq!(testing::ids(&found), ["flush_ignored.missing"]);
        assert_eq!(found[0].severity, Severity::Critical);
    }

    #[test]
    fn write_through_is_named_but_not_blamed() {
        let mut record = without_flushes();
        record.environment.devices[0].write_cache = "write through".to_owned();
        let found = testing::run(detect, &record);
        assert_eq!(testing::ids(&found), ["flush_ignored.write_through"]);
        assert_eq!(found[0].severity, Severity::Info);
    }

    #[test]
    fn nobarrier_explains_the_deficit() {
        let mut record = without_flushes();
        record.environment.filesystem.options.push("nobarrier".to_owned());
        assert_eq!(testing::ids(&testing::run(detect, &record)), ["flush_ignored.no_barrier"]);
    }

    #[test]
    fn an_old_kernel_a_partition_and_fuse_prove_nothing() {
        let mut old = without_flushes();
        old.environment.kernel = "5.4.0-100-generic".to_owned();
        assert_eq!(testing::run(detect, &old), []);
        let mut partition = without_flushes();
        partition.environment.devices[0].kind = "partition".to_owned();
        assert_eq!(testing::run(detect, &partition), []);
        let mut fuse = without_flushes();
        fuse.environment.filesystem.class = qd1_model::environment::FilesystemClass::Fuse;
        assert_eq!(testing::run(detect, &fuse), []);
    }

    #[test]
    fn a_journal_that_batches_commits_of_four_writers_is_accepted() {
        let mut record = testing::empty();
        let mut work = testing::io(Rw::Write, 4096, Sync::Fdatasync, false);
        work.numjobs = 4;
        let step = testing::step(&mut record, "four", work, 100, 4_000_000);
        step.device.as_mut().unwrap().counted.flushes /= 4;
        assert_eq!(testing::run(detect, &record), []);
    }

    #[test]
    fn direct_o_dsync_writes_may_use_fua_instead() {
        let mut record = without_flushes();
        record.steps[1].direct = true;
        let Work::Io(io) = &mut record.plan.steps[1].work else { unreachable!() };
        io.sync = Sync::ODsync;
        assert_eq!(testing::run(detect, &record), []);
    }
}

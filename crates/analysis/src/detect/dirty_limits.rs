//! The kernel may hold gigabytes of unwritten data before it makes writers wait: a writeback storm in the making.
//!
//! What counts as excessive is the doctor's rule (`doctor/writeback.rs`). Time to drain = limit / measured rate of large
//! direct writes; from 5 s up, or where no rate was measured, it warns; below that it only informs.
//!
//! It does not know the control group's own limits of v2 writeback, nor whether any program here writes that much.

use qd1_model::FindingId;
use qd1_model::op::OpClass;
use qd1_model::plan::Sync;
use qd1_model::units::{format_rate, format_span_ns};
use qd1_model::{Finding, Record, Severity, Summary};

use super::{base_finding, io_of};
use crate::doctor::writeback::{ByteLimits, byte_limits, described, excessive_limit};

/// Draining that takes this long is noticeable, ns.
const DRAIN_WARNING_NS: u64 = 5_000_000_000;
/// Smallest block whose write rate counts as the disk's sustained rate, bytes.
const LARGE_BLOCK: u32 = 256 << 10;

pub(super) fn detect(record: &Record, summary: &Summary) -> Vec<Finding> {
    let environment = &record.environment;
    let rate = sustained_rate(record, summary);
    let better = byte_limits(rate, &environment.devices);
    let Some(limit) = excessive_limit(environment.memory, environment.dirty, better) else { return Vec::new() };
    let drain_ns = rate.map(|rate| (limit.0 as f64 / rate * 1e9) as u64);
    let severity = match drain_ns {
        Some(drain_ns) if drain_ns < DRAIN_WARNING_NS => Severity::Info,
        _ => Severity::Warning,
    };
    let drain = match (rate, drain_ns) {
        (Some(rate), Some(drain_ns)) => {
            format!("; at the {} measured here, writing that out takes {}", format_rate(rate), format_span_ns(drain_ns))
        }
        _ => String::new(),
    };
    vec![Finding {
        title: format!("the kernel may hold up to {limit} of unwritten data before it slows writers down"),
        evidence: format!("{}{drain}", described(environment.dirty, environment.memory)),
        advice: advice(better),
        ..base_finding(FindingId::DirtyLimits, severity, 0.8)
    }]
}

/// Best measured rate of large writes that reached the disk, bytes per second.
fn sustained_rate(record: &Record, summary: &Summary) -> Option<f64> {
    let rates = record.steps.iter().filter_map(|step| {
        let io = io_of(record, step)?;
        let reaches_disk = step.direct || io.sync == Sync::EndFsync || io.sync.commits();
        if !reaches_disk || io.block_max() < LARGE_BLOCK {
            return None;
        }
        summary.stream(&step.name, OpClass::Write)?.bytes_per_second.value
    });
    rates.filter(|rate| *rate > 0.0).max_by(f64::total_cmp)
}

fn advice(better: ByteLimits) -> String {
    let ByteLimits { limit, background } = better;
    format!(
        "Limit it in bytes: `sysctl -w vm.dirty_bytes={limit} vm.dirty_background_bytes={background}`, and keep the \
         setting in /etc/sysctl.d/."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::environment::Dirty;
    use qd1_model::plan::Rw;
    use qd1_model::units::Bytes;

    #[test]
    fn a_ratio_on_a_large_machine_warns_of_a_writeback_storm() {
        let mut record = testing::record();
        record.environment.memory = Bytes(256_000_000_000);
        let found = testing::run(detect, &record);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!(found[0].title.contains("47.6 GiB"), "{}", found[0].title);
        assert!(found[0].advice.contains("vm.dirty_bytes=2147483648 vm.dirty_background_bytes=536870912"));
    }

    #[test]
    fn a_measured_write_rate_tells_how_long_it_drains() {
        let mut record = testing::record();
        record.environment.memory = Bytes(64_000_000_000);
        testing::step(&mut record, "large", testing::io(Rw::Write, 1 << 20, Sync::None, true), 10, 9_000_000);
        let found = testing::run(detect, &record);
        assert!(found[0].evidence.contains("105 MB/s"), "{}", found[0].evidence);
        assert!(found[0].evidence.contains("2 min 02 s"), "{}", found[0].evidence);
    }

    #[test]
    fn small_machines_and_byte_limits_are_left_alone() {
        let mut record = testing::record();
        assert_eq!(testing::run(detect, &record), []);
        record.environment.memory = Bytes::gib(256);
        record.environment.dirty = Dirty { bytes: Bytes::gib(2), ..Dirty::default() };
        assert_eq!(testing::run(detect, &record), []);
    }

    #[test]
    fn a_limit_below_the_recommended_one_is_left_alone() {
        let mut record = testing::record();
        record.environment.memory = Bytes::gib(32);
        record.environment.dirty = Dirty { ratio: 1, ..Dirty::default() };
        assert_eq!(testing::run(detect, &record), []);
        record.environment.dirty.ratio = 5;
        assert_eq!(testing::run(detect, &record), []);
        record.environment.devices[0].kind = "disk".to_owned();
        record.environment.devices[0].rotational = Some(true);
        record.environment.devices[0].transport = "scsi (ahci)".to_owned();
        assert!(testing::run(detect, &record)[0].advice.contains("vm.dirty_bytes=536870912"));
    }
}

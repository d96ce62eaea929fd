//! A buffered write looks fast until its data has to reach the disk: the rate dd shows, and the true rate.
//!
//! Formula: shown = bytes / (runtime - final fsync), what a program without a sync would report; true = bytes /
//! runtime. Reported from a factor of 1.25 up, along with the rate of large direct writes if one was measured. Source:
//! the brief ("sequential write, cached: 273 MB/s to 1.3 GB/s; direct: 65-807 MB/s").
//!
//! The kernel writes back while the program writes, so on long runs the two rates meet and nothing is reported.

use qd1_model::FindingId;
use qd1_model::op::OpClass;
use qd1_model::plan::Sync;
use qd1_model::units::{format_rate, format_span_ns};
use qd1_model::{Finding, Record, Severity, Summary};

use super::{base_finding, io_of};

/// Ratio of the rate shown to the true rate from which it is reported.
const FACTOR_MIN: f64 = 1.25;

pub(super) fn detect(record: &Record, summary: &Summary) -> Vec<Finding> {
    let mut all = Vec::new();
    for step in &record.steps {
        let Some(io) = io_of(record, step) else { continue };
        let Some(stream) = step.stream(OpClass::Write) else { continue };
        if step.direct || io.sync != Sync::EndFsync || step.end_fsync_ns == 0 || stream.bytes.0 == 0 {
            continue;
        }
        let bytes = stream.bytes.0 as f64;
        let rate = |ns: u64| bytes / (ns.max(1) as f64 / 1e9);
        let shown = rate(step.runtime_ns.saturating_sub(step.end_fsync_ns));
        let real = rate(step.runtime_ns);
        if shown < FACTOR_MIN * real {
            continue;
        }
        let direct = direct_rate(record, summary)
            .map(|rate| format!("; direct writes of large blocks reach {}", format_rate(rate)))
            .unwrap_or_default();
        all.push(Finding {
            step: step.name.clone(),
            title: format!(
                "buffered writes look {:.1} times as fast as the disk: dd would show {}, but the disk took only {}",
                shown / real,
                format_rate(shown),
                format_rate(real)
            ),
            evidence: format!(
                "{} written in {}, the last {} of it in fsync{direct}",
                stream.bytes,
                format_span_ns(step.runtime_ns),
                format_span_ns(step.end_fsync_ns)
            ),
            advice: "With dd, use conv=fsync or oflag=direct.".to_owned(),
            ..base_finding(FindingId::BufferedNotDurable, Severity::Info, 1.0)
        });
    }
    all
}

/// Best measured rate of direct writes of at least 256 KiB, bytes per second.
fn direct_rate(record: &Record, summary: &Summary) -> Option<f64> {
    let large = record.steps.iter().filter(|step| {
        step.direct && io_of(record, step).is_some_and(|io| io.rw.writes() && io.block_max() >= 256 << 10)
    });
    large.filter_map(|step| summary.stream(&step.name, OpClass::Write)?.bytes_per_second.value).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::plan::Rw;

    fn buffered(end_fsync_ns: u64) -> Record {
        let mut record = testing::empty();
        let step =
            testing::step(&mut record, "big", testing::io(Rw::Write, 1 << 20, Sync::EndFsync, false), 50, 500_000);
        step.end_fsync_ns = end_fsync_ns;
        record
    }

    #[test]
    fn what_dd_shows_and_what_is_true_stand_side_by_side() {
        let found = testing::run(detect, &buffered(1_500_000_000));
        assert_eq!(testing::ids(&found), ["buffered_not_durable"]);
        assert!(found[0].title.contains("4.0 times"), "{}", found[0].title);
        assert!(
            found[0].title.contains("dd would show 2.10 GB/s, but the disk took only 524 MB/s"),
            "{}",
            found[0].title
        );
    }

    #[test]
    fn a_disk_that_keeps_up_is_not_accused() {
        assert_eq!(testing::run(detect, &buffered(50_000_000)), []);
    }
}

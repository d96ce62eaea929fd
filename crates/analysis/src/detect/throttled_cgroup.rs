//! The control group limits I/O: the run measured that limit, not the disk.
//!
//! Concludes from `io.max` (v2) or `blkio.throttle` (v1) of the process's group and its parents. A limit far above the
//! disk does no harm; that is not judged here. A limit that is all `max` is not a limit.

use qd1_model::FindingId;
use qd1_model::{Finding, Record, Severity, Summary};

use super::base_finding;

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let limits: Vec<&str> =
        record.environment.cgroup_io_limits.iter().map(String::as_str).filter(|limit| is_limit(limit)).collect();
    if limits.is_empty() {
        return Vec::new();
    }
    vec![Finding {
        title: "the control group limits I/O: the figures may describe the limit, not the disk".to_owned(),
        evidence: limits.join("; "),
        advice: "Run outside the container or raise the limit (systemd: IOReadBandwidthMax and the like) to measure \
                 the disk."
            .to_owned(),
        ..base_finding(FindingId::ThrottledCgroup, Severity::Warning, 0.8)
    }]
}

/// Whether any value of `8:0 rbps=max wbps=1048576` is a number; an unknown form counts as a limit.
fn is_limit(line: &str) -> bool {
    let mut values = line.split_whitespace().filter_map(|word| word.split_once('=')).peekable();
    values.peek().is_none() || values.any(|(_, value)| value != "max")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_limit_is_named_in_the_kernels_words() {
        let mut record = testing::record();
        record.environment.cgroup_io_limits = vec!["254:0 rbps=max wbps=1048576".to_owned()];
        let found = testing::run(detect, &record);
        assert_eq!((found.len(), found[0].evidence.as_str()), (1, "254:0 rbps=max wbps=1048576"));
    }

    #[test]
    fn no_limit_is_no_finding() {
        let mut record = testing::record();
        assert_eq!(testing::run(detect, &record), []);
        record.environment.cgroup_io_limits = vec!["254:0 rbps=max wbps=max".to_owned()];
        assert_eq!(testing::run(detect, &record), []);
    }
}

//! Writing the test file was so slow that it was made smaller than planned.
//!
//! Concludes from `Prepare::shortened`. A small file fits into caches below the filesystem (controller, hypervisor),
//! which the kernel's counters do not see, and is a smaller part of the disk than asked for.

use qd1_model::FindingId;
use qd1_model::units::{format_rate, format_span_ns};
use qd1_model::{Finding, Record, Severity, Summary};

use super::base_finding;

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let Some(prepare) = record.prepare.as_ref().filter(|prepare| prepare.shortened) else { return Vec::new() };
    let rate = prepare.bytes.0 as f64 / (prepare.elapsed_ns.max(1) as f64 / 1e9);
    // Earlier versions recorded only the resulting size.
    let planned = prepare.planned.max(record.plan.target.size);
    vec![Finding {
        title: format!("the test file is {} instead of {planned}", prepare.bytes),
        evidence: format!("writing it took {} at {}", format_span_ns(prepare.elapsed_ns), format_rate(rate)),
        advice: "A small file may fit into a cache below the filesystem; use --full to allow more time for writing \
                 it."
        .to_owned(),
        ..base_finding(FindingId::PrepareShortened, Severity::Warning, 1.0)
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::Bytes;

    #[test]
    fn a_shortened_file_is_named_with_its_rate() {
        let mut record = testing::record();
        let prepare = record.prepare.as_mut().unwrap();
        (prepare.shortened, prepare.bytes, prepare.elapsed_ns) = (true, Bytes::mib(256), 10_000_000_000);
        // The steps then use what there is.
        (prepare.planned, record.plan.target.size) = (Bytes::gib(1), Bytes::mib(256));
        let found = testing::run(detect, &record);
        assert_eq!(found[0].title, "the test file is 256 MiB instead of 1 GiB");
        assert_eq!(found[0].evidence, "writing it took 10 s at 26.8 MB/s");
    }

    #[test]
    fn a_full_file_is_not() {
        assert_eq!(testing::run(detect, &testing::record()), []);
    }
}

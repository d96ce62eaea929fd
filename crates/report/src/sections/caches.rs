//! What the suite `caches` found, in a sentence or two.

use qd1_model::FindingId::{
    self, DataReductionCompression, DataReductionDedup, DataReductionZeros, FirstTouchRead, FirstTouchWrite,
    FlushCostNothing, FlushCostWaits, FlushIgnoredMissing, FlushIgnoredNoBarrier, FlushIgnoredWriteThrough, HostCache,
};
use qd1_model::plan::Work;
use qd1_model::{Bytes, Report};

/// The built-in suite that looks for caches.
const SUITE: &str = "caches";
/// Prefix of its steps that read a part again.
const AGAIN: &str = "again-";

/// Returns which caches answer before the disk does; `None` for other runs.
pub(crate) fn sentence(report: &Report) -> Option<String> {
    let plan = &report.record.plan;
    if plan.suite != SUITE || report.summary.steps.is_empty() {
        return None;
    }
    let ran = |name: &str| report.summary.steps.iter().any(|step| step.name == name && !step.streams.is_empty());
    let found = |ids: &[FindingId]| report.findings.iter().find(|finding| ids.contains(&finding.id));
    let mut sentences = Vec::new();
    let reread = plan.steps.iter().filter(|step| step.name.starts_with(AGAIN) && ran(&step.name));
    let largest = reread.filter_map(|step| if let Work::Io(io) = &step.work { Some(io.size) } else { None }).max();
    let mut say = |groups: &[&[FindingId]], otherwise: Option<String>| match groups.iter().find_map(|ids| found(ids)) {
        Some(finding) => sentences.push(super::sentence(&finding.title)),
        None => sentences.extend(otherwise),
    };
    let none_up_to = |size: Bytes| format!("No cache below this system was seen answering reads, up to {size}.");
    say(&[&[HostCache], &[FirstTouchRead]], largest.map(none_up_to));
    let flushes = ran("flush-1m").then(|| "It is not known whether flushes write anything out.".to_owned());
    let ignored = [FlushIgnoredMissing, FlushIgnoredNoBarrier, FlushIgnoredWriteThrough];
    say(&[&ignored, &[FlushCostNothing, FlushCostWaits]], flushes);
    say(
        &[&[DataReductionCompression, DataReductionDedup, DataReductionZeros]],
        ran("zeros").then(|| "Nothing is compressed or deduplicated.".to_owned()),
    );
    say(&[&[FirstTouchWrite]], None);
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

//! What the suite `caches` found, in a sentence or two.

use qd1_model::plan::Work;
use qd1_model::{Bytes, Report};

/// The built-in suite that looks for them.
const SUITE: &str = "caches";
/// What its steps that read a part again begin with.
const AGAIN: &str = "again-";

/// Returns what answers before the disk; `None` for other runs.
pub(crate) fn sentence(report: &Report) -> Option<String> {
    let plan = &report.record.plan;
    if plan.suite != SUITE || report.summary.steps.is_empty() {
        return None;
    }
    let ran = |name: &str| report.summary.steps.iter().any(|step| step.name == name && !step.streams.is_empty());
    let found = |id: &str| report.findings.iter().find(|finding| finding.id.starts_with(id));
    let mut sentences = Vec::new();
    let reread = plan.steps.iter().filter(|step| step.name.starts_with(AGAIN) && ran(&step.name));
    let largest = reread.filter_map(|step| if let Work::Io(io) = &step.work { Some(io.size) } else { None }).max();
    let mut say = |ids: &[&str], otherwise: Option<String>| match ids.iter().find_map(|id| found(id)) {
        Some(finding) => sentences.push(super::sentence(&finding.title)),
        None => sentences.extend(otherwise),
    };
    let none_up_to = |size: Bytes| format!("No cache below was seen to answer reads, up to {size}.");
    say(&["host_cache", "first_touch.read"], largest.map(none_up_to));
    let flushes = ran("flush-1m").then(|| "Whether flushes write anything out is not known.".to_owned());
    say(&["flush_ignored", "flush_cost"], flushes);
    say(&["data_reduction"], ran("zeros").then(|| "Nothing is compressed or deduplicated.".to_owned()));
    say(&["first_touch.write"], None);
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

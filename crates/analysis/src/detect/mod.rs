//! Detectors: each concludes one thing from a Record. One row in [`DETECTORS`] and one file per detector.
//!
//! A detector looks at what a step was planned to do, never at its name, so that it works for every suite. It says
//! nothing if it cannot know: no block device, a kernel too old to count, too few requests.

mod behind_its_rate;
mod buffered_not_durable;
mod cache_answered;
pub(crate) mod cpu_spoiled;
mod data_reduction;
mod dirty_limits;
mod drift;
mod engine_fallback;
mod first_touch;
mod flush_cost;
mod flush_ignored;
mod host_cache;
mod loaded_commits;
mod merged_or_split;
mod mount_options;
mod not_a_disk;
mod other_traffic;
mod pace;
mod paired;
mod periodic_stalls;
mod prepare_shortened;
mod rate_changed;
mod rate_limited;
mod short_or_failed_io;
mod stalls;
mod storage_kind;
mod throttled_cgroup;
mod unwritten_extents;
mod unwritten_reads;
mod without_ramp;

use qd1_model::order::Order as _;
use qd1_model::{Detector, FindingId};
use std::cell::LazyCell;

pub(crate) use flush_cost::Flushes;
use qd1_model::environment::FilesystemClass;
use qd1_model::plan::{IoWork, StepPlan, Work};
use qd1_model::record::{DeviceDelta, StepRecord};
use qd1_model::verdict::Judged;
use qd1_model::{Finding, Grade, Record, Severity, Summary};
pub(crate) use rate_changed::{changes_of, in_short};
pub(crate) use stalls::{Stall, TOGETHER_NS, stalls_of};

use qd1_stats::change::StepCourse;

/// One detector.
struct Row {
    detector: Detector,
    run: Run,
}

/// What a detector bases its conclusion on.
enum Run {
    /// The steps' plans and figures.
    At(fn(&Record, &Summary) -> Vec<Finding>),
    /// The course of each step over time, of which a check over hours has too few samples.
    Along(fn(&Record, &[StepCourse]) -> Vec<Finding>),
}

/// All detectors.
static DETECTORS: &[Row] = &[
    Row { detector: Detector::ShortOrFailedIo, run: Run::At(short_or_failed_io::detect) },
    Row { detector: Detector::BehindItsRate, run: Run::At(behind_its_rate::detect) },
    Row { detector: Detector::NotADisk, run: Run::At(not_a_disk::detect) },
    Row { detector: Detector::CacheAnswered, run: Run::At(cache_answered::detect) },
    Row { detector: Detector::FlushIgnored, run: Run::At(flush_ignored::detect) },
    Row { detector: Detector::UnwrittenExtents, run: Run::At(unwritten_extents::detect) },
    Row { detector: Detector::UnwrittenReads, run: Run::At(unwritten_reads::detect) },
    Row { detector: Detector::HostCache, run: Run::At(host_cache::detect) },
    Row { detector: Detector::FlushCost, run: Run::At(flush_cost::detect) },
    Row { detector: Detector::DataReduction, run: Run::At(data_reduction::detect) },
    Row { detector: Detector::FirstTouch, run: Run::At(first_touch::detect) },
    Row { detector: Detector::Pace, run: Run::At(pace::detect) },
    Row { detector: Detector::CpuSpoiled, run: Run::At(cpu_spoiled::detect) },
    Row { detector: Detector::OtherTraffic, run: Run::At(other_traffic::detect) },
    Row { detector: Detector::ThrottledCgroup, run: Run::At(throttled_cgroup::detect) },
    Row { detector: Detector::MountOptions, run: Run::At(mount_options::detect) },
    Row { detector: Detector::Stalls, run: Run::At(stalls::detect) },
    Row { detector: Detector::RateChanged, run: Run::Along(rate_changed::detect) },
    Row { detector: Detector::RateLimited, run: Run::Along(rate_limited::detect) },
    Row { detector: Detector::PeriodicStalls, run: Run::Along(periodic_stalls::detect) },
    Row { detector: Detector::Drift, run: Run::Along(drift::detect) },
    Row { detector: Detector::LoadedCommits, run: Run::At(loaded_commits::detect) },
    Row { detector: Detector::DirtyLimits, run: Run::At(dirty_limits::detect) },
    Row { detector: Detector::PrepareShortened, run: Run::At(prepare_shortened::detect) },
    Row { detector: Detector::EngineFallback, run: Run::At(engine_fallback::detect) },
    Row { detector: Detector::WithoutRamp, run: Run::At(without_ramp::detect) },
    Row { detector: Detector::MergedOrSplit, run: Run::At(merged_or_split::detect) },
    Row { detector: Detector::BufferedNotDurable, run: Run::At(buffered_not_durable::detect) },
    Row { detector: Detector::StorageKind, run: Run::At(storage_kind::detect) },
];

/// Runs all detectors and returns their findings, the most severe first, and within a severity the most certain first.
#[must_use]
pub fn findings(record: &Record, summary: &Summary) -> Vec<Finding> {
    findings_of(record, summary, |_| true)
}

/// The same with these detectors only.
pub(crate) fn findings_of(record: &Record, summary: &Summary, is_wanted: impl Fn(Detector) -> bool) -> Vec<Finding> {
    let mut all = Vec::new();
    let courses = LazyCell::new(|| record.steps.iter().map(|step| StepCourse::of(&step.intervals)).collect::<Vec<_>>());
    for Row { detector, run } in DETECTORS.iter().filter(|row| is_wanted(row.detector)) {
        let found = match run {
            Run::At(run) => run(record, summary),
            Run::Along(_) if record.plan.over.is_some() => continue,
            Run::Along(run) => run(record, &courses),
        };
        debug_assert!(found.iter().all(|finding| finding.id.detector() == *detector), "{detector:?} strays");
        all.extend(found);
    }
    sort(&mut all);
    all
}

/// Sorts the most severe first, and within a severity the most certain first.
pub(crate) fn sort(findings: &mut [Finding]) {
    findings.order_by(|a, b| b.severity.cmp(&a.severity).then(b.confidence.total_cmp(&a.confidence)));
}

/// Sets the severity of findings about this machine's processors by their effect on the answer: critical if a grade is
/// withheld because of them, and only informative if a run has grades and all of them stand.
pub(crate) fn weigh_by_effect(findings: &mut [Finding], judged: &[&Judged]) {
    for finding in findings.iter_mut().filter(|finding| finding.id.detector() == Detector::CpuSpoiled) {
        let mut of_step = judged.iter().filter(|judged| judged.criterion.step == finding.step);
        let withholds = of_step.any(|judged| judged.grade == Grade::NotResolved && judged.why.contains("processor"));
        finding.severity = match finding.severity {
            Severity::Critical if withholds => Severity::Critical,
            _ if !judged.is_empty() && !withholds => Severity::Info,
            severity => severity.min(Severity::Warning),
        };
    }
    sort(findings);
}

/// Merges the same conclusion from several steps into one: the most severe, with the names of the others.
///
/// For readers; [`crate::judge()`] wants each step's own.
#[must_use]
pub(crate) fn merge_repeated(findings: Vec<Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::new();
    for finding in findings {
        match kept.iter_mut().find(|known| known.id == finding.id && !known.step.is_empty()) {
            Some(known) if !finding.step.is_empty() => known.also_in.push(finding.step),
            _ => kept.push(finding),
        }
    }
    kept
}

/// Returns a finding to be completed with struct update syntax.
pub(crate) fn base_finding(id: FindingId, severity: Severity, confidence: f64) -> Finding {
    Finding {
        id,
        severity,
        confidence,
        step: String::new(),
        also_in: Vec::new(),
        title: String::new(),
        evidence: String::new(),
        advice: String::new(),
    }
}

/// When the times of a step start: at the start of the run if it was measured in visits with other steps in between.
fn clock_of(step: &StepRecord) -> (u64, &'static str) {
    let has_visits = step.intervals.windows(2).any(|pair| !pair[0].goes_on(&pair[1]));
    if has_visits { (step.started_ns, " of the run") } else { (0, "") }
}

/// The plan of `step`.
fn plan_of<'a>(record: &'a Record, step: &StepRecord) -> Option<&'a StepPlan> {
    let planned = &record.plan.steps;
    // Most are at their planned index; searching by name among thousands takes seconds.
    let at = record.steps.iter().position(|known| std::ptr::eq(known, step));
    let there = at.and_then(|at| planned.get(at)).filter(|plan| plan.name == step.name);
    there.or_else(|| planned.iter().find(|plan| plan.name == step.name))
}

/// What `step` was planned to do, if that is block I/O.
pub(crate) fn io_of<'a>(record: &'a Record, step: &StepRecord) -> Option<&'a IoWork> {
    match &plan_of(record, step)?.work {
        Work::Io(io) => Some(io),
        Work::Files(_) | Work::App(_) => None,
    }
}

/// Steps of block I/O whose device counters can be compared with what was asked: the target is on a device of this
/// machine, not behind a user-space, network or memory filesystem, and no load ran at the same time, whose buffered
/// writes reach the device when the kernel decides.
fn counted_steps(record: &Record) -> impl Iterator<Item = (&StepRecord, &IoWork, &DeviceDelta)> {
    let comparable = matches!(record.environment.filesystem.class, FilesystemClass::Disk | FilesystemClass::Overlay);
    let steps = if comparable { record.steps.as_slice() } else { &[] };
    let alone = steps.iter().filter(|step| step.background.is_empty());
    alone.filter_map(|step| Some((step, io_of(record, step)?, step.device.as_ref()?)))
}

/// Workers that issue I/O in parallel: one per job, or one per slot where psync stands in for a queue.
pub(crate) fn workers(io: &IoWork, step: &StepRecord) -> u64 {
    let spread = step.engine == Some(qd1_model::plan::EngineKind::Psync);
    u64::from(io.numjobs.max(1)) * if spread { u64::from(io.iodepth.max(1)) } else { 1 }
}

/// A share as a percentage for people: `3.4 %`, `51 %`.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value.abs() < 9.95 { format!("{value:.1} %") } else { format!("{value:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_healthy_disk_gives_no_findings() {
        let record = testing::record();
        assert_eq!(findings(&record, &crate::summarize(&record)), []);
    }

    #[test]
    fn what_was_seen_in_several_steps_is_said_once() {
        let seen =
            |step: &str| Finding { step: step.to_owned(), ..base_finding(FindingId::Stalls, Severity::Info, 0.8) };
        let said = merge_repeated(vec![
            seen("wal"),
            base_finding(FindingId::DirtyLimits, Severity::Info, 0.8),
            seen("qd1"),
            seen("files"),
        ]);
        assert_eq!(said.len(), 2);
        assert_eq!((said[0].step.as_str(), said[0].also_in.join(" ").as_str()), ("wal", "qd1 files"));
    }

    #[test]
    fn the_most_severe_finding_comes_first() {
        let mut record = testing::record();
        record.environment.filesystem.options.push("discard".to_owned());
        record.environment.filesystem.options.push("nobarrier".to_owned());
        record.steps[0].engine_why = "fell back from io_uring: blocked".to_owned();
        let all = findings(&record, &crate::summarize(&record));
        assert!(all.len() >= 3);
        assert!(all.windows(2).all(|pair| pair[0].severity >= pair[1].severity));
    }
}

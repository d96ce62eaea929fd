//! Grades: figures compared with thresholds, by their interval and not by the value alone, and only if no finding says
//! that the figures do not describe a disk.

use qd1_model::finding::{Finding, Severity};
use qd1_model::measured::Explained;
use qd1_model::metric::{Better, metric};
use qd1_model::op::OpClass;
use qd1_model::plan::criterion::Criterion;
use qd1_model::plan::{StepPlan, Work};
use qd1_model::verdict::{Judged, ThresholdClass};
use qd1_model::{Detector, FindingId};
use qd1_model::{Estimate, Grade, Record, StreamSummary, Summary, Thresholds, Verdict};

use crate::grade::grade_figure;

/// Grades every class of `thresholds`.
///
/// A criterion is graded by both ends of its figure's 95 % interval. With "bad end" the higher one where lower is
/// better, and each end graded pass (at or better than `pass`), fail (worse than `fail`) or marginal (between):
///
/// | good end | bad end | grade |
/// |---|---|---|
/// | the same as the bad end | | that grade |
/// | pass | marginal | that of the figure itself |
/// | marginal | fail | that of the figure itself |
/// | pass | fail | not resolved: the interval spans both thresholds |
/// | fail | absent (not resolved) | fail: even the lower bound is beyond the ceiling |
/// | marginal | absent | marginal: how much worse is not known |
/// | pass | absent | not resolved: too few samples |
/// | absent | pass | pass |
/// | absent | other | not resolved: too few samples |
///
/// So the opposite of a grade is excluded with odds of 39 to 1, and of two adjacent grades the figure itself decides: a
/// p99 of 1.86 ms with an interval of 1.75 to 3.76 passes at 2 ms with a fail limit of 10, and the reason states what
/// else is possible.
///
/// The bad end of the longest wait is what three of four other runs would see, since its own upper limit is exceeded in
/// one run in twenty.
///
/// The lower bound of a percentile is at least that of a lower percentile of the same stream, so it fails if that one
/// does. Also not resolved, with the reason: a step that did not run or has no such operations, a figure without an
/// interval, and a step whose requests failed, because the latencies of the others say nothing about a disk that
/// returns errors.
///
/// Figures that do not describe a disk according to a critical finding (see [`SPOILING`]) are not resolved either. If
/// there is a disk, and a cache answered or commits were not flushed, the figures can only be better than the disk, so a
/// FAIL still counts. That does not hold for memory, where there is no disk to fail, or for a step with failed requests,
/// whose other latencies prove nothing.
///
/// Waits for a processor add up to a known time: if a figure has the same grade without the largest part of it that
/// they can explain (see `spoiling.rs`), that grade stands.
///
/// If slow operations waited for a processor (counted for each of them), the figure without these waits is graded, and
/// the reason states the figure with them.
///
/// A class fails if any criterion fails. Otherwise it is marginal if any is, and all that are not resolved were
/// measured and only have too wide an interval; otherwise it is not resolved if any is not resolved (or it has none);
/// otherwise it passes.
///
/// Steps that the user left out are not judged: a class then has the remaining criteria, and says so. Stalls that other
/// commits of the run met still count if they are beyond the bound.
#[must_use]
pub fn judge(record: &Record, summary: &Summary, findings: &[Finding], thresholds: &Thresholds) -> Vec<Verdict> {
    let verdict = |class: &ThresholdClass| {
        let mut verdict = judge_class(record, summary, findings, &asked_for(record, class)?);
        let stalled = stalls_of_others(record, class);
        let stalled = stalled.map(|criterion| judge_unspoiled(record, summary, findings, &criterion));
        let is_seen = |judged: &Judged| {
            let value = judged.figure.and_then(|figure| figure.value);
            judged.grade == Grade::Fail || value.is_some_and(|value| value > judged.criterion.fail)
        };
        for judged in stalled.filter(is_seen) {
            // With so few moments none can be certain; but a disk that was seen to stall does not pass.
            verdict.grade = match (verdict.grade, judged.grade) {
                (Grade::Fail, _) | (_, Grade::Fail) => Grade::Fail,
                _ => Grade::NotResolved,
            };
            verdict.judged.push(judged);
        }
        Some(verdict)
    };
    thresholds.class.iter().filter_map(verdict).collect()
}

/// The stall criteria of a class whose steps were left out, applied to the first step of the run that commits: a stall
/// delays whatever is running.
fn stalls_of_others(record: &Record, class: &ThresholdClass) -> impl Iterator<Item = Criterion> {
    // Stalls are figures of steps measured in visits.
    let commits = |step: &&StepPlan| step.visits > 1 && matches!(&step.work, Work::Io(io) if io.sync.commits());
    let other = record.plan.steps.iter().find(commits).map(|step| step.name.clone());
    let is_stalls = |of: &&Criterion| of.metric.starts_with("stall_") && is_left_out(record, of);
    class
        .criterion
        .iter()
        .filter(is_stalls)
        .filter_map(move |of| Some(Criterion { step: other.clone()?, ..of.clone() }))
}

fn is_left_out(record: &Record, of: &Criterion) -> bool {
    record.plan.skipped.iter().any(|skipped| skipped.left_out && skipped.name == of.step)
}

/// The class without the criteria of steps that the user left out; nothing if none remains.
pub(crate) fn asked_for(record: &Record, class: &ThresholdClass) -> Option<ThresholdClass> {
    let (left_out, kept): (Vec<_>, Vec<_>) = class.criterion.iter().cloned().partition(|of| is_left_out(record, of));
    if left_out.is_empty() {
        return Some(class.clone());
    }
    let mut by: Vec<&str> = kept.iter().map(|criterion| criterion.step.as_str()).collect();
    by.dedup();
    let title = format!("{} (by {} alone)", class.title, by.join(" and "));
    (!kept.is_empty()).then(|| ThresholdClass { title, criterion: kept.clone(), ..class.clone() })
}

/// Grades what the suite of `record` expects of its steps, each criterion on its own, as [`judge`] does.
#[must_use]
pub fn judge_criteria(record: &Record, summary: &Summary, findings: &[Finding]) -> Vec<Judged> {
    record.plan.criteria.iter().map(|criterion| judge_unspoiled(record, summary, findings, criterion)).collect()
}

/// Why the figure of `criterion` is not the disk's, if a finding or the processors say so.
pub(crate) fn why_not_the_disks(
    record: &Record,
    summary: &Summary,
    findings: &[Finding],
    of: &Criterion,
) -> Option<NotTheDisks> {
    let (judged, alone) = (judge_unspoiled(record, summary, findings, of), judge_corrected(record, summary, of));
    let step = record.step(&of.step);
    // A step that did not finish, or failed, is rejected before any finding is consulted.
    let is_refused = step.is_some_and(|step| !step.errors.is_empty() || !step.fault.is_empty());
    let is_no_slower = !is_refused && spoiled(of, findings).all(|spoiling| !spoiling.spoils.contains(&Grade::Pass));
    let is_other = judged.why != alone.why || is_refused && alone.grade == Grade::NotResolved;
    is_other.then_some(NotTheDisks { why: judged.why, is_no_slower })
}

/// A figure that is not the disk's.
pub(crate) struct NotTheDisks {
    pub(crate) why: String,
    /// Whether the disk is at least as fast as the figure.
    pub(crate) is_no_slower: bool,
}

/// Grades one criterion, and withdraws the grade if a finding spoils the figure.
fn judge_unspoiled(record: &Record, summary: &Summary, findings: &[Finding], criterion: &Criterion) -> Judged {
    let judged = judge_corrected(record, summary, criterion);
    let are_waits_out = are_waits_counted(summary, criterion);
    let spoiling: Vec<_> = spoiled(criterion, findings)
        .filter(|spoiling| spoiling.id != FindingId::CpuSpoiledRunDelay || !are_waits_out)
        .collect();
    if let Some(decided) = beyond_waits(record, summary, findings, criterion, &spoiling) {
        return decided;
    }
    match spoiling.first() {
        Some(spoiling) if spoiling.spoils.contains(&judged.grade) => {
            // A step that did not run has its own reason; the figure of one that did is spoiled, whatever it is.
            let why = if judged.figure.is_some() { spoiling.why.to_owned() } else { judged.why };
            Judged { grade: Grade::NotResolved, why, ..judged }
        }
        _ => judged,
    }
}

/// The grade of a figure that is spoiled only by waits for a processor, if it is the same without the largest part that
/// they can explain: half of the commits do not take 20 ms because a tenth of the processors' time was taken.
fn beyond_waits(
    record: &Record,
    summary: &Summary,
    findings: &[Finding],
    criterion: &Criterion,
    spoiling: &[&Spoiling],
) -> Option<Judged> {
    let are_waits = !spoiling.is_empty() && spoiling.iter().all(|one| one.id.detector() == Detector::CpuSpoiled);
    let step = record.step(&criterion.step).filter(|_| are_waits)?;
    let judged = judge_one(record, summary, criterion);
    let (metric, seen) = (metric(&criterion.metric)?, judged.figure?);
    let waits: Vec<&Finding> = findings
        .iter()
        .filter(|finding| spoiling.iter().any(|one| one.id == finding.id))
        .filter(|finding| finding.step.is_empty() || finding.step == criterion.step)
        .collect();
    let explained = crate::spoiling::explained(record, step, &waits);
    let is_of = |one: &&Explained| one.class == criterion.op && one.metric == criterion.metric;
    let factor = explained.iter().find(is_of)?.factor.max(1.0);
    let figure = match metric.better {
        Better::Lower => Estimate { low: seen.low.map(|low| low / factor), ..seen },
        Better::Higher => Estimate { high: seen.high.map(|high| high * factor), ..seen },
    };
    // The value is as spoiled as the end was, so the end alone decides.
    let (grade, why) = grade_figure(metric, criterion, &Estimate { value: None, ..figure }, step.runtime_ns);
    let waits = format!("waits for a processor explain at most a factor of {factor:.1}");
    let why = [why, waits].into_iter().filter(|why| !why.is_empty()).collect::<Vec<_>>().join("; ");
    (grade != Grade::NotResolved && grade != Grade::Pass).then_some(Judged {
        grade,
        why,
        figure: Some(figure),
        ..judged
    })
}

/// Whether the time that slow operations waited for a processor is known for each of them and taken out of the figure.
fn are_waits_counted(summary: &Summary, criterion: &Criterion) -> bool {
    let is_of_tail = TAILS.contains(&criterion.metric.as_str()) && !criterion.metric.starts_with("stall_");
    is_of_tail && summary.stream(&criterion.step, criterion.op).is_some_and(|stream| stream.tail.is_some())
}

/// Grades one criterion by the figure without the waits of its slow operations for a processor, if they waited: a tail
/// that this machine caused is not the disk's.
fn judge_corrected(record: &Record, summary: &Summary, criterion: &Criterion) -> Judged {
    let judged = judge_one(record, summary, criterion);
    let Some(seen) = judged.figure else { return judged };
    let step = summary.steps.iter().find(|step| step.name == criterion.step);
    let shorter = summary.stream(&criterion.step, criterion.op).and_then(StreamSummary::without_waits);
    let figure =
        metric(&criterion.metric).zip(shorter).and_then(|(metric, shorter)| Some((metric, (metric.get)(&shorter)?)));
    let Some((metric, figure)) = figure.filter(|(_, figure)| *figure != seen) else { return judged };
    // A figure that is not resolved for a reason of its own stays so.
    let runtime_ns = step.map_or(0, |step| step.runtime_ns);
    if grade_figure(metric, criterion, &seen, runtime_ns) != (judged.grade, judged.why.clone()) {
        return judged;
    }
    let (grade, why) = grade_figure(metric, criterion, &figure, runtime_ns);
    let with = seen.value.map(|value| format!("{} with waits for a processor", metric.unit.format(value)));
    let why = [Some(why).filter(|why| !why.is_empty()), with].into_iter().flatten().collect::<Vec<_>>().join("; ");
    Judged { grade, why, figure: Some(figure), ..judged }
}

/// Whether the grade would be worse with the waits of slow operations for a processor.
pub(crate) fn is_limited_by_processors(record: &Record, summary: &Summary, criterion: &Criterion) -> bool {
    judge_one(record, summary, criterion).grade != judge_corrected(record, summary, criterion).grade
}

/// Returns the figure that a criterion is judged by: without the waits for a processor, if they are known.
pub(crate) fn judged_figure(record: &Record, summary: &Summary, criterion: &Criterion) -> Option<Estimate> {
    judge_corrected(record, summary, criterion).figure
}

fn judge_class(record: &Record, summary: &Summary, findings: &[Finding], class: &ThresholdClass) -> Verdict {
    let judged: Vec<Judged> =
        class.criterion.iter().map(|criterion| judge_unspoiled(record, summary, findings, criterion)).collect();
    let has = |grade| judged.iter().any(|one| one.grade == grade);
    // A figure that was measured but is too wide cannot make the class better than marginal, nor can a bound its
    // figure.
    let is_wide = |one: &Judged| {
        one.figure.is_some_and(|figure| figure.low.or(figure.high).is_some())
            && why_not_the_disks(record, summary, findings, &one.criterion).is_none()
    };
    let mut open = judged.iter().filter(|one| one.grade == Grade::NotResolved);
    let grade = if has(Grade::Fail) {
        Grade::Fail
    } else if has(Grade::Marginal) && open.all(is_wide) {
        Grade::Marginal
    } else if judged.is_empty() || has(Grade::NotResolved) {
        Grade::NotResolved
    } else {
        Grade::Pass
    };
    Verdict { class: class.name.clone(), title: class.title.clone(), grade, judged }
}

/// Metrics that the slowest operations determine.
const TAILS: &[&str] = &["lat_p99_ns", "lat_p999_ns", "lat_p9999_ns", "sync_p99_ns", "stall_longest_ns", "stall_share"];

/// A critical finding after which figures do not describe a disk.
struct Spoiling {
    /// Id of the finding.
    id: FindingId,
    /// The kinds of operation it spoils.
    ops: &'static [OpClass],
    /// Grades that cannot stand after it.
    spoils: &'static [Grade],
    /// Why the figure is not resolved.
    why: &'static str,
}

/// The figures describe something else.
const EVERY: &[Grade] = &[Grade::Pass, Grade::Marginal, Grade::Fail, Grade::NotResolved];
/// The disk is slower than the figures: a failure stands.
const GOOD: &[Grade] = &[Grade::Pass, Grade::Marginal, Grade::NotResolved];
/// The disk is faster than the figures: a pass stands.
const BAD: &[Grade] = &[Grade::Marginal, Grade::Fail, Grade::NotResolved];

/// All of them. They apply if critical, to their own step, or to every step if they name none.
const SPOILING: &[Spoiling] = &[
    Spoiling {
        id: FindingId::ShortOrFailedIo,
        ops: &OpClass::ALL,
        spoils: EVERY,
        why: "some requests of this step failed, and the others say nothing about the disk",
    },
    Spoiling { id: FindingId::NotADisk, ops: &OpClass::ALL, spoils: EVERY, why: "the figures are not those of a disk" },
    Spoiling {
        id: FindingId::CacheAnswered,
        ops: &[OpClass::Read],
        spoils: GOOD,
        why: "a cache, not the disk, answered the reads of this step",
    },
    Spoiling {
        id: FindingId::FlushIgnoredMissing,
        ops: &[OpClass::Commit],
        spoils: GOOD,
        why: "no flush reached the device: the commits were not durable",
    },
    Spoiling {
        id: FindingId::FlushIgnoredNoBarrier,
        ops: &[OpClass::Commit],
        spoils: GOOD,
        why: "the filesystem is mounted without barriers: the commits were not durable",
    },
    Spoiling {
        id: FindingId::CpuSpoiledRunDelay,
        ops: &OpClass::ALL,
        spoils: BAD,
        why: "the workers waited for a processor, not for the disk; measure again when the machine is idle",
    },
    Spoiling {
        id: FindingId::CpuSpoiledSteal,
        ops: &OpClass::ALL,
        spoils: BAD,
        why: "the hypervisor gave the processor to others while this step ran; measure again",
    },
    Spoiling {
        id: FindingId::OtherTraffic,
        ops: &OpClass::ALL,
        spoils: BAD,
        why: "something else used the disk while this step ran; measure again when the disk is idle",
    },
];

/// What spoils the figure of `criterion`, the most severe first.
fn spoiled(criterion: &Criterion, findings: &[Finding]) -> impl Iterator<Item = &'static Spoiling> {
    let applies = |finding: &Finding| {
        finding.severity == Severity::Critical && (finding.step.is_empty() || finding.step == criterion.step)
    };
    let found = move |spoiling: &&Spoiling| {
        spoiling.ops.contains(&criterion.op)
            && findings.iter().any(|finding| finding.id == spoiling.id && applies(finding))
    };
    SPOILING.iter().filter(found)
}

fn judge_one(record: &Record, summary: &Summary, criterion: &Criterion) -> Judged {
    let open = |figure, why: String| Judged { criterion: criterion.clone(), figure, grade: Grade::NotResolved, why };
    let Some(metric) = metric(&criterion.metric) else {
        return open(None, format!("there is no metric called {:?}", criterion.metric));
    };
    let Some(step) = summary.steps.iter().find(|step| step.name == criterion.step) else {
        return open(None, why_not_run(record, &criterion.step));
    };
    let Some(stream) = step.streams.iter().find(|stream| stream.class == criterion.op) else {
        let fault = record.step(&step.name).map(|step| step.fault.as_str()).filter(|fault| !fault.is_empty());
        let why = fault.map(|fault| format!("it could not run: {fault}"));
        return open(None, why.unwrap_or_else(|| format!("step {} made no {}", step.name, criterion.op.name())));
    };
    let Some(figure) = (metric.get)(stream) else {
        return open(None, format!("{} of step {} has no {}", criterion.op.name(), step.name, metric.title));
    };
    // A check over hours would report hours that the step did not see.
    let fault = record.step(&step.name).map_or("", |step| step.fault.as_str());
    if record.plan.over.is_some() && !fault.is_empty() {
        return open(Some(figure), format!("step {} could not continue: {fault}", step.name));
    }
    if step.errors > 0 {
        return open(Some(figure), format!("{} requests of step {} failed", step.errors, step.name));
    }
    let (grade, why) = grade_figure(metric, criterion, &figure, step.runtime_ns);
    Judged { criterion: criterion.clone(), figure: Some(figure), grade, why }
}

/// Why `step` is not in the summary.
fn why_not_run(record: &Record, step: &str) -> String {
    if let Some(skipped) = record.plan.skipped.iter().find(|skipped| skipped.name == step) {
        return format!("step {step} was skipped: {}", skipped.why);
    }
    let planned = record.plan.steps.iter().any(|plan| plan.name == step);
    match (planned, record.interrupted) {
        (true, true) => format!("the run was interrupted before step {step}"),
        (true, false) => format!("step {step} did not run"),
        (false, _) => format!("step {step} is not part of this run"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::environment::FilesystemClass;
    use qd1_model::plan::{Rw, Skipped, Sync};
    use qd1_model::record::IoErrors;

    fn criterion(metric: &str, pass: f64, fail: f64) -> Criterion {
        let source = "test".to_owned();
        let (step, metric) = ("reads".to_owned(), metric.to_owned());
        Criterion { step, op: OpClass::Read, metric, pass, fail, published: None, label: String::new(), source }
    }

    fn judged(record: &Record, criterion: Criterion) -> Verdict {
        let class = ThresholdClass { name: "web".to_owned(), title: "web".to_owned(), criterion: vec![criterion] };
        let summary = crate::summarize(record);
        let findings = crate::findings(record, &summary);
        judge(record, &summary, &findings, &Thresholds { class: vec![class] }).remove(0)
    }

    fn of_commits(metric: &str, pass: f64, fail: f64) -> Criterion {
        Criterion { step: "commits".to_owned(), op: OpClass::Commit, ..criterion(metric, pass, fail) }
    }

    /// Grade and reason of the only criterion.
    fn outcome(record: &Record, criterion: Criterion) -> (Grade, String) {
        let one = judged(record, criterion).judged.remove(0);
        (one.grade, one.why)
    }

    #[test]
    fn nothing_is_judged_by_steps_that_the_user_left_out() {
        let mut record = testing::record();
        record.steps.remove(1);
        record.plan.skipped.push(Skipped { left_out: true, ..Skipped::because("commits", "left out by --only") });
        let class = |criterion| ThresholdClass { name: "one".to_owned(), title: "One".to_owned(), criterion };
        let (reads, commits) = (criterion("lat_p50_ns", 1e9, 2e9), of_commits("lat_p50_ns", 1e9, 2e9));
        let thresholds = Thresholds { class: vec![class(vec![reads, commits.clone()]), class(vec![commits])] };
        let verdicts = judge(&record, &crate::summarize(&record), &[], &thresholds);
        let said: Vec<(&str, Grade)> = verdicts.iter().map(|one| (one.title.as_str(), one.grade)).collect();
        assert_eq!(said, [("One (by reads alone)", Grade::Pass)]);
    }

    #[test]
    fn a_few_slow_commits_fail_without_a_resolved_tail() {
        let mut record = testing::empty();
        testing::step(&mut record, "reads", testing::io(Rw::Randread, 4096, Sync::None, true), 5, 30_000_000);
        let verdict = judged(&record, criterion("lat_p999_ns", 2e6, 10e6));
        assert_eq!(verdict.grade, Grade::Fail);
        assert!(verdict.judged[0].figure.unwrap().value.is_none(), "100 operations do not resolve p99.9");
    }

    /// Regression: on a machine with stolen processors, a disk with commits of 20 ms was "not resolved" for etcd.
    #[test]
    fn what_waits_for_a_processor_cannot_explain_is_graded() {
        let mut record = testing::empty();
        record.environment.cpus = 2;
        testing::step(&mut record, "commits", testing::io(Rw::Write, 4096, Sync::Fdatasync, false), 5, 20_000_000);
        record.steps[0].steal = 0.12;
        // A quarter of the time of two processors was taken, so these commits took at least 17 ms.
        let (grade, why) = outcome(&record, of_commits("lat_p99_ns", 2e6, 10e6));
        assert_eq!(grade, Grade::Fail, "{why}");
        assert!(why.ends_with("waits for a processor explain at most a factor of 1.4"), "{why}");
        assert_eq!(outcome(&record, of_commits("lat_p99_ns", 2e6, 18e6)).0, Grade::Marginal);
        record.steps[0].steal = 0.3;
        assert_eq!(outcome(&record, of_commits("lat_p99_ns", 12e6, 18e6)).0, Grade::NotResolved);
    }

    #[test]
    fn a_few_fast_ones_are_not_resolved_and_say_how_many_it_takes() {
        let mut record = testing::empty();
        testing::step(&mut record, "reads", testing::io(Rw::Randread, 4096, Sync::None, true), 15, 300_000);
        let verdict = judged(&record, criterion("lat_p999_ns", 2e6, 10e6));
        assert_eq!(verdict.grade, Grade::NotResolved);
        assert!(verdict.judged[0].why.starts_with("too few operations: it takes about"), "{}", verdict.judged[0].why);
    }

    #[test]
    fn errors_and_absent_steps_are_not_resolved_and_say_why() {
        let mut record = testing::record();
        let limits = criterion("lat_p50_ns", 1e9, 2e9);
        assert_eq!(judged(&record, limits.clone()).grade, Grade::Pass);
        record.steps[0].errors.push(IoErrors { error: "EIO".to_owned(), count: 7, first_offset: 0 });
        let (grade, why) = outcome(&record, limits.clone());
        assert_eq!(grade, Grade::NotResolved);
        assert!(why.starts_with("some requests of this step failed"), "{why}");
        record.steps.remove(0);
        assert_eq!(judged(&record, limits.clone()).judged[0].why, "step reads did not run");
        record.plan.skipped.push(Skipped::because("reads", "no space"));
        assert_eq!(judged(&record, limits).judged[0].why, "step reads was skipped: no space");
    }

    #[test]
    fn memory_never_passes_as_a_disk() {
        let mut record = testing::record();
        record.environment.filesystem.class = FilesystemClass::Memory;
        let pass = criterion("lat_p50_ns", 1e9, 2e9);
        let spoiled = (Grade::NotResolved, "the figures are not those of a disk".to_owned());
        assert_eq!(outcome(&record, pass.clone()), spoiled.clone());
        assert_eq!(judged(&record, pass).grade, Grade::NotResolved);
        assert_eq!(outcome(&record, criterion("lat_p50_ns", 1.0, 2.0)), spoiled, "nor does it fail as one");
    }

    #[test]
    fn waits_for_a_processor_spoil_what_fails_and_leave_what_passes() {
        let mut record = testing::record();
        record.steps[0].cost.run_delay_ns = record.steps[0].runtime_ns;
        let (grade, why) = outcome(&record, criterion("lat_p50_ns", 1.0, 2.0));
        assert_eq!(grade, Grade::NotResolved);
        assert!(why.starts_with("the workers waited for a processor"), "{why}");
        assert_eq!(outcome(&record, criterion("lat_p50_ns", 1e9, 2e9)).0, Grade::Pass, "the disk is faster still");
    }

    /// It was "not resolved", although the waits added a known time to each operation.
    #[test]
    fn a_tail_made_by_a_busy_processor_is_graded_without_its_waits() {
        let limits = criterion("lat_p99_ns", 1e6, 2e6);
        let judged = judged(&testing::with_waits(200_000), limits.clone()).judged.remove(0);
        assert_eq!((judged.grade, judged.why.as_str()), (Grade::Pass, "5.00 ms with waits for a processor"));
        assert!(judged.figure.and_then(|figure| figure.value).unwrap() < 0.3e6);
        // The disk alone is as bad: waits do not excuse it.
        assert_eq!(outcome(&testing::with_waits(4_500_000), limits.clone()).0, Grade::Fail);
        assert_eq!(outcome(&testing::with_waits(200_000), criterion("lat_p99_ns", 10e6, 20e6)).0, Grade::Pass);
    }

    #[test]
    fn workers_that_waited_spoil_no_tail_whose_waits_were_counted() {
        let mut record = testing::with_waits(200_000);
        let step = record.steps.iter_mut().find(|step| step.name == "reads").unwrap();
        step.cost.run_delay_ns = step.runtime_ns;
        assert_eq!(outcome(&record, criterion("lat_p99_ns", 1e6, 2e6)).0, Grade::Pass);
        assert_eq!(outcome(&testing::with_waits(4_500_000), criterion("lat_p99_ns", 1e6, 2e6)).0, Grade::Fail);
        // A figure that is not a tail has no such count.
        assert_eq!(outcome(&record, criterion("lat_p50_ns", 1.0, 2.0)).0, Grade::NotResolved);
    }

    #[test]
    fn the_slowest_operations_waits_are_reported() {
        let record = testing::with_waits(200_000);
        let findings = crate::findings(&record, &crate::summarize(&record));
        let found = findings.iter().find(|finding| finding.id == FindingId::CpuSpoiledTail).expect("it is reported");
        assert!(
            found.title.contains("the slowest reads of step reads spent 96 % of their time waiting for a processor"),
            "{}",
            found.title
        );
        assert!(found.evidence.contains("p99 5.00 ms, without these waits 200 us"), "{}", found.evidence);
    }

    #[test]
    fn a_disk_that_others_used_is_not_failed() {
        let mut record = testing::record();
        record.steps[0].device.as_mut().unwrap().counted.write_bytes += 300 << 20;
        let (grade, why) = outcome(&record, criterion("lat_p50_ns", 1.0, 2.0));
        assert_eq!(grade, Grade::NotResolved);
        assert!(why.starts_with("something else used the disk"), "{why}");
        assert_eq!(outcome(&record, criterion("lat_p50_ns", 1e9, 2e9)).0, Grade::Pass, "the disk is faster still");
    }

    #[test]
    fn what_only_informs_spoils_nothing() {
        let mut record = testing::record();
        record.environment.filesystem.class = FilesystemClass::Network;
        assert_eq!(outcome(&record, criterion("lat_p50_ns", 1e9, 2e9)).0, Grade::Pass);
    }

    #[test]
    fn a_cache_spoils_the_reads_but_not_the_commits_of_another_step() {
        let mut record = testing::record();
        record.steps[0].device.as_mut().unwrap().counted.read_bytes = 0;
        let (grade, why) = outcome(&record, criterion("lat_p50_ns", 1e9, 2e9));
        assert_eq!(
            (grade, why.as_str()),
            (Grade::NotResolved, "a cache, not the disk, answered the reads of this step")
        );
        assert_eq!(outcome(&record, of_commits("lat_p50_ns", 1e9, 2e9)).0, Grade::Pass);
        assert_eq!(outcome(&record, criterion("lat_p50_ns", 1.0, 2.0)).0, Grade::Fail, "the disk is slower still");
    }

    #[test]
    fn commits_without_flushes_do_not_pass_and_reads_beside_them_do() {
        let mut record = testing::record();
        record.steps[1].device.as_mut().unwrap().counted.flushes = 0;
        // Flushes are counted on whole disks only, so this one has no partition.
        record.environment.devices.remove(0);
        let (grade, why) = outcome(&record, of_commits("lat_p50_ns", 1e9, 2e9));
        assert_eq!(grade, Grade::NotResolved);
        assert_eq!(why, "no flush reached the device: the commits were not durable");
        record.environment.filesystem.options.push("nobarrier".to_owned());
        let (grade, why) = outcome(&record, of_commits("sync_p50_ns", 1e9, 2e9));
        assert_eq!(grade, Grade::NotResolved);
        assert!(why.contains("without barriers"), "{why}");
        assert_eq!(outcome(&record, criterion("lat_p50_ns", 1e9, 2e9)).0, Grade::Pass);
    }

    #[test]
    fn failed_requests_spoil_a_failure_too() {
        let mut record = testing::record();
        record.steps[0].errors.push(IoErrors { error: "EIO".to_owned(), count: 1, first_offset: 0 });
        assert_eq!(outcome(&record, criterion("lat_p50_ns", 1.0, 2.0)).0, Grade::NotResolved);
    }

    #[test]
    fn a_step_that_did_not_run_keeps_its_own_reason() {
        let mut record = testing::record();
        record.environment.filesystem.class = FilesystemClass::Memory;
        record.steps.remove(0);
        assert_eq!(outcome(&record, criterion("lat_p50_ns", 1.0, 2.0)).1, "step reads did not run");
    }

    #[test]
    fn a_class_fails_before_it_is_not_resolved() {
        let record = testing::record();
        let class = ThresholdClass {
            name: "web".to_owned(),
            title: "web".to_owned(),
            criterion: vec![criterion("lat_p50_ns", 1.0, 2.0), criterion("nonsense", 1.0, 2.0)],
        };
        let verdicts = judge(&record, &crate::summarize(&record), &[], &Thresholds { class: vec![class] });
        assert_eq!(verdicts[0].judged[1].grade, Grade::NotResolved);
        assert_eq!(verdicts[0].grade, Grade::Fail);
    }

    /// A disk with a p99 of 20 to 90 ms was "not resolved", since its time in stalls may be beyond its bound as well.
    #[test]
    fn a_class_is_marginal_at_best_though_what_was_measured_beside_is_wide() {
        let mut record = testing::record();
        let seen = crate::summarize(&record).stream("reads", OpClass::Read).unwrap().lat_p50_ns;
        let (low, high) = (seen.low.unwrap(), seen.high.unwrap());
        assert!(low < high);
        let class = |second: Criterion| ThresholdClass {
            name: "web".to_owned(),
            title: "web".to_owned(),
            criterion: vec![criterion("lat_p50_ns", low / 2.0, high * 2.0), second],
        };
        let graded = |record: &Record, second: Criterion| {
            let summary = crate::summarize(record);
            let findings = crate::findings(record, &summary);
            judge(record, &summary, &findings, &Thresholds { class: vec![class(second)] }).remove(0)
        };
        let wide = criterion("lat_p50_ns", 0.5 * (low + high), 0.5 * (low + high));
        let verdict = graded(&record, wide.clone());
        assert_eq!(
            verdict.judged.iter().map(|one| one.grade).collect::<Vec<_>>(),
            [Grade::Marginal, Grade::NotResolved]
        );
        assert_eq!(verdict.grade, Grade::Marginal);
        assert_eq!(graded(&record, criterion("nonsense", 1.0, 2.0)).grade, Grade::NotResolved, "it was not measured");
        // Nothing is known about a step that ended before it began, although a figure says so.
        let mut ended = record.clone();
        ended.steps[1].streams[0].lat = qd1_model::Hist::new();
        ended.steps[1].intervals.clear();
        let of_nothing = graded(&ended, of_commits("lat_p99_ns", 1e9, 2e9));
        assert_eq!((of_nothing.judged[1].grade, of_nothing.grade), (Grade::NotResolved, Grade::NotResolved));
        record.steps[1].errors.push(IoErrors { error: "EIO".to_owned(), count: 1, first_offset: 0 });
        let failed = of_commits("lat_p50_ns", 1e9, 2e9);
        assert_eq!(graded(&record, failed).grade, Grade::NotResolved, "errors say more than a width");
    }

    /// What the suite of the healthy record expects, judged.
    fn suite(record: &mut Record, criteria: Vec<Criterion>) -> Vec<(Grade, String)> {
        record.plan.suite = "mine".to_owned();
        record.plan.criteria = criteria;
        let report = crate::analyse(record.clone(), &Thresholds { class: Vec::new() });
        assert_eq!(report.verdicts, []);
        report.criteria.into_iter().map(|judged| (judged.grade, judged.why)).collect()
    }

    #[test]
    fn a_suites_criteria_are_judged_one_by_one_in_their_order() {
        let mut record = testing::record();
        let judged = suite(
            &mut record,
            vec![
                of_commits("sync_p99_ns", 10e6, 10e6),
                criterion("iops", 5_000.0, 5_000.0),
                criterion("iops", 9_000.0, 7_000.0),
                criterion("bytes_per_second", 400e6, 300e6),
                Criterion { step: "absent".to_owned(), ..criterion("iops", 1.0, 1.0) },
            ],
        );
        let grades: Vec<Grade> = judged.iter().map(|(grade, _)| *grade).collect();
        assert_eq!(grades, [Grade::Pass, Grade::Pass, Grade::Marginal, Grade::Fail, Grade::NotResolved]);
        assert_eq!(judged[4].1, "step absent is not part of this run");
    }

    #[test]
    fn a_finding_spoils_a_suites_criterion_as_it_does_a_class() {
        let mut record = testing::record();
        record.steps[0].device.as_mut().unwrap().counted.read_bytes = 0;
        let judged = suite(&mut record, vec![criterion("lat_p50_ns", 1e9, 2e9), of_commits("lat_p50_ns", 1e9, 2e9)]);
        assert_eq!(
            judged[0],
            (Grade::NotResolved, "a cache, not the disk, answered the reads of this step".to_owned())
        );
        assert_eq!(judged[1].0, Grade::Pass);
    }
}

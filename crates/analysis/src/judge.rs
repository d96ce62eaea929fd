//! Grades: figures against thresholds, by the whole interval and not by the point alone.

use qd1_model::metric::{Better, Metric, metric};
use qd1_model::verdict::{Criterion, Judged, ThresholdClass};
use qd1_model::{Estimate, Grade, Record, Summary, Thresholds, Verdict};

/// Grades every class of `thresholds`.
///
/// A criterion is graded by both ends of its figure's 95 % interval. With "bad end" the higher one where lower is
/// better, and each end graded pass (at or better than `pass`), fail (worse than `fail`) or marginal (between):
///
/// | good end | bad end | grade |
/// |---|---|---|
/// | the same as the bad end | | that grade |
/// | pass | marginal | marginal: healthy is not shown |
/// | marginal | fail | fail if the value itself is beyond `fail`, else marginal |
/// | pass | fail | not resolved: the interval spans both thresholds |
/// | fail | absent (not resolved) | fail: even the lower bound is beyond the ceiling |
/// | other | absent | not resolved: too few samples |
///
/// A percentile that is not resolved also fails when a lower one of the same stream (p99 for p99.9, the median
/// for p99) already fails: it can only be worse. Not resolved, with the reason, as well: a step that did not run
/// or has no such operations, a figure without an interval, and a step whose requests failed, for the latencies of
/// the others say nothing about a disk that returns errors.
///
/// A class fails if any criterion fails; else it is not resolved if any is not resolved (or it has none); else
/// it takes the worst grade.
#[must_use]
pub fn judge(record: &Record, summary: &Summary, thresholds: &Thresholds) -> Vec<Verdict> {
    thresholds.class.iter().map(|class| judge_class(record, summary, class)).collect()
}

fn judge_class(record: &Record, summary: &Summary, class: &ThresholdClass) -> Verdict {
    let judged: Vec<Judged> = class.criterion.iter().map(|criterion| judge_one(record, summary, criterion)).collect();
    let has = |grade| judged.iter().any(|one| one.grade == grade);
    let grade = if has(Grade::Fail) {
        Grade::Fail
    } else if judged.is_empty() || has(Grade::NotResolved) {
        Grade::NotResolved
    } else if has(Grade::Marginal) {
        Grade::Marginal
    } else {
        Grade::Pass
    };
    Verdict { class: class.name.clone(), title: class.title.clone(), grade, judged }
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
        return open(None, format!("step {} made no {}", step.name, criterion.op.name()));
    };
    let Some(figure) = (metric.get)(stream) else {
        return open(None, format!("{} of step {} has no {}", criterion.op.name(), step.name, metric.title));
    };
    if step.errors > 0 {
        return open(Some(figure), format!("{} requests of step {} failed", step.errors, step.name));
    }
    let (mut grade, mut why) = grade_figure(metric, criterion, &figure);
    if grade == Grade::NotResolved
        && let Some(lower) = lower_percentile(metric.name)
        && let Some(bound) = (lower.get)(stream)
        && end_grade(lower, criterion, bound.low) == Some(Grade::Fail)
    {
        grade = Grade::Fail;
        why = format!("already {} is at least {}", lower.title, metric.unit.format(bound.low.unwrap_or_default()));
    }
    Judged { criterion: criterion.clone(), figure: Some(figure), grade, why }
}

/// The percentile below, of which a higher one can only be worse.
fn lower_percentile(name: &str) -> Option<&'static Metric> {
    metric(match name {
        "lat_p9999_ns" => "lat_p999_ns",
        "lat_p999_ns" => "lat_p99_ns",
        "lat_p99_ns" => "lat_p50_ns",
        "sync_p99_ns" => "sync_p50_ns",
        _ => return None,
    })
}

/// Grade of one end of an interval.
fn end_grade(metric: &Metric, criterion: &Criterion, value: Option<f64>) -> Option<Grade> {
    let value = value?;
    let no_worse = |limit: f64| match metric.better {
        Better::Lower => value <= limit,
        Better::Higher => value >= limit,
    };
    Some(if no_worse(criterion.pass) {
        Grade::Pass
    } else if no_worse(criterion.fail) {
        Grade::Marginal
    } else {
        Grade::Fail
    })
}

/// The table of [`judge`]: a grade, and why where it is not resolved or decided by a bound alone.
fn grade_figure(metric: &Metric, criterion: &Criterion, figure: &Estimate) -> (Grade, String) {
    let show = |value: f64| metric.unit.format(value);
    let (good, bad) = match metric.better {
        Better::Lower => (figure.low, figure.high),
        Better::Higher => (figure.high, figure.low),
    };
    let (good_grade, bad_grade) = (end_grade(metric, criterion, good), end_grade(metric, criterion, bad));
    match (good_grade, bad_grade) {
        (Some(Grade::Fail), None) => (
            Grade::Fail,
            format!("even the bound, {}, is beyond {}", show(good.unwrap_or_default()), show(criterion.fail)),
        ),
        (_, None) | (None, _) if figure.value.is_some() => {
            (Grade::NotResolved, "the figure has no confidence interval".to_owned())
        }
        (_, None) | (None, _) => {
            (Grade::NotResolved, format!("too few samples: n={}, needs about {}", figure.n, figure.n_needed))
        }
        (Some(Grade::Pass), Some(Grade::Fail)) => {
            let (low, high) = (figure.low.unwrap_or_default(), figure.high.unwrap_or_default());
            (Grade::NotResolved, format!("the interval {}..{} spans both thresholds", show(low), show(high)))
        }
        (Some(Grade::Marginal), Some(Grade::Fail)) => {
            (end_grade(metric, criterion, figure.value).unwrap_or(Grade::Marginal), String::new())
        }
        (_, Some(grade)) => (grade, String::new()),
    }
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

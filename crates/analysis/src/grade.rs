//! A figure compared with two bounds: the grade of its interval.

use qd1_model::metric::{Better, Metric};
use qd1_model::plan::criterion::Criterion;
use qd1_model::units::format_span_ns;
use qd1_model::{Estimate, Grade};

use qd1_stats::likely_longest_ns;

/// The metric whose upper limit says what other runs would see; its lower limit is what this run saw.
const LONGEST: &str = "stall_longest_ns";

/// The two ends of the interval of a figure. An end that is not known is absent.
struct Ends {
    good: Option<f64>,
    bad: Option<f64>,
}

impl Ends {
    fn of(metric: &Metric, figure: &Estimate) -> Self {
        let finite = |end: Option<f64>| end.filter(|end| end.is_finite());
        match metric.better {
            // Its upper limit is about another run, one in twenty: it is not a bound for this run.
            Better::Lower if metric.name == LONGEST => Self { good: figure.low, bad: likely_longest_ns(figure) },
            Better::Lower => Self { good: finite(figure.low), bad: finite(figure.high) },
            Better::Higher => Self { good: finite(figure.high), bad: finite(figure.low) },
        }
    }
}

/// Grade of a known value.
fn grade_of(metric: &Metric, criterion: &Criterion, value: f64) -> Grade {
    if metric.better.is_within(value, criterion.pass) {
        Grade::Pass
    } else if metric.better.is_within(value, criterion.fail) {
        Grade::Marginal
    } else {
        Grade::Fail
    }
}

/// Whether all of a figure's interval has one grade.
pub(crate) fn is_decided(metric: &Metric, criterion: &Criterion, figure: &Estimate) -> bool {
    match Ends::of(metric, figure) {
        Ends { good: Some(good), bad: Some(bad) } => {
            grade_of(metric, criterion, good) == grade_of(metric, criterion, bad)
        }
        _ => false,
    }
}

/// The table of [`judge`](crate::judge::judge): a grade, and the reason if it is not resolved or not certain.
/// `runtime_ns` is how long the step was measured.
pub(crate) fn grade_figure(
    metric: &Metric,
    criterion: &Criterion,
    figure: &Estimate,
    runtime_ns: u64,
) -> (Grade, String) {
    let show = |value: f64| metric.unit.format(value);
    let grade = |value| grade_of(metric, criterion, value);
    let (above, up, down) = match metric.better {
        Better::Lower => ("above", "up", "down"),
        Better::Higher => ("below", "down", "up"),
    };
    let Ends { good, bad } = Ends::of(metric, figure);
    let Some(good) = good else {
        return match bad {
            Some(bad) if grade(bad) == Grade::Pass => (Grade::Pass, String::new()),
            _ => (Grade::NotResolved, unknown(figure, runtime_ns)),
        };
    };
    let Some(bad) = bad else {
        return match grade(good) {
            Grade::Fail => (
                Grade::Fail,
                format!("even the better end of the interval, {}, is beyond {}", show(good), show(criterion.fail)),
            ),
            // It does not pass, however long the run would have been.
            Grade::Marginal => {
                let more = longer(figure, runtime_ns);
                let why = format!("certainly {above} {}; finding out how much takes {more}", show(good));
                (Grade::Marginal, why)
            }
            _ if figure.value.is_some() => {
                let why = format!("finding out how much worse it may be takes {}", longer(figure, runtime_ns));
                (Grade::NotResolved, why)
            }
            _ => (Grade::NotResolved, too_few(figure, runtime_ns)),
        };
    };
    match (grade(good), grade(bad)) {
        (best, worst) if best == worst => {
            let beyond = figure.high.filter(|high| metric.name == LONGEST && *high > criterion.fail);
            (best, beyond.map_or_else(String::new, |high| format!("one run in twenty may see {}", show(high))))
        }
        (Grade::Pass, Grade::Fail) => {
            let (low, high) = (figure.low.unwrap_or_default(), figure.high.unwrap_or_default());
            let across =
                if criterion.pass == criterion.fail { "lies across the bound" } else { "spans both thresholds" };
            (Grade::NotResolved, format!("the interval {}..{} {across}", show(low), show(high)))
        }
        // Of two adjacent grades, that of the figure itself, if the third is excluded.
        _ => match figure.value.map(grade) {
            Some(Grade::Pass) => (Grade::Pass, format!("{up} to {} is possible", show(bad))),
            Some(Grade::Fail) => (Grade::Fail, format!("{down} to {} is possible", show(good))),
            _ => (Grade::Marginal, String::new()),
        },
    }
}

/// Why nothing is known about the better end of a figure.
fn unknown(figure: &Estimate, runtime_ns: u64) -> String {
    if figure.value.is_some() {
        return "the figure has no confidence interval".to_owned();
    }
    too_few(figure, runtime_ns)
}

/// How much longer a run would have to be for the figure to have both limits.
fn longer(figure: &Estimate, runtime_ns: u64) -> String {
    let times = figure.n_needed as f64 / figure.n.max(1) as f64;
    if times <= 1.0 || runtime_ns == 0 {
        return "a longer run".to_owned();
    }
    let needed_ns = (times * runtime_ns as f64 / 1e9).ceil() * 1e9;
    format!("about {} of this step, which ran for {}", format_span_ns(needed_ns as u64), format_span_ns(runtime_ns))
}

/// Why a figure is not resolved, and what is needed to resolve it.
fn too_few(figure: &Estimate, runtime_ns: u64) -> String {
    let what = if figure.n > 0 && figure.n_effective < 0.5 * figure.n as f64 {
        "too few independent stretches"
    } else {
        "too few operations"
    };
    format!("{what}: it takes {}", longer(figure, runtime_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::metric::metric;
    use qd1_model::op::OpClass;
    fn criterion(metric: &str, pass: f64, fail: f64) -> Criterion {
        let (step, metric) = ("reads".to_owned(), metric.to_owned());
        Criterion {
            step,
            op: OpClass::Read,
            metric,
            pass,
            fail,
            published: None,
            label: String::new(),
            source: String::new(),
        }
    }

    /// Grade of a lower-is-better figure with this interval against 10 and 20.
    fn grade(low: f64, value: f64, high: f64) -> Grade {
        let figure = Estimate { value: Some(value), low: Some(low), high: Some(high), ..Estimate::default() };
        grade_figure(metric("lat_p99_ns").unwrap(), &criterion("lat_p99_ns", 10.0, 20.0), &figure, 7_200_000_000).0
    }

    /// etcd was "not resolved" on a fast disk whose longest wait was 0.12 s, because one run in twenty may see 1.4 s.
    #[test]
    fn the_longest_wait_is_graded_by_what_another_run_is_likely_to_see() {
        let graded = |seen: f64, high: f64| {
            let figure = Estimate { value: Some(seen), low: Some(seen), high: Some(high), ..Estimate::default() };
            grade_figure(metric(LONGEST).unwrap(), &criterion(LONGEST, 1e9, 1e9), &figure, 0)
        };
        assert_eq!(graded(0.12e9, 0.5e9), (Grade::Pass, String::new()));
        assert_eq!(graded(0.12e9, 1.4e9), (Grade::Pass, "one run in twenty may see 1.40 s".to_owned()));
        let (grade, why) = graded(0.6e9, 4e9);
        assert!(grade == Grade::NotResolved && why.contains("lies across the bound"), "{why}");
        assert_eq!(graded(1.3e9, 4e9).0, Grade::Fail);
    }

    /// A p99 of 1.27 [0.32..10.2] ms was marginal at 10, as one of 1.86 [1.75..3.76] was at 2.
    #[test]
    fn the_figure_itself_decides_between_two_neighbours_where_the_third_is_excluded() {
        assert_eq!(grade(5.0, 7.0, 10.0), Grade::Pass);
        assert_eq!(grade(5.0, 9.0, 11.0), Grade::Pass);
        assert_eq!(grade(3.2, 4.7, 19.0), Grade::Pass);
        assert_eq!(grade(9.0, 9.9, 19.0), Grade::Pass);
        assert_eq!(grade(9.0, 10.1, 11.0), Grade::Marginal);
        assert_eq!(grade(11.0, 12.0, 20.0), Grade::Marginal);
        assert_eq!(grade(15.0, 19.0, 22.0), Grade::Marginal);
        assert_eq!(grade(15.0, 20.5, 25.0), Grade::Fail);
        assert_eq!(grade(15.0, 24.0, 30.0), Grade::Fail);
        assert_eq!(grade(21.0, 30.0, 40.0), Grade::Fail);
        assert_eq!(grade(9.0, 15.0, 21.0), Grade::NotResolved);
        assert_eq!(grade(4.0, 5.0, 21.0), Grade::NotResolved, "failing is not excluded");
        assert_eq!(grade(9.0, 40.0, 60.0), Grade::NotResolved, "passing is not excluded");
    }

    /// NaN is beyond every bound: "even the better end of the interval, NaN s, is beyond 50.0 ms".
    #[test]
    fn what_is_no_number_has_no_grade() {
        let figure = |low, high| Estimate { low: Some(low), high: Some(high), ..Estimate::default() };
        let limits = criterion("lat_p99_ns", 10.0, 20.0);
        for figure in [figure(f64::NAN, f64::NAN), figure(f64::NAN, 30.0), figure(f64::INFINITY, f64::INFINITY)] {
            let graded = grade_figure(metric("lat_p99_ns").unwrap(), &limits, &figure, 0);
            assert_eq!(graded.0, Grade::NotResolved, "{graded:?}");
            assert!(!graded.1.contains("NaN"), "{graded:?}");
        }
    }

    #[test]
    fn what_is_possible_stands_beside_the_grade() {
        let graded = |low, value, high| {
            let figure = Estimate { value: Some(value), low: Some(low), high: Some(high), ..Estimate::default() };
            let limits = criterion("lat_p99_ns", 2e6, 10e6);
            grade_figure(metric("lat_p99_ns").unwrap(), &limits, &figure, 0)
        };
        assert_eq!(graded(1.6e6, 1.85e6, 2.2e6), (Grade::Pass, "up to 2.20 ms is possible".to_owned()));
        assert_eq!(graded(9.0e6, 13.0e6, 16.0e6), (Grade::Fail, "down to 9.00 ms is possible".to_owned()));
        assert_eq!(graded(1.9e6, 2.1e6, 4.2e6), (Grade::Marginal, String::new()));
        assert_eq!(graded(9.0e6, 9.9e6, 16.0e6), (Grade::Marginal, String::new()));
        assert_eq!(graded(1.9e6, 3.0e6, 4.2e6), (Grade::Marginal, String::new()));
    }

    #[test]
    fn an_end_within_the_pass_limit_passes_though_the_other_is_not_known() {
        let figure = Estimate { low: Some(1100.0), ..Estimate::default() };
        let limits = criterion("iops", 1000.0, 500.0);
        assert_eq!(grade_figure(metric("iops").unwrap(), &limits, &figure, 0).0, Grade::Pass);
        let figure = Estimate { low: Some(900.0), ..Estimate::default() };
        assert_eq!(grade_figure(metric("iops").unwrap(), &limits, &figure, 0).0, Grade::NotResolved);
    }

    #[test]
    fn where_higher_is_better_the_ends_change_places() {
        let figure = |low, high| Estimate { value: Some(low), low: Some(low), high: Some(high), ..Estimate::default() };
        let iops = metric("iops").unwrap();
        let limits = criterion("iops", 1000.0, 500.0);
        assert_eq!(grade_figure(iops, &limits, &figure(1100.0, 1300.0), 0).0, Grade::Pass);
        assert_eq!(grade_figure(iops, &limits, &figure(300.0, 400.0), 0).0, Grade::Fail);
        let spanning = grade_figure(iops, &limits, &figure(400.0, 1200.0), 0);
        assert_eq!(spanning.0, Grade::NotResolved);
        assert_eq!(spanning.1, "the interval 400..1.20k spans both thresholds");
    }

    /// A check of the very disk that this was written for said that nothing was known about its commits.
    #[test]
    fn a_bound_alone_is_an_answer() {
        let of = |low: f64| Estimate { low: Some(low), n: 348, n_needed: 433, ..Estimate::default() };
        let p99 = metric("lat_p99_ns").unwrap();
        let graded = |low| grade_figure(p99, &criterion("lat_p99_ns", 10e6, 50e6), &of(low), 7_200_000_000);
        assert_eq!(
            graded(58.8e6),
            (Grade::Fail, "even the better end of the interval, 58.8 ms, is beyond 50.0 ms".to_owned())
        );
        let (grade, why) = graded(29.6e6);
        assert_eq!(grade, Grade::Marginal);
        assert_eq!(
            why,
            "certainly above 29.6 ms; finding out how much takes about 9.0 s of this step, which ran for 7.2 s"
        );
        assert_eq!(graded(9.6e6).0, Grade::NotResolved, "it may pass");
    }

    #[test]
    fn dependent_samples_say_that_the_run_is_too_short() {
        let figure = Estimate { n: 1000, n_effective: 20.0, n_needed: 2500, ..Estimate::default() };
        let (_, why) =
            grade_figure(metric("lat_p99_ns").unwrap(), &criterion("lat_p99_ns", 10.0, 20.0), &figure, 7_200_000_000);
        assert_eq!(why, "too few independent stretches: it takes about 18 s of this step, which ran for 7.2 s");
    }

    #[test]
    fn an_interval_across_the_only_bound_is_not_resolved() {
        let figure = Estimate { value: Some(10.0), low: Some(9.0), high: Some(11.0), ..Estimate::default() };
        let (grade, why) = grade_figure(metric("iops").unwrap(), &criterion("iops", 10.0, 10.0), &figure, 0);
        assert_eq!((grade, why.as_str()), (Grade::NotResolved, "the interval 9..11 lies across the bound"));
    }
}

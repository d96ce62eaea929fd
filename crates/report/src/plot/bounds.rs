//! The bounds of workload classes and of suites' criteria, as lines in the charts of what they judge.

use qd1_model::OpClass;
use qd1_model::metric::{Better, Metric, Unit, metric};
use qd1_model::plan::criterion::Criterion;

use super::{Bound, Pictured};
use crate::words;

/// Bounds in a chart at most: more than that hide what they bound.
const BOUNDS_MAX: usize = 8;
/// How far a bound of a percentile reaches to either side of it, in nines.
const REACH: f64 = 0.3;

/// Percentiles as nines: 2 is 99 %.
fn nines(metric: &str) -> Option<f64> {
    Some(match metric {
        "lat_p50_ns" | "sync_p50_ns" => -0.5_f64.log10(),
        "lat_p99_ns" | "sync_p99_ns" => 2.0,
        "lat_p999_ns" => 3.0,
        "lat_p9999_ns" => 4.0,
        _ => return None,
    })
}

/// One end of a criterion, and whose it is.
struct Edge<'a> {
    metric: &'static Metric,
    value: f64,
    is_fail: bool,
    whose: Vec<&'a str>,
}

/// The edges of criteria, each once, with everyone whose edge it is.
fn edges<'a>(criteria: impl Iterator<Item = (&'a str, &'a Criterion)>) -> Vec<Edge<'a>> {
    let mut edges: Vec<Edge<'a>> = Vec::new();
    for (whose, criterion) in criteria {
        let Some(metric) = metric(&criterion.metric) else { continue };
        let ends = [(criterion.pass, false), (criterion.fail, true)];
        // If there is only one bound, whatever lies beyond it fails.
        let ends = if criterion.pass == criterion.fail { &ends[1..] } else { &ends[..] };
        for (value, is_fail) in ends {
            let is_same =
                |edge: &&mut Edge<'_>| (edge.metric.name, edge.value, edge.is_fail) == (metric.name, *value, *is_fail);
            match edges.iter_mut().find(is_same) {
                Some(edge) if edge.whose.contains(&whose) => {}
                Some(edge) => edge.whose.push(whose),
                None => edges.push(Edge { metric, value: *value, is_fail: *is_fail, whose: vec![whose] }),
            }
        }
    }
    edges
}

/// All criteria that the runs were judged by, each with its class or label.
fn criteria(runs: &[Pictured]) -> impl Iterator<Item = (&str, &Criterion)> {
    let of_classes = runs.iter().flat_map(|run| &run.report.verdicts);
    let of_classes = of_classes
        .flat_map(|verdict| verdict.judged.iter().map(move |judged| (verdict.title.as_str(), &judged.criterion)));
    let of_suites = runs.iter().flat_map(|run| &run.report.criteria);
    of_classes.chain(of_suites.map(|judged| (judged.criterion.label.as_str(), &judged.criterion)))
}

/// Returns the steps and operations by which the runs were judged, those of percentiles first, since a chart of
/// percentiles shows them.
pub(super) fn decisive(runs: &[Pictured]) -> Vec<(&str, OpClass)> {
    let of_percentiles = criteria(runs).filter(|(_, criterion)| nines(&criterion.metric).is_some());
    of_percentiles.chain(criteria(runs)).map(|(_, criterion)| (criterion.step.as_str(), criterion.op)).collect()
}

impl Edge<'_> {
    /// `p99: fail above 10 ms (etcd / Kubernetes)`.
    fn text(&self, has_title: bool) -> String {
        let word = match (self.is_fail, self.metric.better) {
            (true, Better::Lower) => "fail above",
            (true, Better::Higher) => "fail below",
            (false, Better::Lower) => "pass up to",
            (false, Better::Higher) => "pass from",
        };
        let title = if has_title { format!("{}: ", self.metric.title) } else { String::new() };
        let whose: Vec<&str> = self.whose.iter().copied().filter(|whose| !whose.is_empty()).collect();
        let whose = match whose.as_slice() {
            [] => String::new(),
            [one] => format!(" ({one})"),
            [one, rest @ ..] => format!(" ({one} and {} more)", rest.len()),
        };
        format!("{title}{word} {}{whose}", words::threshold(self.metric.unit, self.value))
    }

    fn bound(&self, x: Option<(f64, f64)>, has_title: bool) -> Bound {
        Bound { x, y: self.value, text: self.text(has_title), is_fail: self.is_fail }
    }
}

fn of_step<'a>(runs: &'a [Pictured], step: &str, class: OpClass) -> Vec<Edge<'a>> {
    let mut edges = edges(criteria(runs).filter(|(_, criterion)| criterion.step == step && criterion.op == class));
    edges.truncate(BOUNDS_MAX);
    edges
}

fn around(x: f64) -> (f64, f64) {
    ((x - REACH).max(0.0), x + REACH)
}

/// Returns the bounds of a step's percentiles, each around its percentile.
pub(super) fn of_percentiles(runs: &[Pictured], step: &str, class: OpClass) -> Vec<Bound> {
    let edges = of_step(runs, step, class);
    edges.iter().filter_map(|edge| Some(edge.bound(Some(around(nines(edge.metric.name)?)), true))).collect()
}

/// Returns the bounds of a step's latencies, along the whole chart.
pub(super) fn of_latency(runs: &[Pictured], step: &str, class: OpClass) -> Vec<Bound> {
    let edges = of_step(runs, step, class);
    edges.iter().filter(|edge| edge.metric.unit == Unit::Ns).map(|edge| edge.bound(None, true)).collect()
}

/// Returns the bounds of a step's rate.
pub(super) fn of_rate(runs: &[Pictured], step: &str, is_of_bytes: bool) -> Vec<Bound> {
    let unit = if is_of_bytes { Unit::BytesPerSecond } else { Unit::PerSecond };
    let mut edges = edges(criteria(runs).filter(|(_, criterion)| criterion.step == step));
    edges.retain(|edge| edge.metric.unit == unit);
    edges.truncate(BOUNDS_MAX);
    edges.iter().map(|edge| edge.bound(None, false)).collect()
}

/// Returns the bounds that decided the classes, in the chart of all steps.
pub(super) fn of_overview(runs: &[Pictured]) -> Vec<Bound> {
    let verdicts = runs.iter().flat_map(|run| &run.report.verdicts);
    let deciding = verdicts.filter_map(|verdict| {
        let judged = *words::deciding(verdict).first()?;
        Some((verdict.title.as_str(), &judged.criterion))
    });
    let edges = edges(deciding);
    let decisive = edges.iter().filter_map(|edge| {
        let bound = edge.bound(Some(around(nines(edge.metric.name)?)), false);
        Some(Bound { text: format!("{}: {}", edge.metric.title, bound.text), ..bound })
    });
    decisive.take(BOUNDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;
    use qd1_model::chart::ChartData;

    fn runs() -> Vec<Pictured> {
        let run =
            |name: &str| Pictured { name: name.to_owned(), report: sample::slow_vps(), data: ChartData::default() };
        vec![run("a"), run("b")]
    }

    #[test]
    fn a_bound_is_drawn_once_around_its_percentile_and_names_its_class() {
        let bounds = of_percentiles(&runs(), "wal", OpClass::Commit);
        let texts: Vec<&str> = bounds.iter().map(|bound| bound.text.as_str()).collect();
        assert_eq!(
            texts,
            ["sync p99: pass up to 2 ms (etcd / Kubernetes)", "sync p99: fail above 10 ms (etcd / Kubernetes)"]
        );
        assert_eq!(bounds[1].y, 10e6);
        let (from, to) = bounds[1].x.unwrap();
        assert!(from < 2.0 && 2.0 < to && to < 3.0, "around p99: {from}..{to}");
        assert!(of_percentiles(&runs(), "wal", OpClass::Read).is_empty());
    }

    #[test]
    fn classes_with_the_same_bound_share_its_line() {
        let bounds = of_latency(&runs(), "commit4", OpClass::Commit);
        let fail = bounds.iter().find(|bound| bound.is_fail && bound.y == 50e6).unwrap();
        assert_eq!(fail.text, "p99: fail above 50 ms (databases in memory and 1 more)");
        assert!(bounds.iter().all(|bound| bound.x.is_none()));
    }

    #[test]
    fn a_rate_has_the_bounds_of_its_unit_alone() {
        let bounds = of_rate(&runs(), "seqwrite", true);
        let texts: Vec<&str> = bounds.iter().map(|bound| bound.text.as_str()).collect();
        assert_eq!(texts, ["pass from 200 MB/s (bulk)", "fail below 100 MB/s (bulk)"]);
        assert!(of_rate(&runs(), "seqwrite", false).is_empty());
    }

    #[test]
    fn the_chart_of_all_steps_has_the_bounds_that_decided() {
        let texts: Vec<String> = of_overview(&runs()).into_iter().map(|bound| bound.text).collect();
        assert!(texts.contains(&"sync p99: fail above 10 ms (etcd / Kubernetes)".to_owned()), "{texts:?}");
        assert!(texts.contains(&"p99: pass up to 5 ms (web and file servers)".to_owned()), "{texts:?}");
        assert!(!texts.iter().any(|text| text.contains("bulk")), "a rate has no percentile: {texts:?}");
    }
}

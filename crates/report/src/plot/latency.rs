//! Latencies by their rank: percentile curves with their intervals, and distribution functions.

use qd1_model::OpClass;
use qd1_model::chart::{Distribution, Part};
use qd1_model::order::Order as _;

use super::{Axis, AxisUnit, Band, Body, Chart, Group, Pictured, Series, bounds, look, named};

/// Most lines of the overview that are shown at first, over all runs.
const SHOWN: usize = 6;

const NINES: Axis = Axis { label: "percentile", unit: AxisUnit::Nines, is_log: false };
const LATENCY: Axis = Axis { label: "latency", unit: AxisUnit::Ns, is_log: true };
const SHARE: Axis = Axis { label: "share of operations", unit: AxisUnit::Share, is_log: false };

/// A line of the overview.
struct Curve<'a> {
    is_shown: bool,
    name: String,
    look: Option<(usize, usize)>,
    found: &'a Distribution,
}

/// Returns the percentiles and the distribution of every step.
pub(super) fn overview(runs: &[Pictured]) -> Group {
    let curves = curves(runs);
    let series = |of: fn(&Distribution) -> Series| -> Vec<Series> {
        let line = |curve: &Curve<'_>| Series {
            name: curve.name.clone(),
            look: curve.look,
            is_hidden: !curve.is_shown,
            ..of(curve.found)
        };
        curves.iter().map(line).collect()
    };
    let charts = vec![
        Chart {
            id: "percentiles".to_owned(),
            title: "Latency percentiles of all steps".to_owned(),
            note: "From each grid line to the next, ten times fewer operations are slower. A line ends at its slowest \
                   operation."
                .to_owned(),
            x: NINES,
            y: LATENCY,
            body: Body::Lines { series: series(percentiles) },
            time: None,
            bounds: bounds::of_overview(runs),
            made: String::new(),
        },
        Chart {
            id: "distributions".to_owned(),
            title: "Distribution of latency (ECDF)".to_owned(),
            note: "Share of operations that took at most this long.".to_owned(),
            x: LATENCY,
            y: SHARE,
            body: Body::Lines { series: series(distribution) },
            time: None,
            bounds: Vec::new(),
            made: String::new(),
        },
    ];
    let charts = if curves.is_empty() { Vec::new() } else { charts };
    Group { title: "All steps".to_owned(), about: String::new(), findings: Vec::new(), is_open: true, charts }
}

fn is_of_same_step(one: &Distribution, other: &Distribution) -> bool {
    one.step == other.step && other.part == Part::Whole
}

/// The line of each kind of operation of each step and run, those that decide grades first: these are shown, and get
/// the looks that are easiest to tell apart.
fn curves(runs: &[Pictured]) -> Vec<Curve<'_>> {
    let decisive = bounds::decisive(runs);
    let most = (SHOWN / runs.len().max(1)).max(1);
    let rank =
        |found: &Distribution| decisive.iter().position(|(step, op)| (*step, *op) == (&*found.step, found.class));
    let mut found: Vec<(Curve<'_>, String, usize)> = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let mut of_run: Vec<&Distribution> =
            run.data.distributions.iter().filter(|found| found.part == Part::Whole).collect();
        of_run.order_by_key(|found| (rank(found).is_none(), rank(found)));
        for (place, distribution) in of_run.iter().enumerate() {
            let is_alone = of_run.iter().filter(|other| is_of_same_step(distribution, other)).count() == 1;
            let (step, class) = (&distribution.step, distribution.class.name());
            let what = if is_alone { step.clone() } else { format!("{step} {class}") };
            let is_shown = place < most && (decisive.is_empty() || rank(distribution).is_some());
            found.push((
                Curve { is_shown, name: named(runs, run, &what), look: None, found: distribution },
                what,
                number,
            ));
        }
    }
    found.order_by_key(|(curve, ..)| !curve.is_shown);
    let mut kinds: Vec<&str> = Vec::new();
    for (_, what, _) in &found {
        if !kinds.contains(&what.as_str()) {
            kinds.push(what);
        }
    }
    let kind = |what: &str| kinds.iter().position(|kind| *kind == what).unwrap_or_default();
    let looks: Vec<Option<(usize, usize)>> =
        found.iter().map(|(_, what, number)| look(runs, *number, kind(what))).collect();
    found.into_iter().zip(looks).map(|((curve, ..), look)| Curve { look, ..curve }).collect()
}

/// The steps by which the runs were judged.
pub(super) fn decisive(runs: &[Pictured]) -> Vec<String> {
    let verdicts = runs.iter().flat_map(|run| &run.report.verdicts).flat_map(|verdict| &verdict.judged);
    let criteria = runs.iter().flat_map(|run| &run.report.criteria);
    verdicts.chain(criteria).map(|judged| judged.criterion.step.clone()).collect()
}

/// Returns the percentiles of a step: each kind of operation, and the parts of commits.
pub(super) fn of_step(runs: &[Pictured], step: &str) -> Vec<Chart> {
    let mut classes: Vec<OpClass> = Vec::new();
    for found in runs.iter().flat_map(|run| &run.data.distributions).filter(|found| found.step == step) {
        if !classes.contains(&found.class) {
            classes.push(found.class);
        }
    }
    classes.into_iter().map(|class| of_class(runs, step, class)).collect()
}

fn of_class(runs: &[Pictured], step: &str, class: OpClass) -> Chart {
    let mut series = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        for found in run.data.distributions.iter().filter(|found| found.step == step && found.class == class) {
            let part = match found.part {
                Part::Whole if runs.len() > 1 => "",
                Part::Whole => class.name(),
                Part::Write => "write part",
                Part::Sync => "sync part",
            };
            let is_hidden = runs.len() > 1 && found.part != Part::Whole;
            let look = look(runs, number, found.part as usize);
            series.push(Series {
                name: named(runs, run, part),
                band: band(found),
                look,
                is_hidden,
                ..percentiles(found)
            });
        }
    }
    Chart {
        id: format!("percentiles-{step}-{}", class.name()),
        title: format!("{step}: latency percentiles of {}s", class.name()),
        note: note(&series),
        x: NINES,
        y: LATENCY,
        body: Body::Lines { series },
        time: None,
        bounds: bounds::of_percentiles(runs, step, class),
        made: String::new(),
    }
}

fn note(series: &[Series]) -> String {
    if series.iter().all(|line| line.band.is_none()) {
        return "Too few operations for intervals of these percentiles: the line is what was observed.".to_owned();
    }
    "The shaded band is the 95 % interval, at the percentiles in the tables the same as there. Where it ends, there \
     are too few operations for an interval, and the line is what was observed."
        .to_owned()
}

/// Nines of a share of `count` operations; the slowest stands where one more would be expected.
fn nines(share: f64, count: u64) -> f64 {
    let rarest = 0.5 / count.max(1) as f64;
    -(1.0 - share).max(rarest).log10()
}

fn percentiles(found: &Distribution) -> Series {
    let (x, y) = found.points.iter().map(|(share, ns)| (Some(nines(*share, found.count)), Some(*ns))).unzip();
    Series { x, y, ..Series::default() }
}

fn distribution(found: &Distribution) -> Series {
    let (x, y) = found.points.iter().map(|(share, ns)| (Some(*ns), Some(*share))).unzip();
    Series { x, y, ..Series::default() }
}

/// The intervals along the line: those of the figures; between two figures, the distances from the line are
/// interpolated in proportion.
fn band(found: &Distribution) -> Option<Band> {
    struct Node {
        x: f64,
        low: f64,
        high: f64,
    }
    let node = |(q, figure): &(f64, qd1_model::Estimate)| {
        let (value, low, high) = (figure.value?, figure.low?, figure.high?);
        (value > 0.0 && low > 0.0).then(|| Node {
            x: nines(*q, found.count),
            low: (low / value).ln(),
            high: (high / value).ln(),
        })
    };
    let nodes: Vec<Node> = found.figures.iter().map_while(node).collect();
    let mut band = Band::default();
    for (share, ns) in &found.points {
        let x = nines(*share, found.count);
        let pair = nodes.windows(2).find(|pair| (pair[0].x - 1e-9..=pair[1].x + 1e-9).contains(&x));
        let Some([from, to]) = pair else { continue };
        let part = ((x - from.x) / (to.x - from.x)).clamp(0.0, 1.0);
        band.x.push(Some(x));
        band.low.push(Some(ns * (from.low + part * (to.low - from.low)).exp()));
        band.high.push(Some(ns * (from.high + part * (to.high - from.high)).exp()));
    }
    (band.x.len() > 1).then_some(band)
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::Estimate;

    #[test]
    fn the_line_lies_within_its_band_which_has_the_tables_limits() {
        let figure = |value: f64, low: f64, high: f64| Estimate {
            low: Some(low),
            high: Some(high),
            ..Estimate::exact(value, 1)
        };
        let points = (1..=99)
            .map(|percent| f64::from(percent) / 100.0)
            .map(|share| (share, if share < 0.9 { 1e5 } else { 9e6 }));
        let found = Distribution {
            step: "a".to_owned(),
            class: OpClass::Read,
            part: Part::Whole,
            count: 1000,
            points: points.chain([(1.0, 1e7)]).collect(),
            figures: vec![(0.5, figure(1e5, 8e4, 1.5e5)), (0.99, figure(9e6, 6e6, 9.5e6))],
        };
        let band = band(&found).unwrap();
        assert_eq!(band.x.len(), 50, "from the median to p99");
        for ((x, low), high) in band.x.iter().zip(&band.low).zip(&band.high) {
            let point = found.points.iter().find(|(share, _)| Some(nines(*share, 1000)) == *x).unwrap();
            assert!(low.unwrap() <= point.1 && point.1 <= high.unwrap());
        }
        assert!((band.low[0].unwrap() - 8e4).abs() < 1.0 && (band.high[49].unwrap() - 9.5e6).abs() < 10.0);
    }

    #[test]
    fn commits_that_decide_are_shown_first_and_each_run_has_its_colour() {
        let found = |step: &str, class| Distribution {
            step: step.to_owned(),
            class,
            part: Part::Whole,
            count: 1000,
            points: vec![(0.5, 1e5), (1.0, 1e7)],
            figures: Vec::new(),
        };
        let run = |name: &str| {
            let distributions = vec![
                found("paced", OpClass::Read),
                found("qd1", OpClass::Write),
                found("commit1", OpClass::Commit),
                found("wal", OpClass::Commit),
            ];
            let data = qd1_model::chart::ChartData { distributions, timelines: Vec::new() };
            Pictured { name: name.to_owned(), report: crate::samples::slow_vps(), data }
        };
        let runs = [run("a"), run("b"), run("c")];
        let curves = curves(&runs);
        let shown: Vec<(&str, Option<(usize, usize)>)> =
            curves.iter().filter(|curve| curve.is_shown).map(|curve| (curve.name.as_str(), curve.look)).collect();
        let expected = [
            ("a wal", Some((0, 0))),
            ("a commit1", Some((0, 1))),
            ("b wal", Some((1, 0))),
            ("b commit1", Some((1, 1))),
            ("c wal", Some((2, 0))),
            ("c commit1", Some((2, 1))),
        ];
        assert_eq!(shown, expected);
        assert_eq!(curves.len(), 12);
    }

    #[test]
    fn nines_count_how_rare_the_slower_ones_are() {
        assert_eq!(nines(0.0, 1000), 0.0);
        assert!((nines(0.99, 1_000_000) - 2.0).abs() < 1e-9);
        assert!((nines(1.0, 50) - 2.0).abs() < 1e-9, "the slowest of 50 stands for one in a hundred");
    }
}

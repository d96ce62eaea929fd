//! Latencies by their rank: percentile curves with their intervals, and distribution functions.

use qd1_model::OpClass;
use qd1_model::chart::{Distribution, Part};

use super::{Axis, AxisUnit, Band, Body, Chart, Group, Pictured, Series, named};

/// Lines of the overview that are shown at first, of all runs together.
const SHOWN: usize = 6;

const NINES: Axis = Axis { label: "share of operations that were as fast", unit: AxisUnit::Nines, is_log: false };
const LATENCY: Axis = Axis { label: "latency", unit: AxisUnit::Ns, is_log: true };
const SHARE: Axis = Axis { label: "share of operations", unit: AxisUnit::Share, is_log: false };

/// Returns the percentiles and the distribution of every step.
pub(super) fn overview(runs: &[Pictured]) -> Group {
    let decisive = decisive(runs);
    let most = (SHOWN / runs.len().max(1)).max(1);
    let mut curves = Vec::new();
    for run in runs {
        let mut shown = 0;
        for found in run.data.distributions.iter().filter(|found| found.part == Part::Whole) {
            let is_alone = run.data.distributions.iter().filter(|other| is_of_same_step(found, other)).count() == 1;
            let what = if is_alone { found.step.clone() } else { format!("{} {}", found.step, found.class.name()) };
            let is_shown = shown < most && (decisive.is_empty() || decisive.contains(&found.step));
            shown += usize::from(is_shown);
            curves.push((is_shown, named(runs, run, &what), found));
        }
    }
    // These get the colours that are easiest to tell apart.
    curves.sort_by_key(|(is_shown, ..)| !*is_shown);
    let series = |of: fn(&Distribution) -> Series| -> Vec<Series> {
        curves
            .iter()
            .map(|(is_shown, name, found)| Series { name: name.clone(), is_hidden: !is_shown, ..of(found) })
            .collect()
    };
    let charts = vec![
        Chart {
            id: "percentiles".to_owned(),
            title: "Latency percentiles of all steps".to_owned(),
            note:
                "Each step to the right has ten times fewer operations that are slower. A line ends with its slowest \
                   operation."
                    .to_owned(),
            x: NINES,
            y: LATENCY,
            body: Body::Lines { series: series(percentiles) },
            time: None,
        },
        Chart {
            id: "distributions".to_owned(),
            title: "Distribution of latency (ECDF)".to_owned(),
            note: "The share of operations that took at most so long.".to_owned(),
            x: LATENCY,
            y: SHARE,
            body: Body::Lines { series: series(distribution) },
            time: None,
        },
    ];
    let charts = if curves.is_empty() { Vec::new() } else { charts };
    Group { title: "All steps".to_owned(), about: String::new(), findings: Vec::new(), is_open: true, charts }
}

fn is_of_same_step(one: &Distribution, other: &Distribution) -> bool {
    one.step == other.step && other.part == Part::Whole
}

/// The steps by which the runs were judged.
fn decisive(runs: &[Pictured]) -> Vec<String> {
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
    for run in runs {
        for found in run.data.distributions.iter().filter(|found| found.step == step && found.class == class) {
            let part = match found.part {
                Part::Whole if runs.len() > 1 => "",
                Part::Whole => class.name(),
                Part::Write => "its write",
                Part::Sync => "its sync",
            };
            let is_hidden = runs.len() > 1 && found.part != Part::Whole;
            series.push(Series { name: named(runs, run, part), band: band(found), is_hidden, ..percentiles(found) });
        }
    }
    Chart {
        id: format!("percentiles-{step}-{}", class.name()),
        title: format!("{step}: latency percentiles of {}s", class.name()),
        note:
            "The shade is the 95 % interval of the figures in the tables; where it ends, there are too few operations \
               to bound them."
                .to_owned(),
        x: NINES,
        y: LATENCY,
        body: Body::Lines { series },
        time: None,
    }
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

fn band(found: &Distribution) -> Option<Band> {
    let bounded = found.figures.iter().filter_map(|(q, figure)| Some((*q, figure.low?, figure.high?)));
    let mut band = Band::default();
    for (q, low, high) in bounded {
        band.x.push(Some(nines(q, found.count)));
        band.low.push(Some(low));
        band.high.push(Some(high));
    }
    (band.x.len() > 1).then_some(band)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nines_count_how_rare_the_slower_ones_are() {
        assert_eq!(nines(0.0, 1000), 0.0);
        assert!((nines(0.99, 1_000_000) - 2.0).abs() < 1e-9);
        assert!((nines(1.0, 50) - 2.0).abs() < 1e-9, "the slowest of 50 stands for one in a hundred");
    }
}

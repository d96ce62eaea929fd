//! One figure over many runs: a point for each with its interval, the levels, and what was new.

use qd1_model::metric::{Better, Unit, metric};
use qd1_model::order::Order as _;
use qd1_model::printable;
use qd1_model::trend::{LevelChange, Trend};

use super::{Axis, AxisUnit, Body, Chart, Mark, Series, Time};

/// Runs that have a point each, at most.
const POINTS_MAX: usize = 100;

const DATE: Axis = Axis { label: "start of the run (UTC)", unit: AxisUnit::Date, is_log: false };

/// Returns the chart of a trend.
pub(super) fn chart(trend: &Trend) -> Chart {
    let metric = metric(trend.figure.metric);
    let (unit, is_log) = match metric.map_or(Unit::Share, |metric| metric.unit) {
        Unit::Ns => (AxisUnit::Ns, true),
        Unit::PerSecond => (AxisUnit::PerSecond, false),
        Unit::BytesPerSecond => (AxisUnit::BytesPerSecond, false),
        Unit::Share => (AxisUnit::Share, false),
    };
    let title = metric.map_or("", |metric| metric.title);
    let mut series = vec![intervals(trend), runs(trend)];
    // With fewer runs nobody knows whether they are at one level.
    if trend.points.len() >= Trend::RUNS_MIN {
        series.push(levels(trend));
    }
    let op = trend.figure.op.map_or_else(String::new, |op| format!(" of {}s", op.name()));
    Chart {
        id: "trend".to_owned(),
        title: format!(
            "{} {title}{op} in {} of {} on {}",
            printable(&trend.figure.step),
            match trend.points.len() {
                1 => "1 run".to_owned(),
                count => format!("{count} runs"),
            },
            printable(&trend.suite),
            printable(&trend.path)
        ),
        note: String::new(),
        x: DATE,
        y: Axis { label: title, unit, is_log },
        body: Body::Lines { series },
        time: Some(Time { marks: marks(trend), ..Time::default() }),
        bounds: Vec::new(),
        made: format!("drawn by qd1 {}", env!("CARGO_PKG_VERSION")),
    }
}

fn seconds(trend: &Trend, at: usize) -> f64 {
    trend.points[at].started_unix_ns as f64 / 1e9
}

fn runs(trend: &Trend) -> Series {
    Series {
        name: "each run".to_owned(),
        x: (0..trend.points.len()).map(|at| Some(seconds(trend, at))).collect(),
        y: trend.points.iter().map(|point| Some(point.value)).collect(),
        has_points: trend.points.len() <= POINTS_MAX,
        ..Series::default()
    }
}

/// A vertical line for each run whose interval is known; nothing is known between two runs.
fn intervals(trend: &Trend) -> Series {
    let mut series = Series { name: "its 95 % interval".to_owned(), look: Some((5, 0)), ..Series::default() };
    for (at, point) in trend.points.iter().enumerate() {
        let limits = point.low.zip(point.high).filter(|(low, high)| *low > 0.0 && high.is_finite());
        let Some((low, high)) = limits else { continue };
        series.x.extend([Some(seconds(trend, at)); 3]);
        series.y.extend([Some(low), Some(high), None]);
    }
    series
}

/// The geometric mean of each level, from its first run to its last.
fn levels(trend: &Trend) -> Series {
    let mut series = Series { name: "level".to_owned(), look: Some((1, 0)), ..Series::default() };
    let mut begins: Vec<usize> = vec![0];
    begins.extend(trend.changes.iter().map(|change| change.at));
    begins.push(trend.points.len());
    for ends in begins.windows(2) {
        let points = trend.points.get(ends[0]..ends[1]).unwrap_or_default();
        let logs: Vec<f64> = points.iter().map(|point| point.value).filter(|value| *value > 0.0).map(f64::ln).collect();
        if logs.is_empty() {
            continue;
        }
        let level = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        for at in [ends[0], ends[1] - 1] {
            series.x.push(Some(seconds(trend, at)));
            series.y.push(Some(level));
        }
        series.x.push(Some(seconds(trend, ends[1] - 1)));
        series.y.push(None);
    }
    series
}

/// Changes of level, and what was new.
fn marks(trend: &Trend) -> Vec<Mark> {
    let change = |change: &LevelChange| {
        let is_more = change.ratio > 1.0;
        let is_better = metric(trend.figure.metric).is_some_and(|metric| (metric.better == Better::Higher) == is_more);
        let word = if is_better { "better" } else { "worse" };
        Mark { x: seconds(trend, change.at), y: None, text: format!("{:.2} times: {word}", change.ratio) }
    };
    let news = trend.points.iter().enumerate().flat_map(|(at, point)| {
        point.news.iter().map(move |news| Mark { x: seconds(trend, at), y: None, text: printable(news).into_owned() })
    });
    let mut marks: Vec<Mark> = trend.changes.iter().map(change).chain(news).collect();
    marks.order_by(|a, b| a.x.total_cmp(&b.x));
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::trend::{FigureName, TrendPoint};

    #[test]
    fn levels_go_from_change_to_change_and_what_was_new_is_marked() {
        let point = |at: u64| TrendPoint {
            run: "a".to_owned(),
            started_unix_ns: at * 1_000_000_000,
            value: if at < 3 { 1e6 } else { 2e6 },
            low: None,
            high: None,
            news: if at == 2 { vec!["kernel 6.1 -> 6.8".to_owned()] } else { Vec::new() },
        };
        let trend = Trend {
            figure: FigureName { step: "commit1".to_owned(), op: None, metric: "lat_p99_ns" },
            suite: "check".to_owned(),
            path: "/srv".to_owned(),
            points: (0..6).map(point).collect(),
            without: 0,
            changes: vec![LevelChange { at: 3, ratio: 2.0 }],
        };
        let chart = chart(&trend);
        let Body::Lines { series } = &chart.body else { panic!("it is lines") };
        assert_eq!(series.len(), 2, "too few for levels");
        let levels = levels(&trend);
        assert_eq!(levels.x, [0.0, 2.0, 2.0, 3.0, 5.0, 5.0].map(Some));
        let levels: Vec<f64> = levels.y.iter().flatten().map(|level| level.round()).collect();
        assert_eq!(levels, [1e6, 1e6, 2e6, 2e6]);
        let marks: Vec<(f64, &str)> =
            chart.time.as_ref().unwrap().marks.iter().map(|mark| (mark.x, mark.text.as_str())).collect();
        assert_eq!(marks, [(2.0, "kernel 6.1 -> 6.8"), (3.0, "2.00 times: worse")]);
    }
}

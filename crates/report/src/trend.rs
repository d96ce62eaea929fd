//! `qd1 history --trend`: a figure of many runs, a line for each, with what was new and where the level changed.

use jiff::tz::TimeZone;
use qd1_model::metric::{Better, metric};
use qd1_model::printable;
use qd1_model::trend::{LevelChange, Trend};

use crate::formats::document;
use crate::page::{BAD, BOLD, DIM, GOOD, NOTE, Page, Style};
use crate::words;

/// Fewest and most columns of a bar.
const BAR_MIN: usize = 8;
const BAR_MAX: usize = 40;
/// Columns of the figure with its interval.
const FIGURE: usize = 26;
/// Columns before it: when, and which run.
const BEFORE: usize = 28;

/// Returns the course of a figure, the oldest run first; with times in `zone`.
#[must_use]
pub fn trend_human(trend: &Trend, style: &Style, zone: &TimeZone) -> String {
    let mut page = Page::new(style);
    for sentence in sentences(trend) {
        page.bold(&sentence);
    }
    page.line("");
    let room = page.style.width.saturating_sub(BEFORE + FIGURE).min(BAR_MAX);
    let heading = page.paint(BOLD, &format!("{:18}{:10}{}", "when", "run", title(trend)));
    page.line(&heading);
    let high = trend.points.iter().map(|point| point.value).fold(0.0, f64::max);
    for (at, point) in trend.points.iter().enumerate() {
        if let Some(change) = trend.changes.iter().find(|change| change.at == at) {
            let (text, paint) = level(trend, change);
            let text = page.paint(paint, &text);
            page.line(&format!("  -- {text}"));
        }
        for news in &point.news {
            let news = page.paint(NOTE, &printable(news));
            page.line(&format!("  -- {news}"));
        }
        let when = words::when(point.started_unix_ns, zone);
        let id: String = point.run.chars().take(8).collect();
        let figure =
            metric(trend.figure.metric).map_or_else(String::new, |metric| words::figure(metric.unit, &point.figure()));
        let bar = bar(point.value, high, room);
        let id = page.paint(DIM, &id);
        page.line(&format!("{when:18}{id}  {figure:FIGURE$}{bar}"));
    }
    page.text
}

/// Returns it as one JSON document.
#[must_use]
pub fn trend_json(trend: &Trend) -> String {
    document(trend)
}

fn title(trend: &Trend) -> &'static str {
    metric(trend.figure.metric).map_or("", |metric| metric.title)
}

fn sentences(trend: &Trend) -> Vec<String> {
    let op = trend.figure.op.map_or_else(String::new, |op| format!(" of {}s", op.name()));
    let runs = match trend.points.len() {
        1 => "1 run".to_owned(),
        count => format!("{count} runs"),
    };
    let what = format!(
        "{} {}{op} in {runs} of {} on {}.",
        printable(&trend.figure.step),
        title(trend),
        printable(&trend.suite),
        printable(&trend.path)
    );
    let found = match trend.changes.len() {
        _ if trend.points.len() < Trend::RUNS_MIN => {
            format!("At least {} runs are needed to see a change of level.", Trend::RUNS_MIN)
        }
        0 => "The level did not change by more than runs differ from each other.".to_owned(),
        1 => "The level changed once.".to_owned(),
        count => format!("The level changed {count} times."),
    };
    let mut said = vec![what, found];
    match trend.without {
        0 => {}
        1 => {
            said.push("1 more run is left out: it does not have this figure, or has too few samples for it.".to_owned())
        }
        count => {
            said.push(format!(
                "{count} more runs are left out: they do not have this figure, or have too few samples for it."
            ));
        }
    }
    said
}

/// `from here on 1.31 times as much: worse`, and its colour.
fn level(trend: &Trend, change: &LevelChange) -> (String, anstyle::Style) {
    let is_more = change.ratio > 1.0;
    let is_better = metric(trend.figure.metric).is_some_and(|metric| (metric.better == Better::Higher) == is_more);
    let (word, paint) = if is_better { ("better", GOOD) } else { ("worse", BAD) };
    (format!("from here on {:.2} times as much: {word}", change.ratio), paint)
}

/// A bar from nothing to the largest.
fn bar(value: f64, high: f64, room: usize) -> String {
    if room < BAR_MIN || value <= 0.0 {
        return String::new();
    }
    "#".repeat(((room as f64 * value / high).round() as usize).clamp(1, room))
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::OpClass;
    use qd1_model::trend::{FigureName, TrendPoint};

    fn trend(count: u64) -> Trend {
        let point = |at: u64| {
            let value = if at < 12 { 1e6 } else { 1.4e6 } * (1.0 + 0.01 * (at % 3) as f64);
            TrendPoint {
                run: format!("{at:012x}"),
                started_unix_ns: 1_771_064_551_000_000_000 + at * 86_400_000_000_000,
                value,
                low: Some(value * 0.9),
                high: Some(value * 1.1),
                news: if at == 12 { vec!["kernel 6.1.0 -> 6.8.0".to_owned()] } else { Vec::new() },
            }
        };
        Trend {
            figure: FigureName { step: "commit1".to_owned(), op: Some(OpClass::Commit), metric: "lat_p99_ns" },
            suite: "check".to_owned(),
            path: "/srv".to_owned(),
            points: (0..count).map(point).collect(),
            without: 2,
            changes: if count > 20 { vec![LevelChange { at: 12, ratio: 1.4 }] } else { Vec::new() },
        }
    }

    #[test]
    fn each_run_has_a_line_and_a_change_precedes_its_first() {
        let text = trend_human(&trend(24), &Style::plain(80), &TimeZone::UTC);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.iter().filter(|line| line.starts_with("2026-")).count(), 24, "{text}");
        let change = lines.iter().position(|line| line.contains("1.40 times as much: worse")).unwrap();
        assert!(lines[change + 1].contains("kernel 6.1.0 -> 6.8.0") && lines[change + 2].contains("1.40 ms"), "{text}");
        let length = |line: &str| line.matches('#').count();
        let ratio = length(lines[change + 2]) as f64 / length(lines[change - 1]) as f64;
        assert!((1.2..1.6).contains(&ratio) && text.contains("2 more runs are left out"), "{text}");
        assert!(!text.contains("n="), "a kept figure has no count: {text}");
        assert!(trend_human(&trend(3), &Style::plain(60), &TimeZone::UTC).contains("At least 20 runs"));
    }

    #[test]
    fn names_from_outside_are_written_out() {
        let mut hostile = trend(3);
        (hostile.path, hostile.points[1].news) = ("\u{1b}[2J".to_owned(), vec!["\u{202e}".to_owned()]);
        assert!(
            !trend_human(&hostile, &Style::plain(80), &TimeZone::UTC)
                .replace('\n', "")
                .contains(['\u{1b}', '\u{202e}'])
        );
    }
}

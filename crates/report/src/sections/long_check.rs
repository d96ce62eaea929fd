//! The hours of a check over hours, and what a check of a minute says of its own.

use jiff::Timestamp;
use qd1_model::long_check::{Hour, Hours, LongCheckSummary};
use qd1_model::metric::{Better, Unit, metric};
use qd1_model::order::Order as _;
use qd1_model::plan::criterion::Criterion;
use qd1_model::units::format_span_ns;
use qd1_model::{Bytes, Grade, Report};

use crate::page::{BOLD, DIM, Page};
use crate::section::{Lines, Section};
use crate::sections::criteria::paint;
use crate::table::escaped;
use crate::words;

/// Columns of the table: the criterion, and each of four counts.
const LABEL: usize = 24;
const COUNTS: [(Grade, &str, usize); 4] = [
    (Grade::Pass, "pass", 6),
    (Grade::Marginal, "marginal", 10),
    (Grade::Fail, "fail", 6),
    (Grade::NotResolved, "open", 6),
];
/// Narrowest terminal for a table.
const WIDTH_MIN: usize = 80;

/// Returns what the verdicts of a check cover, in a sentence or two; empty for other runs.
pub(crate) fn speaks_for(report: &Report) -> String {
    if !words::is_check(report) || report.verdicts.is_empty() {
        return String::new();
    }
    if let Some(over) = report.part::<LongCheckSummary>() {
        let unseen = match over.unseen_hours {
            0 if 10 * over.rounds >= 9 * over.rounds_planned => String::new(),
            0 => "; nothing is known about the rest".to_owned(),
            1 => "; one hour had no round, so nothing is known about it".to_owned(),
            hours => format!("; {hours} hours had no round, so nothing is known about them"),
        };
        return format!("These verdicts cover {}{unseen}.", whole(report, over));
    }
    // `cargo xtask truth --traces`, docs/statistics.md.
    "A minute is not a day: on 64 production drives, the mean latency of 1 minute in 10 was 15 % or more off that of \
     the whole three hours. For a day: qd1 check --over 24h"
        .to_owned()
}

/// Returns how long a check over hours was to take; `None` for other runs.
pub(crate) fn time(report: &Report) -> Option<String> {
    report.part::<LongCheckSummary>().map(|over| format_span_ns(over.duration_ns))
}

/// Returns the time that all figures cover: `these 24 h, from 370 of 375 rounds`.
fn whole(report: &Report, over: &LongCheckSummary) -> String {
    let measured = match report.record.interrupted {
        true => {
            format!("the first {} of {}", format_span_ns(report.record.elapsed_ns), format_span_ns(over.duration_ns))
        }
        false => format!("these {}", format_span_ns(over.duration_ns)),
    };
    let resumed = match over.resumed {
        0 => String::new(),
        1 => ", resumed once".to_owned(),
        times => format!(", resumed {times} times"),
    };
    format!("{measured}, from {} of {} rounds at random times{resumed}", over.rounds, over.rounds_planned)
}

/// Returns what the run cost the disk.
fn cost(over: &LongCheckSummary) -> String {
    format!("{:.2} % of the disk's time used, {} written", 100.0 * over.busy_share, Bytes(over.written_bytes))
}

/// The hours of a check over hours.
pub(crate) struct OverHours<'a> {
    pub(crate) over: &'a LongCheckSummary,
}

impl Section for OverHours<'_> {
    fn brief(&self, page: &mut Page) {
        brief(page, self.over);
    }

    fn human(&self, page: &mut Page) {
        section(page, self.over);
    }

    fn markdown(&self, text: &mut String) {
        markdown(text, self.over);
    }

    fn lines(&self, lines: &mut Lines<'_>) {
        lines.all("hours", &self.over.criteria);
    }
}

/// Most criteria whose hours are on the first screen.
const BRIEF: usize = 3;

/// Writes the hours of the criteria that were not always passed, the worst first.
pub(crate) fn brief(page: &mut Page, over: &LongCheckSummary) {
    let bad = |hours: &&Hours| hours.count(Grade::Fail) + hours.count(Grade::Marginal);
    let mut all: Vec<&Hours> = each(over).filter(|hours| bad(hours) > 0).collect();
    all.order_by_key(|hours| std::cmp::Reverse((hours.count(Grade::Fail), bad(hours))));
    for hours in all.into_iter().take(BRIEF) {
        let Some((hour, figure)) = worst(hours) else { continue };
        let (grade, count) = match hours.count(Grade::Fail) {
            0 => ("marginal", hours.count(Grade::Marginal)),
            failed => ("fail", failed),
        };
        let figure = figure.split(" [").next().unwrap_or_default();
        let text = format!(
            "{} {figure}, {} ({grade} in {count} of {})",
            label(&hours.criterion),
            when(hour),
            hours.hours.len()
        );
        page.hang(2, "worst hour", DIM, 15, &text);
    }
}

/// Writes the hours of each criterion.
fn section(page: &mut Page, over: &LongCheckSummary) {
    if over.criteria.is_empty() {
        return;
    }
    if page.style.width < WIDTH_MIN {
        page.heading("Hours");
        for hours in each(over) {
            page.hang(2, &format!("{}:", label(&hours.criterion)), BOLD, 4, "");
            page.prose(4, &sentence(hours));
        }
    } else {
        table(page, over);
    }
    let note = format!(
        "Each hour is graded like the whole run, by its own rounds. \"open\": they do not resolve it. {}.",
        cost(over)
    );
    for line in crate::page::wrap(&note, page.prose_width() - 2) {
        let line = page.paint(DIM, &line);
        page.line(&format!("  {line}"));
    }
}

fn table(page: &mut Page, over: &LongCheckSummary) {
    let titles: String = COUNTS.iter().map(|(_, title, width)| format!("{title:>width$}")).collect();
    let heading = page.paint(BOLD, &format!("{:indent$}{titles}  worst hour", "Hours", indent = LABEL + 2));
    page.line("");
    page.line(&heading);
    for hours in each(over) {
        let label = label(&hours.criterion);
        let mut line = format!("  {label:LABEL$}");
        if label.chars().count() >= LABEL {
            page.line(&line);
            line = format!("  {:LABEL$}", "");
        }
        for (grade, _, width) in COUNTS {
            let count = hours.count(grade);
            let text = format!("{count:>width$}");
            line += &if count > 0 { page.paint(paint(grade), &text) } else { text };
        }
        let indent = LABEL + 4 + COUNTS.iter().map(|(.., width)| width).sum::<usize>();
        match worst(hours) {
            Some((hour, figure)) => {
                page.line(&format!("{line}  {figure}"));
                let when = page.paint(DIM, &when(hour));
                page.line(&format!("{:indent$}{when}", ""));
            }
            None => page.line(&format!("{line}  not resolved")),
        }
    }
}

/// Writes the hours of each criterion as a table.
fn markdown(text: &mut String, over: &LongCheckSummary) {
    if over.criteria.is_empty() {
        return;
    }
    *text +=
        "### Hours\n\n| criterion | pass | marginal | fail | not resolved | worst hour |\n|---|--:|--:|--:|--:|---|\n";
    for hours in each(over) {
        let counts: String = COUNTS.iter().map(|(grade, ..)| format!(" {} |", hours.count(*grade))).collect();
        let worst = worst(hours).map_or_else(|| "-".to_owned(), |(hour, figure)| format!("{figure}, {}", when(hour)));
        *text += &format!("| {} |{counts} {} |\n", escaped(&label(&hours.criterion)), escaped(&worst));
    }
    *text += &format!("\n{}.\n\n", cost(over));
}

/// The criteria, each once: two classes may share one.
fn each(over: &LongCheckSummary) -> impl Iterator<Item = &Hours> {
    let is_same = |one: &Criterion, other: &Criterion| {
        (&one.step, one.op, &one.metric) == (&other.step, other.op, &other.metric)
            && (one.pass, one.fail) == (other.pass, other.fail)
    };
    let is_new = move |at: usize| {
        !over.criteria[..at].iter().any(|earlier| is_same(&earlier.criterion, &over.criteria[at].criterion))
    };
    over.criteria.iter().enumerate().filter(move |(at, _)| is_new(*at)).map(|(_, hours)| hours)
}

/// `wal: sync p99`
fn label(criterion: &Criterion) -> String {
    let title = metric(&criterion.metric).map_or(criterion.metric.as_str(), |metric| metric.title);
    format!("{}: {title}", criterion.step)
}

/// `pass in 22 hours of 24, fail in 2; worst 12.4 ms [11.9..13.0], Nov 24 14:00 UTC`
fn sentence(hours: &Hours) -> String {
    let counts = COUNTS.iter().map(|(grade, ..)| (grade, hours.count(*grade))).filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts.map(|(grade, count)| format!("{} in {count}", grade.name())).collect();
    let worst = worst(hours).map_or_else(String::new, |(hour, figure)| format!("; worst {figure}, {}", when(hour)));
    format!("{} of {} hours{worst}", counts.join(", "), hours.hours.len())
}

/// The hour with the worst figure, and that figure.
fn worst(hours: &Hours) -> Option<(&Hour, String)> {
    let metric = metric(&hours.criterion.metric)?;
    let value = |hour: &&Hour| hour.figure.and_then(|figure| figure.value);
    let resolved = hours.hours.iter().filter(|hour| value(hour).is_some());
    let worst = resolved.max_by(|one, other| {
        let order = value(one).unwrap_or_default().total_cmp(&value(other).unwrap_or_default());
        if metric.better == Better::Lower { order } else { order.reverse() }
    })?;
    let unit: Unit = metric.unit;
    Some((worst, words::figure(unit, &worst.figure?)))
}

fn when(hour: &Hour) -> String {
    let time = Timestamp::from_nanosecond(i128::from(hour.from_unix_ns)).unwrap_or_default();
    time.strftime("%b %d %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Style;
    use crate::samples;

    #[test]
    fn the_worst_hour_is_the_slowest_or_that_with_the_lowest_rate() {
        let report = samples::over_a_day();
        let over = report.part::<LongCheckSummary>().unwrap();
        let hours = |name: &str| over.criteria.iter().find(|hours| hours.criterion.metric == name).unwrap();
        assert_eq!(worst(hours("sync_p99_ns")).unwrap().0.grade, Grade::Fail);
        let rates = hours("iops");
        let least = rates.hours.iter().filter_map(|hour| hour.figure?.value).fold(f64::INFINITY, f64::min);
        assert_eq!(worst(rates).unwrap().0.figure.unwrap().value, Some(least));
    }

    /// Verdicts "for these 24 h" had rounds in 14 of them.
    #[test]
    fn hours_without_a_round_are_mentioned() {
        let mut report = samples::over_a_day();
        let said = |report: &Report| speaks_for(report).replace('\n', " ");
        assert!(!said(&report).contains("nothing is known"));
        for (hours, words) in [(1, "one hour had no round, so nothing"), (10, "10 hours had no round, so nothing")] {
            report.part_mut::<LongCheckSummary>().unwrap().unseen_hours = hours;
            assert!(said(&report).contains(words), "{}", said(&report));
        }
    }

    #[test]
    fn the_hours_fit_any_terminal() {
        let report = samples::over_a_day();
        for width in [40, 60, 79, 80, 132] {
            let mut page = Page::new(&Style::plain(width));
            section(&mut page, report.part::<LongCheckSummary>().unwrap());
            let longest = page.text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= width, "{width}:\n{}", page.text);
        }
    }
}

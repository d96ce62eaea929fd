//! The report for a terminal: the verdict first, then what it is based on. Plain ASCII, made for 80 columns.

use qd1_model::metric::Unit;
use qd1_model::units::format_span_ns;
use qd1_model::verdict::Judged;
use qd1_model::{Report, Severity, StepSummary, StreamSummary};

use crate::headline;
use crate::machine;
use crate::page::Style;
use crate::page::{BAD, BOLD, DIM, MIDDLING, NOTE, Page, wrap};
use crate::reasons::Reasons;
use crate::sections::apps;
use crate::sections::criteria;
use crate::sections::identity;
use crate::sections::meta;
use crate::sections::over;
use crate::sections::prediction;
use crate::sections::reference;
use crate::sections::suite;
use crate::sections::sweep;
use crate::sections::sync;
use crate::sections::tail;
use crate::table::{CELL, Column, LABEL, cell, columns, legend, list};
use crate::words;

/// Column of a verdict's and a finding's text: two spaces, the longest grade, two spaces.
const TEXT: usize = 16;
/// Column of an environment line's text.
const FACT: usize = 15;

/// Returns the whole report.
pub(crate) fn render(report: &Report, style: &Style) -> String {
    let mut page = Page::new(style);
    for sentence in headline::headline(report) {
        page.bold(&sentence);
    }
    verdicts(&mut page, report);
    if let Some(over) = &report.over {
        over::section(&mut page, over);
    }
    criteria::section(&mut page, report);
    if identity::is_identify(report) {
        identity::section(&mut page, report);
    }
    prediction::section(&mut page, report);
    if words::is_check(report) {
        headline_figures(&mut page, report);
        reference::section(&mut page, report);
        steps(&mut page, report);
        tail::section(&mut page, report);
    } else if let Some(surface) = &report.sweep {
        sweep::section(&mut page, report, surface);
    } else if let Some(table) = report.meta.as_ref().filter(|_| report.criteria.is_empty()) {
        meta::section(&mut page, report, table);
    } else if let Some(table) = &report.sync {
        sync::section(&mut page, report, table);
    } else if let Some(app) = &report.record.app {
        apps::section(&mut page, report, app);
    } else {
        suite::steps(&mut page, report);
        tail::section(&mut page, report);
    }
    findings(&mut page, report);
    page.heading("Where and how");
    for (label, text) in machine::lines(report) {
        page.hang(2, label, DIM, FACT, &text);
    }
    page.heading("Run it again");
    // Never wrapped by us: a broken line could not be pasted.
    page.line(&format!("  {}", machine::command_again(&report.record)));
    if report.record.is_unfinished() {
        page.line(&format!("or go on: qd1 check --resume {}", report.record.id));
    }
    page.text
}

fn verdicts(page: &mut Page, report: &Report) {
    if report.verdicts.is_empty() {
        return;
    }
    page.heading("Verdict");
    let mut reasons = Reasons::default();
    for verdict in &report.verdicts {
        let paint = criteria::paint(verdict.grade);
        page.hang(2, &verdict.grade.name().to_uppercase(), paint, TEXT, &verdict.title);
        for judged in words::deciding(verdict) {
            page.prose(TEXT, &reasons.judged(judged));
            limits(page, judged);
        }
        let others = words::others(verdict);
        if !others.is_empty() {
            page.prose(TEXT, &others);
        }
    }
    for line in wrap(&over::speaks_for(report), page.prose_width() - 2) {
        let line = page.paint(DIM, &line);
        page.line(&format!("  {line}"));
    }
}

/// Writes the threshold and its source on one line if they fit, otherwise on two.
fn limits(page: &mut Page, judged: &Judged) {
    let (limits, source) = (words::limits(&judged.criterion), &judged.criterion.source);
    let both = format!("{limits} ({source})");
    if TEXT + 2 + both.chars().count() <= page.prose_width() {
        page.prose(TEXT + 2, &both);
    } else {
        page.prose(TEXT + 2, &limits);
        page.prose(TEXT + 2, &format!("({source})"));
    }
}

fn headline_figures(page: &mut Page, report: &Report) {
    let figures = headline::headline_figures(report);
    if figures.is_empty() {
        return;
    }
    page.heading("What programs wait for: queue depth 1 and commits");
    for figure in figures {
        let label = words::figure(Unit::Ns, &figure.estimate);
        let text = format!("{}; {}", figure.what, words::samples(&figure.estimate));
        page.hang(2, &label, BOLD, 25, &text);
    }
}

fn steps(page: &mut Page, report: &Report) {
    let columns = columns(page.style.width);
    let is_table = page.style.width >= LABEL + CELL * 5 - 1;
    if is_table {
        let titles: String = columns.iter().map(|column| format!("{:CELL$}", column.title())).collect();
        let heading = page.paint(BOLD, &format!("{:LABEL$}{}", "All steps", titles.trim_end()));
        page.line("");
        page.line(&heading);
    } else {
        page.heading("All steps");
    }
    for step in &report.summary.steps {
        step_title(page, step);
        let errors = words::errors(report, step);
        if !errors.is_empty() {
            page.hang(2, "ERRORS", BAD, 10, &errors);
        }
        let load = words::load(step);
        if !load.is_empty() {
            page.hang(2, "load", DIM, LABEL, &load);
        }
        for stream in &step.streams {
            if is_table { rows(page, &columns, stream) } else { list(page, &columns, stream) }
        }
    }
    for text in words::not_run(report) {
        page.hang(0, "not run: ", BOLD, 9, &text);
    }
    legend(page, "");
}

/// Writes a step's name, title, engine and duration.
fn step_title(page: &mut Page, step: &StepSummary) {
    let how = [step.engine.clone(), format_span_ns(step.runtime_ns), words::ended(step.ended).to_owned()];
    let how = how.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let label = format!("{}:", step.name);
    let column = label.chars().count() + 1;
    page.hang(0, &label, BOLD, column, &format!("{} ({how})", step.title));
}

/// Writes two lines: figures, then intervals with n under the name. Commits have two more for their sync part.
fn rows(page: &mut Page, columns: &[Column], stream: &StreamSummary) {
    let cells: Vec<_> = columns.iter().map(|column| column.cell(stream)).collect();
    let n = format!("n={}", words::thousands(stream.ios));
    two_lines(page, stream.class.name(), &n, &cells);
    if let (Some(p50), Some(p99)) = (stream.sync_p50_ns, stream.sync_p99_ns) {
        two_lines(page, "  sync part", "", &[cell(Unit::Ns, &p50), cell(Unit::Ns, &p99)]);
    }
}

fn two_lines(page: &mut Page, label: &str, below: &str, cells: &[(String, String)]) {
    let indented = LABEL - 2;
    let figures: String = cells.iter().map(|(figure, _)| format!("{figure:CELL$}")).collect();
    let intervals: String = cells.iter().map(|(_, interval)| format!("{interval:CELL$}")).collect();
    let below = page.paint(DIM, format!("{below:indented$}{intervals}").trim_end());
    page.line(&format!("  {label:indented$}{figures}"));
    page.line(&format!("  {below}"));
}

fn findings(page: &mut Page, report: &Report) {
    page.heading("Findings");
    if report.findings.is_empty() {
        page.line("  none");
    }
    for finding in &report.findings {
        let paint = match finding.severity {
            Severity::Info => NOTE,
            Severity::Warning => MIDDLING,
            Severity::Critical => BAD,
        };
        page.hang(2, &words::severity(finding.severity).to_uppercase(), paint, 12, &finding.title);
        let sep = if finding.evidence.is_empty() { "" } else { " " };
        page.prose(14, &format!("{}{sep}({})", finding.evidence, words::certainty(finding)));
        if !finding.advice.is_empty() {
            page.hang(14, "->", BOLD, 17, &finding.advice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;

    fn plain(report: &Report, width: usize) -> String {
        render(report, &Style::plain(width))
    }

    /// The command at the end is exempt: it must stay in one piece to be pasted.
    fn longest_line(text: &str) -> usize {
        let body = text.split("\nRun it again").next().unwrap();
        body.lines().map(|line| line.chars().count()).max().unwrap()
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide() {
        for report in [sample::slow_vps(), sample::interrupted(), sample::fast_nvme(), sample::suite()] {
            for width in [40, 60, 79, 80, 100, 132] {
                let text = plain(&report, width);
                assert!(longest_line(&text) <= width, "{width}:\n{text}");
            }
        }
    }

    #[test]
    fn the_body_is_plain_ascii_so_any_terminal_shows_it() {
        assert!(plain(&sample::slow_vps(), 80).is_ascii());
    }

    #[test]
    fn colour_adds_escape_sequences_and_changes_no_word() {
        let painted = render(&sample::slow_vps(), &Style { color: true, ..Style::plain(80) });
        let mut bare = String::new();
        let mut rest = painted.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            bare += before;
            rest = after.split_once('m').unwrap().1;
        }
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trimmed(&(bare + rest)), trimmed(&plain(&sample::slow_vps(), 80)));
    }

    #[test]
    fn an_unresolved_percentile_says_how_many_samples_it_needs() {
        let text = plain(&sample::slow_vps(), 80);
        assert!(text.contains("not resolved") && text.contains("needs ~1,000"), "{text}");
    }

    #[test]
    fn the_report_of_a_run_without_any_step_is_still_a_report() {
        let mut report = sample::interrupted();
        report.summary.steps.clear();
        report.record.steps.clear();
        report.verdicts.clear();
        report.impressions.clear();
        report.durability = None;
        let text = plain(&report, 80);
        assert!(text.contains("0 steps measured; no class of workload was judged."), "{text}");
    }

    #[test]
    fn human_snapshot_at_80_columns() {
        insta::assert_snapshot!(plain(&sample::slow_vps(), 80));
    }

    #[test]
    fn human_snapshot_of_an_interrupted_run() {
        insta::assert_snapshot!(plain(&sample::interrupted(), 80));
    }

    #[test]
    fn human_snapshot_of_a_fast_disk() {
        insta::assert_snapshot!(plain(&sample::fast_nvme(), 80));
    }

    #[test]
    fn human_snapshot_of_a_check_over_a_day() {
        insta::assert_snapshot!(plain(&sample::over_a_day(), 80));
    }

    #[test]
    fn human_snapshot_of_a_suite() {
        insta::assert_snapshot!("human_suite_80", plain(&sample::suite(), 80));
        insta::assert_snapshot!("human_suite_60", plain(&sample::suite(), 60));
    }

    #[test]
    fn human_snapshot_in_colour() {
        let report = Report { summary: Default::default(), ..sample::slow_vps() };
        insta::assert_snapshot!(render(&report, &Style { color: true, ..Style::plain(80) }));
    }

    #[test]
    fn human_snapshot_at_120_and_at_60_columns() {
        insta::assert_snapshot!("human_120", plain(&sample::slow_vps(), 120));
        insta::assert_snapshot!("human_60", plain(&sample::interrupted(), 60));
    }
}

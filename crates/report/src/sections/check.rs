//! The figures of a check: what programs wait for, where the disk stands, and all steps.

use qd1_model::metric::{METRICS, Metric, Unit};
use qd1_model::units::format_span_ns;
use qd1_model::{Estimate, Report, StepSummary, StreamSummary};

use crate::page::{BAD, BOLD, DIM, Page};
use crate::section::Section;
use crate::sections::{reference, tail, waited_for};
use crate::table::{CELL, Column, LABEL, cell, columns, escaped, legend, list};
use crate::words;

/// Metrics that get a column in Markdown; the commit's sync part gets a row of its own, and the rest is in the JSON.
const COLUMNS: &[&str] = &["lat_p50_ns", "lat_p99_ns", "lat_p999_ns", "iops", "bytes_per_second"];

/// The figures of a check.
pub(crate) struct Figures<'a> {
    pub(crate) report: &'a Report,
}

impl Section for Figures<'_> {
    fn human(&self, page: &mut Page) {
        figures(page, self.report);
        reference::section(page, self.report);
        steps(page, self.report);
        tail::section(page, self.report);
    }

    fn markdown(&self, text: &mut String) {
        figures_markdown(text, self.report);
        steps_markdown(text, self.report);
    }
}

fn figures(page: &mut Page, report: &Report) {
    let figures = waited_for::key_figures(report);
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

/// Writes the table of all steps, and where the slowest operations spent their time.
pub(super) fn steps_markdown(text: &mut String, report: &Report) {
    all_steps(text, report);
    tail::markdown(text, report);
}

fn figures_markdown(text: &mut String, report: &Report) {
    let figures = waited_for::key_figures(report);
    if figures.is_empty() {
        return;
    }
    *text += "### What programs wait for: queue depth 1 and commits\n\n| latency [95 % interval] | of | samples |\n|---|---|---|\n";
    for figure in figures {
        let shown = words::figure(Unit::Ns, &figure.estimate);
        *text += &format!("| **{shown}** | {} | {} |\n", escaped(&figure.what), words::samples(&figure.estimate));
    }
    text.push('\n');
}

fn all_steps(text: &mut String, report: &Report) {
    let columns: Vec<&Metric> = METRICS.iter().filter(|metric| COLUMNS.contains(&metric.name)).collect();
    let titles: String = columns.iter().map(|metric| format!(" {} |", metric.title)).collect();
    *text += &format!(
        "### All steps\n\n| step | what | op |{titles} n |\n|---|---|---|{}--:|\n",
        "--:|".repeat(columns.len())
    );
    for step in &report.summary.steps {
        let how = [step.engine.clone(), format_span_ns(step.runtime_ns), words::ended(step.ended).to_owned()];
        let how = how.iter().map(|part| escaped(part)).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        let errors = escaped(&words::errors(report, step));
        let errors = if errors.is_empty() { String::new() } else { format!(" **{errors}**") };
        let load = escaped(&words::load(step));
        let load = if load.is_empty() { String::new() } else { format!("; load: {load}") };
        let mut start = format!("| {} | {} ({how}{load}){errors} |", escaped(&step.name), escaped(&step.title));
        for stream in &step.streams {
            let cells: String = columns.iter().map(|metric| format!(" {} |", shown_cell(metric, stream))).collect();
            *text += &format!("{start} {} |{cells} {} |\n", stream.class.name(), words::thousands(stream.ios));
            start = "| | |".into();
            if let (Some(p50), Some(p99)) = (stream.sync_p50_ns, stream.sync_p99_ns) {
                let (p50, p99) = (shown(Unit::Ns, &p50), shown(Unit::Ns, &p99));
                *text += &format!("{start} its sync part | {p50} | {p99} |{}\n", " |".repeat(columns.len() - 1));
            }
        }
    }
    for why in words::not_run(report) {
        *text += &format!("\nNot run: {}\n", escaped(&why));
    }
    text.push('\n');
}

fn shown_cell(metric: &Metric, stream: &StreamSummary) -> String {
    let Some(estimate) = (metric.get)(stream) else { return "-".into() };
    let mut text = shown(metric.unit, &estimate);
    if metric.unit == Unit::BytesPerSecond
        && let Some((binary, _)) = words::binary(&estimate)
    {
        text += &format!(" = {binary}");
    }
    text
}

fn shown(unit: Unit, estimate: &Estimate) -> String {
    match estimate.value {
        Some(_) => words::figure(unit, estimate),
        None => words::whole(unit, estimate),
    }
}

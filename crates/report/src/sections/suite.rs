//! The steps of a suite as one table with a row for each: a suite has many steps that differ in a figure or two, so the
//! table has names but no titles, which `--dry-run` shows. And the list of the built-in suites.

use qd1_model::metric::Unit;
use qd1_model::op::Ended;
use qd1_model::order::Order as _;
use qd1_model::plan::Work;
use qd1_model::plan::prediction::plain_name;
use qd1_model::prediction::Prediction;
use qd1_model::spec::{Effort, Suite};
use qd1_model::units::format_span_ns;
use qd1_model::{Bytes, OpClass, Report, StepSummary};

use crate::page::Style;
use crate::page::{BAD, BOLD, DIM, Page};
use crate::section::Section;
use crate::sections::{caches, check, criteria, tail};
use crate::table::{CELL, cell, columns, compact, legend, list};
use crate::words;

/// Width of the first column.
const LABEL: usize = 15;

/// The steps of a run that has no other section for them.
pub(crate) struct Steps<'a> {
    pub(crate) report: &'a Report,
}

impl Section for Steps<'_> {
    fn answer(&self) -> String {
        caches::sentence(self.report).unwrap_or_else(|| criteria::sentence(self.report))
    }

    fn brief(&self, page: &mut Page) {
        brief(page, self.report);
    }

    fn human(&self, page: &mut Page) {
        steps(page, self.report);
        tail::section(page, self.report);
    }

    fn markdown(&self, text: &mut String) {
        check::steps_markdown(text, self.report);
    }
}

/// Writes a line for each step and kind of operation: its rate and its latency.
pub(crate) fn brief(page: &mut Page, report: &Report) {
    let streams = report.summary.steps.iter().flat_map(|step| step.streams.iter().map(move |stream| (step, stream)));
    let rows: Vec<Vec<String>> = streams
        .map(|(step, stream)| {
            let is_alone = step.streams.len() == 1;
            let name = if is_alone { step.name.clone() } else { format!("{} {}", step.name, stream.class.name()) };
            vec![
                name,
                words::figure(Unit::PerSecond, &stream.iops),
                words::figure(Unit::Ns, &stream.lat_p50_ns),
                words::figure(Unit::Ns, &stream.lat_p99_ns),
            ]
        })
        .collect();
    if !rows.is_empty() {
        compact(page, &["step", "per second", "p50 [95 %]", "p99 [95 %]"], &rows);
    }
}

/// Writes what failed, and what did not run.
pub(crate) fn failures(page: &mut Page, report: &Report) {
    for step in &report.summary.steps {
        let errors = words::errors(report, step);
        if !errors.is_empty() {
            page.hang(2, "ERRORS", BAD, 10, &format!("{}: {errors}", step.name));
        }
    }
}

/// Writes the table of all steps.
fn steps(page: &mut Page, report: &Report) {
    // Rates, which a suite compares, come first, then latencies.
    let mut columns = columns(page.style.width);
    columns.order_by_key(|column| !column.is_rate());
    let is_table = page.style.width >= LABEL + CELL * 5;
    if is_table {
        let titles: String = columns.iter().map(|column| format!("{:CELL$}", column.title())).collect();
        let heading = page.paint(BOLD, &format!("{:LABEL$}{}", "Steps", titles.trim_end()));
        page.line("");
        page.line(&heading);
    } else {
        page.heading("Steps");
    }
    let is_repeat = |step: &StepSummary| report.part::<Prediction>().is_some() && plain_name(&step.name) != step.name;
    for step in report.summary.steps.iter().filter(|step| !is_repeat(step)) {
        let mut label = step.name.as_str();
        if !is_table || label.chars().count() >= LABEL {
            page.hang(0, label, BOLD, label.chars().count(), "");
            label = "";
        }
        for stream in &step.streams {
            if is_table {
                let cells: Vec<_> = columns.iter().map(|column| column.cell(stream)).collect();
                // The only name that leaves no room for a number.
                let name = if stream.class == OpClass::Transaction { "txn" } else { stream.class.name() };
                two_lines(page, label, &format!("{name} {}", count(stream.ios)), &cells);
                if let (Some(p50), Some(p99)) = (stream.sync_p50_ns, stream.sync_p99_ns) {
                    let rates = columns.iter().filter(|column| column.is_rate()).count();
                    let mut cells = vec![(String::new(), String::new()); rates];
                    cells.extend([cell(Unit::Ns, &p50), cell(Unit::Ns, &p99)]);
                    two_lines(page, " its sync", "", &cells);
                }
            } else {
                list(page, &columns, stream);
            }
            label = "";
        }
        let load = words::load(step);
        if !load.is_empty() {
            page.hang(1, "load", DIM, LABEL, &load);
        }
        let errors = words::errors(report, step);
        if !errors.is_empty() {
            page.hang(1, "ERRORS", BAD, LABEL, &errors);
        }
        let after = format!("after {}", format_span_ns(step.runtime_ns));
        match step.ended {
            Ended::Failed | Ended::Interrupted => page.hang(1, words::ended(step.ended), BAD, LABEL, &after),
            Ended::Time => {
                if let Some(all) = size_to_reach(report, &step.name) {
                    page.hang(1, words::ended(step.ended), DIM, LABEL, &format!("{after}, before all {all} were done"));
                }
            }
            Ended::Precise | Ended::Done => {}
        }
    }
    for text in words::not_run(report) {
        page.hang(0, "not run: ", BOLD, 9, &text);
    }
    if report.summary.steps.iter().any(is_repeat) {
        page.prose(
            2,
            "The commits were measured again after each program (steps -r2 and so on; --format markdown or json shows \
             them).",
        );
    }
    legend(page, "Below a step's name: its operations and how many there were.");
}

/// Returns the bytes that a step was to move in total; `None` when it has no such limit.
fn size_to_reach(report: &Report, name: &str) -> Option<Bytes> {
    let plan = report.record.plan.steps.iter().find(|step| step.name == name)?;
    match &plan.work {
        Work::Io(io) if io.io_size.0 > 0 => Some(io.io_size),
        _ => None,
    }
}

/// Formats a count for a narrow column: `99,999`, then `115k`, `1.2M`.
fn count(n: u64) -> String {
    if n < 100_000 { words::thousands(n) } else { qd1_model::units::format_count(n as f64) }
}

fn two_lines(page: &mut Page, label: &str, below: &str, cells: &[(String, String)]) {
    let indented = LABEL - 1;
    let figures: String = cells.iter().map(|(figure, _)| format!("{figure:CELL$}")).collect();
    let intervals: String = cells.iter().map(|(_, interval)| format!("{interval:CELL$}")).collect();
    let name = page.paint(BOLD, label);
    let gap = LABEL.saturating_sub(label.chars().count());
    page.line(&format!("{name}{:gap$}{figures}", ""));
    let below = page.paint(DIM, format!("{below:indented$}{intervals}").trim_end());
    page.line(&format!(" {below}"));
}

/// Returns the list for `qd1 suites`: title, longest duration (without flags, `--quick`, `--full`) and source of each.
pub fn suites(rows: &[(&Suite, [u64; 3])], style: &Style) -> String {
    let mut page = Page::new(style);
    let column = rows.iter().map(|(suite, _)| suite.name.len()).max().unwrap_or(0) + 2;
    for (suite, [default_ns, quick_ns, full_ns]) in rows {
        page.hang(0, &suite.name, BOLD, column, &suite.title);
        let [default, quick, full] = [default_ns, quick_ns, full_ns].map(|ns| format_span_ns(*ns));
        let steps = words::steps(suite.job.iter().filter(|job| job.runs_at(Effort::Default)).count());
        page.prose(column, &format!("{steps}; at most {default}, --quick {quick}, --full {full}"));
        if !suite.source.is_empty() {
            page.prose(column, &format!("source: {}", suite.source));
        }
    }
    page.line("");
    page.line("Run one:       qd1 run NAME PATH");
    page.line("Make your own: qd1 suites NAME > mine.toml; qd1 run mine.toml PATH");
    page.text
}

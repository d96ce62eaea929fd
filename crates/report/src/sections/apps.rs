//! A real program's run as text: its rate and its latency as seen by its users, then the figures that it reports
//! itself.

use qd1_model::FindingId;
use qd1_model::app::{AppCheck, AppLoad, AppSummary, BucketQuantile};
use qd1_model::metric::Unit;
use qd1_model::order::Order as _;
use qd1_model::record::program::{AppUnit, Counter};
use qd1_model::units::{format_count, format_ns, format_rate, format_span_ns};
use qd1_model::{Bytes, Finding, Report, StepSummary};

use crate::page::{BAD, BOLD, DIM, Page};
use crate::section::{Lines, Section};
use crate::sections::{check, criteria};
use crate::table::{CELL, Column, columns, compact, escaped, legend, list};
use crate::words;

/// Width of the first column.
const LABEL: usize = 15;
/// Column of a labelled line's text.
const TEXT: usize = 12;

/// A run of a real program.
pub(crate) struct Program<'a> {
    pub(crate) report: &'a Report,
    pub(crate) summary: &'a AppSummary,
}

impl Section for Program<'_> {
    fn answer(&self) -> String {
        sentence(self.report)
    }

    fn brief(&self, page: &mut Page) {
        brief(page, self.report);
    }

    fn human(&self, page: &mut Page) {
        section(page, self.report);
    }

    fn markdown(&self, text: &mut String) {
        check::steps_markdown(text, self.report);
        for line in lines(self.report) {
            *text += &format!("- {}\n", escaped(&line));
        }
        text.push('\n');
    }

    fn lines(&self, lines: &mut Lines<'_>) {
        lines.all("program_load", &self.summary.loads);
    }
}

/// Returns the run in a sentence: each load's rate, or the program's own result.
fn sentence(report: &Report) -> String {
    let app = report.record.app.as_ref();
    let title = app.map_or_else(String::new, |app| format!("{} {}", app.program.title(), app.version));
    let parts: Vec<String> = report.summary.steps.iter().filter_map(|step| rate(report, step)).collect();
    if parts.is_empty() {
        return format!("{}: nothing was measured.", title.trim());
    }
    format!("{}: {}.", title.trim(), parts.join("; "))
}

fn rate(report: &Report, step: &StepSummary) -> Option<String> {
    let is_behind = |finding: &&Finding| {
        finding.id == FindingId::BehindItsRate && (finding.step == step.name || finding.also_in.contains(&step.name))
    };
    if report.findings.iter().any(|finding| is_behind(&finding)) {
        let answered = step.streams.first().map(|stream| words::figure(Unit::PerSecond, &stream.iops));
        let answered = answered.map_or_else(|| "none answered".to_owned(), |rate| format!("{rate} answered"));
        return Some(format!("did not keep up ({}): {answered}", step.name));
    }
    if let Some(stream) = step.streams.first() {
        let rate = words::figure(Unit::PerSecond, &stream.iops);
        let tail = [("p99", stream.lat_p99_ns), ("p50", stream.lat_p50_ns)];
        let tail = tail.iter().find_map(|(name, figure)| Some(format!(", {name} {}", Unit::Ns.format(figure.value?))));
        let class = words::plural(stream.class);
        return Some(format!("{rate} {class}{} ({})", tail.unwrap_or_default(), step.name));
    }
    let load = load_of(report, &step.name)?;
    if !load.checks.iter().any(|check| check.name == "throughput") && !load.checks.is_empty() {
        return Some(format!("{} was not finished", step.name));
    }
    if !load.checks.is_empty() {
        let failed: Vec<&str> =
            load.checks.iter().filter(|c| c.grade.name() == "fail").map(|c| title(&c.name)).collect();
        let word = if failed.is_empty() { "passes".to_owned() } else { format!("FAILS ({})", failed.join(", ")) };
        return Some(format!("{} {word}", step.name));
    }
    let reported = &report.record.step(&step.name)?.app.as_ref()?.reported;
    let rates = reported.iter().filter(|figure| figure.unit == AppUnit::PerSecond && figure.value > 0.0);
    let rates: Vec<String> = rates.map(figure).collect();
    (!rates.is_empty()).then(|| format!("{}: {}", step.name, rates.join(", ")))
}

fn load_of<'a>(report: &'a Report, step: &str) -> Option<&'a AppLoad> {
    report.part::<AppSummary>()?.loads.iter().find(|load| load.step == step)
}

/// Writes a line for each load, and one for each of the program's own rules.
fn brief(page: &mut Page, report: &Report) {
    let timed = report.summary.steps.iter().flat_map(|step| step.streams.iter().map(move |stream| (step, stream)));
    let rows: Vec<Vec<String>> = timed
        .map(|(step, stream)| {
            let per_second = words::figure(Unit::PerSecond, &stream.iops);
            let [p50, p99] = [stream.lat_p50_ns, stream.lat_p99_ns].map(|figure| words::figure(Unit::Ns, &figure));
            vec![step.name.clone(), per_second, p50, p99]
        })
        .collect();
    if !rows.is_empty() {
        compact(page, &["load", "per second", "p50 [95 %]", "p99 [95 %]"], &rows);
    }
    for load in report.part::<AppSummary>().into_iter().flat_map(|app| &app.loads) {
        for check in &load.checks {
            let label = check.grade.name().to_uppercase();
            page.hang(2, &label, criteria::paint(check.grade), 16, &checked(&load.step, check));
        }
    }
    if rows.is_empty() {
        for (step, (label, text)) in
            report.summary.steps.iter().flat_map(|step| parts(report, &step.name).map(move |part| (step, part)))
        {
            page.hang(2, &step.name, BOLD, 4, "");
            page.hang(4, label, DIM, 14, &text);
        }
    }
}

/// Writes the section of the human report: all loads.
fn section(page: &mut Page, report: &Report) {
    checks(page, report);
    table(page, report);
    for step in &report.summary.steps {
        load_details(page, report, step);
    }
    for text in words::not_run(report) {
        page.hang(0, "not run: ", BOLD, 9, &text);
    }
    let Some(app) = &report.record.app else { return };
    page.heading("How it was set up");
    let settings: Vec<String> = app.settings.iter().map(|s| format!("{}={}", s.name, s.value)).collect();
    page.prose(2, &settings.join(", "));
    if app.prepare_ns > 0 {
        page.prose(2, &format!("data created and program started in {}", format_span_ns(app.prepare_ns)));
    }
}

/// Writes the results of the program's own rules.
fn checks(page: &mut Page, report: &Report) {
    let loads: Vec<&AppLoad> =
        report.part::<AppSummary>().into_iter().flat_map(|app| &app.loads).filter(|l| !l.checks.is_empty()).collect();
    if loads.is_empty() {
        return;
    }
    page.heading("By its own rules");
    for load in loads {
        for check in &load.checks {
            let label = check.grade.name().to_uppercase();
            page.hang(2, &label, criteria::paint(check.grade), 16, &checked(&load.step, check));
        }
    }
}

/// Returns a check in words: `s: slowest request 87.5 ms; at most 500 ms (etcdctl check perf)`.
fn checked(step: &str, check: &AppCheck) -> String {
    let format = |value: f64| worded(check.unit, value);
    let value = match (check.value, check.low, check.high) {
        (Some(value), ..) => format(value),
        (None, Some(low), Some(high)) => format!("between {} and {}", format(low), format(high)),
        (None, None, Some(high)) => format!("at most {}", format(high)),
        (None, Some(low), None) => format!("above {}", format(low)),
        (None, None, None) => "not known".to_owned(),
    };
    let relation = if check.at_least { "the rule: more than" } else { "the rule: at most" };
    format!("{step}: {} {value}; {relation} {} ({})", title(&check.name), format(check.bound), check.source)
}

fn title(name: &str) -> &str {
    match name {
        "slowest" => "slowest request",
        "stddev" => "standard deviation",
        "wal_fsync_p99" => "p99 of the log's fsync",
        other => other,
    }
}

/// Writes the table of the operations that qd1 timed.
fn table(page: &mut Page, report: &Report) {
    if report.summary.steps.iter().all(|step| step.streams.is_empty()) {
        return;
    }
    let is_bytes = |column: &Column| {
        matches!(column, Column::Binary) || matches!(column, Column::Metric(m) if m.unit == Unit::BytesPerSecond)
    };
    // Users of a database count its operations, not its bytes; so rates of operations come first.
    let mut columns: Vec<Column> = columns(page.style.width).into_iter().filter(|column| !is_bytes(column)).collect();
    columns.order_by_key(|column| !matches!(column, Column::Metric(metric) if metric.unit == Unit::PerSecond));
    let is_table = page.style.width >= LABEL + CELL * columns.len();
    if is_table {
        let titles: String = columns.iter().map(|column| format!("{:CELL$}", column.title())).collect();
        let heading = page.paint(BOLD, &format!("{:LABEL$}{}", "Loads", titles.trim_end()));
        page.line("");
        page.line(&heading);
    } else {
        page.heading("Loads");
    }
    for step in &report.summary.steps {
        if !is_table || step.name.chars().count() >= LABEL {
            page.hang(0, &step.name, BOLD, step.name.chars().count(), "");
        }
        for stream in &step.streams {
            if is_table {
                let cells: Vec<_> = columns.iter().map(|column| column.cell(stream)).collect();
                let label = if step.name.chars().count() < LABEL { step.name.as_str() } else { "" };
                rows(page, label, &format!("n={}", words::thousands(stream.ios)), &cells);
            } else {
                list(page, &columns, stream);
            }
        }
        let errors = words::errors(report, step);
        if !errors.is_empty() {
            page.hang(2, "ERRORS", BAD, TEXT, &errors);
        }
    }
    legend(page, "");
}

fn rows(page: &mut Page, label: &str, below: &str, cells: &[(String, String)]) {
    let figures: String = cells.iter().map(|(figure, _)| format!("{figure:CELL$}")).collect();
    let intervals: String = cells.iter().map(|(_, interval)| format!("{interval:CELL$}")).collect();
    let name = page.paint(BOLD, label);
    let gap = LABEL.saturating_sub(label.chars().count());
    page.line(&format!("{name}{:gap$}{figures}", ""));
    let indented = LABEL - 1;
    let below = page.paint(DIM, format!("{below:indented$}{intervals}").trim_end());
    page.line(&format!(" {below}"));
}

/// Returns a load's figures without intervals, for tables of data: those counted, and those that the program reports.
pub(crate) fn figures<'a>(report: &'a Report, step: &str) -> impl Iterator<Item = (&'static str, &'a Counter)> {
    let facts = load_of(report, step).into_iter().flat_map(|load| &load.facts).map(|figure| ("counted", figure));
    let app = report.record.step(step).and_then(|record| record.app.as_ref());
    facts.chain(app.into_iter().flat_map(|app| &app.reported).map(|figure| ("reported", figure)))
}

/// Returns a unit's short name in tables of data.
pub(crate) const fn unit(unit: AppUnit) -> &'static str {
    match unit {
        AppUnit::Count => "1",
        AppUnit::PerSecond => "1/s",
        AppUnit::Ns => "ns",
        AppUnit::Bytes => "B",
        AppUnit::BytesPerSecond => "B/s",
        AppUnit::PerOperation => "1/op",
        AppUnit::BytesPerOperation => "B/op",
    }
}

/// Returns the results of rules, program and kernel for each load, a line each, for formats other than the terminal's.
fn lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for load in report.part::<AppSummary>().into_iter().flat_map(|app| &app.loads) {
        lines.extend(
            load.checks.iter().map(|c| format!("{}: {}", c.grade.name().to_uppercase(), checked(&load.step, c))),
        );
        lines.extend(parts(report, &load.step).map(|(label, text)| format!("{} {label}: {text}", load.step)));
    }
    lines
}

/// Returns what program and kernel counted in a load, and what the program prints itself, each with its label.
fn parts(report: &Report, step: &str) -> impl Iterator<Item = (&'static str, String)> {
    let load = load_of(report, step);
    let facts: Vec<String> = load.iter().flat_map(|load| &load.facts).map(fact).collect();
    let quantiles: Vec<String> = load.iter().flat_map(|load| &load.quantiles).map(quantile).collect();
    let plain = |figure: &&Counter| !figure.name.ends_with("_passed");
    let app = report.record.step(step).and_then(|record| record.app.as_ref());
    let reported: Vec<String> = app.iter().flat_map(|app| &app.reported).filter(plain).map(figure).collect();
    let labelled = [
        ("counted", facts, ""),
        ("buckets", quantiles, " (only the bucket is known)"),
        ("reported", reported, " (the program's own figures, without intervals)"),
    ];
    labelled
        .into_iter()
        .filter(|(_, parts, _)| !parts.is_empty())
        .map(|(label, parts, also)| (label, parts.join("; ") + also))
}

/// Writes those counts and figures under a heading for the load, and why the load failed if it did.
fn load_details(page: &mut Page, report: &Report, step: &StepSummary) {
    let mut parts = parts(report, &step.name).peekable();
    if parts.peek().is_some() {
        page.heading(&format!("{}: {}", step.name, step.title));
    }
    for (label, text) in parts {
        page.hang(2, label, DIM, TEXT, &text);
    }
    if let Some(record) = report.record.step(&step.name).filter(|record| !record.fault.is_empty()) {
        page.hang(0, &format!("{}: ", step.name), BAD, TEXT, &format!("FAILED: {}", record.fault));
    }
}

/// Returns a counter in words.
fn fact(counter: &Counter) -> String {
    let value = worded(counter.unit, counter.value);
    match counter.name.as_str() {
        "wal_syncs" => format!("{value} log syncs"),
        "wal_sync_mean" => format!("{value} each"),
        "wal_syncs_per_operation" => format!("{value} per operation"),
        "wal_bytes_per_operation" => format!("{value} of log per operation"),
        "disk_bytes_written_per_operation" => format!("{value} written to the disk per operation"),
        "disk_flushes_per_operation" => format!("{value} flushes per operation"),
        "checkpoints_timed" => format!("{value} timed checkpoints"),
        "checkpoints_requested" => format!("{value} requested"),
        "leader_changes" => format!("{value} leader changes"),
        "slow_requests" => format!("{value} requests that it reports as slow"),
        "slow_syncs" => format!("{value} syncs that it reports as slow"),
        other => format!("{other} {value}"),
    }
}

fn quantile(quantile: &BucketQuantile) -> String {
    let at = format!("p{}", quantile.q * 100.0);
    let format = |ns: u64| format_ns(ns as f64);
    let between = match (quantile.above_ns, quantile.at_most_ns) {
        (Some(low), Some(high)) => format!("between {} and {}", format(low), format(high)),
        (None, Some(high)) => format!("at most {}", format(high)),
        (Some(low), None) => format!("above {}", format(low)),
        (None, None) => "not resolved".to_owned(),
    };
    let name = quantile.name.trim_start_matches("etcd_disk_").trim_end_matches("_duration_seconds");
    format!("{name} {at} {between}, n={}", words::thousands(quantile.n))
}

/// Returns a reported figure in words: `operations 6,200/s`.
fn figure(counter: &Counter) -> String {
    let name = match counter.name.as_str() {
        "asked_writes_per_second" => "writes requested",
        "writes_per_second" => "writes",
        other => other,
    };
    format!("{name} {}", worded(counter.unit, counter.value))
}

fn worded(unit: AppUnit, value: f64) -> String {
    match unit {
        AppUnit::Count => words::thousands(value.round() as u64),
        AppUnit::PerSecond if value >= 100.0 => format!("{}/s", words::thousands(value.round() as u64)),
        AppUnit::PerSecond => format!("{}/s", format_count(value)),
        AppUnit::Ns => format_ns(value),
        AppUnit::Bytes | AppUnit::BytesPerOperation => Bytes(value.round() as u64).to_string(),
        AppUnit::BytesPerSecond => format_rate(value),
        AppUnit::PerOperation => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use qd1_model::app::AppSummary;
    use qd1_model::part::Part;
    use qd1_model::plan::program::Program;
    use qd1_model::record::program::{AppStep, Setting};
    use qd1_model::verdict::Grade;

    use super::*;
    use crate::formats::Format;
    use crate::page::Style;
    use crate::render;
    use crate::samples as sample;
    use qd1_model::record::program::AppRecord;

    fn report() -> Report {
        let mut report = sample::fast_nvme();
        let name = report.record.steps[0].name.clone();
        // etcdctl times its requests itself.
        report.summary.steps.truncate(1);
        report.summary.steps[0].streams.clear();
        report.record.steps.truncate(1);
        report.record.plan.steps.truncate(1);
        let counter = |name: &str, unit, value| Counter::new(name, unit, value);
        report.record.plan.suite = "app-etcd".to_owned();
        report.record.plan.subject = qd1_model::Subject::Program;
        report.verdicts.clear();
        report.impressions.clear();
        report.durability = None;
        report.record.app = Some(AppRecord {
            program: Program::Etcd,
            version: "3.4.23".to_owned(),
            settings: vec![Setting { name: "listen".to_owned(), value: "127.0.0.1 alone".to_owned() }],
            prepare_ns: 1_000_000_000,
        });
        report.record.steps[0].app = Some(AppStep {
            reported: vec![
                counter("writes_per_second", AppUnit::PerSecond, 150.0),
                counter("throughput_passed", AppUnit::Count, 1.0),
            ],
            ..AppStep::default()
        });
        let check = |name: &str, value, grade| AppCheck {
            name: name.to_owned(),
            unit: AppUnit::Ns,
            value,
            low: Some(8e6),
            high: Some(16e6),
            bound: 10e6,
            at_least: false,
            grade,
            source: "etcd docs and runbook".to_owned(),
        };
        let throughput =
            AppCheck { unit: AppUnit::PerSecond, at_least: true, ..check("throughput", Some(150.0), Grade::Pass) };
        report.parts.push(Part::App(AppSummary {
            loads: vec![AppLoad {
                step: name,
                facts: vec![counter("slow_requests", AppUnit::Count, 3.0)],
                quantiles: vec![BucketQuantile {
                    name: "etcd_disk_wal_fsync_duration_seconds".to_owned(),
                    q: 0.99,
                    above_ns: Some(8_000_000),
                    at_most_ns: Some(16_000_000),
                    n: 9_000,
                }],
                checks: vec![
                    throughput,
                    check("slowest", Some(612e6), Grade::Fail),
                    check("wal_fsync_p99", None, Grade::NotResolved),
                ],
            }],
        }));
        report
    }

    #[test]
    fn rules_and_buckets_show_their_bounds_at_every_width() {
        for width in [40, 60, 80, 120] {
            let text = render(&report(), Format::Human, &Style::plain(width));
            let body = text.split("\nRun it again").next().unwrap();
            assert!(body.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        }
        let text = render(&report(), Format::Human, &Style::plain(80));
        for part in [
            "FAILS (slowest request)",
            "between 8.00 ms and 16.0 ms; the rule: at most 10.0 ms",
            "wal_fsync p99 between 8.00 ms and 16.0 ms, n=9,000",
            "3 requests that it reports as slow",
            "writes 150/s",
        ] {
            assert!(
                text.replace("\n", " ").split_whitespace().collect::<Vec<_>>().join(" ").contains(part),
                "{part}: {text}"
            );
        }
        assert!(!text.contains("_passed"), "{text}");
    }

    #[test]
    fn figures_without_intervals_are_in_the_tables_too() {
        let style = Style::plain(80);
        let csv = render(&report(), Format::Csv, &style);
        assert!(csv.lines().any(|line| line.contains("reported,writes_per_second,1/s,150,,")), "{csv}");
        let columns = csv.lines().next().unwrap().matches(',').count();
        assert!(csv.lines().filter(|line| line.contains("reported")).all(|line| line.matches(',').count() == columns));
        let markdown = render(&report(), Format::Markdown, &style);
        assert!(markdown.contains("- FAIL: ") && markdown.contains("reported: writes 150/s"), "{markdown}");
    }
}

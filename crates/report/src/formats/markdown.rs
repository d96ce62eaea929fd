//! The report for an issue or a forum post: the same content as the human one, as GitHub-flavoured tables.

use qd1_model::metric::{METRICS, Metric, Unit};
use qd1_model::units::format_span_ns;
use qd1_model::{Estimate, Grade, Report, StreamSummary};

use crate::headline;
use crate::machine;
use crate::reasons::Reasons;
use crate::sections;
use crate::sections::apps;
use crate::sections::criteria;
use crate::sections::identity;
use crate::sections::limits;
use crate::sections::meta;
use crate::sections::over;
use crate::sections::prediction;
use crate::sections::reference;
use crate::sections::sweep;
use crate::sections::sync;
use crate::sections::tail;
use crate::table::escaped;
use crate::words;

/// Metrics that get a column; the commit's sync part gets a row of its own, and the rest is in the JSON.
const COLUMNS: &[&str] = &["lat_p50_ns", "lat_p99_ns", "lat_p999_ns", "iops", "bytes_per_second"];

/// Returns the whole report.
pub(crate) fn render(report: &Report) -> String {
    let headline = headline::headline(report);
    let sentences: String = headline.iter().map(|sentence| format!("**{}**\n\n", escaped(sentence))).collect();
    let among = reference::sentence(report).map_or_else(String::new, |among| format!("{}\n\n", escaped(&among)));
    sentences + &verdicts_and(report, &among)
}

/// Returns the report without what the first screen of a page has.
pub(crate) fn body(report: &Report) -> String {
    verdicts_and(report, "")
}

fn verdicts_and(report: &Report, among: &str) -> String {
    let mut text = String::new();
    verdicts(&mut text, report);
    if let Some(over) = &report.over {
        over::markdown(&mut text, over);
    }
    suite_criteria(&mut text, report);
    if identity::is_identify(report) {
        identity::markdown(&mut text, report);
    }
    if let Some(prediction) = &report.prediction {
        prediction::markdown(&mut text, report, prediction);
    }
    text += among;
    if words::is_check(report) {
        headline_figures(&mut text, report);
    }
    if let Some(limits) = &report.limits {
        limits::markdown(&mut text, limits);
    }
    match (&report.sweep, &report.sync, &report.meta) {
        (Some(surface), ..) => sweep::markdown(&mut text, report, surface),
        (None, Some(table), _) => sync::markdown(&mut text, report, table),
        (None, None, Some(table)) if report.criteria.is_empty() => meta::markdown(&mut text, table),
        _ => {
            steps(&mut text, report);
            tail::markdown(&mut text, report);
        }
    }
    for line in apps::lines(report) {
        text += &format!("- {}\n", escaped(&line));
    }
    if report.record.app.is_some() {
        text.push('\n');
    }
    findings(&mut text, report);
    text += "### Where and how\n\n| | |\n|---|---|\n";
    for (label, fact) in machine::lines(report) {
        text += &format!("| {label} | {} |\n", escaped(&fact));
    }
    text += &format!("\n### Run it again\n\n```sh\n{}\n```\n", machine::command_again(&report.record));
    text
}

fn verdicts(text: &mut String, report: &Report) {
    if report.verdicts.is_empty() {
        return;
    }
    *text += "### Verdict\n\n| for | grade | because | threshold | source |\n|---|---|---|---|---|\n";
    let mut reasons = Reasons::default();
    for verdict in &report.verdicts {
        let mut title = escaped(&verdict.title);
        let mut grade = graded(verdict.grade);
        for judged in words::deciding(verdict) {
            let (figure, limits) = (escaped(&reasons.judged(judged)), words::limits(&judged.criterion));
            *text += &format!("| {title} | {grade} | {figure} | {limits} | {} |\n", escaped(&judged.criterion.source));
            // Further criteria of the same class are listed below the first.
            (title, grade) = (String::new(), String::new());
        }
        let others = escaped(&words::others(verdict));
        if !others.is_empty() {
            *text += &format!("| {title} | {grade} | {others} | | |\n");
        }
    }
    text.push('\n');
    let speaks_for = over::speaks_for(report);
    if !speaks_for.is_empty() {
        *text += &format!("{}\n\n", escaped(&speaks_for));
    }
}

fn suite_criteria(text: &mut String, report: &Report) {
    if report.criteria.is_empty() {
        return;
    }
    *text += "### Criteria\n\n| grade | figure | bound | for | source |\n|---|---|---|---|---|\n";
    let mut reasons = Reasons::default();
    for group in criteria::groups(report) {
        for judged in &group.judged {
            let (label, source) = (escaped(&group.shared.label), escaped(&group.shared.source));
            let (figure, bound) = (escaped(&reasons.judged(judged)), escaped(&criteria::bound(group.shared)));
            *text += &format!("| {} | {figure} | {bound} | {label} | {source} |\n", graded(judged.grade));
        }
    }
    text.push('\n');
}

fn graded(grade: Grade) -> String {
    format!("**{}**", grade.name())
}

fn headline_figures(text: &mut String, report: &Report) {
    let figures = headline::headline_figures(report);
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

fn steps(text: &mut String, report: &Report) {
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
            let cells: String = columns.iter().map(|metric| format!(" {} |", cell(metric, stream))).collect();
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

fn cell(metric: &Metric, stream: &StreamSummary) -> String {
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

fn findings(text: &mut String, report: &Report) {
    *text += "### Findings\n\n";
    if report.findings.is_empty() {
        *text += "None.\n";
    }
    for finding in &report.findings {
        let (severity, sure) = (words::severity(finding.severity), escaped(&words::certainty(finding)));
        let (title, evidence) = (escaped(&sections::sentence(&finding.title)), escaped(&finding.evidence));
        *text += &format!("- **{severity}**: {title} {evidence} ({sure})\n");
        if !finding.advice.is_empty() {
            *text += &format!("  - {}\n", escaped(&finding.advice));
        }
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;

    #[test]
    fn every_row_of_a_table_has_as_many_cells_as_its_heading() {
        let text = render(&sample::slow_vps()) + &render(&sample::suite()) + &render(&sample::over_a_day());
        let mut columns = None;
        for line in text.lines() {
            let bars = line.replace("\\|", "").matches('|').count();
            columns = if bars == 0 { None } else { Some(*columns.get_or_insert(bars)) };
            assert_eq!(columns.unwrap_or(0), bars, "{line}");
        }
    }

    #[test]
    fn a_path_or_model_cannot_break_the_table() {
        assert_eq!(escaped("a|b <path> x_y"), "a\\|b \\<path\\> x\\_y");
    }

    #[test]
    fn markdown_snapshot() {
        insta::assert_snapshot!(render(&sample::slow_vps()));
    }

    #[test]
    fn markdown_of_a_suite_snapshot() {
        insta::assert_snapshot!(render(&sample::suite()));
    }

    #[test]
    fn markdown_of_an_interrupted_run_snapshot() {
        insta::assert_snapshot!(render(&sample::interrupted()));
    }
}

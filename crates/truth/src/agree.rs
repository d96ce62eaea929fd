//! Do checks of one disk agree? From reports of consecutive runs: how often their intervals contain the figure of all
//! of them together, how often the intervals of two runs overlap, and how often two runs give the same verdict.

use std::fmt::Write as _;
use std::path::Path;

use qd1_analysis::summarize;
use qd1_model::op::OpClass;
use qd1_model::{Estimate, Grade, Hist, Report};

/// Reads the reports and returns the table.
///
/// # Errors
/// When one cannot be read; the message names it.
pub fn table<P: AsRef<Path>>(files: &[P]) -> Result<String, String> {
    let read = |file: &P| {
        let name = file.as_ref().display();
        let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
        serde_json::from_str::<Report>(&text).map_err(|error| format!("{name}: {error}"))
    };
    let reports = files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(of_reports(&reports))
}

/// One figure of one kind of operation of one step, in every run.
struct Figure {
    name: String,
    pooled: f64,
    estimates: Vec<Estimate>,
}

/// Returns the table of some reports.
#[must_use]
pub fn of_reports(reports: &[Report]) -> String {
    let mut text = format!("agree: {} runs\n", reports.len());
    let (mut held, mut printed, mut overlap, mut pairs) = (0, 0, 0, 0);
    let _ =
        writeln!(text, "  {:<28}{:>12}{:>10}{:>10}{:>12}{:>22}", "", "all runs", "printed", "held", "pairs", "values");
    for figure in figures(reports) {
        let ends: Vec<(f64, f64)> =
            figure.estimates.iter().filter(|one| one.is_resolved()).filter_map(|one| one.low.zip(one.high)).collect();
        let holds = ends.iter().filter(|(low, high)| (*low..=*high).contains(&figure.pooled)).count();
        let of_pairs = (0..ends.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        let meets = |(a, b): &(usize, usize)| ends[*a].0 <= ends[*b].1 && ends[*b].0 <= ends[*a].1;
        let (all, met) = (of_pairs.clone().count(), of_pairs.filter(meets).count());
        let mut values: Vec<f64> = figure.estimates.iter().filter_map(|one| one.value).collect();
        values.sort_by(f64::total_cmp);
        let span = match values.as_slice() {
            [first, .., last] => format!("{} to {}", short(*first), short(*last)),
            _ => "-".to_owned(),
        };
        let _ = writeln!(
            text,
            "  {:<28}{:>12}{:>10}{:>10}{:>12}{span:>22}",
            figure.name,
            short(figure.pooled),
            format!("{} of {}", ends.len(), figure.estimates.len()),
            holds,
            format!("{met} of {all}")
        );
        (held, printed, overlap, pairs) = (held + holds, printed + ends.len(), overlap + met, pairs + all);
    }
    let percent = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
    let _ = writeln!(
        text,
        "  {:.1} % of {printed} intervals hold the figure of all runs (target 90 %), {:.1} % of {pairs} pairs overlap (95 %)",
        percent(held, printed),
        percent(overlap, pairs)
    );
    verdicts(&mut text, reports);
    text
}

fn verdicts(text: &mut String, reports: &[Report]) {
    let (mut same, mut beside, mut pairs) = (0, 0, 0);
    let Some(first) = reports.first() else { return };
    for (at, verdict) in first.verdicts.iter().enumerate() {
        let grades: Vec<Grade> = reports.iter().filter_map(|report| Some(report.verdicts.get(at)?.grade)).collect();
        let names: Vec<&str> = grades.iter().map(|grade| grade.name()).collect();
        let _ = writeln!(text, "  {:<32}{}", verdict.title, names.join(", "));
        for (a, one) in grades.iter().enumerate() {
            for other in &grades[..a] {
                pairs += 1;
                same += usize::from(one == other);
                let is_contradiction = matches!((one, other), (Grade::Pass, Grade::Fail) | (Grade::Fail, Grade::Pass));
                beside += usize::from(!is_contradiction);
            }
        }
    }
    let percent = |part: usize| 100.0 * f64::from(part as u32) / f64::from(pairs.max(1));
    let _ = writeln!(
        text,
        "  verdicts of {pairs} pairs: {:.1} % equal, {:.1} % equal or one MARGINAL or NOT RESOLVED (target 95 %)",
        percent(same),
        percent(beside)
    );
}

/// The figures of all steps with visits, computed by the current analysis.
fn figures(reports: &[Report]) -> Vec<Figure> {
    let Some(first) = reports.first() else { return Vec::new() };
    let summaries: Vec<_> = reports.iter().map(|report| summarize(&report.record)).collect();
    let mut all = Vec::new();
    for planned in first.record.plan.steps.iter().filter(|planned| planned.visits > 1) {
        for class in OpClass::ALL {
            let streams = reports.iter().filter_map(|report| report.record.step(&planned.name)?.stream(class));
            let mut lat = Hist::new();
            streams.for_each(|stream| lat.merge(&stream.lat));
            if lat.count() == 0 {
                continue;
            }
            let seconds: f64 = reports
                .iter()
                .filter_map(|report| report.record.step(&planned.name))
                .map(|step| step.runtime_ns as f64 / 1e9)
                .sum();
            let of = |get: fn(&qd1_model::StreamSummary) -> Estimate| {
                summaries.iter().filter_map(|summary| summary.stream(&planned.name, class).map(get)).collect::<Vec<_>>()
            };
            let mut add = |title: &str, pooled: f64, estimates: Vec<Estimate>| {
                all.push(Figure { name: format!("{} {} {title}", planned.name, class.name()), pooled, estimates });
            };
            add("p50", lat.quantile(0.5) as f64, of(|stream| stream.lat_p50_ns));
            add("p99", lat.quantile(0.99) as f64, of(|stream| stream.lat_p99_ns));
            add("p99.9", lat.quantile(0.999) as f64, of(|stream| stream.lat_p999_ns));
            add("mean", lat.mean_ns(), of(|stream| stream.lat_mean_ns));
            if !planned.is_open() {
                add("rate", lat.count() as f64 / seconds, of(|stream| stream.iops));
            }
        }
    }
    all
}

/// Three digits, in thousands or millions if needed.
fn short(value: f64) -> String {
    match value {
        value if value < 1e3 => format!("{value:.0}"),
        value if value < 1e6 => format!("{:.1}k", value / 1e3),
        value => format!("{:.2}M", value / 1e6),
    }
}

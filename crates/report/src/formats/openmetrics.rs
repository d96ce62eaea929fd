//! OpenMetrics 1.0 that is also Prometheus' text format, which node_exporter's textfile collector reads: that format has no
//! info and no stateset, so both are gauges here.
//!
//! Latencies are a summary (the percentiles that are resolved), their intervals a gauge, and the distribution a histogram
//! of fixed buckets, so that those of many machines can be added. Values describe the run, not the present.

use std::fmt::Write as _;

use qd1_model::metric::{Metric, Unit, metric};
use qd1_model::record::Stream;
use qd1_model::verdict::Grade;
use qd1_model::{Estimate, Report, Severity, StepSummary, StreamSummary};

/// Percentiles of the summary.
const QUANTILES: [(&str, &str); 4] =
    [("lat_p50_ns", "0.5"), ("lat_p99_ns", "0.99"), ("lat_p999_ns", "0.999"), ("lat_p9999_ns", "0.9999")];
/// Other figures: metric, names of its family and of that of its intervals, and what it is.
const FIGURES: [(&str, &str, &str, &str); 5] = [
    ("lat_mean_ns", "qd1_latency_mean_seconds", "qd1_latency_mean_limit_seconds", "Mean latency."),
    ("iops", "qd1_operations_per_second", "qd1_operations_limit_per_second", "Operations per second."),
    ("bytes_per_second", "qd1_bytes_per_second", "qd1_bytes_limit_per_second", "Bytes per second."),
    ("stall_longest_ns", "qd1_stall_longest_seconds", "qd1_stall_longest_limit_seconds", "Longest wait seen."),
    (
        "stall_share",
        "qd1_stall_ratio",
        "qd1_stall_limit_ratio",
        "Share of the moments at which a request would wait longer than 100 ms.",
    ),
];
/// Upper ends of the histogram's buckets, ns: 1, 2, 5 from 1 us to 10 s.
const BUCKETS: [u64; 22] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];
const GRADES: [(Grade, &str); 4] =
    [(Grade::Pass, "pass"), (Grade::Marginal, "marginal"), (Grade::Fail, "fail"), (Grade::NotResolved, "not_resolved")];

/// Returns the figures of the run.
pub(crate) fn render(report: &Report) -> String {
    let mut text = Text { text: String::new(), of_run: of_run(report) };
    run(&mut text, report);
    latencies(&mut text, report);
    for (name, family, limit, help) in FIGURES {
        if let Some(metric) = metric(name) {
            figures(&mut text, report, metric, [family, limit], help);
        }
    }
    histograms(&mut text, report);
    failures(&mut text, report);
    judgements(&mut text, report);
    text.text + "# EOF\n"
}

/// The text so far, and the labels that all samples have.
struct Text {
    text: String,
    of_run: Vec<(&'static str, String)>,
}

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let unit = ["seconds"].into_iter().find(|unit| name.ends_with(&format!("_{unit}")));
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
        if let Some(unit) = unit {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {name} {help}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let of_run = self.of_run.iter().map(|(label, value)| (*label, value.as_str()));
        let labels: Vec<String> = of_run
            .chain(labels.iter().copied())
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
            .collect();
        let _ = writeln!(self.text, "{name}{{{}}} {value}", labels.join(","));
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn of_run(report: &Report) -> Vec<(&'static str, String)> {
    let plan = &report.record.plan;
    vec![("suite", plan.suite.clone()), ("path", plan.target.path.to_string_lossy().into_owned())]
}

fn run(text: &mut Text, report: &Report) {
    let record = &report.record;
    let device = record.environment.devices.first().map_or("", |device| device.name.as_str());
    text.family("qd1_run_info", "gauge", "The run that these metrics come from; always 1.");
    let labels = [
        ("run", record.id.as_str()),
        ("version", &record.version),
        ("filesystem", &record.plan.target.filesystem),
        ("device", device),
        ("kernel", &record.environment.kernel),
    ];
    text.sample("qd1_run_info", &labels, 1.0);
    text.family("qd1_run_start_timestamp_seconds", "gauge", "When the run began, since the Unix epoch.");
    text.sample("qd1_run_start_timestamp_seconds", &[], (record.started_unix_ns / 1_000_000) as f64 / 1e3);
}

/// The steps; if several have the same name, the first: no two samples may have the same labels.
fn steps(report: &Report) -> impl Iterator<Item = &StepSummary> {
    let steps = &report.summary.steps;
    let is_first = |at: usize| steps[..at].iter().all(|earlier| earlier.name != steps[at].name);
    steps.iter().enumerate().filter(move |(at, _)| is_first(*at)).map(|(_, step)| step)
}

/// Each kind of operation of each step.
fn streams(report: &Report) -> impl Iterator<Item = (&str, &StreamSummary)> {
    steps(report).flat_map(|step| step.streams.iter().map(|stream| (step.name.as_str(), stream)))
}

/// What was recorded for it.
fn recorded<'a>(report: &'a Report, step: &str, stream: &StreamSummary) -> Option<&'a Stream> {
    report.record.step(step)?.stream(stream.class).filter(|kept| kept.lat.count() > 0)
}

fn latencies(text: &mut Text, report: &Report) {
    let figure = |stream: &StreamSummary, name: &str| metric(name).and_then(|metric| (metric.get)(stream));
    text.family("qd1_latency_seconds", "summary", "Latency: from issue, or from when it was due, to completion.");
    for (step, stream) in streams(report) {
        let labels = [("step", step), ("op", stream.class.name())];
        for (name, quantile) in QUANTILES {
            if let Some(value) = figure(stream, name).and_then(|figure| figure.value) {
                let [step, op] = labels;
                text.sample("qd1_latency_seconds", &[step, op, ("quantile", quantile)], value / 1e9);
            }
        }
        if let Some(kept) = recorded(report, step, stream) {
            text.sample("qd1_latency_seconds_count", &labels, kept.lat.count() as f64);
            text.sample("qd1_latency_seconds_sum", &labels, kept.lat.sum_ns() as f64 / 1e9);
        }
    }
    text.family("qd1_latency_limit_seconds", "gauge", "Ends of the 95 % intervals of these percentiles.");
    for (step, stream) in streams(report) {
        for (name, quantile) in QUANTILES {
            let labels = [("step", step), ("op", stream.class.name()), ("q", quantile)];
            limits(text, "qd1_latency_limit_seconds", &labels, figure(stream, name), 1e9);
        }
    }
}

fn limits(text: &mut Text, family: &str, labels: &[(&str, &str)], figure: Option<Estimate>, divisor: f64) {
    let Some(figure) = figure else { return };
    for (limit, value) in [("lower", figure.low), ("upper", figure.high)] {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            text.sample(family, &[labels, &[("limit", limit)]].concat(), value / divisor);
        }
    }
}

/// A figure of all steps, and the ends of its intervals; nothing where no step has it.
fn figures(text: &mut Text, report: &Report, metric: &Metric, [family, limit]: [&str; 2], help: &str) {
    let all: Vec<(&str, &StreamSummary, Estimate)> = streams(report)
        .filter_map(|(step, stream)| Some((step, stream, (metric.get)(stream)?)))
        .filter(|(_, _, figure)| figure.value.is_some())
        .collect();
    if all.is_empty() {
        return;
    }
    let divisor = if metric.unit == Unit::Ns { 1e9 } else { 1.0 };
    text.family(family, "gauge", help);
    for (step, stream, figure) in &all {
        let value = figure.value.unwrap_or_default() / divisor;
        text.sample(family, &[("step", step), ("op", stream.class.name())], value);
    }
    text.family(limit, "gauge", "Ends of the 95 % intervals of these figures.");
    for (step, stream, figure) in &all {
        limits(text, limit, &[("step", step), ("op", stream.class.name())], Some(*figure), divisor);
    }
}

fn histograms(text: &mut Text, report: &Report) {
    text.family("qd1_latency_distribution_seconds", "histogram", "Operations by their latency.");
    for (step, stream) in streams(report) {
        let Some(kept) = recorded(report, step, stream) else { continue };
        let (step, op) = (("step", step), ("op", stream.class.name()));
        let name = "qd1_latency_distribution_seconds";
        let count = kept.lat.count();
        for end_ns in BUCKETS {
            let end = (end_ns as f64 / 1e9).to_string();
            let within = (count - kept.lat.count_above(end_ns)) as f64;
            text.sample(&format!("{name}_bucket"), &[step, op, ("le", &end)], within);
        }
        text.sample(&format!("{name}_bucket"), &[step, op, ("le", "+Inf")], count as f64);
        text.sample(&format!("{name}_count"), &[step, op], count as f64);
        text.sample(&format!("{name}_sum"), &[step, op], kept.lat.sum_ns() as f64 / 1e9);
    }
}

fn failures(text: &mut Text, report: &Report) {
    text.family("qd1_failed_requests", "gauge", "Requests that failed.");
    for step in steps(report) {
        text.sample("qd1_failed_requests", &[("step", &step.name)], step.errors as f64);
    }
}

fn judgements(text: &mut Text, report: &Report) {
    if !report.verdicts.is_empty() {
        text.family(
            "qd1_verdict",
            "gauge",
            "What the disk is good for: 1 for the grade that a class got, 0 for the other grades.",
        );
    }
    for verdict in &report.verdicts {
        for (grade, name) in GRADES {
            let is_so = f64::from(u8::from(verdict.grade == grade));
            text.sample("qd1_verdict", &[("class", &verdict.class), ("grade", name)], is_so);
        }
    }
    // A finding of several steps is several samples, but no two have the same labels.
    let mut findings: Vec<[(&str, &str); 3]> = Vec::new();
    for finding in &report.findings {
        let severity = match finding.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        };
        let labels = [("id", finding.id.name()), ("severity", severity), ("step", finding.step.as_str())];
        if !findings.contains(&labels) {
            findings.push(labels);
        }
    }
    if !findings.is_empty() {
        text.family("qd1_finding", "gauge", "A finding, by its id; always 1.");
    }
    findings.iter().for_each(|labels| text.sample("qd1_finding", labels, 1.0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;

    #[test]
    fn families_are_whole_and_the_text_ends_as_required() {
        let mut report = sample::slow_vps();
        report.summary.steps.push(report.summary.steps[0].clone());
        let text = render(&report);
        let samples: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' '))
            .map(|(labels, _)| labels)
            .collect();
        let distinct: std::collections::BTreeSet<&str> = samples.iter().copied().collect();
        assert_eq!(samples.len(), distinct.len(), "labels twice");
        assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
        let mut done: Vec<&str> = Vec::new();
        let mut family = "";
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split(' ').next().unwrap();
                assert!(!done.contains(&family), "{family} twice");
                done.push(family);
            }
            let name = line.strip_prefix("# ").map_or(line, |rest| rest.split_once(' ').unwrap().1);
            assert!(name.starts_with(family), "{line} is not of {family}");
        }
        assert!(done.contains(&"qd1_latency_seconds") && done.contains(&"qd1_verdict"));
    }

    #[test]
    fn the_buckets_of_a_histogram_hold_what_was_recorded() {
        let report = sample::slow_vps();
        let text = render(&report);
        let step =
            report.record.steps.iter().find(|step| step.streams.iter().any(|stream| stream.lat.count() > 0)).unwrap();
        let stream = &step.streams[0];
        let labels = format!("step=\"{}\",op=\"{}\"", step.name, stream.class.name());
        let value = |line_of: &str| -> f64 {
            let line = text.lines().find(|line| line.contains(line_of) && line.contains(&labels)).unwrap();
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        assert_eq!(value("distribution_seconds_count") as u64, stream.lat.count());
        assert!((value("distribution_seconds_sum") - stream.lat.sum_ns() as f64 / 1e9).abs() < 1e-6);
        let bucket = |end: &str| {
            let found =
                text.lines().find(|line| line.contains(&labels) && line.contains(&format!("le=\"{end}\""))).unwrap();
            found.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64
        };
        assert_eq!(bucket("0.001"), stream.lat.count() - stream.lat.count_above(1_000_000));
        assert!(bucket("0.000001") <= bucket("0.001") && bucket("0.001") <= bucket("+Inf"));
    }

    #[test]
    fn percentiles_are_the_tables_and_one_that_is_not_resolved_is_left_out() {
        let mut report = sample::slow_vps();
        let stream = &mut report.summary.steps[0].streams[0];
        stream.lat_p99_ns = Estimate { low: Some(2e6), ..Estimate::exact(3.25e6, 100) };
        stream.lat_p9999_ns = Estimate::default();
        let labels = format!("op=\"{}\"", stream.class.name());
        let text = render(&report);
        let of = |quantile: &str| {
            let lines = text.lines().filter(|line| line.starts_with("qd1_latency_seconds{") && line.contains(&labels));
            let step = format!("step=\"{}\"", report.summary.steps[0].name);
            lines.filter(|line| line.contains(&step)).find(|line| line.contains(&format!("quantile=\"{quantile}\"")))
        };
        assert!(of("0.99").unwrap().ends_with(" 0.00325"), "{:?}", of("0.99"));
        assert_eq!(of("0.9999"), None);
        assert!(text.lines().any(|line| line.contains("q=\"0.99\",limit=\"lower\"} 0.002")));
    }

    #[test]
    fn hostile_names_stay_within_their_labels() {
        let mut report = sample::slow_vps();
        report.record.plan.target.path = "/a\"} 1\n# EOF\\".into();
        let text = crate::render(&report, crate::Format::Openmetrics, &crate::Style::plain(80));
        assert_eq!(text.lines().filter(|line| *line == "# EOF").count(), 1);
        assert!(text.lines().all(|line| line.starts_with("# ") || line.starts_with("qd1_")), "{text}");
    }
}

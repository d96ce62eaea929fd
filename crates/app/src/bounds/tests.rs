//! Redaction leaves no text that may identify somebody, in any output format. The schema lists all texts, so new
//! ones are covered too.

use qd1_analysis::charts;
use qd1_analysis::compare::{Group, compare};
use qd1_model::measured::{Aspect, Circumstance, MeasuredStep};
use qd1_model::{Hist, SCHEMA_VERSION};
use qd1_report::{CompareFormat, Detail, Format, Pictured, Style, html, render, samples};
use serde_json::{Map, Value, json};

use super::*;

/// The contents that every text gets, one after another. Each hides the marker from a different kind of search.
const TEXTS: [&str; 8] = [
    "qxmarker",
    "/srv/qxmarker of qxmarker/qxmarker",
    "cluster_name=qxmarker",
    "nas.qxmarker.internal:/qxmarker",
    "fell back from io_uring: the disk of qxmarker at 10.98.76.54 (52:54:00:98:76:54)",
    "qxmarker: (g=0): rw=read, bs=4k, filename=qxmarker",
    "eve@qxmarker.example",
    "/dev/mapper/qxmarker-lv",
];
const LEFT: [&str; 3] = ["qxmarker", "10.98.76.54", "52:54:00"];

/// Builds a value of the schema with `text` in each free string; `turn` selects among alternatives.
struct Filled<'a> {
    definitions: &'a Value,
    text: &'a str,
    turn: usize,
    /// Number of free texts that were filled in.
    count: usize,
}

impl Filled<'_> {
    fn value(&mut self, schema: &Value, name: &str, depth: usize) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let definitions = self.definitions;
            return self.value(&definitions[reference.rsplit('/').next().unwrap()], name, depth + 1);
        }
        if let Some(fixed) = schema.get("const") {
            return fixed.clone();
        }
        if let Some(choices) = schema["enum"].as_array() {
            return choices[self.turn % choices.len()].clone();
        }
        for alternatives in ["anyOf", "oneOf"] {
            if let Some(choices) = schema[alternatives].as_array() {
                let choices: Vec<&Value> = choices.iter().filter(|choice| choice["type"] != "null").collect();
                return self.value(choices[self.turn % choices.len()], name, depth + 1);
            }
        }
        let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap_or_default();
        match kind {
            "object" if schema["properties"].get("hdr_v2").is_some() => {
                json!(Hist::of_values([(1000, 5)].into_iter(), 5000))
            }
            "object" => self.object(schema, depth),
            // Types that contain themselves: a condition within a condition.
            "array" if depth > 40 => json!([]),
            "array" => match schema.get("prefixItems").and_then(Value::as_array) {
                Some(items) => items.iter().map(|item| self.value(item, name, depth + 1)).collect(),
                None => json!([self.value(&schema["items"], name, depth + 1)]),
            },
            // Packed numbers.
            "string" if ["intervals", "machine", "slowest", "looked_at"].contains(&name) => json!([]),
            "string" => {
                self.count += 1;
                json!(self.text)
            }
            "integer" => json!(1 + self.turn % 2),
            "number" => json!(0.5),
            "boolean" => json!(self.turn.is_multiple_of(2)),
            _ => Value::Null,
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut fields = Map::new();
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            fields.insert(name.clone(), self.value(inner, name, depth + 1));
        }
        Value::Object(fields)
    }
}

/// Returns records in which every free text is `text`, one for each value of `turn`.
fn records(text: &str, turns: usize) -> Vec<Record> {
    let schema: Value = serde_json::from_str(&qd1_report::schema()).unwrap();
    let of_turn = |turn| {
        let mut filled = Filled { definitions: &schema["$defs"], text, turn, count: 0 };
        let mut record = filled.value(&schema["properties"]["record"], "record", 0);
        assert!(filled.count > 60, "only {} texts", filled.count);
        record["schema_version"] = json!(SCHEMA_VERSION);
        serde_json::from_value(record).unwrap()
    };
    (0..turns).map(of_turn).collect()
}

fn assert_nothing_left(shown: &str, form: &str, text: &str) {
    for left in LEFT {
        if let Some(at) = shown.find(left) {
            let around: String = shown[..at].chars().rev().take(120).collect::<String>().chars().rev().collect();
            panic!("{text:?} in {form}: ...{around}{}", shown[at..].chars().take(80).collect::<String>());
        }
    }
}

fn plain(detail: Detail) -> Style {
    Style { detail, ..Style::plain(80) }
}

fn in_all_forms(report: &qd1_model::Report, text: &str) {
    let formats =
        [Format::Human, Format::Json, Format::Ndjson, Format::Csv, Format::Markdown, Format::Openmetrics, Format::Post];
    for format in formats {
        for detail in [Detail::All, Detail::Screen { is_kept: true, lines: None }] {
            assert_nothing_left(&render(report, format, &plain(detail)), &format!("{format:?}"), text);
        }
    }
    assert_nothing_left(&qd1_report::headline(report), "the headline", text);
}

#[test]
fn no_format_of_a_redacted_run_has_any_text_of_the_record() {
    for (text, turns) in TEXTS.into_iter().zip([14, 2, 2, 2, 14, 2, 2, 2]) {
        for record in records(text, turns) {
            let subject = record.plan.subject;
            let report = Bounds::of_run(subject, None).unwrap().judge(record, true).unwrap();
            in_all_forms(&report, text);
        }
    }
}

/// Returns the sample runs, whose analysis covers every part of a record.
fn sampled(text: &str) -> Vec<Record> {
    let reports = [samples::slow_vps(), samples::fast_nvme(), samples::suite(), samples::interrupted()];
    let mut records: Vec<Record> = reports.into_iter().map(|report| report.record).collect();
    records.push(samples::long_record());
    for record in &mut records {
        let mut value = json!(record);
        spread(&mut value, "", text);
        let command = record.command.clone();
        *record = serde_json::from_value(value).unwrap();
        record.command = command;
        record.command.push(text.to_owned());
    }
    records
}

/// Puts `text` wherever a machine or its owner is named; steps keep their names, because they are judged by name.
fn spread(value: &mut Value, name: &str, text: &str) {
    const NAMED: [&str; 22] = [
        "hostname",
        "source",
        "mount_point",
        "id",
        "upper",
        "model",
        "firmware",
        "identity",
        "backing",
        "path",
        "fault",
        "engine_why",
        "kernel",
        "os",
        "cpu_model",
        "product",
        "vendor",
        "why",
        "title",
        "label",
        "error",
        "serial",
    ];
    match value {
        Value::String(shown) if NAMED.contains(&name) => text.clone_into(shown),
        Value::Array(items) if name == "options" => items.push(json!(text)),
        Value::Array(items) => items.iter_mut().for_each(|item| spread(item, name, text)),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, inner)| spread(inner, name, text)),
        _ => {}
    }
}

#[test]
fn pages_charts_and_comparisons_of_redacted_runs_name_nobody() {
    for text in TEXTS {
        let mut pictured = Vec::new();
        for record in sampled(text) {
            let report = Bounds::of_run(record.plan.subject, None).unwrap().judge(record, true).unwrap();
            in_all_forms(&report, text);
            let data = charts(&report.record, &report.summary);
            pictured.push(Pictured { name: "run".to_owned(), report, data });
        }
        let group = |run: &Pictured| Group {
            name: "run".to_owned(),
            runs: vec![qd1_runs::find::of_record(&run.report.record)],
        };
        let comparison = compare(&[group(&pictured[4]), group(&pictured[4])], &[]).unwrap();
        let page = html(&pictured, Some(&comparison), &jiff::tz::TimeZone::UTC);
        assert_nothing_left(&page, "the page", text);
        for (name, title) in qd1_report::Charts::of(&pictured, &jiff::tz::TimeZone::UTC).names() {
            assert_nothing_left(&format!("{name} {title}"), "a chart", text);
        }
    }
}

#[test]
fn a_redacted_comparison_numbers_sides_runs_and_hosts() {
    for text in TEXTS {
        let side = |name: &str, host: &str| {
            let mut run = qd1_runs::find::of_record(&samples::long_record());
            (run.label, run.tool) = (name.to_owned(), format!("fio-3.33 {text}"));
            run.missing = vec![text.to_owned()];
            run.steps.iter_mut().for_each(|step| step.title = text.to_owned());
            run.steps.extend(run.steps.last().cloned().map(|step| MeasuredStep {
                name: "faulty".to_owned(),
                fault: text.to_owned(),
                ..step
            }));
            run.steps[0].name = text.to_owned();
            let named = |aspect, value: &str| Circumstance { aspect, value: value.to_owned() };
            run.circumstances = vec![named(Aspect::Host, host), named(Aspect::Suite, text), named(Aspect::Disk, name)];
            Group { name: name.to_owned(), runs: vec![run] }
        };
        let mut groups = [side(&format!("{text} a"), "host-qxmarker-1"), side(&format!("{text} b"), "host-qxmarker-2")];
        crate::commands::compare::redact(&mut groups);
        let comparison = compare(&groups, &[]).unwrap();
        let zone = jiff::tz::TimeZone::UTC;
        for format in [
            CompareFormat::Human,
            CompareFormat::Json,
            CompareFormat::Csv,
            CompareFormat::Markdown,
            CompareFormat::Junit,
        ] {
            let shown = qd1_report::comparison(&comparison, format, &Style::plain(120), &zone);
            assert_nothing_left(&shown, &format!("{format:?}"), text);
        }
        let hosts: Vec<&str> = groups.iter().map(|group| group.runs[0].circumstances[0].value.as_str()).collect();
        assert_eq!(hosts, ["host 1", "host 2"], "hosts remain distinguishable");
    }
}

/// Redaction keeps what explains the figures, and changes no grade.
#[test]
fn a_redacted_run_has_the_figures_grades_and_findings_of_the_whole_one() {
    let samples = [samples::slow_vps(), samples::fast_nvme(), samples::suite(), samples::interrupted()];
    for record in samples.into_iter().map(|report| report.record).chain([samples::long_record()]) {
        let bounds = Bounds::of_run(record.plan.subject, None).unwrap();
        let whole = bounds.judge(record.clone(), false).unwrap();
        let shared = bounds.judge(record, true).unwrap();
        assert!(whole.summary == shared.summary && whole.standings == shared.standings);
        let grades = |report: &Report| {
            report.verdicts.iter().map(|verdict| (verdict.class.clone(), verdict.grade)).collect::<Vec<_>>()
        };
        assert_eq!(grades(&whole), grades(&shared));
        let ids = |report: &Report| report.findings.iter().map(|finding| finding.id).collect::<Vec<_>>();
        assert_eq!(ids(&whole), ids(&shared));
        let environment = &shared.record.environment;
        assert!(environment.vendor == whole.record.environment.vendor && environment.hostname == "<host>");
    }
}

#[test]
fn custom_thresholds_lose_their_texts_and_keep_their_bounds() {
    let record = samples::slow_vps().record;
    let mut thresholds = qd1_suites::thresholds::builtin();
    for class in &mut thresholds.class {
        (class.name, class.title) = ("qxmarker".to_owned(), "qxmarker's database".to_owned());
        class.criterion.iter_mut().for_each(|criterion| criterion.source = "wiki of qxmarker".to_owned());
    }
    let whole = Bounds { thresholds: thresholds.clone(), are_own: true }.judge(record.clone(), false).unwrap();
    let shared = Bounds { thresholds, are_own: true }.judge(record, true).unwrap();
    in_all_forms(&shared, "qxmarker");
    let grades = |report: &Report| report.verdicts.iter().map(|verdict| verdict.grade).collect::<Vec<_>>();
    assert_eq!(grades(&whole), grades(&shared));
}

/// Every run of a built-in suite keeps the names, titles and criteria of its steps when it is shared.
#[test]
fn texts_of_built_in_suites_stay() {
    for name in qd1_suites::names() {
        let suite = qd1_suites::builtin(name).unwrap();
        let mut record = samples::slow_vps().record;
        let step = record.plan.steps[0].clone();
        record.plan.suite = name.to_owned();
        record.plan.steps = suite
            .job
            .iter()
            .map(|job| qd1_model::plan::StepPlan {
                name: job.name.clone(),
                title: job.title.clone().unwrap_or_default(),
                ..step.clone()
            })
            .collect();
        record.plan.criteria = suite.criteria.clone();
        let thresholds = qd1_suites::thresholds::builtin().class.into_iter().flat_map(|class| class.criterion);
        record.plan.criteria.extend(thresholds);
        let shared = redact(&record).unwrap();
        assert_eq!(shared.plan.suite, name);
        for (whole, shared) in record.plan.steps.iter().zip(&shared.plan.steps) {
            assert_eq!((&whole.name, &whole.title), (&shared.name, &shared.title), "{name}");
        }
        assert_eq!(record.plan.criteria, shared.plan.criteria, "{name}");
    }
}

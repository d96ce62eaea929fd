//! The report for machines: one document, or one object per line; and the JSON Schema of the document.

use std::io::{self, Write};

use qd1_model::Report;
use qd1_model::comparison::Comparison;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};

use crate::packed::packed_text;
use crate::section::Lines;
use crate::sections;

/// Why serde_json cannot fail: all keys are strings, and JSON can represent all numbers.
const PLAIN: &str = "a report is plain JSON";

/// Objects and lists this deep are laid out over lines; deeper ones take a line each.
const LAID_OUT: usize = 4;

/// Returns one document.
pub(crate) fn document(body: &impl Serialize) -> String {
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, Layout::default());
    body.serialize(&mut serializer).expect(PLAIN);
    text.push(b'\n');
    String::from_utf8(text).expect(PLAIN)
}

/// Indented down to a depth, one line each beyond it: readers see the parts of the document, and it stays small.
/// Figures have nine digits; what was measured, the record, is exact.
#[derive(Default)]
struct Layout {
    depth: usize,
    /// Whether the object or list that is open, or just ended, holds anything.
    has_items: bool,
    /// Whether a key of the document itself is written.
    is_key: bool,
    is_in_record: bool,
}

impl Layout {
    fn open<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.has_items = false;
        writer.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.has_items && self.depth < LAID_OUT {
            self.line(writer)?;
        }
        self.has_items = true;
        writer.write_all(bracket)
    }

    fn item<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        let is_laid_out = self.depth <= LAID_OUT;
        if !is_first {
            writer.write_all(b",")?;
        }
        if is_laid_out { self.line(writer) } else { Ok(()) }
    }

    fn line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.item(writer, is_first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_items = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.is_key = self.depth == 1;
        self.item(writer, is_first)
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_key = false;
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if self.is_key {
            self.is_in_record = fragment == "record";
        }
        writer.write_all(fragment.as_bytes())
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let shown = if self.is_in_record { value } else { format!("{value:.8e}").parse().unwrap_or(value) };
        CompactFormatter.write_f64(writer, shown)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(if self.depth <= LAID_OUT { b": " } else { b":" })
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_items = true;
        Ok(())
    }
}

/// Returns the whole report: raw integers, keys with their unit as suffix.
pub(crate) fn render(report: &Report) -> String {
    document(report)
}

/// Returns verdicts, criteria, steps, the rows of parts, findings and intervals, one per line; the record, which is
/// long, comes last.
pub(crate) fn render_lines(report: &Report) -> String {
    let mut lines = Lines::new(&report.record.id);
    lines.all("verdict", &report.verdicts);
    lines.all("criterion", &report.criteria);
    lines.all("step", &report.summary.steps);
    sections::parts(report).for_each(|section| section.lines(&mut lines));
    lines.all("finding", &report.findings);
    for step in &report.record.steps {
        for interval in &step.intervals {
            lines.add("interval", &OfStep { step: &step.name, interval });
        }
        for interval in &step.machine {
            lines.add("machine", &OfStep { step: &step.name, interval });
        }
    }
    lines.add("record", &report.record);
    lines.end()
}

/// An interval, which in the record is packed with the others of its step.
#[derive(Serialize)]
struct OfStep<'a, T> {
    step: &'a str,
    #[serde(flatten)]
    interval: &'a T,
}

/// Returns the JSON Schema of what `--json` prints.
///
/// Generating it from the types takes 0.4 MB of code, so an optimised build contains the text that an unoptimised one
/// generated: `cargo xtask docs` writes it, and `cargo xtask check docs` compares it with the types.
pub fn schema() -> String {
    if cfg!(debug_assertions) { document(&schemars::schema_for!(Report)) } else { published() }
}

fn published() -> String {
    packed_text!("schema.json")
}

/// The same for what `compare --json` prints.
pub fn comparison_schema() -> String {
    if cfg!(debug_assertions) {
        document(&schemars::schema_for!(Comparison))
    } else {
        packed_text!("schema-compare.json")
    }
}

/// The same for what `doctor --json` prints.
pub fn doctor_schema() -> String {
    if cfg!(debug_assertions) {
        document(&schemars::schema_for!(qd1_model::doctor::Diagnosis))
    } else {
        packed_text!("schema-doctor.json")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::samples as sample;

    #[test]
    fn what_is_printed_reads_back_as_the_same_report() {
        let report = sample::slow_vps();
        let read = serde_json::from_str::<Report>(&render(&report)).unwrap();
        assert!(read.record == report.record && render(&read) == render(&report));
        assert!(read.findings == report.findings);
    }

    #[test]
    fn figures_have_nine_digits_and_the_record_has_all() {
        let mut report = sample::slow_vps();
        report.summary.steps[0].streams[0].iops.value = Some(12_345.678_912_345);
        report.record.steps[0].steal = 0.012_345_678_912_345;
        let text = render(&report);
        assert!(text.contains("\"value\":12345.6789,") && text.contains("0.012345678912345"), "{text}");
        let body = serde_json::json!({"record": 1.0 / 3.0, "other": 1.0 / 3.0, "tiny": 1e-300, "large": 2.5e300});
        let all: Value = serde_json::from_str(&document(&body)).unwrap();
        assert_eq!([&all["record"], &all["other"]].map(Value::as_f64), [Some(1.0 / 3.0), Some(0.333_333_333)]);
        assert_eq!([&all["tiny"], &all["large"]].map(Value::as_f64), [Some(1e-300), Some(2.5e300)]);
    }

    #[test]
    fn the_published_schema_is_that_of_the_documents() {
        assert!(published() == include_str!("../../../../docs/schema.json"));
    }

    #[test]
    fn each_line_is_an_object_that_says_what_it_is_and_of_which_run() {
        let report = sample::slow_vps();
        let lines = render_lines(&report);
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines.iter().all(|line| line["run"] == report.record.id.as_str()));
        let count = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
        assert_eq!(count("verdict"), report.verdicts.len());
        assert_eq!(count("step"), report.summary.steps.len());
        assert_eq!(count("finding"), report.findings.len());
        assert_eq!(lines.last().unwrap()["type"], "record");
    }

    #[test]
    fn criteria_of_a_suite_are_separate_lines_and_a_check_has_none() {
        let lines = render_lines(&sample::suite());
        assert_eq!(lines.lines().filter(|line| line.starts_with("{\"type\":\"criterion\"")).count(), 5);
        assert!(!render(&sample::slow_vps()).contains("\"criteria\""));
    }

    #[test]
    fn keys_carry_their_unit_and_counts_are_integers() {
        let json: Value = serde_json::from_str(&render(&sample::slow_vps())).unwrap();
        let stream = &json["summary"]["steps"][0]["streams"][0];
        assert!(stream["lat_max_ns"].is_u64() && stream["lat_p999_ns"]["n"].is_u64());
        assert!(json["schema_version"].is_u64() && json["record"]["started_unix_ns"].is_u64());
    }

    #[test]
    fn the_schema_describes_every_key_of_a_report() {
        let schema: Value = serde_json::from_str(&schema()).unwrap();
        let json = serde_json::to_value(sample::slow_vps()).unwrap();
        for key in json.as_object().unwrap().keys() {
            assert!(schema["properties"].get(key).is_some(), "{key}");
        }
        for key in json["record"].as_object().unwrap().keys() {
            assert!(schema["$defs"]["Record"]["properties"].get(key).is_some(), "record.{key}");
        }
    }

    #[test]
    fn ndjson_snapshot() {
        let mut report = sample::interrupted();
        // The record is covered by the model's own tests; its histograms would only make this file unreadable.
        report.record.steps.clear();
        insta::assert_snapshot!(render_lines(&report));
    }
}

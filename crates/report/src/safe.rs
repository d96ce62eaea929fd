//! What a report shows of names from outside (job files, suites, paths, devices, servers), so that no format has to
//! think of it: all but JSON render a copy of the report in which control characters are written out. The copy is only
//! made where there are any, which is hardly ever.

use std::borrow::Cow;
use std::io;

use qd1_model::{Report, printable};
use serde_json::Value;

/// Returns the report with every string as [`printable()`] shows it, its command aside, which is quoted for a shell.
/// `None` where that is not possible.
pub(crate) fn safe(report: &Report) -> Option<Cow<'_, Report>> {
    let mut seen = Hidden::default();
    serde_json::to_writer(&mut seen, report).ok()?;
    if !seen.any {
        return Some(Cow::Borrowed(report));
    }
    let mut value = serde_json::to_value(report).ok()?;
    write_out(&mut value);
    let mut shown: Report = serde_json::from_value(value).ok()?;
    shown.record.command.clone_from(&report.record.command);
    // No part of the JSON, and made of numbers.
    shown.limits.clone_from(&report.limits);
    Some(Cow::Owned(shown))
}

fn write_out(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(shown) = printable(text) {
                *text = shown;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_out),
        Value::Object(fields) => {
            let named = std::mem::take(fields);
            fields.extend(named.into_iter().map(|(name, mut field)| {
                write_out(&mut field);
                (printable(&name).into_owned(), field)
            }));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Reads JSON and notes whether a string in it has a character to write out: JSON escapes C0, the others stand there in
/// UTF-8.
#[derive(Default)]
struct Hidden {
    any: bool,
    is_escaped: bool,
    /// The last bytes, the newest lowest.
    last: u32,
}

impl io::Write for Hidden {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.last = self.last << 8 | u32::from(*byte);
            let is_control = self.is_escaped && !matches!(byte, b'"' | b'\\');
            self.is_escaped = !self.is_escaped && *byte == b'\\';
            self.any |= is_control || ends_hidden(self.last);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the last bytes are one of the characters of [`qd1_model::printable::is_hidden`] beyond C0.
fn ends_hidden(last: u32) -> bool {
    let bytes = last.to_be_bytes();
    let tail = match bytes {
        [.., 0x7f] => return true,
        [.., 0xc2 | 0xd8, _] => &bytes[2..],
        [_, 0xe2, 0x80 | 0x81, _] => &bytes[1..],
        _ => return false,
    };
    std::str::from_utf8(tail).is_ok_and(|text| text.contains(qd1_model::printable::is_hidden))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Format;
    use crate::page::Style;
    use crate::samples as sample;
    use crate::{history_human, render};

    /// What a name from a job file can hold, in all places at once.
    const NAME: &str = "\u{1b}]0;x\u{7}a|b`<i>\\|\n# c\u{9b}2J\u{202e}d";

    fn hostile() -> Report {
        let mut report = sample::suite();
        for step in &mut report.summary.steps {
            (step.name, step.title) = (NAME.to_owned(), NAME.to_owned());
        }
        for judged in &mut report.criteria {
            (judged.criterion.label, judged.criterion.source) = (NAME.to_owned(), NAME.to_owned());
        }
        for finding in &mut report.findings {
            (finding.title, finding.evidence, finding.advice) = (NAME.to_owned(), NAME.to_owned(), NAME.to_owned());
        }
        for verdict in &mut report.verdicts {
            verdict.title = NAME.to_owned();
        }
        report.record.plan.suite = NAME.to_owned();
        report.record.plan.target.path = NAME.into();
        report.record.environment.hostname = NAME.to_owned();
        report.record.environment.filesystem.source = NAME.to_owned();
        for device in &mut report.record.environment.devices {
            device.model = NAME.to_owned();
        }
        report.record.command = vec!["qd1".to_owned(), "run".to_owned(), NAME.to_owned()];
        report
    }

    /// Cause: `[\x1b]0;x\x07job]` in a job file changed the terminal's title whenever the run was shown.
    #[test]
    fn no_format_but_json_shows_control_characters() {
        let report = hostile();
        for format in [Format::Human, Format::Csv, Format::Markdown] {
            let text = render(&report, format, &Style { color: false, width: 80 });
            let hidden = |letter| letter != '\n' && qd1_model::printable::is_hidden(letter);
            assert!(!text.contains(hidden), "{format:?}: {text:?}");
            assert!(text.contains("x1b"), "{format:?} shows that it was there");
            assert!(!text.lines().any(|line| line.starts_with("# c")), "{format:?}: {text}");
        }
        let json = render(&report, Format::Json, &Style { color: false, width: 80 });
        assert!(serde_json::from_str::<Report>(&json).unwrap().record.plan.suite == NAME, "JSON is left as it is");
    }

    #[test]
    fn a_table_of_markdown_keeps_its_cells() {
        let text = render(&hostile(), Format::Markdown, &Style { color: false, width: 80 });
        let mut columns = None;
        for line in text.lines() {
            let plain = line.replace("\\\\", "").replace("\\|", "");
            let bars = if plain.starts_with('|') { plain.matches('|').count() } else { 0 };
            columns = if bars == 0 { None } else { Some(*columns.get_or_insert(bars)) };
            assert_eq!(columns.unwrap_or(0), bars, "{line}");
            assert!(bars == 0 || !plain.replace("\\<", "").contains('<'), "{line}");
        }
    }

    #[test]
    fn a_cell_that_is_a_formula_is_text() {
        let mut report = sample::slow_vps();
        report.summary.steps[0].name = "=cmd|'/c calc'!A1".to_owned();
        report.summary.steps[1].name = "-5".to_owned();
        let text = render(&report, Format::Csv, &Style { color: false, width: 80 });
        assert!(text.contains(",'=cmd|'/c calc'!A1,") && text.contains(",-5,"), "{text}");
    }

    #[test]
    fn names_in_the_history_are_written_out() {
        let row = qd1_model::history::Row {
            id: NAME.to_owned(),
            started_unix_ns: 1,
            elapsed_ns: 1,
            suite: NAME.to_owned(),
            path: NAME.to_owned(),
            device: NAME.to_owned(),
            filesystem: NAME.to_owned(),
            version: NAME.to_owned(),
            interrupted: false,
        };
        let text = history_human(&[row], &Style { color: false, width: 200 }, &jiff::tz::TimeZone::UTC);
        assert!(text.lines().count() == 2 && !text.replace('\n', "").contains(char::is_control), "{text:?}");
    }

    #[test]
    fn an_ordinary_report_is_not_copied() {
        assert!(matches!(safe(&sample::slow_vps()), Some(Cow::Borrowed(_))));
        for name in ["\t", "\u{7f}", "\u{85}", "\u{2066}", "\u{61c}", "\\\n"] {
            let mut report = sample::slow_vps();
            report.findings[0].title = name.to_owned();
            assert!(matches!(safe(&report), Some(Cow::Owned(_))), "{name:?}");
        }
        let mut report = sample::slow_vps();
        report.findings[0].title = r#"a \ b \n "c" ü €"#.to_owned();
        assert!(matches!(safe(&report), Some(Cow::Borrowed(_))));
    }
}

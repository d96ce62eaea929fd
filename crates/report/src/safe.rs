//! What a report shows of names from outside (job files, suites, paths, devices, servers), so that no format has to
//! handle them: all but JSON render a copy of the report in which control characters are written out. The copy is only
//! made where there are any, which is hardly ever.

use std::borrow::Cow;

use qd1_model::{Report, printable};
use serde_json::Value;

use crate::rewrite::rewritten;

/// Returns the report with every string as [`printable()`] shows it, its command aside, which is quoted for a shell.
/// `None` where that is not possible.
pub(crate) fn safe(report: &Report) -> Option<Cow<'_, Report>> {
    let json = serde_json::to_vec(report).ok()?;
    if !has_hidden(&json) {
        return Some(Cow::Borrowed(report));
    }
    let mut shown = rewritten(&json, write_out).ok()?;
    shown.record.command.clone_from(&report.record.command);
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

/// Whether a string of the JSON has a character to write out: C0 is escaped there, the others appear as they are.
fn has_hidden(json: &[u8]) -> bool {
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'\\' && !matches!(bytes.next(), Some(b'"' | b'\\')) {
            return true;
        }
    }
    std::str::from_utf8(json).is_ok_and(|text| text.contains(qd1_model::printable::is_hidden))
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
            let text = render(&report, format, &Style::plain(80));
            let hidden = |letter| letter != '\n' && qd1_model::printable::is_hidden(letter);
            assert!(!text.contains(hidden), "{format:?}: {text:?}");
            assert!(text.contains("x1b"), "{format:?} shows that it was there");
            assert!(!text.lines().any(|line| line.starts_with("# c")), "{format:?}: {text}");
        }
        let json = render(&report, Format::Json, &Style::plain(80));
        assert!(serde_json::from_str::<Report>(&json).unwrap().record.plan.suite == NAME, "JSON is left as it is");
    }

    #[test]
    fn a_table_of_markdown_keeps_its_cells() {
        let text = render(&hostile(), Format::Markdown, &Style::plain(80));
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
        let text = render(&report, Format::Csv, &Style::plain(80));
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
            headline: Some(NAME.to_owned()),
            tags: vec![NAME.to_owned()],
            note: Some(NAME.to_owned()),
            ..qd1_model::history::Row::default()
        };
        let text = history_human(&[row], &Style::plain(200), &jiff::tz::TimeZone::UTC);
        assert!(text.lines().count() == 4 && !text.replace('\n', "").contains(char::is_control), "{text:?}");
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

//! The forms of a report: one file each, one arm in [`render`].

mod csv;
mod human;
mod json;
mod markdown;
mod openmetrics;
mod post;
mod screen;

pub(crate) use json::document;
pub use json::{comparison_schema, doctor_schema, schema};
pub(crate) use markdown::body as body_of_page;
pub(crate) use screen::worth_telling;

use qd1_model::{Report, printable_lines};

use crate::page::{Detail, Style};
use crate::safe::safe;

/// How results are written to stdout or `-o FILE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text for people.
    #[default]
    Human,
    /// The whole report as one JSON document.
    Json,
    /// One JSON object per line: verdicts, criteria, steps, findings, then the record.
    Ndjson,
    /// One row per step, kind of operation and metric.
    Csv,
    /// Tables for an issue or a forum post.
    Markdown,
    /// OpenMetrics, for Prometheus.
    Openmetrics,
    /// A dozen plain lines for a forum, without names of hosts and places.
    Post,
}

/// Returns the report in `format`, ending with a newline. Only JSON shows control characters in names as they are:
/// its strings have escapes of their own.
pub fn render(report: &Report, format: Format, style: &Style) -> String {
    if matches!(format, Format::Json | Format::Ndjson) {
        return rendered(report, format, style);
    }
    match safe(report) {
        Some(report) => rendered(&report, format, style),
        // A figure that JSON cannot hold, such as infinity.
        None => printable_lines(&rendered(report, format, &Style { color: false, ..*style })).into_owned(),
    }
}

fn rendered(report: &Report, format: Format, style: &Style) -> String {
    if format == Format::Human && style.detail != Detail::All {
        return screen::render(report, style);
    }
    match format {
        Format::Human => human::render(report, style),
        Format::Json => json::render(report),
        Format::Ndjson => json::render_lines(report),
        Format::Csv => csv::render(report),
        Format::Markdown => markdown::render(report),
        Format::Openmetrics => openmetrics::render(report),
        Format::Post => post::render(report),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use crate::sections::filesystems;

    /// `limits` once had neither Markdown nor CSV nor NDJSON.
    #[test]
    fn every_format_has_every_kind_of_run() {
        let mut kinds = samples::kinds();
        kinds.push(("filesystems", filesystems::sample::report(), ["btrfs", "btrfs"], "btrfs"));
        for (name, report, [for_people, for_programs], in_csv) in kinds {
            let all = Style::plain(100);
            let screen = Style { detail: Detail::Screen { is_kept: true, lines: None }, ..all };
            let text = |format, style| render(&report, format, style);
            for shown in [text(Format::Human, &all), text(Format::Human, &screen), text(Format::Markdown, &all)] {
                assert!(shown.contains(for_people), "{name}: {shown}");
            }
            for shown in [text(Format::Json, &all), text(Format::Ndjson, &all)] {
                assert!(shown.contains(for_programs), "{name}: {shown}");
            }
            let csv = text(Format::Csv, &all);
            assert!(csv.contains(in_csv), "{name}: {csv}");
            assert!(text(Format::Openmetrics, &all).ends_with("# EOF\n"), "{name}");
            assert!(text(Format::Post, &all).starts_with("qd1 "), "{name}");
        }
    }
}

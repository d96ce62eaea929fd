//! The forms of a report: one file each, one arm in [`render`].

mod csv;
mod human;
mod json;
mod markdown;
mod openmetrics;
mod post;
mod screen;

pub(crate) use csv::quoted;
pub(crate) use json::document;
pub use json::{comparison_schema, schema};
pub(crate) use screen::worth_telling;

use qd1_model::{Report, printable_lines};

use crate::page::{Detail, Style};
use crate::safe::safe;
use crate::sections::{filesystems, limits};

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

/// Returns the report in `format`, ending with a newline. Only JSON shows control characters in names as they are: a
/// string of it has escapes of its own.
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

/// Returns what a page has below its first screen, as Markdown.
pub(crate) fn body_of_page(report: &Report) -> String {
    match &report.filesystems {
        Some(table) => filesystems::markdown(report, table),
        None => markdown::body(report),
    }
}

fn rendered(report: &Report, format: Format, style: &Style) -> String {
    if format == Format::Human && style.detail != Detail::All {
        return screen::render(report, style);
    }
    // The steps and findings of these runs are only meaningful as tables.
    match (&report.filesystems, &report.limits, format) {
        (Some(table), _, Format::Human) => return filesystems::human(report, table, style),
        (Some(table), _, Format::Csv) => return filesystems::csv(report, table),
        (Some(table), _, Format::Markdown) => return filesystems::markdown(report, table),
        (_, Some(limits), Format::Human) => return limits::human(limits, report, style),
        (_, Some(limits), Format::Json) => return limits::json(limits, report),
        _ => {}
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

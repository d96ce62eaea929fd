//! Renders a Report: one file per format, one arm in [`render`].
//!
//! Reports compute nothing: each figure was worked out by the analysis and is only worded here, and always with its
//! 95 % interval and sample count.

mod apps;
mod criteria;
mod csv;
mod filesystems;
mod history;
mod human;
mod identity;
mod json;
mod layout;
mod limits;
mod machine;
mod markdown;
mod meta;
mod prediction;
mod redact;
#[cfg(test)]
pub(crate) mod sample;
mod suite;
mod sweep;
mod sync;
mod words;

pub(crate) use history::{history_human, history_json};
pub(crate) use json::schema;
pub(crate) use limits::limits;
pub(crate) use redact::redact;
pub(crate) use suite::suites;

use qd1_model::Report;

/// How results are written to stdout or `-o FILE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
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
}

/// What the place the text goes to can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// Whether escape sequences for colour are wanted; every coloured word also says what it means.
    pub(crate) color: bool,
    /// Columns.
    pub(crate) width: usize,
}

/// The report in `format`, ending with a newline.
pub(crate) fn render(report: &Report, format: Format, style: &Style) -> anyhow::Result<String> {
    if let Some(table) = &report.filesystems {
        // Its steps and findings are those of several filesystems, and say nothing but side by side.
        match format {
            Format::Human => return Ok(filesystems::human(report, table, style)),
            Format::Csv => return Ok(filesystems::csv(report, table)),
            Format::Markdown => return Ok(filesystems::markdown(report, table)),
            Format::Json | Format::Ndjson => {}
        }
    }
    Ok(match format {
        Format::Human => human::render(report, style),
        Format::Json => json::render(report)?,
        Format::Ndjson => json::render_lines(report)?,
        Format::Csv => csv::render(report),
        Format::Markdown => markdown::render(report),
    })
}

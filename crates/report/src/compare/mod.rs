//! Runs side by side, in every form: one file each.

mod bmf;
mod csv;
mod human;
mod junit;
mod markdown;
mod words;

use jiff::tz::TimeZone;
use qd1_model::comparison::Comparison;
use qd1_model::printable;

use crate::formats::document;
use crate::page::Style;

/// How a comparison is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompareFormat {
    /// Text for people.
    #[default]
    Human,
    /// The whole comparison as one JSON document.
    Json,
    /// One row per figure and side.
    Csv,
    /// Tables for an issue or a pull request.
    Markdown,
    /// JUnit's XML: a test case for each limit of `--fail-if`, or for each figure.
    Junit,
    /// Bencher Metric Format: the figures of the last side.
    Bmf,
}

/// Returns the comparison in `format`, ending with a newline. Names from outside are shown with control characters written
/// out, but for JSON, which has escapes of its own; times are in `zone`.
#[must_use]
pub fn comparison(comparison: &Comparison, format: CompareFormat, style: &Style, zone: &TimeZone) -> String {
    match format {
        CompareFormat::Human => human::render(&shown(comparison), style, zone),
        CompareFormat::Json => document(comparison),
        CompareFormat::Csv => csv::render(&shown(comparison)),
        CompareFormat::Markdown => markdown::render(&shown(comparison), zone),
        CompareFormat::Junit => junit::render(&shown(comparison)),
        CompareFormat::Bmf => document(&bmf::of(comparison)),
    }
}

/// The same with every name as it can be shown.
fn shown(comparison: &Comparison) -> Comparison {
    let mut shown = comparison.clone();
    let write_out = |text: &mut String| *text = printable(text).into_owned();
    for side in &mut shown.sides {
        write_out(&mut side.name);
        side.missing.iter_mut().for_each(write_out);
        for run in &mut side.runs {
            write_out(&mut run.label);
            write_out(&mut run.tool);
        }
    }
    for difference in &mut shown.differences {
        write_out(&mut difference.step);
        for value in &mut difference.values {
            *value = value.split('\n').map(|line| printable(line).into_owned()).collect::<Vec<_>>().join("\n");
        }
    }
    for row in &mut shown.rows {
        write_out(&mut row.step);
        row.also.iter_mut().for_each(write_out);
        write_out(&mut row.title);
    }
    for left in &mut shown.left_out {
        [&mut left.side, &mut left.step, &mut left.why].into_iter().for_each(write_out);
    }
    for limit in &mut shown.limits {
        [&mut limit.side, &mut limit.text].into_iter().for_each(write_out);
    }
    shown
}

#[cfg(test)]
mod tests;

//! Tables of figures: their columns, their cells of two lines, and the legend below them.

use qd1_model::metric::{METRICS, Metric, Unit};
use qd1_model::units::format_ns;
use qd1_model::{Estimate, StreamSummary};

use crate::page::{BOLD, DIM, Page};
use crate::words;

/// Width of a table's first column and of the others.
pub(crate) const LABEL: usize = 14;
pub(crate) const CELL: usize = 13;

/// A column of the steps table: two lines per cell, the figure and its interval.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    Metric(&'static Metric),
    /// The slowest request: observed, not estimated, so it has no interval.
    Slowest,
    /// Throughput again, in binary units.
    Binary,
}

impl Column {
    /// Returns true if it is a rate rather than a latency.
    pub(crate) const fn is_rate(self) -> bool {
        match self {
            Self::Metric(metric) => !matches!(metric.unit, Unit::Ns),
            Self::Slowest => false,
            Self::Binary => true,
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Metric(metric) => metric.title,
            Self::Slowest => "slowest",
            Self::Binary => "= binary",
        }
    }

    pub(crate) fn cell(self, stream: &StreamSummary) -> (String, String) {
        let none = || ("-".into(), String::new());
        match self {
            Self::Metric(metric) => (metric.get)(stream).map_or_else(none, |estimate| cell(metric.unit, &estimate)),
            Self::Slowest => (format_ns(stream.lat_max_ns as f64), "(seen)".into()),
            Self::Binary => words::binary(&stream.bytes_per_second).unwrap_or_else(none),
        }
    }
}

/// Returns the columns that fit: five at 80, up to eight when there is room.
pub(crate) fn columns(width: usize) -> Vec<Column> {
    let room = width.saturating_sub(LABEL) / CELL;
    let metrics = METRICS.iter().filter(|metric| match metric.name {
        "lat_p9999_ns" => room > 5,
        // The sync part has its own rows, stalls are those of several steps, and a mean shows little of a tail.
        name => !name.starts_with("sync_") && !name.starts_with("stall_") && name != "lat_mean_ns",
    });
    let mut columns: Vec<_> = metrics.map(Column::Metric).collect();
    if room > 6 {
        columns.insert(4, Column::Slowest);
    }
    if room > 7 {
        columns.push(Column::Binary);
    }
    columns
}

pub(crate) fn cell(unit: Unit, estimate: &Estimate) -> (String, String) {
    match estimate.value {
        Some(value) => (unit.format(value), words::interval(unit, estimate)),
        None if estimate.n_needed > 0 => ("not resolved".into(), format!("needs {}", words::about(estimate.n_needed))),
        None => ("not resolved".into(), String::new()),
    }
}

/// Explains the marks in the table, after the text `also`.
pub(crate) fn legend(page: &mut Page, also: &str) {
    let legend = "[a..b] is the 95 % interval, in the unit of the figure above it (how it was validated: \
                  docs/statistics.md). \"needs ~N\": n samples do \
                  not resolve this percentile; about N would.";
    for line in crate::page::wrap(format!("{also} {legend}").trim(), page.prose_width() - 2) {
        let line = page.paint(DIM, &line);
        page.line(&format!("  {line}"));
    }
}

/// Writes one figure per line, for narrow terminals.
pub(crate) fn list(page: &mut Page, columns: &[Column], stream: &StreamSummary) {
    page.line(&format!("  {}, n={}", stream.class.name(), words::thousands(stream.ios)));
    for column in columns {
        let (figure, interval) = column.cell(stream);
        page.hang(4, column.title(), DIM, 16, &format!("{figure} {interval}"));
    }
    if let Some(p99) = stream.sync_p99_ns {
        let (figure, interval) = cell(Unit::Ns, &p99);
        page.hang(4, "sync p99", DIM, 16, &format!("{figure} {interval}"));
    }
}

/// Writes a table with a line for each row and columns as wide as they need to be; the first title is the heading. Columns
/// that do not fit, the last ones, are left out.
pub(crate) fn compact(page: &mut Page, titles: &[&str], rows: &[Vec<String>]) {
    const GAP: usize = 2;
    let longest = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([titles[at].chars().count()]).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..titles.len()).map(longest).collect();
    while widths.len() > 1 && GAP + widths.iter().map(|width| width + GAP).sum::<usize>() - GAP > page.style.width {
        widths.pop();
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| -> String {
        let padded = cells.zip(&widths).map(|(cell, width)| format!("{:GAP$}{cell:<width$}", ""));
        padded.collect::<String>().trim_end().to_owned()
    };
    let heading = page.paint(BOLD, &line(&mut titles.iter().copied()));
    page.line(&heading);
    for row in rows {
        page.line(&line(&mut row.iter().map(String::as_str)));
    }
}

/// Escapes text that would be taken for markup: table bars, tags such as `<path>`, emphasis, links and pictures. Pairs of
/// backticks stay: what is between them is shown as code, whatever it is.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::new();
    let parts: Vec<&str> = text.split('`').collect();
    let has_code = parts.len() % 2 == 1;
    for (at, part) in parts.iter().enumerate() {
        let is_code = has_code && at % 2 == 1 && !part.is_empty();
        if at > 0 {
            // The end or the beginning of a code span, or a single backtick.
            let is_end = has_code && at % 2 == 0 && !parts[at - 1].is_empty();
            safe += if is_code || is_end { "`" } else { "\\`" };
        }
        for letter in part.chars() {
            match letter {
                // A bar ends a cell even within code.
                '|' => safe += "\\|",
                '\n' => safe.push(' '),
                _ if is_code => safe.push(letter),
                '\\' | '<' | '>' | '*' | '_' | '~' | '&' => safe.extend(['\\', letter]),
                '(' | '[' if safe.ends_with(']') => safe.extend(['\\', letter]),
                _ => safe.push(letter),
            }
        }
    }
    safe
}

/// Returns a cell as RFC 4180 has it. One that a spreadsheet would take for a formula begins with an apostrophe.
pub(crate) fn quoted(field: &str) -> String {
    if field.starts_with(['=', '+', '-', '@', '\t', '\r']) && field.parse::<f64>().is_err() {
        return quoted(&format!("'{field}"));
    }
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_stays_code_and_a_backtick_alone_is_one() {
        assert_eq!(escaped("let `a_b --c` trim"), "let `a_b --c` trim");
        assert_eq!(escaped("a_b `c"), "a\\_b \\`c");
        assert_eq!(escaped("`x|y` and ``"), "`x\\|y` and \\`\\`");
        assert_eq!(escaped("[a](b) <c> &lt;"), "[a]\\(b) \\<c\\> \\&lt;");
    }
}

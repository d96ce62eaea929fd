//! Latencies over time: a column for each interval, a row for each range of latencies.

use std::collections::VecDeque;

use qd1_model::requests::Op;
use qd1_trace::{Latencies, Stage};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::widgets::Widget;

/// Number of intervals kept.
pub(super) const KEPT: usize = 512;
/// Lower bounds of the rows, ns: three per decade.
const ROWS_NS: [u64; 22] = [
    0,
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
/// From few to many requests: the shades work without colour.
const SHADES: [char; 4] = ['\u{2591}', '\u{2592}', '\u{2593}', '\u{2588}'];
/// Colours of the shades, distinguishable for colour-blind users and on light and dark backgrounds.
const COLORS: [Color; 4] = [Color::Indexed(67), Color::Indexed(73), Color::Indexed(178), Color::Indexed(208)];
/// Width of the row labels.
const LABELS: u16 = 8;

/// The requests of one interval, by row.
type Column = [u64; ROWS_NS.len()];

/// The last intervals of one disk.
#[derive(Default)]
pub(super) struct Heatmap {
    columns: VecDeque<Column>,
}

impl Heatmap {
    /// Adds the next interval.
    pub(super) fn push(&mut self, latencies: &[(Op, Latencies)]) {
        let mut column = Column::default();
        for (from_ns, below_ns, count) in latencies.iter().flat_map(|(_, latencies)| latencies.buckets(Stage::Total)) {
            let middle_ns = from_ns.midpoint(below_ns);
            column[ROWS_NS.partition_point(|row_ns| *row_ns <= middle_ns) - 1] += count;
        }
        if self.columns.len() == KEPT {
            self.columns.pop_front();
        }
        self.columns.push_back(column);
    }
}

/// Draws a heatmap, the newest interval on the right.
pub(super) struct Drawn<'a> {
    pub(super) heatmap: Option<&'a Heatmap>,
    pub(super) has_color: bool,
}

impl Widget for Drawn<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        if area.width <= LABELS + 2 || area.height == 0 {
            return;
        }
        let width = usize::from(area.width - LABELS);
        let columns: Vec<&Column> =
            self.heatmap.map(|heatmap| heatmap.columns.iter().rev().take(width).collect()).unwrap_or_default();
        for (line, row) in rows(&columns, usize::from(area.height)).into_iter().enumerate() {
            let y = area.y + line as u16;
            buffer.set_string(area.x, y, format!("{:>7} ", label(ROWS_NS[row])), Style::new());
            for (back, column) in columns.iter().enumerate() {
                let all: u64 = column.iter().sum();
                let Some(shade) = shade(column[row], all) else { continue };
                let style = if self.has_color { Style::new().fg(COLORS[shade]) } else { Style::new() };
                let x = area.x + area.width - 1 - back as u16;
                buffer[(x, y)].set_char(SHADES[shade]).set_style(style);
            }
        }
    }
}

/// The rows to draw, slowest first: those with requests, and as many around them as fit.
fn rows(columns: &[&Column], height: usize) -> Vec<usize> {
    let is_used = |row: &usize| columns.iter().any(|column| column[*row] > 0);
    let used: Vec<usize> = (0..ROWS_NS.len()).filter(is_used).collect();
    let (mut low, mut high) = (used.first().copied().unwrap_or(6), used.last().copied().unwrap_or(6));
    while high - low + 1 < height && (low > 0 || high + 1 < ROWS_NS.len()) {
        if high + 1 < ROWS_NS.len() && (low == 0 || high < 12) {
            high += 1;
        } else {
            low -= 1;
        }
    }
    // If not all fit, the slow rows matter more than the fast ones.
    (low..=high).rev().take(height).collect()
}

/// The shade for a count out of all requests of its interval; even one in a thousand is visible.
fn shade(count: u64, all: u64) -> Option<usize> {
    let share = count as f64 / all.max(1) as f64;
    match count {
        0 => None,
        _ if share >= 0.3 => Some(3),
        _ if share >= 0.05 => Some(2),
        _ if share >= 0.005 => Some(1),
        _ => Some(0),
    }
}

fn label(ns: u64) -> String {
    match ns {
        0 => "0 us".to_owned(),
        1..1_000_000 => format!("{} us", ns / 1000),
        1_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{} s", ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(columns: &[Column], height: u16) -> Vec<String> {
        let heatmap = Heatmap { columns: columns.iter().copied().collect() };
        let area = Rect::new(0, 0, 12, height);
        let mut buffer = Buffer::empty(area);
        Drawn { heatmap: Some(&heatmap), has_color: false }.render(area, &mut buffer);
        let line = |y: u16| (0..12).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(line).collect()
    }

    #[test]
    fn a_single_slow_request_is_seen_above_many_fast_ones() {
        let mut fast = Column::default();
        fast[6] = 10_000;
        let mut with_slow = fast;
        with_slow[17] = 1;
        let lines = drawn(&[fast, with_slow], 12);
        assert_eq!(lines[0], " 500 ms    \u{2591}");
        assert_eq!(lines[11], " 100 us   \u{2588}\u{2588}");
    }

    #[test]
    fn of_more_rows_than_fit_the_slowest_are_kept() {
        let mut column = Column::default();
        (column[2], column[18]) = (5, 5);
        assert_eq!(drawn(&[column], 4)[0].trim_end(), "    1 s    \u{2588}");
    }
}

//! A sweep for people: a map of throughput and one of p99 for each rw, then what they show. Each cell of a map has its
//! figure, a shade that shows the same without colour, and a mark if it is not reliable.

mod csv;
mod markdown;
mod words;

pub(crate) use words::{blocks, cell, depths, directions};

use anstyle::{Ansi256Color, Style as Paint};
use qd1_model::plan::Rw;
use qd1_model::sweep::{Cell, CellFlag, Curve, Surface};
use qd1_model::units::{format_count, format_rate};
use qd1_model::{Bytes, Report};

use crate::page::{BOLD, DIM, Page, wrap};
use crate::section::{Lines, Section};
use crate::table::compact;
use qd1_model::units::short_size;

/// Width of a row's label and of a cell: a space, the figure, the shade, the mark.
const LABEL: usize = 6;
const CELL: usize = 9;
/// Width of the last column of the throughput map.
const BEST: usize = 11;
/// Shades without colour, from low to high.
const SHADES: [char; 8] = [' ', '.', ':', '-', '=', '+', '*', '#'];
/// Shades as backgrounds of a 256-colour terminal: for throughput, and for latency.
const GREENS: [u8; 8] = [255, 194, 157, 120, 84, 78, 41, 35];
const REDS: [u8; 8] = [194, 193, 229, 228, 222, 216, 209, 203];
const BLACK: Ansi256Color = Ansi256Color(16);

/// The metric that a map shows.
#[derive(Clone, Copy, PartialEq)]
enum Map {
    Throughput,
    P99,
}

/// The surface of a sweep.
pub(crate) struct Swept<'a> {
    pub(crate) report: &'a Report,
    pub(crate) surface: &'a Surface,
}

impl Section for Swept<'_> {
    fn answer(&self) -> String {
        words::sentence(self.report, self.surface)
    }

    fn brief(&self, page: &mut Page) {
        brief(page, self.surface);
    }

    fn human(&self, page: &mut Page) {
        section(page, self.report, self.surface);
    }

    fn markdown(&self, text: &mut String) {
        markdown::section(text, self.report, self.surface);
    }

    fn csv(&self) -> Option<String> {
        Some(csv::render(self.report, self.surface))
    }

    fn lines(&self, lines: &mut Lines<'_>) {
        lines.all("cell", &self.surface.cells);
        lines.all("curve", &self.surface.curves);
        lines.all("crossover", &self.surface.crossovers);
    }
}

/// Writes a line for each curve, then where the limit changes from IOPS to MB/s.
fn brief(page: &mut Page, surface: &Surface) {
    let bound =
        surface.asked.max_p99_ns.map_or_else(String::new, |ns| format!("p99 {} allows", words::time(ns as f64)));
    let row = |curve: &Curve| {
        let best = curve.iops_best.value.map_or_else(|| "not resolved".to_owned(), format_count);
        vec![
            format!("{} {}", curve.rw.name(), short_size(Bytes(u64::from(curve.block)))),
            words::knee(&curve.knee),
            format!("{best} at {}", curve.iodepth_best),
            curve.allowed.as_ref().map(words::allowed).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = surface.curves.iter().map(row).collect();
    if !rows.is_empty() {
        compact(page, &["", "knee [95 %]", "most IOPS", &bound], &rows);
    }
    words::crossovers(surface).iter().for_each(|line| page.prose(2, line));
}

/// Writes the section of the human report.
fn section(page: &mut Page, report: &Report, surface: &Surface) {
    for rw in words::directions(surface) {
        map(page, surface, rw, Map::Throughput);
        map(page, surface, rw, Map::P99);
    }
    legend(page, surface);
    if !surface.curves.is_empty() {
        page.heading("Knees: the iodepth beyond which more requests only wait longer [95 % interval]");
        knees(page, surface);
    }
    for (heading, lines) in
        [("IOPS or MB/s", words::crossovers(surface)), ("Checks of the sweep itself", words::checks(surface))]
    {
        if !lines.is_empty() {
            page.heading(heading);
            lines.iter().for_each(|line| page.hang(2, "", Paint::new(), 2, line));
        }
    }
    for text in words::not_run(report) {
        page.hang(0, "not run: ", BOLD, 9, &text);
    }
}

fn map(page: &mut Page, surface: &Surface, rw: Rw, map: Map) {
    let depths = words::depths(surface, rw);
    let fit = (page.style.width.saturating_sub(LABEL) / CELL).max(1);
    let title = match map {
        Map::Throughput => format!("{}: operations per second", rw.name()),
        Map::P99 => format!("{}: p99 latency", rw.name()),
    };
    page.heading(&format!("{title}, by block size (down) and iodepth (across)"));
    // Depths that do not fit continue below.
    for part in depths.chunks(fit) {
        let best = map == Map::Throughput && part.len() == depths.len();
        let best = best && LABEL + CELL * part.len() + BEST <= page.style.width;
        let numbers: String = part.iter().map(|depth| format!("{depth:>w$}  ", w = CELL - 2)).collect();
        let best_title = if best { format!("{:>BEST$}", "best") } else { String::new() };
        let heading = page.paint(DIM, &format!("{:<LABEL$}{numbers}{best_title}", "  bs"));
        page.line(&heading);
        for block in words::blocks(surface, rw) {
            let mut line = format!("  {:<w$}", short_size(Bytes(u64::from(block))), w = LABEL - 2);
            for depth in part {
                line += &shown(page, surface, words::cell(surface, rw, block, *depth), map);
            }
            if best {
                line +=
                    &format!("{:>BEST$}", words::best_rate(surface, rw, block).map_or_else(|| "-".into(), format_rate));
            }
            page.line(&line);
        }
    }
}

/// Returns one cell of a map.
fn shown(page: &Page, surface: &Surface, cell: Option<&Cell>, map: Map) -> String {
    let Some(cell) = cell else { return format!("{:>w$}  ", "-", w = CELL - 2) };
    let (figure, level) = match map {
        Map::Throughput => {
            let value = cell.iops.value;
            let best = words::best_iops(surface, cell.rw, cell.block);
            (value.map(format_count), value.map_or(0.0, |value| value / best))
        }
        Map::P99 => {
            let value = cell.lat_p99_ns.value;
            let (least, most) = words::p99_range(surface, cell.rw);
            let level = value.map_or(0.0, |value| (value / least).ln() / (most / least).ln().max(1.0));
            (value.map(words::time), level)
        }
    };
    let index = ((level * 8.0) as usize).min(7);
    // With too few requests only a lower bound is known.
    let bound = cell.lat_p99_ns.low.filter(|_| map == Map::P99).map(|low| format!(">{}", words::time(low)));
    let figure = figure.or(bound).unwrap_or_else(|| "?".to_owned());
    let text = format!("{figure:>w$}{}{}", SHADES[index], mark(surface, cell, map), w = CELL - 3);
    let ramp = if map == Map::Throughput { GREENS } else { REDS };
    let paint = Paint::new().fg_color(Some(BLACK.into())).bg_color(Some(Ansi256Color(ramp[index]).into()));
    format!(" {}", page.paint(paint, &text))
}

fn mark(surface: &Surface, cell: &Cell, map: Map) -> char {
    let over = surface.asked.max_p99_ns.is_some_and(|bound| cell.lat_p99_ns.value > Some(bound as f64));
    match map {
        Map::P99 if over => 'X',
        _ if cell.flags.iter().any(|flag| *flag != CellFlag::DeviceQueueShallow) => '!',
        _ => ' ',
    }
}

fn legend(page: &mut Page, surface: &Surface) {
    let mut text = "Shade, from blank to #: throughput as a share of the row's best; p99 from the shortest to the \
                    longest of its map, on a logarithmic scale. Intervals are in --format csv and json."
        .to_owned();
    if surface.cells.iter().any(|cell| mark(surface, cell, Map::Throughput) == '!') {
        text += " !: see the checks below.";
    }
    if let Some(bound) = surface.asked.max_p99_ns {
        text += &format!(" X: p99 is above {}.", qd1_model::units::format_ns(bound as f64));
    }
    if surface.cells.iter().any(|cell| cell.lat_p99_ns.value.is_none() || cell.iops.value.is_none()) {
        text += " > and ?: not resolved, too few requests.";
    }
    page.line("");
    for line in wrap(&text, page.prose_width() - 2) {
        let line = page.paint(DIM, &line);
        page.line(&format!("  {line}"));
    }
}

/// Writes one line for each curve.
fn knees(page: &mut Page, surface: &Surface) {
    let bound = surface.asked.max_p99_ns;
    let head = format!("  {:<15}{:<16}{:<12}{:<18}", "", "knee", "ceiling", "most measured");
    let allowed_title = bound.map(|bound| format!("p99 {} allows", words::time(bound as f64))).unwrap_or_default();
    let head = page.paint(DIM, &format!("{head}{allowed_title}"));
    page.line(&head);
    for curve in &surface.curves {
        let label = format!("{} {}", curve.rw.name(), short_size(Bytes(u64::from(curve.block))));
        let ceiling = curve.iops_ceiling.map_or_else(|| "not reached".to_owned(), format_count);
        let best = curve.iops_best.value.map_or_else(|| "not resolved".to_owned(), format_count);
        let falls = if curve.falls { ", falls" } else { "" };
        let best = format!("{best} at {}{falls}", curve.iodepth_best);
        let allowed = curve.allowed.as_ref().map(words::allowed).unwrap_or_default();
        page.line(&format!("  {label:<15}{:<16}{ceiling:<12}{best:<18}{allowed}", words::knee(&curve.knee)));
    }
}

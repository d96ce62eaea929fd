//! The words and figures of a sweep's reports.

use qd1_model::plan::Rw;
use qd1_model::sweep::{Allowed, Bend, BendState, Cell, CellFlag, Crossover, Curve, Surface};
use qd1_model::units::{format_count, format_rate};
use qd1_model::{Bytes, Report};

use qd1_model::units::short_size;

/// Returns each value once, in the cells' order.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    values.for_each(|value| {
        if !all.contains(&value) {
            all.push(value);
        }
    });
    all
}

pub(crate) fn directions(surface: &Surface) -> Vec<Rw> {
    distinct(surface.cells.iter().map(|cell| cell.rw))
}

pub(crate) fn blocks(surface: &Surface, rw: Rw) -> Vec<u32> {
    distinct(surface.cells.iter().filter(|cell| cell.rw == rw).map(|cell| cell.block))
}

pub(crate) fn depths(surface: &Surface, rw: Rw) -> Vec<u32> {
    let mut depths = distinct(surface.cells.iter().filter(|cell| cell.rw == rw).map(|cell| cell.iodepth));
    depths.sort_unstable();
    depths
}

pub(crate) fn cell(surface: &Surface, rw: Rw, block: u32, depth: u32) -> Option<&Cell> {
    surface.cells.iter().find(|cell| (cell.rw, cell.block, cell.iodepth) == (rw, block, depth))
}

fn row(surface: &Surface, rw: Rw, block: u32) -> impl Iterator<Item = &Cell> {
    surface.cells.iter().filter(move |cell| (cell.rw, cell.block) == (rw, block))
}

/// Returns the highest rate of a row; never 0.
pub(crate) fn best_iops(surface: &Surface, rw: Rw, block: u32) -> f64 {
    row(surface, rw, block).filter_map(|cell| cell.iops.value).fold(1e-9, f64::max)
}

pub(crate) fn best_rate(surface: &Surface, rw: Rw, block: u32) -> Option<f64> {
    row(surface, rw, block).filter_map(|cell| cell.bytes_per_second.value).max_by(f64::total_cmp)
}

/// Returns the shortest and the longest p99 of a direction, ns.
pub(crate) fn p99_range(surface: &Surface, rw: Rw) -> (f64, f64) {
    let all = surface.cells.iter().filter(|cell| cell.rw == rw).filter_map(|cell| cell.lat_p99_ns.value);
    all.fold((f64::INFINITY, 1.0), |(least, most), value| (least.min(value).max(1.0), most.max(value)))
}

/// Formats a latency in at most six characters: `87us`, `1.2ms`, `310ms`, `2.1s`.
pub(crate) fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        v if v < 999.5 => return format!("{v:.0}ns"),
        v if v < 999.5e3 => (v / 1e3, "us"),
        v if v < 999.5e6 => (v / 1e6, "ms"),
        v => (v / 1e9, "s"),
    };
    if value < 9.95 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

/// Formats a depth: `3.2`, `14`.
fn depth(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// Returns a knee in words: `14 [12..17]`, `at least 60`, `at most 1`, `not resolved`.
pub(crate) fn knee(bend: &Bend) -> String {
    worded_bend(bend, depth)
}

fn worded_bend(bend: &Bend, format: impl Fn(f64) -> String) -> String {
    let Bend { state, at, .. } = bend;
    match (state, at.value, at.low, at.high) {
        (BendState::Seen, Some(value), Some(low), Some(high)) => {
            format!("{} [{}..{}]", format(value), format(low), format(high))
        }
        (BendState::AtLeast, _, Some(low), _) => format!("at least {}", format(low)),
        (BendState::AtMost, _, _, Some(high)) => format!("at most {}", format(high)),
        _ => "not resolved".to_owned(),
    }
}

/// Returns the allowed depth and its rate: `16 (98.2k/s)`, `64 or more (112k/s)`, `none`; `likely` if the intervals leave
/// doubt.
pub(crate) fn allowed(allowed: &Allowed) -> String {
    let doubt = if allowed.certain { "" } else { "likely " };
    match allowed.iodepth {
        None if allowed.certain => "none".to_owned(),
        None => "not resolved".to_owned(),
        Some(depth) => {
            let more = if allowed.at_least { " or more" } else { "" };
            let iops = allowed.iops.value.map_or_else(|| "?".to_owned(), format_count);
            format!("{doubt}{depth}{more} ({iops}/s)")
        }
    }
}

fn block(bytes: f64) -> String {
    if bytes < 1024.0 * 1023.5 { format!("{:.0} KiB", bytes / 1024.0) } else { format!("{:.1} MiB", bytes / 1048576.0) }
}

/// Returns a sentence for each direction.
pub(crate) fn crossovers(surface: &Surface) -> Vec<String> {
    surface.crossovers.iter().map(crossover).collect()
}

fn crossover(found: &Crossover) -> String {
    let at = format!("{} at depth {}", found.rw.name(), found.iodepth);
    let iops = found.iops_limit.map(format_count).unwrap_or_default();
    let bytes = found.bytes_limit.map(format_rate).unwrap_or_default();
    let more = if found.saturated { "" } else { " (a deeper queue may do more small requests)" };
    match found.block.state {
        BendState::Seen => format!(
            "{at}: {iops} IOPS bind below {}, {bytes} above{more}.",
            worded_bend(&found.block, block).replace(" [", ", 95 % [")
        ),
        BendState::AtLeast => {
            format!("{at}: {iops} IOPS bind at every block size measured; no limit in MB/s was reached{more}.")
        }
        BendState::AtMost => format!("{at}: {bytes} bind at every block size measured; no limit in IOPS was reached."),
        BendState::NotResolved => format!("{at}: the figures do not show where the limit changes from IOPS to MB/s."),
    }
}

/// Returns the results of the checks.
pub(crate) fn checks(surface: &Surface) -> Vec<String> {
    let all = surface.cells.len();
    let with = |flag: CellFlag| surface.cells.iter().filter(|cell| cell.flags.contains(&flag)).collect::<Vec<_>>();
    let named = |cells: &[&Cell]| {
        let names = cells
            .iter()
            .take(4)
            .map(|cell| format!("{} {} at {}", cell.rw.name(), short_size(Bytes(u64::from(cell.block))), cell.iodepth));
        let more = if cells.len() > 4 { format!(" and {} more", cells.len() - 4) } else { String::new() };
        format!("{}{more}", names.collect::<Vec<_>>().join(", "))
    };
    let mut lines = Vec::new();
    let mut broken = with(CellFlag::DepthNotReached);
    broken.extend(with(CellFlag::LittleBroken));
    lines.push(if broken.is_empty() {
        format!("Little's law holds: throughput times latency is the requested depth in all {all} cells.")
    } else {
        format!("Little's law: not the requested depth in {} of {all} cells ({}).", broken.len(), named(&broken))
    });
    let apart = with(CellFlag::PassesDisagree);
    let passes: Vec<String> = surface
        .drift
        .iter()
        .filter_map(|drift| Some(format!("pass {} {:+.1} %", drift.pass, drift.relative.value? * 100.0)))
        .collect();
    if !passes.is_empty() {
        let cells = match apart.as_slice() {
            [] => "no cell's passes disagree by more than chance".to_owned(),
            apart => format!("the passes of {} of {all} cells disagree ({})", apart.len(), named(apart)),
        };
        lines.push(format!("Compared with the mean of all passes: {}; {cells}.", passes.join(", ")));
    }
    let errors = with(CellFlag::Errors);
    if !errors.is_empty() {
        lines.push(format!("Requests FAILED in {} cells ({}).", errors.len(), named(&errors)));
    }
    lines
}

/// Returns the answer: for the smallest block of each direction the highest rate, the knee, and the depth up to which
/// p99 stays within its bound.
pub(crate) fn sentence(report: &Report, surface: &Surface) -> String {
    let smallest = surface
        .curves
        .iter()
        .filter(|curve| surface.curves.iter().all(|other| other.rw != curve.rw || other.block >= curve.block));
    let curves: Vec<String> = smallest
        .filter_map(|curve| {
            let best = curve.iops_best.value.map(format_count)?;
            let what = format!("{} {}", curve.rw.name(), short_size(Bytes(u64::from(curve.block))));
            let knee = match curve.knee.state {
                BendState::Seen => format!(" (beyond depth {}, more requests mostly wait longer)", knee(&curve.knee)),
                BendState::AtLeast => format!(" (more than {} in flight may do more)", knee_end(curve.knee.at.low)),
                BendState::AtMost => {
                    format!(" (beyond depth {}, more requests only wait longer)", knee_end(curve.knee.at.high))
                }
                BendState::NotResolved => String::new(),
            };
            Some(format!("{what}: up to {best} IOPS{knee}{}", within(surface, curve)))
        })
        .collect();
    let so_far = if report.record.interrupted { "So far: " } else { "" };
    let curves = if curves.is_empty() { "no curve can be drawn".to_owned() } else { curves.join("; ") };
    format!("{so_far}{curves}.")
}

fn knee_end(at: Option<f64>) -> String {
    at.map_or_else(|| "?".to_owned(), depth)
}

/// `, p99 within 1.0ms up to depth 16`; empty where no bound was given.
fn within(surface: &Surface, curve: &Curve) -> String {
    let (Some(bound), Some(allowed)) = (surface.asked.max_p99_ns, &curve.allowed) else { return String::new() };
    let bound = time(bound as f64);
    match allowed.iodepth {
        Some(depth) if allowed.at_least => format!(", p99 within {bound} at every depth measured, up to {depth}"),
        Some(depth) if allowed.certain => format!(", p99 within {bound} up to depth {depth}"),
        Some(depth) => format!(", p99 within {bound} up to about depth {depth}"),
        None if allowed.certain => format!(", p99 above {bound} at every depth"),
        None => format!(", p99 not resolved against {bound}"),
    }
}

/// Returns the steps that did not run, in one line for each reason.
pub(crate) fn not_run(report: &Report) -> Vec<String> {
    let skipped = &report.record.plan.skipped;
    distinct(skipped.iter().map(|skip| skip.why.as_str()))
        .into_iter()
        .map(|why| {
            let names: Vec<&str> =
                skipped.iter().filter(|skip| skip.why == why).map(|skip| skip.name.as_str()).collect();
            match names.as_slice() {
                [one] => format!("{one}: {why}"),
                [first, .., last] => format!("{} steps, {first} to {last}: {why}", names.len()),
                [] => String::new(),
            }
        })
        .collect()
}

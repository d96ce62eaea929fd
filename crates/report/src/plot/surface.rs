//! A sweep over block sizes and iodepths: operations and bytes per second, and tails, with the knee of each block size.

use qd1_model::Bytes;
use qd1_model::plan::Rw;
use qd1_model::sweep::{BendState, Cell, Surface};
use qd1_model::units::short_size;

use super::{Axis, AxisUnit, Band, Body, Chart, Grid, Group, Pictured, Series, named};
use crate::sections::sweep::{blocks, cell, depths, directions};

const DEPTH: Axis = Axis { label: "iodepth", unit: AxisUnit::Names, is_log: false };
const BLOCK: Axis = Axis { label: "block size", unit: AxisUnit::Names, is_log: false };

/// Returns the charts of each sweep, by direction.
pub(super) fn groups(runs: &[Pictured]) -> Vec<Group> {
    let surfaces = runs.iter().filter_map(|run| Some((run, run.report.part::<Surface>()?)));
    surfaces
        .flat_map(|(run, surface)| directions(surface).into_iter().map(move |rw| group(runs, run, surface, rw)))
        .collect()
}

fn group(runs: &[Pictured], run: &Pictured, surface: &Surface, rw: Rw) -> Group {
    let of = |quantity: &str, title: &str, unit, value: fn(&Cell) -> Option<f64>| Chart {
        id: format!("{quantity}-{}", named(runs, run, rw.name()).replace(' ', "-")),
        title: format!("{}: {title}", named(runs, run, rw.name())),
        note: "A dash: nothing was measured, or too little to tell.".to_owned(),
        x: DEPTH,
        y: BLOCK,
        body: Body::Grid { grid: grid(surface, rw, unit, value) },
        time: None,
        bounds: Vec::new(),
        made: String::new(),
    };
    let charts = vec![
        lines(runs, run, surface, rw),
        of("iops", "operations per second", AxisUnit::PerSecond, |cell| cell.iops.value),
        of("bandwidth", "bytes per second", AxisUnit::BytesPerSecond, |cell| cell.bytes_per_second.value),
        of("p99", "99th percentile of latency", AxisUnit::Ns, |cell| cell.lat_p99_ns.value),
    ];
    let title = format!("Sweep of {}", named(runs, run, rw.name()));
    Group { title, about: "block sizes and iodepths".to_owned(), findings: Vec::new(), is_open: true, charts }
}

fn grid(surface: &Surface, rw: Rw, unit: AxisUnit, value: fn(&Cell) -> Option<f64>) -> Grid {
    let (blocks, depths) = (blocks(surface, rw), depths(surface, rw));
    let of_row = |block: &u32| depths.iter().map(|depth| cell(surface, rw, *block, *depth).and_then(value)).collect();
    let mut marked = Vec::new();
    for (row, block) in blocks.iter().enumerate() {
        let curve = surface.curves.iter().find(|curve| curve.rw == rw && curve.block == *block);
        let knee = curve.filter(|curve| curve.knee.state == BendState::Seen).and_then(|curve| curve.knee.at.value);
        let nearest = knee.and_then(|knee| {
            let distance = |depth: &u32| (f64::from(*depth).ln() - knee.max(1.0).ln()).abs();
            (0..depths.len()).min_by(|a, b| distance(&depths[*a]).total_cmp(&distance(&depths[*b])))
        });
        marked.extend(nearest.map(|column| (row, column)));
    }
    Grid {
        columns: depths.iter().map(u32::to_string).collect(),
        rows: blocks.iter().map(|block| short_size(Bytes(u64::from(*block)))).collect(),
        values: blocks.iter().map(of_row).collect(),
        unit: Some(unit),
        mark: if marked.is_empty() { String::new() } else { "the depth nearest to the knee".to_owned() },
        marked,
    }
}

/// Operations per second against iodepth, a line for each block size.
fn lines(runs: &[Pictured], run: &Pictured, surface: &Surface, rw: Rw) -> Chart {
    let line = |block: u32| {
        let measured = depths(surface, rw).into_iter().filter_map(|depth| {
            let found = cell(surface, rw, block, depth)?;
            Some((f64::from(depth), found.iops))
        });
        let mut series = Series { name: short_size(Bytes(u64::from(block))), ..Series::default() };
        let mut band = Band::default();
        for (depth, iops) in measured {
            series.x.push(Some(depth));
            series.y.push(iops.value);
            if let (Some(low), Some(high)) = (iops.low, iops.high) {
                band.x.push(Some(depth));
                band.low.push(Some(low));
                band.high.push(Some(high));
            }
        }
        // Where one depth has no figure, a shade across it would claim one.
        let is_whole = band.x.len() > 1 && band.x.len() == series.x.len();
        Series { band: is_whole.then_some(band), ..series }
    };
    Chart {
        id: format!("depth-{}", named(runs, run, rw.name()).replace(' ', "-")),
        title: format!("{}: operations per second by iodepth", named(runs, run, rw.name())),
        note: "A line for each block size; where it bends, the disk is saturated.".to_owned(),
        x: Axis { label: "iodepth", unit: AxisUnit::Count, is_log: true },
        y: Axis { label: "operations per second", unit: AxisUnit::PerSecond, is_log: true },
        body: Body::Lines { series: blocks(surface, rw).into_iter().map(line).collect() },
        time: None,
        bounds: Vec::new(),
        made: String::new(),
    }
}

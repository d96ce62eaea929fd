//! A sweep for a data frame: one row per cell, with the knee of its curve.

use qd1_model::sweep::{BendState, Cell, CellFlag, Surface};
use qd1_model::{Bytes, Estimate, Report};

const HEADER: &str = "run,rw,bs,iodepth,iops,iops_low,iops_high,bytes_per_second,lat_mean_ns,lat_p50_ns,lat_p99_ns,\
                      lat_p99_low_ns,lat_p99_high_ns,lat_p999_ns,n,in_flight,in_flight_device,pass_iops,flags,knee_is,\
                      knee,knee_low,knee_high\n";

/// Returns all cells. Unresolved figures are empty; lists inside a field are separated by spaces.
pub(crate) fn render(report: &Report, surface: &Surface) -> String {
    let mut text = HEADER.to_owned();
    for cell in &surface.cells {
        let fields = row(&report.record.id, surface, cell);
        debug_assert_eq!(fields.len(), HEADER.split(',').count(), "a row has a field for each title");
        text += &fields.join(",");
        text.push('\n');
    }
    text
}

fn row(run: &str, surface: &Surface, cell: &Cell) -> Vec<String> {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let value = |estimate: &Estimate| number(estimate.value);
    let knee = surface.curves.iter().find(|curve| (curve.rw, curve.block) == (cell.rw, cell.block)).map(|c| c.knee);
    let at = knee.map(|knee| knee.at).unwrap_or_default();
    vec![
        run.to_owned(),
        cell.rw.name().to_owned(),
        Bytes(u64::from(cell.block)).0.to_string(),
        cell.iodepth.to_string(),
        value(&cell.iops),
        number(cell.iops.low),
        number(cell.iops.high),
        value(&cell.bytes_per_second),
        value(&cell.lat_mean_ns),
        value(&cell.lat_p50_ns),
        value(&cell.lat_p99_ns),
        number(cell.lat_p99_ns.low),
        number(cell.lat_p99_ns.high),
        value(&cell.lat_p999_ns),
        cell.iops.n.to_string(),
        cell.in_flight.to_string(),
        number(cell.in_flight_device),
        cell.pass_iops.iter().map(f64::to_string).collect::<Vec<_>>().join(" "),
        cell.flags.iter().map(|flag| flag_name(*flag)).collect::<Vec<_>>().join(" "),
        knee.map(|knee| state_name(knee.state)).unwrap_or_default().to_owned(),
        number(at.value),
        number(at.low),
        number(at.high),
    ]
}

const fn flag_name(flag: CellFlag) -> &'static str {
    match flag {
        CellFlag::DepthNotReached => "depth_not_reached",
        CellFlag::LittleBroken => "little_broken",
        CellFlag::DeviceQueueShallow => "device_queue_shallow",
        CellFlag::PassesDisagree => "passes_disagree",
        CellFlag::Errors => "errors",
    }
}

const fn state_name(state: BendState) -> &'static str {
    match state {
        BendState::Seen => "seen",
        BendState::AtLeast => "at_least",
        BendState::AtMost => "at_most",
        BendState::NotResolved => "not_resolved",
    }
}

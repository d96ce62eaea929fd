//! The lines about latencies in the normal report: extremes, percentiles, the distribution.

use std::fmt::Write as _;

use qd1_model::job::LatStat;

use super::figures;
use super::json::LATENCY_BOUNDS;
use super::units::{LatencyUnit, Unit, short};
use crate::job::FioJob;

/// Width of a line, not counting its beginning.
const LINE: usize = 80 - 7;

/// `    clat (usec): min=25, max=20029, avg=929.02, stdev=2193.93`; nothing where nothing was measured.
pub(super) fn extremes(out: &mut String, name: &str, lat: &LatStat) {
    let moments = &lat.moments;
    if moments.n == 0 {
        return;
    }
    // A spread below a thousandth of the next unit would disappear in it.
    let mut unit = LatencyUnit::of(moments.min, moments.max);
    if unit == LatencyUnit::Msec && moments.stdev() <= 1e6 {
        unit = LatencyUnit::Usec;
    }
    if unit == LatencyUnit::Usec && moments.stdev() <= 1e3 {
        unit = LatencyUnit::Nsec;
    }
    let whole = |ns: u64| short(ns / unit.ns(), 6, false, Unit::Plain);
    let parts = |ns: f64| ns / unit.ns() as f64;
    let (min, max, mean, stdev) = (whole(moments.min), whole(moments.max), parts(moments.mean), parts(moments.stdev()));
    let unit = unit.name();
    let _ = writeln!(out, "    {name} ({unit}): min={min}, max={max}, avg={mean:5.2}, stdev={stdev:5.2}");
}

/// `    clat percentiles (usec):` and its table; nothing where nothing was measured.
pub(super) fn percentiles(out: &mut String, name: &str, job: &FioJob, places: usize, lat: &LatStat) {
    let values = figures::percentile_values(job, lat);
    if lat.moments.n == 0 || values.is_empty() {
        return;
    }
    let (min, max) = (values.iter().map(|(_, ns)| *ns).min(), values.iter().map(|(_, ns)| *ns).max());
    let unit = LatencyUnit::of(min.unwrap_or(0), max.unwrap_or(0));
    let _ = writeln!(out, "    {name} percentiles ({}):", unit.name());
    let in_unit = |ns: u64| ns.div_ceil(unit.ns());
    let digits = values.iter().map(|(_, ns)| in_unit(*ns).to_string().len()).max().unwrap_or(0).max(5);
    let width = places + 3;
    // ` 99.00th=[11600],`
    let rows = values.chunks((LINE / (1 + width + "th=[],".len() + digits)).max(1));
    let last = rows.len() - 1;
    for (index, row) in rows.enumerate() {
        let entries: Vec<String> = row
            .iter()
            .map(|(percentile, ns)| format!(" {percentile:width$.places$}th=[{:digits$}]", in_unit(*ns)))
            .collect();
        let _ = writeln!(out, "     |{}{}", entries.join(","), if index < last { "," } else { "" });
    }
}

/// The distribution of one unit: `  lat (usec)   : 2=0.01%, 20=0.01%`, five to a line, empty ones left out.
pub(super) fn distribution(out: &mut String, unit: LatencyUnit, shares: &[f64]) {
    let entries: Vec<String> = LATENCY_BOUNDS
        .iter()
        .zip(shares)
        .filter(|(_, share)| **share > 0.0)
        .map(|(bound, share)| format!("{bound}={share:.2}%"))
        .collect();
    for line in entries.chunks(5) {
        let _ = writeln!(out, "  lat ({})   : {}", unit.name(), line.join(", "));
    }
}

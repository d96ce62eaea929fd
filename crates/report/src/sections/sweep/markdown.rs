//! A sweep as tables for an issue or a forum post.

use qd1_model::sweep::Surface;
use qd1_model::units::{format_count, format_rate};
use qd1_model::{Bytes, Report};

use super::words;
use qd1_model::units::short_size;

/// Writes the section of the Markdown report.
pub(crate) fn section(text: &mut String, report: &Report, surface: &Surface) {
    for rw in words::directions(surface) {
        let depths = words::depths(surface, rw);
        let numbers: String = depths.iter().map(|depth| format!(" {depth} |")).collect();
        *text += &format!("### {}: IOPS, p99 by block size and iodepth\n\n| bs |{numbers} best |\n", rw.name());
        *text += &format!("|---|{}--:|\n", "--:|".repeat(depths.len()));
        for block in words::blocks(surface, rw) {
            let cells: String = depths
                .iter()
                .map(|depth| match words::cell(surface, rw, block, *depth) {
                    None => " - |".to_owned(),
                    Some(cell) => {
                        let iops = cell.iops.value.map_or_else(|| "?".to_owned(), format_count);
                        let p99 = cell.lat_p99_ns.value.map_or_else(|| "?".to_owned(), words::time);
                        let mark = if cell.flags.is_empty() { "" } else { "!" };
                        format!(" {iops}, {p99}{mark} |")
                    }
                })
                .collect();
            let best = words::best_rate(surface, rw, block).map_or_else(|| "-".into(), format_rate);
            *text += &format!("| {} |{cells} {best} |\n", short_size(Bytes(u64::from(block))));
        }
        text.push('\n');
    }
    *text += "### Knees\n\n| rw | bs | knee [95 % interval] | ceiling | best | allowed by the bound |\n";
    *text += "|---|--:|---|--:|--:|---|\n";
    for curve in &surface.curves {
        let ceiling = curve.iops_ceiling.map_or_else(|| "not reached".to_owned(), format_count);
        let best = curve.iops_best.value.map_or_else(|| "?".to_owned(), format_count);
        let allowed = curve.allowed.as_ref().map(words::allowed).unwrap_or_default();
        let (rw, block) = (curve.rw.name(), short_size(Bytes(u64::from(curve.block))));
        let knee = words::knee(&curve.knee);
        *text += &format!("| {rw} | {block} | {knee} | {ceiling} | {best} at {} | {allowed} |\n", curve.iodepth_best);
    }
    text.push('\n');
    for line in words::crossovers(surface).iter().chain(&words::checks(surface)) {
        *text += &format!("- {line}\n");
    }
    for why in words::not_run(report) {
        *text += &format!("- Not run: {why}\n");
    }
    text.push('\n');
}

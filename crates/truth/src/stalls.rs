//! Do the figures of stalls hold? On the disks of [`repeat`](crate::repeat), and on fast ones that stall now and then.

use std::fmt::Write as _;

use qd1_engine::sim::{Device, Neighbours};
use qd1_model::Estimate;
use qd1_model::op::OpClass;
use qd1_model::spec::Effort;

use crate::Seeds;
use crate::parallel::each;
use crate::repeat::{Cell, Part, Row, SECOND_NS, cells, local_nvme, planned, run};

/// The figures of the stalls that one kind of operation met in all steps.
const OF_STALLS: [&str; 2] = ["longest", "share"];

/// A local NVMe drive that stalls now and then, with this frequency and duration.
pub(crate) fn waiting_nvme(every_s: f64, stall_ns: f64, stall_sigma: f64) -> Device {
    let stalls_per_s = 1.0 / every_s;
    let neighbours = Neighbours { sigma: 0.0, memory_ns: SECOND_NS, stalls_per_s, stall_ns, stall_sigma };
    Device { neighbours: Some(neighbours), ..local_nvme() }
}

/// All disks of `repeat`, and fast ones that stall: for about 0.1 s, as on a shared machine, and for 0.2 s with some
/// stalls ten times as long.
fn cells_with_rare_stalls() -> Vec<Cell> {
    let rare = [
        ("0.1 s in 20", waiting_nvme(20.0, 100e6, 0.4)),
        ("0.1 s in 5", waiting_nvme(5.0, 100e6, 0.4)),
        ("0.2 s, heavy", waiting_nvme(10.0, 200e6, 1.0)),
    ];
    cells().into_iter().chain(rare.map(|(name, device)| Cell::of(name, device))).collect()
}

/// How often the figures of stalls held: the longest compared with all other runs, the share compared with all runs
/// pooled.
fn study(cell: &Cell, seeds: Seeds, count: u64) -> Vec<Row> {
    let planned = planned(Effort::Default);
    let runs = each(0..count, |number| run(cell, &planned, seeds.seed(number) ^ 0x0005_E9EA_0000_0000));
    let mut rows = Vec::new();
    for class in [OpClass::Read, OpClass::Commit] {
        let of_class = |run: &Vec<Part>| run.iter().find(|part| part.class == class).map(|part| part.stalls);
        let all: Vec<[Estimate; 2]> = runs.iter().filter_map(of_class).collect();
        let value = |which: usize| all.iter().filter_map(move |one| one[which].value);
        let mean_share = value(1).sum::<f64>() / value(1).count().max(1) as f64;
        for (which, figure) in OF_STALLS.into_iter().enumerate() {
            let printed: Vec<(usize, f64, f64)> = all
                .iter()
                .enumerate()
                .filter_map(|(run, one)| Some((run, one[which].low?, one[which].high?)))
                .collect();
            // The longest is an upper bound, compared with each other run's longest; the share is compared with that of
            // all runs.
            let held = |(run, low, high): &(usize, f64, f64)| match which {
                0 => value(0).enumerate().filter(|(other, longest)| other != run && longest <= high).count(),
                _ => usize::from((*low..=*high).contains(&mean_share)),
            };
            let above = |(_, low, _): &&(usize, f64, f64)| which == 1 && *low > mean_share;
            let each = if which == 0 { all.len() - 1 } else { 1 };
            let mut ratios: Vec<f64> = printed.iter().map(|(_, low, high)| high / low).collect();
            ratios.sort_by(f64::total_cmp);
            rows.push(Row {
                cell: cell.name.clone(),
                step: class.name().to_owned(),
                figure,
                runs: all.len() * each,
                printed: printed.len() * each,
                held: printed.iter().map(held).sum(),
                above: printed.iter().filter(above).count(),
                ratio: ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN),
                over_oracle: f64::NAN,
            });
        }
    }
    rows
}

/// The table.
pub fn table(seeds: Seeds, count: u64) -> String {
    let mut text = format!("stalls: {count} runs of check's visits on each disk, {seeds:?} seeds\n");
    let _ = writeln!(
        text,
        "  % of other runs within the upper limit of the longest wait (95 %), of the 95 % intervals of the share of\n  \
         moments with a wait of 100 ms that contain the long run's (% printed; median of upper / lower limit)"
    );
    let _ = writeln!(text, "  {:<24}{}", "", OF_STALLS.map(|figure| format!("{figure:>28}")).concat());
    for cell in cells_with_rare_stalls() {
        for of_class in study(&cell, seeds, count).chunks(OF_STALLS.len()) {
            let show = |row: &Row| {
                let percent = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
                let (held, printed) = (100.0 * row.coverage(), percent(row.printed, row.runs));
                format!("{:>28}", format!("{held:.1} ({printed:.0}; {:.2})", row.ratio))
            };
            let shown: Vec<String> = of_class.iter().map(show).collect();
            let _ = writeln!(text, "  {:<16}{:<8}{}", cell.name, of_class[0].step, shown.concat());
        }
    }
    text
}

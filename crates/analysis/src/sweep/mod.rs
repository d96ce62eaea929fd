//! A sweep over block size, iodepth and rw: what its Record shows (docs/method.md).
//!
//! [`surface`] turns the Record into cells, knees and crossovers; [`findings()`] says which of them not to trust.

mod bend;
mod cells;
mod curve;
mod findings;
#[cfg(test)]
mod testing;

pub(crate) use cells::between_passes;
pub use findings::findings;

use qd1_model::plan::Rw;
use qd1_model::sweep::{Bend, BendState, Cell, PassDrift, Surface};
use qd1_model::{Estimate, Record};

use qd1_stats::t_975;

/// The surface of a sweep; `None` for other runs.
#[must_use]
pub fn surface(record: &Record) -> Option<Surface> {
    let asked = record.plan.sweep?;
    let cells = cells::cells(record);
    let of = |wanted: &dyn Fn(&Cell) -> bool| cells.iter().filter(|cell| wanted(cell)).collect::<Vec<_>>();
    let mut curves = Vec::new();
    for (rw, block) in distinct(&cells, |cell| (cell.rw, cell.block)) {
        curves.extend(curve::curve(&of(&|cell| (cell.rw, cell.block) == (rw, block)), asked.max_p99_ns));
    }
    let crossovers = distinct(&cells, |cell| cell.rw)
        .into_iter()
        .filter_map(|rw| {
            let deepest = deepest_common(&cells, rw)?;
            curve::crossover(&of(&|cell| (cell.rw, cell.iodepth) == (rw, deepest)), &curves)
        })
        .collect();
    let drift = drift(&cells, asked.passes as usize);
    Some(Surface { asked, curves, crossovers, drift, cells })
}

/// Values of `key`, each once, in the cells' order.
fn distinct<K: PartialEq>(cells: &[Cell], key: impl Fn(&Cell) -> K) -> Vec<K> {
    let mut all = Vec::new();
    for cell in cells {
        let key = key(cell);
        if !all.contains(&key) {
            all.push(key);
        }
    }
    all
}

/// The deepest queue that was measured with every block size of `rw`.
fn deepest_common(cells: &[Cell], rw: Rw) -> Option<u32> {
    let blocks = distinct(cells, |cell| (cell.rw, cell.block)).into_iter().filter(|key| key.0 == rw).count();
    let depths = cells.iter().filter(|cell| cell.rw == rw).map(|cell| cell.iodepth);
    let complete = |depth: &u32| cells.iter().filter(|cell| (cell.rw, cell.iodepth) == (rw, *depth)).count() == blocks;
    depths.filter(complete).max()
}

/// Each pass compared with the mean of all, from the cells that every pass measured.
fn drift(cells: &[Cell], passes: usize) -> Vec<PassDrift> {
    let complete: Vec<Vec<f64>> = cells
        .iter()
        .filter(|cell| cell.pass_iops.len() == passes && cell.pass_iops.iter().all(|rate| *rate > 0.0))
        .map(|cell| {
            let logs: Vec<f64> = cell.pass_iops.iter().map(|rate| rate.ln()).collect();
            let mean = logs.iter().sum::<f64>() / passes as f64;
            logs.iter().map(|log| log - mean).collect()
        })
        .collect();
    if passes < 2 || complete.len() < 4 {
        return Vec::new();
    }
    let n = complete.len() as f64;
    (0..passes)
        .map(|pass| {
            let mean = complete.iter().map(|cell| cell[pass]).sum::<f64>() / n;
            let variance = complete.iter().map(|cell| (cell[pass] - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let half = t_975(n - 1.0) * (variance / n).sqrt();
            let relative = Estimate {
                value: Some(mean.exp_m1()),
                low: Some((mean - half).exp_m1()),
                high: Some((mean + half).exp_m1()),
                n: complete.len() as u64,
                n_effective: n,
                n_needed: 0,
            };
            PassDrift { pass: pass as u32 + 1, relative }
        })
        .collect()
}

/// A bend about which nothing is known.
fn unknown_bend() -> Bend {
    Bend { state: BendState::NotResolved, at: Estimate::default(), sharpness: 0.0, residual: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::plan::sweep::SweepPlan;
    use qd1_model::sweep::CellFlag;

    #[test]
    fn only_a_sweep_has_a_surface() {
        assert_eq!(surface(&crate::testing::record()), None);
    }

    #[test]
    fn a_half_empty_queue_is_flagged_by_littles_law() {
        let mut record = testing::record(&[1, 2, 4, 8], 1.0);
        assert!(surface(&record).unwrap().cells.iter().all(|cell| cell.flags.is_empty()));
        assert_eq!(findings(&surface(&record).unwrap()), []);
        record = testing::record(&[1, 2, 4, 8], 0.6);
        let surface = surface(&record).unwrap();
        assert!(surface.cells.iter().all(|cell| cell.flags == [CellFlag::DepthNotReached]), "{:?}", surface.cells);
        let found = findings(&surface);
        assert_eq!((found.len(), found[0].id.name(), found[0].also_in.len()), (1, "sweep_depth_not_reached", 3));
    }

    #[test]
    fn more_in_flight_than_there_can_be_is_a_contradiction() {
        let surface = surface(&testing::record(&[1, 2, 4, 8], 1.5)).unwrap();
        assert_eq!(findings(&surface)[0].id, qd1_model::FindingId::SweepLittleBroken);
    }

    #[test]
    fn a_queue_that_the_device_does_not_see_is_reported() {
        let mut record = testing::record(&[1, 2, 4, 8, 16], 1.0);
        for step in &mut record.steps {
            testing::at_device(step, 1.0);
        }
        let surface = surface(&record).unwrap();
        let shallow: Vec<u32> = surface
            .cells
            .iter()
            .filter(|cell| cell.flags.contains(&CellFlag::DeviceQueueShallow))
            .map(|cell| cell.iodepth)
            .collect();
        assert_eq!(shallow, [4, 8, 16]);
        assert_eq!(findings(&surface)[0].id, qd1_model::FindingId::SweepDeviceQueue);
    }

    #[test]
    fn a_pass_slower_than_the_others_is_drift() {
        let cells: Vec<Cell> = (0..8)
            .map(|at| Cell {
                pass_iops: vec![1000.0, 850.0 + f64::from(at)],
                ..testing::cell(4096, 1 << at, 925.0, 1e5)
            })
            .collect();
        let drift = drift(&cells, 2);
        assert!((drift[1].relative.value.unwrap() + 0.077).abs() < 0.01, "{drift:?}");
        let asked = SweepPlan { passes: 2, max_p99_ns: None };
        let surface = Surface { asked, cells, curves: vec![], crossovers: vec![], drift };
        assert_eq!(findings(&surface)[0].id, qd1_model::FindingId::SweepDrift);
    }
}

//! What a row of cells shows: the knee over iodepth, the depth that a latency bound allows, and, across rows, the block
//! size at which bytes per second take over from operations per second.

use qd1_model::sweep::{Allowed, BendState, Cell, Crossover, Curve};

use super::bend::{Fit, Point, fit};
use qd1_stats::sigma;

/// Used if a cell's uncertainty is not known.
const SIGMA_UNKNOWN: f64 = 0.2;
/// Deeper queues that achieve this much less than the best no longer follow the same law: contention has set in.
const FALL: f64 = 0.93;

/// The curve of `cells`, all of one rw and block size, shallowest first.
pub(super) fn curve(cells: &[&Cell], max_p99_ns: Option<u64>) -> Option<Curve> {
    let first = cells.first()?;
    let best = cells.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let falls = cells.last().is_some_and(|last| rate(last) < FALL * rate(best));
    let rising: Vec<Point> = cells
        .iter()
        .filter(|cell| cell.iodepth <= best.iodepth || rate(cell) >= FALL * rate(best))
        .map(|cell| point(f64::from(cell.iodepth), rate(cell), cell))
        .collect();
    let fitted = fit(&rising);
    let reached = |fit: &Fit| matches!(fit.bend.state, BendState::Seen | BendState::AtMost);
    Some(Curve {
        rw: first.rw,
        block: first.block,
        knee: fitted.map_or_else(super::unknown_bend, |fit| fit.bend),
        iops_ceiling: fitted.filter(reached).map(|fit| fit.ceiling),
        iops_best: best.iops,
        iodepth_best: best.iodepth,
        falls,
        allowed: max_p99_ns.map(|bound| allowed(cells, bound as f64)),
    })
}

fn rate(cell: &Cell) -> f64 {
    cell.iops.value.unwrap_or(0.0)
}

fn point(x: f64, y: f64, cell: &Cell) -> Point {
    Point { x, y, sigma: sigma(&cell.iops).unwrap_or(SIGMA_UNKNOWN) }
}

/// The deepest queue within the bound; deeper ones that happen to meet it again do not count.
fn allowed(cells: &[&Cell], bound_ns: f64) -> Allowed {
    let p99 = |cell: &&Cell| cell.lat_p99_ns.value.unwrap_or(f64::INFINITY);
    let within = cells.iter().take_while(|cell| p99(cell) <= bound_ns).count();
    let last = within.checked_sub(1).map(|at| cells[at]);
    let next = cells.get(within);
    let holds = last.is_none_or(|cell| cell.lat_p99_ns.high.is_some_and(|high| high <= bound_ns));
    let breaks = next.is_none_or(|cell| cell.lat_p99_ns.low.is_some_and(|low| low > bound_ns));
    let interpolated = last.zip(next).and_then(|(last, next)| {
        let (from, to) = (last.lat_p99_ns.value?.ln(), next.lat_p99_ns.value?.ln());
        let share = ((bound_ns.ln() - from) / (to - from)).clamp(0.0, 1.0);
        let (shallow, deep) = (f64::from(last.iodepth).ln(), f64::from(next.iodepth).ln());
        (to > from).then(|| (shallow + share * (deep - shallow)).exp())
    });
    Allowed {
        iodepth: last.map(|cell| cell.iodepth),
        at_least: next.is_none() && !cells.is_empty(),
        certain: holds && breaks,
        interpolated,
        iops: last.map(|cell| cell.iops).unwrap_or_default(),
    }
}

/// The crossover of one rw: `cells` of one depth, smallest block first; `knees` are its curves.
pub(super) fn crossover(cells: &[&Cell], curves: &[Curve]) -> Option<Crossover> {
    let first = cells.first()?;
    let points: Vec<Point> =
        cells.iter().map(|cell| point(f64::from(cell.block), rate(cell) * f64::from(cell.block), cell)).collect();
    let fitted = fit(&points)?;
    let knee = curves.iter().find(|curve| (curve.rw, curve.block) == (first.rw, first.block)).map(|curve| curve.knee);
    let saturated = knee.is_some_and(|knee| match knee.state {
        BendState::Seen => knee.at.value.is_some_and(|at| at <= f64::from(first.iodepth)),
        BendState::AtMost => true,
        BendState::AtLeast | BendState::NotResolved => false,
    });
    let state = fitted.bend.state;
    let knows_iops = matches!(state, BendState::Seen | BendState::AtLeast);
    let knows_bytes = matches!(state, BendState::Seen | BendState::AtMost);
    Some(Crossover {
        rw: first.rw,
        iodepth: first.iodepth,
        block: fitted.bend,
        iops_limit: knows_iops.then_some(fitted.rise),
        bytes_limit: knows_bytes.then_some(fitted.ceiling),
        saturated,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::testing::cell;

    fn bounded(p99_us: &[f64], bound_us: f64) -> Allowed {
        let cells: Vec<Cell> = p99_us.iter().enumerate().map(|(at, p99)| cell(4096, 1 << at, 1e4, p99 * 1e3)).collect();
        allowed(&cells.iter().collect::<Vec<_>>(), bound_us * 1e3)
    }

    #[test]
    fn a_latency_bound_allows_the_deepest_queue_within_it() {
        let found = bounded(&[100.0, 110.0, 200.0, 400.0, 800.0], 300.0);
        assert_eq!((found.iodepth, found.at_least, found.certain), (Some(4), false, true));
        // p99 doubles with the depth, so 300 us are met at 4 * 1.5.
        assert!((found.interpolated.unwrap() / 6.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_deeper_queue_that_happens_to_be_fast_again_does_not_count() {
        assert_eq!(bounded(&[100.0, 500.0, 200.0], 300.0).iodepth, Some(1));
    }

    #[test]
    fn bounds_that_all_or_no_depths_meet_are_said_to_be_so() {
        let all = bounded(&[100.0, 110.0], 300.0);
        assert!(all.at_least && all.iodepth == Some(2) && all.interpolated.is_none());
        let none = bounded(&[400.0, 500.0], 300.0);
        assert!(!none.at_least && none.iodepth.is_none() && none.certain);
    }

    #[test]
    fn a_bound_inside_an_interval_is_not_certain() {
        assert!(!bounded(&[100.0, 290.0, 900.0], 300.0).certain);
    }

    #[test]
    fn throughput_that_falls_beyond_its_best_leaves_the_knee() {
        let rates = [1e4, 2e4, 4e4, 8e4, 8e4, 5e4, 3e4];
        let cells: Vec<Cell> = rates.iter().enumerate().map(|(at, rate)| cell(4096, 1 << at, *rate, 1e5)).collect();
        let curve = curve(&cells.iter().collect::<Vec<_>>(), None).unwrap();
        assert!(curve.falls);
        let knee = curve.knee.at.value.unwrap();
        assert!((knee / 8.0 - 1.0).abs() < 0.1, "{knee}");
    }

    #[test]
    fn a_crossover_before_the_knee_is_marked_not_saturated() {
        let cells: Vec<Cell> = [4096, 16384, 65536, 262_144, 1 << 20]
            .iter()
            .map(|block| cell(*block, 8, f64::min(5000.0, 200e6 / f64::from(*block)), 1e5))
            .collect();
        let found = crossover(&cells.iter().collect::<Vec<_>>(), &[]).unwrap();
        assert!(!found.saturated);
        let (block, iops, bytes) =
            (found.block.at.value.unwrap(), found.iops_limit.unwrap(), found.bytes_limit.unwrap());
        assert!((block / 40e3 - 1.0).abs() < 0.03 && (iops / 5000.0 - 1.0).abs() < 0.02, "{found:?}");
        assert!((bytes / 200e6 - 1.0).abs() < 0.03);
    }
}

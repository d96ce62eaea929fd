//! The suite of `qd1 sweep`: a surface over block size, iodepth and rw, with its steps in an order that separates the
//! effects of time and depth (docs/method.md).

use qd1_model::plan::Rw;
use qd1_model::plan::sweep::SweepPlan;
use qd1_model::spec::{Effort, Job, PerEffort, Span, Suite};
use qd1_model::units::short_size;
use qd1_model::{Bytes, Problem, Subject};

use crate::order;

/// Maximum number of steps: more would take too long to be intended.
const STEPS_MAX: usize = 5000;
/// Time of one step: long enough for a rate, short enough for 140 of them in a minute and a half.
const RUNTIME: PerEffort<Span> =
    PerEffort { quick: Span(300_000_000), default: Span(500_000_000), full: Span(1_000_000_000) };
/// Time for the queue to fill.
const RAMP: Span = Span(50_000_000);
/// The most that one step writes before it ends: a sweep should not wear out the disk.
const WRITES: PerEffort<Bytes> = PerEffort { quick: Bytes::mib(192), default: Bytes::mib(256), full: Bytes::gib(1) };
const SIZE: PerEffort<Bytes> = PerEffort { quick: Bytes::mib(256), default: Bytes::gib(1), full: Bytes::gib(4) };
const PREPARE: PerEffort<Span> =
    PerEffort { quick: Span(2_000_000_000), default: Span(12_000_000_000), full: Span(90_000_000_000) };
const PASSES: PerEffort<u32> = PerEffort { quick: 2, default: 2, full: 4 };

/// What the user wants measured; empty lists mean the default values.
#[derive(Clone, Debug, Default)]
pub struct Axes {
    /// Directions.
    pub rw: Vec<Rw>,
    /// Block sizes.
    pub blocks: Vec<Bytes>,
    /// Requests in flight.
    pub depths: Vec<u32>,
    /// How often each cell is measured.
    pub passes: Option<u32>,
}

/// What is measured, with all defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    rw: Vec<Rw>,
    blocks: Vec<Bytes>,
    depths: Vec<u32>,
    passes: u32,
}

impl Grid {
    /// Fills in the defaults, sorts the values, and removes duplicates.
    ///
    /// # Errors
    /// When a value makes no sense, or there are too many steps.
    pub fn new(axes: Axes, effort: Effort) -> Result<Self, Problem> {
        let quick = effort == Effort::Quick;
        let kib = |sizes: &[u64]| sizes.iter().map(|size| Bytes::kib(*size)).collect::<Vec<_>>();
        let mut grid = Self {
            rw: axes.rw,
            blocks: axes.blocks,
            depths: axes.depths,
            passes: axes.passes.unwrap_or_else(|| PASSES.get(effort)),
        };
        if grid.rw.is_empty() {
            grid.rw = vec![Rw::Randread, Rw::Randwrite];
        }
        if grid.blocks.is_empty() {
            grid.blocks = kib(if quick { &[4, 64, 1024] } else { &[4, 16, 64, 256, 1024] });
        }
        if grid.depths.is_empty() {
            grid.depths = if quick { vec![1, 4, 16, 64] } else { vec![1, 2, 4, 8, 16, 32, 64] };
        }
        let mut seen = Vec::new();
        grid.rw.retain(|rw| {
            !seen.contains(rw) && {
                seen.push(*rw);
                true
            }
        });
        grid.blocks.sort_unstable();
        grid.blocks.dedup();
        grid.depths.sort_unstable();
        grid.depths.dedup();
        if let Some(bad) = grid.blocks.iter().find(|bytes| bytes.0 == 0 || bytes.0 > 1 << 30) {
            return Err(Problem::usage(format!("--bs {bad}: a block size must be between 512 B and 1 GiB")));
        }
        let steps = grid.rw.len() * grid.blocks.len() * grid.depths.len() * grid.passes as usize;
        if steps > STEPS_MAX {
            let message = format!("the sweep has {steps} steps, and the maximum is {STEPS_MAX}; leave out some values");
            return Err(Problem::usage(message));
        }
        Ok(grid)
    }
}

/// Returns the suite of a sweep: its steps, pass after pass, in an order drawn from `seed`.
pub fn suite(grid: &Grid, max_p99_ns: Option<u64>, effort: Effort, seed: u64) -> Suite {
    let mut cells = Vec::new();
    for (group, rw) in grid.rw.iter().enumerate() {
        for block in &grid.blocks {
            cells.extend(grid.depths.iter().map(|depth| (group, *rw, *block, *depth)));
        }
    }
    let groups: Vec<usize> = cells.iter().map(|cell| cell.0).collect();
    let order = order(&groups, grid.passes, seed);
    let job = |pass: usize, cell: usize| {
        let (_, rw, block, depth) = cells[cell];
        Job {
            name: format!("{}-{}-d{depth}-p{}", rw.name(), short_size(block), pass + 1),
            runtime: Some(RUNTIME),
            ramp_time: Some(RAMP),
            rw: Some(rw),
            bs: Some(block),
            iodepth: Some(depth),
            // Each cell gets the same time: stopping once a figure is precise would favour some of them.
            adaptive: Some(false),
            io_size: rw.writes().then(|| WRITES.get(effort)),
            ..Job::default()
        }
    };
    let jobs = order.iter().enumerate().flat_map(|(pass, cells)| cells.iter().map(move |cell| (pass, *cell)));
    Suite {
        name: "sweep".to_owned(),
        subject: Subject::Sweep,
        title: "block size x iodepth x rw".to_owned(),
        source: String::new(),
        size: SIZE,
        prepare: PREPARE,
        job: jobs.map(|(pass, cell)| job(pass, cell)).collect(),
        criteria: Vec::new(),
        sweep: Some(SweepPlan { passes: grid.passes, max_p99_ns }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_once_and_in_order() {
        let axes = Axes {
            rw: vec![Rw::Randwrite, Rw::Read, Rw::Read],
            blocks: [64, 4, 64].map(Bytes::kib).to_vec(),
            depths: vec![8, 1],
            passes: Some(3),
        };
        let found = Grid::new(axes, Effort::Default).unwrap();
        assert_eq!(found.blocks, [Bytes::kib(4), Bytes::kib(64)]);
        assert_eq!((found.depths, found.rw, found.passes), (vec![1, 8], vec![Rw::Randwrite, Rw::Read], 3));
    }

    #[test]
    fn a_sweep_that_nobody_would_wait_for_is_refused() {
        let deep = Axes { depths: (1..=400).collect(), ..Axes::default() };
        assert!(Grid::new(deep, Effort::Full).unwrap_err().to_string().contains("steps"));
        assert!(Grid::new(Axes { blocks: vec![Bytes(0)], ..Axes::default() }, Effort::Default).is_err());
    }

    #[test]
    fn defaults_take_two_minutes_at_most_and_quick_half_of_one() {
        for (effort, most_s) in [(Effort::Default, 120), (Effort::Quick, 25)] {
            let suite = suite(&Grid::new(Axes::default(), effort).unwrap(), None, effort, 1);
            let steps: u64 = suite.job.iter().map(|_| RUNTIME.get(effort).0 + RAMP.0).sum();
            assert!((steps + PREPARE.get(effort).0) / 1_000_000_000 < most_s);
            let writes: u64 = suite.job.iter().filter_map(|job| job.io_size).map(|bytes| bytes.0).sum();
            assert!(writes < 20_000_000_000, "{writes}");
        }
    }

    #[test]
    fn every_step_has_a_unique_name_with_its_values() {
        let suite = suite(&Grid::new(Axes::default(), Effort::Full).unwrap(), None, Effort::Full, 1);
        let mut names: Vec<&str> = suite.job.iter().map(|job| job.name.as_str()).collect();
        assert!(names.contains(&"randread-4k-d8-p2") && names.contains(&"randwrite-1M-d64-p4"));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), count), (280, 280));
    }
}

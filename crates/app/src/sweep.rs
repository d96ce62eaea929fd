//! `qd1 sweep`: a surface over block size, iodepth and rw. This file makes the suite of its steps, in an order that keeps
//! time apart from depth (docs/method.md); the run is that of any suite, and the analysis makes the surface.

use std::process::ExitCode;

use anyhow::Result;
use qd1_model::plan::{Plan, Rw, StepPlan, Work};
use qd1_model::spec::{Effort, Job, PerEffort, Span, Suite};
use qd1_model::sweep::SweepPlan;
use qd1_model::units::{format_span_ns, short_size};
use qd1_model::{Bytes, Subject};

use crate::cli::SweepArgs;
use crate::measure::{self, Asked};
use qd1_model::Problem;

/// The suite's name in the Record.
pub(crate) const SUITE: &str = "sweep";

/// More steps than anyone waits for are a slip.
const STEPS_MAX: usize = 5000;
/// Time of one step: long enough for a rate, short enough for 140 of them in a minute and a half.
const RUNTIME: PerEffort<Span> =
    PerEffort { quick: Span(300_000_000), default: Span(500_000_000), full: Span(1_000_000_000) };
/// Time in which the queue fills.
const RAMP: Span = Span(50_000_000);
/// The most that one step writes: a surface should not wear the disk out. It ends when that is written.
const WRITES: PerEffort<Bytes> = PerEffort { quick: Bytes::mib(192), default: Bytes::mib(256), full: Bytes::gib(1) };
const SIZE: PerEffort<Bytes> = PerEffort { quick: Bytes::mib(256), default: Bytes::gib(1), full: Bytes::gib(4) };
const PREPARE: PerEffort<Span> =
    PerEffort { quick: Span(2_000_000_000), default: Span(12_000_000_000), full: Span(90_000_000_000) };
const PASSES: PerEffort<u32> = PerEffort { quick: 2, default: 2, full: 4 };

/// What is measured, every default filled.
#[derive(Clone, Debug, PartialEq)]
struct Grid {
    rw: Vec<Rw>,
    blocks: Vec<Bytes>,
    depths: Vec<u32>,
    passes: u32,
}

/// Measures the surface.
///
/// # Errors
/// When what is asked makes no sense, or the run fails.
pub(crate) fn run(mut args: SweepArgs) -> Result<ExitCode> {
    let effort = measure::effort(&args.how);
    let grid = Grid::of(&args, effort)?;
    // The order of the steps belongs to what a seed repeats.
    let seed = match args.how.common.seed {
        Some(seed) => seed,
        None => measure::random_seed()?,
    };
    args.how.common.seed = Some(seed);
    let suite = suite(&grid, args.max_p99, effort, seed);
    measure::run(Asked::of(SUITE, suite, &args.path, &args.how))
}

impl Grid {
    fn of(args: &SweepArgs, effort: Effort) -> Result<Self> {
        let quick = effort == Effort::Quick;
        let kib = |sizes: &[u64]| sizes.iter().map(|size| Bytes::kib(*size)).collect::<Vec<_>>();
        let mut grid = Self {
            rw: args.rw.clone(),
            blocks: args.bs.clone(),
            depths: args.iodepth.clone(),
            passes: args.passes.unwrap_or_else(|| PASSES.get(effort)),
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
            return Err(Problem::usage(format!("--bs {bad}: a block size lies between 512 B and 1 GiB")).into());
        }
        let steps = grid.rw.len() * grid.blocks.len() * grid.depths.len() * grid.passes as usize;
        if steps > STEPS_MAX {
            let message = format!("the sweep has {steps} steps; at most {STEPS_MAX} can be run: leave out some values");
            return Err(Problem::usage(message).into());
        }
        Ok(grid)
    }
}

/// The steps, pass after pass.
fn suite(grid: &Grid, max_p99_ns: Option<u64>, effort: Effort, seed: u64) -> Suite {
    let mut cells = Vec::new();
    for (group, rw) in grid.rw.iter().enumerate() {
        for block in &grid.blocks {
            cells.extend(grid.depths.iter().map(|depth| (group, *rw, *block, *depth)));
        }
    }
    let groups: Vec<usize> = cells.iter().map(|cell| cell.0).collect();
    let order = qd1_analysis::sweep::order(&groups, grid.passes, seed);
    let job = |pass: usize, cell: usize| {
        let (_, rw, block, depth) = cells[cell];
        Job {
            name: format!("{}-{}-d{depth}-p{}", rw.name(), short_size(block), pass + 1),
            runtime: Some(RUNTIME),
            ramp_time: Some(RAMP),
            rw: Some(rw),
            bs: Some(block),
            iodepth: Some(depth),
            // Each cell gets the same time: one that ends when it is precise would favour some of them.
            adaptive: Some(false),
            io_size: rw.writes().then(|| WRITES.get(effort)),
            ..Job::default()
        }
    };
    let jobs = order.iter().enumerate().flat_map(|(pass, cells)| cells.iter().map(move |cell| (pass, *cell)));
    Suite {
        name: SUITE.to_owned(),
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

/// The steps of a sweep in a few lines, for `--dry-run`; none for other plans.
pub(crate) fn planned(plan: &Plan) -> Vec<String> {
    let Some(sweep) = plan.sweep else { return Vec::new() };
    let io = |step: &StepPlan| match &step.work {
        Work::Io(io) => Some((io.rw.name().to_owned(), short_size(Bytes(u64::from(io.block_max()))), io.iodepth)),
        Work::Files(_) | Work::App(_) => None,
    };
    let mut cells: Vec<_> = plan.steps.iter().filter_map(io).collect();
    cells.dedup();
    let listed = |pick: &dyn Fn(&(String, String, u32)) -> String| {
        let mut values: Vec<String> = Vec::new();
        for cell in &cells {
            let value = pick(cell);
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values.sort_by_key(|value| value.parse::<Bytes>().map_or(0, |bytes| bytes.0));
        values.join(", ")
    };
    let longest = plan.steps.iter().map(|step| step.stop.ramp_ns + step.stop.max_ns).max().unwrap_or(0);
    let passes = if sweep.passes == 1 { "1 pass".to_owned() } else { format!("{} passes", sweep.passes) };
    vec![
        format!("rw        {}", listed(&|cell| cell.0.clone())),
        format!("bs        {}", listed(&|cell| cell.1.clone())),
        format!("iodepth   {}", listed(&|cell| cell.2.to_string())),
        format!(
            "steps     {} of up to {}: {passes}, shuffled, every other pass backwards",
            plan.steps.len(),
            format_span_ns(longest)
        ),
    ]
}

#[cfg(test)]
mod truth;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;

    fn grid(flags: &str) -> Result<Grid> {
        let words = ["qd1", "sweep"].into_iter().chain(flags.split_whitespace());
        let Some(Command::Sweep(args)) = Cli::parse_from(words).command else { panic!("it is a sweep") };
        Grid::of(&args, measure::effort(&args.how))
    }

    #[test]
    fn values_are_taken_once_and_in_order() {
        let found = grid("--bs 64k,4k,64k --iodepth 8,1 --rw randwrite,read,read --passes 3").unwrap();
        assert_eq!(found.blocks, [Bytes::kib(4), Bytes::kib(64)]);
        assert_eq!((found.depths, found.rw, found.passes), (vec![1, 8], vec![Rw::Randwrite, Rw::Read], 3));
    }

    #[test]
    fn a_sweep_that_nobody_would_wait_for_is_refused() {
        let depths = (1..=400).map(|depth| depth.to_string()).collect::<Vec<_>>().join(",");
        assert!(grid(&format!("--iodepth {depths} --full")).unwrap_err().to_string().contains("steps"));
        assert!(grid("--bs 0").is_err());
    }

    #[test]
    fn without_flags_it_takes_less_than_two_minutes_and_quick_less_than_half_of_one() {
        for (flags, effort, most_s) in [("", Effort::Default, 120), ("--quick", Effort::Quick, 25)] {
            let suite = suite(&grid(flags).unwrap(), None, effort, 1);
            let steps: u64 = suite.job.iter().map(|_| RUNTIME.get(effort).0 + RAMP.0).sum();
            assert!((steps + PREPARE.get(effort).0) / 1_000_000_000 < most_s);
            let writes: u64 = suite.job.iter().filter_map(|job| job.io_size).map(|bytes| bytes.0).sum();
            assert!(writes < 20_000_000_000, "{writes}");
        }
    }

    #[test]
    fn every_step_has_a_name_of_its_own_that_says_what_it_measures() {
        let suite = suite(&grid("--full").unwrap(), None, Effort::Full, 1);
        let mut names: Vec<&str> = suite.job.iter().map(|job| job.name.as_str()).collect();
        assert!(names.contains(&"randread-4k-d8-p2") && names.contains(&"randwrite-1M-d64-p4"));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), count), (280, 280));
    }
}

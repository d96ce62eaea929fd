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


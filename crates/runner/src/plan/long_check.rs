//! Spreads a plan over hours: as many rounds of its steps as a bound on the disk's time allows.

use anyhow::Result;
use qd1_model::plan::{LongCheckPlan, Plan, Work};
use qd1_model::units::format_span_ns;
use qd1_model::{Bytes, Problem};

use super::writes_max;

/// What a run may last, ns: an hour to a fortnight.
const LEAST_NS: u64 = 3_600_000_000_000;
const MOST_NS: u64 = 14 * 24 * LEAST_NS;
/// The disk's time that may be used is the run's time divided by this: 0.5 %.
const BUSY_DIVISOR: u64 = 200;
/// Part of it that writing the test file may take.
const PREPARE_DIVISOR: u64 = 10;
/// Time in a round besides what is measured, for each step: opening files, waiting for the last requests.
const AROUND_NS: u64 = 20_000_000;
/// Fewest rounds that say anything about the time between them.
const ROUNDS_MIN: u64 = 6;

/// Spreads the steps of `plan`, each planned as one visit, over `duration_ns`.
///
/// # Errors
/// When the time is too short or too long.
pub(super) fn spread(plan: &mut Plan, duration_ns: u64) -> Result<()> {
    if !(LEAST_NS..=MOST_NS).contains(&duration_ns) {
        let given = format_span_ns(duration_ns);
        return Err(Problem::usage(format!(
            "--over must be between 1h and 14d, not {given}; without it, a check takes a minute"
        ))
        .into());
    }
    let busy_max_ns = duration_ns / BUSY_DIVISOR;
    plan.target.prepare_max_ns = plan.target.prepare_max_ns.min(busy_max_ns / PREPARE_DIVISOR);
    let prepare_ns = if plan.needs_shared_file() { plan.target.prepare_max_ns } else { 0 };
    let round_max_ns: u64 = plan.steps.iter().map(|step| step.duration_max_ns() + AROUND_NS).sum();
    let rounds = (busy_max_ns - prepare_ns) / round_max_ns.max(1);
    if rounds < ROUNDS_MIN {
        let (round, most) = (format_span_ns(round_max_ns), format_span_ns(busy_max_ns));
        let message =
            format!("a round takes {round}, and only {most} of the disk's time may be used; choose a longer --over");
        return Err(Problem::usage(message).into());
    }
    for step in &mut plan.steps {
        step.visits = rounds as u32;
        step.stop.max_ns *= rounds;
        step.stop.min_ns *= rounds;
        if let Work::Io(io) = &mut step.work {
            io.io_size.0 *= rounds;
        }
        step.writes_max = Bytes(writes_max(step));
    }
    plan.over = Some(LongCheckPlan { duration_ns, rounds: rounds as u32, round_max_ns, busy_max_ns });
    Ok(())
}

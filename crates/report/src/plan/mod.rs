//! The dry run: steps, time, bytes written, space.

mod limits;
mod program;
mod sweep;
mod sync;

pub use limits::dry_run as limits;
pub use program::dry_run as program;

use qd1_model::plan::{Plan, StepPlan, TargetKind, Work};
use qd1_model::units::format_span_ns;
use qd1_model::{Bytes, Subject};

/// Describes what a plan would do, for `--dry-run`.
pub fn dry_run(plan: &Plan) -> String {
    use std::fmt::Write as _;
    let target = &plan.target;
    let mut text = String::new();
    let only_files = plan.steps.iter().all(|step| matches!(step.work, Work::Files(_)));
    let place = match target.kind {
        TargetKind::Directory if only_files => {
            format!("files in a separate directory in {} ({})", target.path.display(), target.filesystem)
        }
        TargetKind::Directory => format!("unnamed files in {} ({})", target.path.display(), target.filesystem),
        TargetKind::File => format!("{}, only read", target.path.display()),
        TargetKind::BlockReadOnly => format!("{}, only read", target.path.display()),
        TargetKind::BlockDestroy => format!("{}, OVERWRITTEN", target.path.display()),
    };
    let _ = writeln!(text, "plan of {}: {place}", plan.suite);
    let is_grouped = plan.sweep.is_some() || plan.subject == Subject::Sync;
    let listed = if is_grouped { 0 } else { plan.steps.len() };
    let names =
        plan.steps[..listed].iter().map(|step| &step.name).chain(plan.skipped.iter().map(|skipped| &skipped.name));
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0).max(9);
    if plan.needs_shared_file() {
        let longest = format_span_ns(target.prepare_max_ns);
        let _ = writeln!(text, "  {:<width$} up to {longest:>7}  writes {} of random data", "prepare", target.size);
    }
    for line in sweep::lines(plan).into_iter().chain(sync::lines(plan)) {
        let _ = writeln!(text, "  {line}");
    }
    for step in &plan.steps[..listed] {
        let longest = format_span_ns(step.duration_max_ns());
        let visits = if step.visits > 1 { format!(", {} visits", step.visits) } else { String::new() };
        let _ = writeln!(text, "  {:<width$} up to {longest:>7}  {}{visits}", step.name, step.title);
    }
    for skipped in &plan.skipped {
        let _ = writeln!(text, "  {:<width$} not run: {}", skipped.name, skipped.why);
    }
    let until = if plan.is_until_done() { "until all is done, " } else { "" };
    let _ = writeln!(text, "time      {until}at most {}", format_span_ns(plan.longest_ns()));
    let _ = writeln!(text, "writes    {}", writes(plan));
    let _ = writeln!(text, "space     {} while it runs, none afterwards", plan.space_max());
    if only_files {
        let _ = writeln!(text, "inodes    {} while it runs, none afterwards", plan.inodes_max());
    } else {
        let direct =
            if target.direct { "O_DIRECT works here" } else { "no O_DIRECT here: the page cache is measured too" };
        let _ = writeln!(text, "direct    {direct}");
    }
    let _ = writeln!(text, "seed      {}", plan.seed);
    text
}

/// The disk that the dry run takes as an example, bytes per second.
const EXAMPLE: u64 = 200_000_000;

/// Returns how much a plan writes on a disk of typical speed, and the most that it can write: `at most 62.5 GiB, on the
/// fastest disk; 7.0 GiB at 200 MB/s`.
pub fn writes(plan: &Plan) -> String {
    let most = plan.writes_max();
    let shared = if plan.needs_shared_file() { plan.target.size.0 } else { 0 };
    let of = |step: &StepPlan| {
        let bytes = u128::from(step.duration_max_ns()) * u128::from(EXAMPLE) / 1_000_000_000;
        step.writes_max.0.min(u64::try_from(bytes).unwrap_or(u64::MAX))
    };
    let example = Bytes(plan.steps.iter().map(of).fold(shared, u64::saturating_add));
    match example == most {
        true => format!("at most {most}"),
        false => format!("at most {most}, on the fastest disk; {example} at 200 MB/s"),
    }
}

//! The dry run of `qd1 limits`.

use qd1_model::plan::{Plan, TargetKind};
use qd1_model::units::format_span_ns;

/// Describes what a search for limits would do.
pub fn dry_run(plan: &Plan) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let target = &plan.target;
    let place = match target.kind {
        TargetKind::Directory => format!("unnamed files in {} ({})", target.path.display(), target.filesystem),
        TargetKind::File | TargetKind::BlockReadOnly => format!("{}, only read", target.path.display()),
        TargetKind::BlockDestroy => format!("{}, OVERWRITTEN", target.path.display()),
    };
    let _ = writeln!(text, "plan of limits: {place}");
    if plan.needs_shared_file() {
        let longest = format_span_ns(target.prepare_max_ns);
        let _ = writeln!(text, "  {:<18} up to {longest:>11}  writes {} of random data", "prepare", target.size);
    }
    for step in &plan.steps {
        let longest = format_span_ns(step.stop.max_ns);
        let _ = writeln!(text, "  {:<18} up to {longest:>11}  {}", step.name, step.title);
    }
    let _ = writeln!(
        text,
        "steps     sizes and depths depend on what is found; a step ends once its figures settle, and is repeated \
         after a rest if a burst ended"
    );
    let [about, longest] = [plan.likely_ns(), plan.longest_ns()].map(format_span_ns);
    let _ = writeln!(text, "time      about {about}, at most {longest} plus the rests");
    let _ = writeln!(text, "writes    {}", super::writes(plan));
    let _ = writeln!(text, "space     {} while it runs, none afterwards", plan.space_max());
    let _ = writeln!(text, "seed      {}", plan.seed);
    text
}

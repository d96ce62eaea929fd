//! The dry run of a real program's loads.

use qd1_model::Bytes;
use qd1_model::plan::Plan;
use qd1_model::units::format_span_ns;

/// Describes what a program's loads would do. `title` is the program's, `space` the most that its data takes, and
/// `afterwards` what is left of it.
pub fn dry_run(plan: &Plan, title: &str, space: Bytes, afterwards: &str) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let _ = writeln!(text, "plan of {}: {title} in {}", plan.suite, plan.target.path.display());
    let width = plan.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or(0).max(9);
    for step in &plan.steps {
        let longest = format_span_ns(step.duration_max_ns());
        let _ = writeln!(text, "  {:<width$} {longest:>10}  {}", step.name, step.title);
    }
    let _ = writeln!(text, "time      {}, plus creating the data", format_span_ns(plan.duration_max_ns()));
    let _ = writeln!(text, "writes    as much as the program writes in that time");
    if space.0 > 0 {
        let _ = writeln!(text, "space     about {space} while it runs, {afterwards}");
    } else {
        let _ = writeln!(text, "leaves    {afterwards}");
    }
    let _ = writeln!(text, "seed      {}", plan.seed);
    text
}

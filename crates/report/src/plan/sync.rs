//! The steps of `qd1 sync` in a few lines.

use qd1_model::Subject;
use qd1_model::plan::{Plan, StepPlan, Work};
use qd1_model::sync::uses_best_method;
use qd1_model::units::format_span_ns;

/// Describes the steps of `qd1 sync`; empty for other plans.
pub(super) fn lines(plan: &Plan) -> Vec<String> {
    if plan.subject != Subject::Sync {
        return Vec::new();
    }
    let mut lines = Vec::new();
    let mut list = |label: &str, steps: Vec<&StepPlan>, what: &str| {
        let longest = steps.iter().map(|step| step.duration_max_ns()).max();
        if let Some(longest) = longest {
            lines.push(format!("{label:<11} {:>3} of up to {}: {what}", steps.len(), format_span_ns(longest)));
        }
    };
    let of = |wanted: &dyn Fn(&StepPlan) -> bool| plan.steps.iter().filter(|step| wanted(step)).collect::<Vec<_>>();
    let is_io = |step: &StepPlan| matches!(step.work, Work::Io(_));
    let is_layout = |step: &StepPlan| ["append", "preallocated"].contains(&step.name.as_str());
    let names = |steps: &[&StepPlan], stem: &str| {
        let mut names: Vec<String> = Vec::new();
        for name in steps.iter().filter_map(|step| step.name.strip_prefix(stem)).map(str::to_owned) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(", ")
    };
    let with = |stem: &'static str| of(&move |step| step.name.starts_with(stem));
    let methods = of(&|step| is_io(step) && !uses_best_method(&step.name) && !is_layout(step));
    list("methods", methods, "8 KiB, page cache and O_DIRECT, 1 or 2 writes");
    for (label, stem, of) in
        [("sizes", "size-", ""), ("own files", "own-", "committers: "), ("one file", "shared-", "committers: ")]
    {
        let steps = with(stem);
        let what = format!("{of}{}", names(&steps, stem));
        list(label, steps, &what);
    }
    list("layouts", of(&is_layout), "appended, preallocated");
    list("new files", of(&|step| !is_io(step)), "written, synced, closed, removed");
    lines
}

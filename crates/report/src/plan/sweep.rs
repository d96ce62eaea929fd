//! The steps of a sweep in a few lines.

use qd1_model::Bytes;
use qd1_model::order::Order as _;
use qd1_model::plan::{Plan, StepPlan, Work};
use qd1_model::units::{format_span_ns, short_size};

/// Describes the steps of a sweep; empty for other plans.
pub(super) fn lines(plan: &Plan) -> Vec<String> {
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
        values.order_by_key(|value| value.parse::<Bytes>().map_or(0, |bytes| bytes.0));
        values.join(", ")
    };
    let longest = plan.steps.iter().map(|step| step.duration_max_ns()).max().unwrap_or(0);
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

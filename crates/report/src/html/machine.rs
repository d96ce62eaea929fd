//! What the machine and the device did in each step as a whole; charts have it over time (`plot/machine.rs`).

use qd1_model::Report;
use qd1_model::record::StepRecord;
use qd1_model::units::{format_count, format_rate, format_share, format_span_ns};

use crate::table::escaped;

/// Returns a table with a row for each step; empty where nothing is known.
pub(super) fn markdown(report: &Report) -> String {
    let steps: Vec<&StepRecord> = report.record.steps.iter().filter(|step| step.runtime_ns > 0).collect();
    if steps.is_empty() {
        return String::new();
    }
    let mut text =
        "| step | began | lasted | busy | stolen | waited for I/O | for memory | for a processor | device reads | \
                    writes | flushes |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for step in steps {
        let [io, memory, cpu] = match &step.pressure {
            Some(pressure) => [pressure.io, pressure.memory, pressure.cpu].map(format_share),
            None => ["-"; 3].map(str::to_owned),
        };
        text += &format!(
            "| {} | {} | {} | {} | {} | {io} | {memory} | {cpu} | {} |\n",
            escaped(&step.name),
            format_span_ns(step.started_ns),
            format_span_ns(step.runtime_ns),
            format_share(step.busy),
            format_share(step.steal),
            device(step).join(" | "),
        );
    }
    text + "\nbusy: share of the processors' time in use. stolen: taken by the hypervisor. waited: share of the time \
            in which at least one task on the machine waited (PSI). device: as counted by the kernel, for all users of \
            the disk.\n"
}

/// Reads, writes and flushes per second, as the kernel counted them.
fn device(step: &StepRecord) -> [String; 3] {
    let Some(device) = &step.device else { return ["-"; 3].map(str::to_owned) };
    let seconds = step.runtime_ns.max(1) as f64 / 1e9;
    let counted = &device.counted;
    let moved = |count: u64, bytes: u64| match count {
        0 => "0".to_owned(),
        _ => format!("{}/s, {}", format_count(count as f64 / seconds), format_rate(bytes as f64 / seconds)),
    };
    let flushes = if counted.flushes == 0 {
        "0".to_owned()
    } else {
        format!("{}/s", format_count(counted.flushes as f64 / seconds))
    };
    [moved(counted.reads, counted.read_bytes), moved(counted.writes, counted.write_bytes), flushes]
}

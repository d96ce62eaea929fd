//! The processor, not the disk, made operations wait: the hypervisor took it, or other programs kept it busy.
//!
//! Formula: steal is the share of the machine's processor time given to other guests; from 2 % it warns, from 10 % the
//! figures are spoiled. Run delay is the time workers were runnable but not running; relative to the workers' time
//! (runtime x workers) it warns from 5 %, and from 20 % the figures are spoiled, as they are if the delay per operation
//! is a tenth of the median latency. Where each slow operation was examined (`Stream::waits`), the share of time that
//! the slowest 0.1 % waited for a processor is reported from a tenth up. Sources: proc(5) on steal; kernel
//! `scheduler/sched-stats.rst`.
//!
//! Steal is machine-wide, so it may have hit a processor that no worker used. Run delay is exact but does not include
//! time that the hypervisor took while a worker seemed to be running; only both together show everything.

use qd1_model::FindingId;
use qd1_model::record::StepRecord;
use qd1_model::units::format_ns;
use qd1_model::{Finding, Record, Severity, Subject, Summary};

use super::{base_finding, io_of, percent, plan_of, workers};
use crate::steal::{STEAL_CRITICAL, STEAL_WARNING};

const DELAY_WARNING: f64 = 0.05;
const DELAY_CRITICAL: f64 = 0.20;
/// Smallest share of the slowest operations' time that is reported.
pub(crate) const TAIL_WARNING: f64 = 0.1;
/// Run delay per operation relative to the median latency.
const DELAY_PER_OP: f64 = 0.1;

pub(super) fn detect(record: &Record, summary: &Summary) -> Vec<Finding> {
    let of_step = |step| [steal(step), run_delay(record, summary, step), tail(summary, step)];
    record.steps.iter().flat_map(of_step).flatten().collect()
}

/// What the slowest operations waited for, if each of them was examined.
fn tail(summary: &Summary, step: &StepRecord) -> Option<Finding> {
    let streams = step.streams.iter().filter_map(|stream| summary.stream(&step.name, stream.class));
    let with_waits = streams.filter_map(|stream| Some((stream, stream.without_waits?, stream.tail?.waited)));
    let (stream, without, share) = with_waits.max_by(|(.., a), (.., b)| a.total_cmp(b))?;
    if share < TAIL_WARNING {
        return None;
    }
    let (name, share) = (stream.class.name(), percent(share));
    let tails = [("p99", stream.lat_p99_ns, without.lat_p99_ns), ("p99.9", stream.lat_p999_ns, without.lat_p999_ns)];
    let shown = tails.iter().filter_map(|(title, seen, without)| {
        Some(format!("{title} {}, without these waits {}", format_ns(seen.value?), format_ns(without.value?)))
    });
    let shown: Vec<String> = shown.collect();
    Some(Finding {
        step: step.name.clone(),
        title: format!("the slowest {name}s of step {} spent {share} of their time waiting for a processor", step.name),
        evidence: format!("counted for each of the slowest 0.1 %; {}", shown.join("; ")),
        advice:
            "This part of the tail is caused by this machine, not by the disk. Stop other programs (`top` shows which keep \
             the processors busy), and measure again."
                .to_owned(),
        ..base_finding(FindingId::CpuSpoiledTail, Severity::Warning, 0.85)
    })
}

fn steal(step: &StepRecord) -> Option<Finding> {
    if step.steal < STEAL_WARNING {
        return None;
    }
    let severity = if step.steal < STEAL_CRITICAL { Severity::Warning } else { Severity::Critical };
    Some(Finding {
        step: step.name.clone(),
        title: format!("the hypervisor took {} of the processor time during step {}", percent(step.steal), step.name),
        evidence: format!("steal was {} of the step's processor time", percent(step.steal)),
        advice: "Tail latencies include waits for a processor. Measure again at another time, or on an instance with \
                 dedicated processors."
            .to_owned(),
        ..base_finding(FindingId::CpuSpoiledSteal, severity, 0.85)
    })
}

fn run_delay(record: &Record, summary: &Summary, step: &StepRecord) -> Option<Finding> {
    let workers = io_of(record, step).map_or(1, |io| workers(io, step));
    let delay_ns = step.cost.run_delay_ns as f64;
    // The workers' cost is counted from their start, ramp included.
    let ramp_ns = plan_of(record, step).map_or(0, |plan| plan.duration_max_ns() - plan.stop.max_ns);
    // What a worker waited before its first measured request counts as cost, but may not be part of any latency.
    let share = (delay_ns / ((step.runtime_ns + ramp_ns).max(1) as f64 * workers as f64)).min(1.0);
    let ios: u64 = step.streams.iter().map(|stream| stream.lat.count()).sum();
    let per_op_ns = delay_ns / ios.max(1) as f64;
    let medians = step.streams.iter().filter_map(|s| summary.stream(&step.name, s.class)?.lat_p50_ns.value);
    let median_ns = medians.min_by(f64::total_cmp).unwrap_or(f64::INFINITY);
    let relative = per_op_ns / median_ns;
    if share < DELAY_WARNING && relative < DELAY_PER_OP {
        return None;
    }
    let severity = if share < DELAY_CRITICAL { Severity::Warning } else { Severity::Critical };
    Some(Finding {
        step: step.name.clone(),
        title: format!(
            "the workers of step {} spent {} of their time waiting for a processor",
            step.name,
            percent(share)
        ),
        evidence: format!(
            "run delay {} in all, {} per operation, {workers} worker{} on {} processors",
            format_ns(delay_ns),
            format_ns(per_op_ns),
            if workers == 1 { "" } else { "s" },
            record.environment.cpus
        ),
        advice: format!(
            "{}top other programs (`top` shows them){}, or give this machine or container more processors.",
            match record.plan.subject {
                Subject::Check =>
                    "Passing grades stand, since the disk can only be faster than measured; for the others, s",
                _ => "The disk can only be faster than these figures. S",
            },
            if workers > u64::from(record.environment.cpus) { ", use fewer workers" } else { "" }
        ),
        ..base_finding(FindingId::CpuSpoiledRunDelay, severity, 0.9)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn steal_spoils_the_figures() {
        let mut record = testing::record();
        record.steps[0].steal = 0.04;
        record.steps[1].steal = 0.3;
        let found = testing::run(detect, &record);
        assert_eq!(testing::ids(&found), ["cpu_spoiled.steal", "cpu_spoiled.steal"]);
        assert_eq!([found[0].severity, found[1].severity], [Severity::Warning, Severity::Critical]);
    }

    #[test]
    fn waits_for_a_processor_are_not_taken_for_the_disk() {
        let mut record = testing::record();
        record.steps[1].cost.run_delay_ns = record.steps[1].runtime_ns / 10;
        assert_eq!(testing::ids(&testing::run(detect, &record)), ["cpu_spoiled.run_delay"]);
    }

    #[test]
    fn an_idle_processor_is_not_blamed() {
        let mut record = testing::record();
        record.steps[0].steal = 0.005;
        record.steps[0].cost.run_delay_ns = record.steps[0].runtime_ns / 1000;
        assert_eq!(testing::run(detect, &record), []);
    }
}

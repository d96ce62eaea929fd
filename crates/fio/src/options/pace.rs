//! Options for how fast requests are issued, and for limits on their latency.

use super::{Fault, FioOption, ValueKind, choice, idle, idle_number, millis};
use crate::types::{RateProcess, SteadyCriterion, SteadyState, ThinkBlocks};
use crate::value::{self, TimeUnit};

pub(super) const OPTIONS: &[FioOption] = &[
    FioOption::new(
        "rate",
        "Maximum bandwidth, bytes per second",
        ValueKind::Sizes { min: 0, field: |job| &mut job.rate },
    ),
    FioOption::new(
        "rate_min",
        "The job ends if its bandwidth stays below this",
        ValueKind::Sizes { min: 0, field: |job| &mut job.rate_min },
    )
    .aliases(&["ratemin"]),
    FioOption::new(
        "rate_iops",
        "Maximum requests per second",
        ValueKind::Counts { min: 0, max: u32::MAX, field: |job| &mut job.rate_iops },
    ),
    FioOption::new(
        "rate_iops_min",
        "The job ends if its IOPS stay below this",
        ValueKind::Counts { min: 0, max: u32::MAX, field: |job| &mut job.rate_iops_min },
    ),
    millis!("rate_cycle", "Time over which rate_min and rate_iops_min are checked", rate_cycle)
        .aliases(&["ratecycle"])
        .default("1000"),
    FioOption::new("rate_process", "How requests at a limited rate are spaced", choice!(rate_process: RateProcess))
        .default("linear"),
    FioOption::new(
        "thinktime",
        "Pause after each request",
        ValueKind::Time { unit: TimeUnit::Microseconds, field: |job| &mut job.thinktime },
    )
    .default("0"),
    FioOption::new(
        "thinktime_spin",
        "How much of thinktime is spent spinning",
        ValueKind::Time { unit: TimeUnit::Microseconds, field: |job| &mut job.thinktime_spin },
    )
    .default("0"),
    FioOption::new(
        "thinktime_blocks",
        "Requests between two pauses",
        ValueKind::Count { min: 0, max: u32::MAX, field: |job| &mut job.thinktime_blocks },
    )
    .default("1"),
    FioOption::new(
        "thinktime_blocks_type",
        "What thinktime_blocks counts",
        choice!(thinktime_blocks_type: ThinkBlocks),
    )
    .default("complete"),
    FioOption::new(
        "thinktime_iotime",
        "Time between two pauses",
        ValueKind::Time { unit: TimeUnit::Seconds, field: |job| &mut job.thinktime_iotime },
    )
    .default("0"),
    FioOption::new(
        "flow",
        "Share of this job in the requests of all jobs with a flow",
        ValueKind::Count { min: 0, max: 1000, field: |job| &mut job.flow },
    )
    .default("0"),
    FioOption::new(
        "flow_id",
        "Jobs with the same number share one flow",
        ValueKind::Count { min: 0, max: u32::MAX, field: |job| &mut job.flow_id },
    )
    .default("0"),
    idle("flow_watermark", "How far a job may be ahead of its flow", "a number", idle_number)
        .quietly("it has no effect (nor does it in fio)"),
    FioOption::new(
        "flow_sleep",
        "How long a job waits when it is ahead of its flow, microseconds",
        ValueKind::Own {
            accepts: "a plain number of microseconds",
            bare: false,
            set: |job, text, _| {
                job.flow_sleep = std::time::Duration::from_micros(super::count(text, 0, u32::MAX)?.into());
                Ok(())
            },
        },
    )
    .default("0"),
    FioOption::new(
        "max_latency",
        "The job fails if a request takes longer",
        ValueKind::Own {
            accepts: "a time such as 10ms or plain microseconds (or read,write,trim)",
            bare: false,
            set: |job, text, _| {
                let given = value::triple(text, |part| value::duration(part, TimeUnit::Microseconds))?;
                super::replace(&mut job.max_latency, given);
                Ok(())
            },
        },
    ),
    FioOption::new(
        "latency_target",
        "Find the largest queue that keeps to this latency",
        ValueKind::Time { unit: TimeUnit::Microseconds, field: |job| &mut job.latency_target },
    ),
    FioOption::new(
        "latency_window",
        "How long to try each queue depth for latency_target",
        ValueKind::Time { unit: TimeUnit::Microseconds, field: |job| &mut job.latency_window },
    ),
    FioOption::new(
        "latency_percentile",
        "Share of the requests that must keep to latency_target, percent",
        ValueKind::Own {
            accepts: "a number from 0 to 100",
            bare: false,
            set: |job, text, _| match value::float(text)? {
                percent if (0.0..=100.0).contains(&percent) => {
                    job.latency_percentile = percent;
                    Ok(())
                }
                _ => Err(Fault::Problem("it is not between 0 and 100".into())),
            },
        },
    )
    .default("100"),
    FioOption::new(
        "latency_run",
        "Keep adjusting the queue after latency_target has been reached",
        ValueKind::Bool(|job| &mut job.latency_run),
    )
    .default("0"),
    FioOption::new(
        "steadystate",
        "End when IOPS or bandwidth have become steady",
        ValueKind::Own {
            accepts: "iops, iops_slope, bw or bw_slope with `:LIMIT`, such as iops:2% or bw:10m",
            bare: false,
            set: |job, text, base| {
                let (word, limit) = text
                    .split_once(':')
                    .ok_or_else(|| Fault::Problem("the limit is missing, as in iops:2%".to_owned()))?;
                let criterion = SteadyCriterion::parse(word.trim())
                    .ok_or_else(|| super::no_such_word(word, SteadyCriterion::help))?;
                let in_bytes = matches!(criterion, SteadyCriterion::Bw | SteadyCriterion::BwSlope);
                let (limit, percent) = match value::percentage(limit) {
                    Some(limit) => (value::float(limit)?, true),
                    None if in_bytes => (value::unsigned(limit, base)? as f64, false),
                    None => (value::float(limit)?, false),
                };
                if limit < 0.0 {
                    return Err(Fault::Problem("the limit must not be below zero".into()));
                }
                job.steadystate = Some(SteadyState { criterion, limit, percent });
                Ok(())
            },
        },
    )
    .aliases(&["ss"]),
    FioOption::new(
        "steadystate_duration",
        "How long it must be steady",
        ValueKind::Time { unit: TimeUnit::Seconds, field: |job| &mut job.steadystate_duration },
    )
    .aliases(&["ss_dur"])
    .default("0"),
    FioOption::new(
        "steadystate_ramp_time",
        "Time before checking for a steady state",
        ValueKind::Time { unit: TimeUnit::Seconds, field: |job| &mut job.steadystate_ramp_time },
    )
    .aliases(&["ss_ramp"])
    .default("0"),
];

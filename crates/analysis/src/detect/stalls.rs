//! Single operations that took far longer than almost all others.
//!
//! Formula: latency > 10 x p99 of the same stream and at least 2 ms (shorter ones may be the scheduler's), only where
//! p99 is resolved. Evidence are the times at which they were issued, from `Stream::slowest`, which keeps the 32
//! slowest of each kind. Stalls of both kinds of operation within 100 ms of each other are reported as in common: the
//! device or the machine stood still, not just one file. From 50 ms up it warns.
//!
//! As root, where BPF is possible, the evidence includes how much of the time of the slowest operations the device had
//! their requests. Otherwise it cannot distinguish a device that stalls from a machine that was not scheduled
//! (`cpu_spoiled` reports that), and
//! with few operations one stall raises p99 itself and so hides. This does not look for periods.

use qd1_model::FindingId;
use qd1_model::op::OpClass;
use qd1_model::order::Order as _;
use qd1_model::record::StepRecord;
use qd1_model::units::format_ns;
use qd1_model::{Finding, Record, Severity, Summary};

use super::{base_finding, clock_of, percent};

/// Multiple of p99 from which a latency is a stall.
const TIMES_P99: f64 = 10.0;
/// Shortest stall, ns.
const LATENCY_MIN_NS: u64 = 2_000_000;
/// Warns from here on, ns.
const WARNING_NS: u64 = 50_000_000;
/// Stalls closer than this are one event, ns.
pub(crate) const TOGETHER_NS: u64 = 100_000_000;
/// Number of stalls listed at most.
const LISTED: usize = 5;
/// From this much steal, the processor is as likely a cause.
const STEAL_DOUBT: f64 = 0.02;

/// One stall.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stall {
    pub(crate) class: OpClass,
    /// When it was issued, ns since the step's measurement began.
    pub(crate) at_ns: u64,
    pub(crate) lat_ns: u64,
}

pub(super) fn detect(record: &Record, summary: &Summary) -> Vec<Finding> {
    let mut found: Vec<(u64, Finding)> = record.steps.iter().filter_map(|step| finding(step, summary)).collect();
    // The longest first: if several steps had stalls, that one is reported in full.
    found.order_by_key(|(worst_ns, _)| std::cmp::Reverse(*worst_ns));
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// Returns the stalls of a step in time order.
pub(crate) fn stalls_of(step: &StepRecord, summary: &Summary) -> Vec<Stall> {
    let mut stalls: Vec<Stall> = Vec::new();
    for stream in &step.streams {
        let Some(p99) = p99_of(step, stream.class, summary) else { continue };
        let limit_ns = (TIMES_P99 * p99).max(LATENCY_MIN_NS as f64);
        let slow = stream.slowest.iter().filter(|slow| slow.lat_ns as f64 > limit_ns);
        stalls.extend(slow.map(|slow| Stall { class: stream.class, at_ns: slow.at_ns, lat_ns: slow.lat_ns }));
    }
    stalls.order_by_key(|stall| stall.at_ns);
    stalls
}

fn p99_of(step: &StepRecord, class: OpClass, summary: &Summary) -> Option<f64> {
    summary.stream(&step.name, class)?.lat_p99_ns.value
}

fn finding(step: &StepRecord, summary: &Summary) -> Option<(u64, Finding)> {
    let stalls = stalls_of(step, summary);
    let has_stalled = |class: OpClass| stalls.iter().any(|stall| stall.class == class);
    let p99s: Vec<String> = step
        .streams
        .iter()
        .filter(|stream| has_stalled(stream.class))
        .filter_map(|stream| Some((stream.class.name(), p99_of(step, stream.class, summary)?)))
        .map(|(name, p99)| format!("p99 of {name} is {}", format_ns(p99)))
        .collect();
    let worst = stalls.iter().map(|stall| stall.lat_ns).max()?;
    let events = stalls.windows(2).filter(|pair| pair[1].at_ns - pair[0].at_ns > TOGETHER_NS).count() + 1;
    let common =
        stalls.windows(2).any(|pair| pair[0].class != pair[1].class && pair[1].at_ns - pair[0].at_ns <= TOGETHER_NS);
    let (begin_ns, of_run) = clock_of(step);
    let listed: Vec<String> = stalls
        .iter()
        .take(LISTED)
        .map(|stall| {
            let at = (begin_ns + stall.at_ns) as f64 / 1e9;
            format!("{} of {} at {at:.2} s{of_run}", stall.class.name(), format_ns(stall.lat_ns as f64))
        })
        .collect();
    let more = if stalls.len() > LISTED { ", ..." } else { "" };
    let device = in_device(step, has_stalled);
    let together = if common { "; reads and writes stood still together" } else { "" };
    let finding = Finding {
        step: step.name.clone(),
        title: format!(
            "{} of step {} took more than ten times p99, the slowest {}",
            plural(stalls.len(), "operation"),
            step.name,
            format_ns(worst as f64)
        ),
        evidence: format!(
            "{}{more}; {}; {}{together}{device}",
            listed.join(", "),
            p99s.join(", "),
            plural(events, "separate moment")
        ),
        advice: "Compare with the machine's log and the provider's maintenance windows at these times, and measure \
                 again; programs with timeouts may be affected."
            .to_owned(),
        ..base_finding(
            FindingId::Stalls,
            if worst >= WARNING_NS { Severity::Warning } else { Severity::Info },
            if step.steal > STEAL_DOUBT { 0.5 } else { 0.8 },
        )
    };
    Some((worst, finding))
}

/// How much of the time of the slowest operations was in the device, if that was seen.
fn in_device(step: &StepRecord, has_stalled: impl Fn(OpClass) -> bool) -> String {
    let seen = step.streams.iter().filter(|stream| has_stalled(stream.class)).filter_map(|stream| stream.in_device);
    match seen.reduce(|one, other| one.plus(&other)) {
        Some(seen) if seen.lat_ns > 0 => {
            let share = percent(seen.device_ns as f64 / seen.lat_ns as f64);
            let slowest = match seen.operations {
                1 => "slowest operation".to_owned(),
                operations => format!("{operations} slowest operations"),
            };
            format!("; {share} of the time of the {slowest} was in the device")
        }
        _ => String::new(),
    }
}

/// `1 operation`, `3 operations`.
fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::record::{InDevice, Slow};

    #[test]
    fn stalls_are_listed_with_their_times() {
        let mut record = testing::record();
        record.steps[0].streams[0].slowest =
            vec![Slow { at_ns: 1_500_000_000, lat_ns: 180_000_000 }, Slow { at_ns: 300_000_000, lat_ns: 90_000_000 }];
        let found = testing::run(detect, &record);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!(found[0].evidence.starts_with("read of 90.0 ms at 0.30 s, read of 180 ms at 1.50 s"));
        assert!(found[0].evidence.contains("2 separate moments"));
    }

    #[test]
    fn the_tail_of_an_even_distribution_is_not_a_stall() {
        let mut record = testing::record();
        record.steps[0].streams[0].slowest = vec![Slow { at_ns: 0, lat_ns: 900_000 }];
        assert_eq!(testing::run(detect, &record), []);
    }

    #[test]
    fn where_the_slowest_operations_waited_is_said() {
        let mut record = testing::record();
        let stream = &mut record.steps[0].streams[0];
        stream.slowest = vec![Slow { at_ns: 0, lat_ns: 900_000_000 }];
        let evidence = |record: &Record| testing::run(detect, record)[0].evidence.clone();
        assert!(!evidence(&record).contains("in the device"));
        record.steps[0].streams[0].in_device =
            Some(InDevice { operations: 1, lat_ns: 900_000_000, device_ns: 882_000_000 });
        let said = evidence(&record);
        assert!(said.ends_with("98 % of the time of the slowest operation was in the device"), "{said}");
    }

    #[test]
    fn without_a_resolved_p99_nothing_is_called_a_stall() {
        let mut record = testing::record();
        record.steps[0].intervals.truncate(2);
        record.steps[0].streams[0].slowest = vec![Slow { at_ns: 0, lat_ns: 900_000_000 }];
        assert_eq!(testing::run(detect, &record), []);
    }
}

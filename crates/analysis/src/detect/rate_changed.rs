//! The disk's speed changed while it was measured, so one figure for the whole step describes neither level.
//!
//! Concludes from the change points of [`qd1_stats::change`] (method and error table: docs/method.md). A rate that
//! falls to one exact value and stays there is a burst that was spent; any other fall has a different cause. Changes of
//! several kinds of operation within half a second are one, and a level has to last as long: the first tenths of a
//! second of a short step may be due to a processor that wakes up or a queue that fills. Changes at a fixed period are
//! `periodic_stalls`', a slope is `drift`'s. Reported from 15 %, or 25 % of latency where requests come at a given
//! rate.
//!
//! It cannot distinguish a limit from a disk that is exactly regular on its own, nor a neighbour from this machine's
//! own work (`other_traffic` counts that).

use qd1_model::FindingId;
use qd1_model::order::Order as _;
use qd1_model::record::StepRecord;
use qd1_model::units::{format_count, format_ns};
use qd1_model::{Estimate, Finding, Record, Severity};

use super::{base_finding, clock_of, percent};
use qd1_stats::change::{Change, ChangeKind, Ratio, StepCourse, Stretch, steady_state_of};

/// Smallest change of a rate reported, in either direction: the larger level over the smaller.
const RATE_MIN: f64 = 1.15;
/// The same of a median latency where the rate stays.
const LATENCY_MIN: f64 = 1.25;
/// Share of the rate lost from which it warns.
const WARNING_LOST: f64 = 0.3;
/// Changes closer than this count as one; a level has to last as long to be one, ns.
const TOGETHER_NS: u64 = 500_000_000;
/// Number of changes listed at most.
const LISTED: usize = 4;

pub(super) fn detect(record: &Record, courses: &[StepCourse]) -> Vec<Finding> {
    record.steps.iter().zip(courses).filter_map(|(step, course)| changed(step, course)).collect()
}

/// Returns the changes of level of a step in time order, with simultaneous changes of several kinds of operation as
/// one.
pub(crate) fn changes_of(course: &StepCourse) -> Vec<Change> {
    let mut changes: Vec<Change> = course
        .courses
        .iter()
        .flat_map(|course| course.changes.iter().cloned())
        .filter(|change| size(change) >= if change.rate.is_some() { RATE_MIN } else { LATENCY_MIN })
        .filter(|change| change.rate.or(change.latency).is_some_and(is_one_way))
        .filter(lasts)
        .collect();
    changes.order_by_key(|change| change.at_ns);
    // Reads and writes of one step change together: the larger change is reported.
    changes.dedup_by(|next, kept| {
        let same = next.at_ns - kept.at_ns <= TOGETHER_NS;
        if same && size(next) > size(kept) {
            std::mem::swap(next, kept);
        }
        same
    });
    changes
}

/// Whether it is more than a difference between the first or last moments of a step and the rest.
fn lasts(change: &Change) -> bool {
    let is_short = |level: &Stretch| level.to_ns.saturating_sub(level.from_ns) < TOGETHER_NS;
    let is_of_the_beginning = change.before.from_ns < TOGETHER_NS && is_short(&change.before);
    !is_of_the_beginning && !is_short(&change.after)
}

fn changed(step: &StepRecord, course: &StepCourse) -> Option<Finding> {
    let changes = changes_of(course);
    let main = changes.iter().max_by(|a, b| size(a).total_cmp(&size(b)))?;
    let doubt = changes.iter().map(|change| change.doubt).fold(0.0, f64::max);
    let lost = main.rate.map_or(0.0, |rate| 1.0 - rate.value.min(1.0 / rate.value));
    let spent = changes.last().is_some_and(|last| last.kind == ChangeKind::BurstSpent);
    let mut listed: Vec<String> = changes.iter().take(LISTED).map(|change| describe(step, change)).collect();
    if changes.len() > LISTED {
        listed.push(format!("and {} more", changes.len() - LISTED));
    }
    // The end of a step measured in visits is too short for it to have settled.
    if clock_of(step).1.is_empty() {
        listed.push(match steady_state_of(step, main.class) {
            Some(steady) => format!("steady from {:.1} s on at {}", seconds(steady.since_ns), rate_of(&steady.rate)),
            None => "not steady at the end, so no rate of this step is sustained".to_owned(),
        });
    }
    let spent_last = if spent { changes.last() } else { None };
    Some(Finding {
        step: step.name.clone(),
        title: title(step, spent_last.unwrap_or(main), changes.len()),
        evidence: listed.join("; "),
        advice: advice(spent_last.unwrap_or(main).kind).to_owned(),
        ..base_finding(
            FindingId::RateChanged,
            if spent || lost >= WARNING_LOST { Severity::Warning } else { Severity::Info },
            if doubt < 1e-6 { 0.95 } else { 0.85 },
        )
    })
}

/// The larger level divided by the smaller, of the rate, or else of the latency.
fn size(change: &Change) -> f64 {
    change.rate.or(change.latency).map_or(1.0, |ratio| ratio.value.max(1.0 / ratio.value))
}

/// Whether the interval says in which direction it went: "+173 % (-59 % to +1736 %)" does not.
fn is_one_way(ratio: Ratio) -> bool {
    ratio.low > 1.0 || ratio.high < 1.0
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn rate_of(rate: &Estimate) -> String {
    rate.value.map_or_else(|| "an unresolved rate".to_owned(), |rate| format!("{} a second", format_count(rate)))
}

fn title(step: &StepRecord, main: &Change, count: usize) -> String {
    let (begin_ns, of_run) = clock_of(step);
    let (name, at) = (&step.name, seconds(begin_ns + main.at_ns));
    let into = if of_run.is_empty() { format!("into step {name}") } else { format!("into the run, in step {name}") };
    let class = main.class.name();
    let levels = format!("from {} to {}", rate_of(&main.before.rate), rate_of(&main.after.rate));
    match main.kind {
        ChangeKind::BurstSpent => {
            format!("a burst was spent {at:.1} s {into}: {class}s fell {levels}, which looks like a limit")
        }
        _ if count > 2 => format!("the disk changed its speed {count} times in step {name}"),
        ChangeKind::Slower => format!("the disk became slower {at:.1} s {into}: {class}s fell {levels}"),
        ChangeKind::Faster => format!("the disk became faster {at:.1} s {into}: {class}s rose {levels}"),
        ChangeKind::LatencyOnly => {
            let median = |of: &Estimate| of.value.map_or_else(|| "unresolved".to_owned(), format_ns);
            let (before, after) = (median(&main.before.median_ns), median(&main.after.median_ns));
            format!("the median latency of {class}s changed {at:.1} s {into}, from {before} to {after}")
        }
    }
}

/// Returns the change in a few words: `fell from 8.0k to 3.0k a second`.
pub(crate) fn in_short(change: &Change) -> String {
    let median = |of: &Estimate| of.value.map_or_else(|| "unresolved".to_owned(), format_ns);
    let rates = || format!("from {} to {}", rate_of(&change.before.rate), rate_of(&change.after.rate));
    match change.kind {
        ChangeKind::BurstSpent => format!("burst spent: fell {}", rates()),
        ChangeKind::Slower => format!("fell {}", rates()),
        ChangeKind::Faster => format!("rose {}", rates()),
        ChangeKind::LatencyOnly => {
            format!("median from {} to {}", median(&change.before.median_ns), median(&change.after.median_ns))
        }
    }
}

/// `read at 31.2 s (31.1 to 31.3): rate -52 % (-53 % to -51 %), median latency 4.90 times (4.81 to 4.99)`.
fn describe(step: &StepRecord, change: &Change) -> String {
    let mut parts = Vec::new();
    if let Some(rate) = change.rate {
        let signed = |value: f64| format!("{}{}", if value < 1.0 { "-" } else { "+" }, percent((value - 1.0).abs()));
        parts.push(format!("rate {} ({} to {})", signed(rate.value), signed(rate.low), signed(rate.high)));
    }
    if let Some(latency) = change.latency {
        parts.push(format!("median latency {:.2} times ({:.2} to {:.2})", latency.value, latency.low, latency.high));
    }
    let (begin_ns, of_run) = clock_of(step);
    let at = |ns: u64| seconds(begin_ns + ns);
    format!(
        "{} at {:.1} s{of_run} ({:.1} to {:.1}): {}",
        change.class.name(),
        at(change.at_ns),
        at(change.at_low_ns),
        at(change.at_high_ns),
        parts.join(", ")
    )
}

fn advice(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::BurstSpent => {
            "Count on the rate after the change: the one before it is paid from a balance that refills only while the \
             disk rests. A longer step shows whether it falls again."
        }
        ChangeKind::Slower | ChangeKind::LatencyOnly => {
            "The figures of this step mix both levels. Measure again at other hours; if it returns, another user of the \
             disk or a full cache below is likely."
        }
        ChangeKind::Faster => {
            "The figures of this step mix both levels. A longer ramp keeps a cold start out; otherwise another user of \
             the disk went away."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// The healthy record, its first step long, and `factor` times slower from `from` intervals on.
    fn slowed(intervals: usize, from: usize, factor: u64) -> Record {
        let mut record = testing::record();
        let step = &mut record.steps[0];
        let template = step.intervals.clone();
        step.intervals = (0..intervals)
            .map(|i| {
                let mut interval = template[i % template.len()].clone();
                interval.start_ns = i as u64 * 100_000_000;
                let stream = &mut interval.streams[0];
                // A little irregular, as disks are.
                stream.ios = 800 + (i as u64 * 7919) % 83;
                if i >= from {
                    stream.ios /= factor;
                    stream.bins.iter_mut().for_each(|(bin, _)| *bin += 16 * factor.ilog2() as u16);
                }
                interval
            })
            .collect();
        step.runtime_ns = intervals as u64 * 100_000_000;
        record
    }

    #[test]
    fn a_change_whose_direction_is_not_known_is_none() {
        let of = |value, low, high| Ratio { value, low, high };
        assert!(is_one_way(of(2.73, 1.2, 6.0)) && is_one_way(of(0.48, 0.47, 0.49)));
        assert!(!is_one_way(of(2.73, 0.41, 18.36)));
    }

    #[test]
    fn a_disk_that_became_slower_is_reported_with_time_and_size() {
        let found = testing::run_along(detect, &slowed(200, 120, 2));
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!(found[0].title.contains("slower 12.0 s into step reads"), "{}", found[0].title);
        assert!(found[0].evidence.contains("rate -50 %"), "{}", found[0].evidence);
        assert!(found[0].evidence.contains("median latency 1.9"), "{}", found[0].evidence);
        assert!(found[0].evidence.contains("steady from 12."), "{}", found[0].evidence);
    }

    /// "A burst was spent 0.1 s into step" stood below the methods of a quick `sync`, with advice about balances.
    #[test]
    fn a_level_of_a_few_tenths_of_a_second_is_not_reported() {
        // Intervals of 20 ms.
        let with_head = |head_ms: u64| {
            let mut record = slowed(300, 300, 1);
            for (at, interval) in record.steps[0].intervals.iter_mut().enumerate() {
                (interval.start_ns, interval.length_ns) = (at as u64 * 20_000_000, 20_000_000);
                if at as u64 * 20 >= head_ms {
                    interval.streams[0].ios = interval.streams[0].ios * 5 / 8;
                }
            }
            testing::run_along(detect, &record).len()
        };
        assert_eq!((with_head(400), with_head(900)), (0, 1));
    }

    #[test]
    fn a_rate_that_falls_to_one_exact_value_is_a_spent_burst() {
        let mut record = slowed(200, 200, 1);
        record.steps[0].intervals.iter_mut().skip(90).for_each(|interval| interval.streams[0].ios = 300);
        let found = testing::run_along(detect, &record);
        assert_eq!(found.len(), 1);
        assert!(found[0].title.starts_with("a burst was spent 9.0 s into step reads"), "{}", found[0].title);
        assert!(found[0].title.contains("to 3.00k a second"), "{}", found[0].title);
    }

    #[test]
    fn a_disk_that_keeps_its_speed_is_not_reported() {
        assert_eq!(testing::run_along(detect, &slowed(200, 200, 1)), []);
        assert_eq!(testing::run_along(detect, &testing::record()), []);
    }
}

//! Slowness that recurs at a fixed period: slow episodes, or a swing of the rate.
//!
//! Concludes from [`qd1_stats::change::periodic`]: spacing of slow episodes with a bound on false alarms of 1e-3, and a
//! periodogram (method and error table: docs/method.md). A period near five seconds points to journal commits, near
//! thirty to the expiry of dirty pages; others are left unnamed. Stalls are reported from 2 ms, swings from 15 %.
//!
//! Blind to periods below three intervals (0.3 s) and to fewer than five stalls; a task on this machine that wakes up
//! on a timer looks the same as one in the disk.

use qd1_model::FindingId;
use qd1_model::units::format_ns;
use qd1_model::{Finding, Record, Severity};

use super::{base_finding, percent};
use qd1_stats::change::{Periodic, Recurrence, StepCourse, stalls_of_run};

/// Shortest stall reported, ns.
const LATENCY_MIN_NS: f64 = 2e6;
/// Warns from here on, ns.
const WARNING_NS: f64 = 50e6;
/// Smallest swing reported, highest over lowest, and the one from which it warns.
const SWING_MIN: f64 = 1.15;
const SWING_WARNING: f64 = 1.5;
/// Known causes: period in seconds, and the cause.
const KNOWN: [(f64, &str); 2] = [
    (5.0, "ext4 commits its journal every 5 s, and the kernel's writeback wakes up every 5 s"),
    (30.0, "the kernel writes back pages that have been dirty for 30 s, and btrfs commits every 30 s"),
];

pub(super) fn detect(record: &Record, courses: &[StepCourse]) -> Vec<Finding> {
    let of_steps =
        record.steps.iter().zip(courses).filter_map(|(step, course)| {
            finding(course.returning.as_ref()?, &step.name, &format!("step {}", step.name))
        });
    // Steps whose visits take turns see the same stalls.
    let of_run = stalls_of_run(&record.steps).and_then(|found| finding(&found, "", "the disk"));
    of_run.into_iter().chain(of_steps).collect()
}

fn finding(periodic: &Periodic, step: &str, who: &str) -> Option<Finding> {
    let period = format!("every {:.2} s", periodic.period_ns / 1e9);
    let (title, severity, seen) = match periodic.recurrence {
        Recurrence::Stalls { latency_ns, episodes } if latency_ns >= LATENCY_MIN_NS => (
            format!("{who} was slow {period}: requests took up to {}", format_ns(latency_ns)),
            if latency_ns >= WARNING_NS { Severity::Warning } else { Severity::Info },
            format!("{episodes} slow episodes in {} cycles", periodic.cycles),
        ),
        Recurrence::Swing { factor } if factor >= SWING_MIN => (
            format!("the speed of {who} swings {period}, by a factor of {factor:.1}"),
            if factor >= SWING_WARNING { Severity::Warning } else { Severity::Info },
            format!("{} cycles", periodic.cycles),
        ),
        _ => return None,
    };
    Some(Finding {
        step: step.to_owned(),
        title,
        evidence: format!(
            "{seen}, period {:.2} s ({:.2} to {:.2}), the first at {:.1} s; chance of this without a period at most {}",
            periodic.period_ns / 1e9,
            periodic.low_ns / 1e9,
            periodic.high_ns / 1e9,
            periodic.first_ns / 1e9,
            percent(periodic.false_alarm.max(1e-3)),
        ),
        advice: advice(periodic),
        ..base_finding(FindingId::PeriodicStalls, severity, if periodic.false_alarm < 1e-5 { 0.95 } else { 0.85 })
    })
}

fn advice(periodic: &Periodic) -> String {
    let near = |(seconds, _): &&(f64, &str)| {
        let within = 0.03 * seconds * 1e9;
        periodic.low_ns - within <= seconds * 1e9 && seconds * 1e9 <= periodic.high_ns + within
    };
    match KNOWN.iter().find(near) {
        Some((_, cause)) => format!("Look for what wakes up at this period: {cause}."),
        None => "Look for what wakes up at this period: a timer of this machine, a journal, a limiter, or maintenance \
                 of the disk."
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// The healthy record with a first step of 40 s, with requests of `lat_ns` in every `period`-th interval.
    fn stalled(period: usize, lat_ns: u64) -> Record {
        let mut record = testing::record();
        let step = &mut record.steps[0];
        let template = step.intervals.clone();
        step.intervals = (0..400)
            .map(|i| {
                let mut interval = template[i % template.len()].clone();
                interval.start_ns = i as u64 * 100_000_000;
                interval.streams[0].lat_max_ns += (i as u64 * 7919) % 10_007;
                if i % period == 3 {
                    interval.streams[0].lat_max_ns = lat_ns + (i as u64 * 31) % 1000;
                }
                interval
            })
            .collect();
        record
    }

    #[test]
    fn stalls_every_five_seconds_are_a_journals() {
        let found = testing::run_along(detect, &stalled(50, 80_000_000));
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!(found[0].title.contains("every 5.00 s: requests took up to 80.0 ms"), "{}", found[0].title);
        assert!(found[0].evidence.starts_with("8 slow episodes in 8 cycles"), "{}", found[0].evidence);
        assert!(found[0].advice.contains("journal every 5 s"), "{}", found[0].advice);
    }

    #[test]
    fn short_stalls_and_stalls_without_a_period_are_not_reported() {
        assert_eq!(testing::run_along(detect, &stalled(50, 900_000)), []);
        let mut record = stalled(500, 80_000_000);
        for i in [17, 40, 121, 130, 222, 301, 390] {
            record.steps[0].intervals[i].streams[0].lat_max_ns = 80_000_000;
        }
        assert_eq!(testing::run_along(detect, &record), []);
        assert_eq!(testing::run_along(detect, &testing::record()), []);
    }

    /// Two steps that take turns of half a second, and a stall every 3 s that meets whichever is there.
    #[test]
    fn stalls_are_found_in_steps_that_take_turns() {
        let mut record = stalled(500, 80_000_000);
        let all = std::mem::take(&mut record.steps[0].intervals);
        let mut other = record.steps[0].clone();
        other.name = "other".to_owned();
        for (at, mut interval) in all.into_iter().enumerate() {
            if at % 30 == 7 {
                interval.streams[0].lat_max_ns = 80_000_000;
            }
            let step = if at / 5 % 2 == 0 { &mut record.steps[0] } else { &mut other };
            step.intervals.push(interval);
        }
        record.steps.insert(1, other);
        let found = testing::run_along(detect, &record);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].step.is_empty() && found[0].title.contains("every 3.00 s"), "{}", found[0].title);
    }
}

//! Limits on the numbers in a stored record, so that the analysis can size its tables by them. Only a damaged record
//! exceeds them: each limit is far above what a run can write.

use super::{Interval, Record};
use crate::hist::COARSE_BINS;
use crate::op::OpClass;
use crate::plan::prediction::DiskError;
use crate::record::long_check::LongCheckRecord;
use crate::record::{StepRecord, Stream};

/// Maximum time of a step not covered by its intervals, ns: a day. It is analysed in slices of 10 ms or more.
const UNDIVIDED_NS_MAX: u64 = 86_400_000_000_000;
/// The same of all steps of a run, ns: two days. Sixteen steps of a day each took as long as 16 runs.
const RUN_UNDIVIDED_NS_MAX: u64 = 2 * UNDIVIDED_NS_MAX;
/// Maximum time of a check over hours, ns: 60 days. It is analysed by hours.
const OVER_NS_MAX: u64 = 60 * UNDIVIDED_NS_MAX;
/// Maximum rounds in it: a single step of 50 ms has 86,000 in a fortnight.
const ROUNDS_MAX: u32 = 1_000_000;
/// Linux is built for at most 8,192.
const CPUS_MAX: u32 = 65_536;
/// Ten times what the command line accepts.
const SCALE_MAX: u32 = 1_000_000;
/// Tolerance for a share of the processors' time, since the clocks are read one after the other.
const SHARE_MAX: f64 = 2.0;
/// Maximum number of prediction errors, and the size of one: a factor of e to that power.
const ERRORS_MAX: usize = 10_000;
const ERROR_MAX: f64 = 50.0;

impl Record {
    /// Checks the numbers that decide how much memory the analysis takes.
    ///
    /// # Errors
    /// What is impossible, in a few words.
    pub fn check(&self) -> Result<(), String> {
        let cpus = self.environment.cpus;
        if cpus > CPUS_MAX {
            return Err(format!("it has {cpus} processors"));
        }
        if let Some(plan) = &self.plan.prediction {
            if plan.scale > SCALE_MAX {
                return Err(format!("it predicts for a scale of {}", plan.scale));
            }
            let errors = plan.experience.iter().flat_map(|known| &known.errors);
            let is_possible = |one: &DiskError| one.error.abs() <= ERROR_MAX && (0.0..=ERROR_MAX).contains(&one.sd);
            if errors.clone().count() > ERRORS_MAX || !errors.clone().all(is_possible) {
                return Err("its record of earlier predictions is impossible".to_owned());
            }
        }
        self.check_rounds()?;
        check_steps(&self.steps, self.plan.over.is_some())
    }
}

fn check_steps(steps: &[StepRecord], is_over_hours: bool) -> Result<(), String> {
    if let Some(step) = steps.iter().find(|step| has_class_twice(step)) {
        return Err(format!("step {:?} has a kind of operation twice", step.name));
    }
    let is_share = |share: f64| (0.0..=SHARE_MAX).contains(&share);
    if let Some(step) = steps.iter().find(|step| !is_share(step.steal) || !is_share(step.busy)) {
        return Err(format!("step {:?} has an impossible share of processor time", step.name));
    }
    let most_ns = if is_over_hours { OVER_NS_MAX } else { UNDIVIDED_NS_MAX };
    let mut undivided_ns = 0u64;
    for step in steps {
        let of_step = check_intervals(step, most_ns).map_err(|what| format!("step {:?} {what}", step.name))?;
        undivided_ns = undivided_ns.saturating_add(of_step);
    }
    // Steps whose visits alternate each have the gaps of all others.
    if !is_over_hours && undivided_ns > RUN_UNDIVIDED_NS_MAX {
        return Err("its steps have days without intervals".to_owned());
    }
    Ok(())
}

/// Each kind of operation has one stream: with thousands of one kind a small file takes minutes.
fn has_class_twice(step: &StepRecord) -> bool {
    let is_again = |(at, stream): (usize, &Stream)| step.streams[..at].iter().any(|other| other.class == stream.class);
    step.streams.len() > OpClass::ALL.len() || step.streams.iter().enumerate().any(is_again)
}

impl Record {
    /// Checks the rounds of a check over hours, which is analysed hour by hour.
    fn check_rounds(&self) -> Result<(), String> {
        let Some(plan) = self.plan.over else {
            return if self.over.is_none() { Ok(()) } else { Err("it has rounds that are not in its plan".to_owned()) };
        };
        if plan.duration_ns > OVER_NS_MAX || plan.rounds > ROUNDS_MAX {
            return Err(format!("it has {} rounds in {} ns", plan.rounds, plan.duration_ns));
        }
        if self
            .over
            .iter()
            .flat_map(LongCheckRecord::uses)
            .any(|used| used.at_ns > OVER_NS_MAX || used.busy_ns > OVER_NS_MAX)
        {
            return Err("it used the disk for months".to_owned());
        }
        let mut next = 0;
        for round in self.over.iter().flat_map(|over| &over.rounds) {
            if round.number < next || round.number >= plan.rounds {
                return Err(format!("it has a round {} after {next} of {}", round.number, plan.rounds));
            }
            next = round.number + 1;
        }
        Ok(())
    }
}

/// Returns the time of a step not covered by its intervals, ns.
fn check_intervals(step: &StepRecord, most_ns: u64) -> Result<u64, String> {
    let mut undivided_ns = 0u64;
    let mut end_ns = step.intervals.first().map_or(0, |interval| interval.start_ns);
    for interval in &step.intervals {
        let gap_ns = interval.start_ns.saturating_sub(end_ns);
        let long_ns = interval.length_ns.saturating_sub(1_000_000_000);
        undivided_ns = undivided_ns.saturating_add(gap_ns).saturating_add(long_ns);
        end_ns = interval.start_ns.checked_add(interval.length_ns).ok_or("has an interval that lasts centuries")?;
        if highest_bin(interval) >= COARSE_BINS {
            return Err("has a latency outside all bins".to_owned());
        }
    }
    if undivided_ns > most_ns {
        return Err("has days without intervals".to_owned());
    }
    Ok(undivided_ns)
}

fn highest_bin(interval: &Interval) -> usize {
    let bins = interval.streams.iter().flat_map(|stream| &stream.bins);
    bins.map(|(bin, _)| usize::from(*bin)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;
    use crate::{Hist, OpClass};

    /// Cause: 2,000 streams of reads in a file of 775 kB took 85 s and 1.8 GB to analyse.
    #[test]
    fn a_kind_of_operation_is_in_a_step_once() {
        let stream = |class| Stream::of(class, Bytes(0), Hist::new());
        let step = |classes: &[OpClass]| StepRecord {
            streams: classes.iter().map(|class| stream(*class)).collect(),
            ..StepRecord::default()
        };
        assert!(!has_class_twice(&step(&OpClass::ALL)));
        assert!(has_class_twice(&step(&[OpClass::Read, OpClass::Write, OpClass::Read])));
    }

    /// Cause: 1.3 MB of sixteen runs with a day in each of sixteen steps took 9 s to compare.
    #[test]
    fn all_steps_together_have_two_days_without_an_interval() {
        let step = |hours: u64| StepRecord {
            intervals: vec![Interval { start_ns: 0, length_ns: hours * 3_600_000_000_000, streams: Vec::new() }],
            ..StepRecord::default()
        };
        let of_steps = |hours: &[u64]| check_steps(&hours.iter().map(|hours| step(*hours)).collect::<Vec<_>>(), false);
        assert_eq!(of_steps(&[23, 23]), Ok(()));
        assert!(of_steps(&[23, 23, 23]).is_err_and(|what| what.contains("its steps")));
        assert!(of_steps(&[25]).is_err_and(|what| what.contains("step \"\" has days")));
    }
}

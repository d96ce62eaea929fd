//! How much of a filesystem's space may be used, and how much a plan writes at most: known before anything is written.

use anyhow::Result;
use qd1_model::Bytes;
use qd1_model::plan::{Arrival, FileUse, IoWork, Plan, StepPlan, Work};

use crate::place::Place;
use qd1_model::{Problem, ProblemKind, Subject};

/// Space left free, unless the user says how much, is a tenth of the filesystem and at most this. It is for what other
/// programs write during the run: on a large filesystem a tenth would refuse a test of 1 GiB although 20 GiB are free.
const LEAVE_FREE_MAX: u64 = 4 << 30;
/// Bounds for the most that a step may write: no disk is faster than this rate, and no request than this time.
const WRITE_RATE_MAX: u64 = 8 << 30;
const WRITE_NS_MIN: u64 = 10_000;

/// Returns the most bytes that the measured load of a step can write: its own limit, or what the fastest disk could write in
/// its time.
pub(super) fn writes_max(step: &StepPlan) -> u64 {
    let longest_ns = step.duration_max_ns();
    match &step.work {
        Work::Files(files) if !files.sync.is_none() => {
            files.count.min(longest_ns / WRITE_NS_MIN).saturating_mul(files.size.0)
        }
        Work::Files(files) => files.writes_max(),
        // A program's load has a planner of its own.
        Work::App(_) => 0,
        Work::Io(io) if !io.rw.writes() => 0,
        Work::Io(io) if io.io_size.0 > 0 => {
            // It is measured again if its ramp used it up.
            let times = if step.stop.ramp_ns > 0 { 2 } else { 1 };
            let once = fill(io).saturating_add((io.io_size.0 as f64 * share_max(io)) as u64);
            once.saturating_mul(times)
        }
        Work::Io(io) => {
            let seconds = longest_ns as f64 / 1e9;
            let share = share_max(io);
            let requests = match io.arrival {
                Arrival::Closed => f64::from(io.in_flight()) * 1e9 / WRITE_NS_MIN as f64,
                // Spread at random, a tenth more may come.
                Arrival::Fixed { iops } | Arrival::Poisson { iops } | Arrival::Paced { iops, .. } => {
                    1.1 * iops * f64::from(io.numjobs)
                }
            };
            let per_second = requests * f64::from(io.block_max());
            fill(io).saturating_add((per_second.min(WRITE_RATE_MAX as f64) * share * seconds) as u64)
        }
    }
}

/// Returns what is written before a step begins.
fn fill(io: &IoWork) -> u64 {
    if io.file == FileUse::Own { io.size.0.saturating_mul(u64::from(io.numjobs)) } else { 0 }
}

/// Returns the largest share of the requests that are writes: each is drawn independently, so a little more than
/// requested.
fn share_max(io: &IoWork) -> f64 {
    let share = 1.0 - f64::from(io.rwmixread) / 100.0;
    if share < 1.0 { (1.1 * share).min(1.0) } else { 1.0 }
}

/// The space of a filesystem, bytes.
pub struct Space {
    /// Free for this user.
    pub free: u64,
    /// To be left free.
    pub leave: u64,
    /// Available to the test.
    pub usable: u64,
    /// Of the whole filesystem.
    pub total: u64,
}

impl Space {
    /// Returns why so many bytes do not fit, and what would make them fit.
    pub fn shortage(&self, needed: u64) -> String {
        let Self { free, leave, usable, total } = *self;
        if needed.saturating_add(leave) > total {
            let [needed, total, leave, free] = [needed, total, leave, free].map(Bytes);
            return format!(
                "needs {needed}, and {leave} must stay free (--leave-free), but this filesystem has only {total} in \
                 all ({free} free); choose a larger one"
            );
        }
        let [missing, needed, usable, free, leave] =
            [needed.saturating_add(leave).saturating_sub(free), needed, usable, free, leave].map(Bytes);
        format!(
            "needs {needed}, but only {usable} may be used: {free} are free, and {leave} must stay free \
             (--leave-free); free {missing} more"
        )
    }
}

/// Returns how much of the place's space may be used.
pub fn space(place: &Place) -> Space {
    let (total, free) = (place.filesystem.size.0, place.filesystem.available.0);
    let leave = place.leave_free.map_or_else(|| left_free(total), |bytes| bytes.0);
    Space { free, leave, usable: free.saturating_sub(leave), total }
}

fn left_free(total: u64) -> u64 {
    (total / 10).min(LEAVE_FREE_MAX)
}

/// Makes the plan fit into the space that may be used.
///
/// # Errors
/// When it cannot be made to fit.
pub(super) fn fit(plan: &mut Plan, place: &Place, size_given: bool) -> Result<()> {
    let space = space(place);
    let usable = space.usable;
    if plan.space_max().0 <= usable {
        return Ok(());
    }
    write_less(plan, usable);
    let needed = plan.space_max().0;
    if needed <= usable {
        return Ok(());
    }
    let shared = if plan.needs_shared_file() { plan.target.size.0 } else { 0 };
    let own = needed - shared;
    let smaller = usable.saturating_sub(own) / super::SIZE_MIN * super::SIZE_MIN;
    if !size_given && shared > 0 && smaller >= super::SIZE_MIN {
        plan.target.size = Bytes(smaller);
        let works = plan.steps.iter_mut().flat_map(StepPlan::works_mut);
        works.filter(|io| io.file == FileUse::Shared).for_each(|io| io.size = io.size.min(Bytes(smaller)));
        return Ok(());
    }
    let path = place.path.display();
    let gib = usable >> 30;
    let hint = match plan.steps.iter().all(|step| matches!(step.work, Work::Files(_))) {
        // Its file has to be twice as large as the memory given by --ram.
        true if plan.subject == Subject::Bonnie && gib >= 2 => {
            format!(", or make bonnie's file smaller: --size {gib}G --ram {}G", gib / 2)
        }
        true if usable > 0 => ", or ask for fewer or smaller files (qd1 meta --help)".to_owned(),
        false if size_given && usable >= own.saturating_add(super::SIZE_MIN) => {
            ", give a smaller --size, or choose steps with --only".to_owned()
        }
        _ => String::new(),
    };
    // If no size was requested, the smallest would do.
    let needed = if !size_given && shared > 0 { own.saturating_add(super::SIZE_MIN) } else { needed };
    let message = format!("not enough space in {path}: the test {}{hint}", space.shortage(needed));
    Err(Problem::new(ProblemKind::Unsafe, message).into())
}

/// Makes the own files of steps smaller: half of what the files that other steps keep, and the smallest shared file,
/// leave of the space.
fn write_less(plan: &mut Plan, usable: u64) {
    let kept: u64 = plan.steps.iter().filter(|step| step.visits > 1).map(StepPlan::space).sum();
    let most = usable.saturating_sub(kept.saturating_add(super::SIZE_MIN)) / 2;
    for step in plan.steps.iter_mut().filter(|step| step.visits <= 1) {
        let before = writes_max(step);
        let Work::Io(io) = &mut step.work else { continue };
        let block = u64::from(io.block_max());
        let size = Bytes((most / u64::from(io.numjobs.max(1)) / block).max(1) * block);
        if io.file != FileUse::Shared && io.size > size {
            // A file that is written once is still written once.
            io.io_size = if io.io_size == io.size { size } else { io.io_size };
            io.size = size;
            step.writes_max.0 -= before - writes_max(step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It said "free 784 MiB more" where 120 MiB more than that were missing.
    #[test]
    fn the_space_to_free_includes_what_must_stay_free() {
        let mib = |number: u64| number << 20;
        let space = Space { free: mib(904), leave: mib(1024), usable: 0, total: mib(8192) };
        let small = Space { total: mib(1536), ..space };
        assert!(
            small
                .shortage(mib(784))
                .ends_with("but this filesystem has only 1.5 GiB in all (904 MiB free); choose a larger one"),
            "{}",
            small.shortage(mib(784))
        );
        assert!(space.shortage(mib(784)).ends_with("; free 904 MiB more"), "{}", space.shortage(mib(784)));
    }

    /// A machine with 252 GiB, of which 20 were free, refused a test of 32 MiB, and a volume of 600 MiB every test.
    #[test]
    fn a_tenth_stays_free_but_not_too_much() {
        let gib = |number: u64| number << 30;
        assert_eq!([5, 20, 252, 8 << 10].map(gib).map(left_free), [gib(1) / 2, gib(2), gib(4), gib(4)]);
        assert_eq!(left_free(600 << 20), 60 << 20);
    }
}

//! Where a thread runs: processors and priorities.

use std::num::NonZeroU64;

use qd1_fio::FioJob;
use qd1_fio::types::CpuPolicy;
use rustix::io::Errno;
use rustix::process::{Pid, setpriority_process};
use rustix::thread::{CpuSet, gettid, sched_setaffinity};

use crate::error::JobError;

/// Applies the job's processors and priorities to the calling thread. `clone` is its number among the job's clones.
///
/// # Errors
/// If the processors are unavailable to this machine or user, or the priorities are not allowed.
pub(crate) fn apply(job: &FioJob, clone: u32) -> Result<(), JobError> {
    // Linux lets timers of ordinary threads fire 50 us late; every pause and interval would be too long by that.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let cpus: Vec<usize> =
        job.cpus_allowed.iter().flat_map(|range| usize::from(range.first)..=usize::from(range.last)).collect();
    if !cpus.is_empty() {
        let mut set = CpuSet::new();
        match job.cpus_allowed_policy {
            CpuPolicy::Shared => cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu)),
            CpuPolicy::Split => set.set(cpus[clone as usize % cpus.len()].min(CpuSet::MAX_CPU - 1)),
        }
        sched_setaffinity(None::<Pid>, &set).map_err(|errno| {
            let text = format!("cpus_allowed: none of the processors {cpus:?} is available here ({errno})");
            JobError::new(&job.name, errno, text)
        })?;
    }
    if job.nice != 0 {
        setpriority_process(Some(gettid()), job.nice).map_err(|errno| {
            JobError::new(&job.name, errno, format!("nice={} is not allowed here ({errno})", job.nice))
        })?;
    }
    if job.prio.is_some() || job.prioclass.is_some() {
        // 2 is "best effort", the default class.
        let (class, level) = (job.prioclass.unwrap_or(2), job.prio.unwrap_or(0));
        qd1_engine::set_io_priority(class, level).map_err(|errno: Errno| {
            JobError::new(&job.name, errno, format!("prioclass={class}, prio={level} is not allowed here ({errno})"))
        })?;
    }
    Ok(())
}

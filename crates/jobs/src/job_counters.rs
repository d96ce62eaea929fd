//! The kernel's counters over each job: the disk's requests, the machine's processor time and pressure.

use qd1_model::environment::Device;
use qd1_model::op::RequestCounts;
use qd1_probe::Machine;
use qd1_probe::sampler::{Change, Counters, Moment};

use crate::{ThreadPlan, ThreadResult};

/// Counters around each job of a run.
pub struct JobCounters<'a> {
    counters: Counters<'a>,
    jobs: Vec<Job>,
}

#[derive(Default)]
struct Job {
    running: u32,
    before: Option<Moment>,
    after: Option<Moment>,
    /// Whether another job ran at the same time, so that the disk's counters cannot be attributed.
    shared: bool,
}

impl<'a> JobCounters<'a> {
    /// Counts the activity of the machine and of the device at the bottom of `devices` over this number of `jobs`.
    #[must_use]
    pub fn new(machine: &'a Machine, devices: &[Device], jobs: usize) -> Self {
        let jobs = (0..jobs).map(|_| Job::default()).collect();
        Self { counters: Counters::new(machine, devices), jobs }
    }

    /// Takes the counters of the jobs whose threads are about to begin.
    pub fn begins(&mut self, threads: &[ThreadPlan]) {
        for thread in threads {
            if self.jobs[thread.job].before.is_none() {
                self.jobs[thread.job].before = Some(self.counters.now());
            }
            self.jobs[thread.job].running += 1;
        }
        let running = self.jobs.iter().filter(|job| job.running > 0).count();
        for job in self.jobs.iter_mut().filter(|job| job.running > 0 && running > 1) {
            job.shared = true;
        }
    }

    /// Takes the counters of the job of a thread that has ended.
    pub fn ended(&mut self, thread: &ThreadPlan) {
        let job = &mut self.jobs[thread.job];
        job.running = job.running.saturating_sub(1);
        job.after = Some(self.counters.now());
    }

    /// Returns the change over a job, with the requests its threads issued; `None` if it never ran.
    pub(crate) fn change(&self, index: usize, results: &[&ThreadResult]) -> Option<Change> {
        let job = &self.jobs[index];
        let (before, after) = (job.before.as_ref()?, job.after.as_ref()?);
        let sum = |pick: fn(&ThreadResult) -> u64| results.iter().map(|result| pick(result)).sum();
        let requested = RequestCounts {
            reads: sum(|result| result.moved[0].1),
            read_bytes: sum(|result| result.moved[0].0),
            writes: sum(|result| result.moved[1].1),
            write_bytes: sum(|result| result.moved[1].0),
            syncs: sum(|result| result.syncs),
        };
        let mut change = after.since(before, &requested);
        if job.shared {
            change.device = None;
        }
        Some(change)
    }
}

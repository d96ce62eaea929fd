//! The background load of a step: the same workers as in any step, on threads of their own, from before the measurement
//! until after it.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use qd1_engine::backing::{OpenAs, drop_cache};
use qd1_engine::run::{Decision, IoJob, Outcome, Progress, run_io};
use qd1_engine::select::choose;
use qd1_engine::threads::room_for_one;
use qd1_model::op::RequestCounts;
use qd1_model::plan::{FileUse, IoWork, StepPlan, Stop};
use qd1_model::record::Background;

use crate::context::Run;
use crate::test_file::TestFile;

/// Time limit of a load: it ends with its step, and no step is as long as this.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A load that is ready to run.
pub(crate) struct BackgroundLoad<'a> {
    works: Vec<(&'a IoWork, Vec<OwnedFd>)>,
    seed: u64,
    /// Keeps the unnamed files alive.
    _own: Vec<TestFile>,
}

/// The result of a load.
#[derive(Default)]
pub(crate) struct LoadOutcome {
    pub(crate) background: Vec<Background>,
    /// All requests it made.
    pub(crate) requests: RequestCounts,
}

impl<'a> BackgroundLoad<'a> {
    /// Creates and opens the files of a step's load.
    ///
    /// # Errors
    /// When one cannot be created or opened.
    pub(crate) fn open(run: &Run<'_>, step: &'a StepPlan, seed: u64) -> Result<Self> {
        let (mut works, mut own) = (Vec::new(), Vec::new());
        for (number, work) in step.background.iter().enumerate() {
            let open_as = OpenAs { write: work.rw.writes(), direct: work.direct, sync: work.sync };
            let file = if work.file == FileUse::Shared {
                run.shared.as_ref().context("the plan has no shared file")?.open(open_as)?
            } else {
                let name = format!("{}-load-{number}", run.context.id);
                let target = TestFile::create(&run.plan.target.path, &name)?;
                let file = target.open(open_as)?;
                own.push(target);
                file
            };
            works.push((work, vec![file]));
        }
        Ok(Self { works, seed: seed ^ 0x10AD, _own: own })
    }

    /// Runs `measure` while the load runs.
    ///
    /// # Errors
    /// When `measure` or the load fails.
    pub(crate) fn around(&self, measure: impl FnOnce() -> Result<Outcome>) -> Result<(Outcome, LoadOutcome)> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // From here on: the scope waits for loads that were started when the next one could not be.
            let end = End(&over);
            let over = &over;
            let start = |work| {
                room_for_one()?;
                std::thread::Builder::new().spawn_scoped(scope, move || self.run(work, over))
            };
            let loads: Vec<_> =
                self.works.iter().map(start).collect::<Result<_, _>>().context("cannot start a thread for the load")?;
            let outcome = measure();
            drop(end);
            let mut done = LoadOutcome::default();
            for load in loads {
                let load = load.join().map_err(|_| anyhow::anyhow!("a thread of the load panicked"))??;
                done.requests = done.requests.plus(&load.requests);
                let Outcome { runtime_ns, mut streams, errors, .. } = load;
                streams.iter_mut().for_each(|stream| stream.lat = stream.lat.to_two_digits());
                done.background.push(Background { runtime_ns, streams, errors });
            }
            Ok((outcome?, done))
        })
    }

    fn run(&self, (work, files): &(&IoWork, Vec<OwnedFd>), over: &AtomicBool) -> Result<Outcome> {
        let stop = Stop { min_ns: 0, max_ns: LONGEST_NS, ramp_ns: 0, quantile: 0.0, tolerance: 0.0 };
        let job = IoJob {
            work,
            stop: &stop,
            interval_ns: stop.interval_ns(),
            kind: choose(work, files.first())?.kind,
            files,
            offset: 0,
            seed: self.seed,
            sim: None,
            batch_min: 1,
            thread_cost: qd1_probe::thread_cost,
            thread_time: None,
        };
        // Dirty data is sent to the disk twenty times a second. By default the kernel keeps it for half a minute,
        // longer than a step takes; on a machine that always writes, the data of half a minute ago is written out now.
        let mut watch = |_: &Progress<'_>| {
            if work.rw.writes() && !work.direct {
                drop_cache(&files[0]);
            }
            Decision::Continue
        };
        Ok(run_io(&job, over, &mut watch)?)
    }
}

/// Signals the end of the step, even if measuring it panics: the scope waits for the load.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

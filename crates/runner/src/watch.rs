//! Traits to follow a run's progress and to choose its next step. The runner knows nothing about terminals.

use qd1_clock as clock;
use qd1_engine::run::Progress;
use qd1_model::Bytes;
use qd1_model::plan::{Plan, StepPlan, Stop};
use qd1_model::record::{Interval, StepRecord};

/// Follows the progress of a run. Each method may do nothing.
pub trait Watch {
    /// The run begins.
    fn begin(&mut self, plan: &Plan);

    /// A line about the steps that follow.
    fn heading(&mut self, text: &str);

    /// The test file is about to be written.
    fn prepare(&mut self, size: Bytes);

    /// Called repeatedly while the test file is written.
    fn prepared(&mut self, now: &Progress<'_>);

    /// A line about what a program does before its first load.
    fn note(&mut self, text: &str);

    /// A step was chosen during the run; it is at `index`, unless the plan has it there already.
    fn insert(&mut self, index: usize, step: &StepPlan);

    /// A step begins.
    fn step(&mut self, index: usize, step: &StepPlan);

    /// The intervals of the running step so far, from which its figures can be calculated.
    fn figures(&mut self, intervals: &[Interval]);

    /// Time passes in a step: `elapsed_ns` since it began.
    fn tick(&mut self, elapsed_ns: u64, stop: &Stop);

    /// A step is over.
    fn step_done(&mut self, record: &StepRecord);
}

/// Chooses during a run which step is measured next.
pub trait AdaptiveSteps {
    /// Receives the steps as planned, once the target is prepared.
    fn begin(&mut self, _planned: Vec<StepPlan>) {}

    /// Returns the pause in ns and the next step, chosen from the results so far; `None` at the end.
    fn next(&mut self, plan: &Plan, done: &[StepRecord]) -> Option<(u64, StepPlan)>;

    /// Returns true if the running step has measured enough.
    fn enough(&self, _intervals: &[Interval]) -> bool {
        false
    }
}

/// Shortest time between two calculations of a running step's figures.
const PERIOD_NS: u64 = 500_000_000;
/// Calculating them takes longer the more intervals there are, on processors that the disk's own path needs: it may
/// take one part in this many of the time.
const COST_SHARE: u64 = 200;

/// Decides when the figures of a running step are calculated next.
pub struct Pacer {
    next_ns: u64,
}

impl Default for Pacer {
    /// A pacer at the start of a step.
    fn default() -> Self {
        Self { next_ns: PERIOD_NS }
    }
}

impl Pacer {
    /// Calls `calculate` if it is due after `elapsed_ns` of the step.
    pub fn take<T>(&mut self, elapsed_ns: u64, calculate: impl FnOnce() -> T) -> Option<T> {
        if elapsed_ns < self.next_ns {
            return None;
        }
        let begin_ns = clock::now_ns();
        let figures = calculate();
        let took_ns = clock::now_ns().saturating_sub(begin_ns);
        self.next_ns = elapsed_ns + PERIOD_NS.max(COST_SHARE * took_ns);
        Some(figures)
    }
}

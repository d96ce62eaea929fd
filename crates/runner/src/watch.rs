//! Whoever looks on while a run goes on, and whoever decides on its next step. The runner knows no terminal.

use qd1_engine::clock;
use qd1_engine::run::Progress;
use qd1_model::Bytes;
use qd1_model::plan::{Plan, StepPlan, Stop};
use qd1_model::record::{Interval, StepRecord};

/// Looks on while a run goes on. Each method may do nothing.
pub trait Watch {
    /// The run begins.
    fn begin(&mut self, plan: &Plan);

    /// A line about the steps that follow.
    fn heading(&mut self, text: &str);

    /// The test file is about to be written.
    fn prepare(&mut self, size: Bytes);

    /// While the test file is written.
    fn prepared(&mut self, now: &Progress<'_>);

    /// What a program does before its first load.
    fn note(&mut self, text: &str);

    /// A step was decided on the way: in its place, where the plan did not have it there already.
    fn insert(&mut self, index: usize, step: &StepPlan);

    /// A step begins.
    fn step(&mut self, index: usize, step: &StepPlan);

    /// The intervals of the running step so far, of which running figures can be made.
    fn figures(&mut self, intervals: &[Interval]);

    /// Time passes in a step: so much since it began, ns.
    fn tick(&mut self, elapsed_ns: u64, stop: &Stop);

    /// A step is over.
    fn step_done(&mut self, record: &StepRecord);
}

/// Decides while a run goes on which step is measured next.
pub trait AdaptiveSteps {
    /// The steps as they were planned, once the target is prepared.
    fn begin(&mut self, _planned: Vec<StepPlan>) {}

    /// The next step and the pause before it, ns, from what the steps so far brought; nothing at the end.
    fn next(&mut self, plan: &Plan, done: &[StepRecord]) -> Option<(u64, StepPlan)>;

    /// Whether the running step has seen enough.
    fn enough(&self, _intervals: &[Interval]) -> bool {
        false
    }
}

/// How often the figures of a running step are worked out, at most.
const PERIOD_NS: u64 = 500_000_000;
/// Working them out takes the longer the more there is to look at, on processors that the disk's own path needs: it may take
/// one part in so many of the time.
const COST_SHARE: u64 = 200;

/// Says when the figures of a running step are worked out next.
pub struct Pacer {
    next_ns: u64,
}

impl Default for Pacer {
    /// From the start of a step.
    fn default() -> Self {
        Self { next_ns: PERIOD_NS }
    }
}

impl Pacer {
    /// Calls `look` if so much of the step's time has passed that it is due.
    pub fn take<T>(&mut self, elapsed_ns: u64, look: impl FnOnce() -> T) -> Option<T> {
        if elapsed_ns < self.next_ns {
            return None;
        }
        let begin_ns = clock::now_ns();
        let seen = look();
        let took_ns = clock::now_ns().saturating_sub(begin_ns);
        self.next_ns = elapsed_ns + PERIOD_NS.max(COST_SHARE * took_ns);
        Some(seen)
    }
}

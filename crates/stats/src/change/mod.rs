//! The course of a step over time: changes of level, drift, anything that recurs at a fixed period, and whether it
//! settled.
//!
//! The only input is the intervals of a step. [`courses`] gives changes and drift of each kind of operation,
//! [`periodic()`] anything that recurs, [`steady_state`] the steady state, without which no rate may be called
//! sustained. The methods, their assumptions and their errors are in docs/method.md; the `truth` crate measures those
//! on simulated disks.

mod drift;
mod periodic;
mod points;
mod segment;
mod steady;
mod trace;

pub use drift::Drift;
pub use periodic::{Periodic, Recurrence, periodic, stalls_of_run};
pub use points::{Change, ChangeKind, Ratio, Stretch};
pub use steady::{Steady, WINDOW_MIN_NS, steady_state, steady_state_of};

use qd1_model::op::OpClass;
use qd1_model::record::Interval;

use drift::{misfit_of_line, misfit_of_steps};
use trace::{CLASSES, Trace};

/// One step has as many parameters as a line, so the better fit is reported; each further step must improve it by this
/// share.
const STEP_EARNS: f64 = 0.05;
/// Smallest drift reported, over the whole step: a tenth.
const DRIFT_MIN: f64 = 0.095;
/// Half widths of its 95 % interval by which a drift must differ from zero: two figures of each kind of operation are
/// examined in every step, and a false one should be rarer than one in a hundred steps.
const CERTAIN: f64 = 1.7;

/// Returns where a few dozen logarithms change their level, in rising order: the first of each new level. `doubt` is
/// the chance of such a step in an unchanged series that is accepted for each.
#[must_use]
pub fn steps_of_few(logarithms: &[f64], doubt: f64) -> Vec<usize> {
    points::confirmed_of_few(logarithms, doubt).iter().map(|found| found.at).collect()
}

/// The course of one kind of operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// Which kind.
    pub class: OpClass,
    /// Changes of level, in time order.
    pub changes: Vec<Change>,
    /// Drift of the rate, if no changes explain it.
    pub rate_drift: Option<Drift>,
    /// Drift of the median latency, likewise.
    pub latency_drift: Option<Drift>,
}

/// The course of a step.
#[derive(Clone, Debug)]
pub struct StepCourse {
    /// Anything that recurred.
    pub returning: Option<Periodic>,
    /// The course of each kind of operation.
    pub courses: Vec<Course>,
}

impl StepCourse {
    /// From the intervals of a step.
    #[must_use]
    pub fn of(intervals: &[Interval]) -> Self {
        let returning = periodic(intervals);
        let courses = courses(intervals, returning.as_ref());
        Self { returning, courses }
    }
}

/// The course of every kind of operation in `intervals`. `returning` is what [`periodic()`] found in them: changes that
/// are only its ups and downs are left out.
#[must_use]
pub fn courses(intervals: &[Interval], returning: Option<&Periodic>) -> Vec<Course> {
    CLASSES
        .into_iter()
        .filter_map(|class| {
            let trace = Trace::new(intervals, class);
            (!trace.points.is_empty()).then(|| course(intervals, &trace, class, returning))
        })
        .collect()
}

fn course(intervals: &[Interval], trace: &Trace, class: OpClass, returning: Option<&Periodic>) -> Course {
    let mut changes = points::changes(intervals, trace, class);
    if let Some(period_ns) = returning.map(|periodic| periodic.period_ns)
        && changes.iter().any(|change| ((change.after.to_ns - change.after.from_ns) as f64) < 1.5 * period_ns)
    {
        changes.clear();
    }
    let rate_drift = confirmed_drift(&trace.rates());
    let latency_drift = confirmed_drift(&trace.medians());
    let drifts = rate_drift.is_some() || latency_drift.is_some();
    if drifts {
        // The steps were fitted to a slope.
        changes.clear();
    }
    Course { class, changes, rate_drift, latency_drift }
}

/// The drift of `values`, if it is beyond doubt and large enough to report, and a line describes them as well as steps
/// do.
fn confirmed_drift(values: &[f64]) -> Option<Drift> {
    let found = drift::drift(values, DRIFT_MIN, CERTAIN)?;
    let places: Vec<usize> = points::confirmed(values).iter().map(|place| place.at).collect();
    let margin = 1.0 + STEP_EARNS * places.len().saturating_sub(1).min(3) as f64;
    let line_fits = misfit_of_line(values) <= margin * misfit_of_steps(values, &places);
    (places.is_empty() || line_fits).then_some(found)
}

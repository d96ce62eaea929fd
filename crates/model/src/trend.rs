//! One figure over many runs of the same place: its course, and when it went to another level.

use serde::Serialize;

use crate::figure::Estimate;
use crate::op::OpClass;

/// Which figure is meant: of a step, of one kind of its operations, by the name of a metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FigureName {
    /// The step.
    pub step: String,
    /// Kind of operation; where it is absent, the step has but one.
    pub op: Option<OpClass>,
    /// Name of the metric, as in the table of metrics.
    pub metric: &'static str,
}

/// A figure of a run of the history, as it was when the run was kept or first looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptFigure {
    /// The step.
    pub step: String,
    /// Kind of operation, by its name.
    pub op: String,
    /// The metric, by its name.
    pub metric: String,
    /// The figure; ends of its interval are absent where they are not known.
    pub value: f64,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// The course of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trend {
    /// Which.
    pub figure: FigureName,
    /// The suite of the runs.
    pub suite: String,
    /// The place that they measured.
    pub path: String,
    /// In time order.
    pub points: Vec<TrendPoint>,
    /// Runs of the same suite and place that do not have it: their samples did not resolve it, or the step did not run.
    pub without: usize,
    /// Changes of level, in time order.
    pub changes: Vec<LevelChange>,
}

impl Trend {
    /// Runs that are too few to show a change of level.
    pub const RUNS_MIN: usize = 20;
}

/// A run in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrendPoint {
    /// Its id.
    pub run: String,
    /// When it began, ns since the Unix epoch.
    pub started_unix_ns: u64,
    /// The figure.
    pub value: f64,
    /// Ends of its interval, where they are known.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// What is new since the run before: a kernel, a version of qd1, a size of the test file, another device.
    pub news: Vec<String>,
}

impl TrendPoint {
    /// The figure with its interval; how many samples it rests on is not kept.
    #[must_use]
    pub fn figure(&self) -> Estimate {
        Estimate { value: Some(self.value), low: self.low, high: self.high, ..Estimate::default() }
    }
}

/// The runs from one on differ from those before, beyond what they differ by among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LevelChange {
    /// The first run of the new level, by its place.
    pub at: usize,
    /// Mean of the new level over that of the one before (geometric).
    pub ratio: f64,
}

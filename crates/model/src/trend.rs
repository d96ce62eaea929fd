//! One figure over many runs of the same place: its course, and when its level changed.

use serde::Serialize;

use crate::figure::Estimate;
use crate::op::OpClass;

/// Identifies a figure: of a step, of one kind of its operations, by the name of a metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FigureName {
    /// The step.
    pub step: String,
    /// Kind of operation; if absent, the step has only one.
    pub op: Option<OpClass>,
    /// Name of the metric, as in the table of metrics.
    pub metric: &'static str,
}

/// A figure of a run in the history, as it was when the run was stored or first analysed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptFigure {
    /// The step.
    pub step: String,
    /// Kind of operation, by its name.
    pub op: String,
    /// The metric, by its name.
    pub metric: String,
    /// The figure; ends of its interval are absent if unknown.
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
    /// The place they measured.
    pub path: String,
    /// In time order.
    pub points: Vec<TrendPoint>,
    /// Number of runs of the same suite and place without it: their samples did not resolve it, or the step did not
    /// run.
    pub without: usize,
    /// Changes of level, in time order.
    pub changes: Vec<LevelChange>,
}

impl Trend {
    /// A number of runs too small to show a change of level.
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
    /// Ends of its interval, if known.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// What changed since the previous run: the kernel, the version of qd1, the size of the test file, the device.
    pub news: Vec<String>,
}

impl TrendPoint {
    /// The figure with its interval; the number of samples is not stored.
    #[must_use]
    pub fn figure(&self) -> Estimate {
        Estimate { value: Some(self.value), low: self.low, high: self.high, ..Estimate::default() }
    }
}

/// The runs from a certain one on differ from earlier ones by more than they differ among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LevelChange {
    /// Index of the first run at the new level.
    pub at: usize,
    /// Mean of the new level divided by that of the previous one (geometric).
    pub ratio: f64,
}

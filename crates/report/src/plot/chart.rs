//! What a chart is: its axes, and what is drawn between them, as the page's script reads it.

use serde::{Serialize, Serializer};

/// One chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Chart {
    /// Unique within a report.
    pub(crate) id: String,
    pub(crate) title: String,
    /// What one needs to know to read it.
    pub(crate) note: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    #[serde(flatten)]
    pub(crate) body: Body,
    /// For charts over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) time: Option<Time>,
    /// Where classes of workload draw their bounds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) bounds: Vec<Bound>,
    /// What was measured, when and by which version, written below the picture.
    pub(crate) made: String,
}

/// A bound as a line: along the whole chart, or around the percentile that it is of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Bound {
    /// From where to where along x; absent for the whole width.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) x: Option<(f64, f64)>,
    pub(crate) y: f64,
    /// Whose it is, and what is beyond it.
    pub(crate) text: String,
    /// Whether what lies beyond fails; else, what lies within passes.
    pub(crate) is_fail: bool,
}

/// What only a chart over time has.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Time {
    /// Charts of the same step move their cursors together.
    pub(crate) step: String,
    /// Where each visit begins: in measured time, and in that of the run, s.
    #[serde(serialize_with = "pairs")]
    pub(crate) visits: Vec<(f64, f64)>,
    /// What happened.
    pub(crate) marks: Vec<Mark>,
}

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Axis {
    pub(crate) label: &'static str,
    pub(crate) unit: AxisUnit,
    pub(crate) is_log: bool,
}

/// What the numbers of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AxisUnit {
    /// Latencies, ns.
    Ns,
    /// Seconds that were measured, without the time between visits.
    Seconds,
    /// Seconds since the Unix epoch; only in pictures.
    Date,
    /// Operations per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// Bytes.
    Bytes,
    /// A number on an axis that starts at 0.
    Number,
    /// Minus the logarithm of the share of slower operations: 2 is 99 %.
    Nines,
    /// 0..=1.
    Share,
    /// A plain number.
    Count,
    /// Names, by position.
    Names,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Body {
    /// Lines.
    Lines { series: Vec<Series> },
    /// Operations by time and latency, with lines over it.
    Heat { heat: Heat, series: Vec<Series> },
    /// A figure for each pair of two names.
    Grid { grid: Grid },
    /// A grade for each disk and class; only in pictures, since pages have it as a table.
    Matrix { matrix: Matrix },
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    #[serde(serialize_with = "short")]
    pub(crate) x: Vec<Option<f64>>,
    /// Where there is none, the line has a gap.
    #[serde(serialize_with = "short")]
    pub(crate) y: Vec<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) band: Option<Band>,
    /// Colour and dash, each by its number; else by its place among the lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) look: Option<(usize, usize)>,
    /// Whether each of its places is a point in pictures.
    #[serde(skip)]
    pub(crate) has_points: bool,
    /// Whether it is left out until asked for.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) is_hidden: bool,
}

/// 95 % intervals of a line, at places of their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Band {
    #[serde(serialize_with = "short")]
    pub(crate) x: Vec<Option<f64>>,
    #[serde(serialize_with = "short")]
    pub(crate) low: Vec<Option<f64>>,
    #[serde(serialize_with = "short")]
    pub(crate) high: Vec<Option<f64>>,
}

/// Counts by time and latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Heat {
    /// Begin and end of each column, s.
    #[serde(serialize_with = "pairs")]
    pub(crate) columns: Vec<(f64, f64)>,
    /// Edges of the rows, ns, rising; one more than there are rows.
    pub(crate) edges: Vec<u64>,
    /// Of each column: row, count, row, count, ...
    pub(crate) cells: Vec<Vec<u32>>,
}

/// Figures in rows and columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Grid {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<String>,
    /// Of each row; absent where nothing was measured.
    pub(crate) values: Vec<Vec<Option<f64>>>,
    pub(crate) unit: Option<AxisUnit>,
    /// Marked cells, (row, column), and what the mark means.
    pub(crate) marked: Vec<(usize, usize)>,
    pub(crate) mark: String,
}

/// Grades in rows and columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Matrix {
    /// Classes of workload.
    pub(crate) columns: Vec<String>,
    /// Runs.
    pub(crate) rows: Vec<String>,
    /// Of each row; absent where the class was not judged.
    pub(crate) cells: Vec<Vec<Option<Graded>>>,
}

/// A grade, as a word that needs no colour, and the figure that decided.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Graded {
    pub(crate) word: String,
    /// What it is of, such as `wal sync p99`.
    pub(crate) of: String,
    /// And how much, such as `12.0 ms`.
    pub(crate) value: String,
    /// Of its colour: `good`, `middling`, `bad` or `open`.
    pub(crate) color: &'static str,
}

impl Graded {
    /// `wal sync p99 12.0 ms`.
    pub(crate) fn figure(&self) -> String {
        format!("{} {}", self.of, self.value).trim().to_owned()
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Mark {
    #[serde(serialize_with = "short_one")]
    pub(crate) x: f64,
    /// Absent for an event that concerns all latencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) y: Option<f64>,
    pub(crate) text: String,
}

/// Six digits: more than a screen shows, in half the bytes.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let digits = 5 - value.abs().log10().floor() as i32;
    let scale = 10_f64.powi(digits.clamp(-300, 300));
    (value * scale).round() / scale
}

fn short<S: Serializer>(values: &[Option<f64>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| value.filter(|value| value.is_finite()).map(Shortest)))
}

fn short_one<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Shortest(*value).serialize(serializer)
}

fn pairs<S: Serializer>(values: &[(f64, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|(a, b)| (Shortest(*a), Shortest(*b))))
}

/// A number without `.0` where it is whole.
struct Shortest(f64);

impl Serialize for Shortest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = rounded(self.0);
        if value.fract() == 0.0 && value.abs() < 9e15 {
            serializer.serialize_i64(value as i64)
        } else {
            serializer.serialize_f64(value)
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

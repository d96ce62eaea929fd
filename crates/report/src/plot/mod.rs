//! Charts as data: what is drawn, on which axes. The HTML report draws them in the browser.
//!
//! A chart of its own is a file here, and an arm in [`groups`].

mod latency;
mod surface;
mod time;

use qd1_model::Report;
use qd1_model::chart::ChartData;
use serde::{Serialize, Serializer};

/// A run whose charts are drawn.
#[derive(Clone, Debug)]
pub struct Pictured {
    /// What it is called beside others: its id, or the name of its file.
    pub name: String,
    /// The run, judged.
    pub report: Report,
    /// What its charts show.
    pub data: ChartData,
}

/// Charts that belong together: those of a step, or of the whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Group {
    pub(crate) title: String,
    /// What the step does; empty for the run.
    pub(crate) about: String,
    /// What was found in it.
    #[serde(skip)]
    pub(crate) findings: Vec<String>,
    /// Whether it is shown without a click.
    #[serde(skip)]
    pub(crate) is_open: bool,
    pub(crate) charts: Vec<Chart>,
}

/// One chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Chart {
    /// Unique within a report.
    pub(crate) id: String,
    pub(crate) title: String,
    /// What to know to read it.
    pub(crate) note: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    #[serde(flatten)]
    pub(crate) body: Body,
    /// Of charts over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) time: Option<Time>,
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
    /// Operations per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// Minus the logarithm of the share of slower operations: 2 is 99 %.
    Nines,
    /// 0..=1.
    Share,
    /// A plain number.
    Count,
    /// Names, by their place.
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

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Mark {
    #[serde(serialize_with = "short_one")]
    pub(crate) x: f64,
    /// Absent for what happened to all of them.
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

/// Returns all charts of the runs, over each other where several have the same step.
pub(crate) fn groups(runs: &[Pictured]) -> Vec<Group> {
    let mut groups = surface::groups(runs);
    let is_sweep = !groups.is_empty();
    groups.push(Group { is_open: !is_sweep, ..latency::overview(runs) });
    let steps = steps(runs);
    for (step, title) in &steps {
        let findings = runs.iter().flat_map(|run| findings(run, step)).collect();
        let mut charts = latency::of_step(runs, step);
        charts.extend(time::of_step(runs, step));
        let is_open = steps.len() == 1;
        groups.push(Group { title: step.clone(), about: title.clone(), findings, is_open, charts });
    }
    groups.retain(|group| !group.charts.is_empty());
    groups
}

/// The steps of all runs, each once, with what they do.
fn steps(runs: &[Pictured]) -> Vec<(String, String)> {
    let mut steps: Vec<(String, String)> = Vec::new();
    for step in runs.iter().flat_map(|run| &run.report.summary.steps) {
        if steps.iter().all(|(name, _)| *name != step.name) {
            steps.push((step.name.clone(), step.title.clone()));
        }
    }
    steps
}

fn findings(run: &Pictured, step: &str) -> Vec<String> {
    let findings = &run.report.findings;
    let own = findings.iter().filter(|finding| finding.step == step).map(|finding| finding.title.clone());
    let also = findings.iter().filter(|finding| finding.also_in.iter().any(|also| also == step));
    own.chain(also.map(|finding| format!("{} (here to a lesser degree)", finding.title))).collect()
}

/// `commit` for one run, `4f2a commit` beside others.
fn named(runs: &[Pictured], run: &Pictured, what: &str) -> String {
    match (runs.len(), what) {
        (1, _) => what.to_owned(),
        (_, "") => run.name.clone(),
        _ => format!("{} {what}", run.name),
    }
}

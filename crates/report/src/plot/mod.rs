//! Charts as data: what is drawn, on which axes. The HTML report draws them in the browser, [`draw`] as pictures.
//!
//! To add a chart, add a file here and a call in [`groups`].

mod bounds;
mod chart;
mod draw;
mod filesystems;
mod latency;
mod machine;
mod matrix;
mod surface;
mod time;
mod trend;

use jiff::tz::TimeZone;
use qd1_model::chart::ChartData;
use qd1_model::order::Order as _;
use qd1_model::trend::Trend;
use qd1_model::{Record, Report, printable};

pub(crate) use chart::{Axis, AxisUnit, Band, Body, Bound, Chart, Graded, Grid, Heat, Mark, Matrix, Series, Time};
pub use draw::{PictureFormat, Size};
pub(crate) use matrix::of as matrix;

use crate::safe::safe;
use crate::words;

/// Length of the date at the start of a time.
const DATE: usize = 10;

/// A run whose charts are drawn.
#[derive(Clone, Debug)]
pub struct Pictured {
    /// Its name next to other runs: its id, or the name of its file.
    pub name: String,
    /// The run, judged.
    pub report: Report,
    /// What its charts show.
    pub data: ChartData,
}

/// Charts that belong together: those of a step, or of the whole run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    pub(crate) title: String,
    /// What the step does; empty for the run.
    pub(crate) about: String,
    /// What was found in it.
    pub(crate) findings: Vec<String>,
    /// Whether it is shown without a click.
    pub(crate) is_open: bool,
    pub(crate) charts: Vec<Chart>,
}

impl Pictured {
    /// Returns the run with its names made safe to show.
    pub(crate) fn shown(&self) -> Self {
        Self {
            name: printable(&self.name).into_owned(),
            report: safe(&self.report).map_or_else(|| self.report.clone(), std::borrow::Cow::into_owned),
            data: self.data.clone(),
        }
    }
}

/// The charts of runs, each with the name by which it is requested.
pub struct Charts(Vec<Chart>);

impl Charts {
    /// Returns all charts of the runs; times are of `zone`.
    #[must_use]
    pub fn of(runs: &[Pictured], zone: &TimeZone) -> Self {
        let shown: Vec<Pictured> = runs.iter().map(Pictured::shown).collect();
        Self(groups(&shown, zone).into_iter().flat_map(|group| group.charts).collect())
    }

    /// Returns the chart of the runs' grades by class of workload; empty if none was judged by classes.
    #[must_use]
    pub fn of_matrix(runs: &[Pictured], zone: &TimeZone) -> Self {
        let shown: Vec<Pictured> = runs.iter().map(Pictured::shown).collect();
        let made = made(&shown, zone);
        Self(matrix::chart(&shown).map(|chart| Chart { made, ..chart }).into_iter().collect())
    }

    /// Returns the chart of one figure over many runs.
    #[must_use]
    pub fn of_trend(trend: &Trend) -> Self {
        Self(vec![trend::chart(trend)])
    }

    /// Returns name and title of each.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|chart| (chart.id.as_str(), chart.title.as_str()))
    }

    /// Returns a chart as a picture; `None` if there is none with that name.
    ///
    /// # Errors
    /// When it cannot be written in that format and size.
    pub fn picture(&self, name: &str, format: PictureFormat, size: Size) -> Option<Result<Vec<u8>, String>> {
        let chart = self.0.iter().find(|chart| chart.id == name)?;
        Some(draw::picture(chart, format, size))
    }
}

/// Returns all charts of the runs, overlaid where several runs have the same step.
pub(crate) fn groups(runs: &[Pictured], zone: &TimeZone) -> Vec<Group> {
    let mut groups = surface::groups(runs);
    groups.extend(filesystems::groups(runs));
    let has_table = !groups.is_empty();
    groups.push(Group { is_open: !has_table, ..latency::overview(runs) });
    let mut steps = steps(runs);
    // Those by which the runs are judged come first.
    let decisive = latency::decisive(runs);
    steps.order_by_key(|(step, _)| !decisive.contains(step));
    for (step, title) in &steps {
        let findings = runs.iter().flat_map(|run| findings(runs, run, step)).collect();
        let mut charts = latency::of_step(runs, step);
        charts.extend(time::of_step(runs, step));
        charts.extend(machine::of_step(runs, step));
        let is_open = steps.len() == 1;
        groups.push(Group { title: step.clone(), about: about(runs, step, title), findings, is_open, charts });
    }
    groups.retain(|group| !group.charts.is_empty());
    let made = made(runs, zone);
    groups.iter_mut().flat_map(|group| &mut group.charts).for_each(|chart| chart.made.clone_from(&made));
    groups
}

/// What was measured, when and by what: `check of /srv on db-1, 2026-11-26 22:33, qd1 0.1.0`.
fn made(runs: &[Pictured], zone: &TimeZone) -> String {
    let records = || runs.iter().map(|run| &run.report.record);
    let day = |record: &Record| words::when(record.started_unix_ns, zone);
    let mut versions: Vec<&str> = records().map(|record| record.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let tool = format!("qd1 {}", versions.join(", "));
    match runs {
        [] => tool,
        [run] => {
            let record = &run.report.record;
            let host = &record.environment.hostname;
            let path = record.plan.target.path.to_string_lossy();
            let part = |word: &str, name: &str| match name {
                // Left out, or redacted.
                "" => String::new(),
                name if name.starts_with('<') => String::new(),
                name => format!(" {word} {}", printable(name)),
            };
            format!("{}{}{}, {}, {tool}", record.plan.suite, part("of", &path), part("on", host), day(record))
        }
        runs => {
            let mut suites: Vec<&str> = records().map(|record| record.plan.suite.as_str()).collect();
            suites.dedup();
            let mut starts: Vec<u64> = records().map(|record| record.started_unix_ns).collect();
            starts.sort_unstable();
            let date = |ns: u64| words::when(ns, zone).chars().take(DATE).collect::<String>();
            let (first, last) = (date(starts[0]), date(starts[runs.len() - 1]));
            let dates = if first == last { first } else { format!("{first} to {last}") };
            let what = if suites.len() == 1 { suites[0] } else { "different suites" };
            format!("{} runs of {what}, {dates}, {tool}", runs.len())
        }
    }
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

/// What was found in a step, with the run's name if there are several runs.
fn findings(runs: &[Pictured], run: &Pictured, step: &str) -> Vec<String> {
    let findings = &run.report.findings;
    let own = findings.iter().filter(|finding| finding.step == step).map(|finding| finding.title.clone());
    let also = findings.iter().filter(|finding| finding.also_in.iter().any(|also| also == step));
    let all = own.chain(also.map(|finding| format!("{} (here to a lesser degree)", finding.title)));
    all.map(|title| if runs.len() == 1 { title } else { format!("{}: {title}", run.name) }).collect()
}

/// What the step does, and for one run its tail.
fn about(runs: &[Pictured], step: &str, title: &str) -> String {
    let [run] = runs else { return title.to_owned() };
    let streams = run.report.summary.steps.iter().filter(|other| other.name == step).flat_map(|step| &step.streams);
    let p99 = streams.filter_map(|stream| {
        let value = stream.lat_p99_ns.value?;
        Some(format!("{} p99 {}", stream.class.name(), qd1_model::units::format_ns(value)))
    });
    std::iter::once(title.to_owned()).chain(p99).collect::<Vec<_>>().join("; ")
}

/// The look of a line among those of several runs: the run decides its colour, and what it shows decides its dashes.
fn look(runs: &[Pictured], run: usize, what: usize) -> Option<(usize, usize)> {
    (runs.len() > 1).then_some((run, what))
}

/// `commit` for one run, `4f2a commit` for several.
fn named(runs: &[Pictured], run: &Pictured, what: &str) -> String {
    match (runs.len(), what) {
        (1, _) => what.to_owned(),
        (_, "") => run.name.clone(),
        _ => format!("{} {what}", run.name),
    }
}

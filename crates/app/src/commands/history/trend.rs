//! `qd1 history --trend`: one figure over the runs of a place.

use anyhow::Result;
use jiff::tz::TimeZone;
use qd1_analysis::compare::figure_name;
use qd1_analysis::summarize;
use qd1_analysis::trend::{kept_figures, level_changes};
use qd1_model::history::{Filter, Row};
use qd1_model::suggest::nearest;
use qd1_model::trend::{FigureName, Trend, TrendPoint};
use qd1_model::{Bytes, OpClass, Problem, printable};
use qd1_report::Detail;
use qd1_store::{Kept, Store};

use super::filter::FilterArgs;
use crate::args::DestinationArgs;
use crate::{message, output};

/// Up to this many runs are analysed without a message.
const SILENT: usize = 3;

/// Prints the trend of the figure of this name.
///
/// # Errors
/// As for [`of_figure`].
pub(super) fn run(name: &str, conditions: &FilterArgs, is_json: bool) -> Result<()> {
    let trend = of_figure(name, conditions)?;
    let to = DestinationArgs::stdout();
    let style = output::style(&to, Detail::All);
    let text = if is_json {
        qd1_report::trend_json(&trend)
    } else {
        qd1_report::trend_human(&trend, &style, &TimeZone::system())
    };
    output::write(&to, &text)
}

/// Returns the trend of the figure of this name.
///
/// # Errors
/// When there is no such figure, or no run that has it.
pub(crate) fn of_figure(name: &str, conditions: &FilterArgs) -> Result<Trend> {
    let typed = name;
    let name = figure_name(typed)?;
    let filter = conditions.filter()?;
    let store = match qd1_runs::history::open() {
        Ok(store) => {
            store.learn_hosts()?;
            learn_figures(&store, &filter)?;
            store
        }
        Err(error) => {
            message::print(format_args!("qd1: only figures computed earlier are shown: {error:#}"));
            qd1_runs::history::read()?
        }
    };
    let kept = store.trend(&filter, &name)?;
    if kept.is_empty() {
        return Err(nothing(&store, &filter, typed, &name.step)?.into());
    }
    let of_all = store.find(&filter, usize::MAX)?;
    let mut trend = trend(kept, name)?;
    let is_of = |row: &&Row| row.suite == trend.suite && row.path == trend.path;
    trend.without = of_all.iter().filter(is_of).count().saturating_sub(trend.points.len());
    Ok(trend)
}

/// Says why no run has the figure.
fn nothing(store: &Store, filter: &Filter, typed: &str, step: &str) -> Result<Problem> {
    let typed = printable(typed);
    if store.list(1)?.is_empty() {
        return Ok(Problem::usage(format!("no run has {typed}: there are no runs yet; `qd1 check PATH` makes one")));
    }
    if store.find(filter, 1)?.is_empty() {
        return Ok(Problem::usage("no run matches these filters; `qd1 history` lists all"));
    }
    let steps = store.steps()?;
    let hint = match nearest(step, steps.iter().map(String::as_str)) {
        Some(near) if near != step => format!("did you mean {}?", printable(near)),
        _ => "`qd1 history show ID` shows the figures of a run".to_owned(),
    };
    Ok(Problem::usage(format!("no run has {typed}; {hint}")))
}

/// Computes, once, the figures of runs that an earlier qd1 saved.
fn learn_figures(store: &Store, filter: &Filter) -> Result<()> {
    let unknown = store.without_figures(filter)?;
    if unknown.len() > SILENT {
        message::print(format_args!("qd1: analysing {} runs for the first time", unknown.len()));
    }
    for id in unknown {
        // A run that cannot be read has no figures.
        let figures = store.load(&id).map(|record| kept_figures(&summarize(&record))).unwrap_or_default();
        store.note_figures(&id, &figures)?;
    }
    Ok(())
}

/// The runs of the same suite and place as the last one that has the figure.
fn trend(mut runs: Vec<Kept>, figure: FigureName) -> Result<Trend> {
    let last = runs.last().map(|kept| kept.row.clone()).unwrap_or_default();
    let all = runs.len();
    runs.retain(|kept| (&kept.row.suite, &kept.row.path) == (&last.suite, &last.path));
    if runs.len() < all {
        let left = all - runs.len();
        let (suite, path) = (printable(&last.suite), printable(&last.path));
        message::print(format_args!(
            "qd1: left out {} of other suites or places; this is the trend of {suite} on {path}",
            super::counted(left)
        ));
    }
    let mut ops: Vec<&str> = runs.iter().map(|kept| kept.figure.op.as_str()).collect();
    ops.sort_unstable();
    ops.dedup();
    if let [one, other, ..] = ops.as_slice() {
        let message = format!(
            "the step has several kinds of operation: write {step}.{one}.{metric} or {step}.{other}.{metric}",
            step = printable(&figure.step),
            metric = figure.metric
        );
        return Err(Problem::usage(message).into());
    }
    let op = ops.first().and_then(|name| OpClass::ALL.into_iter().find(|op| op.name() == *name));
    let values: Vec<f64> = runs.iter().map(|kept| kept.figure.value).collect();
    let points = runs.iter().enumerate().map(|(at, kept)| TrendPoint {
        run: kept.row.id.clone(),
        started_unix_ns: kept.row.started_unix_ns,
        value: kept.figure.value,
        low: kept.figure.low,
        high: kept.figure.high,
        news: at.checked_sub(1).map_or_else(Vec::new, |before| news(&runs[before], kept)),
    });
    Ok(Trend {
        points: points.collect(),
        changes: level_changes(&values),
        without: 0,
        figure: FigureName { op, ..figure },
        suite: last.suite,
        path: last.path,
    })
}

/// Returns the circumstances that have changed.
fn news(before: &Kept, now: &Kept) -> Vec<String> {
    let words = |kept: &Kept| {
        let host = kept.row.host.clone().unwrap_or_default();
        let size = if kept.size == 0 { String::new() } else { Bytes(kept.size).to_string() };
        let (device, filesystem) = (kept.row.device.clone(), kept.row.filesystem.clone());
        [
            ("kernel", kept.kernel.clone()),
            ("qd1", kept.row.version.clone()),
            ("size", size),
            ("device", device),
            ("filesystem", filesystem),
            ("host", host),
        ]
    };
    let both = words(before).into_iter().zip(words(now));
    let changed = both.filter(|((_, old), (_, new))| old != new && !old.is_empty() && !new.is_empty());
    changed.map(|((what, old), (_, new))| format!("{what} {} -> {}", printable(&old), printable(&new))).collect()
}

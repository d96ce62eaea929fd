//! `qd1 report`: runs as one HTML file, with charts; or a ranking of disks (`ranking.rs`).

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use jiff::tz::TimeZone;
use qd1_analysis::charts;
use qd1_analysis::compare::{Group, compare};
use qd1_model::chart::ChartData;
use qd1_model::comparison::Comparison;
use qd1_model::measured::Measured;
use qd1_model::{Problem, Record, Report, printable};
use qd1_report::{Format, Pictured, Style, html, render};

use crate::args::{Choice, DestinationArgs, choice};
use crate::bounds::Bounds;
use crate::commands::ranking;
use crate::{message, output, terminal};
use qd1_runs::exports::Exported;

/// Text at the end of the help.
pub(crate) const EXAMPLE: &str = "\
Examples:
  qd1 report -o report.html
  qd1 report @previous @latest -o both.html
  qd1 report run.json --redact -o public.html
  qd1 report --format post
  qd1 report --ranking results/ --prices prices.csv -o ranking.html

Exit codes: 0 done; 1 a run cannot be read; 2 usage error.";

/// The formats of a report: name, help text and value.
const FORMS: [Choice<Form>; 2] =
    [("html", "One page with charts", Form::Html), ("post", "Plain lines for a forum", Form::Post)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Html,
    Post,
}

/// Most runs in one chart: more lines cannot be told apart.
const RUNS_MAX: usize = 16;

/// Which runs are drawn, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunsArgs {
    /// Runs; several are drawn in the same charts. Each is an id of `qd1 history` or its beginning, @latest, @previous,
    /// @yesterday, @TAG, or a --json file
    #[arg(value_name = "RUN", default_value = "@latest")]
    pub(crate) runs: Vec<String>,
    /// Use the thresholds in this file instead of the built-in ones
    #[arg(long, value_name = "FILE")]
    pub(crate) thresholds: Option<PathBuf>,
    /// Leave out names, addresses, models and paths, to share the result
    #[arg(long)]
    pub(crate) redact: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) runs: RunsArgs,
    /// Format: a page with charts, or a dozen plain lines for a forum, without host names and paths
    #[arg(long, value_parser = choice(&FORMS), default_value = "html", conflicts_with = "ranking")]
    pub(crate) format: Form,
    /// Rank disks instead: each file in this folder is a disk, each folder in it a disk with several runs. Files may be
    /// --json files, exports of `qd1 history export`, or results of other tools that `qd1 compare` reads
    #[arg(long, value_name = "DIR", conflicts_with_all = ["runs", "thresholds", "redact"])]
    pub(crate) ranking: Option<PathBuf>,
    /// Prices of the disks: a line NAME,PRICE for each; the first line may name the unit, such as disk,EUR per month
    #[arg(long, value_name = "FILE", requires = "ranking")]
    pub(crate) prices: Option<PathBuf>,
    /// Write the page to this file instead of stdout (whole, or not at all)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Writes the page.
///
/// # Errors
/// When a run cannot be read, or the page cannot be written; the message says what to do.
pub(crate) fn run(args: &ReportArgs) -> Result<ExitCode> {
    let to = DestinationArgs { output: args.output.clone(), ..DestinationArgs::stdout() };
    match &args.output {
        Some(path) => output::check_destination(path)?,
        None if args.format == Form::Html && std::io::stdout().is_terminal() => {
            return Err(Problem::usage("stdout is a terminal; write the page to a file: -o report.html").into());
        }
        None => {}
    }
    if let Some(dir) = &args.ranking {
        args.output.iter().try_for_each(|path| ranking::check_output(dir, path))?;
        output::write(&to, &ranking::page(dir, args.prices.as_deref())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.format == Form::Post {
        output::write(&to, &posts(&args.runs)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let pictured = pictured(&args.runs)?;
    let comparison = (pictured.len() > 1).then(|| comparison(&pictured)).flatten();
    let zone = zone(&args.runs);
    output::write(&to, &html(&pictured, comparison.as_ref(), &zone))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the time zone of times that are shown: UTC if redacted, since the local zone reveals where somebody lives.
pub(crate) fn zone(args: &RunsArgs) -> TimeZone {
    if args.redact { TimeZone::UTC } else { TimeZone::system() }
}

/// Reads and judges the requested runs.
///
/// # Errors
/// When one cannot be read, or they cannot be drawn together; the message says what to do.
pub(crate) fn pictured(args: &RunsArgs) -> Result<Vec<Pictured>> {
    let named = named(args, RUNS_MAX)?;
    let drawn = |(name, record)| {
        let report = judged(args, record)?;
        let data = charts(&report.record, &report.summary);
        Ok(Pictured { name, report, data })
    };
    qd1_runs::parallel::each(named, drawn)
}

/// Reads and judges the runs of which only the grades are drawn.
///
/// # Errors
/// As for [`pictured`].
pub(crate) fn graded(args: &RunsArgs, most: usize) -> Result<Vec<Pictured>> {
    let of = |(name, record)| Ok(Pictured { name, report: judged(args, record)?, data: ChartData::default() });
    qd1_runs::parallel::each(named(args, most)?, of)
}

/// Returns runs as plain lines, with an empty line between two.
fn posts(args: &RunsArgs) -> Result<String> {
    let args = RunsArgs { redact: true, ..args.clone() };
    let style = Style::plain(terminal::WIDTH);
    let post = |(_, record)| Ok(render(&judged(&args, record)?, Format::Post, &style));
    let posts: Vec<String> = qd1_runs::parallel::each(named(&args, RUNS_MAX)?, post)?;
    Ok(posts.join("\n"))
}

/// Returns the requested runs, at most `most` of them, with names that tell them apart.
fn named(args: &RunsArgs, most: usize) -> Result<Vec<(String, Record)>> {
    let mut found: Vec<(&str, Exported)> = Vec::new();
    for word in &args.runs {
        found.extend(qd1_runs::find::records(word, most)?.into_iter().map(|run| (word.as_str(), run)));
    }
    if found.len() > most {
        let message = format!("{} runs are too many to draw; give at most {most}", found.len());
        return Err(Problem::usage(message).into());
    }
    for (at, (word, run)) in found.iter().enumerate() {
        if let Some((first, _)) = found[..at].iter().find(|(_, other)| other.record.id == run.record.id) {
            let [one, other] = [first, word].map(|word| printable(word));
            return Err(Problem::usage(format!("{one} and {other} are the same run; name another run")).into());
        }
    }
    let of: Vec<(&str, &Exported)> = found.iter().map(|(word, run)| (*word, run)).collect();
    let names = qd1_runs::names::of(&of, args.redact, &zone(args));
    Ok(names.into_iter().zip(found.into_iter().map(|(_, run)| run.record)).collect())
}

fn judged(args: &RunsArgs, record: Record) -> Result<Report> {
    Bounds::of_run(record.plan.subject, args.thresholds.as_deref())?.judge(record, args.redact)
}

/// Compares each run with the first; `None` if they have nothing in common.
fn comparison(runs: &[Pictured]) -> Option<Comparison> {
    let group = |run: &Pictured| Group {
        name: run.name.clone(),
        runs: vec![Measured { label: run.name.clone(), ..qd1_runs::find::of_record(&run.report.record) }],
    };
    let groups: Vec<Group> = runs.iter().map(group).collect();
    compare(&groups, &[])
        .inspect_err(|error| message::print(format_args!("qd1: the page has no comparison: {error}")))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::hist::CoarseHist;
    use qd1_model::record::{Interval, IntervalStream, StepRecord, Stream};
    use qd1_model::{Bytes, Hist, OpClass};

    /// Ten minutes at 100,000 a second, latencies spread as those of a disk with a long tail.
    fn sixty_million() -> Record {
        let mut record = qd1_report::samples::slow_vps().record;
        let (mut all, mut intervals) = (Hist::new(), Vec::new());
        let mut random = 7_u64;
        let mut uniform = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((random >> 11) as f64 / (1_u64 << 53) as f64).max(1e-12)
        };
        for at in 0..6000_u64 {
            // Ten of each drawn latency: the shape is that of 10,000, which is harder to pack than it would be.
            let mut bins = CoarseHist::default();
            let mut latencies = Vec::new();
            for _ in 0..1000 {
                let ns = (60e3 * (1.0 - uniform().ln()) * uniform().powf(-0.15)) as u64;
                latencies.push(ns);
                (0..10).for_each(|_| bins.record(ns));
            }
            let values = latencies.iter().map(|ns| (*ns, 10));
            all.merge(&Hist::of_values(values, latencies.iter().map(|ns| u128::from(*ns) * 10).sum()));
            let stream = IntervalStream {
                class: OpClass::Read,
                ios: 10_000,
                bytes: 40_960_000,
                lat_sum_ns: latencies.iter().sum::<u64>() * 10,
                lat_max_ns: latencies.iter().copied().max().unwrap_or(0),
                bins: bins.sparse(),
            };
            intervals.push(Interval { start_ns: at * 100_000_000, length_ns: 100_000_000, streams: vec![stream] });
        }
        let step = &mut record.steps[0];
        let stream = Stream::of(OpClass::Read, Bytes(60_000_000 * 4096), all);
        *step = StepRecord {
            name: step.name.clone(),
            runtime_ns: 600_000_000_000,
            streams: vec![stream],
            intervals,
            ..StepRecord::default()
        };
        record.steps.truncate(1);
        record.plan.steps.truncate(1);
        record
    }

    #[test]
    fn a_page_of_sixty_million_requests_has_at_most_a_megabyte_and_a_half() {
        let record = sixty_million();
        assert_eq!(record.steps[0].streams[0].lat.count(), 60_000_000);
        let args = RunsArgs { runs: Vec::new(), thresholds: None, redact: false };
        let report = judged(&args, record).unwrap();
        let data = charts(&report.record, &report.summary);
        let drawn = Pictured { name: "a".to_owned(), report, data };
        let page = html(&[drawn], None, &TimeZone::UTC);
        assert!(page.len() <= 1_500_000, "{} bytes", page.len());
        assert!(page.contains("latency of reads over time"));
    }
}

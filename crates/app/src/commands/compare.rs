//! `qd1 compare`: runs side by side, or two places measured in turn.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use qd1_analysis::compare::{Condition, Group, compare, compare_in_turn};
use qd1_model::comparison::{Comparison, Word};
use qd1_model::measured::Measured;
use qd1_model::plan::EngineChoice;
use qd1_model::{Bytes, Problem, ProblemKind, printable};
use qd1_report::{CompareFormat, Detail};

use crate::args::{Choice, DestinationArgs, choice, duration, effort, engine};
use crate::command_line::CommandLine;
use crate::in_turn::{self, Outcome, Request};
use crate::output;
use crate::session;

/// The formats of a comparison: name, help text and value.
const FORMATS: [Choice<CompareFormat>; 6] = [
    ("human", "Text for people", CompareFormat::Human),
    ("json", "The whole comparison as one JSON document", CompareFormat::Json),
    ("csv", "One row per figure and side", CompareFormat::Csv),
    ("markdown", "Tables for an issue or a pull request", CompareFormat::Markdown),
    ("junit", "JUnit XML: a test case for each limit of --fail-if, or for each primary figure", CompareFormat::Junit),
    ("bmf", "Bencher Metric Format: the figures of the last side", CompareFormat::Bmf),
];

/// Text at the end of the help.
pub(crate) const EXAMPLE: &str = "\
Examples:
  qd1 compare @previous @latest
  qd1 compare --group before=ID,ID,ID after=ID,ID,ID --fail-if 'commit1.p99 > +10%'
  qd1 compare --in-turn /mnt/old /mnt/new
  qd1 compare fio.json other-fio.txt

Exit codes: 0 done; 1 a run cannot be read, or a request failed; 2 usage error; 3 a limit is certainly exceeded \
(--fail-if) or undecided (--strict), or a primary figure is worse (--fail-on worse); with --in-turn also 4 the place \
is not safe to use; 5 the machine or this user cannot do it; 129, 130, 143 interrupted.";

/// Most runs and sides.
const RUNS_MAX: usize = 1000;

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Runs; each is compared with the first. A run is an id of `qd1 history` or its beginning, @latest, @previous,
    /// @yesterday, @TAG, or a file: qd1's --json, fio's JSON, report or terse lines, YABS's JSON or text, bonnie++'s
    /// CSV, or p99bench's JSON. Several runs in one file count as repeats
    #[arg(value_name = "RUN", required_unless_present_any = ["group", "in_turn"])]
    pub(crate) runs: Vec<String>,
    #[command(flatten)]
    pub(crate) in_turn: InTurnArgs,
    /// Several runs as one side under a name, to see how much runs vary on their own; plain RUNs go before it
    #[arg(long, value_name = "NAME=RUN,RUN", num_args = 1..)]
    pub(crate) group: Vec<String>,
    /// Exit with code 3 if a figure has certainly changed by more than this, such as 'commit1.p99 > +10%' or
    /// 'read32.iops < -10%'; may be given several times. Figures: p50, p99, p99.9, p99.99, mean, sync_p50, sync_p99,
    /// iops, bw, stall_share
    #[arg(long, value_name = "LIMIT")]
    pub(crate) fail_if: Vec<Condition>,
    /// Also exit with code 3 if it is undecided whether a figure is within its limit
    #[arg(long, requires = "fail_if")]
    pub(crate) strict: bool,
    /// Exit with code 3 if any of the dozen primary figures is worse on another side than on the first
    #[arg(long, value_name = "WORD", value_enum)]
    pub(crate) fail_on: Option<FailOn>,
    /// Format of the result on stdout
    #[arg(long, value_parser = choice(&FORMATS), default_value = "human")]
    pub(crate) format: CompareFormat,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Leave out names, addresses, models and paths, to share the result: sides and runs are numbered
    #[arg(long, conflicts_with = "fail_if")]
    pub(crate) redact: bool,
    #[command(flatten)]
    pub(crate) to: DestinationArgs,
}

/// What `--fail-on` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// A primary figure is worse.
    Worse,
}

/// How two places are measured in turn.
#[derive(Debug, Args)]
pub(crate) struct InTurnArgs {
    /// Measure two places now and compare them (or name one place twice). Visits alternate between them, so that
    /// changes that affect both cancel out. Takes about two and a half minutes; both runs are saved in the history.
    /// Devices and files are only read
    #[arg(long, num_args = 2, value_names = ["PATH", "PATH"], conflicts_with_all = ["runs", "group"])]
    pub(crate) in_turn: Vec<PathBuf>,
    /// In turn: use the shortest times, about 40 seconds
    #[arg(long, conflicts_with_all = ["runs", "group", "full"])]
    pub(crate) quick: bool,
    /// In turn: use the longest times, several minutes
    #[arg(long, conflicts_with_all = ["runs", "group"])]
    pub(crate) full: bool,
    /// In turn: size of each test file, for example 4G (1GiB)
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["runs", "group"])]
    pub(crate) size: Option<Bytes>,
    /// In turn: maximum time for each step, for example 30s
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["runs", "group"])]
    pub(crate) runtime: Option<u64>,
    /// In turn: run only these steps of check, separated by commas; * matches any characters
    #[arg(long, value_name = "STEP", value_delimiter = ',', conflicts_with_all = ["runs", "group"])]
    pub(crate) only: Vec<String>,
    /// In turn: how I/O is issued: auto, psync, libaio or io_uring
    #[arg(long, value_name = "ENGINE", value_parser = engine, conflicts_with_all = ["runs", "group"])]
    pub(crate) engine: Option<EngineChoice>,
    /// In turn: seed for all random choices
    #[arg(long, conflicts_with_all = ["runs", "group"])]
    pub(crate) seed: Option<u64>,
    /// In turn: show what would be done: steps, time, bytes written, space
    #[arg(long, conflicts_with_all = ["runs", "group"])]
    pub(crate) dry_run: bool,
    /// In turn: space to leave free on the filesystem (a tenth of it, at most 4 GiB)
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["runs", "group"])]
    pub(crate) leave_free: Option<Bytes>,
    /// In turn: also measure a filesystem in memory (tmpfs)
    #[arg(long, conflicts_with_all = ["runs", "group"])]
    pub(crate) in_memory: bool,
    /// In turn: do not save the runs in the history
    #[arg(long, conflicts_with_all = ["runs", "group"])]
    pub(crate) no_save: bool,
    /// In turn: show no progress on stderr
    #[arg(long, short, conflicts_with_all = ["runs", "group"])]
    pub(crate) quiet: bool,
}

/// Compares runs.
///
/// # Errors
/// When a run cannot be read, or the runs have nothing to compare; the message says what to do.
pub(crate) fn run(args: &CompareArgs, typed: &CommandLine) -> Result<ExitCode> {
    args.to.output.iter().try_for_each(|path| output::check_destination(path))?;
    if let [first, second] = args.in_turn.in_turn.as_slice() {
        return in_turn(args, typed, [first, second]);
    }
    let mut groups = groups(args)?;
    if args.redact {
        redact(&mut groups);
    }
    let comparison = compare(&groups, &args.fail_if)?;
    show(args, &comparison)?;
    Ok(ExitCode::from(code(args, &comparison)))
}

/// Measures two places in turn and compares them.
fn in_turn(args: &CompareArgs, typed: &CommandLine, [first, second]: [&PathBuf; 2]) -> Result<ExitCode> {
    let how = &args.in_turn;
    let request = Request {
        typed,
        paths: [first, second],
        effort: effort(how.quick, how.full),
        size: how.size,
        runtime_ns: how.runtime,
        only: &how.only,
        engine: how.engine,
        seed: how.seed,
        dry_run: how.dry_run,
        leave_free: how.leave_free,
        in_memory: how.in_memory,
        no_save: how.no_save,
        quiet: how.quiet,
        limited: args.fail_if.iter().map(Condition::step).collect(),
        to: &args.to,
    };
    let mut measured = match in_turn::measure(&request)? {
        Outcome::Measured(measured) => measured,
        Outcome::Over(code) => return Ok(code),
    };
    if args.redact {
        redact(&mut measured.groups);
    }
    let reported = compare_in_turn(&measured.groups, &args.fail_if, &measured.pairs)
        .map_err(anyhow::Error::from)
        .and_then(|comparison| show(args, &comparison).map(|()| code(args, &comparison)));
    let failed = measured.has_failed.then(|| ProblemKind::Failed.exit_code());
    session::exit_code(reported.map(|code| failed.unwrap_or(code)))
}

fn show(args: &CompareArgs, comparison: &Comparison) -> Result<()> {
    let style = output::style(&args.to, Detail::Screen { is_kept: false, lines: None });
    let format = if args.json { CompareFormat::Json } else { args.format };
    output::write(&args.to, &qd1_report::comparison(comparison, format, &style, &jiff::tz::TimeZone::system()))
}

/// Returns 3 if a limit is certainly exceeded, is undecided with `--strict`, or a primary figure is worse with
/// `--fail-on worse`; otherwise 0.
fn code(args: &CompareArgs, comparison: &Comparison) -> u8 {
    let is_beyond = comparison.limits.iter().any(|limit| limit.is_beyond || args.strict && !limit.is_within);
    let primary = comparison.rows.iter().filter(|row| row.is_primary).flat_map(|row| &row.effects);
    let is_worse = primary.chain(&comparison.overall).any(|effect| effect.word == Word::Worse);
    let fails = is_beyond || is_worse && args.fail_on == Some(FailOn::Worse);
    if fails { ProblemKind::Threshold.exit_code() } else { 0 }
}

/// Numbers the sides and what is named in them.
pub(crate) fn redact(groups: &mut [Group]) {
    for (group, number) in groups.iter_mut().zip(1..) {
        group.name = format!("side {number}");
    }
    let mut runs: Vec<&mut Measured> = groups.iter_mut().flat_map(|group| &mut group.runs).collect();
    qd1_report::redact_measured(&mut runs);
}

/// Reads the sides: each run on its own, and each group.
fn groups(args: &CompareArgs) -> Result<Vec<Group>> {
    let named = args.runs.iter().zip(qd1_runs::find::names(&args.runs));
    let mut groups = named
        .map(|(word, name)| Ok(Group { name, runs: qd1_runs::find::find(word, RUNS_MAX)? }))
        .collect::<Result<Vec<Group>>>()?;
    for given in &args.group {
        let wrong = || {
            Problem::usage(format!(
                "--group {}: write it as name=RUN,RUN,RUN; a RUN outside any group goes before --group",
                printable(given)
            ))
        };
        let (name, words) = given.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
        if groups.iter().any(|group| group.name == name) {
            let message = format!("--group {}: another side has this name; choose a different one", printable(given));
            return Err(Problem::usage(message).into());
        }
        let found = words
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(|word| qd1_runs::find::find(word, RUNS_MAX))
            .collect::<Result<Vec<_>>>()?;
        if found.is_empty() {
            return Err(wrong().into());
        }
        let runs = found.into_iter().flatten().collect();
        groups.push(Group { name: printable(name).into_owned(), runs });
    }
    let count: usize = groups.iter().map(|group| group.runs.len()).sum();
    if groups.len() < 2 {
        let hint = "name another run; `qd1 history` lists them";
        return Err(Problem::usage(format!("there is only one side and nothing to compare it with; {hint}")).into());
    }
    if count > RUNS_MAX {
        return Err(Problem::usage(format!("{count} runs are too many; compare at most {RUNS_MAX}")).into());
    }
    no_run_twice(&groups)?;
    Ok(groups)
}

/// A run does not differ from itself, and a run that is counted twice is not a repeat.
fn no_run_twice(groups: &[Group]) -> Result<(), Problem> {
    let all: Vec<&Measured> = groups.iter().flat_map(|group| &group.runs).collect();
    for (at, run) in all.iter().enumerate() {
        let is_same = |other: &&&Measured| {
            other.label == run.label || other.started_unix_ns == run.started_unix_ns && other.steps == run.steps
        };
        if let Some(other) = all[..at].iter().find(is_same) {
            let names = if other.label == run.label {
                format!("{} is named twice", run.label)
            } else {
                format!("{} and {} are the same run", other.label, run.label)
            };
            return Err(Problem::usage(format!("{names}; name another run")));
        }
    }
    Ok(())
}

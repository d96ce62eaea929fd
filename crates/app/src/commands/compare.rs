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

/// The forms of a comparison: name, help text and value.
const FORMATS: [Choice<CompareFormat>; 6] = [
    ("human", "Text for people", CompareFormat::Human),
    ("json", "The whole comparison as one JSON document", CompareFormat::Json),
    ("csv", "One row per figure and side", CompareFormat::Csv),
    ("markdown", "Tables for an issue or a pull request", CompareFormat::Markdown),
    ("junit", "JUnit's XML: a case for each limit of --fail-if, or for each primary figure", CompareFormat::Junit),
    ("bmf", "Bencher Metric Format: the figures of the last side", CompareFormat::Bmf),
];

/// What the help ends with.
pub(crate) const EXAMPLE: &str = "\
Examples:
  qd1 compare @previous @latest
  qd1 compare --group before=ID,ID,ID after=ID,ID,ID --fail-if 'commit1.p99 > +10%'
  qd1 compare --in-turn /mnt/old /mnt/new
  qd1 compare fio.json other-fio.txt

Exit codes: 0 done; 1 a run cannot be read, or a request failed; 2 wrong usage; 3 a limit is exceeded for sure (--fail-if), \
is undecided (--strict), or a primary figure is worse (--fail-on worse); with --in-turn also 4 the place is not safe \
to use; 5 the machine or this user cannot do it; 129, 130, 143 interrupted.";

/// Runs and sides at most.
const RUNS_MAX: usize = 1000;

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Runs, of which each is compared with the first: an id of `qd1 history` or its beginning, @latest, @previous,
    /// @yesterday, @TAG, or a file: --json of qd1, fio's JSON, report or terse lines, YABS's JSON or text, bonnie++'s CSV,
    /// p99bench's JSON. Several runs in a file count as repeats
    #[arg(value_name = "RUN", required_unless_present_any = ["group", "in_turn"])]
    pub(crate) runs: Vec<String>,
    #[command(flatten)]
    pub(crate) in_turn: InTurnArgs,
    /// A side of several runs under one name, to see how runs differ by themselves; plain RUNs go before it
    #[arg(long, value_name = "NAME=RUN,RUN", num_args = 1..)]
    pub(crate) group: Vec<String>,
    /// Exit with code 3 if a figure has changed by more than this for sure, as 'commit1.p99 > +10%' or 'read32.iops < -10%';
    /// may be given several times. Figures: p50, p99, p99.9, p99.99, mean, sync_p50, sync_p99, iops, bw, stall_share
    #[arg(long, value_name = "LIMIT")]
    pub(crate) fail_if: Vec<Condition>,
    /// Exit with code 3 also where it is undecided whether a figure is within its limit
    #[arg(long, requires = "fail_if")]
    pub(crate) strict: bool,
    /// Exit with code 3 if any of the dozen primary figures is worse on another side than on the first
    #[arg(long, value_name = "WORD", value_enum)]
    pub(crate) fail_on: Option<FailOn>,
    /// Form of the result on stdout
    #[arg(long, value_parser = choice(&FORMATS), default_value = "human")]
    pub(crate) format: CompareFormat,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Leave out names, addresses, models and paths, to share it: sides and runs are numbered
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
    /// Measure two places now and compare them (or one, named twice): visit by visit in turn, so that what moves both cancels.
    /// About two and a half minutes; both runs are kept in the history. Devices and files are only read
    #[arg(long, num_args = 2, value_names = ["PATH", "PATH"], conflicts_with_all = ["runs", "group"])]
    pub(crate) in_turn: Vec<PathBuf>,
    /// In turn: the shortest times, about 40 seconds
    #[arg(long, conflicts_with_all = ["runs", "group", "full"])]
    pub(crate) quick: bool,
    /// In turn: the longest times, minutes
    #[arg(long, conflicts_with_all = ["runs", "group"])]
    pub(crate) full: bool,
    /// In turn: size of each test file, for example 4G (1GiB)
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["runs", "group"])]
    pub(crate) size: Option<Bytes>,
    /// In turn: longest time of each step, for example 30s
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["runs", "group"])]
    pub(crate) runtime: Option<u64>,
    /// In turn: only these steps of check, separated by commas; * stands for any letters
    #[arg(long, value_name = "STEP", value_delimiter = ',', conflicts_with_all = ["runs", "group"])]
    pub(crate) only: Vec<String>,
    /// In turn: how I/O is issued: auto, psync, libaio or io_uring
    #[arg(long, value_name = "ENGINE", value_parser = engine, conflicts_with_all = ["runs", "group"])]
    pub(crate) engine: Option<EngineChoice>,
    /// In turn: seed of all random choices
    #[arg(long, conflicts_with_all = ["runs", "group"])]
    pub(crate) seed: Option<u64>,
    /// In turn: show what would be done: steps, time, bytes written, space
    #[arg(long, conflicts_with_all = ["runs", "group"])]
    pub(crate) dry_run: bool,
    /// In turn: space of the filesystem that stays free (a tenth of it, at most 4 GiB)
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["runs", "group"])]
    pub(crate) leave_free: Option<Bytes>,
    /// In turn: measure also where files are kept in memory (tmpfs)
    #[arg(long, conflicts_with_all = ["runs", "group"])]
    pub(crate) in_memory: bool,
    /// In turn: do not save the runs in the history
    #[arg(long, conflicts_with_all = ["runs", "group"])]
    pub(crate) no_save: bool,
    /// In turn: no progress on stderr
    #[arg(long, short, conflicts_with_all = ["runs", "group"])]
    pub(crate) quiet: bool,
}

/// Compares runs.
///
/// # Errors
/// When a run cannot be read, or nothing of them can be compared; the message says what to do.
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

/// 3 where a limit is exceeded for sure, cannot be told and has to be, or a primary figure is worse and must not be; else 0.
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

/// Reads the sides: each run by itself, and each group.
fn groups(args: &CompareArgs) -> Result<Vec<Group>> {
    let named = args.runs.iter().zip(qd1_runs::find::names(&args.runs));
    let mut groups = named
        .map(|(word, name)| Ok(Group { name, runs: qd1_runs::find::find(word, RUNS_MAX)? }))
        .collect::<Result<Vec<Group>>>()?;
    for given in &args.group {
        let wrong = || {
            Problem::usage(format!(
                "--group {}: write it as name=RUN,RUN,RUN; a RUN of no group goes before --group",
                printable(given)
            ))
        };
        let (name, words) = given.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
        if groups.iter().any(|group| group.name == name) {
            return Err(
                Problem::usage(format!("--group {}: there is another side of that name", printable(given))).into()
            );
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
        return Err(Problem::usage(format!("there is only one side, and nothing to compare it with; {hint}")).into());
    }
    if count > RUNS_MAX {
        return Err(Problem::usage(format!("{count} runs are too many; compare at most {RUNS_MAX}")).into());
    }
    no_run_twice(&groups)?;
    Ok(groups)
}

/// A run beside itself differs by nothing, and a run that counts twice as a repeat is no repeat.
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

//! Arguments that several commands share.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use qd1_model::Bytes;
use qd1_model::plan::EngineChoice;
use qd1_model::spec::Effort;
use qd1_model::units::parse_duration_ns;
use qd1_report::Format;

/// The output formats of a result: name, help text and value.
const FORMATS: [Choice<Format>; 7] = [
    ("human", "Text for people", Format::Human),
    ("json", "The whole report as one JSON document", Format::Json),
    (
        "ndjson",
        "One JSON object per line: verdicts, criteria, steps, findings, intervals, machine activity, then the record",
        Format::Ndjson,
    ),
    ("csv", "One row per step, kind of operation and metric", Format::Csv),
    ("markdown", "Tables for an issue or a pull request", Format::Markdown),
    ("post", "A dozen plain lines for a forum, without host names and paths (as with --redact)", Format::Post),
    ("openmetrics", "OpenMetrics, for Prometheus or node_exporter's textfile collector", Format::Openmetrics),
];

/// A value that an argument may take: its name, its help text, and its meaning.
pub(crate) type Choice<T> = (&'static str, &'static str, T);

/// Returns a parser that accepts one of `choices` by name.
pub(crate) fn choice<T: Copy + Send + Sync>(choices: &'static [Choice<T>]) -> impl TypedValueParser<Value = T> {
    let names = choices.iter().map(|(name, help, _)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names).map(|given| {
        let found = choices.iter().find(|(name, ..)| *name == given);
        found.expect("the parser accepts no other names").2
    })
}

/// How to measure, and where the result goes: the same for every command that measures.
#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    /// Use the shortest times: wider intervals
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Use the longest times: tighter intervals
    #[arg(long)]
    pub(crate) full: bool,
    /// Size of the test file, for example 4G
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// Maximum time for each step, for example 30s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) runtime: Option<u64>,
    /// Run only these steps, separated by commas; * matches any characters. --dry-run lists them
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Measure commits again during buffered writes and reads: fsync on an idle disk is misleadingly fast
    #[arg(long)]
    pub(crate) with_load: bool,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Use the thresholds in this file instead of the built-in ones (see docs/thresholds.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) thresholds: Option<PathBuf>,
    /// Exit with code 3 if any verdict or criterion is this bad or worse
    #[arg(long, value_name = "GRADE", value_enum)]
    pub(crate) fail_on: Option<FailOn>,
}

/// Arguments of every command that measures.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Seed for all random choices (offsets, data, arrivals), to repeat a run exactly
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Show what would be done: steps, time, bytes written, space
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Space to leave free on the filesystem [default: a tenth of it, at most 4 GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) leave_free: Option<Bytes>,
    /// Also measure a filesystem in memory (tmpfs); nothing is judged then
    #[arg(long)]
    pub(crate) in_memory: bool,
    /// Do not save the run in the history
    #[arg(long)]
    pub(crate) no_save: bool,
    /// Show no progress on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Arguments of commands that issue requests themselves.
#[derive(Debug, Args)]
pub(crate) struct DeviceArgs {
    /// How I/O is issued: auto, psync, libaio, io_uring or null (no I/O: measures qd1 itself)
    #[arg(long, value_name = "ENGINE", value_parser = engine)]
    pub(crate) engine: Option<EngineChoice>,
    /// Overwrite this block device; must repeat PATH (with a job file: the device, file or directory that it uses)
    #[arg(long, value_name = "DEVICE")]
    pub(crate) destroy: Option<PathBuf>,
}

/// The grades that `--fail-on` takes, from strict to lenient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// One failed.
    Fail,
    /// One failed or could not be resolved.
    NotResolved,
    /// One failed, could not be resolved, or is marginal.
    Marginal,
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Format of the result on stdout
    #[arg(long, value_parser = choice(&FORMATS), default_value = "human")]
    pub(crate) format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to: DestinationArgs,
    /// Leave out names, addresses, models and paths, to share the result
    #[arg(long)]
    pub(crate) redact: bool,
}

/// Where text goes, how much of it there is, and whether it has colour; also for commands with their own formats.
#[derive(Debug, Args)]
pub(crate) struct DestinationArgs {
    /// Write the result to this file instead of stdout (whole, or not at all)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Show all figures with their intervals and all findings, not only what fits on a screen
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// When to use colour; auto means on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, default_value_t)]
    pub(crate) color: When,
}

impl DestinationArgs {
    /// The destination of commands without these options: all of the text on stdout.
    pub(crate) fn stdout() -> Self {
        Self { output: None, verbose: true, color: When::Auto }
    }
}

impl OutputArgs {
    /// The format of the result.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    /// Whether names are left out: on request, and in formats made for sharing.
    pub(crate) fn is_redacted(&self) -> bool {
        self.redact || self.format() == Format::Post
    }
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl MeasureArgs {
    /// How much time to spend.
    pub(crate) const fn effort(&self) -> Effort {
        effort(self.quick, self.full)
    }
}

/// How much time to spend, from the two flags.
pub(crate) const fn effort(quick: bool, full: bool) -> Effort {
    match (quick, full) {
        (true, _) => Effort::Quick,
        (_, true) => Effort::Full,
        _ => Effort::Default,
    }
}

/// Parses a duration, ns.
///
/// # Errors
/// When the text is not a time, or the time is a thousand hours or more.
pub(crate) fn duration(text: &str) -> Result<u64, String> {
    match parse_duration_ns(text) {
        // The sum of a few of these still fits into a `u64` of nanoseconds.
        Ok(ns) if ns < 3_600_000_000_000_000 => Ok(ns),
        Ok(_) => Err("longer than a thousand hours; choose a shorter time".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses the name of an engine.
///
/// # Errors
/// When there is no such engine.
pub(crate) fn engine(text: &str) -> Result<EngineChoice, String> {
    text.parse()
}

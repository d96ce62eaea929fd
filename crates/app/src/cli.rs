//! The command line.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use qd1_model::Bytes;
use qd1_model::plan::{EngineChoice, Rw};
use qd1_model::units::parse_duration_ns;

use crate::meta::MetaArgs;
use crate::report::Format;

/// Names of all commands, for "did you mean".
pub(crate) const COMMANDS: &[&str] = &[
    "check",
    "run",
    "sweep",
    "limits",
    "sync",
    "meta",
    "ping",
    "identify",
    "app",
    "filesystems",
    "restore",
    "predict",
    "suites",
    "history",
    "fio",
    "schema",
    "help",
];

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 the run failed; 2 wrong usage; 3 a threshold failed (--fail-on); 4 the target is not safe \
to use; 5 the machine or this user cannot do it; 130, 143 interrupted (what was measured so far is printed and kept).";

impl Cli {
    /// The command line, or its end: what is wrong with it, or the help it asks for.
    pub(crate) fn read() -> Self {
        Self::try_parse().unwrap_or_else(|error| {
            let first = std::env::args().nth(1).unwrap_or_default();
            misspelt(&error, &first).unwrap_or(error).exit()
        })
    }
}

/// A misspelt command with a path after it reads as a path with something after it, which clap says of it.
fn misspelt(error: &clap::Error, first: &str) -> Option<clap::Error> {
    let is_conflict = error.kind() == clap::error::ErrorKind::ArgumentConflict;
    if !is_conflict || first.starts_with('-') || COMMANDS.contains(&first) || std::path::Path::new(first).exists() {
        return None;
    }
    let hint = match qd1_model::suggest::nearest(first, COMMANDS.iter().copied()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("the commands are {}", COMMANDS.join(", ")),
    };
    let message = format!("there is no command {first}, and no such file or directory; {hint}");
    Some(Cli::command().error(clap::error::ErrorKind::InvalidSubcommand, message))
}

/// Tells what a disk will feel like to the programs on it, and proves it.
#[derive(Debug, Parser)]
#[command(name = "qd1", version, args_conflicts_with_subcommands = true, args_override_self = true)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Without a command: `check`.
    #[command(flatten)]
    pub(crate) check: CheckArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure the disk under PATH and judge it, in about a minute (the default command)
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Check(CheckArgs),
    /// Run a suite of steps: one that is built in, or a TOML file of your own (docs/suites.md)
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Run(RunArgs),
    /// Measure block size x iodepth x rw: knees, the change from the IOPS to the MB/s limit, what a latency bound allows
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Sweep(SweepArgs),
    /// Find the rate limits of the disk under PATH: IOPS, MB/s, burst and refill (see docs/method.md)
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Limits(LimitsArgs),
    /// Measure file operations: create, stat, open, list, rename, link, delete; or bonnie++'s whole job
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Meta(MetaArgs),
    /// Measure every way to make writes durable: which one the disk likes best, and the settings of databases that use it
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Sync(SyncArgs),
    /// Send one request after another and print a line for each, as ping does
    #[command(after_help = crate::ping::EXIT_CODES, args_override_self = true)]
    Ping(crate::ping::PingArgs),
    /// Tell what kind of storage PATH is on: NVMe, SATA, rotating, network, RAID, oversold, file-backed or memory
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Identify(CheckArgs),
    /// Compare ext4, xfs, btrfs and zfs on this disk: the same work on each, in rounds, with one table (root)
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Filesystems(crate::filesystems::args::FilesystemsArgs),
    /// Undo what a killed run left changed in the system: mounts, loop devices, files
    Restore(RestoreArgs),
    /// Run a real program on the disk under PATH: PostgreSQL, etcd, SQLite, RocksDB, sysbench
    #[command(after_help = EXIT_CODES)]
    App {
        #[command(subcommand)]
        command: crate::apps::args::AppCommand,
    },
    /// Predict what PostgreSQL, etcd and SQLite will do on the disk under PATH, from its commits (see docs/method.md)
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Predict(PredictArgs),
    /// List the built-in suites, or print one to copy and edit
    Suites(SuitesArgs),
    /// List the runs kept here, or show one again with today's analysis
    History(HistoryArgs),
    /// Run fio's command lines and job files, with fio's reports (also when called as `fio`; see docs/fio.md)
    #[command(disable_help_flag = true)]
    Fio {
        /// As fio takes them; `qd1 fio --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Print the JSON Schema of what `--json` prints
    Schema,
    /// Removes a scratch directory, or undoes a journal, when the process that made it is gone.
    #[command(hide = true, name = "__janitor")]
    Janitor { path: PathBuf },
    /// Becomes a program that the kernel ends when the process that asked for it is gone.
    #[command(hide = true, name = "__guard")]
    Guard {
        signal: i32,
        parent: i32,
        hold: String,
        #[arg(last = true)]
        command: Vec<std::ffi::OsString>,
    },
    /// Runs a command when the process that asked for it is gone.
    #[command(hide = true, name = "__afterwards")]
    Afterwards {
        #[arg(last = true)]
        command: Vec<std::ffi::OsString>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Directory, file (only read) or block device (only read, unless --destroy) to measure
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) how: MeasureArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// Directory to measure
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Measure nothing: take the commits of this kept run of check or predict (see `qd1 history`)
    #[arg(long, value_name = "RUN", conflicts_with_all = ["path", "verify"])]
    pub(crate) from: Option<String>,
    /// Then run these programs on the same disk, and show how far the predictions are off [default: all three]
    #[arg(long, value_name = "PROGRAM", value_delimiter = ',', value_enum, num_args = 0.., require_equals = true,
          default_missing_values = ["postgres", "etcd", "sqlite"])]
    pub(crate) verify: Vec<crate::predict::Verified>,
    /// pgbench's scale, about 16 MB each with --verify
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) scale: u32,
    #[command(flatten)]
    pub(crate) how: MeasureArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Name of a built-in suite (see `qd1 suites`), a suite's file, which ends in .toml, or a job file of fio's
    #[arg(value_name = "SUITE|JOB")]
    pub(crate) what: String,
    /// Directory, file (only read) or block device (only read, unless --destroy) to measure
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) how: MeasureArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// Directory, file (only read) or block device (only read, unless --destroy) to measure
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Block sizes, separated by commas [default: 4k,16k,64k,256k,1M]
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    pub(crate) bs: Vec<Bytes>,
    /// Requests in flight, separated by commas [default: 1,2,4,8,16,32,64]
    #[arg(long, value_name = "DEPTHS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) iodepth: Vec<u32>,
    /// Directions, separated by commas: read, write, randread, randwrite, rw, randrw [default: randread,randwrite]
    #[arg(long, value_name = "RW", value_delimiter = ',', value_parser = direction)]
    pub(crate) rw: Vec<Rw>,
    /// How often each cell is measured, spread over the run: with two or more, drift shows [default: 2; --full: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) passes: Option<u32>,
    /// Longest p99 that is acceptable, for example 2ms: says which depth it allows
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) max_p99: Option<u64>,
    #[command(flatten)]
    pub(crate) how: MeasureArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LimitsArgs {
    /// Directory, file (only read) or block device (only read, unless --destroy) to measure
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Look this long for the end of a burst, each for reads and writes, small and large requests. Writes more: see
    /// --dry-run
    #[arg(long, value_name = "TIME", value_parser = duration, num_args = 0..=1, require_equals = true, default_missing_value = "120s")]
    pub(crate) burst: Option<u64>,
    /// Size of the test file
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    pub(crate) size: Bytes,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SyncArgs {
    /// Directory on the disk to measure, or a block device that --destroy names as well
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) how: MeasureArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Only say what would be undone
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SuitesArgs {
    /// Print the TOML of this one
    pub(crate) name: Option<String>,
}

/// How to measure, and where the result goes: the same for every command that measures.
#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    /// The shortest times of the suite (check: about 15 seconds); wider intervals
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// The longest times of the suite (check: minutes); tighter intervals
    #[arg(long)]
    pub(crate) full: bool,
    /// Size of the test file, for example 4G (check: 1GiB)
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// Longest time of each step, for example 30s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) runtime: Option<u64>,
    /// Only these steps, separated by commas; * stands for any letters. --dry-run lists them; check has qd1, commit1,
    /// commit4, wal, read32, write32, seqread, seqwrite, files, buffered
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Commits once more while buffered writes and reads go on: an idle disk's fsync misleads (check --full does it)
    #[arg(long)]
    pub(crate) with_load: bool,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Thresholds of your own instead of the built-in ones (see docs/thresholds.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) thresholds: Option<PathBuf>,
    /// Exit with code 3 if any verdict or criterion is this bad or worse
    #[arg(long, value_name = "GRADE", value_enum)]
    pub(crate) fail_on: Option<FailOn>,
}

/// What every command takes that makes a run.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Seed of every choice by chance (offsets, data, arrivals), to repeat a run exactly
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Show what would be done: steps, time, bytes written, space
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not keep the run in the history
    #[arg(long)]
    pub(crate) no_save: bool,
    /// No progress on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What a command takes whose requests are our own.
#[derive(Debug, Args)]
pub(crate) struct DeviceArgs {
    /// How I/O is issued: auto, psync, libaio, io_uring or null (no I/O: the instrument itself)
    #[arg(long, value_name = "ENGINE", value_parser = engine)]
    pub(crate) engine: Option<EngineChoice>,
    /// Overwrite this block device; has to name PATH again
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
    /// Form of the result on stdout
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Write the result to this file instead of stdout (whole, or not at all)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Leave out names, addresses, models and paths, to share the result
    #[arg(long)]
    pub(crate) redact: bool,
    /// Colour: auto is on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, default_value_t)]
    pub(crate) color: When,
}

impl OutputArgs {
    /// What commands without output options do: text on stdout.
    pub(crate) fn stdout() -> Self {
        Self { format: Format::Human, json: false, output: None, redact: false, color: When::Auto }
    }

    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
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

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct HistoryArgs {
    #[command(subcommand)]
    pub(crate) command: Option<HistoryCommand>,
    /// How many runs to list, the newest first
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: usize,
    /// List as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// Print one run again, from what was measured then, with today's analysis
    Show {
        /// Its id, or the beginning of it
        id: String,
        /// Thresholds of your own instead of the built-in ones
        #[arg(long, value_name = "FILE")]
        thresholds: Option<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
}

pub(crate) fn duration(text: &str) -> Result<u64, String> {
    match parse_duration_ns(text) {
        // Sums of a few such still fit into nanoseconds.
        Ok(ns) if ns < 3_600_000_000_000_000 => Ok(ns),
        Ok(_) => Err("that is longer than a thousand hours".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn direction(text: &str) -> Result<Rw, String> {
    Ok(match text {
        "read" => Rw::Read,
        "write" => Rw::Write,
        "randread" => Rw::Randread,
        "randwrite" => Rw::Randwrite,
        "rw" | "readwrite" => Rw::Rw,
        "randrw" => Rw::Randrw,
        other => {
            return Err(format!("unknown rw {other:?}; choose read, write, randread, randwrite, rw or randrw"));
        }
    })
}

fn engine(text: &str) -> Result<EngineChoice, String> {
    text.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_visible_command_is_known_to_did_you_mean() {
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(COMMANDS.contains(&command.get_name()), "{}", command.get_name());
        }
    }

    #[test]
    fn a_misspelt_command_with_a_path_is_told_as_one() {
        let error = Cli::try_parse_from(["qd1", "checks", "/tmp"]).unwrap_err();
        let told = misspelt(&error, "checks").unwrap().to_string();
        assert!(told.contains("there is no command checks") && told.contains("did you mean check?"), "{told}");
        assert!(misspelt(&error, "/tmp").is_none(), "a directory that is there is no misspelt command");
    }

    #[test]
    fn without_a_command_it_is_check() {
        let cli = Cli::parse_from(["qd1", "--quick", "/srv"]);
        assert!(cli.command.is_none() && cli.check.how.quick && cli.check.path == std::path::Path::new("/srv"));
    }
}

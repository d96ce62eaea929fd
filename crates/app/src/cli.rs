//! The command line.

use std::any::TypeId;
use std::ffi::OsString;
use std::io::IsTerminal as _;

use clap::builder::ArgAction;
use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::command_line::{CommandLine, Word};
use crate::commands::app::AppCommand;
use crate::commands::check::CheckArgs;
use crate::commands::compare::{self, CompareArgs};
use crate::commands::completions::{CompletionsArgs, ManArgs};
use crate::commands::doctor::{self, DoctorArgs};
use crate::commands::filesystems::FilesystemsArgs;
use crate::commands::help::HelpArgs;
use crate::commands::helpers::HelperCommand;
use crate::commands::history::{self, HistoryArgs};
use crate::commands::identify::IdentifyArgs;
use crate::commands::limits::LimitsArgs;
use crate::commands::meta::MetaArgs;
use crate::commands::ping::{self, PingArgs};
use crate::commands::plot::{self, PlotArgs};
use crate::commands::powercut::{self, PowercutCommand};
use crate::commands::predict::PredictArgs;
use crate::commands::report::{self, ReportArgs};
use crate::commands::restore::RestoreArgs;
use crate::commands::run::RunArgs;
use crate::commands::schema::SchemaArgs;
use crate::commands::suites::SuitesArgs;
use crate::commands::sweep::SweepArgs;
use crate::commands::sync::SyncArgs;
use crate::commands::trace::{self, TraceArgs};
use crate::commands::version::VersionArgs;
use crate::commands::watch::{self, WatchArgs};
use crate::{message, terminal};
use option_help::worded;

mod option_help;

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 the run failed; 2 usage error; 3 a threshold failed (--fail-on); 4 the target is not safe \
to use; 5 the machine or this user cannot do it; 129, 130, 143 interrupted (what was measured so far is printed and \
kept).";

const ALL_OPTIONS: &str = "\
All options of a check: `qd1 check --help`. Pages on verdicts, units, exit codes and safety: `qd1 help`.";

impl Cli {
    /// Returns the definition of the command line.
    pub(crate) fn definition() -> clap::Command {
        worded(Self::command())
    }

    /// Reads the command line, parsed and as typed. Ends the program on a usage error or a request for help.
    pub(crate) fn read() -> (Self, CommandLine) {
        // One definition for both: building it takes most of the time of a short command.
        let mut definition = Self::definition();
        let parsed = definition.try_get_matches_from_mut(std::env::args_os());
        let parsed = parsed.and_then(|matches| Self::from_arg_matches(&matches));
        let cli = parsed.map_err(|error| error.format(&mut definition)).unwrap_or_else(|error| {
            let first = std::env::args_os().nth(1).unwrap_or_default().to_string_lossy().into_owned();
            let better = not_utf8(&error)
                .or_else(|| misspelt(&error, &mut definition, &first))
                .or_else(|| no_effort(&error))
                .or_else(|| no_part(&error, &mut definition, &first))
                .or_else(|| no_number(&error));
            end(&better.unwrap_or(error))
        });
        (cli, command_line(&definition, std::env::args_os().skip(1)))
    }
}

/// Prints what clap has to say, no wider than the terminal, and ends the process.
fn end(error: &clap::Error) -> ! {
    if !error.use_stderr() || !std::io::stderr().is_terminal() {
        error.exit();
    }
    let text = qd1_report::fitted(&error.render().to_string(), terminal::columns(std::io::stderr()));
    message::print(text.trim_end());
    std::process::exit(error.exit_code())
}

/// Returns a better error for a name that is not UTF-8: clap does not say which name it is.
fn not_utf8(error: &clap::Error) -> Option<clap::Error> {
    use clap::error::ErrorKind::InvalidUtf8;
    let name = std::env::args_os().skip(1).find(|arg| arg.to_str().is_none())?;
    let message = format!("{name:?} is not UTF-8, so no report could name it; rename the file, or make a link to it\n");
    (error.kind() == InvalidUtf8).then(|| clap::Error::raw(InvalidUtf8, message))
}

/// Returns a better error for a misspelt command with a path after it, which clap takes for a path with an extra
/// argument.
fn misspelt(error: &clap::Error, definition: &mut clap::Command, first: &str) -> Option<clap::Error> {
    let is_conflict = error.kind() == clap::error::ErrorKind::ArgumentConflict;
    let commands = names(definition);
    let is_known = commands.iter().any(|name| name == first);
    if !is_conflict || first.starts_with('-') || is_known || std::path::Path::new(first).exists() {
        return None;
    }
    let hint = match qd1_model::suggest::nearest(first, commands.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("the commands are {}", commands.join(", ")),
    };
    let message = format!("there is no command {first}, and no file or directory of that name; {hint}");
    Some(definition.error(clap::error::ErrorKind::InvalidSubcommand, message))
}

/// Returns a better error for --quick and --full where a command has neither: clap suggests --quiet.
fn no_effort(error: &clap::Error) -> Option<clap::Error> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_effort = matches!(flag.as_str(), "--quick" | "--full");
    (error.kind() == ErrorKind::UnknownArgument && is_effort).then(|| {
        let message = format!("this command has no {flag}; --runtime sets the time of each load");
        clap::Error::raw(ErrorKind::UnknownArgument, format!("{message}\n"))
    })
}

/// Returns a better error for an unknown subcommand of a command such as `app`: clap does not list the known ones.
fn no_part(error: &clap::Error, definition: &mut clap::Command, first: &str) -> Option<clap::Error> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let known = names(definition.find_subcommand(first)?);
    let list = known.join(", ");
    let hint = match qd1_model::suggest::nearest(word, known.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean {meant}? Its subcommands are {list}"),
        None => format!("its subcommands are {list}"),
    };
    let message = format!("`qd1 {first}` has no subcommand {}; {hint}", qd1_model::printable(word));
    Some(definition.find_subcommand_mut(first)?.error(ErrorKind::InvalidSubcommand, message))
}

/// Returns a clearer error about a number: clap shows the text of the standard library.
fn no_number(error: &clap::Error) -> Option<clap::Error> {
    let text = error.render().to_string();
    let better = text.replace("invalid digit found in string", "not a whole number");
    (better != text).then(|| clap::Error::raw(error.kind(), better.trim_start_matches("error: ")))
}

/// Tells you what a disk will feel like to the programs on it, and proves it.
#[derive(Debug, Parser)]
#[command(name = "qd1", version, args_conflicts_with_subcommands = true, args_override_self = true)]
#[command(disable_help_subcommand = true, after_help = ALL_OPTIONS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Without a command: `check`.
    #[command(flatten)]
    pub(crate) check: CheckArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure a disk and judge it, in about a minute (the default)
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Check(CheckArgs),
    /// Run a built-in suite, or your own from a TOML file
    ///
    /// docs/suites.md describes the format of the file.
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Run(RunArgs),
    /// Measure block size x iodepth x rw: knees and limits
    ///
    /// Finds where more depth only adds latency, where the limit changes from IOPS to MB/s, and which depth a bound on
    /// latency allows.
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Sweep(SweepArgs),
    /// Find rate limits: IOPS, MB/s, burst and refill
    ///
    /// docs/method/limits.md explains how.
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Limits(LimitsArgs),
    /// Measure file operations, or run bonnie++'s whole job
    ///
    /// The operations: create, stat, open, list, rename, link and delete.
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Meta(MetaArgs),
    /// Compare all ways to make writes durable, and name the settings
    ///
    /// The settings are the database settings that use the fastest way.
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Sync(SyncArgs),
    /// Send one request at a time and print a line for each, like ping
    #[command(after_help = ping::EXIT_CODES, args_override_self = true)]
    Ping(PingArgs),
    /// Find out what kind of storage this is
    ///
    /// NVMe, SATA, rotating, network, RAID, oversold, file-backed or memory.
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Identify(IdentifyArgs),
    /// Print each request to a disk, and why its syncs are slow (root)
    ///
    /// Who made it, how long it waited, and how long the device took; like biosnoop, with nothing to install.
    #[command(after_help = trace::EXAMPLE, args_override_self = true)]
    Trace(TraceArgs),
    /// Show what the disks are doing now: iostat -x and vmstat in one
    ///
    /// Requests, waits and utilisation of each disk; processors, memory, dirty data, and pressure (PSI).
    #[command(after_help = watch::EXAMPLE, args_override_self = true)]
    Watch(WatchArgs),
    /// Find settings that cost latency or durability, and their fixes
    ///
    /// Mount options, writeback, queues, RAID, clocks, PostgreSQL, MySQL, etcd and Redis: what is in force, what the next
    /// boot brings, what it costs, and who says so. Nothing is changed. docs/method/doctor.md lists all rules.
    #[command(after_help = doctor::EXAMPLE, args_override_self = true)]
    Doctor(DoctorArgs),
    /// Compare ext4, xfs, btrfs and zfs on this disk (root)
    ///
    /// Does the same work on each, in rounds, and prints one table.
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Filesystems(FilesystemsArgs),
    /// Find out whether commits survive a power cut
    ///
    /// A writer, a witness on another machine, and a check afterwards.
    #[command(after_help = powercut::EXAMPLE)]
    Powercut {
        #[command(subcommand)]
        command: PowercutCommand,
    },
    /// Undo what a killed run left behind: mounts, loop devices, files
    Restore(RestoreArgs),
    /// Run PostgreSQL, MySQL, etcd, SQLite, RocksDB or sysbench
    #[command(after_help = EXIT_CODES)]
    App {
        #[command(subcommand)]
        command: AppCommand,
    },
    /// Predict how fast databases and etcd will be, from commits
    ///
    /// PostgreSQL, MariaDB, etcd and SQLite; docs/method/predict.md explains how, and how accurate that was.
    #[command(after_help = EXIT_CODES, args_override_self = true)]
    Predict(PredictArgs),
    /// List the built-in suites, or print one to copy and edit
    Suites(SuitesArgs),
    /// Compare runs of qd1 or other tools: better, worse or the same
    ///
    /// It also says which differences are undecided.
    #[command(after_help = compare::EXAMPLE, args_override_self = true)]
    Compare(CompareArgs),
    /// Write runs as one HTML file with charts, or rank disks
    ///
    /// --ranking makes the page that ranks disks. Neither page needs a network.
    #[command(after_help = report::EXAMPLE)]
    Report(ReportArgs),
    /// Draw one chart: in the terminal, as SVG or PNG
    ///
    /// Of one run, of several runs in one chart, or of a trend.
    #[command(after_help = plot::EXAMPLE)]
    Plot(PlotArgs),
    /// List, show, tag, remove or export saved runs; show trends
    #[command(after_help = history::EXAMPLE)]
    History(HistoryArgs),
    /// Run fio's command lines and job files, with fio's reports
    ///
    /// Also when called as `fio`; see docs/fio.md.
    #[command(disable_help_flag = true)]
    Fio {
        /// fio's arguments; `qd1 fio --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Print the JSON Schema of the output of `--json`
    Schema(SchemaArgs),
    /// Print the completions for a shell: bash, zsh, fish and others
    Completions(CompletionsArgs),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man(ManArgs),
    /// Print the version; with --verbose, what this machine supports
    ///
    /// For example io_uring, O_TMPFILE and BPF.
    Version(VersionArgs),
    /// Print the help of a command, or a page on a topic
    ///
    /// Topics: verdicts, units, exit-codes, safety.
    Help(HelpArgs),
    #[command(flatten)]
    Helper(HelperCommand),
}

/// Splits a command line into words by clap's definition.
fn command_line(root: &clap::Command, typed: impl Iterator<Item = OsString>) -> CommandLine {
    let commands = names(root);
    let mut typed = typed.map(|word| word.to_string_lossy().into_owned()).peekable();
    let (mut command, mut words) = (root, Vec::new());
    while let Some(next) = typed.peek().and_then(|word| command.find_subcommand(word)) {
        words.push(Word::Command(next.get_name().to_owned()));
        command = next;
        typed.next();
    }
    if words.is_empty() {
        words.push(Word::Command("check".to_owned()));
    }
    let mut positionals = command.get_positionals();
    let mut only_positionals = false;
    while let Some(word) = typed.next() {
        if word == "--" && !only_positionals {
            only_positionals = true;
            words.push(Word::Flag(word));
            continue;
        }
        let (flag, inline) = match word.split_once('=') {
            Some((flag, value)) if word.starts_with("--") => (flag.to_owned(), Some(value.to_owned())),
            _ => (word.clone(), None),
        };
        let found = if only_positionals { None } else { argument(command, &flag) };
        words.push(match found {
            None if word.starts_with('-') && word.len() > 1 && !only_positionals => Word::Flag(word),
            None => {
                let id = positionals.next().map_or_else(String::new, |arg| arg.get_id().to_string());
                Word::Positional { id, value: word }
            }
            Some((arg, flag, rest)) => {
                let (id, is_input) = (arg.get_id().to_string(), is_input(arg));
                let takes_next = takes_value(arg) && !arg.is_require_equals_set();
                match inline.or(rest) {
                    Some(value) => {
                        let joined = flag.starts_with("--");
                        Word::Option { id, flag, value, joined, is_input }
                    }
                    None if takes_next => match typed.next() {
                        Some(value) => Word::Option { id, flag, value, joined: false, is_input },
                        None => Word::Flag(word),
                    },
                    None => Word::Flag(word),
                }
            }
        });
    }
    CommandLine { words, commands }
}

/// Returns the names of the commands that the help shows.
fn names(root: &clap::Command) -> Vec<String> {
    let shown = root.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}

/// Returns the argument that a flag belongs to, the flag itself, and the part of the word that is its value: `-ofile`
/// is `-o` and `file`. Flags without a value may precede it after the same dash.
fn argument<'a>(command: &'a clap::Command, flag: &str) -> Option<(&'a Arg, String, Option<String>)> {
    if let Some(long) = flag.strip_prefix("--") {
        let arg = command.get_arguments().find(|arg| arg.get_long() == Some(long))?;
        return Some((arg, flag.to_owned(), None));
    }
    let letters = flag.strip_prefix('-')?;
    for (at, letter) in letters.char_indices() {
        let arg = command.get_arguments().find(|arg| arg.get_short() == Some(letter))?;
        let end = at + letter.len_utf8();
        if takes_value(arg) || end == letters.len() {
            let rest = letters[end..].trim_start_matches('=');
            return Some((arg, format!("-{}", &letters[..end]), (!rest.is_empty()).then(|| rest.to_owned())));
        }
    }
    None
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// Returns true if its value names a file that is read, as opposed to the file for the result.
fn is_input(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<std::path::PathBuf>() && arg.get_id() != "output"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::definition().debug_assert();
    }

    fn again(typed: &str, changes: &[(&str, String)]) -> String {
        let words = typed.split(' ').filter(|word| !word.is_empty()).map(OsString::from);
        let mut definition = Cli::definition();
        definition.build();
        command_line(&definition, words).rerun_command(changes).join(" ")
    }

    fn at(path: &str) -> [(&'static str, String); 1] {
        [("path", path.to_owned())]
    }

    #[test]
    fn the_command_to_run_again_works_from_anywhere() {
        for (typed, expected) in [
            ("files --only files", "qd1 check /srv/files --only files"),
            ("check --quick .", "qd1 check --quick /srv/files"),
            ("", "qd1 check /srv/files"),
            ("--quick -- .", "qd1 check --quick -- /srv/files"),
            ("run yabs yabs", "qd1 run yabs /srv/files"),
            ("app etcd --rate 5 data", "qd1 app etcd --rate 5 /srv/files"),
            ("limits --burst=9s", "qd1 limits --burst=9s /srv/files"),
            ("check -qofile files --thresholds=/t", "qd1 check -qo file /srv/files --thresholds=/t"),
        ] {
            assert_eq!(again(typed, &at("/srv/files")), expected, "{typed}");
        }
    }

    #[test]
    fn decided_options_are_in_the_command_to_run_again() {
        let changes = [("path", "/d".to_owned()), ("rounds", "3".to_owned()), ("disk", "9".to_owned())];
        assert_eq!(again("filesystems --rounds 1 d", &changes), "qd1 filesystems --rounds 3 /d --disk 9");
        let twice = "filesystems --rounds 1 --rounds 2 -- d";
        assert_eq!(again(twice, &changes), "qd1 filesystems --rounds 3 --disk 9 -- /d");
    }

    #[test]
    fn input_files_are_named_by_their_absolute_path() {
        let here = std::env::current_dir().unwrap();
        let (line, here) = (again("run a.toml . --thresholds t.toml -o out", &at("/d")), here.display());
        assert_eq!(line, format!("qd1 run a.toml /d --thresholds {here}/t.toml -o out"));
    }

    /// Every option of every command that measures, with a value that is also the path: only the path may change.
    #[test]
    fn no_option_is_taken_for_the_path_to_measure() {
        let root = Cli::command();
        let measuring = root.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "fio");
        let nested = measuring.flat_map(|command| {
            let inner = command
                .get_subcommands()
                .map(move |inner| (format!("{} {}", command.get_name(), inner.get_name()), inner));
            [(command.get_name().to_owned(), command)].into_iter().chain(inner).collect::<Vec<_>>()
        });
        let mut tried = 0;
        for (name, command) in nested.filter(|(_, command)| command.get_positionals().any(|arg| arg.get_id() == "path"))
        {
            let before = if command.get_positionals().count() > 1 { "suite " } else { "" };
            for arg in command.get_arguments().filter(|arg| !arg.is_positional() && takes_value(arg)) {
                let long = arg.get_long().map(|long| format!("--{long}"));
                let flag = long.or(arg.get_short().map(|short| format!("-{short}"))).unwrap();
                let separate = if arg.is_require_equals_set() { "=" } else { " " };
                let line = again(&format!("{name} {flag}{separate}/x {before}/x"), &at("/d"));
                assert_eq!(line, format!("qd1 {name} {flag}{separate}/x {before}/d"));
                tried += 1;
            }
        }
        assert!(tried > 100, "{tried} options");
    }

    #[test]
    fn a_misspelt_command_before_a_path_is_recognised() {
        let (error, definition) = (Cli::try_parse_from(["qd1", "checks", "/tmp"]).unwrap_err(), &mut Cli::command());
        let message = misspelt(&error, definition, "checks").unwrap().to_string();
        assert!(message.contains("there is no command checks") && message.contains("did you mean check?"), "{message}");
        assert!(misspelt(&error, definition, "/tmp").is_none(), "an existing directory is not a misspelt command");
    }

    #[test]
    fn without_a_command_it_is_check() {
        let cli = Cli::parse_from(["qd1", "--quick", "/srv"]);
        assert!(cli.command.is_none() && cli.check.how.quick && cli.check.path == std::path::Path::new("/srv"));
    }
}

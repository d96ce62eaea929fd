//! fio's own flags: what they take, and what they set.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Place};
use crate::settings::{PLAIN, Settings};
use crate::value::{self, TimeUnit};

/// A form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Normal,
    /// Fields separated by semicolons.
    Terse,
    /// JSON.
    Json,
    /// JSON with the bins of all histograms.
    JsonPlus,
}

/// When progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eta {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The values of fio's own flags.
#[derive(Clone, Debug, PartialEq)]
pub struct Flags {
    /// Where the report goes; standard output where absent.
    pub output: Option<String>,
    /// Report formats, in the order they were named, without duplicates.
    pub output_format: Vec<Format>,
    /// Version of the terse form: 2 to 5.
    pub terse_version: u8,
    /// Print a full report at this interval.
    pub status_interval: Option<Duration>,
    /// Whether to show progress.
    pub eta: Eta,
    /// Time between progress updates.
    pub eta_interval: Option<Duration>,
    /// Start a new progress line at this interval.
    pub eta_newline: Option<Duration>,
    /// Only check the options.
    pub parse_only: bool,
    /// Print the jobs as a command line, and stop.
    pub showcmd: bool,
    /// Log the combined bandwidth of all jobs.
    pub bandwidth_log: bool,
    /// Has no effect: everything fio's parser warns about is an error here anyway.
    pub warnings_fatal: bool,
    /// Where fio's own files go.
    pub aux_path: Option<String>,
    /// What applies to all jobs.
    pub settings: Settings,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            output: None,
            output_format: vec![Format::Normal],
            terse_version: 3,
            status_interval: None,
            eta: Eta::Auto,
            eta_interval: None,
            eta_newline: None,
            parse_only: false,
            showcmd: false,
            bandwidth_log: false,
            warnings_fatal: false,
            aux_path: None,
            settings: Settings::default(),
        }
    }
}

/// Whether a flag has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagValue {
    /// None.
    Nothing,
    /// One, after `=` or as the next argument.
    Value,
    /// One after `=`, or none.
    Optional,
}

/// What a flag does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FlagAction {
    /// Sets something; an error is a problem with the value.
    Set(fn(&mut Flags, &str) -> Result<(), String>),
    Help,
    Version,
    CmdHelp,
    EngHelp,
    /// The flag is accepted, with this note.
    Note(&'static str),
    /// The flag is an error, for this reason.
    Refuse(&'static str),
}

/// A flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) takes: FlagValue,
    pub(crate) accepts: &'static str,
    pub(crate) help: &'static str,
    pub(crate) act: FlagAction,
}

const fn flag(name: &'static str, help: &'static str, act: FlagAction) -> Flag {
    Flag { name, takes: FlagValue::Nothing, accepts: "nothing", help, act }
}

const fn with(name: &'static str, accepts: &'static str, help: &'static str, act: FlagAction) -> Flag {
    Flag { name, takes: FlagValue::Value, accepts, help, act }
}

const fn no(name: &'static str, takes: FlagValue, help: &'static str, why: &'static str) -> Flag {
    Flag { name, takes, accepts: "a value", help, act: FlagAction::Refuse(why) }
}

const NETWORK: &str = "qd1 runs on one machine; start it on each machine over ssh";
const TRIGGER: &str = "qd1 does not start other programs";

/// All of them.
pub(crate) const FLAGS: &[Flag] = &[
    flag("help", "Show usage, and stop", FlagAction::Help),
    flag("version", "Show the version, and stop", FlagAction::Version),
    Flag {
        name: "cmdhelp",
        takes: FlagValue::Optional,
        accepts: "an option's name, or all",
        help: "Describe an option, or list all of them, and stop",
        act: FlagAction::CmdHelp,
    },
    Flag {
        name: "enghelp",
        takes: FlagValue::Optional,
        accepts: "an engine's name, optionally followed by a comma and the name of one of its options",
        help: "List the engines, or an engine's options, and stop",
        act: FlagAction::EngHelp,
    },
    flag("parse-only", "Read the options, and stop", FlagAction::Set(|flags, _| yes(&mut flags.parse_only))),
    flag("showcmd", "Show the jobs as a command line, and stop", FlagAction::Set(|flags, _| yes(&mut flags.showcmd))),
    with(
        "output",
        "a file",
        "Write the report to a file",
        FlagAction::Set(|flags, text| some(&mut flags.output, text)),
    ),
    with(
        "output-format",
        FORMATS,
        "Report formats, separated by commas",
        FlagAction::Set(|flags, text| {
            flags.output_format.clear();
            for word in text.split(',') {
                add(flags, format(word.trim())?);
            }
            Ok(())
        }),
    ),
    flag(
        "minimal",
        "Report as fields separated by semicolons",
        FlagAction::Set(|flags, _| {
            flags.output_format = vec![Format::Terse];
            Ok(())
        }),
    ),
    flag(
        "append-terse",
        "Append these fields to the report",
        FlagAction::Set(|flags, _| {
            add(flags, Format::Terse);
            Ok(())
        }),
    ),
    with(
        "terse-version",
        "2, 3, 4 or 5",
        "Version of those fields",
        FlagAction::Set(|flags, text| {
            flags.terse_version = match text {
                "2" => 2,
                "3" => 3,
                "4" => 4,
                "5" => 5,
                _ => return Err("unknown version".to_owned()),
            };
            Ok(())
        }),
    ),
    with(
        "status-interval",
        TIME,
        "Print a full report at this interval",
        FlagAction::Set(|flags, text| time(&mut flags.status_interval, text)),
    ),
    with(
        "eta",
        "always, never or auto",
        "Whether to show progress",
        FlagAction::Set(|flags, text| {
            flags.eta = match text {
                "always" => Eta::Always,
                "never" => Eta::Never,
                "auto" => Eta::Auto,
                _ => return Err("unknown value".to_owned()),
            };
            Ok(())
        }),
    ),
    with(
        "eta-interval",
        TIME,
        "Time between progress updates",
        FlagAction::Set(|flags, text| {
            time(&mut flags.eta_interval, text)?;
            match flags.eta_interval {
                Some(short) if short < Duration::from_millis(250) => Err("it is less than 250 ms".to_owned()),
                _ => Ok(()),
            }
        }),
    ),
    with(
        "eta-newline",
        TIME,
        "Start a new progress line at this interval",
        FlagAction::Set(|flags, text| time(&mut flags.eta_newline, text)),
    ),
    flag("readonly", "Refuse jobs that write or trim", FlagAction::Set(|flags, _| yes(&mut flags.settings.readonly))),
    with(
        "section",
        "a section's name",
        "Run only this section; may be given more than once",
        FlagAction::Set(|flags, text| {
            flags.settings.sections.push(text.to_owned());
            Ok(())
        }),
    ),
    with(
        "max-jobs",
        "a number, at least 1",
        "Maximum number of workers",
        FlagAction::Set(|flags, text| {
            flags.settings.max_jobs = match value::unsigned(text, PLAIN)? {
                0 => return Err("it is less than 1".to_owned()),
                jobs => u32::try_from(jobs).map_err(|_| "it is too large".to_owned())?,
            };
            Ok(())
        }),
    ),
    flag(
        "bandwidth-log",
        "Log the combined bandwidth of all jobs",
        FlagAction::Set(|flags, _| yes(&mut flags.bandwidth_log)),
    ),
    flag(
        "warnings-fatal",
        "No effect: anything doubtful is always an error",
        FlagAction::Set(|flags, _| yes(&mut flags.warnings_fatal)),
    ),
    with(
        "aux-path",
        "a directory",
        "Where fio's own files go",
        FlagAction::Set(|flags, text| some(&mut flags.aux_path, text)),
    ),
    with(
        "alloc-size",
        "a number",
        "No effect: memory is allocated as needed",
        // No note is given, because this cannot change any figure.
        FlagAction::Set(|_, text| value::unsigned(text, PLAIN).map(drop)),
    ),
    flag(
        "latency-log",
        "Latency logs in old versions of fio",
        FlagAction::Note("--latency-log has no effect (nor does it in fio): use write_lat_log in a job"),
    ),
    no("debug", FlagValue::Value, "Trace fio's own work", "it is about fio's internals"),
    no("merge-blktrace-only", FlagValue::Nothing, "Merge traces", "traces are neither written nor replayed"),
    no("cpuclock-test", FlagValue::Nothing, "Test the processor's clock", "qd1 measures its clock in each run"),
    no("crctest", FlagValue::Optional, "Measure checksum functions", "qd1 measures disks"),
    no("server", FlagValue::Optional, "Serve jobs to clients", NETWORK),
    no("daemonize", FlagValue::Value, "Serve in the background", NETWORK),
    no("client", FlagValue::Value, "Run jobs on a server", NETWORK),
    no("remote-config", FlagValue::Value, "Job files of the server", NETWORK),
    no("idle-prof", FlagValue::Value, "Measure idle processors", "run mpstat at the same time"),
    no("inflate-log", FlagValue::Value, "Unpack a compressed log", "use zcat"),
    no("trigger-file", FlagValue::Value, "Start a program when a file appears", TRIGGER),
    no("trigger-timeout", FlagValue::Value, "Start a program after a time", TRIGGER),
    no("trigger", FlagValue::Value, "The program to start", TRIGGER),
    no("trigger-remote", FlagValue::Value, "The program to start on servers", TRIGGER),
];

const FORMATS: &str = "normal, terse, json or json+, separated by commas";
const TIME: &str = "a time such as 10, 500ms or 1m; plain numbers are seconds";

fn yes(field: &mut bool) -> Result<(), String> {
    *field = true;
    Ok(())
}

fn some(field: &mut Option<String>, text: &str) -> Result<(), String> {
    *field = Some(text.to_owned());
    Ok(())
}

fn time(field: &mut Option<Duration>, text: &str) -> Result<(), String> {
    *field = Some(value::duration(text, TimeUnit::Seconds)?);
    Ok(())
}

fn format(word: &str) -> Result<Format, String> {
    Ok(match word {
        "normal" => Format::Normal,
        "terse" | "minimal" => Format::Terse,
        "json" => Format::Json,
        "json+" => Format::JsonPlus,
        _ => return Err("unknown format".to_owned()),
    })
}

fn add(flags: &mut Flags, format: Format) {
    if !flags.output_format.contains(&format) {
        flags.output_format.push(format);
    }
}

/// The error for a flag's value.
pub(crate) fn bad_value(flag: &Flag, text: &str, place: Place, problem: String) -> Error {
    let (option, accepts) = (format!("--{}", flag.name), flag.accepts.to_owned());
    Error::new(place, text, ErrorKind::Value { option, value: text.to_owned(), problem, accepts })
}

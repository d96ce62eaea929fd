//! qd1: what a disk will feel like to the programs on it.
#![forbid(unsafe_code)]

mod args;
mod aside;
mod bounds;
mod bpf;
mod cli;
mod command_line;
mod commands;
mod exit;
mod given;
mod in_turn;
mod long_check_job;
mod mappings;
mod message;
mod named_disk;
mod output;
mod progress;
mod session;
mod signals;
mod stream;
mod suite_job;
mod terminal;
mod witness;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use cli::{Cli, Command};
use command_line::CommandLine;
use commands::{
    app, check, compare, completions, doctor, filesystems, fio, help, helpers, history, identify, limits, meta, ping,
    plot, powercut, predict, report, restore, schema, suites,
};
use commands::{run as run_command, sweep, sync, trace, version, watch};

/// musl's allocator is several times slower; the hot loop does not allocate, but the rest benefits.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = match fio_args() {
        Some(args) => fio::text_args(args).and_then(|args| fio::run(&args)),
        None => {
            let (cli, typed) = Cli::read();
            run(cli, &typed)
        }
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            message::print_error(&error);
            ExitCode::from(exit::exit_code(&error))
        }
    }
}

/// Returns the arguments of fio's command line, which has its own rules: those after `qd1 fio`, or all when the binary
/// is called as `fio`; `None` for other commands.
fn fio_args() -> Option<impl Iterator<Item = OsString>> {
    let mut args = std::env::args_os();
    let program = args.next()?;
    let is_fio = Path::new(&program).file_name().is_some_and(|name| name == "fio");
    let first = std::env::args_os().nth(1);
    let is_fio_command = first.is_some_and(|first| first == "fio");
    (is_fio || is_fio_command).then(|| args.skip(usize::from(!is_fio)))
}

fn run(cli: Cli, typed: &CommandLine) -> Result<ExitCode> {
    match &cli.command {
        None => check::run(&cli.check, typed),
        Some(Command::Check(args)) => check::run(args, typed),
        Some(Command::Run(args)) => run_command::run(args, typed),
        Some(Command::Sweep(args)) => sweep::run(args, typed),
        Some(Command::Limits(args)) => limits::run(args, typed),
        Some(Command::Meta(args)) => meta::run(args, typed),
        Some(Command::Sync(args)) => sync::run(args, typed),
        Some(Command::Ping(args)) => ping::run(args, typed),
        Some(Command::Trace(args)) => trace::run(args),
        Some(Command::Watch(args)) => watch::run(args, typed),
        Some(Command::Doctor(args)) => doctor::run(args),
        Some(Command::Identify(args)) => identify::run(args, typed),
        Some(Command::Filesystems(args)) => filesystems::run(args, typed),
        Some(Command::Restore(args)) => restore::run(args),
        Some(Command::App { command }) => app::run(command, typed),
        Some(Command::Powercut { command }) => powercut::run(command),
        Some(Command::Predict(args)) => predict::run(args, typed),
        Some(Command::Suites(args)) => suites::run(args),
        Some(Command::Compare(args)) => compare::run(args, typed),
        Some(Command::Report(args)) => report::run(args),
        Some(Command::Plot(args)) => plot::run(args),
        Some(Command::History(args)) => history::run(args),
        Some(Command::Fio { args }) => fio::run(args),
        Some(Command::Schema(args)) => schema::run(args),
        Some(Command::Completions(args)) => completions::completions(args, &Cli::definition()),
        Some(Command::Man(args)) => completions::man(args, Cli::definition()),
        Some(Command::Version(args)) => version::run(args),
        Some(Command::Help(args)) => help::run(args, Cli::definition()),
        Some(Command::Helper(command)) => helpers::run(command),
    }
}

//! qd1: what a disk will feel like to the programs on it.
#![forbid(unsafe_code)]

mod apps;
mod check;
mod cli;
mod exit;
mod filesystems;
mod fio;
mod history;
mod identify;
mod journal;
mod limits;
mod measure;
mod meta;
mod output;
mod ping;
mod place;
mod plan;
mod predict;
mod progress;
mod report;
mod run;
mod run_command;
mod scratch;
mod signals;
mod store;
mod suites;
mod sweep;
mod sync;
mod system;
mod thresholds;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use cli::{Cli, Command};

/// musl's allocator is several times slower; the hot loop allocates nothing, but the rest need not wait either.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = match fio_args() {
        Some(args) => fio::text_args(args).and_then(|args| fio::run(&args)),
        None => run(Cli::read()),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            anstream::eprintln!(
                "{}qd1:{:#} {error:#}",
                anstyle::AnsiColor::Red.on_default().bold(),
                anstyle::Style::new()
            );
            ExitCode::from(exit::exit_code(&error))
        }
    }
}

/// The arguments of fio's command line, which has rules of its own: those after `qd1 fio`, or all where the binary is
/// called as `fio`.
fn fio_args() -> Option<impl Iterator<Item = OsString>> {
    let mut args = std::env::args_os();
    let program = args.next()?;
    let is_fio = Path::new(&program).file_name().is_some_and(|name| name == "fio");
    let first = std::env::args_os().nth(1);
    let asks = first.is_some_and(|first| first == "fio");
    (is_fio || asks).then(|| args.skip(usize::from(!is_fio)))
}

fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        None => check::run(&cli.check),
        Some(Command::Check(args)) => check::run(&args),
        Some(Command::Run(args)) => run_command::run(&args),
        Some(Command::Sweep(args)) => sweep::run(args),
        Some(Command::Limits(args)) => limits::run(&args),
        Some(Command::Meta(args)) => meta::run(args),
        Some(Command::Sync(args)) => sync::run(&args),
        Some(Command::Ping(args)) => ping::run(&args),
        Some(Command::Identify(args)) => identify::run(args),
        Some(Command::Filesystems(args)) => filesystems::run(&args),
        Some(Command::Restore(args)) => journal::restore(&args),
        Some(Command::Predict(args)) => predict::run(&args),
        Some(Command::Suites(args)) => suites::show(&args),
        Some(Command::History(args)) => history::run(&args),
        Some(Command::Schema) => history::schema(),
        Some(Command::App { command }) => apps::run(command),
        Some(Command::Guard { signal, parent, hold, command }) => {
            apps::child::guard(signal, parent, hold == "hold", &command)
        }
        Some(Command::Afterwards { command }) => scratch::afterwards(&command),
        Some(Command::Janitor { path }) => scratch::janitor(&path),
        Some(Command::Fio { args }) => fio::run(&args),
    }
}

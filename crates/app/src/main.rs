//! qd1: what a disk will feel like to the programs on it.
#![forbid(unsafe_code)]

mod check;
mod cli;
mod history;
mod output;
mod place;
mod plan;
mod problem;
mod progress;
mod report;
mod run;
mod scratch;
mod signals;
mod store;
mod suites;
mod thresholds;

use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Command};

/// musl's allocator is several times slower; the hot loop allocates nothing, but the rest need not wait either.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        None => check::run(&cli.check),
        Some(Command::Check(args)) => check::run(&args),
        Some(Command::History(args)) => history::run(&args),
        Some(Command::Schema) => history::schema(),
        Some(Command::Janitor { dir }) => scratch::janitor(&dir),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            anstream::eprintln!(
                "{}qd1:{:#} {error:#}",
                anstyle::AnsiColor::Red.on_default().bold(),
                anstyle::Style::new()
            );
            ExitCode::from(problem::exit_code(&error))
        }
    }
}

//! Hidden commands: the same binary as a helper process of a run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use qd1_system::{child, janitor};

#[derive(Debug, Subcommand)]
pub(crate) enum HelperCommand {
    /// Removes a scratch directory, or undoes a journal, when the process that made it is gone.
    #[command(hide = true, name = "__janitor")]
    Janitor { path: PathBuf },
    /// Executes a program that the kernel ends when the process that started it is gone.
    #[command(hide = true, name = "__guard")]
    Guard {
        signal: i32,
        parent: i32,
        hold: String,
        #[arg(last = true)]
        command: Vec<OsString>,
    },
}

/// Runs a hidden command.
///
/// # Errors
/// When the command fails.
pub(crate) fn run(command: &HelperCommand) -> Result<ExitCode> {
    match command {
        HelperCommand::Guard { signal, parent, hold, command } => {
            child::guard(*signal, *parent, hold == "hold", command)
        }
        HelperCommand::Janitor { path } => janitor::janitor(path),
    }
}

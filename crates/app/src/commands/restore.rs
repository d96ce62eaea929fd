//! `qd1 restore`: undoes what a killed run left changed in the system.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use qd1_model::{Problem, ProblemKind};
use qd1_system::journal::{Restored, restore_dead};

use crate::args::DestinationArgs;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Only show what would be undone
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Undoes the changes, or shows what would be undone.
///
/// # Errors
/// When something could not be undone.
pub(crate) fn run(args: &RestoreArgs) -> Result<ExitCode> {
    let Restored { undone, failed, alive } = restore_dead(args.dry_run)?;
    let mut text: String = undone.iter().map(|line| format!("{line}\n")).collect();
    if alive > 0 {
        let runs = if alive == 1 {
            "1 run is still active and undoes its".to_owned()
        } else {
            format!("{alive} runs are still active and undo their")
        };
        text += &format!("{runs} own changes at the end\n");
    }
    if undone.is_empty() && failed.is_empty() && alive == 0 {
        text += "nothing to undo\n";
    }
    output::write(&DestinationArgs::stdout(), &text)?;
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let root = if rustix::process::geteuid().is_root() { "" } else { " (as root)" };
    Err(Problem::new(
        ProblemKind::Failed,
        format!("could not undo: {}; fix that and run `qd1 restore` again{root}", failed.join("; ")),
    )
    .into())
}

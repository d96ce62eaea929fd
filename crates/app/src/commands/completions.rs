//! `qd1 completions SHELL` and the hidden `qd1 man`: what packages install beside the binary.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use clap_complete::Shell;

use crate::args::OutputArgs;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Directory for the pages, one for each command
    pub(crate) dir: PathBuf,
}

/// Prints the completions of a shell.
///
/// # Errors
/// When stdout cannot be written.
pub(crate) fn completions(args: &CompletionsArgs, root: clap::Command) -> Result<ExitCode> {
    // Those that are hidden are nobody's to type.
    let shown = root.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut root = clap::Command::new("qd1").args(root.get_arguments().cloned()).subcommands(shown);
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut root, "qd1", &mut script);
    output::write(&OutputArgs::stdout(), &String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual pages.
///
/// # Errors
/// When the directory cannot be written.
pub(crate) fn man(args: &ManArgs, root: clap::Command) -> Result<ExitCode> {
    let cannot = || format!("cannot write the pages to {}", args.dir.display());
    std::fs::create_dir_all(&args.dir).with_context(cannot)?;
    clap_mangen::generate_to(root, &args.dir).with_context(cannot)?;
    Ok(ExitCode::SUCCESS)
}

//! `qd1 completions SHELL` and the hidden `qd1 man`: what packages install along with the binary.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use clap_complete::Shell;

use crate::args::DestinationArgs;
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
pub(crate) fn completions(args: &CompletionsArgs, root: &clap::Command) -> Result<ExitCode> {
    output::write(&DestinationArgs::stdout(), &script(args.shell, root))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the completions of a shell, without hidden commands: nobody types those.
fn script(shell: Shell, root: &clap::Command) -> String {
    let shown = root.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut root =
        clap::Command::new("qd1").disable_help_subcommand(true).args(root.get_arguments().cloned()).subcommands(shown);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut root, "qd1", &mut script);
    String::from_utf8_lossy(&script).into_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: `__janitor` was offered.
    #[test]
    fn every_shell_is_offered_what_people_type() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell, &crate::cli::Cli::definition());
            assert!(script.contains("identify") && script.contains("with-load"), "{shell}");
            assert!(!script.contains("__janitor") && !script.contains("__guard"), "{shell}");
        }
    }
}

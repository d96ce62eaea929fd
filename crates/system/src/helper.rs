//! Helper processes: the same binary, which waits for the process that started it to end, and then does what is left.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};

/// Starts the helper that clears up `path`, a scratch directory or a journal, once this process is gone.
pub fn helper(path: &Path) -> Option<Child> {
    let mut helper = Command::new("/proc/self/exe");
    helper.arg("__janitor").arg(path).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C in a terminal goes to the foreground group: the helper must outlive it. It also must not keep a directory
    // in use that somebody wants to unmount.
    helper.process_group(0).current_dir("/").spawn().ok()
}

/// Nothing ever comes: the pipe closes when its maker is gone.
pub(crate) fn wait_for_the_end() {
    let mut nothing = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut nothing);
}

/// A command that is run once this process drops this or dies, for what no directory holds: tables in a server of others'.
pub struct CleanupCommand(Child);

impl CleanupCommand {
    /// Takes note of it. Its environment is this process's own.
    ///
    /// # Errors
    /// When the helper cannot be started: then nothing that needs it may be begun.
    pub fn run(program: &Path, args: &[OsString]) -> Result<Self> {
        let helper = Command::new("/proc/self/exe")
            .args(["__afterwards", "--"])
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        Ok(Self(helper.context("cannot start a helper")?))
    }

    /// Runs it now; whether it went well.
    pub fn now(&mut self) -> bool {
        drop(self.0.stdin.take());
        self.0.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for CleanupCommand {
    fn drop(&mut self) {
        self.now();
    }
}

/// The helper: waits for its maker to end, then becomes the command.
pub fn afterwards(command: &[OsString]) -> Result<ExitCode> {
    wait_for_the_end();
    let (program, args) = command.split_first().context("no command")?;
    Err(Command::new(program).args(args).exec().into())
}

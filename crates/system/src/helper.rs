//! Helper processes: the same binary, which waits for the process that started it to end, and then cleans up.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};

/// Starts the helper that cleans up `path`, a scratch directory or a journal, once this process is gone.
pub fn helper(path: &Path) -> Option<Child> {
    let mut helper = Command::new("/proc/self/exe");
    helper.arg("__janitor").arg(path).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C in a terminal goes to the foreground group: the helper must outlive it. It also must not keep a directory
    // in use that somebody wants to unmount.
    helper.process_group(0).current_dir("/").spawn().ok()
}

/// Waits until the pipe closes: nothing is ever written to it, and it closes when the parent is gone.
pub(crate) fn wait_for_parent() {
    let mut nothing = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut nothing);
}

/// A command that runs when this is dropped or the process dies, for what is not in a directory: tables in a foreign
/// server.
pub struct CleanupCommand(Child);

impl CleanupCommand {
    /// Registers the command. It inherits this process's environment.
    ///
    /// # Errors
    /// When the helper cannot be started: nothing that needs cleaning up may be done then.
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

    /// Runs the command now. Returns true on success.
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

/// Runs the helper: waits for its parent to end, then becomes the command.
pub fn afterwards(command: &[OsString]) -> Result<ExitCode> {
    wait_for_parent();
    let (program, args) = command.split_first().context("no command")?;
    Err(Command::new(program).args(args).exec().into())
}

//! Helper processes: the same binary, which waits until the process that started it has ended, and then cleans up.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::journal::Secret;

/// Starts the helper that cleans up `path`, a scratch directory or a journal, once this process is gone, with these
/// variables in its environment.
pub fn helper(path: &Path, env: &[Secret]) -> Option<Child> {
    let mut helper = Command::new("/proc/self/exe");
    helper.envs(env.iter().map(|(name, value)| (name, value)));
    helper.arg("__janitor").arg(path).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C in a terminal goes to the foreground group: the helper must outlive it. It also must not keep a directory
    // in use that somebody wants to unmount.
    helper.process_group(0).current_dir("/").spawn().ok()
}

/// Waits until the pipe closes. Nothing is ever written to it; it closes when the parent is gone.
pub(crate) fn wait_for_parent() {
    let mut nothing = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut nothing);
}

//! A terminal of a given size that runs a command: a private tmux server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;

use crate::cmd;

/// Dropping it ends the terminal and its command.
pub struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Runs `script` in a shell in a terminal of the given size. The tmux socket is created in `dir`.
    ///
    /// # Errors
    /// If tmux cannot be started.
    pub fn new(dir: &Path, [columns, lines]: [u16; 2], script: &str) -> Result<Self> {
        // A server that is ending would refuse the next session.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let terminal = Self { socket: dir.join(format!("tmux{}", NUMBER.fetch_add(1, Ordering::Relaxed))) };
        let (columns, lines) = (columns.to_string(), lines.to_string());
        cmd::capture(terminal.tmux().args(["new-session", "-d", "-x", &columns, "-y", &lines, script]))?;
        Ok(terminal)
    }

    /// Types keys, given by tmux's names.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn type_keys(&self, keys: &[&str]) -> Result<()> {
        cmd::capture(self.tmux().arg("send-keys").args(keys)).map(drop)
    }

    /// Returns the text on the screen.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn screen(&self) -> Result<String> {
        cmd::capture(self.tmux().args(["capture-pane", "-p"]))
    }

    /// Returns the text on the screen, with escape sequences for colours.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn colored(&self) -> Result<String> {
        cmd::capture(self.tmux().args(["capture-pane", "-e", "-p"]))
    }

    fn tmux(&self) -> Command {
        let mut tmux = cmd::command("tmux");
        tmux.arg("-S").arg(&self.socket).args(["-f", "/dev/null"]).env("TERM", "xterm-256color");
        tmux
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = cmd::output(self.tmux().arg("kill-server"));
    }
}

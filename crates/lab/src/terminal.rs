//! A terminal of a given size, in which a command runs: tmux with a server of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::cmd;

/// It ends with its command when it is dropped.
pub struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Runs `script` in a shell, in a terminal of so many columns and lines. Its socket is made in `dir`.
    ///
    /// # Errors
    /// If tmux cannot be started.
    pub fn new(dir: &Path, [columns, lines]: [u16; 2], script: &str) -> Result<Self> {
        let terminal = Self { socket: dir.join("tmux") };
        let (columns, lines) = (columns.to_string(), lines.to_string());
        cmd::capture(terminal.tmux().args(["new-session", "-d", "-x", &columns, "-y", &lines, script]))?;
        Ok(terminal)
    }

    /// Types keys, by tmux's names of them.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn type_keys(&self, keys: &[&str]) -> Result<()> {
        cmd::capture(self.tmux().arg("send-keys").args(keys)).map(drop)
    }

    /// Returns what it shows, a line for each of its lines.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn screen(&self) -> Result<String> {
        cmd::capture(self.tmux().args(["capture-pane", "-p"]))
    }

    /// Returns what it shows, with the codes of colours.
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

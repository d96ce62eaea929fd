//! A simulated disk behind FUSE; it goes when its process does.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// A mounted one.
pub(crate) struct Simulated {
    pub(crate) dir: PathBuf,
    server: Child,
}

impl Simulated {
    /// Mounts the disk that `scenario` describes, in TOML, below `place`.
    pub(crate) fn mount(server: &Path, place: &Path, scenario: &str) -> Result<Self> {
        let (file, dir) = (place.join("scenario.toml"), place.join("disk"));
        fs::create_dir(&dir)?;
        fs::write(&file, scenario)?;
        let mut server = Command::new(server)
            .arg(&file)
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start qd1-simdisk")?;
        // Its first line comes once it is mounted.
        let mut line = String::new();
        let told = server.stdout.as_mut().map(|stdout| BufReader::new(stdout).read_line(&mut line));
        let this = Self { dir, server };
        ensure!(matches!(told, Some(Ok(count)) if count > 0), "qd1-simdisk does not mount a disk");
        Ok(this)
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

/// Lets a server of another user get there.
pub(crate) fn open_up(dir: &Path) -> Result<()> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(dir, mode).with_context(|| format!("cannot open {} to others", dir.display()))
}

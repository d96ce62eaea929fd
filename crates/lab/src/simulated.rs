//! A simulated disk behind FUSE; it disappears with its process.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::open_up;

/// A mounted one.
pub struct Simulated {
    /// Where it is mounted.
    pub dir: PathBuf,
    server: Child,
    place: TempDir,
}

impl Simulated {
    /// Mounts the disk that `scenario` describes, in TOML. `binaries` is where qd1-simdisk was built.
    pub fn mount(binaries: &Path, scenario: &str) -> Result<Self> {
        let place = tempfile::tempdir()?;
        open_up(place.path())?;
        let (file, dir) = (place.path().join("scenario.toml"), place.path().join("disk"));
        fs::create_dir(&dir)?;
        fs::write(&file, scenario)?;
        let mut server = Command::new(binaries.join("qd1-simdisk"))
            .arg(&file)
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start qd1-simdisk")?;
        // It prints its first line once it is mounted.
        let mut line = String::new();
        let told = server.stdout.as_mut().map(|stdout| BufReader::new(stdout).read_line(&mut line));
        let this = Self { dir, server, place };
        ensure!(matches!(told, Some(Ok(count)) if count > 0), "qd1-simdisk did not mount a disk");
        Ok(this)
    }

    /// A directory next to it, which is removed with it.
    pub fn place(&self) -> &Path {
        self.place.path()
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

//! Control groups that limit what their processes may do to a device.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{Loop, Unavailable};

/// Where the version 1 groups are, which throttle reads and writes by separate settings.
const GROUPS: &str = "/sys/fs/cgroup/blkio";
/// Prefix of our groups' names; the id of the process that made it follows.
const PREFIX: &str = "qd1-lab-";

/// A group of version 1; removed on drop.
pub struct Throttle {
    dir: PathBuf,
}

impl Throttle {
    /// With these values of the kernel's settings: pairs such as `("write_iops", 200)`. Its name is unique in this
    /// process.
    ///
    /// # Errors
    /// Why it is not possible here.
    pub fn new(name: &str, disk: &Loop, limits: &[(&str, u64)]) -> Result<Self, Unavailable> {
        let this = Self::group(name)?;
        limits.iter().try_for_each(|(setting, limit)| this.set(disk, setting, *limit))?;
        Ok(this)
    }

    /// A group without limits yet.
    ///
    /// # Errors
    /// Why it is not possible here.
    pub fn group(name: &str) -> Result<Self, Unavailable> {
        let root = Path::new(GROUPS);
        if !root.join("cgroup.procs").exists() {
            return Err(Unavailable::new("no blkio controller of cgroup v1 here"));
        }
        remove_abandoned(root);
        let dir = root.join(format!("{PREFIX}{}-{name}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self { dir })
    }

    /// Changes one of the kernel's settings.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn set(&self, disk: &Loop, setting: &str, limit: u64) -> Result<(), Unavailable> {
        let file = self.dir.join(format!("blkio.throttle.{setting}_device"));
        let set = fs::write(&file, format!("{} {limit}", disk.number()));
        Ok(set.with_context(|| format!("cannot set {}", file.display()))?)
    }

    /// Where its settings are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A command that runs `program` inside; `launcher` starts it, such as `nice -n -10`, and may be empty.
    pub fn command(&self, launcher: &[&str], program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("sh");
        let script =
            format!("echo $$ > {}/cgroup.procs && exec {} \"$0\" \"$@\"", self.dir.display(), launcher.join(" "));
        command.args(["-c", &script]).arg(program);
        command
    }
}

/// Removes the groups of processes that were killed before they could.
fn remove_abandoned(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if maker.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // The kernel refuses to remove a group that is in use.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // A process that has just ended may still be counted for a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("cannot remove {0}; do it by hand: rmdir {0}", self.dir.display());
    }
}

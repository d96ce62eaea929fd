//! Loop devices, each over its own file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::tool::text;
use crate::{Unavailable, make_file, need_root, quiet_dir, tool};

/// How often to try to get a free device: another process may take the one that was found.
const TRIES: usize = 6;
/// The losetup option that makes a device read-only.
const READ_ONLY: &str = "--read-only";

/// A loop device backed by a file; detached on drop.
pub struct Loop {
    /// Whether another process may have the device now.
    is_lost: bool,
    device: PathBuf,
    file: PathBuf,
    /// The directory of its file, if it is private. It is removed after the device is detached.
    _dir: Option<TempDir>,
}

impl Loop {
    /// Creates a device on a sparse file, which is in memory if there is enough. `options` are losetup's, such as
    /// `--partscan`.
    ///
    /// # Errors
    /// Why it is not possible here.
    pub fn new(bytes: u64, options: &[&str]) -> Result<Self, Unavailable> {
        need_root("a loop device")?;
        let dir = quiet_dir()?;
        let file = dir.path().join("disk.img");
        let made = File::create(&file).and_then(|file| file.set_len(bytes));
        made.with_context(|| format!("cannot make {}", file.display()))?;
        let mut this = Self::attach(&file, options)?;
        this._dir = Some(dir);
        Ok(this)
    }

    /// Creates a device with an ext4 filesystem.
    ///
    /// # Errors
    /// Why it is not possible here.
    pub fn ext4(bytes: u64) -> Result<Self, Unavailable> {
        let this = Self::new(bytes, &[])?;
        this.make_filesystem("ext4")?;
        Ok(this)
    }

    /// Creates a device on a fully written file in `dir`, so that no run pays for allocating blocks of that file.
    ///
    /// # Errors
    /// Why it is not possible here.
    pub fn filled(dir: TempDir, bytes: u64) -> Result<Self, Unavailable> {
        need_root("a loop device")?;
        let file = dir.path().join("disk.img");
        make_file(&file, bytes)?;
        let mut this = Self::direct(&file)?;
        this._dir = Some(dir);
        Ok(this)
    }

    /// Creates a device on this file, with direct I/O if its filesystem supports it.
    ///
    /// # Errors
    /// Why it is not possible here.
    pub fn direct(file: &Path) -> Result<Self, Unavailable> {
        Self::attach(file, &["--direct-io=on"]).or_else(|_| Self::attach(file, &["--direct-io=off"]))
    }

    /// Creates a device on this file. `options` are losetup's.
    ///
    /// # Errors
    /// Why it is not possible here.
    pub fn attach(file: &Path, options: &[&str]) -> Result<Self, Unavailable> {
        need_root("a loop device")?;
        let args = [&["--find", "--show"], options, &[text(file)]].concat();
        let made = (1..TRIES).map(|_| tool("losetup", &args)).find(Result::is_ok);
        let device = PathBuf::from(made.unwrap_or_else(|| tool("losetup", &args))?);
        let this = Self { is_lost: false, device, file: file.to_owned(), _dir: None };
        // Its previous user may have left it read-only, which the kernel does not undo.
        if !options.contains(&READ_ONLY) {
            tool("blockdev", &["--setrw", this.path()])?;
        }
        Ok(this)
    }

    /// Changes a queue setting in sysfs, such as `iostats`, until the guard is dropped. Without that, the next user
    /// of the same loop device would inherit it.
    ///
    /// # Errors
    /// If it cannot be read or set.
    pub fn set_queue(&self, setting: &str, value: &str) -> Result<QueueSetting, Unavailable> {
        let name = self.path().trim_start_matches("/dev/");
        let path = Path::new("/sys/block").join(name).join("queue").join(setting);
        let before = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let guard = QueueSetting { path, before };
        fs::write(&guard.path, value).with_context(|| format!("cannot write {}", guard.path.display()))?;
        Ok(guard)
    }

    /// Makes a filesystem of this kind.
    ///
    /// # Errors
    /// If its tool is missing or fails.
    pub fn make_filesystem(&self, kind: &str) -> Result<(), Unavailable> {
        // No lazy initialisation: the kernel would write in the background for minutes and spoil figures.
        let options: &[&str] = match kind {
            "ext4" => &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"],
            _ => &[],
        };
        tool(&format!("mkfs.{kind}"), &[options, &[self.path()]].concat()).map(drop)
    }

    /// Path of the device.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Path of the device, as text.
    pub fn path(&self) -> &str {
        text(&self.device)
    }

    /// The backing file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Its directory in sysfs.
    fn sysfs(&self) -> PathBuf {
        Path::new("/sys/block").join(self.device.file_name().unwrap_or_default())
    }

    /// MAJOR:MINOR, as cgroups name it.
    ///
    /// # Panics
    /// When the device is gone.
    pub fn number(&self) -> String {
        let number = fs::read_to_string(self.sysfs().join("dev")).expect("the kernel numbers each device");
        number.trim().to_owned()
    }

    /// Attaches the device to another file.
    ///
    /// # Errors
    /// When another process has taken the device in the meantime.
    pub fn lead_to(&mut self, file: &Path) -> Result<(), Unavailable> {
        tool("losetup", &["--detach", self.path()])?;
        self.is_lost = true;
        file.clone_into(&mut self.file);
        tool("losetup", &[self.path(), text(&self.file)])?;
        self.is_lost = false;
        Ok(())
    }

    /// Its whole content, after everything has been written out.
    ///
    /// # Panics
    /// When it cannot be read.
    pub fn content(&self) -> Vec<u8> {
        let read = || -> std::io::Result<Vec<u8>> {
            rustix::fs::fsync(File::open(&self.device)?)?;
            fs::read(&self.file)
        };
        read().expect("our own device should be readable")
    }
}

/// Restores a queue setting when it is dropped.
pub struct QueueSetting {
    path: PathBuf,
    before: String,
}

impl Drop for QueueSetting {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, &self.before);
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if self.is_lost {
            return;
        }
        // A device that was made read-only stays so for its next user.
        let _ = tool("blockdev", &["--setrw", self.path()]);
        if let Err(error) = tool("losetup", &["--detach", self.path()]) {
            eprintln!("cannot detach {}; detach it by hand: {error}", self.path());
            return;
        }
        // The kernel releases it when the last process closes it, which may be a moment after that process is gone.
        let backing = self.sysfs().join("loop");
        for _ in 0..20 {
            if !backing.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

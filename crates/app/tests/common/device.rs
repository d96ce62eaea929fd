//! Loop devices, mounts and throttles that this test made, gone when it ends, also by a panic. Nothing here touches a
//! device it did not make itself.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Runs a tool and gives its output; the reason if it is missing or fails.
pub(crate) fn tool(name: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(name).args(args).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// A directory for backing files: in memory where there is enough, since a shared disk stands still at times, and a
/// throttle that was not used then gives nothing back.
fn quiet_place() -> TempDir {
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |fs| fs.f_bavail * fs.f_frsize);
    let in_memory = (free > 1 << 30).then(|| TempDir::new_in(memory).ok()).flatten();
    in_memory.unwrap_or_else(|| TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
}

/// A loop device over a sparse file of its own.
pub(crate) struct Loop {
    device: PathBuf,
    file: PathBuf,
    _dir: TempDir,
}

impl Loop {
    /// `options` are of losetup, such as `--partscan`.
    ///
    /// # Errors
    /// Why there can be none here.
    pub(crate) fn new(bytes: u64, options: &[&str]) -> Result<Self, String> {
        if !super::is_root() {
            return Err("loop devices need root".to_owned());
        }
        let dir = quiet_place();
        let file = dir.path().join("disk.img");
        File::create(&file).unwrap().set_len(bytes).unwrap();
        let args = [&["--find", "--show"], options, &[file.to_str().unwrap()]].concat();
        // Another process may take the free device that --find saw.
        let made = (0..5).map(|_| tool("losetup", &args)).find(Result::is_ok);
        let device = made.unwrap_or_else(|| tool("losetup", &args))?.into();
        Ok(Self { device, file, _dir: dir })
    }

    /// With an ext4 filesystem on it.
    ///
    /// # Errors
    /// Why there can be none here.
    pub(crate) fn ext4(bytes: u64) -> Result<Self, String> {
        let this = Self::new(bytes, &[])?;
        // No lazy initialisation: the kernel would write in the background for minutes, and spoil figures.
        tool("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", this.path()])?;
        Ok(this)
    }

    pub(crate) fn path(&self) -> &str {
        self.device.to_str().unwrap()
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// MAJOR:MINOR, as cgroups name it.
    pub(crate) fn number(&self) -> String {
        let device = fs::metadata(&self.device).unwrap().rdev();
        format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
    }

    /// Gives the device another file.
    ///
    /// # Errors
    /// When another process took the device meanwhile.
    pub(crate) fn lead_to(&mut self, file: &Path) -> Result<(), String> {
        tool("losetup", &["--detach", self.path()])?;
        file.clone_into(&mut self.file);
        tool("losetup", &[self.path(), self.file.to_str().unwrap()]).map(drop)
    }

    /// Every byte on it, with everything written out first.
    pub(crate) fn content(&self) -> Vec<u8> {
        rustix::fs::fsync(File::open(&self.device).unwrap()).unwrap();
        fs::read(&self.file).unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // A device that a test made read-only stays so for whoever gets it next.
        let _ = tool("blockdev", &["--setrw", self.path()]);
        let _ = tool("losetup", &["--detach", self.path()]);
    }
}

/// A mounted loop device. Unmounted before it is detached.
pub(crate) struct Mounted {
    dir: TempDir,
    pub(crate) disk: Loop,
}

impl Mounted {
    /// # Errors
    /// Why it cannot be mounted so.
    pub(crate) fn new(disk: Loop, options: &str) -> Result<Self, String> {
        let dir = super::open_to_all();
        tool("mount", &["-o", options, disk.path(), dir.path().to_str().unwrap()])?;
        let this = Self { dir, disk };
        // mkfs made it; a directory to measure is empty.
        let _ = fs::remove_dir(this.path().join("lost+found"));
        Ok(this)
    }

    /// A sparse ext4 with room for the test file beside the space that always stays free.
    ///
    /// # Errors
    /// Why there can be none here.
    pub(crate) fn ext4(options: &str) -> Result<Self, String> {
        Self::new(Loop::ext4(2 << 30)?, options)
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let path = self.dir.path().to_str().unwrap();
        if tool("umount", &[path]).is_err() {
            let _ = tool("umount", &["--lazy", path]);
        }
    }
}

/// A filesystem, or layers, mounted for a test and unmounted after it.
pub(crate) struct Mount(TempDir);

impl Mount {
    /// `args` are mount's, without the directory.
    ///
    /// # Errors
    /// Why it cannot be mounted.
    pub(crate) fn new(args: &[&str]) -> Result<Self, String> {
        let dir = super::open_to_all();
        tool("mount", &[args, &[dir.path().to_str().unwrap()]].concat())?;
        Ok(Self(dir))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = tool("umount", &[self.path().to_str().unwrap()]);
    }
}

/// A compressed disk in memory.
pub(crate) struct Zram(String);

impl Zram {
    /// # Errors
    /// Why there can be none here.
    pub(crate) fn ext4(bytes: u64) -> Result<Self, String> {
        let number = fs::read_to_string("/sys/class/zram-control/hot_add").map_err(|error| format!("zram: {error}"))?;
        let this = Self(number.trim().to_owned());
        fs::write(format!("/sys/block/zram{}/disksize", this.0), bytes.to_string())
            .map_err(|e| format!("zram: {e}"))?;
        tool("mkfs.ext4", &["-q", &this.path()])?;
        Ok(this)
    }

    pub(crate) fn path(&self) -> String {
        format!("/dev/zram{}", self.0)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = fs::write(format!("/sys/block/zram{}/reset", self.0), "1");
        let _ = fs::write("/sys/class/zram-control/hot_remove", &self.0);
    }
}

/// How the names of our cgroups begin; the process that made it follows.
const GROUP: &str = "qd1-test-";

/// Removes the groups of tests that were killed.
fn clear_dead_groups(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name.strip_prefix(GROUP).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if maker.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// A cgroup of version 1 that limits what its processes may do to a device.
pub(crate) struct Throttle {
    dir: PathBuf,
}

impl Throttle {
    /// `limits` are pairs such as `("write_iops", 200)`.
    ///
    /// # Errors
    /// Why there can be none here.
    pub(crate) fn new(name: &str, disk: &Loop, limits: &[(&str, u64)]) -> Result<Self, String> {
        let this = Self::group(name)?;
        for (what, limit) in limits {
            let file = this.dir.join(format!("blkio.throttle.{what}_device"));
            fs::write(&file, format!("{} {limit}", disk.number()))
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok(this)
    }

    /// A group without limits yet.
    ///
    /// # Errors
    /// Why there can be none here.
    pub(crate) fn group(name: &str) -> Result<Self, String> {
        let root = Path::new("/sys/fs/cgroup/blkio");
        if !root.join("blkio.throttle.write_iops_device").exists() && !root.join("cgroup.procs").exists() {
            return Err("no blkio controller of cgroup v1 here".to_owned());
        }
        clear_dead_groups(root);
        let dir = root.join(format!("{GROUP}{}-{name}", std::process::id()));
        fs::create_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        Ok(Self { dir })
    }

    /// Where its settings are.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// `program` as a process of this group, in real time.
    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new("sh");
        let first = if super::has_real_time() { super::REAL_TIME.join(" ") } else { String::new() };
        let script = format!("echo $$ > {}/cgroup.procs && exec {first} \"$0\" \"$@\"", self.dir.display());
        command.args(["-c", &script, program]).args(args);
        command
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // A process that just ended may still be accounted for a moment.
        for _ in 0..50 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

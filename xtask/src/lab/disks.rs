//! Disks for benches: made here, filled with data that cannot be compressed, and given back on drop.
//!
//! Guards undo what they did when they go out of scope, on errors and panics too. On Ctrl-C and SIGTERM the process
//! must live long enough for that: `catch_signals` turns both into a flag that `interrupted` reads between steps.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::cmd;

/// O_DIRECT on x86-64 (asm-generic/fcntl.h).
const O_DIRECT: i32 = 0x4000;
const MIB: usize = 1 << 20;

fn flag() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(Arc::default)
}

/// From now on SIGINT and SIGTERM set a flag. Children of the same terminal get the signal themselves and end.
pub(crate) fn catch_signals() -> Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(flag())).context("cannot catch signals")?;
    }
    Ok(())
}

/// Fails once a signal has come.
pub(crate) fn interrupted() -> Result<()> {
    ensure!(!flag().load(Ordering::Relaxed), "interrupted");
    Ok(())
}

/// Fails with what to do where we are not root.
pub(crate) fn need_root(what: &str) -> Result<()> {
    ensure!(cmd::is_root(), "{what} needs root; run it with sudo");
    Ok(())
}

/// Fails where we are not root; from now on signals set the flag.
pub(crate) fn as_root(what: &str) -> Result<()> {
    need_root(what)?;
    catch_signals()
}

/// A loop device on a file; detached on drop.
pub(crate) struct Loop {
    device: PathBuf,
    /// That of its file, where it is its own. It goes after the device.
    _dir: Option<tempfile::TempDir>,
}

impl Loop {
    /// Makes one of `bytes` whose file is in `dir`. It is written whole, so that no run pays for the first touch of the
    /// file below.
    pub(crate) fn new(dir: tempfile::TempDir, bytes: u64) -> Result<Self> {
        let image = dir.path().join("disk");
        make_file(&image, bytes)?;
        let mut this = Self::attach(&image)?;
        this._dir = Some(dir);
        Ok(this)
    }

    /// Attaches the file to a free loop device, with direct I/O to the file where its filesystem has it.
    pub(crate) fn attach(file: &Path) -> Result<Self> {
        need_root("a loop device")?;
        let attach = |direct: &str| {
            let mut losetup = cmd::command("losetup");
            cmd::capture(losetup.args(["--find", "--show", direct]).arg(file))
        };
        let device = attach("--direct-io=on").or_else(|_| attach("--direct-io=off"))?;
        let this = Self { device: PathBuf::from(device.trim()), _dir: None };
        // Whoever had it before may have left it read-only, which the kernel does not undo.
        cmd::capture(cmd::command("blockdev").arg("--setrw").arg(&this.device))?;
        Ok(this)
    }

    pub(crate) fn device(&self) -> &Path {
        &self.device
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Err(error) = cmd::capture(cmd::command("losetup").arg("--detach").arg(&self.device)) {
            eprintln!("cannot detach {}; detach it by hand: {error:#}", self.device.display());
            return;
        }
        // The kernel lets go when the last one who has it open does, which may be a moment after that process is gone.
        let name = self.device.file_name().unwrap_or_default();
        let backing = Path::new("/sys/block").join(name).join("loop");
        for _ in 0..20 {
            if !backing.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// A mounted filesystem on a loop device; unmounted, detached and removed on drop, in this order.
pub(crate) struct Filesystem {
    mounted: Mounted,
    disk: Loop,
}

/// A mount point; unmounted on drop.
pub(super) struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a device, or a file with the option `loop`, at a directory that it makes.
    pub(super) fn new(device: &Path, at: PathBuf, options: &str) -> Result<Self> {
        fs::create_dir(&at).with_context(|| format!("cannot make {}", at.display()))?;
        cmd::capture(cmd::command("mount").args(["-o", options]).arg(device).arg(&at))?;
        Ok(Self(at))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmount = |lazy: &[&str]| cmd::capture(cmd::command("umount").args(lazy).arg(&self.0));
        if let Err(error) = unmount(&[]).or_else(|_| unmount(&["--lazy"])) {
            eprintln!("cannot unmount {}; do it by hand: {error:#}", self.0.display());
        }
    }
}

impl Filesystem {
    /// Makes one of this kind and of `bytes` whose file is in `dir`.
    pub(crate) fn new(kind: &str, dir: tempfile::TempDir, bytes: u64) -> Result<Self> {
        // A server of another user has to get there.
        super::open_up(dir.path())?;
        let at = dir.path().join("mnt");
        let disk = Loop::new(dir, bytes)?;
        let options = match kind {
            "ext4" => &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"][..],
            _ => &[],
        };
        cmd::capture(cmd::command(format!("mkfs.{kind}")).args(options).arg(disk.device()))?;
        let mounted = Mounted::new(disk.device(), at, "nodiscard")?;
        Ok(Self { mounted, disk })
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        self.mounted.path()
    }

    pub(crate) fn device(&self) -> &Path {
        self.disk.device()
    }
}

/// The RAM disk /dev/zram0, in use by us alone; reset on drop.
pub(crate) struct Zram;

impl Zram {
    const DEVICE: &str = "/dev/zram0";
    const SYSFS: &str = "/sys/block/zram0";

    /// Makes it `bytes` large. Refuses where somebody uses it: the kernel answers EBUSY to a second size, so two runs
    /// at a time cannot both get it.
    pub(crate) fn set_up(bytes: u64) -> Result<Self> {
        need_root("zram")?;
        let size = format!("{}/disksize", Self::SYSFS);
        let now = fs::read_to_string(&size).with_context(|| format!("cannot read {size}; is there a zram module?"))?;
        ensure!(now.trim() == "0", "{} is in use ({} bytes): leaving it alone", Self::DEVICE, now.trim());
        fs::write(&size, bytes.to_string()).with_context(|| format!("cannot set {size}"))?;
        Ok(Self)
    }

    #[allow(clippy::unused_self, reason = "the device may be used only while the guard lives")]
    pub(crate) fn device(&self) -> &Path {
        Path::new(Self::DEVICE)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let reset = format!("{}/reset", Self::SYSFS);
        // A child that was just killed may hold the device for a moment.
        for _ in 0..50 {
            if fs::write(&reset, "1").is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("cannot reset {}; do it by hand: echo 1 > {reset}", Self::DEVICE);
    }
}

/// A directory for test files that is removed on drop: below the target directory, which lies on a disk, where the
/// temporary directory often is RAM.
pub(crate) fn temp_dir() -> Result<tempfile::TempDir> {
    let target = crate::metadata::target_dir()?;
    fs::create_dir_all(&target)?;
    tempfile::Builder::new().prefix("bench-").tempdir_in(target).context("cannot make a temporary directory")
}

/// A directory in memory, where there is one, removed on drop: for disks that never have to wait for another one.
pub(crate) fn quiet_dir() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).context("cannot make a directory in memory") } else { temp_dir() }
}

/// Makes a file of this size full of data that does not compress.
pub(crate) fn make_file(path: &Path, bytes: u64) -> Result<()> {
    let mut file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    fill(&mut file, bytes).with_context(|| format!("cannot fill {}", path.display()))
}

/// Fills a device that we made ourselves.
pub(crate) fn fill_device(device: &Path, bytes: u64) -> Result<()> {
    let mut file = OpenOptions::new().write(true).open(device).with_context(|| format!("cannot open {device:?}"))?;
    fill(&mut file, bytes).with_context(|| format!("cannot fill {}", device.display()))
}

/// Whether the file's filesystem takes direct I/O.
pub(crate) fn takes_direct(path: &Path) -> bool {
    OpenOptions::new().read(true).custom_flags(O_DIRECT).open(path).is_ok()
}

fn fill(file: &mut File, bytes: u64) -> Result<()> {
    let mut block = vec![0_u8; MIB];
    let mut random = fastrand::Rng::with_seed(0x9e37_79b9_7f4a_7c15);
    let mut left = bytes;
    while left > 0 {
        interrupted()?;
        random.fill(&mut block);
        let n = usize::try_from(left).unwrap_or(MIB).min(MIB);
        file.write_all(&block[..n])?;
        left -= u64::try_from(n)?;
    }
    file.sync_all().context("cannot sync")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pages_of_a_filled_file_are_alike() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        make_file(&path, 3 * 1024 * 1024 + 4096).unwrap();
        let data = fs::read(&path).unwrap();
        assert_eq!(data.len(), 3 * 1024 * 1024 + 4096);
        let pages: std::collections::HashSet<_> = data.chunks(4096).collect();
        assert_eq!(pages.len(), data.len() / 4096);
    }
}

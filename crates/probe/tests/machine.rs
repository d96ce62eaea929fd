//! The probe on the machine that runs the tests. Tests that need root, or a tool that is missing, are skipped with a
//! message.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use qd1_model::environment::FilesystemClass;
use qd1_probe::Machine;
use qd1_probe::guard::InUse;
use rustix::process::geteuid;
use tempfile::TempDir;

/// Runs a tool and gives its output; `None` if it is missing or fails.
fn run(tool: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(tool).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A loop device over a file of its own, detached at the end.
struct Loop {
    dev: PathBuf,
    file: PathBuf,
    _dir: TempDir,
}

impl Loop {
    fn new() -> Option<Self> {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: loop devices need root");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("disk.img");
        File::create(&file).unwrap().set_len(32 << 20).unwrap();
        let Some(dev) = run("losetup", &["--find", "--show", file.to_str().unwrap()]) else {
            eprintln!("SKIPPED: losetup gives no loop device");
            return None;
        };
        Some(Self { dev: dev.into(), file, _dir: dir })
    }

    fn dev(&self) -> &str {
        self.dev.to_str().unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run("losetup", &["--detach", self.dev()]);
    }
}

/// A mount, undone at the end.
struct Mounted(TempDir);

impl Mounted {
    fn new(dev: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        run("mount", &[dev, dir.path().to_str().unwrap()])?;
        Some(Self(dir))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &[self.0.path().to_str().unwrap()]);
    }
}

/// What uses a device once a detached loop device is gone: the kernel keeps a loop device that another program has
/// open, if only to look for a free one, until that program closes it.
fn uses_once_settled(machine: &Machine, dev: &Path) -> Vec<InUse> {
    let mut uses = machine.block_uses(dev);
    for _ in 0..100 {
        if uses.is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(50));
        uses = machine.block_uses(dev);
    }
    uses
}

/// Paths used to be compared: a mounted filesystem over a hard link of the same file was destroyed.
#[test]
fn a_loop_device_over_the_same_file_by_any_path_is_seen() {
    let Some(disk) = Loop::new() else { return };
    let dir = disk.file.parent().unwrap();
    let (hard, node) = (dir.join("hard"), dir.join("node"));
    fs::hard_link(&disk.file, &hard).unwrap();
    let number = fs::read_to_string(Path::new("/sys/block").join(disk.dev.file_name().unwrap()).join("dev")).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    assert!(run("mknod", &[node.to_str().unwrap(), "b", major, minor]).is_some());
    let machine = Machine::new();
    assert_eq!(machine.loops_of_file(&hard).len(), 1);
    for other in [&hard, &node] {
        let before = uses_once_settled(&machine, &disk.dev);
        assert!(before.is_empty(), "{}: {before:?}", other.display());
        let over = run("losetup", &["--find", "--show", "--offset", "16777216", other.to_str().unwrap()]).unwrap();
        // The node of a device may be removed while it is in use.
        fs::remove_file(other).unwrap();
        let uses = machine.block_uses(&disk.dev);
        run("losetup", &["--detach", &over]);
        let wanted = over.trim_start_matches("/dev/");
        let is_seen = |found: &InUse| matches!(found, InUse::Loop { loop_device, .. } if loop_device == wanted);
        assert!(uses.iter().any(is_seen), "{}: {uses:?}", other.display());
    }
}

#[test]
fn the_environment_of_this_machine_is_filled() {
    let environment = Machine::new().environment(Path::new("/"));
    assert!(!environment.kernel.is_empty());
    assert!(!environment.hostname.is_empty());
    assert!(environment.cpus > 0);
    assert!(environment.memory.0 > 1 << 20);
    assert!(!environment.virtualization.is_empty());
    assert_eq!(environment.root, geteuid().is_root());
    assert_eq!(environment.filesystem.mount_point, "/");
    assert!(environment.filesystem.size.0 > 0);
    assert_eq!(environment.clock.read_cost_ns, 0.0);
}

#[test]
fn the_chain_of_the_root_ends_in_a_disk() {
    let environment = Machine::new().environment(Path::new("/"));
    let Some(disk) = environment.devices.last() else {
        eprintln!("SKIPPED: the root of this machine is on no visible block device");
        return;
    };
    if Path::new("/sys/block/vda").exists() && environment.filesystem.source.starts_with("/dev/vda") {
        assert_eq!((disk.name.as_str(), disk.transport.as_str()), ("vda", "virtio"));
    }
    assert!(disk.size.0 > 0);
    assert!(disk.logical_block >= 512);
    assert!(!disk.scheduler.is_empty());
    assert_eq!(Machine::new().devices_of_block(&Path::new("/dev").join(&disk.name)).last(), Some(disk));
}

#[test]
fn the_disks_counters_grow_with_a_durable_write() {
    let machine = Machine::new();
    let dir = tempfile::tempdir().unwrap();
    let environment = machine.environment(dir.path());
    let Some(disk) = environment.devices.last().filter(|_| environment.filesystem.class == FilesystemClass::Disk)
    else {
        eprintln!("SKIPPED: temporary files are on no visible block device");
        return;
    };
    let before = machine.device_counters(&disk.name).unwrap();
    let mut file = tempfile::tempfile_in(dir.path()).unwrap();
    file.write_all(&vec![0xa5; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    let change = machine.device_counters(&disk.name).unwrap().since(&before);
    assert!(change.writes > 0);
    assert!(change.write_bytes >= 1 << 20);
}

#[test]
fn the_machines_counters_grow() {
    let machine = Machine::new();
    let before = machine.machine_counters();
    assert!(before.cpu_total_ticks > 0);
    thread::sleep(Duration::from_millis(100));
    let after = machine.machine_counters();
    assert!(after.cpu_total_ticks > before.cpu_total_ticks);
    assert!(after.steal_since(&before) <= 1.0);
    assert_eq!(after.pressure_us.is_some(), Path::new("/proc/pressure/io").exists());
}

#[test]
fn kernel_files_are_seen_as_a_pseudo_filesystem() {
    assert_eq!(Machine::new().filesystem(Path::new("/proc/self")).unwrap().class, FilesystemClass::Pseudo);
    assert_eq!(Machine::new().filesystem(Path::new("/sys/block")).unwrap().class, FilesystemClass::Pseudo);
}

#[test]
fn the_disk_under_the_root_is_refused() {
    let machine = Machine::new();
    for device in machine.environment(Path::new("/")).devices {
        let dev = Path::new("/dev").join(&device.name);
        assert!(machine.block_in_use(&dev).is_err(), "{}", dev.display());
    }
}

#[test]
fn a_blank_loop_device_may_be_overwritten_and_names_its_disk() {
    let Some(device) = Loop::new() else { return };
    let machine = Machine::new();
    machine.block_in_use(&device.dev).unwrap();
    let chain = machine.devices_of_block(&device.dev);
    assert_eq!((chain[0].kind.as_str(), Path::new(&chain[0].backing)), ("loop", device.file.as_path()));
    let below = machine.environment(&device.file).devices;
    assert_eq!(chain[1..], below);
}

#[test]
fn a_loop_device_with_a_filesystem_is_refused_mounted_or_not() {
    let Some(device) = Loop::new() else { return };
    if run("mkfs.ext4", &["-q", "-F", device.dev()]).is_none() {
        eprintln!("SKIPPED: mkfs.ext4 is not installed");
        return;
    }
    let machine = Machine::new();
    let error = machine.block_in_use(&device.dev).unwrap_err();
    assert!(matches!(error, InUse::Signature { kind: "ext4", offset: 1080, .. }), "{error}");
    let Some(mount) = Mounted::new(device.dev()) else {
        eprintln!("SKIPPED: this machine does not let us mount");
        return;
    };
    let error = machine.block_in_use(&device.dev).unwrap_err();
    assert!(matches!(&error, InUse::Mounted { mount_point, .. } if mount_point == mount.0.path()), "{error}");
    let fs = machine.filesystem(&mount.0.path().join("new")).unwrap();
    assert_eq!((fs.kind.as_str(), fs.source.as_str()), ("ext4", device.dev()));
    assert_eq!(machine.devices(&fs, mount.0.path())[0].kind, "loop");
}

#[test]
fn swap_in_use_is_refused() {
    let Some(device) = Loop::new() else { return };
    let on = run("mkswap", &[device.dev()]).and_then(|_| run("swapon", &[device.dev()]));
    if on.is_none() {
        eprintln!("SKIPPED: this machine does not let us swap");
        return;
    }
    let uses = Machine::new().block_uses(&device.dev);
    run("swapoff", &[device.dev()]);
    assert!(matches!(uses[0], InUse::Swap { .. }), "{uses:?}");
}

#[test]
fn a_device_somebody_holds_exclusively_is_busy() {
    let Some(device) = Loop::new() else { return };
    use std::os::unix::fs::OpenOptionsExt;
    let held = fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&device.dev).unwrap();
    let error = Machine::new().block_in_use(&device.dev).unwrap_err();
    assert!(matches!(error, InUse::Busy { .. }), "{error}");
    drop(held);
    // A child that another test starts at this moment holds a copy of the descriptor until it calls exec.
    let is_free = || Machine::new().block_in_use(&device.dev).is_ok();
    let pause = || std::thread::sleep(std::time::Duration::from_millis(10));
    assert!((0..500).any(|_| is_free() || {
        pause();
        false
    }));
}

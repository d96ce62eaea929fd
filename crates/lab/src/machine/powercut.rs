//! `cargo xtask truth --powercut`: guests whose host loses its power while they commit.
//!
//! The guest's disk is a file on one of the host's own filesystems, on a loop device. QEMU with `cache=unsafe` ignores
//! the guest's flushes, so that committed data is only in the host's memory; with `cache=none` it is on the loop
//! device. The host's power cut is simulated by copying what is behind the loop device, without the contents of memory;
//! the guest is then killed, and the copy mounted and checked. The witness is a QEMU port that writes to a file.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::Machine;
use super::boot::{self, Scripts};
use super::scenario::{Scenario, serial};
use crate::tool::text;
use crate::{Loop, Mount, clock, interrupted, temp_dir, tool};

/// Sizes of the host's disk and the guest's.
const HOST_BYTES: u64 = 600 << 20;
const GUEST_BYTES: u64 = 128 << 20;
/// Number of commits before everything is written out once, and number after which the power is cut.
const COMMITS: [usize; 2] = [100, 600];
/// Time limit from the start of a guest, which is emulated, to its last commit.
const MOST: Duration = Duration::from_secs(300);

/// What the guest runs until it is killed.
const GUEST: &str = "\
about = 'commits until the power is cut'
modules = ['ext4']
setup = '''
ext4 $DISK0
mount $DISK0 /mnt
qd1 powercut write /mnt >/dev/vport0p2
'''
[[disk]]
device = 'virtio-blk-pci'
size_mib = 128
[[run]]
qd1 = '--version'
";

/// Cuts the power of `count` guests of each kind, and prints what was found.
pub fn run(machine: &Machine, count: u64) -> Result<()> {
    let mut wrong = 0;
    for (cache, loses) in [("unsafe", true), ("none", false)] {
        let mut found = 0;
        for number in 0..count {
            interrupted()?;
            let said = one(cache, machine).with_context(|| format!("cache={cache}, {number}"))?;
            println!("powercut: cache={cache}: {}", said.lines().next().unwrap_or_default());
            found += u64::from(said.starts_with("LOST"));
        }
        println!("powercut: cache={cache}: lost in {found} of {count}");
        wrong += if loses { count - found } else { found };
    }
    ensure!(wrong == 0, "{wrong} of {} guests did not come out as expected", 2 * count);
    Ok(())
}

/// A guest that is killed when it goes out of scope.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One cut; returns the output of the check.
fn one(cache: &str, machine: &Machine) -> Result<String> {
    let place = temp_dir()?;
    let at = |name: &str| place.path().join(name);
    let (behind, notes) = (at("behind"), at("notes"));
    File::create(&behind)?.set_len(HOST_BYTES)?;
    let device = Loop::direct(&behind)?;
    device.make_filesystem("ext4")?;
    let host = Mount::at(at("host"), &["-o", "commit=300", device.path()])?;
    let disk = host.path().join("guest");
    write_whole(&disk)?;
    let guest = start(cache, &disk, &notes, place.path(), machine)?;
    let [first, last] = COMMITS;
    noted(&notes, first)?;
    // From here on, data reaches the device only because of the guest's flushes.
    tool("sync", &["-f", text(host.path())])?;
    noted(&notes, last)?;
    // In this order: whatever the witness noted was acknowledged before the copy began.
    let kept = at("kept");
    fs::copy(&notes, &kept)?;
    let cut = at("cut");
    fs::copy(&behind, &cut)?;
    drop((guest, host));
    let outer = Mount::at(at("outer"), &["-o", "loop", text(&cut)])?;
    let inner = Mount::at(at("inner"), &["-o", "loop", text(&outer.path().join("guest"))])?;
    let mut check = Command::new(&machine.binary);
    check.args(["powercut", "check", "--keep"]).arg(inner.path()).arg(&kept);
    let output = check.output().context("qd1 powercut check")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(0 | 3) => Ok(said),
        code => bail!("the check exited with {code:?}: {}", String::from_utf8_lossy(&output.stderr).trim()),
    }
}

/// The guest's disk, fully allocated, so that its writes need no new blocks on the host.
fn write_whole(disk: &Path) -> Result<()> {
    let file = File::create(disk)?;
    for block in 0..GUEST_BYTES >> 20 {
        file.write_all_at(&[0; 1 << 20], block << 20)?;
    }
    Ok(file.sync_all()?)
}

fn start(cache: &str, disk: &Path, notes: &Path, place: &Path, machine: &Machine) -> Result<Guest> {
    let scenarios = [Scenario::parse("powercut", GUEST)?];
    let script = |number: usize| scenarios[number].script(number);
    let scripts = Scripts { numbers: vec![0], script: &script, cuts: false };
    let initramfs = place.join("initramfs");
    boot::archive(&scenarios, &scripts, machine)?.write(&initramfs, &machine.packages)?;
    let mut qemu = boot::without_disks(machine, &initramfs, &place.join("port"));
    qemu.arg("-chardev").arg(format!("file,id=notes,path={}", notes.display()));
    qemu.args(["-device", "virtserialport,chardev=notes,name=notes"]);
    let serial = serial(0, 0);
    qemu.arg("-drive").arg(format!("if=none,id={serial},format=raw,cache={cache},file={}", disk.display()));
    qemu.arg("-device").arg(format!("virtio-blk-pci,drive={serial},serial={serial}"));
    qemu.stdin(Stdio::null()).stdout(File::create(place.join("console"))?);
    Ok(Guest(qemu.spawn().context("cannot start QEMU")?))
}

/// Waits until this many commits are noted.
fn noted(notes: &Path, count: usize) -> Result<()> {
    let begin = clock::now();
    while fs::read(notes).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count()) <= count {
        interrupted()?;
        ensure!(begin.elapsed() < MOST, "the guest did not commit {count} times within {} s", MOST.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

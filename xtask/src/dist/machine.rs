//! A fully emulated aarch64 machine: Debian's kernel, a virtio disk with ext4, and a check of it.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use qd1_lab::machine::{Archive, Unpacked};
use qd1_lab::{clock, cmd};

use super::place::Debian;
use super::trial;
use crate::packages;

/// Modules that its disk and the filesystem on it need.
const MODULES: [&str; 4] = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"];
/// Time limit, seconds.
const SECONDS: u32 = 900;
/// The first process. What it prints between the marks is qd1's.
const INIT: &str = "#!/bin/busybox sh
export PATH=/bin HOME=/tmp
mkdir -p /proc /sys /dev /tmp /disk
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
dmesg -n 1
for module in $(cat /modules); do modprobe $module; done
mount -t ext4 /dev/vda /disk
echo PAGE $(sed -n 's/^KernelPageSize: *//p' /proc/self/smaps | head -n 1)
/bin/qd1 check --quick --size 128M /disk --json >/tmp/report 2>/tmp/errors
echo STATUS $?
cat /tmp/errors
echo BEGIN
cat /tmp/report
echo
echo END
poweroff -f
";

/// Boots it and checks that its report has everything that a report must have.
pub(super) fn boot(debian: &Debian, binary: &Path, work: &Path) -> Result<()> {
    packages::fetch()?;
    let dir = tempfile::tempdir_in(work)?;
    let system = dir.path().join("system");
    debian.unpack(&["linux-image-", "busybox-static_"], &system)?;
    let own = packages::found()?.context("the lab's packages are missing")?;
    let unpacked = Unpacked::prepare(&system, Some(&own))?;
    let archive = Archive::new(&unpacked, &own)?;
    archive.program("init", INIT.as_bytes())?;
    archive.program("bin/qd1", &fs::read(binary)?)?;
    archive.file("modules", MODULES.join("\n").as_bytes())?;
    let (initramfs, disk) = (dir.path().join("initramfs"), dir.path().join("disk"));
    archive.write(&initramfs, &own)?;
    File::create(&disk)?.set_len(3 << 30)?;
    cmd::capture(cmd::command("mkfs.ext4").arg("-q").arg(&disk))?;
    let mut qemu = cmd::command("timeout");
    qemu.arg(SECONDS.to_string()).arg("qemu-system-aarch64");
    qemu.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"]);
    qemu.args(["-machine", "virt", "-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2", "-m", "1024"]);
    qemu.arg("-kernel").arg(unpacked.kernel()).arg("-initrd").arg(&initramfs);
    qemu.args(["-append", "console=ttyAMA0 loglevel=4 panic=-1"]);
    qemu.arg("-drive").arg(format!("if=none,id=disk,format=raw,cache=unsafe,file={}", disk.display()));
    qemu.args(["-device", "virtio-blk-pci,drive=disk"]);
    let (console, took) = clock::timed(|| cmd::output(&mut qemu));
    let console = String::from_utf8_lossy(&console?.stdout).replace('\r', "");
    let line = |mark: &str| console.lines().find_map(|line| line.strip_prefix(mark)).unwrap_or("").trim().to_owned();
    let report =
        console.split_once("\nBEGIN\n").and_then(|(_, rest)| rest.split_once("\nEND")).map(|(report, _)| report);
    let verdict = trial::verdict(report.unwrap_or_default())
        .with_context(|| format!("{}, its own kernel: {}", debian.name, cmd::tail(&console, 20)))?;
    ensure!(matches!(line("STATUS").as_str(), "0" | "3"), "{}: qd1 exited with {}", debian.name, line("STATUS"));
    let page = format!("{} kB", debian.page_kib);
    ensure!(line("PAGE") == page, "{}: page size {} instead of {page}", debian.name, line("PAGE"));
    println!(
        "ok     {}, Linux {}, page size {}: {verdict} ({:.0} s)",
        debian.name,
        unpacked.release,
        line("PAGE"),
        took.as_secs_f64()
    );
    Ok(())
}

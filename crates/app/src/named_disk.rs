//! Finds the disk that a command watches or traces, given by name or by a path on it.

use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use anyhow::Result;
use qd1_model::environment::Device;
use qd1_model::{Problem, ProblemKind, printable};
use qd1_probe::Machine;
use qd1_probe::sampler::counted_device;

/// Returns the kernel's name of the disk below an argument, which is a device or a path on a disk.
///
/// # Errors
/// If there is no such disk or path, or no single disk can be found below it.
pub(crate) fn named_disk(machine: &Machine, target: &Path) -> Result<String> {
    found(machine, target, |_, devices| counted_device(devices))
}

/// Returns the kernel's name of a device that was named, or of the one that holds the filesystem of a path, even if it is
/// on top of others (device mapper, md); never a partition, but its disk.
///
/// # Errors
/// As [`named_disk`].
pub(crate) fn topmost_disk(machine: &Machine, target: &Path) -> Result<String> {
    found(machine, target, |_, devices| topmost(devices))
}

/// As [`topmost_disk`] for a device, and as [`named_disk`] for a path.
///
/// # Errors
/// As [`named_disk`].
pub(crate) fn device_or_disk_below(machine: &Machine, target: &Path) -> Result<String> {
    found(machine, target, |is_device, devices| if is_device { topmost(devices) } else { counted_device(devices) })
}

fn topmost(devices: &[Device]) -> Option<&Device> {
    devices.iter().find(|device| device.kind != "partition")
}

/// Finds the devices below an argument, and lets `choose` choose one; it also gets to know whether a device was named.
fn found(
    machine: &Machine,
    target: &Path,
    choose: impl for<'a> Fn(bool, &'a [Device]) -> Option<&'a Device>,
) -> Result<String> {
    let shown = printable(&target.to_string_lossy()).into_owned();
    // A word without `/` is a disk if there is one of that name, otherwise a file in the current directory.
    let as_name = Path::new("/dev").join(target);
    let is_disk = std::fs::metadata(&as_name).is_ok_and(|found| found.file_type().is_block_device());
    let path = if is_disk && target.components().count() == 1 { &as_name } else { target };
    if !Path::new("/sys/block").exists() {
        return Err(Problem::new(ProblemKind::Capability, "/sys is not mounted; run: mount -t sysfs sysfs /sys").into());
    }
    if !path.exists() {
        return Err(Problem::usage(format!("{shown}: no such disk or path; `ls /sys/block` lists the disks")).into());
    }
    let devices = machine.environment(path).devices;
    let is_device = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    let Some(found) = choose(is_device, &devices) else {
        let message = format!("{shown}: the block device below it is not known; give the name of the disk instead");
        return Err(Problem::usage(message).into());
    };
    Ok(found.name.clone())
}

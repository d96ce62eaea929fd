//! Finds the disk that a command watches, given by name or by a path on it.

use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use anyhow::Result;
use qd1_model::{Problem, ProblemKind, printable};
use qd1_probe::Machine;
use qd1_probe::sampler::counted_device;

/// Returns the kernel's name of the disk for an argument, which is a device or a path on a disk.
///
/// # Errors
/// If there is no such disk or path, or no single disk can be found below it.
pub(crate) fn named_disk(machine: &Machine, target: &Path) -> Result<String> {
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
    let Some(found) = counted_device(&devices) else {
        let message = format!("{shown}: the block device below it is not known; give the name of the disk instead");
        return Err(Problem::usage(message).into());
    };
    Ok(found.name.clone())
}

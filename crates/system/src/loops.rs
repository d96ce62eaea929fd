//! Loop devices, managed with `losetup`: its ioctls would need `unsafe`.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use qd1_probe::{LoopOver, Machine};

use crate::tool::{retry_while_busy, tool};

/// Attaches a loop device to `file`, with direct I/O if possible.
///
/// # Errors
/// When `losetup` fails, another file has taken its place, or the device disappears immediately.
pub fn attach(file: &Path) -> Result<LoopOver> {
    let name = file.to_str().context("the file's name is not UTF-8, which losetup needs")?;
    let device = tool("losetup", &["--find", "--show", name])?;
    if !is_over(&device, file)? {
        tool("losetup", &["--detach", &device])?;
        bail!("{name} was replaced by another file; choose a directory that only you can change");
    }
    // The kernel shows where the file is now.
    let file = &std::fs::canonicalize(file)?;
    // A failure here does not matter: the state is read below, and newer kernels choose direct I/O on their own.
    let _ = tool("losetup", &["--direct-io=on", &device]);
    let over = Machine::new().loops_over(file);
    over.into_iter()
        .find(|over| over.device == Path::new(&device))
        .with_context(|| format!("{device} disappeared immediately"))
}

/// Returns true if the device's data is this very file: losetup looks for it by name a second time.
fn is_over(device: &str, file: &Path) -> Result<bool> {
    let found = std::fs::metadata(file)?;
    let shown = tool("losetup", &["--noheadings", "--output", "BACK-INO,BACK-MAJ:MIN", device])?;
    let number = format!("{}:{}", rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    Ok(shown.split_whitespace().eq([found.ino().to_string().as_str(), &number]))
}

/// Detaches every loop device over `path` or files below it. Returns true if there was any.
///
/// # Errors
/// When one stays in use.
pub fn detach(path: &Path) -> Result<bool> {
    let machine = Machine::new();
    let over = machine.loops_over(path);
    for LoopOver { device, .. } in &over {
        let name = device.to_string_lossy();
        tool("losetup", &["--detach", &name])?;
        // A device in use is detached only when it is released.
        retry_while_busy(|| Ok(machine.loops_over(path).iter().all(|other| other.device != *device)))?
            .then_some(())
            .with_context(|| format!("{name} is still in use; when it is free, run: losetup --detach {name}"))?;
    }
    Ok(!over.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts::unmount;

    #[test]
    fn an_empty_directory_has_nothing_to_unmount_or_detach() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!unmount(dir.path()).unwrap() && !detach(dir.path()).unwrap());
    }
}

//! Loop devices. They are left to `losetup`, whose ioctls would need `unsafe`.

use std::path::Path;

use anyhow::{Context as _, Result};
use qd1_probe::{LoopOver, Machine};

use crate::tool::{patiently, tool};

/// A loop device over `file`, past the page cache where that is possible.
///
/// # Errors
/// When the kernel gives none.
pub fn attach(file: &Path) -> Result<LoopOver> {
    let name = file.to_str().context("a file's name that losetup can take")?;
    let device = tool("losetup", &["--find", "--show", name])?;
    // Its own answer counts, not whether this worked: newer kernels choose it by themselves.
    let _ = tool("losetup", &["--direct-io=on", &device]);
    let over = Machine::new().loops_over(file);
    over.into_iter().find(|over| over.device == Path::new(&device)).with_context(|| format!("{device} came and went"))
}

/// Detaches every loop device over `path` or files below it. Whether there was any.
///
/// # Errors
/// When one stays in use.
pub fn detach(path: &Path) -> Result<bool> {
    let machine = Machine::new();
    let over = machine.loops_over(path);
    for LoopOver { device, .. } in &over {
        let name = device.to_string_lossy();
        tool("losetup", &["--detach", &name])?;
        // In use it only goes when it is let go.
        patiently(|| Ok(machine.loops_over(path).iter().all(|other| other.device != *device)))?
            .then_some(())
            .with_context(|| format!("{name} is still in use; losetup --detach {name} once it is not"))?;
    }
    Ok(!over.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts::unmount;

    #[test]
    fn where_nothing_is_there_is_nothing_to_take_off() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!unmount(dir.path()).unwrap() && !detach(dir.path()).unwrap());
    }
}

//! Mounts. Mounting is a system call that rustix makes without `unsafe`.

use std::ffi::CString;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use qd1_probe::Machine;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::tool::retry_while_busy;

/// Mounts `source` on `point` with `options` in mount(8)'s syntax.
///
/// # Errors
/// When mount(2) fails.
pub fn mount(source: &Path, point: &Path, kind: &str, options: &[&str]) -> Result<()> {
    let mut flags = MountFlags::empty();
    let mut data = Vec::new();
    for option in options {
        match *option {
            "noatime" => flags |= MountFlags::NOATIME,
            other => data.push(other),
        }
    }
    let data = CString::new(data.join(","))?;
    rustix::mount::mount(source, point, kind, flags, data.as_c_str()).map_err(|errno| match errno {
        Errno::NODEV => anyhow!("this kernel does not support {kind}"),
        _ => anyhow!("cannot mount {kind} from {} on {}: {errno}", source.display(), point.display()),
    })
}

/// Unmounts everything on `dir` and below it. Returns true if there was anything.
///
/// # Errors
/// When a mount stays in use; the message names it.
pub fn unmount(dir: &Path) -> Result<bool> {
    let machine = Machine::new();
    let points = machine.mount_points_in(dir);
    for point in &points {
        retry_while_busy(|| match rustix::mount::unmount(point, UnmountFlags::empty()) {
            // Files of a queue that was just closed are released a moment later.
            Err(Errno::BUSY) => Ok(false),
            // Not mounted any more, or never.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(true),
            // The program behind it is gone: only a lazy unmount works.
            Err(Errno::NOTCONN) => {
                rustix::mount::unmount(point, UnmountFlags::DETACH)?;
                Ok(true)
            }
            Err(errno) => Err(anyhow!("cannot unmount {}: {errno}", point.display())),
        })?
        .then_some(())
        .with_context(|| {
            format!("{} is still in use; end the programs that use it (fuser -m lists them)", point.display())
        })?;
    }
    Ok(!points.is_empty())
}

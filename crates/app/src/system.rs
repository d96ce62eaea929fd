//! Changes to the machine, each of which `journal.rs` knows how to undo: mounts, loop devices, programs of others.
//!
//! Mounting is a system call that rustix makes without `unsafe`; loop devices are left to `losetup`, whose ioctls would need
//! some, and filesystems to the programs that make them.

use std::ffi::CString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use qd1_engine::clock;
use qd1_model::Bytes;
use qd1_probe::{LoopOver, Machine};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

/// What is still busy for longer than this is kept busy by somebody else.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);
/// Where administrators' programs are, which the PATH of others may lack.
const SBIN: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where `program` is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(SBIN.iter().map(PathBuf::from));
    dirs.map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// The machine's memory.
pub(crate) fn memory() -> Bytes {
    let info = rustix::system::sysinfo();
    Bytes(info.totalram.saturating_mul(u64::from(info.mem_unit.max(1))))
}

/// A command that outlives Ctrl-C in the terminal: what it does is finished or undone, not broken off.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(find(program).unwrap_or_else(|| program.into()));
    command.stdin(Stdio::null()).process_group(0);
    command
}

/// Runs a program to its end; what it printed, stdout before stderr.
///
/// # Errors
/// When it cannot be started or fails: with what it said.
pub(crate) fn tool(program: &str, args: &[&str]) -> Result<String> {
    let output = command(program).args(args).output().with_context(|| format!("cannot run {program}"))?;
    let [said, complained] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).trim().to_owned());
    if output.status.success() {
        return Ok([said, complained].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n"));
    }
    let why = if complained.is_empty() { said } else { complained };
    let why = why.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    bail!("{program} {} failed: {why}", args.join(" "))
}

/// Mounts `source` on `point` with `options` as mount(8) takes them.
///
/// # Errors
/// As mount(2).
pub(crate) fn mount(source: &Path, point: &Path, kind: &str, options: &[&str]) -> Result<()> {
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
        Errno::NODEV => anyhow!("this kernel has no {kind}"),
        _ => anyhow!("cannot mount {kind} from {} on {}: {errno}", source.display(), point.display()),
    })
}

/// Unmounts what is on `dir` and below it. Whether there was anything.
///
/// # Errors
/// When something stays in use, with a name.
pub(crate) fn unmount(dir: &Path) -> Result<bool> {
    let machine = Machine::new();
    let points = machine.mount_points_in(dir);
    for point in &points {
        patiently(|| match rustix::mount::unmount(point, UnmountFlags::empty()) {
            // Files of a queue that was just closed are let go a moment later.
            Err(Errno::BUSY) => Ok(false),
            // Not mounted any more, or never.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(true),
            // The program behind it is gone: only this takes it away.
            Err(Errno::NOTCONN) => {
                rustix::mount::unmount(point, UnmountFlags::DETACH)?;
                Ok(true)
            }
            Err(errno) => Err(anyhow!("cannot unmount {}: {errno}", point.display())),
        })?
        .then_some(())
        .with_context(|| format!("{} is still in use; end what uses it (fuser -m tells)", point.display()))?;
    }
    Ok(!points.is_empty())
}

/// A loop device over `file`, past the page cache where that is possible.
///
/// # Errors
/// When the kernel gives none.
pub(crate) fn attach(file: &Path) -> Result<LoopOver> {
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
pub(crate) fn detach(path: &Path) -> Result<bool> {
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

/// Tries until it says yes, or [`PATIENCE_NS`] are over.
pub(crate) fn patiently(mut tried: impl FnMut() -> Result<bool>) -> Result<bool> {
    let until_ns = clock::now_ns() + PATIENCE_NS;
    loop {
        if tried()? {
            return Ok(true);
        }
        if clock::now_ns() > until_ns {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_quoted() {
        let error = tool("sh", &["-c", "echo one >&2; echo two >&2; exit 3"]).unwrap_err().to_string();
        assert!(error.ends_with("failed: one; two"), "{error}");
        assert_eq!(tool("sh", &["-c", "echo a; echo b >&2"]).unwrap(), "a\nb");
        assert!(tool("no-such-program", &[]).is_err() && find("no-such-program").is_none());
    }

    #[test]
    fn where_nothing_is_there_is_nothing_to_take_off() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!unmount(dir.path()).unwrap() && !detach(dir.path()).unwrap());
    }
}

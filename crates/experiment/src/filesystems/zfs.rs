//! The special needs of zfs: pools, properties that no mount shows, and, if the kernel has no zfs, a program
//! (`zfs-fuse`) that serves it and that we must start and stop.

use std::path::Path;

use anyhow::{Context as _, Result};

use qd1_system::journal::{Change, Journal};
use qd1_system::tool;

pub(super) const NAME: &str = "zfs";
/// The program that serves zfs when the kernel has none.
const FUSE: &str = "zfs-fuse";
/// Properties worth recording.
const PROPERTIES: &str = "recordsize,logbias,atime,compression,checksum,primarycache";

/// Returns true if the kernel has zfs.
fn in_kernel() -> bool {
    Path::new("/sys/module/zfs").exists() || tool::tool("modprobe", &["-n", "-q", NAME]).is_ok()
}

/// Returns true if the kernel or a program answers `zpool`.
fn is_served() -> bool {
    tool::tool("zpool", &["list", "-H"]).is_ok()
}

/// Returns why zfs is not available here; `None` when it is.
pub(super) fn missing() -> Option<String> {
    let available = in_kernel() || tool::find(FUSE).is_some();
    (!available)
        .then(|| format!("this kernel does not support zfs, and {FUSE} is not installed (Debian package zfs-fuse)"))
}

/// Returns the implementation and its version.
pub(super) fn version() -> String {
    if let Some(module) = std::fs::read_to_string("/sys/module/zfs/version").ok().filter(|_| in_kernel()) {
        return format!("zfs {}", module.trim());
    }
    let pools = tool::tool("zpool", &["upgrade", "-v"]).unwrap_or_default();
    let pools = pools.lines().find_map(|line| line.split("version ").nth(1)).unwrap_or_default();
    let pools = pools.trim_end_matches(['.', ' ']);
    if in_kernel() { "zfs".to_owned() } else { format!("{FUSE}, in user space, pool version {pools}") }
}

/// Starts the program that serves zfs, if one is needed and none runs.
///
/// # Errors
/// When it does not answer.
pub(super) fn serve(scratch: &Path, journal: &mut Journal) -> Result<()> {
    if is_served() {
        return Ok(());
    }
    if in_kernel() {
        tool::tool("modprobe", &[NAME])?;
        return Ok(());
    }
    let pidfile = scratch.join("zfs-fuse.pid");
    let log = std::fs::File::create(scratch.join("zfs-fuse.log"))?;
    journal.note(Change::Daemon { program: FUSE.to_owned(), pidfile: pidfile.clone() })?;
    let program = tool::find(FUSE).with_context(|| format!("{FUSE} is no longer installed"))?;
    // The shell records its process id before it executes the program, so that the program never runs without our
    // knowledge. The program bypasses the page cache of its disk, as filesystems in the kernel do.
    let mut shell = tool::command("sh");
    shell.args(["-c", "echo $$ > \"$1\" && exec \"$0\" --no-daemon --no-kstat-mount --disable-block-cache"]);
    shell.arg(&program).arg(&pidfile).current_dir("/").stdout(log.try_clone()?).stderr(log);
    shell.spawn().with_context(|| format!("cannot start {FUSE}"))?;
    tool::retry_while_busy(|| Ok(is_served()))?.then_some(()).with_context(|| format!("{FUSE} does not answer"))
}

/// Completes the command that creates a pool called `pool` with its filesystem at `dir`.
pub(super) fn complete(command: &mut Vec<String>, pool: &str, dir: &str, properties: &[&str]) {
    let device = command.pop().expect("the command ends with the device");
    command.extend(properties.iter().flat_map(|property| ["-O".to_owned(), (*property).to_owned()]));
    command.extend(["-m", dir, pool].map(str::to_owned));
    command.push(device);
}

/// Returns the properties in effect, for the Record.
pub(super) fn properties(pool: &str) -> Vec<String> {
    let text = tool::tool("zfs", &["get", "-H", "-o", "property,value", PROPERTIES, pool]).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once('\t')).map(|(name, value)| format!("{name}={value}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_and_directory_of_a_pool_precede_the_device() {
        let mut command = vec!["zpool".to_owned(), "create".to_owned(), "/dev/x".to_owned()];
        complete(&mut command, "qd1_1", "/d", &["atime=off"]);
        assert_eq!(command.join(" "), "zpool create -O atime=off -m /d qd1_1 /dev/x");
    }
}

//! What is special about zfs: pools, properties that no mount shows, and where the kernel has none a program (`zfs-fuse`) that
//! serves it and has to be started and ended by us.

use std::path::Path;

use anyhow::{Context as _, Result};

use qd1_system::journal::{Change, Journal};
use qd1_system::tool;

pub(super) const NAME: &str = "zfs";
/// The program where the kernel has no zfs.
const FUSE: &str = "zfs-fuse";
/// Properties worth recording.
const PROPERTIES: &str = "recordsize,logbias,atime,compression,checksum,primarycache";

/// Whether the kernel has it.
fn in_kernel() -> bool {
    Path::new("/sys/module/zfs").exists() || tool::tool("modprobe", &["-n", "-q", NAME]).is_ok()
}

/// Whether somebody answers to `zpool`.
fn is_served() -> bool {
    tool::tool("zpool", &["list", "-H"]).is_ok()
}

/// Why there is none here; nothing where there is.
pub(super) fn missing() -> Option<String> {
    let there = in_kernel() || tool::find(FUSE).is_some();
    (!there).then(|| format!("this kernel has no zfs, and {FUSE} is not installed (Debian package zfs-fuse)"))
}

/// What it is.
pub(super) fn version() -> String {
    if let Some(module) = std::fs::read_to_string("/sys/module/zfs/version").ok().filter(|_| in_kernel()) {
        return format!("zfs {}", module.trim());
    }
    let pools = tool::tool("zpool", &["upgrade", "-v"]).unwrap_or_default();
    let pools = pools.lines().find_map(|line| line.split("version ").nth(1)).unwrap_or_default();
    let pools = pools.trim_end_matches(['.', ' ']);
    if in_kernel() { "zfs".to_owned() } else { format!("{FUSE}, in user space, pool version {pools}") }
}

/// Starts the program that serves it, where one is needed and none runs.
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
    let program = tool::find(FUSE).with_context(|| format!("{FUSE} went away"))?;
    // The shell writes its number down before it becomes the program: at no moment does it run without our knowing. It goes
    // past the page cache to its disk, as filesystems in the kernel do.
    let mut shell = tool::command("sh");
    shell.args(["-c", "echo $$ > \"$1\" && exec \"$0\" --no-daemon --no-kstat-mount --disable-block-cache"]);
    shell.arg(&program).arg(&pidfile).current_dir("/").stdout(log.try_clone()?).stderr(log);
    shell.spawn().with_context(|| format!("cannot start {FUSE}"))?;
    tool::patiently(|| Ok(is_served()))?.then_some(()).with_context(|| format!("{FUSE} does not answer"))
}

/// The words that make a pool called `pool` with its filesystem at `dir`.
pub(super) fn rest(command: &mut Vec<String>, pool: &str, dir: &str, properties: &[&str]) {
    let device = command.pop().unwrap_or_default();
    command.extend(properties.iter().flat_map(|property| ["-O".to_owned(), (*property).to_owned()]));
    command.extend(["-m", dir, pool].map(str::to_owned));
    command.push(device);
}

/// Properties as they are, for the Record.
pub(super) fn properties(pool: &str) -> Vec<String> {
    let said = tool::tool("zfs", &["get", "-H", "-o", "property,value", PROPERTIES, pool]).unwrap_or_default();
    said.lines().filter_map(|line| line.split_once('\t')).map(|(name, value)| format!("{name}={value}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_made_with_its_properties_and_place_before_the_device() {
        let mut command = vec!["zpool".to_owned(), "create".to_owned(), "/dev/x".to_owned()];
        rest(&mut command, "qd1_1", "/d", &["atime=off"]);
        assert_eq!(command.join(" "), "zpool create -O atime=off -m /d qd1_1 /dev/x");
    }
}

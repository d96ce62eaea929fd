//! Directories and files for test disks: on a disk, in memory, or where every user can enter; filled with data that
//! does not compress.

use std::env;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use tempfile::TempDir;

use crate::interrupted;

const MIB: usize = 1 << 20;
const MEMORY: &str = "/dev/shm";
/// Free memory needed to create files there.
const MEMORY_MIN_BYTES: u64 = 1 << 30;

/// Not /tmp, which is often in memory.
const ELSEWHERE: &str = "/var/tmp";

/// `tmp` in the directory where cargo built this program, which cargo marks: it is on a disk.
fn build_tmp() -> Result<PathBuf> {
    let program = env::current_exe().context("cannot find this program")?;
    let Some(build) = program.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file()) else {
        return Ok(PathBuf::from(ELSEWHERE));
    };
    let dir = build.join("tmp");
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir)
}

fn made_in(dir: &Path) -> Result<TempDir> {
    let made = tempfile::Builder::new().prefix("qd1-lab-").tempdir_in(dir);
    made.with_context(|| format!("cannot make a directory in {}", dir.display()))
}

/// A directory on a disk, removed on drop.
///
/// # Errors
/// When it cannot be made.
pub fn temp_dir() -> Result<TempDir> {
    made_in(&build_tmp()?)
}

/// A directory in memory, if there is enough, removed on drop. A shared disk stalls at times, and a throttle does not
/// give back the time that was lost.
///
/// # Errors
/// When it cannot be made.
pub fn quiet_dir() -> Result<TempDir> {
    let free_bytes = rustix::fs::statvfs(MEMORY).map_or(0, |fs| fs.f_bavail * fs.f_frsize);
    let in_memory = (free_bytes > MEMORY_MIN_BYTES).then(|| made_in(Path::new(MEMORY)).ok()).flatten();
    in_memory.map_or_else(temp_dir, Ok)
}

/// A directory on a disk that every user can enter, removed on drop: next to the build if that is open to all.
///
/// # Errors
/// When it cannot be made.
pub fn open_dir() -> Result<TempDir> {
    let build = build_tmp()?;
    let is_open = |dir: &Path| fs::metadata(dir).is_ok_and(|found| found.permissions().mode() & 1 == 1);
    let dir = made_in(if build.ancestors().all(is_open) { &build } else { Path::new(ELSEWHERE) })?;
    open_up(dir.path())?;
    Ok(dir)
}

/// Lets a server of another user enter a directory.
///
/// # Errors
/// When its mode cannot be changed.
pub fn open_up(dir: &Path) -> Result<()> {
    let opened = fs::set_permissions(dir, Permissions::from_mode(0o755));
    opened.with_context(|| format!("cannot open {} to others", dir.display()))
}

/// Creates a file of this size, full of data that does not compress.
///
/// # Errors
/// When it cannot be written, or after a signal.
pub fn make_file(path: &Path, bytes: u64) -> Result<()> {
    let mut file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    fill(&mut file, bytes).with_context(|| format!("cannot fill {}", path.display()))
}

/// Fills a device that we created ourselves.
///
/// # Errors
/// When it cannot be written, or after a signal.
pub fn fill_device(device: &Path, bytes: u64) -> Result<()> {
    let mut file = OpenOptions::new().write(true).open(device).with_context(|| format!("cannot open {device:?}"))?;
    fill(&mut file, bytes).with_context(|| format!("cannot fill {}", device.display()))
}

/// Whether the file's filesystem supports direct I/O.
pub fn takes_direct(path: &Path) -> bool {
    let direct = OFlags::DIRECT.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(direct).open(path).is_ok()
}

fn fill(file: &mut File, bytes: u64) -> Result<()> {
    let mut block = vec![0_u8; MIB];
    let mut random = fastrand::Rng::with_seed(0x9e37_79b9_7f4a_7c15);
    let mut left = bytes;
    while left > 0 {
        interrupted()?;
        random.fill(&mut block);
        let n = usize::try_from(left).unwrap_or(MIB).min(MIB);
        file.write_all(&block[..n])?;
        left -= u64::try_from(n)?;
    }
    file.sync_all().context("cannot sync")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pages_of_a_filled_file_are_alike() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        make_file(&path, 3 * 1024 * 1024 + 4096).unwrap();
        let data = fs::read(&path).unwrap();
        assert_eq!(data.len(), 3 * 1024 * 1024 + 4096);
        let pages: std::collections::HashSet<_> = data.chunks(4096).collect();
        assert_eq!(pages.len(), data.len() / 4096);
    }

    #[test]
    fn a_directory_is_made_where_the_build_is() {
        let dir = temp_dir().unwrap();
        let build = dir.path().parent().and_then(Path::parent).unwrap();
        assert!(env::current_exe().unwrap().starts_with(build), "{dir:?}");
    }
}

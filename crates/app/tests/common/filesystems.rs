//! What the tests of `qd1 filesystems` share: where they may run, and what is left of a run.

use std::fs;
use std::path::Path;

use super::{Place, is_root, names};

/// Steps of 300 ms on disks of a few hundred MiB.
pub(crate) const TINY: [&str; 9] =
    ["--size", "16MiB", "--disk", "400MiB", "--runtime", "300ms", "--quiet", "--seed=7", "--in-memory"];

/// Whether filesystems can be made with these programs.
///
/// # Errors
/// What is missing.
pub(crate) fn can(programs: &[&str]) -> Result<(), String> {
    if !is_root() {
        return Err("filesystems are made by root".to_owned());
    }
    let is_there =
        |program: &&str| Path::new("/usr/sbin").join(program).exists() || Path::new("/sbin").join(program).exists();
    if let Some(missing) = programs.iter().find(|program| !is_there(program)) {
        return Err(format!("{missing} is not installed"));
    }
    if !Path::new("/dev/loop-control").exists() {
        return Err("no loop devices here".to_owned());
    }
    Ok(())
}

/// A place in memory where there is enough: a shared disk fills up, and is not equal to itself from one moment to the
/// next.
pub(crate) fn quiet() -> (tempfile::TempDir, Place) {
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |fs| fs.f_bavail * fs.f_frsize);
    let dir = (free > 6 << 30).then(|| tempfile::TempDir::new_in(memory).ok()).flatten();
    let dir = dir.unwrap_or_else(|| tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let place = Place::at(dir.path());
    (dir, place)
}

pub(crate) fn filesystems(place: &Place, args: &[&str]) -> assert_cmd::Command {
    let args = [&["filesystems", place.dir_str()], &TINY[..], args].concat();
    let mut command = assert_cmd::Command::from_std(place.real_time(&args));
    command.env("TMPDIR", place.dir());
    command
}

/// Mount points and files behind loop devices that lie in the place, which is also where temporary files go.
pub(crate) fn upon(place: &Place) -> Vec<String> {
    let dir = fs::canonicalize(place.dir()).unwrap();
    let dir = dir.to_str().unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(str::to_owned);
    let loops = fs::read_dir("/sys/block").unwrap().flatten();
    let loops = loops.filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok());
    mounts.chain(loops).filter(|path| path.starts_with(dir)).collect()
}

pub(crate) fn journals(place: &Place) -> Vec<String> {
    let dir = place.beside(".local/state/qd1/journal");
    if dir.exists() { names(&dir) } else { Vec::new() }
}

#[track_caller]
pub(crate) fn assert_nothing_left(place: &Place) {
    assert_eq!(upon(place), Vec::<String>::new());
    place.assert_empty();
    assert_eq!(journals(place), Vec::<String>::new());
}

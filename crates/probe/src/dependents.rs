//! What depends on a directory: mounts on it or below it, and loop devices over files in it. They must be removed
//! before the directory.

use std::path::{Path, PathBuf};

use crate::{Machine, names_in};

/// A loop device and the file behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopOver {
    /// `/dev/loop3`.
    pub device: PathBuf,
    /// The file as the kernel names it.
    pub file: PathBuf,
    /// Whether it bypasses the page cache.
    pub direct: bool,
}

impl Machine {
    /// Mount points at `dir` and below it, most recent mount first, so that they can be unmounted in this order.
    #[must_use]
    pub fn mount_points_in(&self, dir: &Path) -> Vec<PathBuf> {
        let dir = self.resolve(dir);
        let mut points: Vec<PathBuf> =
            self.mounts().into_iter().map(|mount| mount.point).filter(|point| point.starts_with(&dir)).collect();
        points.reverse();
        points
    }

    /// Loop devices over `path`, or over files below it.
    #[must_use]
    pub fn loops_over(&self, path: &Path) -> Vec<LoopOver> {
        let path = self.resolve(path);
        let devices = names_in(&self.below("/sys/block")).into_iter().filter(|name| name.starts_with("loop"));
        let over = devices.filter_map(|name| {
            let backing = self.text(format!("/sys/block/{name}/loop/backing_file"));
            // A file that has been removed in the meantime is still behind it.
            let file = PathBuf::from(backing.strip_suffix(" (deleted)").unwrap_or(&backing));
            let direct = self.text(format!("/sys/block/{name}/loop/dio")) == "1";
            let found = !backing.is_empty() && file.starts_with(&path);
            found.then(|| LoopOver { device: Path::new("/dev").join(name), file, direct })
        });
        over.collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::Fixture;

    use super::*;

    #[test]
    fn mounts_on_a_directory_are_listed_the_last_mounted_first() {
        let machine = Fixture::new()
            .file(
                "/proc/self/mountinfo",
                "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 7:0 / /srv/s rw - ext4 /dev/loop0 rw\n\
                 3 2 7:1 / /srv/s/in rw - xfs /dev/loop1 rw\n4 1 8:2 / /srv/simple rw - xfs /dev/sda2 rw\n",
            )
            .machine();
        let points = machine.mount_points_in(Path::new("/srv/s"));
        assert_eq!(points, [PathBuf::from("/srv/s/in"), PathBuf::from("/srv/s")]);
    }

    #[test]
    fn a_loop_device_is_found_by_its_removed_file_too() {
        let machine = Fixture::new()
            .file("/sys/block/loop0/loop/backing_file", "/srv/s/disk.img (deleted)\n")
            .file("/sys/block/loop0/loop/dio", "1\n")
            .file("/sys/block/loop1/loop/backing_file", "/srv/s/disk.img.old\n")
            .file("/sys/block/loop2/size", "0\n")
            .machine();
        let over = machine.loops_over(Path::new("/srv/s/disk.img"));
        let (device, file) = (PathBuf::from("/dev/loop0"), PathBuf::from("/srv/s/disk.img"));
        assert_eq!(over, [LoopOver { device, file, direct: true }]);
        assert_eq!(machine.loops_over(Path::new("/srv")).len(), 2);
    }
}

//! Names of control groups (version 2) by the kernel's id, which is the inode of the group's directory.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::Machine;

/// Most groups that are read.
const GROUPS_MAX: usize = 20_000;

impl Machine {
    /// Returns the names of all control groups in the form of `/proc/self/cgroup`; none if version 2 is not mounted.
    #[must_use]
    pub fn cgroup_names(&self) -> HashMap<u64, String> {
        let mut names = HashMap::new();
        let Some(mount) = self.mounts().into_iter().find(|mount| mount.kind == "cgroup2") else { return names };
        let root = self.below(&mount.point);
        let mut dirs: Vec<PathBuf> = vec![root.clone()];
        while let Some(dir) = dirs.pop().filter(|_| names.len() < GROUPS_MAX) {
            let Ok(found) = fs::metadata(&dir) else { continue };
            let inside = dir.strip_prefix(&root).unwrap_or(&dir);
            names.insert(found.ino(), format!("/{}", inside.display()));
            let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
            dirs.extend(
                entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()),
            );
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn groups_are_named_by_their_inodes() {
        let fixture = Fixture::new()
            .file("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
            .file("/sys/fs/cgroup/system.slice/postgresql.service/cgroup.procs", "1\n");
        let machine = fixture.machine();
        let dir = machine.below("/sys/fs/cgroup/system.slice/postgresql.service");
        let names = machine.cgroup_names();
        assert_eq!(names.len(), 3);
        assert_eq!(names[&fs::metadata(dir).unwrap().ino()], "/system.slice/postgresql.service");
    }
}

//! Limits that control groups (version 1 and 2) put on this process. Limits of parent groups count as well.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use qd1_model::units::Bytes;

use crate::Machine;
use crate::mounts::Mount;

/// Version 1 expresses "no limit" as the largest page-aligned number; no real limit comes near it.
const NO_LIMIT_MIN_BYTES: u64 = 1 << 60;

/// Files of `blkio` in version 1, and the keyword for each in version 2.
const THROTTLES: [(&str, &str); 4] = [
    ("blkio.throttle.read_bps_device", "rbps"),
    ("blkio.throttle.write_bps_device", "wbps"),
    ("blkio.throttle.read_iops_device", "riops"),
    ("blkio.throttle.write_iops_device", "wiops"),
];

/// The directories of one controller, from this process's group upwards.
struct Groups {
    is_v2: bool,
    dirs: Vec<PathBuf>,
}

impl Machine {
    /// The smallest memory limit on this process.
    pub(crate) fn cgroup_memory_max(&self) -> Option<Bytes> {
        let groups = self.groups("self", "memory")?;
        let file = if groups.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
        let limits = groups.dirs.iter().filter_map(|dir| self.number::<u64>(dir.join(file)));
        limits.filter(|limit| *limit < NO_LIMIT_MIN_BYTES).min().map(Bytes)
    }

    /// The I/O limits on this process, each as version 2 words it: `8:0 rbps=max wbps=1048576 riops=max wiops=max`.
    pub(crate) fn cgroup_io_limits(&self) -> Vec<String> {
        self.io_limits_of("self")
    }

    /// Returns the limits on what a process may write to a disk, in words of version 2: `wbps=1048576`; empty without any.
    #[must_use]
    pub fn write_limits(&self, pid: u32, (major, minor): (u32, u32)) -> String {
        let device = format!("{major}:{minor} ");
        let all = self.io_limits_of(&pid.to_string());
        let words = all.iter().filter_map(|line| line.strip_prefix(&device)).flat_map(str::split_whitespace);
        // That of the group, or of one above it: the smallest holds.
        let mut smallest: BTreeMap<&str, u64> = BTreeMap::new();
        for (key, limit) in words.filter_map(|word| word.split_once('=')).filter(|(key, _)| key.starts_with('w')) {
            if let Ok(limit) = limit.parse::<u64>() {
                smallest.entry(key).and_modify(|known| *known = limit.min(*known)).or_insert(limit);
            }
        }
        smallest.into_iter().map(|(key, limit)| format!("{key}={limit}")).collect::<Vec<_>>().join(" ")
    }

    fn io_limits_of(&self, process: &str) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        if let Some(groups) = self.groups(process, "io").filter(|groups| groups.is_v2) {
            for dir in &groups.dirs {
                lines.extend(self.text(dir.join("io.max")).lines().map(str::to_owned));
            }
        }
        if let Some(groups) = self.groups(process, "blkio").filter(|groups| !groups.is_v2) {
            for dir in &groups.dirs {
                lines.extend(self.throttles(dir));
            }
        }
        let mut unique: Vec<String> = Vec::new();
        for line in lines {
            if !line.is_empty() && !unique.contains(&line) {
                unique.push(line);
            }
        }
        unique
    }

    fn throttles(&self, dir: &Path) -> Vec<String> {
        let mut devices: BTreeMap<String, [Option<String>; 4]> = BTreeMap::new();
        for (at, (file, _)) in THROTTLES.iter().enumerate() {
            for line in self.text(dir.join(file)).lines() {
                if let Some((device, limit)) = line.split_once(' ') {
                    devices.entry(device.to_owned()).or_default()[at] = Some(limit.trim().to_owned());
                }
            }
        }
        let word = |(device, limits): (String, [Option<String>; 4])| {
            let pairs = THROTTLES.iter().zip(limits);
            let texts = pairs.map(|((_, key), limit)| format!("{key}={}", limit.as_deref().unwrap_or("max")));
            format!("{device} {}", texts.collect::<Vec<_>>().join(" "))
        };
        devices.into_iter().map(word).collect()
    }

    fn groups(&self, process: &str, controller: &str) -> Option<Groups> {
        let text = self.text(format!("/proc/{process}/cgroup"));
        let mut unified = None;
        let mounts = self.mounts();
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            if controllers.split(',').any(|name| name == controller) {
                let has =
                    |mount: &&Mount| mount.kind == "cgroup" && mount.super_options.iter().any(|o| o == controller);
                return Some(Groups { is_v2: false, dirs: dirs(mounts.iter().find(has)?, path) });
            }
            if id == "0" && controllers.is_empty() {
                unified = Some(path);
            }
        }
        let mount = mounts.iter().find(|mount| mount.kind == "cgroup2")?;
        Some(Groups { is_v2: true, dirs: dirs(mount, unified?) })
    }
}

/// The group's directory and all above it. In a container the mount shows only a part of the tree (its `root`), and a
/// group outside the namespace is written with `..`: then the mount point is all that can be seen.
fn dirs(mount: &Mount, path: &str) -> Vec<PathBuf> {
    let inside = Path::new(path).strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let hidden = inside.components().any(|part| part == std::path::Component::ParentDir);
    let inside = if hidden { Path::new("") } else { inside };
    inside.ancestors().map(|part| mount.point.join(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn v2(group: &str) -> Fixture {
        Fixture::new()
            .file("/proc/self/cgroup", &format!("0::{group}\n"))
            .file("/proc/self/mountinfo", "31 1 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    }

    fn v1(group: &str, root: &str) -> Fixture {
        let mounts = format!(
            "34 1 0:31 {root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             38 1 0:35 {root} /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
             41 1 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        );
        Fixture::new()
            .file("/proc/self/cgroup", &format!("7:blkio:{group}\n4:memory:{group}\n0::/\n"))
            .file("/proc/self/mountinfo", &mounts)
    }

    #[test]
    fn the_smallest_write_limit_of_a_group_and_those_above_holds() {
        let fixture = Fixture::new()
            .file("/proc/77/cgroup", "0::/a/b\n")
            .file("/proc/self/mountinfo", "31 1 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
            .file("/sys/fs/cgroup/a/io.max", "8:0 rbps=max wbps=1000 riops=10 wiops=max\n")
            .file("/sys/fs/cgroup/a/b/io.max", "8:0 rbps=max wbps=2000 riops=max wiops=50\n8:16 wbps=1\n");
        let machine = fixture.machine();
        assert_eq!(machine.write_limits(77, (8, 0)), "wbps=1000 wiops=50");
        assert_eq!(machine.write_limits(77, (9, 0)), "");
    }

    #[test]
    fn the_smallest_memory_limit_on_the_way_up_counts() {
        let machine = v2("/system.slice/x.service")
            .file("/sys/fs/cgroup/system.slice/x.service/memory.max", "max\n")
            .file("/sys/fs/cgroup/system.slice/memory.max", "1073741824\n")
            .machine();
        assert_eq!(machine.cgroup_memory_max(), Some(Bytes::gib(1)));
    }

    #[test]
    fn io_max_is_given_as_the_kernel_words_it() {
        let line = "8:0 rbps=max wbps=1048576 riops=max wiops=max";
        let machine = v2("/a").file("/sys/fs/cgroup/a/io.max", &format!("{line}\n")).machine();
        assert_eq!(machine.cgroup_io_limits(), [line]);
    }

    #[test]
    fn version_1_throttles_are_worded_like_version_2() {
        let machine = v1("/t", "/")
            .file("/sys/fs/cgroup/blkio/t/blkio.throttle.write_iops_device", "7:0 500\n")
            .file("/sys/fs/cgroup/blkio/t/blkio.throttle.read_bps_device", "7:0 1000\n")
            .file("/sys/fs/cgroup/memory/t/memory.limit_in_bytes", "9223372036854771712\n")
            .machine();
        assert_eq!(machine.cgroup_io_limits(), ["7:0 rbps=1000 wbps=max riops=max wiops=500"]);
        assert_eq!(machine.cgroup_memory_max(), None);
    }

    #[test]
    fn a_container_sees_its_group_at_the_mount_point() {
        let machine = v1("/docker/abc", "/docker/abc")
            .file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n")
            .machine();
        assert_eq!(machine.cgroup_memory_max(), Some(Bytes::mib(512)));
    }

    #[test]
    fn a_group_outside_the_namespace_falls_back_to_the_mount_point() {
        let machine = v2("/../other").file("/sys/fs/cgroup/memory.max", "4096\n").machine();
        assert_eq!(machine.cgroup_memory_max(), Some(Bytes(4096)));
    }

    #[test]
    fn no_control_groups_mean_no_limits() {
        let machine = Fixture::new().machine();
        assert_eq!(machine.cgroup_memory_max(), None);
        assert!(machine.cgroup_io_limits().is_empty());
    }
}

//! What each process read from disks and changed, by the kernel's accounts.

use crate::{Machine, text_of};

/// Counters of the threads that a process has, since they started: `/proc/PID/task/TID/io`. Those of the process,
/// `/proc/PID/io`, take over what its children did, once they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessIo {
    /// Process id.
    pub pid: u32,
    /// When it started, in ticks since the machine did; two processes of one id differ in it.
    pub started: u64,
    /// Name of its main thread.
    pub comm: String,
    /// Bytes that it read from disks.
    pub read_bytes: u64,
    /// Bytes that it changed in memory or wrote directly.
    pub write_bytes: u64,
}

impl Machine {
    /// Reads the counters of all processes whose counters this user may read: all for root, otherwise its own.
    #[must_use]
    pub fn process_io(&self) -> Vec<ProcessIo> {
        let entries = std::fs::read_dir(self.below("/proc")).into_iter().flatten().flatten();
        let pid = |entry: std::fs::DirEntry| entry.file_name().to_str().and_then(|name| name.parse().ok());
        entries.filter_map(pid).filter_map(|pid| self.io_of(pid)).collect()
    }

    fn io_of(&self, pid: u32) -> Option<ProcessIo> {
        let dir = self.below(format!("/proc/{pid}"));
        let (mut read_bytes, mut write_bytes) = (0, 0);
        for thread in std::fs::read_dir(dir.join("task")).ok()?.flatten() {
            // Not that of another user.
            let io = std::fs::read_to_string(thread.path().join("io")).ok()?;
            let of = |name: &str| {
                let line = io.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                line.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
            };
            read_bytes += of("read_bytes");
            write_bytes += of("write_bytes");
        }
        if read_bytes + write_bytes == 0 {
            return None;
        }
        // The name is in parentheses and may have any letters.
        let stat = text_of(&dir.join("stat"));
        let (head, fields) = stat.rsplit_once(") ")?;
        let comm = head.split_once('(')?.1.to_owned();
        let started = fields.split(' ').nth(19)?.parse().ok()?;
        Some(ProcessIo { pid, started, comm, read_bytes, write_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn accounts_are_read_whatever_the_name_is() {
        let fields = (0..19).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let stat = format!("812 (a) b (c) {fields} 4242 0\n");
        let io =
            "rchar: 9\nwchar: 9\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n";
        let fixture = Fixture::new()
            .file("/proc/812/task/812/io", io)
            .file("/proc/812/task/813/io", io)
            .file("/proc/812/stat", &stat)
            .file("/proc/900/task/900/io", "read_bytes: 0\nwrite_bytes: 0\n")
            .file("/proc/900/stat", &stat)
            .file("/proc/self/task/1/io", io);
        let found = fixture.machine().process_io();
        let wanted =
            ProcessIo { pid: 812, started: 4242, comm: "a) b (c".to_owned(), read_bytes: 8192, write_bytes: 16_384 };
        assert_eq!(found, [wanted]);
    }
}

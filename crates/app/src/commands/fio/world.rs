//! The outside world of fio's command line: files, the environment, the machine.

use std::io::{self, Read as _};
use std::path::Path;

use qd1_fio::{Limits, System, World};
use qd1_system::inputs;

/// The real world.
pub(crate) struct RealWorld;

impl World for RealWorld {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let limit = Limits::FILE_BYTES as u64 + 1;
        let mut bytes = Vec::new();
        if path == Path::new("-") {
            io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
        } else {
            inputs::note(path);
            std::fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    }

    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn system(&self) -> System {
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = total.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
        System {
            ncpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
            mb_memory: kib.unwrap_or(0) / 1024,
            pagesize: rustix::param::page_size() as u32,
        }
    }
}

/// Formats a wall-clock time as ctime(3) does, in the local time zone: `Sat Nov 21 23:08:55 2026`.
pub(crate) fn ctime(wall_ns: u64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(wall_ns)).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%a %b %e %H:%M:%S %Y").to_string()
}

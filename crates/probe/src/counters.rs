//! The kernel's counters: of a block device, of the machine, of the calling thread.
//!
//! They are read in every interval of a run, during the measurement, so nothing here reads a whole file into a new
//! allocation or scans more text than it needs.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use qd1_model::environment::{DeviceCounters, MachineCounters, ThreadCost, ThreadTime, Writeback};
use rustix::time::{ClockId, clock_gettime};

use crate::Machine;
use crate::block::SECTOR_BYTES;

/// Fields of the oldest layout understood (Linux 2.6); 4.18 has 15, 5.5 has 17 (`Documentation/ABI`, `stat`).
const FIELDS_MIN: usize = 11;
const FIELDS_MAX: usize = 17;

impl Machine {
    /// The counters of the device or partition with this kernel name (`vda`, `nvme0n1p2`, `cciss/c0d0`), summed since
    /// boot. `None` when it does not exist or keeps none.
    #[must_use]
    pub fn device_counters(&self, name: &str) -> Option<DeviceCounters> {
        if name.is_empty() || name.starts_with(['.', '/']) {
            return None;
        }
        let mut path = self.below("/sys/class/block");
        if name.contains('/') {
            path.push(name.replace('/', "!"));
        } else {
            path.push(name);
        }
        path.push("stat");
        let mut buffer = [0; 512];
        match read_start(&path, &mut buffer) {
            Some(text) => parse_stat(text.split_ascii_whitespace()),
            None => find_in_diskstats(&self.text("/proc/diskstats"), name),
        }
    }

    /// Processor time and pressure of the whole machine since boot. Zero, or no pressure, where they cannot be read.
    #[must_use]
    pub fn machine_counters(&self) -> MachineCounters {
        let mut buffer = [0; 512];
        let text = read_start(&self.below("/proc/stat"), &mut buffer).unwrap_or_default();
        let line = text.lines().next().and_then(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        // user nice system idle iowait irq softirq steal. The guest times after these are already included in user.
        let mut fields = [0u64; 8];
        for (field, word) in fields.iter_mut().zip(line.split_ascii_whitespace()) {
            *field = word.parse().unwrap_or(0);
        }
        MachineCounters {
            cpu_total_ticks: fields.iter().sum(),
            cpu_steal_ticks: fields[7],
            cpu_idle_ticks: fields[3] + fields[4],
            pressure_us: self.pressure_us(),
        }
    }
}

impl Machine {
    /// Time in which at least one task waited since boot, us: disks, memory, processor; `None` without PSI.
    pub(crate) fn pressure_us(&self) -> Option<[u64; 3]> {
        let pressure = |name: &str| {
            let mut buffer = [0; 256];
            let text = read_start(&self.below("/proc/pressure").join(name), &mut buffer)?;
            let some = text.lines().find(|line| line.starts_with("some "))?;
            some.rsplit_once("total=")?.1.trim().parse::<u64>().ok()
        };
        Some([pressure("io")?, pressure("memory")?, pressure("cpu")?])
    }

    /// Data in memory waiting to be written to disks; `None` where it cannot be read.
    #[must_use]
    pub fn writeback(&self) -> Option<Writeback> {
        // Both are about 500 bytes into it.
        let mut buffer = [0; 1536];
        let text = read_start(&self.below("/proc/meminfo"), &mut buffer)?;
        let bytes = |name: &str| {
            let kib = text.lines().find_map(|line| line.strip_prefix(name))?.trim().strip_suffix(" kB")?;
            kib.parse::<u64>().ok().map(|kib| kib.saturating_mul(1024))
        };
        Some(Writeback { dirty_bytes: bytes("Dirty:")?, writeback_bytes: bytes("Writeback:")? })
    }
}

/// What the calling thread has cost so far. The run delay is 0 on kernels without `CONFIG_SCHED_INFO`.
#[must_use]
pub fn thread_cost() -> ThreadCost {
    let usage = thread_usage();
    let ns = |time: libc::timeval| count(time.tv_sec) * 1_000_000_000 + count(time.tv_usec) * 1000;
    let mut buffer = [0; 128];
    let schedstat = read_start(Path::new("/proc/thread-self/schedstat"), &mut buffer).unwrap_or_default();
    ThreadCost {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        // Time on a processor, time waiting for one (ns), timeslices (kernel documentation, `sched-stats`).
        run_delay_ns: schedstat.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        major_faults: count(usage.ru_majflt),
        minor_faults: count(usage.ru_minflt),
    }
}

/// Most that a reading between two requests may take, ns.
const READING_MAX_NS: u64 = 5_000;

/// The clock of a thread, [`thread_time`]; `None` where the kernel does not count waits for a processor, or where a
/// reading would take too long between requests.
#[must_use]
pub fn thread_clock() -> Option<fn() -> ThreadTime> {
    const READINGS: usize = 21;
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    // A running thread has been given a processor.
    if counted.split_whitespace().all(|count| count == "0") {
        return None;
    }
    let now_ns = || {
        let now = clock_gettime(ClockId::Monotonic);
        count(now.tv_sec) * 1_000_000_000 + count(now.tv_nsec)
    };
    let took_ns = |_| {
        let begin_ns = now_ns();
        let _ = thread_time();
        now_ns() - begin_ns
    };
    // The quickest one: a busy moment must not leave a visit, and with it the step, without readings.
    let took_ns = (0..READINGS).map(took_ns).min();
    took_ns.filter(|took_ns| *took_ns <= READING_MAX_NS).map(|_| thread_time as fn() -> ThreadTime)
}

/// Time of the calling thread so far; its waiting time is 0 ns on kernels without `CONFIG_SCHED_INFO`. Takes two system
/// calls, since the file stays open.
#[must_use]
pub fn thread_time() -> ThreadTime {
    let worked = clock_gettime(ClockId::ThreadCPUTime);
    ThreadTime { worked_ns: count(worked.tv_sec) * 1_000_000_000 + count(worked.tv_nsec), waited_ns: run_delay_ns() }
}

/// How long it has waited for a processor.
fn run_delay_ns() -> u64 {
    thread_local! {
        static SCHEDSTAT: Option<File> = File::open("/proc/thread-self/schedstat").ok();
    }
    SCHEDSTAT.with(|file| {
        let mut text = [0; 64];
        let length = file.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let mut words = text[..length].split(u8::is_ascii_whitespace);
        let digits = words.nth(1).unwrap_or_default();
        digits.iter().filter(|digit| digit.is_ascii_digit()).fold(0, |sum, digit| 10 * sum + u64::from(digit - b'0'))
    })
}

/// A count the C library keeps in a signed integer whose width depends on the platform.
fn count(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(0)
}

fn thread_usage() -> libc::rusage {
    // SAFETY: rusage is plain integers, for which all zeroes is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a writable rusage that outlives the call; the kernel writes nothing else.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage
}

/// The first bytes of a file as text, up to the last character that fits.
fn read_start<'a>(path: &Path, buffer: &'a mut [u8]) -> Option<&'a str> {
    let mut file = File::open(path).ok()?;
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    let text = &buffer[..filled];
    match std::str::from_utf8(text) {
        Ok(text) => Some(text),
        Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).ok(),
    }
}

fn find_in_diskstats(text: &str, name: &str) -> Option<DeviceCounters> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.nth(2)? == name).then(|| parse_stat(words))?
    })
}

/// The fields of a line of `/proc/diskstats` after the name, or of `stat` in sysfs; those that an older kernel lacks
/// are
/// 0. `None` if there are fewer than any kernel writes.
pub(crate) fn stat_fields<'a>(words: impl Iterator<Item = &'a str>) -> Option<[u64; FIELDS_MAX]> {
    let mut fields = [0u64; FIELDS_MAX];
    let mut found = 0;
    for (field, word) in fields.iter_mut().zip(words) {
        *field = word.parse().ok()?;
        found += 1;
    }
    (found >= FIELDS_MIN).then_some(fields)
}

fn parse_stat<'a>(words: impl Iterator<Item = &'a str>) -> Option<DeviceCounters> {
    let f = stat_fields(words)?;
    // Index 8 is the number in flight, index 12 merged discards: neither is a total that a report needs.
    Some(DeviceCounters {
        reads: f[0],
        read_merges: f[1],
        read_bytes: f[2].saturating_mul(SECTOR_BYTES),
        read_ticks_ms: f[3],
        writes: f[4],
        write_merges: f[5],
        write_bytes: f[6].saturating_mul(SECTOR_BYTES),
        write_ticks_ms: f[7],
        busy_ms: f[9],
        queue_ms: f[10],
        discards: f[11],
        discard_bytes: f[13].saturating_mul(SECTOR_BYTES),
        flushes: f[15],
        flush_ticks_ms: f[16],
    })
}

/// Returns the bytes that this process has caused to be read from storage, page cache left out (`read_bytes` of
/// `/proc/self/io`); `None` where the kernel does not count them.
pub fn storage_read_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::{self, Fixture};

    const STAT: &str = "   28988     6236  3574234     8161     9477    16623  2577648     4601        7     4080    12978     \
         4030       11   353816      197      899       18\n";

    #[test]
    fn all_seventeen_fields_land_in_their_places() {
        let machine = fixture::virtio().file("/sys/devices/pci0000:00/virtio1/block/vda/stat", STAT).machine();
        let expected = DeviceCounters {
            reads: 28988,
            read_merges: 6236,
            read_bytes: 3_574_234 * 512,
            read_ticks_ms: 8161,
            writes: 9477,
            write_merges: 16623,
            write_bytes: 2_577_648 * 512,
            write_ticks_ms: 4601,
            busy_ms: 4080,
            queue_ms: 12978,
            discards: 4030,
            discard_bytes: 353_816 * 512,
            flushes: 899,
            flush_ticks_ms: 18,
        };
        assert_eq!(machine.device_counters("vda"), Some(expected));
    }

    #[test]
    fn dirty_pages_are_bytes_and_not_those_of_the_lines_that_begin_alike() {
        let text =
            "MemFree:  20 kB\nDirty:               120 kB\nWriteback:             8 kB\nWritebackTmp:          3 kB\n";
        let machine = Fixture::new().file("/proc/meminfo", text).machine();
        assert_eq!(machine.writeback(), Some(Writeback { dirty_bytes: 120 << 10, writeback_bytes: 8 << 10 }));
        assert_eq!(Fixture::new().file("/proc/meminfo", "MemFree: 20 kB\n").machine().writeback(), None);
    }

    #[test]
    fn older_kernels_have_no_discards_or_flushes() {
        let parse = |text: &str| parse_stat(text.split_ascii_whitespace());
        let eleven = parse("1 2 3 4 5 6 7 8 9 10 11").unwrap();
        assert_eq!((eleven.queue_ms, eleven.discards, eleven.flushes), (11, 0, 0));
        let fifteen = parse("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15").unwrap();
        assert_eq!((fifteen.discards, fifteen.discard_bytes, fifteen.flushes), (12, 14 * 512, 0));
        assert_eq!(parse("1 2 3 4"), None);
        assert_eq!(parse("1 2 3 4 5 six 7 8 9 10 11"), None);
    }

    #[test]
    fn without_sysfs_the_counters_come_from_diskstats() {
        let text = " 254       0 vda 1 2 3 4 5 6 7 8 9 10 11\n 254       1 vda1 9 2 3 4 5 6 7 8 9 10 11\n";
        let machine = Fixture::new().file("/proc/diskstats", text).machine();
        assert_eq!(machine.device_counters("vda1").unwrap().reads, 9);
        assert_eq!(machine.device_counters("vd"), None);
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        let machine = fixture::virtio().machine();
        for name in ["", "../class/block/vda", "/etc", "."] {
            assert_eq!(machine.device_counters(name), None, "{name}");
        }
    }

    #[test]
    fn guest_time_is_not_counted_twice() {
        let machine = Fixture::new().file("/proc/stat", "cpu  10 20 30 40 50 60 70 80 10 20\ncpu0 1\n").machine();
        let counters = machine.machine_counters();
        assert_eq!((counters.cpu_total_ticks, counters.cpu_steal_ticks, counters.cpu_idle_ticks), (360, 80, 90));
        let busy = counters.busy_since(&MachineCounters::default());
        assert!((busy - 190.0 / 360.0).abs() < 1e-9, "{busy}");
        assert_eq!(counters.pressure_us, None);
    }

    #[test]
    fn pressure_is_the_total_of_some_stalled() {
        let psi = |total: u32| {
            let zero = "avg10=0.00 avg60=0.00 avg300=0.00";
            format!("some {zero} total={total}\nfull {zero} total=9\n")
        };
        let machine = Fixture::new()
            .file("/proc/pressure/io", &psi(1))
            .file("/proc/pressure/memory", &psi(2))
            .file("/proc/pressure/cpu", &psi(3))
            .machine();
        assert_eq!(machine.machine_counters().pressure_us, Some([1, 2, 3]));
    }

    #[test]
    fn a_thread_that_works_costs_processor_time() {
        let before = thread_cost();
        let mut sum = 0u64;
        // Some kernels account by tick, so work continues until one was seen.
        for round in 0..1_000_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(round));
            let cost = || thread_cost().since(&before);
            if round % 1_000_000 == 0 && cost().user_ns + cost().system_ns > 1_000_000 {
                return;
            }
        }
        panic!("no processor time was seen");
    }

    #[test]
    fn a_threads_wait_for_a_processor_is_what_schedstat_says() {
        let seen = || (thread_time().waited_ns, thread_cost().run_delay_ns, thread_time().waited_ns);
        // No thread waits longer between two readings than between the two around them.
        let ordered = |(before, whole, after): (u64, u64, u64)| before <= whole && whole <= after;
        assert!((0..100).all(|_| ordered(seen())), "{:?}", seen());
        // Another thread has its own.
        let other = std::thread::spawn(move || ordered(seen())).join().unwrap();
        assert!(other);
    }

    #[test]
    fn where_the_kernel_counts_waits_there_is_a_clock() {
        let counted =
            std::fs::read_to_string("/proc/thread-self/schedstat").is_ok_and(|text| !text.starts_with("0 0 0"));
        assert!(!counted || (0..10).any(|_| thread_clock().is_some()));
    }

    #[test]
    fn a_thread_works_or_sleeps() {
        let before = thread_time();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let asleep = thread_time();
        assert!(asleep.worked_ns - before.worked_ns < 25_000_000, "{before:?} {asleep:?}");
        // It also counts the work since the last tick.
        let steps = (0..1000).map(|_| thread_time().worked_ns).collect::<Vec<_>>();
        assert!(steps.is_sorted_by(|one, next| one < next), "{steps:?}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[ -~\\n]{0,300}") {
            let _ = find_in_diskstats(&text, "vda");
            let machine = Fixture::new().file("/proc/stat", &text).file("/proc/pressure/io", &text).machine();
            let _ = machine.machine_counters();
        }
    }
}

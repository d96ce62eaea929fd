//! What both captures share: the kernel's version, the system calls that sync, and loading and attaching programs.

use std::io::Read as _;

use anyhow::{Context as _, Result};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader};
use qd1_model::requests::Sync;
use rustix::system::uname;

/// First kernel in which tracepoints of requests and bios do not have the queue as their first argument.
const ALONE_SINCE: (u32, u32) = (5, 11);
/// Programs whose tracepoint changed then, with the switch that says so.
const CHANGED: [(&str, &str, &str); 2] =
    [("rq_issue", "block_rq_issue", "rq_is_second"), ("bio_begins", "block_bio_queue", "bio_is_second")];
/// First kernel that reports when a request is created.
const START_SINCE: (u32, u32) = (6, 5);
/// First kernel whose tracepoints of io_uring describe the request.
const RING_SINCE: (u32, u32) = (6, 0);
/// First kernel in which the tracepoint of a submission has another name.
const RING_RENAMED: (u32, u32) = (6, 3);
/// System calls and their names, in the order of the programs' numbers: those that make files durable, then those that
/// write, then those that read. A call of the last two kinds is reported if it is durable, or bypasses the page cache.
const CALLS: [(i64, &str); 16] = [
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_fdatasync, "fdatasync"),
    (libc::SYS_sync_file_range, "sync_file_range"),
    (libc::SYS_syncfs, "syncfs"),
    (libc::SYS_msync, Sync::MSYNC),
    (libc::SYS_sync, "sync"),
    (libc::SYS_write, WRITE),
    (libc::SYS_pwrite64, WRITE),
    (libc::SYS_writev, WRITE),
    (libc::SYS_pwritev, WRITE),
    (libc::SYS_pwritev2, WRITE),
    (libc::SYS_read, READ),
    (libc::SYS_pread64, READ),
    (libc::SYS_readv, READ),
    (libc::SYS_preadv, READ),
    (libc::SYS_preadv2, READ),
];
const WRITE: &str = "write";
const READ: &str = "read";
/// Added to the number of a call that is reported because it bypasses the page cache: `DIRECT` of the programs.
const DIRECT: u32 = 0x100;
/// Numbers of system calls are smaller: `SYSTEM_CALLS` of the programs.
const SYSTEM_CALLS: usize = 512;

/// Returns the name of a call by the programs' number.
pub(crate) fn call_name(number: u32) -> &'static str {
    let name = CALLS.get((number & !DIRECT) as usize).map_or(WRITE, |(_, name)| *name);
    match name {
        READ => Sync::DIRECT_READ,
        WRITE if number & DIRECT != 0 => Sync::DIRECT_WRITE,
        name => name,
    }
}

/// The programs' number of each system call, and one; 0 for those that are not reported.
fn calls() -> [u8; SYSTEM_CALLS] {
    let mut numbers = [0; SYSTEM_CALLS];
    for (number, (call, _)) in (1..).zip(CALLS) {
        numbers[call as usize] = number;
    }
    numbers
}

/// A disk by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number of the whole disk.
    pub minor: u32,
}

impl Device {
    /// Returns the number as the programs encode it.
    pub(crate) const fn number(self) -> u32 {
        self.major << 20 | self.minor
    }
}

/// A value that is set before loading.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    /// 32 bits.
    Word(u32),
    /// 64 bits.
    Long(u64),
}

impl From<bool> for Value {
    fn from(is_on: bool) -> Self {
        Self::Word(u32::from(is_on))
    }
}

/// Loads the programs of `object` for `device`, or for all devices, with its switches set as in `switches` and its
/// maps sized as in `sizes`.
///
/// # Errors
/// If the kernel or this user's privileges do not allow it.
pub(crate) fn load(
    object: &[u8],
    device: Option<Device>,
    switches: &[(&str, Value)],
    sizes: &[(&str, u32)],
) -> Result<(Ebpf, Btf)> {
    let object = &inflated(object)?;
    let btf = Btf::from_sys_fs().context("the kernel has no BTF type information")?;
    let is_older = kernel_version() < ALONE_SINCE;
    let older = if is_older { older_tracepoints(object, &btf)? } else { Vec::new() };
    let number = device.map_or(0, Device::number);
    let calls = calls();
    let mut loader = EbpfLoader::new();
    loader.override_global("device", &number, true).override_global("calls", &calls, true);
    older.iter().for_each(|switch| _ = loader.override_global(switch, &1u32, true));
    // The helper function for it came with the same release.
    let task_has_btf = u32::from(!is_older);
    loader.override_global("task_has_btf", &task_has_btf, true);
    for (switch, value) in switches {
        match value {
            Value::Word(value) => loader.override_global(switch, value, true),
            Value::Long(value) => loader.override_global(switch, value, true),
        };
    }
    for (map, entries) in sizes {
        loader.map_max_entries(map, *entries);
    }
    let bpf = loader.load(object).context("the kernel refused to load the BPF programs")?;
    Ok((bpf, btf))
}

/// The object itself: it is kept compressed.
fn inflated(object: &[u8]) -> Result<Vec<u8>> {
    let mut inflated = Vec::new();
    flate2::read::GzDecoder::new(object).read_to_end(&mut inflated).context("the BPF object is damaged")?;
    Ok(inflated)
}

/// Returns the switches of tracepoints that have the queue as their first argument: stable kernels before 5.11 may have
/// the change or not, so try what the kernel accepts.
fn older_tracepoints(object: &[u8], btf: &Btf) -> Result<Vec<&'static str>> {
    let mut loader = EbpfLoader::new();
    let mut bpf = loader
        .override_global("task_has_btf", &0u32, true)
        .load(object)
        .context("the kernel refused to load the BPF programs")?;
    let mut older = Vec::new();
    for (name, tracepoint, switch) in CHANGED {
        let Some(program) = bpf.program_mut(name) else { continue };
        let program: &mut BtfTracePoint = program.try_into()?;
        if program.load(tracepoint, btf).is_err() {
            older.push(switch);
        }
    }
    Ok(older)
}

/// Loads the program `name` and attaches it to a tracepoint.
pub(crate) fn attach(bpf: &mut Ebpf, btf: &Btf, name: &str, tracepoint: &str) -> Result<()> {
    let program: &mut BtfTracePoint = bpf.program_mut(name).context("the object has no such program")?.try_into()?;
    program.load(tracepoint, btf).with_context(|| format!("the kernel refused the BPF program for {tracepoint}"))?;
    program.attach().with_context(|| format!("cannot attach to {tracepoint}"))?;
    Ok(())
}

/// Attaches the program `name` to the creation of requests. Returns false if the kernel has no such tracepoint: those
/// before 6.5 do not, except for some with a backport.
pub(crate) fn attach_start(bpf: &mut Ebpf, btf: &Btf, name: &str) -> Result<bool> {
    match attach(bpf, btf, name, "block_io_start") {
        Err(error) if kernel_version() >= START_SINCE => Err(error),
        attached => Ok(attached.is_ok()),
    }
}

/// Attaches the programs for syncs: to system calls and, if possible, to io_uring. Returns whether its syncs are seen.
pub(crate) fn attach_calls(bpf: &mut Ebpf, btf: &Btf) -> Result<bool> {
    attach(bpf, btf, "call_ends", "sys_exit")?;
    attach(bpf, btf, "call_begins", "sys_enter")?;
    let version = kernel_version();
    let submits = if version >= RING_RENAMED { "io_uring_submit_req" } else { "io_uring_submit_sqe" };
    Ok(version >= RING_SINCE
        && attach(bpf, btf, "ring_ends", "io_uring_complete").is_ok()
        && attach(bpf, btf, "ring_begins", submits).is_ok())
}

/// Major and minor version of the running kernel; 0 if it cannot be parsed.
fn kernel_version() -> (u32, u32) {
    let name = uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut parts = release.split(|letter: char| !letter.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_a_name_that_files_have_too() {
        for number in 0..CALLS.len() as u32 {
            for name in [call_name(number), call_name(number | DIRECT)] {
                assert!(Sync::CALLS.contains(&name), "{name}");
            }
        }
        let numbers = [0, 4, 6, 6 | DIRECT, 11 | DIRECT, 15 | DIRECT];
        let names = ["fsync", "msync", "write", "direct_write", "direct_read", "direct_read"];
        assert_eq!(numbers.map(call_name), names);
        assert_eq!(calls().iter().filter(|number| **number > 0).count(), CALLS.len());
    }
}

//! What both captures share: the kernel's version, the system calls that sync, and loading and attaching programs.

use std::io::Read as _;

use anyhow::{Context as _, Result};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader};
use rustix::system::uname;

/// First kernel in which tracepoints of requests and bios do not have the queue as their first argument.
const ALONE_SINCE: (u32, u32) = (5, 11);
/// Programs whose tracepoint changed then, with the switch that says so.
const CHANGED: [(&str, &str, &str); 2] =
    [("rq_issue", "block_rq_issue", "rq_is_second"), ("bio_queued", "block_bio_queue", "bio_is_second")];
/// First kernel that reports when a request is created.
const START_SINCE: (u32, u32) = (6, 5);
/// System calls that make files durable, followed by those that write: `calls` of the programs.
const CALLS: [i64; 9] = [
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_syncfs,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
];

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
    let calls = CALLS.map(|call| call as u32);
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

/// Major and minor version of the running kernel; 0 if it cannot be parsed.
fn kernel_version() -> (u32, u32) {
    let name = uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut parts = release.split(|letter: char| !letter.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

//! What both captures need of the kernel: its version, the calls that are syncs, and programs attached to tracepoints.

use anyhow::{Context as _, Result};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader};
use rustix::system::uname;

/// First kernel whose tracepoint of issue has the request alone.
const ALONE_SINCE: (u32, u32) = (5, 11);
/// First kernel that says when somebody asked for a request.
const START_SINCE: (u32, u32) = (6, 5);
/// System calls that make files durable, and after them those that write: `calls` of the programs.
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
    /// Returns it as the programs have it.
    pub(crate) const fn number(self) -> u32 {
        self.major << 20 | self.minor
    }
}

/// Loads the programs of `object` for `device`, or for all devices, with switches of the object turned on or off, and maps
/// that hold as many entries as `sizes` says.
///
/// # Errors
/// When the kernel or this user's rights do not allow it.
pub(crate) fn load(
    object: &[u8],
    device: Option<Device>,
    switches: &[(&str, bool)],
    sizes: &[(&str, u32)],
) -> Result<(Ebpf, Btf)> {
    let number = device.map_or(0, Device::number);
    let rq_is_second = u32::from(kernel_version() < ALONE_SINCE);
    let calls = CALLS.map(|call| call as u32);
    let mut loader = EbpfLoader::new();
    loader.override_global("device", &number, true).override_global("rq_is_second", &rq_is_second, true);
    loader.override_global("calls", &calls, true);
    for (switch, is_on) in switches {
        loader.override_global(switch, if *is_on { &1u32 } else { &0u32 }, true);
    }
    for (map, entries) in sizes {
        loader.map_max_entries(map, *entries);
    }
    let bpf = loader.load(object).context("the kernel did not load the program")?;
    let btf = Btf::from_sys_fs().context("the kernel does not describe itself (BTF)")?;
    Ok((bpf, btf))
}

/// Loads the program `name`, and has the kernel run it at a tracepoint.
pub(crate) fn attach(bpf: &mut Ebpf, btf: &Btf, name: &str, tracepoint: &str) -> Result<()> {
    let program: &mut BtfTracePoint = bpf.program_mut(name).context("the object has no such program")?.try_into()?;
    program.load(tracepoint, btf).with_context(|| format!("the kernel refused the program of {tracepoint}"))?;
    program.attach().with_context(|| format!("cannot attach to {tracepoint}"))?;
    Ok(())
}

/// Attaches the program `name` to where somebody asks for a request. Returns false where the kernel does not say that:
/// those before 6.5 do not, except for some that took it over.
pub(crate) fn attach_start(bpf: &mut Ebpf, btf: &Btf, name: &str) -> Result<bool> {
    match attach(bpf, btf, name, "block_io_start") {
        Err(error) if kernel_version() >= START_SINCE => Err(error),
        attached => Ok(attached.is_ok()),
    }
}

/// Major and minor version of the running kernel; 0 where it cannot be read.
fn kernel_version() -> (u32, u32) {
    let name = uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut parts = release.split(|letter: char| !letter.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

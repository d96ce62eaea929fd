//! The program in the kernel: loaded, attached, read.

use std::time::Duration;

use anyhow::{Context as _, Result};
use aya::maps::{HashMap, PerCpuArray, RingBuf};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader};
use rustix::system::uname;

use crate::event::Event;

/// The object that `cargo xtask bpf` builds.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/trace.bpf.o"));
/// First kernel whose tracepoint of issue has the request alone.
const ALONE_SINCE: (u32, u32) = (5, 11);
/// First kernel that says when somebody asked for a request.
const START_SINCE: (u32, u32) = (6, 5);
/// A request that the device has not completed: `struct on_its_way`.
type OnItsWay = [u64; 7];
/// System calls that make files durable, and after them those that write: `calls` of the program.
const CALLS: [i64; 8] = [
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
];
/// Names of the programs.
const START: &str = "io_start";
const ISSUE: &str = "rq_issue";
const COMPLETE: &str = "rq_complete";

/// A disk by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number of the whole disk.
    pub minor: u32,
}

/// What was and was not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that the device completed.
    pub completed: u64,
    /// Of these, events for which the ring had no room.
    pub lost: u64,
    /// Of these, requests whose issue was not seen (under way before the capture began, ended without one, or too many for
    /// the table), or whose completion was not: the kernel does not run the program everywhere, and from 6.5 on that is seen
    /// when the memory of the request is used again.
    pub unseen: u64,
    /// Issued, and not seen to be complete at the end.
    pub in_flight: u64,
    /// Syncs and throttled requests for which the ring had no room.
    pub lost_other: u64,
}

/// Requests of one disk, or of all, from when it is made until it is dropped.
pub struct Capture {
    bpf: Ebpf,
    ring: RingBuf<aya::maps::MapData>,
    /// Whether the kernel says when somebody asked for a request (`block_io_start`, from 6.5 on).
    sees_start: bool,
}

impl Capture {
    /// Begins to record the requests of `device`, or of all devices, and `with_syncs` also what calls wait for.
    ///
    /// # Errors
    /// When the kernel or this user's rights do not allow it.
    pub fn begin(device: Option<Device>, with_syncs: bool) -> Result<Self> {
        let number = device.map_or(0, |device| device.major << 20 | device.minor);
        let rq_is_second = u32::from(kernel_version() < ALONE_SINCE);
        let mut loader = EbpfLoader::new();
        loader.override_global("device", &number, true).override_global("rq_is_second", &rq_is_second, true);
        let (syncs, calls) = (u32::from(with_syncs), CALLS.map(|call| call as u32));
        loader.override_global("with_syncs", &syncs, true).override_global("calls", &calls, true);
        if !with_syncs {
            for table in ["askers", "syncs", "writers"] {
                loader.map_max_entries(table, 1);
            }
        }
        let mut bpf = loader.load(OBJECT).context("the kernel did not load the program")?;
        let btf = Btf::from_sys_fs().context("the kernel does not describe itself (BTF)")?;
        attach(&mut bpf, &btf, COMPLETE, "block_rq_complete")?;
        attach(&mut bpf, &btf, ISSUE, "block_rq_issue")?;
        let start = attach(&mut bpf, &btf, START, "block_io_start");
        let sees_start = start.is_ok();
        // Kernels before it have no such tracepoint, but for those that took it over.
        if kernel_version() >= START_SINCE {
            start?;
        }
        if with_syncs {
            attach(&mut bpf, &btf, "bio_queued", "block_bio_queue")?;
            // Without it, nobody is named for what is written back.
            let _ = attach(&mut bpf, &btf, "folio_dirtied", "writeback_dirty_folio");
            attach(&mut bpf, &btf, "call_ends", "sys_exit")?;
            attach(&mut bpf, &btf, "call_begins", "sys_enter")?;
        }
        let ring = bpf.take_map("events").context("the program has no ring")?;
        Ok(Self { bpf, ring: RingBuf::try_from(ring)?, sees_start })
    }

    /// Returns true if the kernel says how long requests waited before the device got them.
    #[must_use]
    pub const fn sees_start(&self) -> bool {
        self.sees_start
    }

    /// Hands over what was recorded since the last time, in the order of completion on each processor, but no more than
    /// [`Capture::AT_ONCE`]: a disk may be faster than the reader. Returns true if there may be more.
    pub fn read(&mut self, mut take: impl FnMut(Event)) -> bool {
        for _ in 0..Self::AT_ONCE {
            let Some(item) = self.ring.next() else { return false };
            if let Some(event) = Event::parse(&item) {
                take(event);
            }
        }
        true
    }

    /// Ends the recording, hands over the rest, and returns what was and was not recorded.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn end(mut self, mut take: impl FnMut(Event)) -> Result<Counts> {
        for (_, program) in self.bpf.programs_mut() {
            // One that could not be attached is not loaded either.
            let program: Result<&mut BtfTracePoint, _> = program.try_into();
            let _ = program.map(BtfTracePoint::unload);
        }
        while self.read(&mut take) {}
        self.counts()
    }

    fn counts(&self) -> Result<Counts> {
        let map = self.bpf.map("counts").context("the program has no counts")?;
        let counts: PerCpuArray<_, u64> = PerCpuArray::try_from(map)?;
        let sum = |which: u32| -> Result<u64> { Ok(counts.get(&which, 0)?.iter().sum()) };
        let requests = self.bpf.map("requests").context("the program has no table of requests")?;
        let requests: HashMap<_, u64, OnItsWay> = HashMap::try_from(requests)?;
        // The second word is the time of issue.
        let in_flight =
            requests.iter().filter(|entry| entry.as_ref().is_ok_and(|(_, [_, issue_ns, ..])| *issue_ns != 0));
        Ok(Counts {
            lost: sum(0)?,
            unseen: sum(1)?,
            completed: sum(2)?,
            in_flight: in_flight.count() as u64,
            lost_other: sum(3)?,
        })
    }

    /// How often to read at a million requests a second, so that the ring does not fill.
    pub const EVERY: Duration = Duration::from_millis(20);
    /// Most events of one reading.
    pub const AT_ONCE: usize = 20_000;
}

/// Loads the program `name`, and has the kernel run it at a tracepoint.
fn attach(bpf: &mut Ebpf, btf: &Btf, name: &str, tracepoint: &str) -> Result<()> {
    let program: &mut BtfTracePoint = bpf.program_mut(name).context("the object has no such program")?.try_into()?;
    program.load(tracepoint, btf).with_context(|| format!("the kernel refused the program of {tracepoint}"))?;
    program.attach().with_context(|| format!("cannot attach to {tracepoint}"))?;
    Ok(())
}

/// Major and minor version of the running kernel; 0 where it cannot be read.
fn kernel_version() -> (u32, u32) {
    let name = uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut parts = release.split(|letter: char| !letter.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

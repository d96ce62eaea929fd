//! Loads and attaches the BPF programs that report each request, and reads their events.

use std::time::Duration;

use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{HashMap, PerCpuArray, RingBuf};
use aya::programs::BtfTracePoint;
use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::program::{Device, attach, attach_calls, attach_start, load};
use crate::tracefs::Tracefs;

/// The object that `cargo xtask bpf` builds.
static OBJECT: &[u8] = include_bytes!("../bpf/trace.bpf.o.gz");
/// A request that the device has not completed yet: `struct on_its_way`.
type OnItsWay = [u64; 7];
/// A bio that is under way: `struct bio_on_its_way`.
type Bio = [u64; 8];
/// Names of the programs.
const START: &str = "io_start";
const ISSUE: &str = "rq_issue";
const COMPLETE: &str = "rq_complete";

/// What was and was not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Requests that the device completed.
    pub completed: u64,
    /// Of these, requests whose events did not fit into the ring buffer.
    pub lost: u64,
    /// Of these, requests whose issue was not seen (in flight before the capture began, ended without reaching the
    /// device, or did not fit into the table) or whose completion was not: the kernel skips the program in some
    /// contexts. From 6.5 on, that is noticed when the request's memory is reused.
    pub unseen: u64,
    /// Issued, but with no completion seen by the end.
    pub in_flight: u64,
    /// Other events (such as syncs and throttled requests) that did not fit into the ring buffer.
    pub lost_other: u64,
}

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The requests of all disks that have a queue of requests.
    All,
    /// The requests of a disk.
    Requests(Device),
    /// The bios of a disk without a queue of requests: zram, device mapper, md.
    Bios(Device),
}

/// Which system calls (and requests of io_uring) are recorded besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// None.
    None,
    /// Those that make files durable.
    Syncs,
    /// These, and direct reads and writes.
    SyncsAndDirect,
}

/// Records the requests of one disk, or of all disks, until it is dropped.
pub struct Capture {
    source: Source,
    /// Whether the kernel reports when a request was created (`block_io_start`, from 6.5 on).
    sees_start: bool,
    /// Whether the kernel reports syncs through io_uring; false without syncs.
    sees_rings: bool,
}

/// Where the events come from.
enum Source {
    Bpf(Box<Bpf>),
    /// Where the kernel allows no BPF.
    Tracefs(Box<Tracefs>),
}

impl Capture {
    /// Starts recording the requests of a disk, and what `calls` wait for. Where the kernel allows no BPF, requests (without
    /// calls, and not of [`Of::Bios`]) come from tracefs.
    ///
    /// # Errors
    /// If the kernel or this user's privileges do not allow it; why it allows no BPF.
    pub fn begin(of: Of, calls: Calls) -> Result<Self> {
        let refused = match Bpf::begin(of, calls) {
            Ok((bpf, sees_start)) => {
                let sees_rings = bpf.sees_rings;
                return Ok(Self { source: Source::Bpf(Box::new(bpf)), sees_start, sees_rings });
            }
            Err(refused) => refused,
        };
        let device = match of {
            Of::All => None,
            Of::Requests(device) => Some(device),
            Of::Bios(_) => return Err(refused),
        };
        if calls != Calls::None {
            return Err(refused);
        }
        let tracefs = Tracefs::begin(device).map_err(|_| refused)?;
        let sees_start = tracefs.sees_start;
        Ok(Self { source: Source::Tracefs(Box::new(tracefs)), sees_start, sees_rings: false })
    }

    /// Returns true if the events come from BPF programs, false if they come from tracefs.
    #[must_use]
    pub const fn is_bpf(&self) -> bool {
        matches!(self.source, Source::Bpf(_))
    }

    /// Returns true if the kernel reports how long requests waited before the device got them.
    #[must_use]
    pub const fn sees_start(&self) -> bool {
        self.sees_start
    }

    /// Returns true if syncs are recorded, and those through io_uring are among them.
    #[must_use]
    pub const fn sees_rings(&self) -> bool {
        self.sees_rings
    }

    /// Passes on the events recorded since the last call, in the order of completion on each processor, but at most
    /// [`Capture::AT_ONCE`]: a disk may be faster than the reader. Returns true if there may be more.
    pub fn read(&mut self, mut take: impl FnMut(Event)) -> bool {
        match &mut self.source {
            Source::Bpf(bpf) => bpf.read(take),
            Source::Tracefs(tracefs) => tracefs.read(&mut |request| take(Event::Request(request))),
        }
    }

    /// Stops recording, passes on the remaining events, and returns what was and was not recorded.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn end(self, mut take: impl FnMut(Event)) -> Result<Counts> {
        match self.source {
            Source::Bpf(bpf) => bpf.end(take),
            Source::Tracefs(tracefs) => Ok(tracefs.end(&mut |request| take(Event::Request(request)))),
        }
    }

    /// How often to read, so that the ring buffer does not fill up at a million requests a second.
    pub const EVERY: Duration = Duration::from_millis(20);
    /// Most events passed on by one call of [`Capture::read`].
    pub const AT_ONCE: usize = 20_000;
}

/// The loaded programs, and their ring buffer.
struct Bpf {
    bpf: Ebpf,
    ring: RingBuf<aya::maps::MapData>,
    sees_rings: bool,
}

impl Bpf {
    /// Loads and attaches the programs; returns also whether the kernel reports when requests are created.
    fn begin(of: Of, calls: Calls) -> Result<(Self, bool)> {
        let with_syncs = calls != Calls::None;
        let (device, has_requests) = match of {
            Of::All => (None, true),
            Of::Requests(device) => (Some(device), true),
            Of::Bios(device) => (Some(device), false),
        };
        let mut sizes =
            if with_syncs { Vec::new() } else { vec![("askers", 1), ("syncs", 1), ("ring_syncs", 1), ("writers", 1)] };
        sizes.push(if has_requests { ("bios", 1) } else { ("requests", 1) });
        let switches = [("with_syncs", with_syncs.into()), ("with_direct", (calls == Calls::SyncsAndDirect).into())];
        let (mut bpf, btf) = load(OBJECT, device, &switches, &sizes)?;
        let sees_start = if has_requests {
            attach(&mut bpf, &btf, COMPLETE, "block_rq_complete")?;
            attach(&mut bpf, &btf, ISSUE, "block_rq_issue")?;
            attach_start(&mut bpf, &btf, START)?
        } else {
            attach(&mut bpf, &btf, "bio_ends", "block_bio_complete")?;
            attach(&mut bpf, &btf, "bio_begins", "block_bio_queue")?;
            false
        };
        let mut sees_rings = false;
        if with_syncs {
            if has_requests {
                attach(&mut bpf, &btf, "bio_queued", "block_bio_queue")?;
            }
            // Optional: without it, nobody can be named as the cause of writeback.
            let _ = attach(&mut bpf, &btf, "folio_dirtied", "writeback_dirty_folio");
            sees_rings = attach_calls(&mut bpf, &btf)?;
        }
        let ring = bpf.take_map("events").context("the program has no ring")?;
        Ok((Self { bpf, ring: RingBuf::try_from(ring)?, sees_rings }, sees_start))
    }

    fn read(&mut self, mut take: impl FnMut(Event)) -> bool {
        for _ in 0..Capture::AT_ONCE {
            let Some(item) = self.ring.next() else { return false };
            if let Some(event) = Event::parse(&item) {
                take(event);
            }
        }
        true
    }

    fn end(mut self, mut take: impl FnMut(Event)) -> Result<Counts> {
        for (_, program) in self.bpf.programs_mut() {
            // Programs that were never loaded fail here; that does not matter.
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
        let bios = self.bpf.map("bios").context("the program has no table of bios")?;
        let bios: HashMap<_, u64, Bio> = HashMap::try_from(bios)?;
        Ok(Counts {
            lost: sum(0)?,
            unseen: sum(1)?,
            completed: sum(2)?,
            in_flight: (in_flight.count() + bios.keys().filter(Result::is_ok).count()) as u64,
            lost_other: sum(3)?,
        })
    }
}

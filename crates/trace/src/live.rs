//! What `bpf/live.bpf.c` adds up: latencies of requests, those on their way, and what processes wait for.

use std::collections::HashMap as Places;

use anyhow::{Context as _, Result, ensure};
use aya::maps::{HashMap, MapData, PerCpuArray, RingBuf};
use aya::programs::{RawTracePoint, RawTracePointRunOptions, TestRun as _};
use aya::{Btf, Ebpf};

use crate::event::{Asker, COMM, Op, call_name, op_of};
use crate::latencies::{Latencies, Stage, WORDS};
use crate::program::{Device, attach, attach_start, load};

/// The object that `cargo xtask bpf` builds.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/live.bpf.o"));
/// Disks that have room at most: `DISKS_MAX` of the program.
const DISKS_MAX: usize = 64;
/// Disks that may be added later.
const DISKS_SPARE: usize = 12;
/// Operations that are counted apart, in the order of the program.
const OPS: [Op; 5] = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::Other];
/// Requests on their way that the program knows, and how many of them it looks at in one call.
const IN_FLIGHT_MAX: usize = 1 << 14;
const SCANNED_AT_ONCE: usize = 512;

/// The disks of a [`Live`].
#[derive(Clone, Copy, Debug)]
pub enum Disks<'a> {
    /// This one, and nothing of others.
    Only(Device),
    /// These, and others that are added, up to some dozens.
    Of(&'a [Device]),
}

/// A request that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// For how long, ns: since somebody asked for it, or else since the device got it.
    pub age_ns: u64,
    /// Whether the device has it; else it waits in the scheduler or the queue.
    pub is_issued: bool,
    /// Major and minor number of the disk.
    pub device: (u32, u32),
    /// Bytes; 0 of a flush.
    pub bytes: u32,
    /// What it does.
    pub op: Op,
    /// Who asked for it.
    pub asker: Asker,
}

/// A sync that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncUnderWay {
    /// Who waits.
    pub asker: Asker,
    /// For how long, ns.
    pub age_ns: u64,
    /// Name of the call; `write` for each that writes.
    pub call: &'static str,
    /// Major and minor number of the disk; zeros where the filesystem has several.
    pub device: (u32, u32),
}

/// What a process has done on a disk since the capture began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Major and minor number of the disk; zeros where the filesystem has several.
    pub device: (u32, u32),
    /// Name of the thread that asked for something last, up to the first zero.
    pub comm: [u8; COMM],
    /// Control group (v2), by inode; 0 without one.
    pub cgroup: u64,
    /// Bytes that its own requests read.
    pub read_bytes: u64,
    /// Bytes that its own requests wrote.
    pub write_bytes: u64,
    /// Bytes that it changed in memory, which are written back later.
    pub changed_bytes: u64,
    /// Its own requests.
    pub requests: u64,
    /// Its syncs.
    pub syncs: u64,
    /// How long its threads waited for these together, ns.
    pub sync_ns: u64,
    /// The longest of them, ns.
    pub longest_sync_ns: u64,
}

/// Latencies of disks, from when it is made until it is dropped.
pub struct Live {
    bpf: Ebpf,
    places: Places<Device, u32>,
    /// Places that no disk has.
    free: Vec<u32>,
    with_waits: bool,
    /// Whether the moment of issue is recorded by a program.
    stamps_issue: bool,
    found: RingBuf<MapData>,
}

impl Live {
    /// Begins to record the latencies of the requests of `disks`: the kernel runs one program for each request. `with_waits`
    /// adds the requests on their way, and what processes read, write and sync: three programs for each request, and two
    /// for each system call of the machine. `no_start` is true where the kernel does not keep when requests of some of these
    /// disks were made (`queue/iostats` is 0).
    ///
    /// # Errors
    /// When the kernel or this user's rights do not allow it.
    pub fn begin(disks: Disks<'_>, no_start: bool, with_waits: bool) -> Result<Self> {
        let (only, room, first) = match &disks {
            Disks::Only(disk) => (Some(*disk), 1, std::slice::from_ref(disk)),
            Disks::Of(disks) => (None, (disks.len() + DISKS_SPARE).min(DISKS_MAX), *disks),
        };
        let mut sizes = vec![("latencies", (room * OPS.len()) as u32)];
        if !with_waits {
            sizes.extend([("processes", 1), ("syncs", 1), ("writers", 1)]);
        }
        let switches = [("with_waits", with_waits), ("no_start", no_start)];
        let (mut bpf, btf) = load(OBJECT, only, &switches, &sizes)?;
        let found = RingBuf::try_from(bpf.take_map("found").context("the program has no ring")?)?;
        let free = (0..room as u32).rev().collect();
        let mut live = Self { bpf, places: Places::new(), free, with_waits, stamps_issue: false, found };
        first.iter().take(room).try_for_each(|disk| live.add(*disk).map(drop))?;
        attach(&mut live.bpf, &btf, "rq_complete", "block_rq_complete")?;
        if with_waits || no_start {
            live.stamp_issue(&btf)?;
            attach_start(&mut live.bpf, &btf, "io_start")?;
        }
        if with_waits {
            // Without it, what processes change in memory is not known.
            let _ = attach(&mut live.bpf, &btf, "folio_dirtied", "writeback_dirty_folio");
            let scan: &mut RawTracePoint =
                live.bpf.program_mut("scan").context("the object has no scan")?.try_into()?;
            scan.load().context("the kernel refused the program of ages")?;
            attach(&mut live.bpf, &btf, "call_ends", "sys_exit")?;
            attach(&mut live.bpf, &btf, "call_begins", "sys_enter")?;
        }
        Ok(live)
    }

    /// Has a program record when the device gets requests: the kernel's own record of it is not kept for each disk.
    fn stamp_issue(&mut self, btf: &Btf) -> Result<()> {
        if !self.stamps_issue {
            attach(&mut self.bpf, btf, "rq_issue", "block_rq_issue")?;
            self.stamps_issue = true;
        }
        Ok(())
    }

    /// Records one more disk. Returns false if there is no room for it.
    ///
    /// # Errors
    /// When the kernel does not take it.
    pub fn add(&mut self, disk: Device) -> Result<bool> {
        if self.places.contains_key(&disk) {
            return Ok(true);
        }
        let Some(place) = self.free.pop() else { return Ok(false) };
        let map = self.bpf.map_mut("places").context("the program has no places")?;
        HashMap::<_, u32, u32>::try_from(map)?.insert(disk.number(), place, 0)?;
        self.places.insert(disk, place);
        Ok(true)
    }

    /// Gives the places of disks that are gone to others. What was counted there stays: the next one of a place begins with
    /// it.
    ///
    /// # Errors
    /// When the kernel does not take it.
    pub fn keep(&mut self, is_there: impl Fn(Device) -> bool) -> Result<()> {
        let gone: Vec<Device> = self.places.keys().copied().filter(|disk| !is_there(*disk)).collect();
        for disk in gone {
            let map = self.bpf.map_mut("places").context("the program has no places")?;
            HashMap::<_, u32, u32>::try_from(map)?.remove(&disk.number())?;
            self.free.extend(self.places.remove(&disk));
        }
        Ok(())
    }

    /// Returns the latencies of a disk since the capture began, for each operation that it had; none if it is not recorded.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn latencies(&mut self, disk: Device) -> Result<Vec<(Op, Latencies)>> {
        let Some(place) = self.places.get(&disk) else { return Ok(Vec::new()) };
        let map = self.bpf.map("latencies").context("the program has no latencies")?;
        let map: PerCpuArray<_, [u32; WORDS]> = PerCpuArray::try_from(map)?;
        let mut all = Vec::new();
        for (at, op) in OPS.into_iter().enumerate() {
            let counted = map.get(&(place * OPS.len() as u32 + at as u32), 0)?;
            let latencies = Latencies::sum(counted.iter());
            if latencies.count(Stage::Total) + latencies.unstamped > 0 {
                all.push((op, latencies));
            }
        }
        if !self.stamps_issue && all.iter().any(|(_, latencies)| latencies.unstamped > 0) {
            // It takes tens of MB, and so it is not kept.
            self.stamp_issue(&Btf::from_sys_fs()?)?;
        }
        Ok(all)
    }

    /// Returns the requests that have been on their way for at least `age_ns` at the moment `now_ns` (CLOCK_MONOTONIC), the
    /// oldest first.
    ///
    /// # Errors
    /// When the kernel does not say, or waits for requests are not recorded.
    pub fn in_flight(&mut self, now_ns: u64, age_ns: u64) -> Result<Vec<InFlight>> {
        ensure!(self.with_waits, "requests on their way are not recorded");
        let scan: &RawTracePoint = self.bpf.program("scan").context("the object has no scan")?.try_into()?;
        let mut all = Vec::new();
        for first in (0..IN_FLIGHT_MAX).step_by(SCANNED_AT_ONCE) {
            let mut options = RawTracePointRunOptions::new();
            options.args[..2].copy_from_slice(&[first as u64, now_ns.saturating_sub(age_ns)]);
            scan.test_run(options).context("the kernel does not run the program of ages")?;
            while let Some(item) = self.found.next() {
                all.extend(in_flight(&item, now_ns));
            }
        }
        // A disk that is gone has no requests, whatever is left of them.
        all.retain(|request: &InFlight| {
            self.places.contains_key(&Device { major: request.device.0, minor: request.device.1 })
        });
        all.sort_by_key(|request: &InFlight| std::cmp::Reverse(request.age_ns));
        Ok(all)
    }

    /// Returns the syncs that threads wait for at the moment `now_ns` (CLOCK_MONOTONIC), the oldest first.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn syncs(&self, now_ns: u64) -> Result<Vec<SyncUnderWay>> {
        let map = self.bpf.map("syncs").context("the program has no syncs")?;
        let map: HashMap<_, u32, [u64; 8]> = HashMap::try_from(map)?;
        let of = |[start_ns, _, _, rest, cgroup, ids, name @ ..]: [u64; 8]| {
            let ([call, device], [pid, tid]) = (halves(rest), halves(ids));
            SyncUnderWay {
                asker: Asker { pid, tid, comm: comm(name), cgroup, is_kernels: false },
                age_ns: now_ns.saturating_sub(start_ns),
                call: call_name(call),
                device: (device >> 20, device & 0xf_ffff),
            }
        };
        let mut all: Vec<SyncUnderWay> = entries(&map).into_values().map(of).collect();
        all.sort_by_key(|sync| std::cmp::Reverse(sync.age_ns));
        Ok(all)
    }

    /// Returns the processes that had I/O since the capture began, each once for each disk; of too many, the most recent.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn processes(&self) -> Result<Vec<Process>> {
        let map = self.bpf.map("processes").context("the program has no processes")?;
        let map: HashMap<_, [u32; 2], [u64; 10]> = HashMap::try_from(map)?;
        let of = |([pid, device], words): ([u32; 2], [u64; 10])| {
            let [cgroup, read_bytes, write_bytes, changed_bytes, requests, syncs, sync_ns, longest_sync_ns, name @ ..] =
                words;
            Process {
                pid,
                device: (device >> 20, device & 0xf_ffff),
                comm: comm(name),
                cgroup,
                read_bytes,
                write_bytes,
                changed_bytes,
                requests,
                syncs,
                sync_ns,
                longest_sync_ns,
            }
        };
        Ok(entries(&map).into_iter().map(of).collect())
    }
}

/// Returns the entries of a table that changes meanwhile: each once, although the kernel begins again where the last one that
/// it returned is gone.
fn entries<K: aya::Pod + Eq + std::hash::Hash, V: aya::Pod>(map: &HashMap<&MapData, K, V>) -> Places<K, V> {
    map.iter().take(ENTRIES_MAX).filter_map(Result::ok).collect()
}

/// Entries of a table that are read at most.
const ENTRIES_MAX: usize = 32_768;

/// Both halves of a word, the one that comes first in memory first.
fn halves(word: u64) -> [u32; 2] {
    let bytes = word.to_ne_bytes();
    [0, 4].map(|at| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes")))
}

fn comm(words: [u64; 2]) -> [u8; COMM] {
    let mut comm = [0; COMM];
    comm.chunks_exact_mut(8).zip(words).for_each(|(part, word)| part.copy_from_slice(&word.to_ne_bytes()));
    comm
}

/// Reads a `struct on_its_way`; `None` for one of another length.
fn in_flight(bytes: &[u8], now_ns: u64) -> Option<InFlight> {
    let bytes: &[u8; 72] = bytes.try_into().ok()?;
    let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let [start_ns, issue_ns, cgroup] = [8, 16, 40].map(u64_at);
    let [size, device, flags, pid, tid] = [24, 28, 32, 48, 52].map(u32_at);
    let comm = bytes[56..56 + COMM].try_into().expect("as long as a name");
    Some(InFlight {
        age_ns: now_ns.saturating_sub(if start_ns == 0 { issue_ns } else { start_ns }),
        is_issued: issue_ns != 0,
        device: (device >> 20, device & 0xf_ffff),
        bytes: size,
        op: op_of(flags),
        asker: Asker { pid, tid, comm, cgroup, is_kernels: false },
    })
}

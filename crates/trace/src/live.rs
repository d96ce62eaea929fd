//! The data that `bpf/live.bpf.c` aggregates: latencies, requests in flight, and what processes read, write and wait
//! for.

use qd1_model::order::Order as _;
use std::collections::HashMap as Places;

use anyhow::{Context as _, Result, ensure};
use aya::maps::{HashMap, MapData, PerCpuArray, RingBuf};
use aya::programs::{RawTracePoint, RawTracePointRunOptions, TestRun as _};
use aya::{Btf, Ebpf};

use crate::constants::constant;
use crate::latencies::{Latencies, Stage, WORDS};
use crate::program::{Device, Value, attach, attach_calls, attach_start, call_name, load};
use qd1_model::requests::{Asker, COMM, Op, op_of, thread_name};

/// The object that `cargo xtask bpf` builds.
pub(crate) static OBJECT: &[u8] = include_bytes!("../bpf/live.bpf.o.gz");
/// Most disks that fit: `DISKS_MAX` of the program.
const DISKS_MAX: usize = 64;
/// Slots reserved for disks that are added later.
const DISKS_SPARE: usize = 12;
/// Operations that are counted separately, in the order of the program.
const OPS: [Op; 5] = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::Other];
/// Most requests in flight that the program keeps, and how many of them it scans in one call.
const IN_FLIGHT_MAX: usize = 1 << 14;
const SCANNED_AT_ONCE: usize = 512;
/// Most bios in flight on disks without requests; further ones are not counted with their time.
const BIOS_MAX: u32 = 16_384;
/// The flag of a bio that is in flight.
const IN_FLIGHT_FLAG: &str = "BIO_TRACE_COMPLETION";
/// Size of `struct on_its_way`.
const ON_ITS_WAY: usize = 72;

/// A disk of a [`Live`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveDisk {
    /// Its numbers.
    pub device: Device,
    /// Whether it has a queue of requests. On those that have none (zram, device mapper, md), a bio counts as a request.
    pub has_requests: bool,
}

/// The disks of a [`Live`].
#[derive(Clone, Copy, Debug)]
pub enum Disks<'a> {
    /// This disk only.
    Only(LiveDisk),
    /// These, and disks that are added later, up to a few dozen.
    Of(&'a [LiveDisk]),
}

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Age, ns: since its creation or, if that is not known, since the device got it.
    pub age_ns: u64,
    /// Whether the device has it; otherwise it is in the scheduler or the queue, which not every disk has.
    pub is_issued: bool,
    /// Major and minor number of the disk.
    pub device: (u32, u32),
    /// Bytes; 0 for a flush.
    pub bytes: u32,
    /// What it does.
    pub op: Op,
    /// Who issued it.
    pub asker: Asker,
}

/// A sync in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncUnderWay {
    /// Who waits.
    pub asker: Asker,
    /// How long it has taken so far, ns.
    pub age_ns: u64,
    /// Name of the call, as in a `Sync`.
    pub call: &'static str,
    /// Major and minor number of the disk; zeros where the filesystem has several, or the call concerns all disks or memory
    /// in which a file is mapped.
    pub device: (u32, u32),
    /// Inode of the file; for msync, an address in the mapping.
    pub inode: u64,
}

/// What a process has done on a disk since the capture began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Major and minor number of the disk; zeros where the filesystem has several.
    pub device: (u32, u32),
    /// Name of the thread that was active last, up to the first zero.
    pub comm: [u8; COMM],
    /// Control group (v2), by inode; 0 without one.
    pub cgroup: u64,
    /// Bytes that its own requests read.
    pub read_bytes: u64,
    /// Bytes that its own requests wrote.
    pub write_bytes: u64,
    /// Bytes that it changed in memory, to be written back later.
    pub changed_bytes: u64,
    /// Number of its own requests.
    pub requests: u64,
    /// Number of its syncs.
    pub syncs: u64,
    /// Total time that its threads waited for syncs, ns.
    pub sync_ns: u64,
    /// Its longest sync, ns.
    pub longest_sync_ns: u64,
    /// The address of its last msync, whose disk is not known here; 0 if there was none.
    pub mapped_at: u64,
}

impl Process {
    /// Returns the name of the thread that was active last.
    #[must_use]
    pub fn name(&self) -> std::borrow::Cow<'_, str> {
        thread_name(&self.comm)
    }
}

/// A `struct sync`.
type SyncWords = [u64; 9];

/// Where a disk is counted.
#[derive(Clone, Copy)]
struct Place {
    slot: u32,
    has_requests: bool,
}

/// Records latencies, and waits if requested, until it is dropped.
pub struct Live {
    bpf: Ebpf,
    places: Places<Device, Place>,
    /// Slots not used by any disk.
    free: Vec<u32>,
    with_waits: bool,
    /// Whether a BPF program records when requests are issued.
    stamps_issue: bool,
    /// Whether the programs for disks without requests are attached.
    serves_bios: bool,
    /// Whether the kernel refuses them.
    no_bios: bool,
    found: RingBuf<MapData>,
}

impl Live {
    /// Starts recording the latencies of the requests to `disks`: the kernel runs one program per request, or two if
    /// the disk has no queue of requests. `with_waits` adds requests in flight and what processes read, write and sync:
    /// three programs per request, and two per system call anywhere on the machine. `no_start` is true if the kernel
    /// does not record when requests to some of these disks were created (`queue/iostats` is 0).
    ///
    /// # Errors
    /// If the kernel or this user's privileges do not allow it.
    pub fn begin(disks: Disks<'_>, no_start: bool, with_waits: bool) -> Result<Self> {
        let (only, room, first) = match &disks {
            Disks::Only(disk) => (Some(disk), 1, std::slice::from_ref(disk)),
            Disks::Of(disks) => (None, (disks.len() + DISKS_SPARE).min(DISKS_MAX), *disks),
        };
        let mut sizes = vec![("latencies", (room * OPS.len()) as u32)];
        if !with_waits {
            sizes.extend([("processes", 1), ("syncs", 1), ("ring_syncs", 1), ("writers", 1)]);
        }
        let has_requests = only.is_none_or(|disk| disk.has_requests);
        let may_have_bios = only.is_none_or(|disk| !disk.has_requests);
        sizes.push(("bios", if may_have_bios { BIOS_MAX } else { 1 }));
        let flag = (with_waits && may_have_bios).then(|| constant(IN_FLIGHT_FLAG)).flatten();
        let flag = flag.and_then(|bit| 1u32.checked_shl(bit));
        let switches = [
            ("with_waits", with_waits.into()),
            ("no_start", no_start.into()),
            ("in_flight_flag", Value::Word(flag.unwrap_or(0))),
        ];
        let (mut bpf, btf) = load(OBJECT, only.map(|disk| disk.device), &switches, &sizes)?;
        let found = RingBuf::try_from(bpf.take_map("found").context("the program has no ring")?)?;
        let free = (0..room as u32).rev().collect();
        let places = Places::new();
        let mut live =
            Self { bpf, places, free, with_waits, stamps_issue: false, serves_bios: false, no_bios: false, found };
        first.iter().take(room).try_for_each(|disk| live.place(*disk).map(drop))?;
        if has_requests {
            attach(&mut live.bpf, &btf, "rq_complete", "block_rq_complete")?;
            if with_waits || no_start {
                live.stamp_issue(&btf)?;
                attach_start(&mut live.bpf, &btf, "io_start")?;
            }
        }
        if first.iter().any(|disk| !disk.has_requests) {
            let served = live.serve_bios(&btf);
            // The other disks do not need these programs.
            if has_requests { live.no_bios = served.is_err() } else { served? }
        }
        if with_waits {
            // Optional: without it, it is not known what processes change in memory.
            let _ = attach(&mut live.bpf, &btf, "folio_dirtied", "writeback_dirty_folio");
            live.load_check("scan")?;
            attach_calls(&mut live.bpf, &btf)?;
        }
        Ok(live)
    }

    /// Attaches a program that records when requests are issued: the kernel itself does not record it for every disk.
    fn stamp_issue(&mut self, btf: &Btf) -> Result<()> {
        if !self.stamps_issue {
            attach(&mut self.bpf, btf, "rq_issue", "block_rq_issue")?;
            self.stamps_issue = true;
        }
        Ok(())
    }

    /// Loads a program that is run by [`Live::check`].
    fn load_check(&mut self, name: &str) -> Result<()> {
        let program: &mut RawTracePoint =
            self.bpf.program_mut(name).with_context(|| format!("the object has no {name}"))?.try_into()?;
        program.load().with_context(|| format!("the kernel refused {name}, which finds what waits for long"))
    }

    /// Runs such a program and returns its result.
    fn check(&self, name: &str, args: [u64; 2]) -> Result<u32> {
        let program: &RawTracePoint =
            self.bpf.program(name).with_context(|| format!("the object has no {name}"))?.try_into()?;
        let mut options = RawTracePointRunOptions::new();
        options.args[..2].copy_from_slice(&args);
        let ran = program
            .test_run(options)
            .with_context(|| format!("the kernel did not run {name}, which finds what waits for long"))?;
        Ok(ran.return_value)
    }

    /// Attaches the programs for disks without requests.
    fn serve_bios(&mut self, btf: &Btf) -> Result<()> {
        if self.serves_bios {
            return Ok(());
        }
        if self.with_waits {
            self.load_check("check_bio")?;
        }
        attach(&mut self.bpf, btf, "bio_ends", "block_bio_complete")?;
        attach(&mut self.bpf, btf, "bio_splits", "block_split")?;
        attach(&mut self.bpf, btf, "bio_begins", "block_bio_queue")?;
        self.serves_bios = true;
        Ok(())
    }

    /// Adds a disk. Returns false if there is no room for it, or the kernel refuses the programs that it needs.
    ///
    /// # Errors
    /// If the kernel rejects the update.
    pub fn add(&mut self, disk: LiveDisk) -> Result<bool> {
        if !disk.has_requests && !self.serves_bios && !self.no_bios {
            self.no_bios = Btf::from_sys_fs().map_err(Into::into).and_then(|btf| self.serve_bios(&btf)).is_err();
        }
        if !disk.has_requests && self.no_bios { Ok(false) } else { self.place(disk) }
    }

    fn place(&mut self, LiveDisk { device, has_requests }: LiveDisk) -> Result<bool> {
        if self.places.contains_key(&device) {
            return Ok(true);
        }
        let Some(slot) = self.free.pop() else { return Ok(false) };
        let map = self.bpf.map_mut("places").context("the program has no places")?;
        HashMap::<_, u32, u32>::try_from(map)?.insert(device.number(), slot, 0)?;
        self.places.insert(device, Place { slot, has_requests });
        Ok(true)
    }

    /// Frees the slots of disks that are gone. Their counts remain, so the next disk in a slot starts from them.
    ///
    /// # Errors
    /// If the kernel rejects the update.
    pub fn keep(&mut self, is_there: impl Fn(Device) -> bool) -> Result<()> {
        let gone: Vec<Device> = self.places.keys().copied().filter(|disk| !is_there(*disk)).collect();
        for disk in gone {
            let map = self.bpf.map_mut("places").context("the program has no places")?;
            HashMap::<_, u32, u32>::try_from(map)?.remove(&disk.number())?;
            self.free.extend(self.places.remove(&disk).map(|place| place.slot));
        }
        Ok(())
    }

    /// Returns the latencies of a disk since the capture began, by operation; empty if the disk is not recorded.
    ///
    /// # Errors
    /// If the BPF maps cannot be read.
    pub fn latencies(&mut self, disk: Device) -> Result<Vec<(Op, Latencies)>> {
        let Some(&Place { slot, has_requests }) = self.places.get(&disk) else { return Ok(Vec::new()) };
        let map = self.bpf.map("latencies").context("the program has no latencies")?;
        let map: PerCpuArray<_, [u32; WORDS]> = PerCpuArray::try_from(map)?;
        let mut all = Vec::new();
        for (at, op) in OPS.into_iter().enumerate() {
            let counted = map.get(&(slot * OPS.len() as u32 + at as u32), 0)?;
            let latencies = Latencies::sum(counted.iter());
            if latencies.count(Stage::Total) + latencies.unstamped > 0 {
                all.push((op, latencies));
            }
        }
        if has_requests && !self.stamps_issue && all.iter().any(|(_, latencies)| latencies.unstamped > 0) {
            // BTF takes tens of MB, so it is loaded only when needed.
            self.stamp_issue(&Btf::from_sys_fs()?)?;
        }
        Ok(all)
    }

    /// Returns the bios that have been in flight since before `before_ns`.
    fn old_bios(&self, before_ns: u64, now_ns: u64) -> Result<Vec<InFlight>> {
        let map = self.bpf.map("bios").context("the program has no bios")?;
        let map: HashMap<_, u64, [u8; ON_ITS_WAY]> = HashMap::try_from(map)?;
        let mut old = Vec::new();
        for (bio, bytes) in entries(&map) {
            let Some(found) = in_flight(&bytes, now_ns).filter(|of| now_ns.saturating_sub(of.age_ns) < before_ns)
            else {
                continue;
            };
            if self.check("check_bio", [bio, now_ns.saturating_sub(found.age_ns)])? == 1 {
                old.push(found);
            }
        }
        Ok(old)
    }

    /// Returns the requests that have been in flight for at least `age_ns` at the time `now_ns` (CLOCK_MONOTONIC),
    /// oldest first.
    ///
    /// # Errors
    /// If the kernel does not run the scan, or waits are not recorded.
    pub fn in_flight(&mut self, now_ns: u64, age_ns: u64) -> Result<Vec<InFlight>> {
        ensure!(self.with_waits, "requests in flight are not recorded");
        let mut all = Vec::new();
        for first in (0..IN_FLIGHT_MAX).step_by(SCANNED_AT_ONCE) {
            self.check("scan", [first as u64, now_ns.saturating_sub(age_ns)])?;
            while let Some(item) = self.found.next() {
                all.extend(in_flight(&item, now_ns));
            }
        }
        if self.serves_bios {
            all.extend(self.old_bios(now_ns.saturating_sub(age_ns), now_ns)?);
        }
        // Ignore leftover requests of disks that are gone.
        all.retain(|request: &InFlight| {
            self.places.contains_key(&Device { major: request.device.0, minor: request.device.1 })
        });
        all.order_by_key(|request: &InFlight| std::cmp::Reverse(request.age_ns));
        Ok(all)
    }

    /// Returns the syncs in progress at the time `now_ns` (CLOCK_MONOTONIC), oldest first.
    ///
    /// # Errors
    /// If the BPF maps cannot be read.
    pub fn syncs(&self, now_ns: u64) -> Result<Vec<SyncUnderWay>> {
        let map = |name: &str| self.bpf.map(name).context("the program has no syncs");
        let of_threads: HashMap<_, u32, SyncWords> = HashMap::try_from(map("syncs")?)?;
        let of_rings: HashMap<_, u64, SyncWords> = HashMap::try_from(map("ring_syncs")?)?;
        let both = entries(&of_threads).into_values().chain(entries(&of_rings).into_values());
        // One in a chain of io_uring has no start until the one before it has ended.
        let begun = both.filter(|[start_ns, ..]| *start_ns > 0);
        let of = |[start_ns, _, inode, what, _, cgroup, ids, name @ ..]: SyncWords| {
            let ([call, device], [pid, tid]) = (halves(what), halves(ids));
            SyncUnderWay {
                asker: Asker { pid, tid, comm: comm(name), cgroup, is_kernels: false },
                age_ns: now_ns.saturating_sub(start_ns),
                call: call_name(call),
                device: (device >> 20, device & 0xf_ffff),
                inode,
            }
        };
        let mut all: Vec<SyncUnderWay> = begun.map(of).collect();
        all.order_by_key(|sync| std::cmp::Reverse(sync.age_ns));
        Ok(all)
    }

    /// Returns the processes with I/O since the capture began, once per disk; if there are too many, the most recent
    /// ones.
    ///
    /// # Errors
    /// If the BPF maps cannot be read.
    pub fn processes(&self) -> Result<Vec<Process>> {
        processes(&self.bpf)
    }
}

/// Returns the processes that the programs have counted.
pub(crate) fn processes(bpf: &Ebpf) -> Result<Vec<Process>> {
    let map = bpf.map("processes").context("the program has no processes")?;
    let map: HashMap<_, [u32; 2], [u64; 11]> = HashMap::try_from(map)?;
    let of = |([pid, device], words): ([u32; 2], [u64; 11])| {
        let [
            cgroup,
            read_bytes,
            write_bytes,
            changed_bytes,
            requests,
            syncs,
            sync_ns,
            longest_sync_ns,
            mapped_at,
            name @ ..,
        ] = words;
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
            mapped_at,
        }
    };
    Ok(entries(&map).into_iter().map(of).collect())
}

/// Returns the entries of a table that changes while it is read. Each key appears once, although the kernel starts
/// over when the last entry it returned is gone.
fn entries<K: aya::Pod + Eq + std::hash::Hash, V: aya::Pod>(map: &HashMap<&MapData, K, V>) -> Places<K, V> {
    map.iter().take(ENTRIES_MAX).filter_map(Result::ok).collect()
}

/// Most entries read from a table.
const ENTRIES_MAX: usize = 32_768;

/// Both halves of a word, in memory order.
fn halves(word: u64) -> [u32; 2] {
    let bytes = word.to_ne_bytes();
    [0, 4].map(|at| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes")))
}

fn comm(words: [u64; 2]) -> [u8; COMM] {
    let mut comm = [0; COMM];
    comm.chunks_exact_mut(8).zip(words).for_each(|(part, word)| part.copy_from_slice(&word.to_ne_bytes()));
    comm
}

/// Parses a `struct on_its_way`; `None` if the length is wrong.
fn in_flight(bytes: &[u8], now_ns: u64) -> Option<InFlight> {
    let bytes: &[u8; ON_ITS_WAY] = bytes.try_into().ok()?;
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

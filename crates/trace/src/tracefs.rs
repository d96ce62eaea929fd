//! Requests from the kernel's own trace events, where it allows no BPF: an instance of tracefs, mounted where nobody else
//! sees it, and read as text.
//!
//! The text has no process ids but those of threads, and times in microseconds. The instance is removed when the trace
//! ends; one that a killed qd1 left behind is removed by the next trace.

use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use qd1_model::requests::{Asker, COMM, Op, Request, comm_of};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::capture::Counts;
use crate::program::Device;

/// Prefix of an instance's name. All containers of a machine share the names, so process ids alone are not unique.
const PREFIX: &str = "qd1-";
/// Events that are recorded. The first is absent before 6.5.
const OPTIONAL: &str = "block_io_start";
const EVENTS: [&str; 2] = ["block_rq_issue", "block_rq_complete"];
/// Size of the kernel's buffer for each processor, KiB.
const BUFFER_KIB: &str = "8192";
/// Most requests that are remembered while the device has them.
const OPEN_MAX: usize = 1 << 16;
/// Bytes that are read at once.
const AT_ONCE: usize = 1 << 16;
/// Most threads whose processes are remembered.
const THREADS_MAX: usize = 4096;

/// A trace through tracefs.
pub(crate) struct Tracefs {
    /// Keeps the private mount.
    _mount: OwnedFd,
    instance: PathBuf,
    pipe: fs::File,
    unread: Vec<u8>,
    pairs: Pairs,
    pub(crate) sees_start: bool,
}

impl Tracefs {
    /// Starts recording the requests of a disk, or of all disks.
    ///
    /// # Errors
    /// If the kernel or this user's privileges do not allow it.
    pub(crate) fn begin(device: Option<Device>) -> Result<Self> {
        let mount = mount().context("tracefs cannot be mounted")?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        let instances = root.join("instances");
        remove_left(&instances);
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let instance = instances.join(format!("{PREFIX}{:016x}", u64::from_ne_bytes(random)));
        fs::create_dir(&instance).context("tracefs allows no instance of its own")?;
        let prepared = prepare(&instance, device);
        let (pipe, sees_start) = prepared.inspect_err(|_| _ = fs::remove_dir(&instance))?;
        let pairs = Pairs { sees_start, ..Pairs::default() };
        Ok(Self { _mount: mount, instance, pipe, unread: Vec::new(), pairs, sees_start })
    }

    /// Passes on what was recorded since the last call. Returns true if there may be more.
    pub(crate) fn read(&mut self, take: &mut dyn FnMut(Request)) -> bool {
        let begin = self.unread.len();
        self.unread.resize(begin + AT_ONCE, 0);
        // Nothing to read is an error here, too.
        let length = self.pipe.read(&mut self.unread[begin..]).unwrap_or(0);
        self.unread.truncate(begin + length);
        let end = self.unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in self.unread[..end].split(|byte| *byte == b'\n') {
            if let Some(request) = self.pairs.take(&String::from_utf8_lossy(line)) {
                take(request);
            }
        }
        self.unread.drain(..end);
        // No line is that long.
        if self.unread.len() > AT_ONCE {
            self.unread.clear();
        }
        length > 0
    }

    /// Stops recording, passes on the rest, and returns what was recorded.
    pub(crate) fn end(mut self, take: &mut dyn FnMut(Request)) -> Counts {
        let _ = put(&self.instance.join("tracing_on"), "0");
        while self.read(take) {}
        Counts {
            in_flight: self.pairs.open.values().filter(|open| open.issue_ns.is_some()).count() as u64,
            ..self.pairs.counts
        }
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        // The kernel keeps an instance that is being read.
        if let Ok(nothing) = fs::File::open("/dev/null") {
            self.pipe = nothing;
        }
        let _ = fs::remove_dir(&self.instance);
    }
}

/// Mounts tracefs without a place in the tree of files.
fn mount() -> rustix::io::Result<OwnedFd> {
    let filesystem = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&filesystem)?;
    fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Removes instances that a killed qd1 left; the kernel refuses those that are being read.
fn remove_left(instances: &Path) {
    let entries = fs::read_dir(instances).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let _ = fs::remove_dir(entry.path());
    }
}

fn put(file: &Path, text: &str) -> Result<()> {
    let written = fs::OpenOptions::new().write(true).open(file).and_then(|mut file| file.write_all(text.as_bytes()));
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    written.with_context(|| format!("cannot write {name} of tracefs"))
}

/// Switches the events on; returns the open text, and whether the kernel reports when requests are created.
fn prepare(instance: &Path, device: Option<Device>) -> Result<(fs::File, bool)> {
    // First of all: what is being read is not removed by another qd1.
    let flags = OFlags::NONBLOCK.union(OFlags::CLOEXEC).bits().cast_signed();
    let pipe = fs::OpenOptions::new().read(true).custom_flags(flags).open(instance.join("trace_pipe"));
    put(&instance.join("trace_clock"), "mono")?;
    put(&instance.join("buffer_size_kb"), BUFFER_KIB)?;
    let events = instance.join("events/block");
    let sees_start = events.join(OPTIONAL).exists();
    // Completions first, so that no request without one is waited for.
    let names = EVENTS.into_iter().rev().chain(sees_start.then_some(OPTIONAL));
    for name in names {
        if let Some(device) = device {
            put(&events.join(name).join("filter"), &format!("dev == {}", device.number()))?;
        }
        put(&events.join(name).join("enable"), "1")?;
    }
    Ok((pipe.context("cannot read tracefs")?, sees_start))
}

/// Puts the events of a request together.
#[derive(Default)]
struct Pairs {
    open: HashMap<Place, Open>,
    processes: HashMap<u32, u32>,
    counts: Counts,
    sees_start: bool,
}

/// Requests that the device has at the same time differ in this.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    device: (u32, u32),
    sector: u64,
    op: u8,
}

/// A request that is not completed.
struct Open {
    start_ns: Option<u64>,
    issue_ns: Option<u64>,
    asker: Asker,
    sector: u64,
    bytes: u32,
    /// Bytes that are not completed: the device may complete a request in parts.
    left: u32,
}

impl Pairs {
    /// Takes a line; returns a request that is completed by it.
    fn take(&mut self, line: &str) -> Option<Request> {
        if let Some(lost) = lost(line) {
            self.counts.lost_other += lost;
            return None;
        }
        let event = Event::parse(line)?;
        let place = Place { device: event.device, sector: event.sector, op: event.op as u8 };
        if event.kind != Kind::Complete {
            let known = self.open.remove(&place);
            if self.open.len() >= OPEN_MAX {
                // What was merged into another request is never issued; completions may be lost.
                self.open.retain(|_, open| open.issue_ns.is_some());
                if self.open.len() >= OPEN_MAX {
                    self.open.clear();
                }
            }
            let is_start = event.kind == Kind::Start;
            // The thread that creates a request is the one that wants it.
            let asker = match &known {
                Some(known) if !is_start => known.asker,
                _ => self.asker(event.tid, event.comm),
            };
            let start_ns = if is_start { Some(event.at_ns) } else { known.and_then(|known| known.start_ns) };
            let issue_ns = (!is_start).then_some(event.at_ns);
            let (sector, bytes) = (event.sector, event.bytes);
            self.open.insert(place, Open { start_ns, issue_ns, asker, sector, bytes, left: bytes });
            return None;
        }
        let Some((issue_ns, open)) = self.open.remove(&place).and_then(|open| Some((open.issue_ns?, open))) else {
            // What only asked for a flush is completed as well as the flush itself.
            let is_counted = u64::from(event.bytes > 0);
            self.counts.completed += is_counted;
            self.counts.unseen += is_counted;
            return None;
        };
        if event.bytes < open.left {
            let rest = Place { sector: event.sector + u64::from(event.bytes / 512), ..place };
            self.open.insert(rest, Open { left: open.left - event.bytes, ..open });
            return None;
        }
        self.counts.completed += 1;
        Some(Request {
            complete_ns: event.at_ns,
            queue_ns: open.start_ns.filter(|_| self.sees_start).map(|start_ns| issue_ns.saturating_sub(start_ns)),
            device_ns: event.at_ns.saturating_sub(issue_ns),
            sector: open.sector,
            bytes: open.bytes,
            device: event.device,
            flags: event.op.flags() | event.flags,
            asker: open.asker,
            blkcg: 0,
            errno: event.errno,
        })
    }

    fn asker(&mut self, tid: u32, comm: [u8; COMM]) -> Asker {
        if self.processes.len() > THREADS_MAX {
            self.processes.clear();
        }
        let pid = *self.processes.entry(tid).or_insert_with(|| process_of(tid).unwrap_or(tid));
        Asker { pid, tid, comm, cgroup: 0, is_kernels: false }
    }
}

/// The process of a thread, if it still exists.
fn process_of(tid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// `CPU:1 [LOST 123 EVENTS]`.
fn lost(line: &str) -> Option<u64> {
    line.strip_prefix("CPU:")?.split_once("[LOST ")?.1.split(' ').next()?.parse().ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Start,
    Issue,
    Complete,
}

/// A line of the trace.
#[derive(Debug, PartialEq)]
struct Event {
    kind: Kind,
    at_ns: u64,
    tid: u32,
    comm: [u8; COMM],
    device: (u32, u32),
    sector: u64,
    bytes: u32,
    op: Op,
    flags: u32,
    errno: u32,
}

impl Event {
    /// Parses `  dd-812  [001] .....  4242.123456: block_rq_issue: 7,0 RA 4096 () 1024 + 8 none,0,0 [dd]`; `None` for
    /// other lines. The name may have spaces, so the line is read from its fixed parts.
    fn parse(line: &str) -> Option<Self> {
        let names =
            [("block_io_start", Kind::Start), ("block_rq_issue", Kind::Issue), ("block_rq_complete", Kind::Complete)];
        let found = |(name, kind): (&str, Kind)| Some((line.find(&format!(": {name}: "))?, name.len(), kind));
        let (at, length, kind) = names.into_iter().find_map(found)?;
        let (head, body) = (&line[..at], &line[at + length + 4..]);
        let (asker, rest) = head.rsplit_once(" [")?;
        let (known, tid) = asker.trim().rsplit_once('-')?;
        let (seconds, micros) = rest.split_whitespace().last()?.split_once('.')?;
        let at_ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)? + micros.parse::<u64>().ok()? * 1000;
        let mut words = body.split_whitespace();
        let (major, minor) = words.next()?.split_once(',')?;
        let (op, flags) = letters(words.next()?);
        // `SECTOR + SECTORS` is in the middle; before it come the bytes, except at completion.
        let (before, after) = body.split_once(" + ")?;
        let sector = before.rsplit(' ').next()?.parse::<u64>().ok()?;
        // A flush has no place: some events show 0, others -1.
        let sector = if op == Op::Flush { 0 } else { sector };
        let sectors: u64 = after.split_whitespace().next()?.parse().ok()?;
        let error = if kind == Kind::Complete { after.rsplit_once('[')?.1.trim_end_matches(']') } else { "0" };
        // The head has `<...>` for a thread that the kernel does not remember.
        let named = after.split_once('[').map(|(_, named)| named.trim_end().trim_end_matches(']'));
        let comm = named.filter(|_| kind != Kind::Complete).unwrap_or(known);
        Some(Self {
            kind,
            at_ns,
            tid: tid.parse().ok()?,
            comm: comm_of(comm),
            device: (major.parse().ok()?, minor.parse().ok()?),
            sector,
            bytes: u32::try_from(sectors.saturating_mul(512)).unwrap_or(u32::MAX),
            op,
            flags,
            errno: error.parse::<i32>().map_or(0, i32::unsigned_abs),
        })
    }
}

/// The kernel's letters (`blk_fill_rwbs`): F for a flush before it, the operation, then F(UA), A(head), S(ync), M(etadata).
fn letters(letters: &str) -> (Op, u32) {
    let is_op = |letter: char| "WRDNFZ".contains(letter);
    let mut rest = letters;
    if let Some(after) = letters.strip_prefix('F').filter(|after| after.starts_with(is_op)) {
        rest = after;
    }
    let op = match rest.chars().next() {
        Some('R') => Op::Read,
        Some('W') => Op::Write,
        Some('F') => Op::Flush,
        Some('D') => Op::Discard,
        _ => Op::Other,
    };
    let more = rest.get(1..).unwrap_or_default();
    let has = |letter: char| more.contains(letter);
    (op, Request::flags(has('S'), has('M'), has('F'), has('A')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str =
        "    my dd-4294000 [001] d..1.  4242.000100: block_io_start: 7,3 RA 4096 () 1024 + 8 none,0,0 [my dd]";
    const ISSUE: &str =
        " kworker/1:1H-99 [001] d..1.  4242.000150: block_rq_issue: 7,3 RA 4096 () 1024 + 8 none,0,0 [kworker/1:1H]";
    const COMPLETE: &str =
        "  <idle>-0     [000] d.s1.  4242.020150: block_rq_complete: 7,3 RA () 1024 + 8 none,0,0 [0]";

    #[test]
    fn the_events_of_a_request_become_one() {
        let mut pairs = Pairs { sees_start: true, ..Pairs::default() };
        assert_eq!((pairs.take(START), pairs.take(ISSUE)), (None, None));
        let request = pairs.take(COMPLETE).unwrap();
        assert_eq!((request.queue_ns, request.device_ns), (Some(50_000), 20_000_000));
        assert_eq!((request.device, request.sector, request.bytes), ((7, 3), 1024, 4096));
        assert_eq!(
            (request.letters().as_str(), request.asker.name().as_ref(), request.asker.tid),
            ("RA", "my dd", 4_294_000)
        );
        // Before 6.5, there is no start, and the one who issues it counts.
        let mut pairs = Pairs::default();
        let old = ISSUE.replace(" none,0,0", "");
        assert_eq!(pairs.take(&old), None);
        let request = pairs.take(&COMPLETE.replace(" none,0,0", "").replace("[0]", "[-5]")).unwrap();
        assert_eq!((request.queue_ns, request.errno, request.asker.tid), (None, 5, 99));
        // Its issue was not seen.
        assert_eq!((pairs.take(COMPLETE), pairs.counts.completed, pairs.counts.unseen), (None, 2, 1));
        // In two parts.
        pairs.take(START);
        pairs.take(ISSUE);
        assert_eq!(pairs.take(&COMPLETE.replace("1024 + 8", "1024 + 2")), None);
        let request = pairs.take(&COMPLETE.replace("1024 + 8", "1026 + 6")).unwrap();
        assert_eq!((request.sector, request.bytes, pairs.counts.completed), (1024, 4096, 3));
        assert_eq!((pairs.take("CPU:1 [LOST 44 EVENTS]"), pairs.counts.lost_other), (None, 44));
    }

    #[test]
    fn letters_are_those_of_the_kernel() {
        for (text, op, shown) in [
            ("R", Op::Read, "R"),
            ("WS", Op::Write, "WS"),
            ("FWFSM", Op::Write, "WFSM"),
            ("FF", Op::Flush, "F"),
            ("F", Op::Flush, "F"),
            ("D", Op::Discard, "D"),
            ("N", Op::Other, "N"),
        ] {
            let (found, flags) = letters(text);
            let request = Request {
                complete_ns: 0,
                queue_ns: None,
                device_ns: 0,
                sector: 0,
                bytes: 0,
                device: (0, 0),
                flags: found.flags() | flags,
                asker: Asker::default(),
                blkcg: 0,
                errno: 0,
            };
            assert_eq!((found, request.letters().as_str()), (op, shown), "{text}");
        }
    }

    #[test]
    fn other_text_is_no_event() {
        for line in ["", ": block_rq_issue: ", "x-1 [000] 1.2: block_rq_issue: 7 R + ", COMPLETE.split_at(60).0] {
            assert_eq!(Event::parse(line), None, "{line}");
        }
        let hostile = START.replace("my dd", "a-1 [0] 5.6: block_rq_issue: x");
        assert!(Event::parse(&hostile).is_none_or(|event| event.kind == Kind::Issue || event.kind == Kind::Start));
    }
}

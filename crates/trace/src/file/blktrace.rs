//! blktrace's binary files, version 7 (48 bytes an event) and 8 (64 bytes, Linux 6.19): events of each processor, from
//! which requests are put together.

use std::collections::HashMap;
use std::io::BufRead;

use anyhow::{Context as _, Result, bail, ensure};
use qd1_model::requests::{Asker, COMM, Op, Request};

use super::About;
use super::recording::Ending;

/// The upper bytes of an event's first word; the lowest is the version.
const MAGIC: u32 = 0x6561_7400;
/// Most requests that are in flight, and most processes whose names are known.
const TABLE_MAX: usize = 65_536;
/// How long a request is remembered if the table is full, ns.
const FORGOTTEN_NS: u64 = 30_000_000_000;
/// Longest text that follows an event, bytes; the kernel's messages have at most 128.
const PAYLOAD_MAX: usize = 4096;

/// What happened: the low half of an event's action (`enum blktrace_act`).
const BACK_MERGE: u16 = 2;
const FRONT_MERGE: u16 = 3;
const GET_REQUEST: u16 = 4;
const ISSUE: u16 = 7;
const COMPLETE: u16 = 8;
const INSERT: u16 = 12;
/// Added to it if the payload begins with the id of a control group.
const WITH_CGROUP: u16 = 1 << 8;
/// Categories of an event (`enum blktrace_cat`), the high half of its action.
const WRITE: u64 = 1 << 1;
const FLUSH: u64 = 1 << 2;
const SYNC: u64 = 1 << 3;
const PASSTHROUGH: u64 = 1 << 9;
const NOTIFY: u64 = 1 << 10;
const AHEAD: u64 = 1 << 11;
const META: u64 = 1 << 12;
const DISCARD: u64 = 1 << 13;
const FUA: u64 = 1 << 15;
/// A notification: the name of a process, and the time of day.
const PROCESS: u16 = 0;

/// An event.
struct Raw {
    time_ns: u64,
    sector: u64,
    bytes: u32,
    pid: u32,
    act: u16,
    category: u64,
    device: u32,
    error: u16,
    cgroup: u64,
    payload: Vec<u8>,
}

/// A file of one processor, with its next event.
struct Processor<R> {
    from: R,
    next: Option<Raw>,
}

/// A request in flight, by device, kind and first sector.
type Key = (u32, u64, u64);

/// What is known about a request in flight.
#[derive(Clone, Copy)]
struct InFlight {
    created_ns: Option<u64>,
    issued_ns: Option<u64>,
    seen_ns: u64,
    sector: u64,
    bytes: u32,
    /// Bytes that are not completed yet.
    left: u32,
    pid: u32,
    cgroup: u64,
}

/// Files of a trace that are being read.
pub(super) struct Blktrace<R> {
    processors: Vec<Processor<R>>,
    in_flight: HashMap<Key, InFlight>,
    names: HashMap<u32, [u8; COMM]>,
    begin_ns: Option<u64>,
    read: u64,
    /// How a processor's file ended early.
    damage: Option<Ending>,
    ending: Option<Ending>,
}

impl<R: BufRead> Blktrace<R> {
    /// Whether a file begins with an event.
    pub(super) fn is_one(head: &[u8]) -> bool {
        let word =
            |bytes: [u8; 4]| u32::from_le_bytes(bytes) & !0xff == MAGIC || u32::from_be_bytes(bytes) & !0xff == MAGIC;
        head.first_chunk::<4>().is_some_and(|first| word(*first))
    }

    /// What its files say about how they were recorded.
    pub(super) fn about() -> About {
        About { sees_queue: true, sees_device: true, ..About::default() }
    }

    pub(super) fn new(inputs: Vec<R>) -> Result<Self> {
        let mut blktrace = Self {
            processors: Vec::new(),
            in_flight: HashMap::new(),
            names: HashMap::new(),
            begin_ns: None,
            read: 0,
            damage: None,
            ending: None,
        };
        for mut from in inputs {
            let next = raw(&mut from, &mut blktrace.read)?;
            blktrace.processors.push(Processor { from, next });
        }
        Ok(blktrace)
    }

    pub(super) fn next(&mut self) -> Option<Request> {
        while self.ending.is_none() {
            let earliest = self
                .processors
                .iter_mut()
                .filter(|processor| processor.next.is_some())
                .min_by_key(|processor| processor.next.as_ref().map(|next| next.time_ns));
            let Some(processor) = earliest else {
                self.ending = Some(self.damage.take().unwrap_or(Ending::Unmarked));
                break;
            };
            let event = processor.next.take();
            match raw(&mut processor.from, &mut self.read) {
                Ok(next) => processor.next = next,
                Err(error) => {
                    // The other processors' files go on.
                    self.damage = Some(Ending::Incomplete { why: format!("{error:#}"), read: self.read });
                }
            }
            if let Some(request) = event.and_then(|event| self.take(&event)) {
                return Some(request);
            }
        }
        None
    }

    /// Takes an event; returns a request that it completes.
    fn take(&mut self, event: &Raw) -> Option<Request> {
        if event.category & NOTIFY != 0 {
            if event.act == PROCESS && self.names.len() < TABLE_MAX {
                let mut comm = [0; COMM];
                let length = event.payload.len().min(COMM - 1);
                comm[..length].copy_from_slice(&event.payload[..length]);
                self.names.insert(event.pid, comm);
            }
            return None;
        }
        let begin_ns = *self.begin_ns.get_or_insert(event.time_ns);
        // A write that also flushes loses that mark on its way.
        let flush = if event.bytes == 0 { FLUSH } else { 0 };
        let key = (event.device, event.category & (WRITE | flush | DISCARD | PASSTHROUGH), event.sector);
        self.make_room(event.time_ns);
        match event.act {
            GET_REQUEST | INSERT => {
                let created = InFlight {
                    created_ns: Some(event.time_ns),
                    issued_ns: None,
                    seen_ns: event.time_ns,
                    sector: event.sector,
                    bytes: event.bytes,
                    left: event.bytes,
                    pid: event.pid,
                    cgroup: event.cgroup,
                };
                // Most requests are inserted after they were created.
                let known = self.in_flight.entry(key).or_insert(created);
                if event.act == GET_REQUEST {
                    *known = created;
                }
            }
            BACK_MERGE => {}
            FRONT_MERGE => {
                let behind = (key.0, key.1, event.sector.wrapping_add(u64::from(event.bytes) / 512));
                if let Some(known) = self.in_flight.remove(&behind) {
                    self.in_flight.insert(key, known);
                }
            }
            ISSUE => {
                let known = self.in_flight.entry(key).or_insert(InFlight {
                    created_ns: None,
                    issued_ns: None,
                    seen_ns: event.time_ns,
                    sector: event.sector,
                    bytes: 0,
                    left: 0,
                    pid: event.pid,
                    cgroup: event.cgroup,
                });
                (known.issued_ns, known.sector) = (Some(event.time_ns), event.sector);
                (known.bytes, known.left) = (event.bytes, event.bytes);
            }
            COMPLETE => return self.complete(event, key, begin_ns),
            _ => {}
        }
        None
    }

    fn complete(&mut self, event: &Raw, key: Key, begin_ns: u64) -> Option<Request> {
        let known = self.in_flight.remove(&key)?;
        let issued_ns = known.issued_ns?;
        // A part of it: the rest is completed later, under the sector that follows.
        if event.bytes < known.left {
            let (left, behind) = (known.left - event.bytes, event.sector.wrapping_add(u64::from(event.bytes) / 512));
            self.in_flight.insert((key.0, key.1, behind), InFlight { left, ..known });
            return None;
        }
        let op = match event.category {
            of if of & PASSTHROUGH != 0 => Op::Other,
            of if of & DISCARD != 0 => Op::Discard,
            of if of & FLUSH != 0 && known.bytes == 0 => Op::Flush,
            of if of & WRITE != 0 => Op::Write,
            _ => Op::Read,
        };
        let has = |bit: u64| event.category & bit != 0;
        Some(Request {
            complete_ns: event.time_ns.saturating_sub(begin_ns),
            queue_ns: known.created_ns.map(|created_ns| issued_ns.saturating_sub(created_ns)),
            device_ns: event.time_ns.saturating_sub(issued_ns),
            sector: known.sector,
            bytes: known.bytes,
            // The kernel's dev_t: 12 bits and 20 bits.
            device: (event.device >> 20, event.device & 0xf_ffff),
            flags: op.flags() | Request::flags(has(SYNC), has(META), has(FUA), has(AHEAD)),
            asker: Asker {
                pid: known.pid,
                tid: known.pid,
                comm: self.names.get(&known.pid).copied().unwrap_or_default(),
                cgroup: known.cgroup,
                is_kernels: false,
            },
            blkcg: 0,
            // An error number, positive or negative depending on the kernel.
            errno: u32::from(event.error.cast_signed().unsigned_abs()),
        })
    }

    /// Forgets requests that were merged into others: nothing says that they ended.
    fn make_room(&mut self, now_ns: u64) {
        if self.in_flight.len() >= TABLE_MAX {
            self.in_flight.retain(|_, known| known.seen_ns + FORGOTTEN_NS > now_ns);
            if self.in_flight.len() >= TABLE_MAX {
                self.in_flight.clear();
            }
        }
    }

    pub(super) const fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }
}

/// Reads the next event; `None` at the end of the file.
fn raw(from: &mut impl BufRead, read: &mut u64) -> Result<Option<Raw>> {
    if from.fill_buf().context("cannot read it")?.is_empty() {
        return Ok(None);
    }
    const CUT: &str = "it ends within an event";
    let mut words = [0; 4];
    ensure!(from.read_exact(&mut words).is_ok(), CUT);
    ensure!(u32::from_be_bytes(words) & !0xff != MAGIC, "it is from a big-endian machine, which qd1 cannot read");
    let magic = u32::from_le_bytes(words);
    ensure!(magic & !0xff == MAGIC, "an event is damaged");
    let mut rest = [0; 60];
    let length = match magic & 0xff {
        7 => 44,
        8 => 60,
        version => bail!("it has version {version} of blktrace's format; versions 7 and 8 can be read"),
    };
    let rest = &mut rest[..length];
    ensure!(from.read_exact(rest).is_ok(), CUT);
    let number = |at: usize, length: usize| {
        let mut bytes = [0; 8];
        bytes[..length].copy_from_slice(&rest[at..at + length]);
        u64::from_le_bytes(bytes)
    };
    // After the magic word: sequence, time, sector, bytes; then version 8 has a wider action, and after the process.
    let (action, pid, tail) =
        if length == 44 { (number(24, 4), number(28, 4), 32) } else { (number(28, 8), number(24, 4), 36) };
    let (device, error, payload) = (number(tail, 4), number(tail + 8, 2), number(tail + 10, 2) as usize);
    ensure!(payload <= PAYLOAD_MAX, "an event is damaged");
    let mut bytes = vec![0; payload];
    ensure!(from.read_exact(&mut bytes).is_ok(), CUT);
    *read += (4 + length + payload) as u64;
    let act = action as u16;
    let cgroup = match bytes.first_chunk::<8>() {
        Some(id) if act & WITH_CGROUP != 0 => u64::from_le_bytes(*id),
        _ => 0,
    };
    Ok(Some(Raw {
        time_ns: number(4, 8),
        sector: number(12, 8),
        bytes: number(20, 4) as u32,
        pid: pid as u32,
        act: act & !WITH_CGROUP,
        category: action >> 16,
        device: device as u32,
        error: error as u16,
        cgroup,
        payload: if act & WITH_CGROUP != 0 { bytes.split_off(bytes.len().min(8)) } else { bytes },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event in the layout of a version.
    fn event(version: u32, time_ns: u64, sector: u64, bytes: u32, act: u16, category: u64, payload: &[u8]) -> Vec<u8> {
        let mut event = Vec::new();
        let action = category << 16 | u64::from(act);
        event.extend((MAGIC | version).to_le_bytes());
        event.extend(1u32.to_le_bytes());
        event.extend(time_ns.to_le_bytes());
        event.extend(sector.to_le_bytes());
        event.extend(bytes.to_le_bytes());
        if version == 7 {
            event.extend((action as u32).to_le_bytes());
            event.extend(42u32.to_le_bytes());
        } else {
            event.extend(42u32.to_le_bytes());
            event.extend(action.to_le_bytes());
        }
        event.extend((8u32 << 20 | 16).to_le_bytes());
        event.extend(0u32.to_le_bytes());
        event.extend(0u16.to_le_bytes());
        event.extend((payload.len() as u16).to_le_bytes());
        event.resize(if version == 7 { 48 } else { 64 }, 0);
        event.extend(payload);
        event
    }

    /// Two processors: a read that is created and issued on one and completed on the other, a write whose front grew and
    /// whose end is completed separately, and a flush.
    fn trace(version: u32) -> [Vec<u8>; 2] {
        let of = |time_ns, sector, bytes, act, category| event(version, time_ns, sector, bytes, act, category, &[]);
        let cgroup = 7u64.to_le_bytes();
        let first = [
            event(version, 0, 0, 0, PROCESS, NOTIFY, b"postgres\0"),
            event(version, 100, 800, 4096, GET_REQUEST | WITH_CGROUP, 1, &cgroup),
            of(150, 800, 4096, 12, 1),
            of(300, 800, 4096, ISSUE, 1),
            of(1_000, 2_008, 4096, GET_REQUEST, WRITE | SYNC),
            of(1_100, 2_000, 4096, FRONT_MERGE, WRITE | SYNC),
            of(1_500, 2_000, 8192, ISSUE, WRITE | SYNC),
            of(2_000, 2_000, 4096, COMPLETE, WRITE | SYNC),
            of(2_500, 2_008, 4096, COMPLETE, WRITE | SYNC),
        ];
        let second = [
            of(900, 800, 4096, COMPLETE, 1),
            of(3_000, 0, 0, ISSUE, WRITE | FLUSH),
            of(9_000, 0, 0, COMPLETE, WRITE | FLUSH),
        ];
        [first.concat(), second.concat()]
    }

    #[test]
    fn both_versions_are_put_together_from_the_files_of_all_processors() {
        for version in [7, 8] {
            let [first, second] = trace(version);
            let mut blktrace = Blktrace::new(vec![&first[..], &second[..]]).unwrap();
            let requests: Vec<Request> = std::iter::from_fn(|| blktrace.next()).collect();
            let seen: Vec<_> = requests
                .iter()
                .map(|request| (request.op(), request.sector, request.bytes, request.queue_ns, request.device_ns))
                .collect();
            let expected = [
                (Op::Read, 800, 4096, Some(200), 600),
                (Op::Write, 2_000, 8192, Some(500), 1_000),
                (Op::Flush, 0, 0, None, 6_000),
            ];
            assert_eq!(seen, expected, "version {version}");
            assert_eq!((requests[0].device, requests[0].asker.cgroup), ((8, 16), 7));
            assert_eq!((&*requests[0].asker.name(), requests[1].letters().as_str()), ("postgres", "WS"));
            assert_eq!(blktrace.ending(), Some(&Ending::Unmarked));
        }
    }

    #[test]
    fn a_cut_or_foreign_file_is_named() {
        let [first, _] = trace(7);
        let mut blktrace = Blktrace::new(vec![&first[..first.len() - 5]]).unwrap();
        assert_eq!(std::iter::from_fn(|| blktrace.next()).count(), 0, "the last event completes the write");
        assert!(matches!(blktrace.ending(), Some(Ending::Incomplete { .. })));
        let swapped: Vec<u8> = (MAGIC | 7).to_be_bytes().into_iter().chain([0; 60]).collect();
        let error = Blktrace::new(vec![&swapped[..]]).err().unwrap();
        assert!(error.to_string().contains("big-endian"), "{error}");
        let error = Blktrace::new(vec![&event(9, 0, 0, 0, 0, 0, &[])[..]]).err().unwrap();
        assert!(error.to_string().contains("version 9"), "{error}");
    }
}

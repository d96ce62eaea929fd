//! The contents of a block of entries: requests column by column, which compresses well, then syncs one by one.

use qd1_model::order::Order as _;
use std::collections::HashMap;
use std::hash::Hash;

use anyhow::{Context as _, Result, ensure};
use qd1_model::requests::{Asker, COMM, Request, Sync};

use super::varint::{Bytes, put, put_signed};
use crate::entry::Entry;
use crate::split::{Other, Part, Split};

/// Most entries of a block.
pub(super) const MOST: usize = 16_384;
/// Most other users of the disk that a sync names.
const OTHERS_MAX: usize = 16;

/// What requests of a kind have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Class {
    device: (u32, u32),
    flags: u32,
    errno: u32,
    blkcg: u32,
    has_queue: bool,
}

/// Distinct values, each with its place in the order of first use.
struct Table<T> {
    places: HashMap<T, u64>,
    values: Vec<T>,
}

impl<T: Copy + Eq + Hash> Table<T> {
    fn new() -> Self {
        Self { places: HashMap::new(), values: Vec::new() }
    }

    fn place(&mut self, value: T) -> u64 {
        *self.places.entry(value).or_insert_with(|| {
            self.values.push(value);
            self.values.len() as u64 - 1
        })
    }
}

/// Encodes the entries of a block; `begin_ns` is subtracted from all times.
pub(super) fn encode(entries: &[Entry], begin_ns: u64) -> Vec<u8> {
    let requests: Vec<&Request> = entries
        .iter()
        .filter_map(|entry| if let Entry::Request(request) = entry { Some(request) } else { None })
        .collect();
    let syncs: Vec<(&Sync, &Split)> = entries
        .iter()
        .filter_map(|entry| if let Entry::Sync(sync, split) = entry { Some((sync, &**split)) } else { None })
        .collect();
    let mut to = Vec::with_capacity(entries.len() * 20);
    put_requests(&mut to, &requests, begin_ns);
    put(&mut to, syncs.len() as u64);
    let mut last_ns = begin_ns;
    for (sync, split) in syncs {
        put_sync(&mut to, sync, split, begin_ns, &mut last_ns);
    }
    to
}

fn put_requests(to: &mut Vec<u8>, requests: &[&Request], begin_ns: u64) {
    let (mut askers, mut classes) = (Table::new(), Table::new());
    let mut columns: [Vec<u8>; 6] = Default::default();
    let [who, class, times, queue, device, sizes] = &mut columns;
    let mut jumps = Vec::with_capacity(requests.len());
    // Where the last request of each class ended: the next one often begins there.
    let mut ends: Vec<u64> = Vec::new();
    let mut last_ns = begin_ns;
    for request in requests {
        let place = classes.place(Class {
            device: request.device,
            flags: request.flags,
            errno: request.errno,
            blkcg: request.blkcg,
            has_queue: request.queue_ns.is_some(),
        });
        ends.resize(classes.values.len(), 0);
        put(who, askers.place(request.asker));
        put(class, place);
        // Two clocks may differ by some microseconds.
        let complete_ns = request.complete_ns.max(begin_ns);
        put_signed(times, complete_ns.wrapping_sub(last_ns).cast_signed());
        if let Some(queue_ns) = request.queue_ns {
            put(queue, queue_ns);
        }
        put(device, request.device_ns);
        put(sizes, u64::from(request.bytes));
        jumps.push(request.sector.wrapping_sub(ends[place as usize]).cast_signed());
        ends[place as usize] = request.sector.wrapping_add(u64::from(request.bytes) / 512);
        last_ns = complete_ns;
    }
    // Positions are usually multiples of a filesystem's block.
    let shift = jumps.iter().map(|jump| jump.trailing_zeros()).min().unwrap_or(0).min(16);
    put(to, requests.len() as u64);
    put(to, askers.values.len() as u64);
    askers.values.iter().for_each(|asker| put_asker(to, asker));
    put(to, classes.values.len() as u64);
    for class in &classes.values {
        let Class { device, flags, errno, blkcg, has_queue } = *class;
        [device.0, device.1, flags, errno, blkcg, u32::from(has_queue)].iter().for_each(|of| put(to, u64::from(*of)));
    }
    put(to, u64::from(shift));
    columns.iter().for_each(|column| to.extend_from_slice(column));
    jumps.iter().for_each(|jump| put_signed(to, jump >> shift));
}

fn put_asker(to: &mut Vec<u8>, asker: &Asker) {
    put(to, u64::from(asker.pid));
    put(to, u64::from(asker.tid));
    put(to, asker.cgroup);
    put(to, u64::from(asker.is_kernels));
    let name = &asker.comm[..asker.comm.iter().position(|byte| *byte == 0).unwrap_or(COMM)];
    put(to, name.len() as u64);
    to.extend_from_slice(name);
}

fn put_sync(to: &mut Vec<u8>, sync: &Sync, split: &Split, begin_ns: u64, last_ns: &mut u64) {
    let complete_ns = sync.complete_ns.max(begin_ns);
    put_signed(to, complete_ns.wrapping_sub(*last_ns).cast_signed());
    *last_ns = complete_ns;
    let call = Sync::CALLS.iter().position(|name| *name == sync.call).expect("a call has one of these names");
    for value in [sync.took_ns, sync.run_delay_ns, sync.inode, call as u64] {
        put(to, value);
    }
    for value in [sync.bytes, sync.device.0, sync.device.1, sync.blkcg, sync.errno] {
        put(to, u64::from(value));
    }
    put_asker(to, &sync.asker);
    split.parts_ns.iter().for_each(|ns| put(to, *ns));
    put(to, split.others.len().min(OTHERS_MAX) as u64);
    for other in split.others.iter().take(OTHERS_MAX) {
        put_asker(to, &other.asker);
        for value in [other.threads, other.requests, other.bytes, other.written_back, other.syncs] {
            put(to, value);
        }
    }
}

/// Decodes a block of entries, in the order of their completion.
///
/// # Errors
/// If the contents are invalid.
pub(super) fn decode(contents: &[u8]) -> Result<Vec<Entry>> {
    let mut from = Bytes(contents);
    let mut entries = requests(&mut from)?;
    let count = from.count()?;
    ensure!(count <= MOST, "a block has too many syncs");
    let mut last_ns = 0;
    for _ in 0..count {
        entries.push(sync(&mut from, &mut last_ns)?);
    }
    ensure!(from.0.is_empty(), "a block has more bytes than entries");
    // Processors report their requests on their own, hence almost in order.
    entries.order_by_key(Entry::complete_ns);
    Ok(entries)
}

fn requests(from: &mut Bytes) -> Result<Vec<Entry>> {
    let count = from.count()?;
    ensure!(count <= MOST, "a block has too many requests");
    let askers = (0..from.count()?).map(|_| asker(from)).collect::<Result<Vec<_>>>()?;
    let classes = (0..from.count()?).map(|_| class(from)).collect::<Result<Vec<_>>>()?;
    let shift = from.number()?;
    ensure!(shift <= 16, "a block has an invalid alignment");
    let column = |from: &mut Bytes| (0..count).map(|_| from.number()).collect::<Result<Vec<u64>>>();
    let who: Vec<Asker> = column(from)?
        .into_iter()
        .map(|place| askers.get(place as usize).copied().context("a request has an unknown thread"))
        .collect::<Result<_>>()?;
    let class: Vec<(usize, Class)> = column(from)?
        .into_iter()
        .map(|place| {
            let class = classes.get(place as usize).context("a request has an unknown class")?;
            Ok((place as usize, *class))
        })
        .collect::<Result<_>>()?;
    let mut last_ns = 0u64;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        last_ns = last_ns.checked_add_signed(from.signed()?).context("a request has an invalid time")?;
        times.push(last_ns);
    }
    let queue: Vec<Option<u64>> =
        class.iter().map(|(_, class)| class.has_queue.then(|| from.number()).transpose()).collect::<Result<_>>()?;
    let (device, sizes) = (column(from)?, column(from)?);
    let mut ends = vec![0u64; classes.len()];
    let mut entries = Vec::with_capacity(count);
    for at in 0..count {
        let (place, class) = class[at];
        let sector = ends[place].wrapping_add((from.signed()? << shift).cast_unsigned());
        let bytes = u32::try_from(sizes[at])?;
        ends[place] = sector.wrapping_add(u64::from(bytes) / 512);
        entries.push(Entry::Request(Request {
            complete_ns: times[at],
            queue_ns: queue[at],
            device_ns: device[at],
            sector,
            bytes,
            device: class.device,
            flags: class.flags,
            asker: who[at],
            blkcg: class.blkcg,
            errno: class.errno,
        }));
    }
    Ok(entries)
}

fn asker(from: &mut Bytes) -> Result<Asker> {
    let (pid, tid, cgroup, is_kernels) = (from.small()?, from.small()?, from.number()?, from.number()? != 0);
    let length = from.number()? as usize;
    ensure!(length <= COMM, "the name of a thread is too long");
    let mut comm = [0; COMM];
    comm[..length].copy_from_slice(from.some(length)?);
    Ok(Asker { pid, tid, comm, cgroup, is_kernels })
}

fn class(from: &mut Bytes) -> Result<Class> {
    let device = (from.small()?, from.small()?);
    let (flags, errno, blkcg, has_queue) = (from.small()?, from.small()?, from.small()?, from.number()? != 0);
    Ok(Class { device, flags, errno, blkcg, has_queue })
}

fn sync(from: &mut Bytes, last_ns: &mut u64) -> Result<Entry> {
    let complete_ns = last_ns.checked_add_signed(from.signed()?).context("a sync has an invalid time")?;
    *last_ns = complete_ns;
    let (took_ns, run_delay_ns, inode, call) = (from.number()?, from.number()?, from.number()?, from.number()?);
    let call = *Sync::CALLS.get(call as usize).context("a sync has an unknown call")?;
    let (bytes, device) = (from.small()?, (from.small()?, from.small()?));
    let (blkcg, errno) = (from.small()?, from.small()?);
    let asker_ = asker(from)?;
    let mut parts_ns = [0; Part::ALL.len()];
    for ns in &mut parts_ns {
        *ns = from.number()?;
    }
    let others = from.count()?;
    ensure!(others <= OTHERS_MAX, "a sync has too many others");
    let others = (0..others)
        .map(|_| {
            Ok(Other {
                asker: asker(from)?,
                threads: from.number()?,
                requests: from.number()?,
                bytes: from.number()?,
                written_back: from.number()?,
                syncs: from.number()?,
            })
        })
        .collect::<Result<_>>()?;
    let sync = Sync { complete_ns, took_ns, run_delay_ns, inode, bytes, device, call, blkcg, asker: asker_, errno };
    Ok(Entry::Sync(sync, Box::new(Split { parts_ns, others })))
}

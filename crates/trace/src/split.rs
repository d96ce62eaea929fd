//! Where the time of a sync went: overlays its own requests, the journal's and flushes on a time line.

use qd1_model::order::Order as _;
use std::collections::{HashMap, VecDeque};

use qd1_model::requests::{Asker, Op, Request, Sync};

use crate::event::{Dirtied, Event, Via};

/// What a sync waited for. If several apply at the same instant, the first of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The file's data in the device, written by the thread itself or written back for it.
    Data,
    /// The limit of a control group.
    Throttle,
    /// The journal's requests in the device.
    Journal,
    /// A flush of the device's cache.
    Flush,
    /// The scheduler, the queue, or a free slot in the queue.
    Queue,
    /// A processor.
    Processor,
    /// Time that none of these explains.
    Unknown,
}

/// Number of parts.
const PARTS: usize = 7;

impl Part {
    /// All parts, in order.
    pub const ALL: [Self; PARTS] =
        [Self::Data, Self::Throttle, Self::Journal, Self::Flush, Self::Queue, Self::Processor, Self::Unknown];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Data => "data",
            Self::Flush => "flush",
            Self::Throttle => "throttle",
            Self::Queue => "queue",
            Self::Processor => "processor",
            Self::Unknown => "unknown",
        }
    }
}

/// Threads of the same name that used the disk during a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Other {
    /// The busiest of them.
    pub asker: Asker,
    /// How many there were.
    pub threads: u64,
    /// Their own requests that overlapped the sync.
    pub requests: u64,
    /// Bytes of these requests.
    pub bytes: u64,
    /// Bytes that they changed in memory in the half minute before, if kernel threads wrote data back during the sync.
    pub written_back: u64,
    /// Their own syncs that overlapped this one.
    pub syncs: u64,
}

impl Other {
    fn add(&mut self, other: &Self) {
        self.threads += other.threads;
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.written_back += other.written_back;
        self.syncs += other.syncs;
    }
}

/// Where the time of one sync went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Time by part, ns, in the order of [`Part::ALL`]; the sum is the sync's time.
    pub parts_ns: [u64; PARTS],
    /// Who else used the disk during the sync, busiest first.
    pub others: Vec<Other>,
}

impl Split {
    /// Returns the time of a part, ns.
    #[must_use]
    pub fn of(&self, part: Part) -> u64 {
        self.parts_ns[part as usize]
    }
}

/// How long a changed page may wait for writeback, ns: the kernel's `dirty_expire_centisecs` and a margin.
const DIRTY_NS: u64 = 35_000_000_000;
/// How long to wait after a sync for events that explain it, ns: overlapping requests may end a little later.
const LATER_NS: u64 = 100_000_000;
/// Most events that are kept: about 50 MB.
const KEPT_MAX: usize = 500_000;
/// Most other users of the disk that are named.
const OTHERS_MAX: usize = 3;

/// Most syncs that wait to be explained; further ones are only counted.
const WAITING_MAX: usize = 100_000;
/// How far out of order events may arrive, ns, because each processor reports its own.
const DISORDER_NS: u64 = 10_000_000;

/// Collects events, and explains where the time of each sync went.
#[derive(Default)]
pub struct Syncs {
    /// Requests, releases and syncs, roughly in the order in which they ended.
    kept: VecDeque<Event>,
    /// What threads changed in memory, in the same order.
    dirtied: VecDeque<Dirtied>,
    waiting: VecDeque<(Sync, Via)>,
    last_ns: u64,
    unexplained: u64,
}

impl Syncs {
    /// Takes the next event. Only syncs for which `wanted` returns true are explained.
    pub fn take(&mut self, event: Event, wanted: impl FnOnce(&Sync) -> bool) {
        self.last_ns = self.last_ns.max(event.complete_ns());
        match event {
            Event::Dirtied(dirtied) => self.dirtied.push_back(dirtied),
            Event::Sync(sync, via) => {
                match wanted(&sync) {
                    true if self.waiting.len() < WAITING_MAX => self.waiting.push_back((sync, via)),
                    true => self.unexplained += 1,
                    false => {}
                }
                self.kept.push_back(event);
            }
            _ => self.kept.push_back(event),
        }
        if self.kept.len() > KEPT_MAX {
            self.kept.pop_front();
        }
        if self.dirtied.len() > KEPT_MAX {
            self.dirtied.pop_front();
        }
    }

    /// Returns how many wanted syncs could not be explained because they came too fast.
    #[must_use]
    pub const fn unexplained(&self) -> u64 {
        self.unexplained
    }

    /// Returns when the last event ended, ns.
    #[must_use]
    pub const fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Returns the next sync that ended long enough before `now_ns`, and where its time went.
    pub fn next_explained(&mut self, now_ns: u64) -> Option<(Sync, Split)> {
        let oldest_ns = self.last_ns.saturating_sub(DIRTY_NS);
        while self.kept.pop_front_if(|event| event.complete_ns() < oldest_ns).is_some() {}
        while self.dirtied.pop_front_if(|dirtied| dirtied.complete_ns < oldest_ns).is_some() {}
        let is_explained = |(sync, _): &mut (Sync, Via)| sync.complete_ns.saturating_add(LATER_NS) <= now_ns;
        let (sync, via) = self.waiting.pop_front_if(is_explained)?;
        let split = split(&sync, via, &self.kept, &self.dirtied);
        Some((sync, split))
    }
}

/// Whether a request belongs to a filesystem's journal: requests of jbd2's thread, and metadata that a kernel thread
/// or the caller writes while somebody waits for it (XFS, btrfs).
fn is_journal(request: &Request, sync: &Sync) -> bool {
    let asker = &request.asker;
    (asker.is_kernels && asker.name().starts_with("jbd2/"))
        || (request.is_metadata() && (asker.is_kernels || asker.tid == sync.asker.tid))
}

/// Whether this is a kernel thread that writes back what programs changed.
fn is_writeback(asker: &Asker) -> bool {
    asker.is_kernels && asker.name().starts_with("kworker/")
}

/// Whether the thread issued the request itself, a thread of its io_uring did, or a kernel thread did after its control
/// group's limit had released it.
fn is_own(request: &Request, sync: &Sync, via: Via) -> bool {
    request.asker.tid == sync.asker.tid
        || (via == Via::Ring && request.asker.pid == sync.asker.pid && is_of_ring(&request.asker))
        || (sync.blkcg > ROOT && request.blkcg == sync.blkcg && is_released(request))
}

/// Whether a kernel thread issued it that a limit's release may have set to work. Workers that are not bound to a processor
/// (`kworker/u4:1`) also write back what nobody waits for.
fn is_released(request: &Request) -> bool {
    is_writeback(&request.asker) && (request.is_waited_for() || !request.asker.comm.starts_with(b"kworker/u"))
}

/// Whether it is a thread that the kernel runs in a process for its io_uring.
fn is_of_ring(asker: &Asker) -> bool {
    asker.comm.starts_with(b"iou-wrk-") || asker.comm.starts_with(b"iou-sqp-")
}

/// The kernel's id of the root control group.
const ROOT: u32 = 1;

/// A wait: from, until, and for what.
type Wait = (u64, u64, Part);

fn split(sync: &Sync, via: Via, events: &VecDeque<Event>, dirtied: &VecDeque<Dirtied>) -> Split {
    let (begin_ns, end_ns) = (sync.complete_ns - sync.took_ns, sync.complete_ns);
    let is_here = |device| sync.device == (0, 0) || sync.device == device;
    let overlaps = |from_ns: u64, until_ns: u64| from_ns < end_ns && until_ns > begin_ns;
    let mut waits: Vec<Wait> = Vec::new();
    // When the group's limit released a request, and when the sync's own requests were completed.
    let (mut others, mut releases_ns, mut own_ns) = (Others::default(), Vec::new(), vec![begin_ns]);
    // Events that ended before the sync began do not matter. The search stops some time after its end; the margin is
    // for overlapping syncs of neighbours, which may take several times as long.
    let first = events.partition_point(|event| event.complete_ns() + DISORDER_NS < begin_ns);
    let until_ns = end_ns.saturating_add((sync.took_ns * 10).clamp(1_000_000, LATER_NS) + DISORDER_NS);
    for event in events.range(first..).take_while(|event| event.complete_ns() <= until_ns) {
        match event {
            Event::Request(request) if is_here(request.device) => {
                let (asked_ns, issued_ns) = times(request);
                if !overlaps(asked_ns, request.complete_ns) {
                    continue;
                }
                let is_own = is_own(request, sync, via);
                if is_own {
                    own_ns.push(request.complete_ns);
                }
                let part = match request.op() {
                    Op::Flush => Part::Flush,
                    _ if is_journal(request, sync) => Part::Journal,
                    _ if is_own => Part::Data,
                    _ => {
                        others.request(request);
                        continue;
                    }
                };
                waits.extend([(issued_ns, request.complete_ns, part), (asked_ns, issued_ns, Part::Queue)]);
            }
            Event::Released(released) if is_here(released.device) && released.blkcg == sync.blkcg => {
                let at_ns = released.complete_ns;
                if at_ns > begin_ns && at_ns <= end_ns {
                    releases_ns.push(at_ns);
                }
            }
            Event::Sync(other, _)
                if !other.is_direct()
                    && (is_here(other.device) || other.device == (0, 0))
                    && other.asker.tid != sync.asker.tid
                    && overlaps(other.complete_ns - other.took_ns, other.complete_ns) =>
            {
                others.of(other.asker).syncs += 1;
            }
            _ => {}
        }
    }
    if others.is_written_back {
        let is_part = |changed: &&Dirtied| {
            let is_in_time = changed.complete_ns < end_ns && changed.complete_ns + DIRTY_NS >= begin_ns;
            is_in_time && is_here(changed.device) && changed.asker.tid != sync.asker.tid
        };
        for changed in dirtied.iter().filter(is_part) {
            others.of(changed.asker).written_back += u64::from(changed.bytes);
        }
    }
    // It is not known since when a request was held back: assume since the last one was completed or released.
    own_ns.extend_from_slice(&releases_ns);
    own_ns.sort_unstable();
    for at_ns in releases_ns {
        let since_ns = own_ns[own_ns.partition_point(|own_ns| *own_ns < at_ns) - 1];
        waits.push((since_ns, at_ns, Part::Throttle));
    }
    let mut parts_ns = laid_over(&waits, begin_ns, end_ns);
    let rest_ns = sync.took_ns - parts_ns.iter().sum::<u64>();
    let processor_ns = rest_ns.min(sync.run_delay_ns);
    parts_ns[Part::Processor as usize] = processor_ns;
    parts_ns[Part::Unknown as usize] = rest_ns - processor_ns;
    Split { parts_ns, others: others.busiest() }
}

/// When a request was created, and when the device got it.
fn times(request: &Request) -> (u64, u64) {
    let issued_ns = request.complete_ns.saturating_sub(request.device_ns);
    (issued_ns.saturating_sub(request.queue_ns.unwrap_or(0)), issued_ns)
}

/// Adds up the time from `begin_ns` to `end_ns` by part; at each instant, the first active part counts.
fn laid_over(waits: &[Wait], begin_ns: u64, end_ns: u64) -> [u64; PARTS] {
    let mut edges: Vec<(u64, usize, i64)> = Vec::with_capacity(waits.len() * 2);
    for (from_ns, until_ns, part) in waits {
        let (from_ns, until_ns) = ((*from_ns).max(begin_ns), (*until_ns).min(end_ns));
        if from_ns < until_ns {
            edges.extend([(from_ns, *part as usize, 1), (until_ns, *part as usize, -1)]);
        }
    }
    edges.sort_unstable();
    let (mut parts_ns, mut active, mut last_ns) = ([0; PARTS], [0i64; PARTS], begin_ns);
    for (at_ns, part, change) in edges {
        if let Some(first) = active.iter().position(|count| *count > 0) {
            parts_ns[first] += at_ns - last_ns;
        }
        active[part] += change;
        last_ns = at_ns;
    }
    parts_ns
}

/// Other users of the disk, by thread.
#[derive(Default)]
struct Others {
    by_thread: HashMap<u32, Other>,
    /// Whether kernel threads wrote data back.
    is_written_back: bool,
}

impl Others {
    fn of(&mut self, asker: Asker) -> &mut Other {
        self.by_thread.entry(asker.tid).or_insert_with(|| Other { asker, threads: 1, ..Other::default() })
    }

    fn request(&mut self, request: &Request) {
        self.is_written_back |= request.op() == Op::Write && is_writeback(&request.asker);
        let other = self.of(request.asker);
        other.requests += 1;
        other.bytes += u64::from(request.bytes);
    }

    fn busiest(mut self) -> Vec<Other> {
        // Name the threads that changed the pages, not the kernel threads that write them back.
        if self.by_thread.values().any(|other| other.written_back > 0) {
            self.by_thread.retain(|_, other| !is_writeback(&other.asker));
        }
        let busiest = |others: &mut Vec<Other>| {
            others.order_by_key(|other| (std::cmp::Reverse(other.bytes + other.written_back), other.asker.tid));
        };
        let mut threads: Vec<Other> = self.by_thread.into_values().collect();
        busiest(&mut threads);
        // A script may start one process after another: merge threads of the same name, under the busiest one's id.
        let mut others: Vec<Other> = Vec::new();
        for thread in threads {
            match others.iter_mut().find(|other| other.asker.comm == thread.asker.comm) {
                Some(other) => other.add(&thread),
                None => others.push(thread),
            }
        }
        busiest(&mut others);
        others.truncate(OTHERS_MAX);
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::requests::COMM;

    use crate::event::Released;

    const MS: u64 = 1_000_000;
    const WRITE: u32 = 1;
    const WRITE_SYNC: u32 = 1 | 1 << 11;
    const FLUSH: u32 = 2;

    fn asker(tid: u32, name: &str) -> Asker {
        let mut comm = [0; COMM];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        let is_kernels = name.starts_with("kworker") || name.starts_with("jbd2");
        Asker { pid: tid, tid, comm, cgroup: 0, is_kernels }
    }

    /// Times, ms: when it was created, when the device got it, and when it was completed.
    fn request(by: Asker, flags: u32, [asked, issued, complete]: [u64; 3], blkcg: u32) -> Event {
        Event::Request(Request {
            complete_ns: complete * MS,
            queue_ns: Some((issued - asked) * MS),
            device_ns: (complete - issued) * MS,
            sector: 8,
            bytes: 4096,
            device: (7, 0),
            flags,
            asker: by,
            blkcg,
            errno: 0,
        })
    }

    fn sync(by: Asker, begin: u64, end: u64, blkcg: u32) -> Event {
        let sync = Sync {
            complete_ns: end * MS,
            took_ns: (end - begin) * MS,
            run_delay_ns: MS,
            inode: 12,
            bytes: 0,
            device: (7, 0),
            call: "fsync",
            blkcg,
            asker: by,
            errno: 0,
        };
        Event::Sync(sync, Via::Call)
    }

    /// The sync of thread 1, in ms by part.
    fn explained(events: Vec<Event>) -> ([u64; PARTS], Vec<Other>) {
        let mut syncs = Syncs::default();
        events.into_iter().for_each(|event| syncs.take(event, |sync| sync.asker.tid == 1));
        let (_, split) = syncs.next_explained(u64::MAX).expect("the sync should be explained");
        (split.parts_ns.map(|ns| ns / MS), split.others)
    }

    #[test]
    fn each_instant_belongs_to_one_part_and_all_of_them_are_the_time() {
        let (us, journal, kernel) = (asker(1, "postgres"), asker(2, "jbd2/vda1-8"), asker(3, "kworker/0:1H"));
        let (parts, others) = explained(vec![
            // Began before the sync did.
            request(us, WRITE_SYNC, [95, 98, 110], 1),
            request(journal, WRITE_SYNC, [110, 112, 130], 1),
            // While a flush overlaps the journal's write, the time counts for the journal.
            request(kernel, FLUSH, [125, 125, 160], 1),
            sync(us, 100, 170, 1),
        ]);
        // data, throttle, journal, flush, queue, processor, unknown
        assert_eq!(parts, [10, 0, 18, 30, 2, 1, 9]);
        assert_eq!(others, []);
    }

    #[test]
    fn a_wait_that_ends_where_a_limit_lets_a_request_go_is_that_limits() {
        let (us, kernel) = (asker(1, "dd"), asker(3, "kworker/0:1"));
        let released = |at: u64, blkcg: u32| {
            Event::Released(Released { complete_ns: at * MS, device: (7, 0), bytes: 4096, blkcg })
        };
        let (parts, others) = explained(vec![
            released(20, 7),
            // Flushes for somebody else, during and after the time in which the limit holds our request back.
            request(kernel, FLUSH, [5, 5, 15], 1),
            request(kernel, FLUSH, [44, 44, 46], 1),
            request(kernel, WRITE_SYNC, [20, 20, 22], 7),
            released(40, 7),
            request(kernel, WRITE_SYNC, [40, 40, 42], 7),
            // Of another group, so not ours.
            released(48, 8),
            request(kernel, WRITE_SYNC, [48, 48, 49], 8),
            sync(us, 0, 50, 7),
        ]);
        assert_eq!(parts, [4, 38, 0, 2, 0, 1, 5]);
        assert_eq!(others.len(), 1, "the request of the other group");
    }

    #[test]
    fn requests_of_a_rings_threads_belong_to_its_syncs_only() {
        let (us, worker) = (asker(1, "db"), Asker { pid: 1, ..asker(9, "iou-wrk-1") });
        let data_ms = |via: Via| {
            let Event::Sync(sync, _) = sync(us, 0, 50, 1) else { unreachable!("it is a sync") };
            let mut syncs = Syncs::default();
            syncs.take(request(worker, WRITE_SYNC, [5, 5, 45], 1), |_| false);
            syncs.take(Event::Sync(sync, via), |_| true);
            syncs.next_explained(u64::MAX).expect("the sync should be explained").1.of(Part::Data) / MS
        };
        assert_eq!((data_ms(Via::Ring), data_ms(Via::Call)), (40, 0));
    }

    #[test]
    fn direct_reads_of_others_are_not_their_syncs() {
        let (us, other) = (asker(1, "db"), asker(7, "fio"));
        let Event::Sync(theirs, via) = sync(other, 10, 20, 1) else { unreachable!("it is a sync") };
        let direct = Event::Sync(Sync { call: Sync::DIRECT_READ, ..theirs }, via);
        let (_, others) = explained(vec![request(other, 0, [10, 10, 20], 1), direct, sync(us, 0, 50, 1)]);
        assert_eq!((others[0].requests, others[0].syncs), (1, 0));
    }

    #[test]
    fn others_are_who_changed_what_is_written_back_and_not_the_threads_that_write_it() {
        let (us, dd, kernel, reader) = (asker(1, "etcd"), asker(4, "dd"), asker(3, "kworker/u8:2"), asker(5, "grep"));
        let dirtied = Event::Dirtied(Dirtied { complete_ns: 5 * MS, device: (7, 0), bytes: 1 << 20, asker: dd });
        let events = |writes_back: bool| {
            let mut events = vec![dirtied, request(reader, 0, [10, 11, 30], 1)];
            events.extend(writes_back.then(|| request(kernel, WRITE, [15, 16, 40], 1)));
            events.extend([sync(dd, 20, 45, 1), sync(us, 10, 50, 1)]);
            explained(events).1
        };
        let others = events(true);
        let names: Vec<_> = others.iter().map(|other| other.asker.name()).collect();
        assert_eq!(names, ["dd", "grep"], "the busiest first");
        assert_eq!((others[0].written_back, others[0].syncs, others[1].requests), (1 << 20, 1, 1));
        let others = events(false);
        assert_eq!(
            (others[0].asker.tid, others[1].written_back, others[1].syncs),
            (5, 0, 1),
            "nothing was written back"
        );
    }

    #[test]
    fn syncs_that_come_too_fast_are_counted() {
        let mut syncs = Syncs::default();
        (0..WAITING_MAX as u64 + 3).for_each(|at| syncs.take(sync(asker(1, "etcd"), at, at + 1, 1), |_| true));
        assert_eq!(syncs.unexplained(), 3);
        syncs.take(sync(asker(1, "etcd"), 0, 1, 1), |_| false);
        assert_eq!(syncs.unexplained(), 3, "a sync that is not wanted does not count");
    }
}

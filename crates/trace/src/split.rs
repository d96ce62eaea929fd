//! Where the time of a sync went: its requests, those of the journal and the flushes, laid over each other in time.

use std::collections::{HashMap, VecDeque};

use crate::event::{Asker, Event, Op, Request, Sync};

/// What a sync waited for. An instant at which it waited for several belongs to the first of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The journal's requests in the device.
    Journal,
    /// The file's data in the device, written by the thread itself or written back for it.
    Data,
    /// A flush of the device's cache.
    Flush,
    /// The limit of a control group.
    Throttle,
    /// The scheduler, the queue, or a free place in it.
    Queue,
    /// A processor.
    Processor,
    /// What none of these explains.
    Unknown,
}

/// How many parts there are.
const PARTS: usize = 7;

impl Part {
    /// All of them, in their order.
    pub const ALL: [Self; PARTS] =
        [Self::Journal, Self::Data, Self::Flush, Self::Throttle, Self::Queue, Self::Processor, Self::Unknown];

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

/// Somebody else who had the disk work during a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Other {
    /// Who.
    pub asker: Asker,
    /// Requests of its own that overlapped the sync, and their bytes.
    pub requests: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes that it changed in memory in the half minute before, where threads of the kernel wrote back during the sync.
    pub written_back: u64,
    /// Syncs of its own that overlapped.
    pub syncs: u64,
}

/// Where the time of one sync went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// ns by part, in the order of [`Part::ALL`]; together they are the sync's time.
    pub parts_ns: [u64; PARTS],
    /// Who else used the disk meanwhile, the busiest first.
    pub others: Vec<Other>,
}

impl Split {
    /// Returns the time of a part, ns.
    #[must_use]
    pub fn of(&self, part: Part) -> u64 {
        self.parts_ns[part as usize]
    }
}

/// For how long a changed page may wait to be written back, ns: the kernel's `dirty_expire_centisecs`, and some.
const DIRTY_NS: u64 = 35_000_000_000;
/// How long a sync waits for events that explain it, ns: others may end a little later.
const LATER_NS: u64 = 100_000_000;
/// Events that are kept at most: about 50 MB.
const KEPT_MAX: usize = 500_000;
/// Others that are named.
const OTHERS_MAX: usize = 3;

/// Takes events, and hands over each sync with where its time went.
#[derive(Default)]
pub struct Syncs {
    kept: VecDeque<Event>,
    waiting: VecDeque<Sync>,
    /// The longest sync so far, ns: no older request can be a part of one.
    longest_ns: u64,
}

impl Syncs {
    /// Takes the next event.
    pub fn take(&mut self, event: Event) {
        if let Event::Sync(sync) = event {
            self.longest_ns = self.longest_ns.max(sync.took_ns);
            self.waiting.push_back(sync);
        }
        self.kept.push_back(event);
        if self.kept.len() > KEPT_MAX {
            self.kept.pop_front();
        }
    }

    /// Hands over each sync that ended long enough before `now_ns`, or all of them with `u64::MAX`.
    pub fn explained(&mut self, now_ns: u64, mut take: impl FnMut(Sync, Split)) {
        while let Some(sync) = self.waiting.pop_front_if(|sync| sync.complete_ns.saturating_add(LATER_NS) <= now_ns) {
            let split = split(&sync, &self.kept);
            take(sync, split);
        }
        let oldest_ns = now_ns.saturating_sub(DIRTY_NS.max(self.longest_ns.saturating_mul(2)));
        while self.kept.pop_front_if(|event| event.complete_ns() < oldest_ns).is_some() {}
    }
}

/// Whether a thread writes a filesystem's journal.
fn is_journal(asker: &Asker) -> bool {
    let name = asker.name();
    name.starts_with("jbd2/") || name.starts_with("xfs") || name.contains("xfs-") || name.starts_with("btrfs-trans")
}

/// Whether a thread of the kernel writes back what programs changed.
fn is_writeback(asker: &Asker) -> bool {
    asker.name().starts_with("kworker/")
}

/// Whether a request is one that the thread itself made, or that a limit of its control group let go.
fn is_own(request: &Request, sync: &Sync) -> bool {
    request.asker.tid == sync.asker.tid
        || (sync.blkcg > ROOT && request.blkcg == sync.blkcg && is_writeback(&request.asker) && request.is_waited_for())
}

/// The kernel's id of the group of all that are in no other.
const ROOT: u32 = 1;

/// A time of waiting: from, until, and for what.
type Wait = (u64, u64, Part);

fn split(sync: &Sync, events: &VecDeque<Event>) -> Split {
    let (begin_ns, end_ns) = (sync.complete_ns - sync.took_ns, sync.complete_ns);
    let is_here = |device| sync.device == (0, 0) || sync.device == device;
    let overlaps = |from_ns: u64, until_ns: u64| from_ns < end_ns && until_ns > begin_ns;
    let mut waits: Vec<Wait> = Vec::new();
    let (mut others, mut releases_ns) = (Others::default(), Vec::new());
    for event in events {
        match event {
            Event::Request(request) if is_here(request.device) => {
                let (asked_ns, issued_ns) = times(request);
                if !overlaps(asked_ns, request.complete_ns) {
                    continue;
                }
                let part = match request.op() {
                    Op::Flush => Some(Part::Flush),
                    _ if is_own(request, sync) => Some(Part::Data),
                    _ if is_journal(&request.asker) => Some(Part::Journal),
                    _ => None,
                };
                match part {
                    Some(part) => {
                        waits.extend([(issued_ns, request.complete_ns, part), (asked_ns, issued_ns, Part::Queue)])
                    }
                    None => others.request(request),
                }
            }
            // Since when it was held back is not known: since nothing else was waited for.
            Event::Released(released) if is_here(released.device) && released.blkcg == sync.blkcg => {
                let at_ns = released.complete_ns;
                if at_ns > begin_ns && at_ns <= end_ns {
                    releases_ns.push(at_ns);
                }
            }
            Event::Dirtied(dirtied) if is_here(dirtied.device) && dirtied.complete_ns < end_ns => {
                if dirtied.complete_ns + DIRTY_NS >= begin_ns && dirtied.asker.tid != sync.asker.tid {
                    others.of(dirtied.asker).written_back += u64::from(dirtied.bytes);
                }
            }
            Event::Sync(other) if is_here(other.device) || other.device == (0, 0) => {
                if other.asker.tid != sync.asker.tid && overlaps(other.complete_ns - other.took_ns, other.complete_ns) {
                    others.of(other.asker).syncs += 1;
                }
            }
            _ => {}
        }
    }
    let mut parts_ns = laid_over(&waits, &releases_ns, begin_ns, end_ns);
    let rest_ns = sync.took_ns - parts_ns.iter().sum::<u64>();
    let processor_ns = rest_ns.min(sync.run_delay_ns);
    parts_ns[Part::Processor as usize] = processor_ns;
    parts_ns[Part::Unknown as usize] = rest_ns - processor_ns;
    Split { parts_ns, others: others.busiest() }
}

/// When somebody asked for a request, and when the device got it.
fn times(request: &Request) -> (u64, u64) {
    let issued_ns = request.complete_ns.saturating_sub(request.device_ns);
    (issued_ns.saturating_sub(request.queue_ns.unwrap_or(0)), issued_ns)
}

/// Adds up the time from `begin_ns` to `end_ns` by what was waited for, the first part of those at each instant. A time
/// without any that ends where a limit let a request go is that limit's.
fn laid_over(waits: &[Wait], releases_ns: &[u64], begin_ns: u64, end_ns: u64) -> [u64; PARTS] {
    // At one instant, what begins comes after what ends and what is let go.
    let mut edges: Vec<(u64, i64, usize)> = releases_ns.iter().map(|at_ns| (*at_ns, 0, 0)).collect();
    for (from_ns, until_ns, part) in waits {
        let (from_ns, until_ns) = ((*from_ns).max(begin_ns), (*until_ns).min(end_ns));
        if from_ns < until_ns {
            edges.extend([(from_ns, 1, *part as usize), (until_ns, -1, *part as usize)]);
        }
    }
    edges.sort_unstable();
    let (mut parts_ns, mut active, mut last_ns, mut idle_since_ns) = ([0; PARTS], [0i64; PARTS], begin_ns, begin_ns);
    for (at_ns, change, part) in edges {
        match active.iter().position(|count| *count > 0) {
            Some(first) => {
                parts_ns[first] += at_ns - last_ns;
                idle_since_ns = at_ns;
            }
            None if change == 0 => {
                parts_ns[Part::Throttle as usize] += at_ns - idle_since_ns;
                idle_since_ns = at_ns;
            }
            None => {}
        }
        active[part] += change;
        last_ns = at_ns;
    }
    parts_ns
}

/// Others, by thread.
#[derive(Default)]
struct Others {
    by_thread: HashMap<u32, Other>,
    /// Whether threads of the kernel wrote back.
    is_written_back: bool,
}

impl Others {
    fn of(&mut self, asker: Asker) -> &mut Other {
        self.by_thread.entry(asker.tid).or_insert_with(|| Other { asker, ..Other::default() })
    }

    fn request(&mut self, request: &Request) {
        self.is_written_back |= request.op() == Op::Write && is_writeback(&request.asker);
        let other = self.of(request.asker);
        other.requests += 1;
        other.bytes += u64::from(request.bytes);
    }

    fn busiest(mut self) -> Vec<Other> {
        if self.is_written_back {
            // Whoever changed the pages is named, and not the threads that write them back for him.
            let is_known = self.by_thread.values().any(|other| other.written_back > 0);
            self.by_thread.retain(|_, other| !is_known || !is_writeback(&other.asker));
        } else {
            self.by_thread.values_mut().for_each(|other| other.written_back = 0);
        }
        let mut others: Vec<Other> = self.by_thread.into_values().filter(Other::is_there).collect();
        others.sort_by_key(|other| (std::cmp::Reverse(other.bytes + other.written_back), other.asker.tid));
        others.truncate(OTHERS_MAX);
        others
    }
}

impl Other {
    const fn is_there(&self) -> bool {
        self.requests > 0 || self.written_back > 0 || self.syncs > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{COMM, Dirtied, Released};

    const MS: u64 = 1_000_000;
    const WRITE: u32 = 1;
    const WRITE_SYNC: u32 = 1 | 1 << 11;
    const FLUSH: u32 = 2;

    fn asker(tid: u32, name: &str) -> Asker {
        let mut comm = [0; COMM];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        Asker { pid: tid, tid, comm, cgroup: 0 }
    }

    /// From when somebody asked, over when the device got it, until it was complete, ms.
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
        Event::Sync(Sync {
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
        })
    }

    /// The sync of thread 1, in ms by part.
    fn explained(events: Vec<Event>) -> ([u64; PARTS], Vec<Other>) {
        let mut syncs = Syncs::default();
        events.into_iter().for_each(|event| syncs.take(event));
        let mut found = None;
        syncs.explained(u64::MAX, |sync, split| {
            if sync.asker.tid == 1 {
                found = Some((split.parts_ns.map(|ns| ns / MS), split.others));
            }
        });
        found.expect("it is explained")
    }

    #[test]
    fn each_instant_belongs_to_one_part_and_all_of_them_are_the_time() {
        let (us, journal, kernel) = (asker(1, "postgres"), asker(2, "jbd2/vda1-8"), asker(3, "kworker/0:1H"));
        let (parts, others) = explained(vec![
            // Began before the sync did.
            request(us, WRITE_SYNC, [95, 98, 110], 1),
            request(journal, WRITE_SYNC, [110, 112, 130], 1),
            // A flush beside the journal's write counts for the latter.
            request(kernel, FLUSH, [125, 125, 160], 1),
            sync(us, 100, 170, 1),
        ]);
        // journal, data, flush, throttle, queue, processor, unknown
        assert_eq!(parts, [18, 10, 30, 0, 2, 1, 9]);
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
            request(kernel, WRITE_SYNC, [20, 20, 22], 7),
            released(40, 7),
            request(kernel, WRITE_SYNC, [40, 40, 42], 7),
            // Of another group: nothing of ours.
            released(48, 8),
            request(kernel, WRITE_SYNC, [48, 48, 49], 8),
            sync(us, 0, 50, 7),
        ]);
        assert_eq!(parts, [0, 4, 0, 38, 0, 1, 7]);
        assert_eq!(others.len(), 1, "the one of the other group");
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
            "nothing is written back"
        );
    }
}

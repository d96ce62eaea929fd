//! What one worker records: a lane of histograms for each kind of operation, cut into intervals.
//!
//! Recording one operation allocates nothing and takes no lock; about ten times a second an interval is closed
//! and handed over, which does both, off the path of a request.

use std::sync::{Arc, Mutex};

use qd1_model::hist::{CoarseHist, Recorder};
use qd1_model::op::OpClass;
use qd1_model::record::{Interval, IntervalStream, SLOWEST_MAX, Slow, Stream};
use qd1_model::units::Bytes;

use crate::waits::{READ_EVERY_NS, ReadTime, Waited, Waits};

/// Finished intervals of one worker, with their number since the start, for the controller to take.
pub type Outbox = Arc<Mutex<Vec<(u64, Interval)>>>;

/// The latency of one operation, in nanoseconds.
pub struct Timing {
    /// From issue (or due time) to completion.
    pub lat_ns: u64,
    /// The part of it that the lane's [`Parts`] names.
    pub part_ns: u64,
    /// When it completed, on the engine's clock; never before the meter's start.
    pub completed_ns: u64,
}

/// Which histograms besides the total a lane keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// None.
    None,
    /// slat and clat; the part is slat.
    Submission,
    /// clat of an open loop, whose latency holds waiting to be issued as well; the part is from issue to completion.
    Served,
    /// The write and the sync of a commit; the part is the sync.
    Sync,
}

struct Lane {
    class: OpClass,
    parts: Parts,
    bytes: u64,
    lat: Recorder,
    /// slat or write part.
    first: Recorder,
    /// clat or sync part.
    second: Recorder,
    slowest: Slowest,
    sum_ns: u64,
    bytes_now: u64,
    sum_now_ns: u64,
    max_now_ns: u64,
    /// A latency above this is the interval's maximum so far, or among the slowest of the run, or slow enough to
    /// examine what it waited for.
    notable_ns: u64,
    waited: Option<Waited>,
    coarse_now: CoarseHist,
}

/// The slowest operations so far: unordered, with the bar that a new one has to pass.
struct Slowest {
    kept: Vec<Slow>,
    bar_ns: u64,
}

impl Slowest {
    fn offer(&mut self, slow: Slow) {
        if slow.lat_ns <= self.bar_ns {
            return;
        }
        if self.kept.len() < SLOWEST_MAX {
            self.kept.push(slow);
        } else if let Some(least) = self.kept.iter_mut().min_by_key(|kept| kept.lat_ns) {
            *least = slow;
        }
        if self.kept.len() == SLOWEST_MAX {
            self.bar_ns = self.kept.iter().map(|kept| kept.lat_ns).min().unwrap_or(0);
        }
    }
}

impl Lane {
    /// Notes a latency above [`Self::notable_ns`] of an operation begun `at_ns` after the start.
    fn note(&mut self, at_ns: u64, lat_ns: u64) {
        self.max_now_ns = self.max_now_ns.max(lat_ns);
        self.slowest.offer(Slow { at_ns, lat_ns });
        let slow_ns = self.waited.as_ref().map_or(u64::MAX, |waited| waited.slow_ns);
        self.notable_ns = self.max_now_ns.min(self.slowest.bar_ns).min(slow_ns);
    }

    fn new(class: OpClass, parts: Parts, is_looked_at: bool) -> Self {
        Self {
            class,
            parts,
            bytes: 0,
            lat: Recorder::default(),
            first: Recorder::default(),
            second: Recorder::default(),
            slowest: Slowest { kept: Vec::with_capacity(SLOWEST_MAX), bar_ns: 0 },
            sum_ns: 0,
            bytes_now: 0,
            sum_now_ns: 0,
            max_now_ns: 0,
            notable_ns: 0,
            waited: is_looked_at.then(|| Waited::new(parts == Parts::Sync)),
            coarse_now: CoarseHist::default(),
        }
    }

    /// Determines from the interval so far which latencies are slow.
    fn learn(&mut self) {
        if let Some(waited) = &mut self.waited {
            waited.learn(&self.coarse_now.sparse(), false);
            self.notable_ns = 0;
        }
    }

    fn close(&mut self) -> Option<IntervalStream> {
        let bins = self.coarse_now.sparse();
        if bins.is_empty() {
            return None;
        }
        if let Some(waited) = &mut self.waited {
            waited.learn(&bins, true);
        }
        let stream = IntervalStream {
            class: self.class,
            ios: bins.iter().map(|(_, count)| u64::from(*count)).sum(),
            bytes: self.bytes_now,
            lat_sum_ns: self.sum_now_ns,
            lat_max_ns: self.max_now_ns,
            bins,
        };
        self.bytes += self.bytes_now;
        self.sum_ns += self.sum_now_ns;
        (self.bytes_now, self.sum_now_ns, self.max_now_ns, self.notable_ns) = (0, 0, 0, 0);
        self.coarse_now.clear();
        Some(stream)
    }

    fn finish(self) -> Option<Stream> {
        if self.lat.is_empty() {
            return None;
        }
        let mut slowest = self.slowest.kept;
        slowest.sort_unstable_by_key(|slow| std::cmp::Reverse(slow.lat_ns));
        // Syncs are judged, and no part may be longer than the whole; the other parts only explain.
        let exact = |recorder: &Recorder| Some(recorder.finish(None));
        let part = |recorder: &Recorder| Some(recorder.finish(None).to_two_digits());
        let (slat, clat, write_part, sync_part) = match self.parts {
            Parts::None => (None, None, None, None),
            Parts::Submission => (part(&self.first), part(&self.second), None, None),
            Parts::Served => (None, part(&self.second), None, None),
            Parts::Sync => (None, None, part(&self.first), exact(&self.second)),
        };
        let lat = self.lat.finish(Some(self.sum_ns));
        Some(Stream {
            class: self.class,
            bytes: Bytes(self.bytes),
            in_device: None,
            waits: self.waited.map(|waited| waited.finish(&self.lat, &self.second)),
            lat,
            slat,
            clat,
            write_part,
            sync_part,
            slowest,
        })
    }
}

/// Everything one worker measures.
pub struct Meter<const N: usize> {
    lanes: [Lane; N],
    start_ns: u64,
    interval_ns: u64,
    number: u64,
    boundary_ns: u64,
    /// When to do more than count the completed operation: at the interval's end, or earlier.
    look_ns: u64,
    /// When to determine from the beginning of the first interval which latencies are slow.
    learn_ns: u64,
    /// When the last operation completed; before the first one, the meter's start.
    last_ns: u64,
    waits: Option<Waits>,
    outbox: Outbox,
}

impl<const N: usize> Meter<N> {
    /// A meter for these kinds of operations, counting from `start_ns`.
    pub fn new(classes: [(OpClass, Parts); N], start_ns: u64, interval_ns: u64, outbox: Outbox) -> Self {
        Self::looking(classes, start_ns, interval_ns, outbox, None, false)
    }

    /// The same for a thread with one operation at a time, or with operations on a fixed schedule, which also examines
    /// what made them wait.
    pub(crate) fn looking(
        classes: [(OpClass, Parts); N],
        start_ns: u64,
        interval_ns: u64,
        outbox: Outbox,
        thread_time: Option<ReadTime>,
        is_open: bool,
    ) -> Self {
        let waits = thread_time.map(|read| Waits::new(read, is_open));
        let lanes = classes.map(|(class, parts)| Lane::new(class, parts, waits.is_some()));
        let boundary_ns = start_ns + interval_ns;
        let look_ns = if waits.is_some() { start_ns } else { boundary_ns };
        let learn_ns = start_ns + READ_EVERY_NS;
        Self {
            lanes,
            start_ns,
            interval_ns,
            number: 0,
            boundary_ns,
            look_ns,
            learn_ns,
            last_ns: u64::MAX,
            waits,
            outbox,
        }
    }

    /// Counts one operation of lane `number` (below `N`). Operations come almost in the order of their completion.
    #[inline(always)]
    pub fn record(&mut self, number: usize, bytes: u32, timing: &Timing) {
        if timing.completed_ns >= self.look_ns {
            self.look(timing.completed_ns);
        }
        let lane = &mut self.lanes[number];
        let lat_ns = timing.lat_ns;
        let bin = lane.lat.record(lat_ns);
        lane.coarse_now.record_fine(bin);
        match lane.parts {
            Parts::None => {}
            Parts::Submission => {
                lane.first.record(timing.part_ns);
                lane.second.record(lat_ns - timing.part_ns.min(lat_ns));
            }
            Parts::Served => {
                lane.second.record(timing.part_ns);
            }
            Parts::Sync => {
                lane.second.record(timing.part_ns);
                lane.first.record(lat_ns - timing.part_ns.min(lat_ns));
            }
        }
        lane.bytes_now += u64::from(bytes);
        lane.sum_now_ns += lat_ns;
        if lat_ns > lane.notable_ns {
            self.note(number, lat_ns, timing.part_ns, timing.completed_ns);
        }
        self.last_ns = timing.completed_ns;
    }

    /// Notes an operation that is among the slowest, or examined. Not given a `Timing`, which would have to be in
    /// memory for each request.
    #[cold]
    #[inline(never)]
    fn note(&mut self, lane: usize, lat_ns: u64, part_ns: u64, completed_ns: u64) {
        let lane = &mut self.lanes[lane];
        let begun_ns = completed_ns.saturating_sub(lat_ns);
        lane.note(begun_ns.saturating_sub(self.start_ns), lat_ns);
        if let (Some(waits), Some(waited)) = (&mut self.waits, &mut lane.waited)
            && (lat_ns > waited.slow_ns || waits.has_read(completed_ns))
        {
            let timing = Timing { lat_ns, part_ns, completed_ns };
            waited.note(waits, &timing, begun_ns.saturating_sub(self.last_ns));
        }
    }

    #[cold]
    fn look(&mut self, now_ns: u64) {
        // Before anything that takes time itself.
        if let Some(waits) = &mut self.waits {
            waits.look(now_ns);
            self.lanes.iter_mut().for_each(|lane| lane.notable_ns = 0);
        }
        if now_ns >= self.boundary_ns {
            self.turn(now_ns);
        }
        self.look_ns = self.boundary_ns;
        if self.waits.is_some() {
            self.look_ns = self.boundary_ns.min(now_ns + READ_EVERY_NS);
            if now_ns >= self.learn_ns {
                // From then on each interval determines this for the next one.
                let is_first = self.number == 0;
                self.lanes.iter_mut().filter(|_| is_first).for_each(Lane::learn);
                self.learn_ns = if is_first { now_ns + (now_ns - self.start_ns) } else { u64::MAX };
            }
        }
    }

    fn turn(&mut self, now_ns: u64) {
        self.hand_over(self.interval_ns);
        self.number = (now_ns - self.start_ns) / self.interval_ns;
        self.boundary_ns = self.start_ns + (self.number + 1) * self.interval_ns;
    }

    fn hand_over(&mut self, length_ns: u64) {
        let streams: Vec<IntervalStream> = self.lanes.iter_mut().filter_map(Lane::close).collect();
        if !streams.is_empty() {
            let interval = Interval { start_ns: self.number * self.interval_ns, length_ns, streams };
            self.outbox.lock().expect("no holder of this lock panics").push((self.number, interval));
        }
    }

    /// Hands over the last interval and returns the streams.
    pub fn finish(mut self) -> Vec<Stream> {
        self.hand_over(self.interval_ns);
        self.lanes.into_iter().filter_map(Lane::finish).collect()
    }
}

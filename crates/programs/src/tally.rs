//! Operations completed by a program (or by SQLite in this process), counted into the histogram and the intervals of a
//! step.
//!
//! They may arrive late and out of order: pgbench writes its log in blocks, separately for each thread. So intervals
//! stay open until the end, or until the newest one is far ahead of them.

use std::collections::BTreeMap;

use qd1_model::Bytes;
use qd1_model::hist::{CoarseHist, Recorder};
use qd1_model::op::OpClass;
use qd1_model::record::{Interval, IntervalStream, SLOWEST_MAX, Slow, Stream};

/// Length of an interval, as everywhere.
pub(crate) const INTERVAL_NS: u64 = 100_000_000;
/// Intervals that stay open: half a minute, longer than a block of the log is delayed at any relevant rate.
const OPEN_MAX: usize = 300;

/// One interval that may still grow.
#[derive(Default)]
struct Open {
    ios: u64,
    sum_ns: u64,
    max_ns: u64,
    bins: CoarseHist,
}

/// Operations of one kind, over the measured window.
pub(crate) struct Tally {
    class: OpClass,
    window_ns: u64,
    lat: Recorder,
    sum_ns: u64,
    slowest: Vec<Slow>,
    open: BTreeMap<u64, Open>,
    closed: Vec<Interval>,
    last_ns: u64,
    count: u64,
    /// When the first operation that began before the window's end but completed after it did so, and its latency.
    behind: Option<(u64, u64)>,
}

impl Tally {
    /// Creates an empty tally for a window of this length.
    pub(crate) fn new(class: OpClass, window_ns: u64) -> Self {
        Self {
            class,
            window_ns,
            lat: Recorder::default(),
            sum_ns: 0,
            slowest: Vec::new(),
            open: BTreeMap::new(),
            closed: Vec::new(),
            last_ns: 0,
            count: 0,
            behind: None,
        }
    }

    /// Adds an operation that completed `completed_ns` after the window's start. An operation after the window's end
    /// does not count, unless [`Self::settle`] finds no other.
    pub(crate) fn add(&mut self, completed_ns: u64, lat_ns: u64) {
        if completed_ns >= self.window_ns {
            self.last_ns = self.window_ns;
            let began_before = completed_ns.saturating_sub(lat_ns) < self.window_ns;
            if began_before && self.behind.is_none_or(|(earliest_ns, _)| completed_ns < earliest_ns) {
                self.behind = Some((completed_ns, lat_ns));
            }
            return;
        }
        self.take(completed_ns, lat_ns);
    }

    /// Ends the counting and returns the number of operations. If none completed in the window, the first one that was
    /// under way at its end counts: its wait is all that the window saw of a disk that hangs.
    pub(crate) fn settle(&mut self) -> u64 {
        if self.count == 0
            && let Some((completed_ns, lat_ns)) = self.behind
        {
            self.take(completed_ns, lat_ns);
        }
        self.count
    }

    fn take(&mut self, completed_ns: u64, lat_ns: u64) {
        self.last_ns = self.last_ns.max(completed_ns);
        self.count += 1;
        self.lat.record(lat_ns);
        self.sum_ns += lat_ns;
        let number = completed_ns / INTERVAL_NS;
        // An operation whose interval is closed is counted in the first open one: late, but not lost.
        let number = self.open.keys().next().map_or(number, |first| number.max(*first)).max(self.closed.len() as u64);
        let open = self.open.entry(number).or_default();
        open.ios += 1;
        open.sum_ns += lat_ns;
        open.max_ns = open.max_ns.max(lat_ns);
        open.bins.record(lat_ns);
        self.keep_slowest(Slow { at_ns: completed_ns.saturating_sub(lat_ns), lat_ns });
        while self.open.len() > OPEN_MAX {
            self.close_first();
        }
    }

    fn keep_slowest(&mut self, slow: Slow) {
        if self.slowest.len() == SLOWEST_MAX && self.slowest.last().is_some_and(|least| least.lat_ns >= slow.lat_ns) {
            return;
        }
        let at = self.slowest.partition_point(|kept| kept.lat_ns >= slow.lat_ns);
        self.slowest.insert(at, slow);
        self.slowest.truncate(SLOWEST_MAX);
    }

    /// Closes the earliest open interval, and the empty ones before it.
    fn close_first(&mut self) {
        let Some((number, open)) = self.open.pop_first() else { return };
        while (self.closed.len() as u64) < number {
            self.closed.push(interval(self.closed.len() as u64, Vec::new()));
        }
        self.closed.push(interval(number, vec![open.stream(self.class)]));
    }

    /// Returns the number of operations so far.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the length of the window up to the last operation, ns; past its end if [`Self::settle`] found one there.
    pub(crate) fn seen_ns(&self) -> u64 {
        self.last_ns
    }

    /// Returns the intervals so far, for the figures shown during a run.
    pub(crate) fn so_far(&self) -> Vec<Interval> {
        let open = self.open.iter().map(|(number, open)| interval(*number, vec![open.stream(self.class)]));
        self.closed.iter().cloned().chain(open).collect()
    }

    /// Returns the stream and its intervals, the last one cut to `runtime_ns`; no stream if nothing completed.
    pub(crate) fn finish(mut self, runtime_ns: u64) -> (Option<Stream>, Vec<Interval>) {
        while !self.open.is_empty() {
            self.close_first();
        }
        let mut intervals = self.closed;
        let counted = || intervals.iter().flat_map(|interval| &interval.streams).map(|stream| stream.ios).sum::<u64>();
        debug_assert_eq!(counted(), self.count, "every operation is in exactly one interval");
        while (intervals.len() as u64) * INTERVAL_NS < runtime_ns {
            intervals.push(interval(intervals.len() as u64, Vec::new()));
        }
        if let Some(last) = intervals.last_mut() {
            last.length_ns = runtime_ns.saturating_sub(last.start_ns).clamp(1, INTERVAL_NS);
        }
        let stream = (self.count > 0).then(|| Stream {
            class: self.class,
            bytes: Bytes(0),
            lat: self.lat.finish(Some(self.sum_ns)),
            slat: None,
            clat: None,
            write_part: None,
            sync_part: None,
            slowest: self.slowest,
            waits: None,
            in_device: None,
        });
        (stream, intervals)
    }
}

impl Open {
    fn stream(&self, class: OpClass) -> IntervalStream {
        let bins = self.bins.sparse();
        IntervalStream { class, ios: self.ios, bytes: 0, lat_sum_ns: self.sum_ns, lat_max_ns: self.max_ns, bins }
    }
}

fn interval(number: u64, streams: Vec<IntervalStream>) -> Interval {
    Interval { start_ns: number * INTERVAL_NS, length_ns: INTERVAL_NS, streams }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn operations_in_any_order_are_each_counted_once() {
        let mut tally = Tally::new(OpClass::Transaction, 10 * SECOND);
        let times: Vec<u64> = (0..1_000).map(|n| n * 9_990_000).collect();
        // Two threads' blocks: the later half first.
        for at in times[500..].iter().chain(&times[..500]) {
            tally.add(*at, 1_000_000 + at % 7);
        }
        tally.add(10 * SECOND, 5);
        let (stream, intervals) = tally.finish(10 * SECOND);
        let counted: u64 = intervals.iter().flat_map(|interval| &interval.streams).map(|stream| stream.ios).sum();
        assert_eq!((stream.unwrap().lat.count(), counted), (1_000, 1_000));
        assert_eq!(intervals.iter().map(|interval| interval.length_ns).sum::<u64>(), 10 * SECOND);
        assert!(intervals.windows(2).all(|pair| pair[0].start_ns + pair[0].length_ns == pair[1].start_ns));
    }

    #[test]
    fn operations_of_closed_intervals_are_not_lost() {
        let mut tally = Tally::new(OpClass::Transaction, 1_000 * SECOND);
        (0..900).for_each(|n| tally.add(n * INTERVAL_NS, 10));
        tally.add(1, 10);
        let (stream, intervals) = tally.finish(90 * SECOND);
        assert_eq!(stream.unwrap().lat.count(), 901);
        assert_eq!(intervals.iter().flat_map(|i| &i.streams).map(|s| s.ios).sum::<u64>(), 901);
    }

    #[test]
    fn what_waits_through_the_window_is_what_it_saw() {
        let mut tally = Tally::new(OpClass::Commit, SECOND);
        for (completed_ns, lat_ns) in [(3 * SECOND, 4 * SECOND), (2 * SECOND, 3 * SECOND), (3 * SECOND / 2, 5)] {
            tally.add(completed_ns, lat_ns);
        }
        // The earliest one that had begun; the last one began after the window's end.
        assert_eq!((tally.settle(), tally.seen_ns()), (1, 2 * SECOND));
        let (stream, intervals) = tally.finish(2 * SECOND);
        let stream = stream.unwrap();
        assert_eq!((stream.slowest[0].lat_ns, stream.slowest[0].at_ns), (3 * SECOND, 0));
        assert_eq!(intervals.iter().flat_map(|interval| &interval.streams).map(|stream| stream.ios).sum::<u64>(), 1);

        let mut busy = Tally::new(OpClass::Commit, SECOND);
        busy.add(2 * SECOND, 2 * SECOND);
        busy.add(5, 5);
        assert_eq!((busy.settle(), busy.seen_ns()), (1, SECOND), "there is another one");
    }

    #[test]
    fn an_end_without_operations_counts_as_time() {
        let mut tally = Tally::new(OpClass::Commit, 10 * SECOND);
        tally.add(50, 40);
        let (_, intervals) = tally.finish(2 * SECOND + 5);
        assert_eq!(intervals.iter().map(|interval| interval.length_ns).sum::<u64>(), 2 * SECOND + 5);
    }

    #[test]
    fn the_slowest_are_kept_with_their_time() {
        let mut tally = Tally::new(OpClass::Commit, 10 * SECOND);
        (1..=100u64).for_each(|n| tally.add(n * 1000, n));
        let (stream, _) = tally.finish(SECOND);
        let slowest = stream.unwrap().slowest;
        assert_eq!((slowest.len(), slowest[0].lat_ns, slowest[31].lat_ns), (SLOWEST_MAX, 100, 69));
    }
}

//! A step that was measured in several visits: adds one more to the earlier ones.

use super::{DeviceDelta, IntervalStream, OtherUser, ProcessorWaits, SLOWEST_MAX, StepRecord, Stream};
use crate::environment::Pressure;
use crate::hist::Hist;
use crate::op::{Ended, OpClass};
use crate::order::Order as _;
use crate::units::Bytes;

impl StepRecord {
    /// Adds it to the earlier visits of its step in `steps`, and returns them together. Times count from the first
    /// visit, including the gaps between visits.
    pub fn add_to(self, steps: &mut Vec<Self>) -> &Self {
        let at = steps.iter().position(|step| step.name == self.name).unwrap_or(steps.len());
        match steps.get_mut(at) {
            Some(earlier) => earlier.add_visit(self),
            None => steps.push(self),
        }
        &steps[at]
    }

    /// Merges its intervals into one: the parts of a short visit in a long run say nothing.
    #[must_use]
    pub fn in_one_interval(mut self) -> Self {
        self.machine = Vec::new();
        let mut intervals = self.intervals.into_iter();
        let Some(mut whole) = intervals.next() else { return Self { intervals: Vec::new(), ..self } };
        for interval in intervals {
            whole.length_ns = (interval.start_ns + interval.length_ns).saturating_sub(whole.start_ns);
            for stream in interval.streams {
                stream.add_to(&mut whole.streams);
            }
        }
        whole.streams.order_by_key(|stream| stream.class);
        self.intervals = vec![whole];
        self
    }

    fn add_visit(&mut self, mut visit: Self) {
        let later_ns = visit.started_ns.saturating_sub(self.started_ns);
        for interval in &mut visit.intervals {
            interval.start_ns = interval.start_ns.saturating_add(later_ns);
        }
        for interval in &mut visit.machine {
            interval.start_ns = interval.start_ns.saturating_add(later_ns);
        }
        for stream in &mut visit.streams {
            stream.slowest.iter_mut().for_each(|slow| slow.at_ns = slow.at_ns.saturating_add(later_ns));
        }
        let share = visit.runtime_ns as f64 / (self.runtime_ns + visit.runtime_ns).max(1) as f64;
        let mean = |before: f64, now: f64| before + (now - before) * share;
        self.steal = mean(self.steal, visit.steal);
        self.busy = mean(self.busy, visit.busy);
        self.pressure = match (self.pressure, visit.pressure) {
            (Some(before), Some(now)) => Some(Pressure {
                io: mean(before.io, now.io),
                memory: mean(before.memory, now.memory),
                cpu: mean(before.cpu, now.cpu),
            }),
            (before, now) => before.or(now),
        };
        self.sort_ns = self.sort_ns.into_iter().chain(visit.sort_ns).reduce(f64::max);
        self.runtime_ns += visit.runtime_ns;
        self.end_fsync_ns += visit.end_fsync_ns;
        // Running out of time is the weakest reason; all others explain why it ended sooner.
        if self.ended == Ended::Time || visit.ended == Ended::Failed {
            self.ended = visit.ended;
        }
        self.is_without_ramp |= visit.is_without_ramp;
        if self.fault.is_empty() {
            self.fault = visit.fault;
        }
        if self.engine.is_none() {
            (self.engine, self.engine_why, self.direct) = (visit.engine, visit.engine_why, visit.direct);
        }
        visit.others.into_iter().for_each(|other| other.add_visit_to(&mut self.others));
        OtherUser::keep_busiest(&mut self.others);
        visit.streams.into_iter().for_each(|stream| stream.add_to(&mut self.streams));
        self.streams.order_by_key(|stream| stream.class);
        self.intervals.append(&mut visit.intervals);
        self.machine.append(&mut visit.machine);
        visit.errors.into_iter().for_each(|error| error.add_to(&mut self.errors));
        self.device = match (self.device, visit.device) {
            (Some(before), Some(now)) => Some(before.plus(&now)),
            (before, now) => before.or(now),
        };
        self.cost = self.cost.plus(&visit.cost);
        for (number, background) in visit.background.into_iter().enumerate() {
            let Some(mine) = self.background.get_mut(number) else {
                self.background.push(background);
                continue;
            };
            mine.runtime_ns += background.runtime_ns;
            background.streams.into_iter().for_each(|stream| stream.add_to(&mut mine.streams));
            background.errors.into_iter().for_each(|error| error.add_to(&mut mine.errors));
        }
    }
}

impl Stream {
    /// Returns operations of which only the latencies are known.
    pub fn of(class: OpClass, bytes: Bytes, lat: Hist) -> Self {
        Self {
            class,
            bytes,
            lat,
            slat: None,
            clat: None,
            write_part: None,
            sync_part: None,
            slowest: Vec::new(),
            waits: None,
            in_device: None,
        }
    }

    /// Adds the operations to those of the same kind in `streams`.
    pub fn add_to(self, streams: &mut Vec<Self>) {
        let Some(mine) = streams.iter_mut().find(|stream| stream.class == self.class) else {
            streams.push(self);
            return;
        };
        mine.bytes.0 += self.bytes.0;
        mine.waits = match (mine.waits.take(), &self.waits) {
            (Some(before), Some(now)) => Some(before.plus(mine, now, &self)),
            _ => None,
        };
        mine.in_device = match (mine.in_device, self.in_device) {
            (Some(before), Some(now)) => Some(before.plus(&now)),
            (before, now) => before.or(now),
        };
        mine.lat.merge(&self.lat);
        for (mine, other) in [
            (&mut mine.slat, self.slat),
            (&mut mine.clat, self.clat),
            (&mut mine.write_part, self.write_part),
            (&mut mine.sync_part, self.sync_part),
        ] {
            if let (Some(mine), Some(other)) = (mine.as_mut(), other) {
                mine.merge(&other);
            }
        }
        mine.slowest.extend(self.slowest);
        mine.slowest.sort_unstable_by_key(|slow| std::cmp::Reverse(slow.lat_ns));
        mine.slowest.truncate(SLOWEST_MAX);
    }
}

impl IntervalStream {
    /// Adds the operations to those of the same kind in `streams`.
    fn add_to(self, streams: &mut Vec<Self>) {
        let Some(mine) = streams.iter_mut().find(|stream| stream.class == self.class) else {
            streams.push(self);
            return;
        };
        mine.ios += self.ios;
        mine.bytes += self.bytes;
        mine.lat_sum_ns = mine.lat_sum_ns.saturating_add(self.lat_sum_ns);
        mine.lat_max_ns = mine.lat_max_ns.max(self.lat_max_ns);
        for (bin, count) in self.bins {
            match mine.bins.binary_search_by_key(&bin, |(bin, _)| *bin) {
                Ok(at) => mine.bins[at].1 += count,
                Err(at) => mine.bins.insert(at, (bin, count)),
            }
        }
    }
}

/// Sum of two, where an absent one stands for its whole.
fn both(mine: Option<Hist>, whole: &Hist, theirs: Option<&Hist>, their_whole: &Hist) -> Option<Hist> {
    if mine.is_none() && theirs.is_none() {
        return None;
    }
    let mut sum = mine.unwrap_or_else(|| whole.clone());
    sum.merge(theirs.unwrap_or(their_whole));
    Some(sum)
}

impl ProcessorWaits {
    /// Sum over two visits or workers, which measured the streams.
    fn plus(self, mine: &Stream, other: &Self, theirs: &Stream) -> Self {
        let sync = match (&mine.sync_part, &theirs.sync_part) {
            (Some(mine), Some(theirs)) => both(self.sync, mine, other.sync.as_ref(), theirs),
            _ => None,
        };
        let lat = both(self.lat, &mine.lat, other.lat.as_ref(), &theirs.lat);
        let mut looked_at = self.looked_at;
        for theirs in &other.looked_at {
            match looked_at.binary_search_by_key(&theirs.from_ns, |mine| mine.from_ns) {
                Ok(at) => looked_at[at].add(theirs),
                Err(at) => looked_at.insert(at, *theirs),
            }
        }
        Self { lat, sync, looked_at }
    }
}

impl DeviceDelta {
    /// Sum over two times.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            counted: self.counted.plus(&other.counted),
            asked_reads: self.asked_reads + other.asked_reads,
            asked_read_bytes: Bytes(self.asked_read_bytes.0 + other.asked_read_bytes.0),
            asked_writes: self.asked_writes + other.asked_writes,
            asked_write_bytes: Bytes(self.asked_write_bytes.0 + other.asked_write_bytes.0),
            asked_syncs: self.asked_syncs + other.asked_syncs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Interval, IoErrors, Slow, TimeSpent};

    /// A visit of `count` reads of this many ns, which began at a certain time of the run.
    fn visit(started_ns: u64, count: u64, lat_ns: u64) -> StepRecord {
        let mut lat = Hist::new();
        (0..count).for_each(|_| lat.record(lat_ns));
        let class = OpClass::Read;
        let (bytes, slowest) = (Bytes(count * 4096), vec![Slow { at_ns: 5, lat_ns }]);
        let stream = Stream { slowest, ..Stream::of(class, bytes, lat) };
        let (ios, lat_sum_ns) = (count, count * lat_ns);
        let of_interval =
            IntervalStream { class, ios, bytes: bytes.0, lat_sum_ns, lat_max_ns: lat_ns, bins: Vec::new() };
        StepRecord {
            name: "reads".to_owned(),
            started_ns,
            runtime_ns: 100,
            steal: 0.1,
            streams: vec![stream],
            intervals: vec![Interval { start_ns: 0, length_ns: 100, streams: vec![of_interval] }],
            device: Some(DeviceDelta { asked_reads: count, ..DeviceDelta::default() }),
            ..StepRecord::default()
        }
    }

    #[test]
    fn visits_add_up_and_their_times_stay_apart() {
        let mut steps = vec![StepRecord { name: "other".to_owned(), ..visit(0, 1, 1) }];
        visit(1000, 10, 50).add_to(&mut steps);
        let step = visit(3000, 30, 90).add_to(&mut steps).clone();
        assert_eq!((steps.len(), &steps[1]), (2, &step));
        let stream = step.stream(OpClass::Read).unwrap();
        assert_eq!((stream.lat.count(), stream.bytes, step.runtime_ns), (40, Bytes(40 * 4096), 200));
        assert_eq!(stream.slowest, [Slow { at_ns: 2005, lat_ns: 90 }, Slow { at_ns: 5, lat_ns: 50 }]);
        let starts: Vec<u64> = step.intervals.iter().map(|interval| interval.start_ns).collect();
        assert_eq!((starts, step.started_ns), (vec![0, 2000], 1000));
        assert_eq!(step.device.unwrap().asked_reads, 40);
    }

    #[test]
    fn the_intervals_of_a_visit_join_with_all_that_was_in_them() {
        let mut step = visit(0, 10, 50);
        let mut later = visit(0, 5, 90).intervals.remove(0);
        later.start_ns = 100;
        (later.streams[0].bins, step.intervals[0].streams[0].bins) = (vec![(3, 1), (9, 4)], vec![(2, 8), (9, 2)]);
        step.intervals.push(later);
        let whole = step.in_one_interval().intervals;
        assert_eq!((whole.len(), whole[0].length_ns), (1, 200));
        let stream = &whole[0].streams[0];
        assert_eq!((stream.ios, stream.lat_sum_ns, stream.lat_max_ns), (15, 950, 90));
        assert_eq!(stream.bins, [(2, 8), (3, 1), (9, 6)]);
    }

    #[test]
    fn waits_of_visits_add_up_also_where_one_had_none() {
        let with = |lat_ns: Option<u64>, visit: StepRecord| {
            let mut streams = visit.streams.clone();
            let lat = lat_ns.map(|lat_ns| {
                let mut lat = Hist::new();
                (0..streams[0].lat.count()).for_each(|_| lat.record(lat_ns));
                lat
            });
            let spent = |from_ns| TimeSpent { from_ns, ios: 1, lat_ns: 50, worked_ns: 5, waited_ns: 20 };
            let ios = streams[0].lat.count();
            streams[0].waits = Some(ProcessorWaits { lat, sync: None, looked_at: vec![spent(10 * ios), spent(200)] });
            StepRecord { streams, ..visit }
        };
        let mut step = with(None, visit(0, 10, 50));
        step.add_visit(with(Some(70), visit(300, 5, 90)));
        step.add_visit(with(None, visit(600, 3, 40)));
        let waits = step.streams[0].waits.clone().unwrap();
        let lat = waits.lat.unwrap();
        assert_eq!((lat.count(), lat.min_ns(), lat.max_ns()), (18, 40, 70));
        let spent = |from_ns, times| TimeSpent {
            from_ns,
            ios: times,
            lat_ns: 50 * times,
            worked_ns: 5 * times,
            waited_ns: 20 * times,
        };
        assert_eq!(waits.looked_at, [spent(30, 1), spent(50, 1), spent(100, 1), spent(200, 3)]);
        // If one visit was not examined, nothing can be said about the whole.
        step.add_visit(visit(900, 3, 40));
        assert_eq!(step.streams[0].waits, None);
    }

    #[test]
    fn shares_are_weighted_by_time_and_the_worst_end_stays() {
        let mut step = visit(0, 1, 1);
        let long = StepRecord { runtime_ns: 300, steal: 0.5, ended: Ended::Failed, ..visit(500, 1, 1) };
        let failed = StepRecord { errors: vec![IoErrors::once("EIO", 7)], fault: "gone".to_owned(), ..long };
        step.add_visit(failed);
        step.add_visit(StepRecord { steal: 0.0, ..visit(900, 1, 1) });
        assert!((step.steal - 0.32).abs() < 1e-12, "{}", step.steal);
        assert_eq!((step.ended, step.fault.as_str(), step.errors.len()), (Ended::Failed, "gone", 1));
    }
}

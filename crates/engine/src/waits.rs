//! Where slow operations spent their time: how long the thread of a worker worked, and waited for a processor, while one was
//! on its way. The rest it slept, until the disk had answered.
//!
//! The kernel counts that for each thread (its clock and `schedstat`). Reading it costs a microsecond, so it is read between
//! operations, and only where one was slow: among the slowest percent of the interval before, or of the beginning of the
//! first one. What it says then is of all since the reading before; so there is one every millisecond as well, and what
//! passed before the slow operation is taken to have been spent as where nothing was slow. All of that lies between the
//! completion of one operation and the issue of the next.

use std::collections::VecDeque;

use qd1_model::environment::ThreadTime;
use qd1_model::hist::{COARSE_BINS, Recorder, coarse_index, coarse_low_ns};
use qd1_model::record::{ProcessorWaits, SlowTime};

/// From one reading to the next, ns.
pub(crate) const READ_EVERY_NS: u64 = 1_000_000;
/// Readings for slow operations that each of these times adds to those that may be taken: together less than half a percent
/// of the time.
const READS_EACH: u64 = 3;
/// Readings that may be taken at once at most.
const READS_MAX: u64 = 256;
/// Readings kept: a request of an open loop may have been due long before the latest.
const READINGS_MAX: usize = 512;
/// Of so many operations the slowest is slow.
const SLOW_OF: u32 = 100;
/// Least share of its latency that an operation waited to be noted.
const SHARE_MIN: u64 = 20;
/// Operations noted at most.
const NOTED_MAX: usize = 1 << 16;

/// Reads how the calling thread has spent its time so far.
pub type ReadTime = fn() -> ThreadTime;

/// What a thread worked and waited in some time, ns.
#[derive(Clone, Copy, Default)]
struct Spent {
    span_ns: f64,
    worked_ns: f64,
    waited_ns: f64,
}

impl Spent {
    fn plus(self, other: Self) -> Self {
        Self {
            span_ns: self.span_ns + other.span_ns,
            worked_ns: self.worked_ns + other.worked_ns,
            waited_ns: self.waited_ns + other.waited_ns,
        }
    }

    /// As much of it as there would be in `span_ns`.
    fn in_span(self, span_ns: f64) -> Self {
        let part = if self.span_ns > 0.0 { span_ns / self.span_ns } else { 0.0 };
        Self { span_ns, worked_ns: self.worked_ns * part, waited_ns: self.waited_ns * part }
    }
}

/// What the thread had worked and waited at a time, ns.
#[derive(Clone, Copy)]
struct Reading {
    at_ns: u64,
    worked_ns: f64,
    waited_ns: f64,
}

impl Reading {
    fn since(&self, before: &Self) -> Spent {
        Spent {
            span_ns: self.at_ns.saturating_sub(before.at_ns) as f64,
            worked_ns: self.worked_ns - before.worked_ns,
            waited_ns: self.waited_ns - before.waited_ns,
        }
    }

    /// What it was at a later time, if `spent` went on until then; no more than in the next reading.
    fn later(&self, at_ns: u64, spent: Spent, next: &Self) -> Self {
        let spent = spent.in_span(at_ns.saturating_sub(self.at_ns) as f64);
        Self {
            at_ns,
            worked_ns: (self.worked_ns + spent.worked_ns).min(next.worked_ns),
            waited_ns: (self.waited_ns + spent.waited_ns).min(next.waited_ns),
        }
    }
}

/// The reading side, one for a worker.
pub(crate) struct Waits {
    read: ReadTime,
    /// The latest readings, in the order of time.
    readings: VecDeque<Reading>,
    /// Between readings, where nothing was slow.
    quiet: Spent,
    /// Whether something was slow before the latest reading, and since.
    was_slow: bool,
    is_slow: bool,
    reads_left: u64,
}

impl Waits {
    pub(crate) fn new(read: ReadTime) -> Self {
        Self {
            read,
            readings: VecDeque::with_capacity(READINGS_MAX + 1),
            quiet: Spent::default(),
            was_slow: false,
            is_slow: false,
            reads_left: READS_MAX / 8,
        }
    }

    /// Reads in its turn, after the operation that completed then.
    pub(crate) fn look(&mut self, completed_ns: u64) {
        let passed_ns = self.readings.back().map_or(0, |last| completed_ns.saturating_sub(last.at_ns));
        self.reads_left = READS_MAX.min(self.reads_left + READS_EACH * (passed_ns / READ_EVERY_NS).max(1));
        self.read(completed_ns);
    }

    fn read(&mut self, completed_ns: u64) {
        let count = self.readings.len();
        if !self.was_slow && count >= 2 {
            self.quiet = self.quiet.plus(self.readings[count - 1].since(&self.readings[count - 2]));
        }
        self.was_slow = std::mem::take(&mut self.is_slow);
        let last_ns = self.readings.back().map_or(0, |last| last.at_ns);
        let ThreadTime { worked_ns, waited_ns } = (self.read)();
        self.readings.push_back(Reading {
            at_ns: completed_ns.max(last_ns),
            worked_ns: worked_ns as f64,
            waited_ns: waited_ns as f64,
        });
        self.forget();
    }

    /// Returns what the thread spent of the time of the slow operation that has just completed; `None` where that is not
    /// known, or would take a reading too many.
    fn of_slow(&mut self, completed_ns: u64, lat_ns: u64) -> Option<Spent> {
        if self.readings.back().is_none_or(|last| last.at_ns != completed_ns) {
            let Some(left) = self.reads_left.checked_sub(1) else {
                self.is_slow = true;
                return None;
            };
            self.reads_left = left;
            self.read(completed_ns);
        }
        let others_were_slow = std::mem::replace(&mut self.was_slow, true);
        let begun_ns = completed_ns.saturating_sub(lat_ns);
        let last = *self.readings.back()?;
        let Some(before) = self.readings.partition_point(|reading| reading.at_ns <= begun_ns).checked_sub(1) else {
            // It began before the first reading; most of it has to be known.
            let spent = last.since(self.readings.front()?);
            return (2.0 * spent.span_ns >= lat_ns as f64).then_some(spent);
        };
        let (earlier, next) = (self.readings[before], *self.readings.get(before + 1)?);
        let is_latest = before + 2 == self.readings.len();
        // Those that were fast came before it, or other slow ones: in an open loop, one that it had to wait for.
        let is_after_fast = is_latest && !others_were_slow && self.quiet.span_ns > 0.0;
        let like = if is_after_fast { self.quiet } else { next.since(&earlier) };
        let begun = earlier.later(begun_ns, like, &next);
        if is_latest {
            // Others may have been due while this one was on its way.
            self.readings.insert(before + 1, begun);
            self.forget();
        }
        Some(last.since(&begun))
    }

    /// Keeps the latest readings alone.
    fn forget(&mut self) {
        while self.readings.len() > READINGS_MAX {
            self.readings.pop_front();
        }
    }
}

/// What the slow operations of one kind that were looked at spent their time on, in a coarse bin of latencies.
#[derive(Clone, Copy, Default)]
struct Bin {
    ios: u64,
    lat_ns: u64,
    worked_ns: f64,
    waited_ns: f64,
}

/// The slow operations of one kind.
pub(crate) struct Waited {
    /// Latency of each that waited for a processor, and how much of it that was, ns.
    noted: Vec<(u64, u64)>,
    /// Latency of each that was not looked at, ns.
    unseen: Vec<u64>,
    bins: Box<[Bin; COARSE_BINS]>,
    /// A latency above this is slow, ns.
    pub(crate) slow_ns: u64,
}

impl Waited {
    pub(crate) fn new() -> Self {
        let noted = Vec::with_capacity(NOTED_MAX);
        let unseen = Vec::with_capacity(NOTED_MAX);
        Self { noted, unseen, bins: Box::new([Bin::default(); COARSE_BINS]), slow_ns: 0 }
    }

    /// Notes the slow operation that has just completed.
    pub(crate) fn note(&mut self, waits: &mut Waits, completed_ns: u64, lat_ns: u64) {
        if self.noted.len() == NOTED_MAX {
            return;
        }
        let Some(spent) = waits.of_slow(completed_ns, lat_ns) else {
            if self.unseen.len() < NOTED_MAX {
                self.unseen.push(lat_ns);
            }
            return;
        };
        let bin = &mut self.bins[coarse_index(lat_ns)];
        (bin.ios, bin.lat_ns) = (bin.ios + 1, bin.lat_ns + lat_ns);
        bin.worked_ns += spent.worked_ns;
        bin.waited_ns += spent.waited_ns;
        let waited_ns = (spent.waited_ns.max(0.0) as u64).min(lat_ns);
        if waited_ns > lat_ns / SHARE_MIN {
            self.noted.push((lat_ns, waited_ns));
        }
    }

    /// Says from the latencies of a time what is slow in the next one: the slowest percent or two in whole bins, never the
    /// bin that most are in; of few operations all are.
    pub(crate) fn learn(&mut self, bins: &[(u16, u32)]) {
        let most = bins.iter().map(|(_, count)| count).sum::<u32>() / SLOW_OF;
        let mut above = 0;
        let reaches = |(_, count): &&(u16, u32)| {
            above += count;
            above > most
        };
        self.slow_ns = match bins.iter().rev().find(reaches) {
            Some((bin, _)) if most > 0 => {
                let first = if above <= 2 * most { *bin } else { *bin + 1 };
                coarse_low_ns(usize::from(first)) - 1
            }
            _ => 0,
        };
    }

    /// Those that were not looked at are taken to have waited like those of the same bin that were (a hot deck).
    fn impute(&mut self) {
        self.noted.sort_unstable();
        let mut taken = [0; COARSE_BINS];
        let mut imputed = Vec::new();
        for lat_ns in &self.unseen {
            let bin = coarse_index(*lat_ns);
            let first = self.noted.partition_point(|(noted_ns, _)| coarse_index(*noted_ns) < bin);
            let last = self.noted.partition_point(|(noted_ns, _)| coarse_index(*noted_ns) <= bin);
            let (waited, seen) = ((last - first) as u64, self.bins[bin].ios);
            let turn: u64 = taken[bin];
            taken[bin] += 1;
            // As many of them as of those that were looked at.
            if seen > 0 && (turn + 1) * waited / seen > turn * waited / seen {
                let (noted_ns, waited_ns) = self.noted[first + (turn % waited) as usize];
                imputed.push((*lat_ns, (waited_ns as f64 / noted_ns as f64 * *lat_ns as f64) as u64));
            }
        }
        self.noted.extend(imputed);
    }

    /// What all of them spent their time on.
    pub(crate) fn finish(mut self, recorder: &Recorder) -> ProcessorWaits {
        self.impute();
        let seen = self.bins.iter().enumerate().filter(|(_, bin)| bin.ios > 0);
        let slow = seen.map(|(index, bin)| {
            let waited_ns = (bin.waited_ns.max(0.0) as u64).min(bin.lat_ns);
            let worked_ns = (bin.worked_ns.max(0.0) as u64).min(bin.lat_ns - waited_ns);
            SlowTime { from_ns: coarse_low_ns(index), ios: bin.ios, lat_ns: bin.lat_ns, worked_ns, waited_ns }
        });
        ProcessorWaits {
            slow: slow.collect(),
            lat: (!self.noted.is_empty()).then(|| recorder.shortened(&self.noted).finish(None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::{Arc, Mutex};

    use crate::meter::{Meter, Parts, Timing};
    use qd1_model::environment::ThreadTime;
    use qd1_model::op::OpClass;
    use qd1_model::record::{ProcessorWaits, Stream};

    thread_local! {
        static TIME: Cell<ThreadTime> = const { Cell::new(ThreadTime { worked_ns: 0, waited_ns: 0 }) };
    }

    /// An operation: its latency, and how much of the time until it completes the thread worked and waited. A closed loop
    /// issues one when the one before has completed; in an open loop it is due as long before its completion as it takes.
    #[derive(Clone, Copy)]
    struct Operation {
        since_last_ns: u64,
        lat_ns: u64,
        worked_ns: u64,
        waited_ns: u64,
    }

    const fn operation(lat_ns: u64, worked_ns: u64, waited_ns: u64) -> Operation {
        Operation { since_last_ns: lat_ns, lat_ns, worked_ns, waited_ns }
    }

    fn waits_of(operations: impl IntoIterator<Item = Operation>) -> (Stream, ProcessorWaits) {
        TIME.set(ThreadTime::default());
        let outbox = Arc::new(Mutex::new(Vec::new()));
        let classes = [(OpClass::Read, Parts::None)];
        let mut meter = Meter::looking(classes, 0, 100_000_000, outbox, Some(|| TIME.get()));
        let mut completed_ns = 0;
        for Operation { since_last_ns, lat_ns, worked_ns, waited_ns } in operations {
            completed_ns += since_last_ns;
            let before = TIME.get();
            TIME.set(ThreadTime { worked_ns: before.worked_ns + worked_ns, waited_ns: before.waited_ns + waited_ns });
            meter.record(0, 4096, &Timing { lat_ns, part_ns: 0, completed_ns });
        }
        let stream = meter.finish().remove(0);
        let waits = stream.waits.clone().unwrap();
        (stream, waits)
    }

    /// How many of the operations slower than that were looked at, and their shares of work and of waits.
    fn above(waits: &ProcessorWaits, least_ns: u64) -> (u64, f64, f64) {
        let of = || waits.slow.iter().filter(move |bin| bin.from_ns >= least_ns);
        let lat_ns = of().map(|bin| bin.lat_ns).sum::<u64>() as f64;
        let share = |part: fn(&super::SlowTime) -> u64| of().map(part).sum::<u64>() as f64 / lat_ns;
        (of().map(|bin| bin.ios).sum(), share(|bin| bin.worked_ns), share(|bin| bin.waited_ns))
    }

    /// 20,000 of 0.1 ms, nine tenths of it work; every 500th is slow.
    fn with_slow(slow: impl Fn(u64) -> Operation) -> impl Iterator<Item = Operation> {
        let usual = operation(100_000, 90_000, 1_000);
        (1..=20_000).map(move |number| if number % 500 == 0 { slow(number) } else { usual })
    }

    #[test]
    fn each_slow_operation_is_charged_with_its_own_wait() {
        let slow = |number: u64| match number.is_multiple_of(1000) {
            true => operation(3_000_000, 10_000, 2_900_000),
            false => operation(3_000_000, 10_000, 0),
        };
        let (_, waits) = waits_of(with_slow(slow));
        let lat = waits.lat.as_ref().unwrap();
        assert_eq!(lat.count(), 20_000);
        // Of 40 slow ones half were the processor's.
        assert_eq!((lat.count_above(2_000_000), lat.count_above(150_000)), (20, 20));
        let (ios, worked, waited) = above(&waits, 2_000_000);
        assert_eq!(ios, 40);
        assert!((waited - 0.483).abs() < 0.005 && worked < 0.005, "{worked} {waited}");
    }

    /// A millisecond of others' work and waits was charged to the slow operation after them.
    #[test]
    fn what_fast_ones_worked_and_waited_is_not_charged_to_a_slow_one() {
        for lat_ns in [300_000, 1_000_000, 3_000_000] {
            let (_, waits) = waits_of(with_slow(|_| operation(lat_ns, 0, 0)));
            let (ios, worked, waited) = above(&waits, 200_000);
            assert!(ios >= 39 && worked < 0.02 && waited < 0.001, "{ios} of {lat_ns} ns: {worked} {waited}");
            assert!(waits.lat.is_none(), "none of them waited for long");
        }
    }

    /// Among operations that all are alike, the slowest are as the rest; in the first millisecond as well.
    #[test]
    fn what_all_do_alike_is_the_share_of_each() {
        for count in [50, 500, 50_000] {
            let (_, waits) = waits_of((0..count).map(|number| operation(20_000 + number % 7, 12_000, 4_000)));
            let (_, worked, waited) = above(&waits, 0);
            assert!((worked - 0.6).abs() < 0.02 && (waited - 0.2).abs() < 0.02, "{count}: {worked} {waited}");
        }
    }

    /// In an open loop the first of those that were held up together had the whole wait, and the others were the disk's.
    #[test]
    fn each_request_that_a_wait_held_up_is_charged_with_its_part() {
        // Due every millisecond, each takes 50 us; every 400 ms the thread waits for 10 ms, and those due meanwhile are late.
        let usual = Operation { since_last_ns: 1_000_000, lat_ns: 50_000, worked_ns: 10_000, waited_ns: 0 };
        let held = Operation { since_last_ns: 11_000_000, lat_ns: 10_050_000, waited_ns: 10_000_000, ..usual };
        let late = |number: u64| Operation { since_last_ns: 50_000, lat_ns: 10_050_000 - number * 950_000, ..usual };
        let round = || std::iter::once(held).chain((1..11).map(late)).chain(std::iter::repeat_n(usual, 389));
        let (stream, waits) = waits_of((0..10).flat_map(|_| round()));
        assert_eq!(stream.lat.count_above(400_000), 110);
        let (ios, _, waited) = above(&waits, 400_000);
        assert!(ios >= 100 && waited > 0.9, "{ios}: {waited}");
        // Up to a millisecond of sleep before the wait is told apart only by the share of it.
        let left = waits.lat.unwrap().count_above(1_500_000);
        assert!(left <= 5, "{left} of 100 late ones are still late");
    }

    /// Those for which there was no reading counted as not having waited.
    #[test]
    fn what_was_not_looked_at_waited_like_what_was() {
        // For a tenth of a second all wait, 2,000 of 50 us, after as long without.
        let slow = std::iter::repeat_n(operation(50_000, 0, 45_000), 2_000);
        let (stream, waits) = waits_of(std::iter::repeat_n(operation(10_000, 0, 0), 10_000).chain(slow));
        let (ios, _, waited) = above(&waits, 40_000);
        assert!(ios < 1_000 && waited > 0.85, "{ios}: {waited}");
        assert_eq!(stream.lat.count_above(40_000), 2_000);
        let left = waits.lat.unwrap().count_above(40_000);
        assert!(left < 100, "{left} of 2,000 are left");
    }

    #[test]
    fn it_is_read_a_thousand_times_a_second_and_for_a_few_slow_ones() {
        thread_local! {
            static READS: Cell<u32> = const { Cell::new(0) };
        }
        let count = || {
            READS.set(READS.get() + 1);
            ThreadTime::default()
        };
        let outbox = Arc::new(Mutex::new(Vec::new()));
        let mut meter = Meter::looking([(OpClass::Read, Parts::None)], 0, 100_000_000, outbox, Some(count));
        // A second of 5 us, every other of them slower.
        for number in 1..=200_000u64 {
            meter.record(0, 4096, &Timing { lat_ns: 4_000 + number % 2, part_ns: 0, completed_ns: number * 5_000 });
        }
        assert!((1_000..5_000).contains(&READS.get()), "{}", READS.get());
    }
}

//! Whose wait it was: how long the thread of a worker waited for a processor while a slow operation was on its way.
//!
//! The kernel counts that for each thread (`schedstat`). Reading it costs a microsecond, so it is read between operations,
//! and only where one was slow: among the slowest percent of the interval before. What it says then is of all operations
//! since the reading before; so there is one every millisecond as well, and what a slow operation is charged with holds
//! at most a millisecond of others'. All of that lies between the completion of one operation and the issue of the next.

use qd1_model::Hist;
use qd1_model::hist::{Recorder, coarse_low_ns};
use qd1_model::record::ProcessorWaits;

/// From one reading to the next, ns.
pub(crate) const READ_EVERY_NS: u64 = 1_000_000;
/// Readings for slow operations in an interval at most: a quarter of a percent of its time.
const READS_MAX: u32 = 256;
/// Of so many operations the slowest is slow.
const SLOW_OF: u32 = 100;
/// Least share of its latency that an operation waited to be noted.
const SHARE_MIN: u64 = 20;
/// Operations noted at most; more than a second of a step has slow ones.
const NOTED_MAX: usize = 8192;

/// Reads how long the calling thread has waited for a processor so far, ns.
pub type RunDelay = fn() -> u64;

/// The reading side, one for a worker.
pub(crate) struct Waits {
    run_delay_ns: RunDelay,
    seen_ns: u64,
    /// When the operation completed after which it was read last, ns.
    read_at_ns: u64,
    /// Of that reading: the time since the one before, and the waits in it that no operation is charged with, ns.
    span_ns: u64,
    waited_ns: u64,
    /// Readings for slow operations that this interval may still have.
    left: u32,
}

impl Waits {
    pub(crate) fn new(run_delay_ns: RunDelay) -> Self {
        Self { run_delay_ns, seen_ns: run_delay_ns(), read_at_ns: 0, span_ns: 0, waited_ns: 0, left: READS_MAX }
    }

    /// Reads after the operation that completed then.
    pub(crate) fn read(&mut self, completed_ns: u64) {
        let now_ns = (self.run_delay_ns)();
        self.waited_ns = now_ns.saturating_sub(self.seen_ns);
        self.span_ns = completed_ns.saturating_sub(self.read_at_ns);
        (self.seen_ns, self.read_at_ns) = (now_ns, completed_ns);
    }

    /// Returns how long the slow operation that has just completed waited, ns; 0 where it would take a reading
    /// that this interval does not have.
    pub(crate) fn of_slow(&mut self, completed_ns: u64, lat_ns: u64) -> u64 {
        if self.read_at_ns != completed_ns {
            if self.left == 0 {
                return 0;
            }
            self.left -= 1;
            self.read(completed_ns);
        }
        let waited_ns = std::mem::take(&mut self.waited_ns).min(lat_ns);
        // One that took half of the time and more is what waited in it; of the waits of many each has its part.
        if 2 * lat_ns >= self.span_ns {
            return waited_ns;
        }
        (u128::from(waited_ns) * 2 * u128::from(lat_ns) / u128::from(self.span_ns)) as u64
    }

    /// Begins an interval.
    pub(crate) fn turn(&mut self) {
        self.left = READS_MAX;
    }
}

/// The slow operations of one kind that waited.
pub(crate) struct Waited {
    /// Latency of each, and how much of it was waiting, ns.
    noted: Vec<(u64, u64)>,
    /// A latency above this is slow, ns.
    pub(crate) slow_ns: u64,
}

impl Waited {
    pub(crate) fn new() -> Self {
        Self { noted: Vec::with_capacity(NOTED_MAX), slow_ns: 0 }
    }

    pub(crate) fn note(&mut self, lat_ns: u64, waited_ns: u64) {
        if waited_ns > lat_ns / SHARE_MIN && self.noted.len() < NOTED_MAX {
            self.noted.push((lat_ns, waited_ns));
        }
    }

    /// Says from the interval that ends what is slow in the next one; of few operations all are.
    pub(crate) fn turn(&mut self, bins: &[(u16, u32)]) {
        let most = bins.iter().map(|(_, count)| count).sum::<u32>() / SLOW_OF;
        let mut above = 0;
        let slow = bins.iter().rev().find(|(_, count)| {
            above += count;
            above > most
        });
        self.slow_ns = if most == 0 { 0 } else { slow.map_or(0, |(bin, _)| coarse_low_ns(usize::from(*bin))) };
    }

    /// Of all operations, what was waiting.
    pub(crate) fn finish(self, recorder: &Recorder, lat: &Hist) -> ProcessorWaits {
        // It is the middle of a bin, which is a thousandth wide.
        let slow_ns = lat.at_rank(lat.count() + 1 - lat.count().div_ceil(1000));
        let tail_from_ns = slow_ns - slow_ns / 1000;
        let tail = lat.bins().filter(|(lat_ns, _)| *lat_ns >= tail_from_ns);
        let (tail_ios, tail_lat_ns) = tail.fold((0, 0), |sum, (lat_ns, ios)| (sum.0 + ios, sum.1 + ios * lat_ns));
        let in_tail = self.noted.iter().filter(|(lat_ns, _)| *lat_ns >= tail_from_ns);
        ProcessorWaits {
            lat: (!self.noted.is_empty()).then(|| recorder.shortened(&self.noted).finish(None)),
            tail_ios,
            tail_lat_ns,
            tail_waited_ns: in_tail.map(|(_, waited_ns)| waited_ns).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::{Arc, Mutex};

    use crate::meter::{Meter, Parts, Timing};
    use qd1_model::op::OpClass;
    use qd1_model::record::Stream;

    thread_local! {
        static WAITED_NS: Cell<u64> = const { Cell::new(0) };
    }

    /// One after another, each of a latency and a part of it that its thread waited for a processor.
    fn stream(operations: impl IntoIterator<Item = (u64, u64)>) -> Stream {
        WAITED_NS.set(0);
        let outbox = Arc::new(Mutex::new(Vec::new()));
        let classes = [(OpClass::Read, Parts::None)];
        let mut meter = Meter::looking(classes, 0, 100_000_000, outbox, Some(|| WAITED_NS.get()));
        let mut completed_ns = 0;
        for (lat_ns, waited_ns) in operations {
            completed_ns += lat_ns;
            WAITED_NS.set(WAITED_NS.get() + waited_ns);
            meter.record(0, 4096, &Timing { lat_ns, part_ns: 0, completed_ns });
        }
        meter.finish().remove(0)
    }

    /// 20,000 of 0.1 ms, of which each 500th is slow for another reason in turn; all wait for a microsecond.
    fn half_waited() -> Stream {
        let slow = |number: u64| if number.is_multiple_of(1000) { (3_000_000, 2_900_000) } else { (3_000_000, 1_000) };
        stream((1..=20_000).map(|number| if number % 500 == 0 { slow(number) } else { (100_000, 1_000) }))
    }

    #[test]
    fn each_slow_operation_is_charged_with_its_own_wait() {
        let waits = half_waited().waits.unwrap();
        let lat = waits.lat.unwrap();
        assert_eq!(lat.count(), 20_000);
        // Of 40 slow ones half were the processor's.
        assert_eq!((lat.count_above(2_000_000), lat.count_above(150_000)), (20, 20));
        // The slowest 0.1 % are of one latency with those; about half of it was waiting.
        let share = waits.tail_waited_ns as f64 / waits.tail_lat_ns as f64;
        assert!((share - 0.48).abs() < 0.03, "{share}");
    }

    #[test]
    fn what_fast_ones_waited_is_not_charged_to_a_slow_one() {
        let waits =
            stream((1..=20_000).map(|number| if number % 500 == 0 { (3_000_000, 0) } else { (100_000, 2_000) }));
        let waits = waits.waits.unwrap();
        // A millisecond of the others at most: some ten times two microseconds.
        assert!(waits.tail_waited_ns as f64 <= 0.02 * waits.tail_lat_ns as f64, "{waits:?}");
        assert!(waits.lat.is_none(), "none of them waited for long");
    }

    #[test]
    fn it_is_read_a_thousand_times_a_second_and_for_a_few_slow_ones() {
        thread_local! {
            static READS: Cell<u32> = const { Cell::new(0) };
        }
        let count = || {
            READS.set(READS.get() + 1);
            0
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

//! Where slow operations spent their time: how long a worker's thread worked, and how long it waited for a processor,
//! while an operation was in flight. The rest of the time it slept until the disk had answered.
//!
//! The kernel counts this for each thread (its clock and `schedstat`). A reading costs a microsecond, so it is taken
//! between operations: once a millisecond, and after each slow operation, one among the slowest percent of the previous
//! interval or, at first, of the beginning of the first one. Each reading covers everything since the previous one.
//! Time before the operation is assumed to have been spent as when nothing was slow, and waits of the thread between
//! two operations are not charged to either. Readings are taken between the completion of one operation and the issue
//! of the next.
//!
//! The examined operations are a sample: one per millisecond, and the slow ones. All others are assumed to have waited
//! like examined ones of the same latency.

use std::collections::VecDeque;

use qd1_model::Hist;
use qd1_model::environment::ThreadTime;
use qd1_model::hist::{COARSE_BINS, Recorder, coarse_index, coarse_low_ns};
use qd1_model::record::{ProcessorWaits, TimeSpent};

use crate::meter::Timing;

/// From one reading to the next, ns.
pub(crate) const READ_EVERY_NS: u64 = 1_000_000;
/// How many readings for slow operations each of these periods adds to the allowance: together they take less than half
/// a percent of the time.
const READS_EACH: u64 = 3;
/// Maximum number of readings that may be taken in succession.
const READS_MAX: u64 = 256;
/// Number of readings kept: a request in an open loop may have been due long before the latest one.
const READINGS_MAX: usize = 512;
/// The slowest of this many operations counts as slow.
const SLOW_OF: u32 = 100;
/// Minimum share of its latency that an operation must have waited to be noted.
const SHARE_MIN: u64 = 20;
/// Maximum number of operations noted, and the initial capacity: a second's worth on a busy machine.
const NOTED_MAX: usize = 1 << 16;
const NOTED: usize = 1 << 12;

/// Reads how the calling thread has spent its time so far.
pub type ReadTime = fn() -> ThreadTime;

/// How long a thread worked and waited in some period, ns.
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

    /// Without the time that the thread waited or worked while it had nothing in flight.
    fn without_idle(self, idle_ns: f64) -> Self {
        let waited_ns = self.waited_ns.clamp(0.0, idle_ns);
        let worked_ns = self.worked_ns.clamp(0.0, idle_ns - waited_ns);
        Self { waited_ns: self.waited_ns - waited_ns, worked_ns: self.worked_ns - worked_ns, ..self }
    }

    /// Scaled to a period of `span_ns`.
    fn in_span(self, span_ns: f64) -> Self {
        let part = if self.span_ns > 0.0 { span_ns / self.span_ns } else { 0.0 };
        Self { span_ns, worked_ns: self.worked_ns * part, waited_ns: self.waited_ns * part }
    }
}

/// How long the thread had worked and waited up to a moment, ns.
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

    /// Its value at a later time if `spent` continued until then; at most the next reading's.
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
    /// Whether operations come on a fixed schedule, so that several may be in flight.
    is_open: bool,
    /// The latest readings, in the order of time.
    readings: VecDeque<Reading>,
    /// Time spent between readings when nothing was slow.
    quiet: Spent,
    /// Whether something was slow before the latest reading, and since then.
    was_slow: bool,
    is_slow: bool,
    reads_left: u64,
}

impl Waits {
    pub(crate) fn new(read: ReadTime, is_open: bool) -> Self {
        Self {
            read,
            is_open,
            readings: VecDeque::with_capacity(READINGS_MAX + 1),
            quiet: Spent::default(),
            was_slow: false,
            is_slow: false,
            reads_left: READS_MAX / 8,
        }
    }

    /// Takes a regular reading, after the operation that completed then.
    pub(crate) fn look(&mut self, completed_ns: u64) {
        let passed_ns = self.readings.back().map_or(0, |last| completed_ns.saturating_sub(last.at_ns));
        self.reads_left = READS_MAX.min(self.reads_left + READS_EACH * (passed_ns / READ_EVERY_NS).max(1));
        self.read(completed_ns);
    }

    /// Whether a reading was taken after the operation that completed then.
    pub(crate) fn has_read(&self, completed_ns: u64) -> bool {
        self.readings.back().is_some_and(|last| last.at_ns == completed_ns)
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

    /// Keeps only the latest readings.
    fn forget(&mut self) {
        while self.readings.len() > READINGS_MAX {
            self.readings.pop_front();
        }
    }

    /// Returns how the thread spent the time of the operation that has just completed, `idle_ns` after the previous
    /// one; `None` if that is not known or would exceed the allowed readings.
    fn spent(&mut self, timing: &Timing, is_slow: bool, idle_ns: u64) -> Option<Spent> {
        let Timing { lat_ns, part_ns, completed_ns } = *timing;
        if !self.has_read(completed_ns) {
            let Some(left) = self.reads_left.checked_sub(1) else {
                self.is_slow |= is_slow;
                return None;
            };
            self.reads_left = left;
            self.read(completed_ns);
        }
        let others_were_slow = self.was_slow;
        self.was_slow |= is_slow;
        let last = *self.readings.back()?;
        let begun_ns = completed_ns.saturating_sub(lat_ns);
        let Some(begun) = self.at(begun_ns, others_were_slow) else {
            // It began before the first reading; most of it must be known.
            let spent = last.since(self.readings.front()?);
            return (2.0 * spent.span_ns >= lat_ns as f64).then_some(spent);
        };
        if !self.is_open {
            return Some(last.since(&begun).without_idle(idle_ns as f64));
        }
        // While a request is at the disk, the thread may wait and work for others. Charged to this one is the time
        // until it was issued, and the time since the thread was last done with another.
        let issued = self.at(completed_ns.saturating_sub(part_ns).max(begun_ns), others_were_slow)?;
        let other = self.readings.len().checked_sub(2).map_or(issued, |other| self.readings[other]);
        let woken = if other.at_ns > issued.at_ns { other } else { issued };
        let spent = issued.since(&begun).plus(last.since(&woken));
        if is_slow && begun.at_ns > other.at_ns {
            // Others may have been due while this one was in flight.
            self.readings.insert(self.readings.len() - 1, begun);
            self.forget();
        }
        Some(spent)
    }

    /// What the thread had spent up to a moment between the first reading and the last.
    fn at(&self, at_ns: u64, others_were_slow: bool) -> Option<Reading> {
        let before = self.readings.partition_point(|reading| reading.at_ns <= at_ns).checked_sub(1)?;
        let earlier = self.readings[before];
        let Some(next) = self.readings.get(before + 1) else { return Some(earlier) };
        // Before it came fast ones, or other slow ones: in an open loop, one that it had to wait for.
        let is_after_fast = before + 2 == self.readings.len() && !others_were_slow && self.quiet.span_ns > 0.0;
        let like = if is_after_fast { self.quiet } else { next.since(&earlier) };
        Some(earlier.later(at_ns, like, next))
    }
}

/// How much shorter the examined operations would be without their waits.
struct Sample {
    /// How many were examined, by coarse bin.
    seen: Box<[u64; COARSE_BINS]>,
    /// Those that waited: how long they took, and how long they waited, ns.
    waited: Vec<(u64, u64)>,
}

impl Sample {
    fn new() -> Self {
        Self { seen: Box::new([0; COARSE_BINS]), waited: Vec::with_capacity(NOTED) }
    }

    fn note(&mut self, time_ns: u64, waited_ns: u64) {
        if self.waited.len() == NOTED_MAX {
            return;
        }
        self.seen[coarse_index(time_ns)] += 1;
        if waited_ns > time_ns / SHARE_MIN {
            self.waited.push((time_ns, waited_ns));
        }
    }

    /// All recorded operations without their waits; `None` if none waited. In each bin the same share is taken to have
    /// waited as among the examined ones, each like one of them (hot-deck imputation).
    fn shortened(mut self, recorder: &Recorder) -> Option<Hist> {
        self.waited.sort_unstable();
        let mut shorter = Recorder::default();
        let (mut bin, mut owed, mut turn) = (COARSE_BINS, 0, 0);
        let mut donors: &[(u64, u64)] = &[];
        for (time_ns, count) in recorder.bins() {
            if coarse_index(time_ns) != bin {
                (bin, owed, turn) = (coarse_index(time_ns), 0, 0);
                let first = self.waited.partition_point(|(noted_ns, _)| coarse_index(*noted_ns) < bin);
                let last = self.waited.partition_point(|(noted_ns, _)| coarse_index(*noted_ns) <= bin);
                donors = &self.waited[first..last];
            }
            // A fraction of an operation is carried over to the next one in the same bin.
            owed += count * donors.len() as u64;
            let waited = owed / self.seen[bin].max(1);
            owed -= waited * self.seen[bin];
            shorter.record_n(time_ns, count - waited);
            let of = donors.len() as u64;
            for number in 0..waited.min(of) {
                let (noted_ns, waited_ns) = donors[((turn + number) % of) as usize];
                let share = waited_ns as f64 / noted_ns as f64;
                let times = waited / of + u64::from(number < waited % of);
                shorter.record_n((time_ns as f64 * (1.0 - share)) as u64, times);
            }
            turn += waited;
        }
        (!self.waited.is_empty()).then(|| shorter.finish(None).to_two_digits())
    }
}

/// How the examined operations of one kind spent their time, in a coarse bin of latencies.
#[derive(Clone, Copy, Default)]
struct Bin {
    ios: u64,
    lat_ns: u64,
    worked_ns: f64,
    waited_ns: f64,
}

/// The operations of one kind.
pub(crate) struct Waited {
    whole: Sample,
    /// For commits, their syncs.
    syncs: Option<Sample>,
    bins: Box<[Bin; COARSE_BINS]>,
    /// All operations counted in whole intervals, by coarse bin.
    counted: Box<[u32; COARSE_BINS]>,
    /// A latency above this is slow, ns.
    pub(crate) slow_ns: u64,
}

impl Waited {
    pub(crate) fn new(has_syncs: bool) -> Self {
        let syncs = has_syncs.then(Sample::new);
        let (bins, counted) = (Box::new([Bin::default(); COARSE_BINS]), Box::new([0; COARSE_BINS]));
        Self { whole: Sample::new(), syncs, bins, counted, slow_ns: 0 }
    }

    /// Notes the operation that has just completed, `idle_ns` after the one before it.
    pub(crate) fn note(&mut self, waits: &mut Waits, timing: &Timing, idle_ns: u64) {
        let Timing { lat_ns, part_ns, .. } = *timing;
        let Some(spent) = waits.spent(timing, lat_ns > self.slow_ns, idle_ns) else { return };
        let waited_ns = spent.waited_ns.clamp(0.0, lat_ns as f64);
        let bin = &mut self.bins[coarse_index(lat_ns)];
        (bin.ios, bin.lat_ns) = (bin.ios + 1, bin.lat_ns + lat_ns);
        bin.worked_ns += spent.worked_ns.min(lat_ns as f64);
        bin.waited_ns += waited_ns;
        self.whole.note(lat_ns, waited_ns as u64);
        if let Some(syncs) = &mut self.syncs {
            // The part of the wait that does not fit into the write.
            let in_write_ns = lat_ns.saturating_sub(part_ns);
            syncs.note(part_ns, (waited_ns as u64).saturating_sub(in_write_ns).min(part_ns));
        }
    }

    /// Determines from the latencies of an interval, complete or not, what counts as slow from now on: what is slow by
    /// that interval or by all complete ones. A period in which everything is slow does not redefine what is usual.
    pub(crate) fn learn(&mut self, bins: &[(u16, u32)], is_whole: bool) {
        self.slow_ns = slow_ns(bins.iter().rev().copied());
        if is_whole {
            bins.iter().for_each(|(bin, count)| self.counted[usize::from(*bin)] += count);
            let all = self.counted.iter().enumerate().rev().filter(|(_, count)| **count > 0);
            self.slow_ns = self.slow_ns.min(slow_ns(all.map(|(bin, count)| (bin as u16, *count))));
        }
    }

    /// How all of them spent their time; `whole` and `syncs` have counted them all.
    pub(crate) fn finish(self, whole: &Recorder, syncs: &Recorder) -> ProcessorWaits {
        let seen = self.bins.iter().enumerate().filter(|(_, bin)| bin.ios > 0);
        let looked_at = seen.map(|(index, bin)| {
            let waited_ns = (bin.waited_ns as u64).min(bin.lat_ns);
            let worked_ns = (bin.worked_ns.max(0.0) as u64).min(bin.lat_ns - waited_ns);
            TimeSpent { from_ns: coarse_low_ns(index), ios: bin.ios, lat_ns: bin.lat_ns, worked_ns, waited_ns }
        });
        ProcessorWaits {
            looked_at: looked_at.collect(),
            lat: self.whole.shortened(whole),
            sync: self.syncs.and_then(|of_syncs| of_syncs.shortened(syncs)),
        }
    }
}

/// The latency above which the slowest percent or two lie, going through the bins from the highest to the lowest: only
/// whole bins, and never the one with the most operations. If there are few operations, all are slow.
fn slow_ns(bins: impl Iterator<Item = (u16, u32)> + Clone) -> u64 {
    let most = bins.clone().map(|(_, count)| count).sum::<u32>() / SLOW_OF;
    let mut above = 0;
    let mut reaching = bins.filter(|(_, count)| {
        above += count;
        above > most
    });
    let Some((bin, _)) = reaching.next().filter(|_| most > 0) else { return 0 };
    drop(reaching);
    let first = if above <= 2 * most { bin } else { bin + 1 };
    coarse_low_ns(usize::from(first)) - 1
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

    /// An operation. It takes `lat_ns`, of which `served_ns` since it was issued, and completes so long after the one
    /// before; meanwhile the thread works and waits for so long.
    #[derive(Clone, Copy)]
    struct Operation {
        since_last_ns: u64,
        lat_ns: u64,
        served_ns: u64,
        worked_ns: u64,
        waited_ns: u64,
    }

    /// One that is issued when the one before it has completed.
    const fn operation(lat_ns: u64, worked_ns: u64, waited_ns: u64) -> Operation {
        Operation { since_last_ns: lat_ns, lat_ns, served_ns: 0, worked_ns, waited_ns }
    }

    fn measured(
        operations: impl IntoIterator<Item = Operation>,
        parts: Parts,
        is_open: bool,
    ) -> (Stream, ProcessorWaits) {
        TIME.set(ThreadTime::default());
        let outbox = Arc::new(Mutex::new(Vec::new()));
        let classes = [(OpClass::Read, parts)];
        let mut meter = Meter::looking(classes, 0, 100_000_000, outbox, Some(|| TIME.get()), is_open);
        let mut completed_ns = 0;
        for Operation { since_last_ns, lat_ns, served_ns, worked_ns, waited_ns } in operations {
            completed_ns += since_last_ns;
            let before = TIME.get();
            TIME.set(ThreadTime { worked_ns: before.worked_ns + worked_ns, waited_ns: before.waited_ns + waited_ns });
            meter.record(0, 4096, &Timing { lat_ns, part_ns: served_ns, completed_ns });
        }
        let stream = meter.finish().remove(0);
        let waits = stream.waits.clone().unwrap();
        (stream, waits)
    }

    fn waits_of(operations: impl IntoIterator<Item = Operation>) -> (Stream, ProcessorWaits) {
        measured(operations, Parts::None, false)
    }

    /// How many of the operations slower than that were looked at, and their shares of work and of waits.
    fn above(waits: &ProcessorWaits, least_ns: u64) -> (u64, f64, f64) {
        let of = || waits.looked_at.iter().filter(move |bin| bin.from_ns >= least_ns);
        let lat_ns = of().map(|bin| bin.lat_ns).sum::<u64>() as f64;
        let share = |part: fn(&super::TimeSpent) -> u64| of().map(part).sum::<u64>() as f64 / lat_ns;
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

    /// What the thread waited with nothing on its way was taken off the next slow operation.
    #[test]
    fn what_was_waited_between_two_operations_is_none_of_theirs() {
        let slow = Operation { since_last_ns: 7_000_000, waited_ns: 4_000_000, ..operation(3_000_000, 0, 0) };
        let (_, waits) = waits_of(with_slow(|_| slow));
        let (ios, _, waited) = above(&waits, 2_000_000);
        assert!(ios == 40 && waited < 0.001, "{ios}: {waited}");
        assert!(waits.lat.is_none());
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

    /// Those for which there was no reading counted as not having waited: of what was slow only by the whole, nearly
    /// all.
    #[test]
    fn what_was_not_looked_at_waited_like_what_was() {
        let usual = || std::iter::repeat_n(operation(100_000, 50_000, 0), 50_000);
        let waiting = (0..10_000).map(|number| operation(480_000 + number % 1000 * 100, 50_000, 400_000));
        let (stream, waits) = waits_of(usual().chain(waiting).chain(usual()));
        let (ios, _, waited) = above(&waits, 400_000);
        assert!(ios > 4_000 && waited > 0.7, "{ios}: {waited}");
        assert_eq!(stream.lat.count_above(400_000), 10_000);
        let left = waits.lat.unwrap().count_above(250_000);
        assert!(left < 50, "{left} of 10,000 are left");
    }

    /// In an open loop the first of those that were held up together had the whole wait, and the others were the
    /// disk's.
    #[test]
    fn each_request_that_a_wait_held_up_is_charged_with_its_part() {
        // Due every millisecond, each takes 50 us; every 400 ms the thread waits for 10 ms, and those due meanwhile are
        // late.
        let usual = Operation { since_last_ns: 1_000_000, served_ns: 50_000, ..operation(50_000, 10_000, 0) };
        let held = Operation { since_last_ns: 11_000_000, lat_ns: 10_050_000, waited_ns: 10_000_000, ..usual };
        let late = |number: u64| Operation { since_last_ns: 50_000, lat_ns: 10_050_000 - number * 950_000, ..usual };
        let round = || std::iter::once(held).chain((1..11).map(late)).chain(std::iter::repeat_n(usual, 389));
        let (stream, waits) = measured((0..10).flat_map(|_| round()), Parts::Served, true);
        assert_eq!(stream.lat.count_above(400_000), 110);
        let (ios, _, waited) = above(&waits, 400_000);
        assert!(ios >= 100 && waited > 0.9, "{ios}: {waited}");
        // Up to a millisecond of sleep before the wait is told apart only by the share of it.
        let left = waits.lat.unwrap().count_above(1_500_000);
        assert!(left <= 5, "{left} of 100 late ones are still late");
    }

    /// What the thread waited to wake for other requests was taken off one that the disk had for all of that time.
    #[test]
    fn a_request_at_the_disk_is_not_excused_by_waits_for_others() {
        // Each millisecond one completes that took 50 us, and the thread had waited for 0.4 ms before it was due; one
        // in a hundred has been at the disk for 50 ms by then.
        let usual = Operation { since_last_ns: 1_000_000, served_ns: 50_000, ..operation(50_000, 5_000, 400_000) };
        let at_disk =
            Operation { since_last_ns: 1_000_000, served_ns: 50_000_000, ..operation(50_000_000, 5_000, 400_000) };
        let all = (0..4_000).map(|number| if number % 100 == 50 { at_disk } else { usual });
        let (_, waits) = measured(all, Parts::Served, true);
        let (ios, _, waited) = above(&waits, 40_000_000);
        assert!(ios == 40 && waited < 0.01, "{ios}: {waited}");
        assert_eq!(waits.lat.unwrap().count_above(49_000_000), 40);
    }

    /// The sync of a commit became faster with the write that had waited.
    #[test]
    fn a_sync_is_without_what_was_waited_in_it() {
        // Every 500th waits for 3 ms in its write, or in its sync.
        let usual = Operation { served_ns: 80_000, ..operation(100_000, 20_000, 0) };
        let slow = |served_ns| Operation { served_ns, ..operation(3_100_000, 20_000, 3_000_000) };
        let all = |slow: Operation| (1..=20_000).map(move |number| if number % 500 == 0 { slow } else { usual });
        let syncs = |served_ns| {
            let (stream, waits) = measured(all(slow(served_ns)), Parts::Sync, false);
            let seen = stream.sync_part.unwrap().count_above(1_000_000);
            assert_eq!(waits.lat.unwrap().count_above(1_000_000), 0);
            (seen, waits.sync.map(|sync| sync.count_above(1_000_000)))
        };
        assert_eq!(syncs(80_000), (0, None), "in the write");
        assert_eq!(syncs(3_080_000), (40, Some(0)), "in the sync");
        // Of commits whose sync is slow for another reason, the write had it.
        let both = |number: u64| {
            if number.is_multiple_of(2) { slow(80_000) } else { Operation { waited_ns: 0, ..slow(3_080_000) } }
        };
        let all = (1..=20_000).map(|number| if number % 500 == 0 { both(number / 500) } else { usual });
        let (_, waits) = measured(all, Parts::Sync, false);
        assert_eq!((waits.sync, waits.lat.unwrap().count_above(1_000_000)), (None, 20));
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
        let mut meter = Meter::looking([(OpClass::Read, Parts::None)], 0, 100_000_000, outbox, Some(count), false);
        // A second of 5 us, every other of them slower.
        for number in 1..=200_000u64 {
            meter.record(0, 4096, &Timing { lat_ns: 4_000 + number % 2, part_ns: 0, completed_ns: number * 5_000 });
        }
        assert!((1_000..5_000).contains(&READS.get()), "{}", READS.get());
    }
}

//! Merges the results of several workers: streams, and intervals of the same number.

use std::collections::BTreeMap;

use qd1_model::environment::ThreadCost;
use qd1_model::op::{Ended, RequestCounts};
use qd1_model::record::{Interval, IntervalStream, IoErrors, Stream};

use crate::meter::Outbox;
use crate::window::Window;
use crate::worker::Finished;

/// The result of a step.
#[derive(Debug)]
pub struct Outcome {
    /// Histograms per kind of operation, workers merged.
    pub streams: Vec<Stream>,
    /// Consecutive intervals.
    pub intervals: Vec<Interval>,
    /// Start of measurement on the clock, ns.
    pub started_ns: u64,
    /// Measured time, ns.
    pub runtime_ns: u64,
    /// Time of the final fsync, ns; inside `runtime_ns`. 0 where the step has none.
    pub end_fsync_ns: u64,
    /// Why it ended.
    pub ended: Ended,
    /// Failures.
    pub errors: Vec<IoErrors>,
    /// The requests made of the target, ramp included.
    pub requests: RequestCounts,
    /// Cost of the workers.
    pub cost: ThreadCost,
    /// What the kernel did not grant the engine.
    pub caveat: String,
}

/// The result of one worker.
pub(crate) struct WorkerResult {
    pub(crate) finished: Finished,
    pub(crate) cost: ThreadCost,
    pub(crate) caveat: String,
}

/// Merges the results of all workers of a step.
pub(crate) fn merge(results: Vec<WorkerResult>, merger: Merger, window: &Window, mut ended: Ended) -> Outcome {
    let last_ns = results.iter().map(|worker| worker.finished.last_ns).max().unwrap_or(window.measure_ns);
    let first_ns = results.iter().map(|worker| worker.finished.first_ns).min().unwrap_or(window.measure_ns);
    let whole_ns = last_ns.saturating_sub(window.measure_ns).max(1);
    // A request from the ramp that ended late is not measured, and neither is the wait for it.
    let lead_ns = first_ns.saturating_sub(window.measure_ns).min(whole_ns - 1);
    let runtime_ns = whole_ns - lead_ns;
    if results.iter().any(|worker| worker.finished.failed) {
        ended = Ended::Failed;
    } else if ended == Ended::Time && results.iter().all(|worker| worker.finished.exhausted) {
        ended = Ended::Done;
    }
    let mut outcome = Outcome {
        streams: Vec::new(),
        intervals: without_lead(merger.finish(window.interval_ns, whole_ns), lead_ns),
        started_ns: window.measure_ns + lead_ns,
        runtime_ns,
        end_fsync_ns: 0,
        ended,
        errors: Vec::new(),
        requests: RequestCounts::default(),
        cost: ThreadCost::default(),
        caveat: String::new(),
    };
    for worker in results {
        worker.finished.streams.into_iter().for_each(|stream| stream.add_to(&mut outcome.streams));
        worker.finished.errors.into_iter().for_each(|error| error.add_to(&mut outcome.errors));
        outcome.requests = outcome.requests.plus(&worker.finished.requests);
        outcome.cost = outcome.cost.plus(&worker.cost);
        outcome.caveat = worker.caveat;
    }
    outcome.streams.sort_by_key(|stream| stream.class);
    let slowest = outcome.streams.iter_mut().flat_map(|stream| &mut stream.slowest);
    slowest.for_each(|slow| slow.at_ns = slow.at_ns.saturating_sub(lead_ns));
    debug_assert!(adds_up(&outcome), "the intervals hold each operation that the histograms hold");
    outcome
}

/// The intervals from `lead_ns` on, before which nothing was measured, counted from there.
fn without_lead(mut intervals: Vec<Interval>, lead_ns: u64) -> Vec<Interval> {
    intervals.retain(|interval| interval.start_ns + interval.length_ns > lead_ns || !interval.streams.is_empty());
    for interval in &mut intervals {
        let cut_ns = lead_ns.saturating_sub(interval.start_ns).min(interval.length_ns);
        interval.length_ns -= cut_ns;
        interval.start_ns = (interval.start_ns + cut_ns).saturating_sub(lead_ns);
    }
    intervals
}

/// Whether the intervals and the histograms count the same operations.
fn adds_up(outcome: &Outcome) -> bool {
    let in_intervals = |class| {
        let streams = outcome.intervals.iter().flat_map(|interval| &interval.streams);
        streams.filter(|stream| stream.class == class).map(|stream| stream.ios).sum::<u64>()
    };
    outcome.streams.iter().all(|stream| in_intervals(stream.class) == stream.lat.count())
}

/// Merges the workers' intervals with the same number.
#[derive(Default)]
pub struct Merger {
    by_number: BTreeMap<u64, Interval>,
    /// The merged intervals in order, for the watcher; rebuilt from `shown_from` on.
    shown: Vec<Interval>,
    /// How often neighbours were joined: 2 to this power of the workers' intervals form one here.
    joined: u32,
}

impl Merger {
    /// Adds what the workers have handed over since the last time.
    pub fn take(&mut self, outboxes: &[Outbox]) {
        for outbox in outboxes {
            let fresh = std::mem::take(&mut *outbox.lock().expect("no holder of this lock panics"));
            self.add(fresh);
        }
    }

    /// Adds intervals with their numbers.
    pub fn add(&mut self, fresh: impl IntoIterator<Item = (u64, Interval)>) {
        let mut first_changed = u64::MAX;
        for (number, mut interval) in fresh {
            let number = number >> self.joined;
            first_changed = first_changed.min(number);
            match self.by_number.get_mut(&number) {
                Some(known) => interval.streams.into_iter().for_each(|stream| merge_interval(known, stream)),
                None => {
                    interval.length_ns <<= self.joined;
                    interval.start_ns = number * interval.length_ns;
                    self.by_number.insert(number, interval);
                }
            }
        }
        if first_changed < u64::MAX {
            let keep = self.by_number.range(..first_changed).count();
            self.shown.truncate(keep);
            self.shown.extend(self.by_number.range(first_changed..).map(|(_, interval)| interval.clone()));
        }
    }

    /// Joins neighbours until there are at most `most` intervals, or they are as long as `longest_ns` allows.
    ///
    /// For steps whose duration is unknown beforehand: creating a thousand files takes ten milliseconds or a minute.
    /// The workers' intervals are `interval_ns` long; what is left of them is returned, ns.
    pub fn join(&mut self, interval_ns: u64, most: usize, longest_ns: u64) -> u64 {
        while self.by_number.len() > most && interval_ns << (self.joined + 1) <= longest_ns {
            let halves = std::mem::take(self);
            let pairs = halves.by_number.into_values().map(|half| (half.start_ns / half.length_ns.max(1), half));
            self.joined = 1;
            self.add(pairs.collect::<Vec<_>>());
            self.joined = halves.joined + 1;
        }
        interval_ns << self.joined
    }

    /// All intervals so far.
    pub fn so_far(&self) -> &[Interval] {
        &self.shown
    }

    /// All intervals without gaps, the last one cut at the end of the run.
    pub fn finish(self, interval_ns: u64, runtime_ns: u64) -> Vec<Interval> {
        let last = runtime_ns.div_ceil(interval_ns).max(1) - 1;
        let mut by_number = self.by_number;
        // What completed at the very end may carry the number after the last: it belongs to the last.
        let after: Vec<Interval> = by_number.split_off(&(last + 1)).into_values().collect();
        let mut all: Vec<Interval> = (0..=last)
            .map(|number| {
                let start_ns = number * interval_ns;
                let length_ns = interval_ns.min(runtime_ns - start_ns.min(runtime_ns));
                let streams = by_number.remove(&number).map(|interval| interval.streams).unwrap_or_default();
                Interval { start_ns, length_ns, streams }
            })
            .collect();
        if let Some(end) = all.last_mut() {
            after.into_iter().flat_map(|interval| interval.streams).for_each(|stream| merge_interval(end, stream));
        }
        all
    }
}

fn merge_interval(interval: &mut Interval, other: IntervalStream) {
    let Some(mine) = interval.streams.iter_mut().find(|stream| stream.class == other.class) else {
        interval.streams.push(other);
        interval.streams.sort_by_key(|stream| stream.class);
        return;
    };
    mine.ios += other.ios;
    mine.bytes += other.bytes;
    mine.lat_sum_ns += other.lat_sum_ns;
    mine.lat_max_ns = mine.lat_max_ns.max(other.lat_max_ns);
    let mut bins: BTreeMap<u16, u32> = mine.bins.iter().copied().collect();
    for (bin, count) in other.bins {
        *bins.entry(bin).or_default() += count;
    }
    mine.bins = bins.into_iter().collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::op::OpClass;

    #[test]
    fn what_lies_before_the_first_request_is_cut_off() {
        let mut merger = Merger::default();
        merger.add([interval(2, 5), interval(3, 7)]);
        let cut = without_lead(merger.finish(10, 40), 23);
        let lengths: Vec<_> = cut.iter().map(|one| (one.start_ns, one.length_ns, one.streams[0].ios)).collect();
        assert_eq!(lengths, [(0, 7, 5), (7, 10, 7)]);
    }

    fn interval(number: u64, ios: u64) -> (u64, Interval) {
        let stream =
            IntervalStream { class: OpClass::Stat, ios, bytes: 0, lat_sum_ns: ios, lat_max_ns: number, bins: vec![] };
        (number, Interval { start_ns: number * 10, length_ns: 10, streams: vec![stream] })
    }

    #[test]
    fn joined_intervals_hold_their_parts_and_later_ones_fit_in() {
        let mut merger = Merger::default();
        merger.add((0..20).map(|number| interval(number, 1)));
        assert_eq!(merger.join(10, 6, 1000), 40);
        merger.add([interval(20, 1), interval(21, 1), interval(27, 1)]);
        let lengths: Vec<_> = merger.so_far().iter().map(|i| (i.start_ns, i.length_ns, i.streams[0].ios)).collect();
        let whole: Vec<_> = (0..5).map(|at| (at * 40, 40, 4)).chain([(200, 40, 2), (240, 40, 1)]).collect();
        assert_eq!(lengths, whole);
        let all = merger.finish(40, 280);
        assert_eq!((all.len(), all.iter().map(|i| i.streams[0].ios).sum::<u64>()), (7, 23));
        assert_eq!(all[0].streams[0].lat_max_ns, 3);
    }

    #[test]
    fn intervals_are_never_joined_beyond_the_longest() {
        let mut merger = Merger::default();
        merger.add((0..1000).map(|number| interval(number, 1)));
        assert_eq!((merger.join(10, 4, 80), merger.so_far().len()), (80, 125));
    }
}

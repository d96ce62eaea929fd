//! What a disk did over a watch: its counters, latencies and intervals.

use std::collections::HashMap;

use qd1_model::hist::{Recorder, coarse_index};
use qd1_model::op::{Ended, OpClass};
use qd1_model::record::watched::{DiskLimits, WatchedDisk, WatchedOp};
use qd1_model::record::{Interval, IntervalStream, StepRecord, Stream};
use qd1_model::requests::Op;
use qd1_model::{Bytes, Hist};
use qd1_trace::{Latencies, Stage};

use crate::commands::watch::reading::DiskReading;

/// Most intervals of a disk; beyond it, each two become one.
const INTERVALS_MAX: usize = 4096;
/// Busy all the time, percent.
const FULL: f64 = 95.0;

/// What a disk did.
#[derive(Default)]
pub(super) struct DiskSum {
    /// By operation: requests, bytes, ms.
    pub(super) counted: [[f64; 3]; OPS.len()],
    pub(super) latencies: HashMap<usize, Latencies>,
    queue: f64,
    pub(super) busy: f64,
    full: f64,
    limits: Option<DiskLimits>,
    intervals: Vec<Interval>,
    /// Readings that make up one interval.
    merged: u32,
    /// Readings in the last interval.
    in_last: u32,
}

/// Operations with their kind in a run.
const OPS: [(Op, OpClass); 5] = [
    (Op::Read, OpClass::Read),
    (Op::Write, OpClass::Write),
    (Op::Discard, OpClass::Trim),
    (Op::Flush, OpClass::Flush),
    (Op::Other, OpClass::Mixed),
];

impl DiskSum {
    /// Adds a reading, which began `begin_s` after the first one.
    pub(super) fn push(&mut self, disk: &DiskReading, begin_s: f64, seconds: f64) {
        let rates = &disk.rates;
        let counted = [&rates.reads, &rates.writes, &rates.discards, &rates.flushes];
        for (sum, of) in self.counted.iter_mut().zip(counted) {
            let count = of.per_second * seconds;
            sum.iter_mut()
                .zip([count, of.kib * 1024.0 * seconds, count * of.await_ms])
                .for_each(|(sum, more)| *sum += more);
        }
        self.queue += rates.in_flight * seconds;
        self.busy += rates.busy / 100.0 * seconds;
        self.full += if rates.busy >= FULL { seconds } else { 0.0 };
        if let Some(more) = disk.limits {
            self.limits = Some(self.limits.map_or(more, |limits| limits.and(more)));
        }
        let mut streams = Vec::new();
        for (op, latencies) in disk.latencies.iter().flatten().filter(|(_, of)| of.count(Stage::Total) > 0) {
            let at = OPS.iter().position(|(known, _)| known == op).unwrap_or(OPS.len() - 1);
            add(self.latencies.entry(at).or_default(), latencies);
            streams.push(interval_stream(OPS[at].1, latencies));
        }
        self.push_interval(Interval { start_ns: (begin_s * 1e9) as u64, length_ns: (seconds * 1e9) as u64, streams });
    }

    fn push_interval(&mut self, interval: Interval) {
        match self.intervals.last_mut().filter(|_| self.in_last < self.merged.max(1) && self.in_last > 0) {
            Some(last) => merge(last, interval),
            None => {
                self.intervals.push(interval);
                self.in_last = 0;
            }
        }
        self.in_last += 1;
        if self.intervals.len() > INTERVALS_MAX {
            let mut halved: Vec<Interval> = Vec::with_capacity(INTERVALS_MAX / 2 + 1);
            for (at, interval) in std::mem::take(&mut self.intervals).into_iter().enumerate() {
                match halved.last_mut().filter(|_| at % 2 == 1) {
                    Some(last) => merge(last, interval),
                    None => halved.push(interval),
                }
            }
            self.merged = 2 * self.merged.max(1);
            self.intervals = halved;
        }
    }

    /// Returns the counters of the disk over `seconds`.
    pub(super) fn counters(&self, name: &str, seconds: f64) -> WatchedDisk {
        let op = |(at, [count, bytes, ms]): (usize, &[f64; 3])| WatchedOp {
            class: OPS[at].1,
            ios: count.round(),
            bytes: super::bytes(*bytes),
            await_ns: 1e6 * ms / count.max(1e-9),
        };
        WatchedDisk {
            name: name.to_owned(),
            ops: self.counted.iter().enumerate().filter(|(_, [count, ..])| count.round() > 0.0).map(op).collect(),
            in_flight: self.queue / seconds,
            busy: self.busy / seconds,
            full: self.full / seconds,
            limits: self.limits,
        }
    }

    /// Returns the step of the disk, with its latencies.
    pub(super) fn step(mut self, name: String, watched_ns: u64) -> StepRecord {
        let stream = |at: usize| {
            let sum = self.latencies.remove(&at)?;
            Some(Stream {
                class: OPS[at].1,
                bytes: Bytes(sum.bytes),
                lat: hist(&sum, Stage::Total),
                slat: None,
                clat: Some(hist(&sum, Stage::Device)).filter(|device| device.count() > 0),
                write_part: None,
                sync_part: None,
                slowest: Vec::new(),
                waits: None,
                in_device: None,
            })
        };
        let streams = (0..OPS.len()).filter_map(stream).collect();
        StepRecord {
            name,
            runtime_ns: watched_ns,
            ended: Ended::Done,
            streams,
            intervals: self.intervals,
            ..StepRecord::default()
        }
    }
}

/// The middle of a bucket.
fn middle(from_ns: u64, below_ns: u64) -> u64 {
    from_ns.midpoint(below_ns)
}

fn add(sum: &mut Latencies, more: &Latencies) {
    sum.bytes = sum.bytes.saturating_add(more.bytes);
    for stage in [Stage::Total, Stage::Device] {
        more.buckets(stage).for_each(|(from_ns, _, count)| sum.add(stage, from_ns, count));
    }
}

fn hist(latencies: &Latencies, stage: Stage) -> Hist {
    let mut recorder = Recorder::default();
    for (from_ns, below_ns, count) in latencies.buckets(stage) {
        recorder.record_n(middle(from_ns, below_ns), count);
    }
    recorder.finish(None)
}

fn interval_stream(class: OpClass, latencies: &Latencies) -> IntervalStream {
    let mut stream = IntervalStream {
        class,
        ios: latencies.count(Stage::Total),
        bytes: latencies.bytes,
        lat_sum_ns: 0,
        lat_max_ns: latencies.quantile_ns(Stage::Total, 1.0).unwrap_or(0),
        bins: Vec::new(),
    };
    for (from_ns, below_ns, count) in latencies.buckets(Stage::Total) {
        let at_ns = middle(from_ns, below_ns);
        stream.lat_sum_ns = stream.lat_sum_ns.saturating_add(at_ns.saturating_mul(count));
        add_bin(&mut stream.bins, coarse_index(at_ns) as u16, count);
    }
    stream
}

fn add_bin(bins: &mut Vec<(u16, u32)>, index: u16, count: u64) {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    match bins.binary_search_by_key(&index, |(index, _)| *index) {
        Ok(at) => bins[at].1 = bins[at].1.saturating_add(count),
        Err(at) => bins.insert(at, (index, count)),
    }
}

/// Adds an interval that follows.
fn merge(interval: &mut Interval, next: Interval) {
    interval.length_ns = interval.length_ns.saturating_add(next.length_ns);
    for of in next.streams {
        let Some(mine) = interval.streams.iter_mut().find(|mine| mine.class == of.class) else {
            interval.streams.push(of);
            continue;
        };
        mine.ios = mine.ios.saturating_add(of.ios);
        mine.bytes = mine.bytes.saturating_add(of.bytes);
        mine.lat_sum_ns = mine.lat_sum_ns.saturating_add(of.lat_sum_ns);
        mine.lat_max_ns = mine.lat_max_ns.max(of.lat_max_ns);
        of.bins.into_iter().for_each(|(index, count)| add_bin(&mut mine.bins, index, count.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_above_limits_is_that_of_intervals_with_an_answer() {
        const S: u64 = 1_000_000_000;
        let limits = |observed_ns: u64, volume_iops_ns: u64| {
            let instance_throughput_ns = Some(S / 10);
            Some(DiskLimits { observed_ns, volume_iops_ns, instance_throughput_ns, ..DiskLimits::default() })
        };
        let mut sum = DiskSum::default();
        let readings = [None, limits(S, S), None, limits(2 * S, S / 2), None];
        for (begin_s, limits) in (0..).map(f64::from).zip(readings) {
            sum.push(&DiskReading { limits, ..DiskReading::default() }, begin_s, 1.0);
        }
        let limits = sum.counters("nvme1n1", 5.0).limits.unwrap();
        assert_eq!((limits.observed_ns, limits.volume_iops_ns), (3 * S, 3 * S / 2));
        assert_eq!((limits.instance_iops_ns, limits.instance_throughput_ns), (None, Some(S / 5)));
        let half = limits.shares().next().unwrap().1;
        assert!((half - 0.5).abs() < 1e-9, "of the three seconds that answers cover, not of five: {half}");
        let silent = DiskSum::default().counters("sda", 5.0).limits;
        assert_eq!(silent, None, "a disk without answers has no share");
    }
}

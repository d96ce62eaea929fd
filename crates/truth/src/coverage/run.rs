//! A simulated run: workers that wait for one request each, on a disk that is one of the processes.

use qd1_model::hist::CoarseHist;
use qd1_model::op::OpClass;
use qd1_model::record::{Interval, IntervalStream};
use qd1_model::{Estimate, Hist};
use qd1_stats::{self as stats, Quantiles};

use super::Case;
use super::process::Source;

/// How often an adaptive run is evaluated, ns.
const LOOK_NS: u64 = 500_000_000;
/// Kind of operation simulated.
const CLASS: OpClass = OpClass::Read;
/// Spread of the write part of a commit about that given by its sync part, in the logarithm.
const WRITE_SIGMA: f64 = 0.3;

/// Length of an interval of the simulated runs, ns, as in real ones: a hundredth of the longest duration, within 10
/// and 100 ms (engine/run.rs).
fn interval_ns(duration_ns: u64) -> u64 {
    (duration_ns / 100).clamp(10_000_000, 100_000_000)
}

/// A request in flight.
#[derive(Clone, Copy)]
struct Request {
    /// When it completes, ns.
    end_ns: f64,
    /// Its latency, ns.
    lat_ns: f64,
    /// The part of it that is studied: all, or the sync part of a commit.
    part_ns: f64,
}

/// A simulated run in progress.
struct Run {
    source: Source,
    mean_ns: f64,
    with_write: bool,
    interval_ns: u64,
    /// One request per worker.
    pending: Vec<Request>,
    /// The part that is studied.
    hist: Hist,
    intervals: Vec<Interval>,
}

impl Run {
    fn new(case: &Case, seed: u64) -> Self {
        let mut run = Self {
            source: Source::new(case.process, case.mean_ns as f64, seed),
            mean_ns: case.mean_ns as f64,
            with_write: case.part,
            interval_ns: interval_ns(case.duration_ns),
            pending: Vec::new(),
            hist: Hist::new(),
            intervals: Vec::new(),
        };
        run.pending = (0..case.depth).map(|_| run.issue(0.0)).collect();
        run
    }

    /// Issues a request at `now_ns`. The write part of a commit is about the root of its sync part times the mean's.
    fn issue(&mut self, now_ns: f64) -> Request {
        let part_ns = self.source.draw();
        let write = |source: &mut Source| (part_ns * self.mean_ns).sqrt() * (WRITE_SIGMA * source.normal()).exp();
        let lat_ns = part_ns + if self.with_write { write(&mut self.source) } else { 0.0 };
        Request { end_ns: now_ns + lat_ns, lat_ns, part_ns }
    }

    /// The worker whose request completes next.
    fn next(&self) -> usize {
        let ends = self.pending.iter().enumerate();
        ends.min_by(|a, b| a.1.end_ns.total_cmp(&b.1.end_ns)).map_or(0, |(worker, _)| worker)
    }

    /// Continues until `until_ns`, a multiple of the interval.
    fn advance(&mut self, until_ns: u64) {
        let mut coarse = CoarseHist::default();
        for index in self.intervals.len() as u64..until_ns / self.interval_ns {
            let end = ((index + 1) * self.interval_ns) as f64;
            let mut stream =
                IntervalStream { class: CLASS, ios: 0, bytes: 0, lat_sum_ns: 0, lat_max_ns: 0, bins: Vec::new() };
            coarse.clear();
            loop {
                let worker = self.next();
                let done = self.pending[worker];
                if done.end_ns > end {
                    break;
                }
                let lat_ns = done.lat_ns as u64;
                self.hist.record(done.part_ns as u64);
                coarse.record(lat_ns);
                stream.ios += 1;
                stream.bytes += 4096;
                stream.lat_sum_ns += lat_ns;
                stream.lat_max_ns = stream.lat_max_ns.max(lat_ns);
                self.pending[worker] = self.issue(done.end_ns);
            }
            stream.bins = coarse.sparse();
            let streams = if stream.ios > 0 { vec![stream] } else { Vec::new() };
            self.intervals.push(Interval { start_ns: index * self.interval_ns, length_ns: self.interval_ns, streams });
        }
    }
}

/// The result of a run.
pub(super) struct Outcome {
    /// Its estimates, in the order of [`super::truths`].
    pub(super) estimates: Vec<Estimate>,
    /// How long it took, ns.
    pub(super) duration_ns: u64,
    /// Whether it met a slow phase long enough to be distinguished from chance, or the process has none.
    pub(super) met_episode: bool,
}

/// One run of `case`.
pub(super) fn run_once(case: &Case, seed: u64) -> Outcome {
    let mut run = Run::new(case, seed);
    let mut duration = case.duration_ns;
    if let Some((q, tolerance, min_ns)) = case.stop {
        duration = min_ns;
        loop {
            run.advance(duration);
            let look = stats::quantile_coarse(&run.intervals, CLASS, q);
            if stats::precise_enough(&look, tolerance) || duration >= case.duration_ns {
                break;
            }
            duration = (duration + LOOK_NS).min(case.duration_ns);
        }
    }
    run.advance(duration);
    let estimates = if case.part {
        let at = |q| stats::quantile_of_part(&run.hist, &run.intervals, CLASS, q);
        vec![at(0.5), at(0.99), at(0.999)]
    } else {
        let quantiles = Quantiles::new(&run.hist, &run.intervals, CLASS);
        let (mean, rate) = (stats::mean(&run.hist, &run.intervals, CLASS), stats::rate(&run.intervals, CLASS));
        vec![quantiles.at(0.5), quantiles.at(0.99), quantiles.at(0.999), mean, rate]
    };
    Outcome { estimates, duration_ns: duration, met_episode: run.source.met_episode }
}

//! Sums over requests in the order of their arrival.

use qd1_model::order::Order as _;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use qd1_model::Hist;
use qd1_model::requests::{Op, Request};
use qd1_model::trace_summary::{Arrivals, Depth, LoadSummary, OperationSummary, Shape, Times};
use qd1_model::units::Bytes;

use super::blocks::Blocks;
use super::{arrived_ns, issued_ns};

/// Streams of one process and kind that are followed at the same time.
const STREAMS: usize = 16;
/// Most processes whose streams are followed.
const FOLLOWED_MAX: usize = 16_384;
/// Most sizes that are counted separately, and most in the summary.
const SIZES_MAX: usize = 4096;
const SIZES_SHOWN: usize = 6;
/// Most requests in the device that are counted.
const IN_DEVICE_MAX: usize = 65_536;
/// Parts of the bitmap for one program: 16 GiB of the disk.
const PARTS_OF_PROGRAM: usize = 1024;
/// Operations, in the order of the summary.
const OPS: [Op; 5] = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::Other];

/// Requests of one operation.
#[derive(Default)]
struct Operation {
    requests: u64,
    bytes: u64,
    errors: u64,
    sequential: u64,
    sizes: HashMap<u32, u64>,
    queue: Spread,
    device: Spread,
}

/// Where the last requests of a process ended.
#[derive(Default)]
struct Streams {
    ends: [u64; STREAMS],
    next: usize,
}

/// Sums over requests.
#[derive(Default)]
pub(super) struct Load {
    operations: [Operation; OPS.len()],
    streams: HashMap<((u32, u32), u32, bool), Streams>,
    read: Blocks,
    written: Blocks,
    /// When the requests that are in the device will be completed.
    in_device: BinaryHeap<Reverse<u64>>,
    depth: Spread,
    device_ns: u128,
    between: Spread,
    between_sum: f64,
    between_squares: f64,
    last_arrival_ns: Option<u64>,
    first_ns: Option<u64>,
    last_ns: u64,
    syncs: u64,
}

impl Load {
    /// Begins the sums of one program among many, with less memory for the blocks it touches.
    pub(super) fn of_program() -> Self {
        let blocks = || Blocks::of_parts(PARTS_OF_PROGRAM);
        Self { read: blocks(), written: blocks(), ..Self::default() }
    }

    /// Adds a request, which arrived after those before it. Returns whether it continues an earlier one.
    pub(super) fn push(&mut self, request: &Request) -> bool {
        let is_sequential = self.continues(request);
        self.push_known(request, is_sequential);
        is_sequential
    }

    /// Adds a request that is known to continue an earlier one or not.
    pub(super) fn push_known(&mut self, request: &Request, is_sequential: bool) {
        let op = request.op();
        let of = &mut self.operations[OPS.iter().position(|known| *known == op).expect("all are listed")];
        of.requests += 1;
        of.bytes += u64::from(request.bytes);
        of.errors += u64::from(request.errno != 0);
        of.sequential += u64::from(is_sequential);
        if of.sizes.len() < SIZES_MAX || of.sizes.contains_key(&request.bytes) {
            *of.sizes.entry(request.bytes).or_default() += 1;
        }
        if let Some(queue_ns) = request.queue_ns {
            of.queue.record(queue_ns);
        }
        of.device.record(request.device_ns);
        match op {
            Op::Read => self.read.touch(request.device, request.sector, request.bytes),
            Op::Write => self.written.touch(request.device, request.sector, request.bytes),
            _ => {}
        }
        let arrived_ns = arrived_ns(request);
        if let Some(last_ns) = self.last_arrival_ns {
            let between_ns = arrived_ns.saturating_sub(last_ns);
            self.between.record(between_ns);
            self.between_sum += between_ns as f64;
            self.between_squares += (between_ns as f64).powi(2);
        }
        self.last_arrival_ns = Some(arrived_ns);
        self.sees_span(arrived_ns, request.complete_ns);
    }

    /// Extends the span.
    pub(super) fn sees_span(&mut self, from_ns: u64, to_ns: u64) {
        self.first_ns = Some(self.first_ns.map_or(from_ns, |first_ns| first_ns.min(from_ns)));
        self.last_ns = self.last_ns.max(to_ns);
    }

    /// Counts a sync.
    pub(super) fn count_sync(&mut self) {
        self.syncs += 1;
    }

    /// Whether a read or write begins where an earlier one of the same process and kind ended.
    fn continues(&mut self, request: &Request) -> bool {
        if !matches!(request.op(), Op::Read | Op::Write) || request.bytes == 0 {
            return false;
        }
        let key = (request.device, request.asker.pid, request.op() == Op::Write);
        if self.streams.len() >= FOLLOWED_MAX && !self.streams.contains_key(&key) {
            self.streams.clear();
        }
        let streams = self.streams.entry(key).or_default();
        let end = request.sector.saturating_add(u64::from(request.bytes) / 512);
        // Sector 0 is no end of a request.
        let found = streams.ends.iter().position(|end| *end == request.sector && *end != 0);
        let place = found.unwrap_or(streams.next);
        streams.ends[place] = end;
        if found.is_none() {
            streams.next = (streams.next + 1) % STREAMS;
        }
        found.is_some()
    }

    /// Counts how many requests the device has when it gets this one, after those before it.
    pub(super) fn count_depth(&mut self, request: &Request) {
        let issued_ns = issued_ns(request);
        while self.in_device.peek().is_some_and(|Reverse(complete_ns)| *complete_ns <= issued_ns) {
            self.in_device.pop();
        }
        if self.in_device.len() < IN_DEVICE_MAX {
            self.in_device.push(Reverse(request.complete_ns));
        }
        self.depth.record(self.in_device.len() as u64);
        self.device_ns += u128::from(request.device_ns);
    }

    pub(super) fn span_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns.unwrap_or(self.last_ns))
    }

    /// When its first request arrived.
    pub(super) fn first_ns(&self) -> u64 {
        self.first_ns.unwrap_or(0)
    }

    pub(super) fn requests(&self) -> u64 {
        self.operations.iter().map(|of| of.requests).sum()
    }

    fn of(&self, op: Op) -> &Operation {
        &self.operations[OPS.iter().position(|known| *known == op).expect("all are listed")]
    }

    pub(super) fn count(&self, op: Op) -> u64 {
        self.of(op).requests
    }

    pub(super) fn bytes(&self, op: Op) -> u64 {
        self.of(op).bytes
    }

    /// Reads and writes.
    pub(super) fn moves(&self) -> u64 {
        self.count(Op::Read) + self.count(Op::Write)
    }

    /// Bytes of reads and writes.
    pub(super) fn moved_bytes(&self) -> u64 {
        self.bytes(Op::Read) + self.bytes(Op::Write)
    }

    pub(super) fn read_share(&self) -> f64 {
        self.count(Op::Read) as f64 / self.moves().max(1) as f64
    }

    pub(super) fn sequential_share(&self) -> f64 {
        (self.of(Op::Read).sequential + self.of(Op::Write).sequential) as f64 / self.moves().max(1) as f64
    }

    pub(super) fn touched_bytes(&self) -> u64 {
        self.read.union_bytes(&self.written)
    }

    /// Estimates the size of a file in which random requests would repeat blocks as often as these do, bytes: between
    /// what was touched and the whole range.
    pub(super) fn file_bytes(&self) -> u64 {
        let touched = self.touched_bytes();
        let range = self.read.range_bytes(&self.written).max(touched);
        let drawn = (self.read.counted() + self.written.counted()) as f64 * 4096.0;
        // Of n draws from N blocks, N (1 - exp(-n/N)) are expected to be different ones.
        let distinct = |size: f64| -size * (-drawn / size).exp_m1();
        let (mut low, mut high) = (touched.max(1) as f64, range.max(1) as f64);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if distinct(middle) < touched as f64 { low = middle } else { high = middle }
        }
        high as u64
    }

    /// Sizes of an operation, most frequent first.
    pub(super) fn sizes(&self, op: Op) -> Vec<(u32, u64)> {
        sizes(&self.of(op).sizes)
    }

    /// Returns true if syncs were counted; a trace of requests alone has only flushes.
    pub(super) const fn has_syncs(&self) -> bool {
        self.syncs > 0
    }

    /// Writes for each sync or flush; `None` without any.
    pub(super) fn writes_per_sync(&self) -> Option<f64> {
        let syncs = self.syncs.max(self.count(Op::Flush));
        (syncs > 0 && self.count(Op::Write) > 0).then(|| self.count(Op::Write) as f64 / syncs as f64)
    }

    pub(super) fn arrivals(&self) -> Option<Arrivals> {
        let count = self.between.count();
        if count < 2 {
            return None;
        }
        let mean = self.between_sum / count as f64;
        let variance = (self.between_squares / count as f64 - mean * mean).max(0.0);
        let variation = if mean > 0.0 { variance.sqrt() / mean } else { 0.0 };
        Some(Arrivals { p50_ns: self.between.quantile(0.5), p99_ns: self.between.quantile(0.99), variation })
    }

    pub(super) fn depth(&self) -> Option<Depth> {
        if self.depth.count() == 0 || self.span_ns() == 0 {
            return None;
        }
        // Little's law: the sum of the times over the span.
        let mean = self.device_ns as f64 / self.span_ns() as f64;
        let [p50, p99] = [0.5, 0.99].map(|share| self.depth.quantile(share));
        Some(Depth { mean, p50, p99, max: self.depth.max_ns })
    }

    /// Returns what is compared with a suite's step; `None` if nothing was read or written.
    pub(super) fn shape(&self) -> Option<Shape> {
        let moved = [Op::Read, Op::Write].map(|op| self.sizes(op)).concat();
        let bs = moved.iter().max_by_key(|(_, count)| *count)?.0;
        let depth = self.depth().map_or(1.0, |depth| depth.mean.max(1.0));
        Some(Shape {
            read_share: self.read_share(),
            random_share: 1.0 - self.sequential_share(),
            bs: Bytes(u64::from(bs)),
            depth,
            writes_per_sync: self.writes_per_sync(),
        })
    }

    pub(super) fn summary(&self, sees_device: bool) -> LoadSummary {
        LoadSummary {
            requests: self.requests(),
            bytes: self.moved_bytes(),
            read_share: self.read_share(),
            sequential_share: self.sequential_share(),
            reread_share: self.read.again_share(),
            rewritten_share: self.written.again_share(),
            touched_bytes: self.touched_bytes(),
            touched_is_partial: self.read.is_partial() || self.written.is_partial(),
            depth: self.depth().filter(|_| sees_device),
            arrivals: self.arrivals(),
        }
    }

    pub(super) fn operations(&self, sees_queue: bool, sees_device: bool) -> Vec<OperationSummary> {
        let known = OPS.iter().zip(&self.operations).filter(|(_, of)| of.requests > 0);
        known
            .map(|(op, of)| {
                let mut sizes = sizes(&of.sizes);
                sizes.truncate(SIZES_SHOWN);
                OperationSummary {
                    op: op.name().to_owned(),
                    requests: of.requests,
                    bytes: of.bytes,
                    errors: of.errors,
                    sequential_share: of.sequential as f64 / of.requests as f64,
                    sizes,
                    queue: (sees_queue && of.queue.count() > 0).then(|| of.queue.times()),
                    device: sees_device.then(|| of.device.times()),
                }
            })
            .collect()
    }
}

fn sizes(of: &HashMap<u32, u64>) -> Vec<(u32, u64)> {
    let mut sizes: Vec<(u32, u64)> = of.iter().map(|(size, count)| (*size, *count)).collect();
    sizes.order_by_key(|(size, count)| (Reverse(*count), *size));
    sizes
}

/// Times with their percentiles and their exact maximum.
#[derive(Default)]
pub(super) struct Spread {
    hist: Hist,
    max_ns: u64,
}

/// Longest time that a histogram tells from longer ones, ns: some 18 minutes.
const HIST_MAX_NS: u64 = 1 << 40;

impl Spread {
    pub(super) fn record(&mut self, ns: u64) {
        self.hist.record(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    pub(super) fn count(&self) -> u64 {
        self.hist.count()
    }

    /// Returns a quantile, at most the longest time; 0 without any.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        let ns = self.hist.quantile(share);
        // One that the histogram cannot tell from longer ones.
        if ns >= HIST_MAX_NS / 100 * 99 { self.max_ns } else { ns.min(self.max_ns) }
    }

    pub(super) fn times(&self) -> Times {
        let [p50_ns, p99_ns, p999_ns] = [0.5, 0.99, 0.999].map(|share| self.quantile(share));
        Times { p50_ns, p99_ns, p999_ns, max_ns: self.max_ns }
    }
}

//! A disk whose behaviour over time is known: requests in a closed loop on a virtual clock, collected into intervals as
//! in a step.
//!
//! Each of `depth` slots holds one request at a time. Its service time is drawn from an irregular law (two-phase
//! hyper-exponential after Wajahat et al. 2020, log-normal, a Pareto tail), times a level that changes slowly (AR(1)
//! from one tenth of a second to the next), times the effect of the scenario: a neighbour that comes and goes, a slow
//! drift. A token bucket delays it by the law of the engine's simulated device: tokens accrue at `rate` up to `burst`,
//! one is taken per request, and a debt must be waited for. A stall moves every completion inside it to its end.

use qd1_model::hist::{CoarseHist, Hist};
use qd1_model::op::OpClass;
use qd1_model::record::{Interval, IntervalStream};

use crate::random::Random;

/// Length of an interval, ns.
pub(super) const INTERVAL_NS: f64 = 1e8;
/// Bytes of a request.
const BLOCK: u64 = 4096;

/// How irregular the disk is on its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Noise {
    /// Independent log-normal service times.
    LogNormal(f64),
    /// A share of requests is slower by a factor, each phase exponential.
    Hyper(f64, f64),
    /// Log-normal 0.3, the level an AR(1) process of this correlation and deviation from interval to interval.
    Ar1(f64, f64),
    /// A Pareto tail of this exponent.
    Pareto(f64),
    /// Hyper-exponential, with stalls at random: mean spacing and mean length, ns.
    RandomStalls(f64, f64),
    /// Independent, half of the time twice as slow, in phases of about this length, ns.
    Phases(f64),
}

impl Noise {
    /// All, with ordinary parameters.
    pub(super) const ALL: [Self; 7] = [
        Self::LogNormal(0.3),
        Self::Hyper(0.1, 10.0),
        Self::Ar1(0.7, 0.15),
        Self::Ar1(0.9, 0.10),
        Self::Pareto(2.2),
        Self::RandomStalls(3e9, 6e7),
        Self::Phases(1.5e8),
    ];

    /// For the table.
    pub(super) fn name(self) -> String {
        match self {
            Self::LogNormal(sigma) => format!("log-normal {sigma}"),
            Self::Hyper(share, ratio) => format!("H2 {:.0} % x{ratio}", share * 100.0),
            Self::Ar1(rho, sigma) => format!("AR(1) {rho}, {sigma}"),
            Self::Pareto(exponent) => format!("Pareto {exponent}"),
            Self::RandomStalls(..) => "random stalls".to_owned(),
            Self::Phases(_) => "phases x2".to_owned(),
        }
    }
}

/// A disk and what happens to it.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) noise: Noise,
    /// Mean service time, ns.
    pub(super) service_ns: f64,
    pub(super) depth: usize,
    pub(super) runtime_ns: f64,
    /// (time, factor on the service time from then on), rising.
    pub(super) levels: Vec<(f64, f64)>,
    /// Logarithm by which the service time grows over the run.
    pub(super) creep: f64,
    /// Tokens per second, tokens at the start and at most.
    pub(super) bucket: Option<(f64, f64)>,
    /// First stall, period, length, spread of each start; ns.
    pub(super) stalls: Option<(f64, f64, f64, f64)>,
}

/// What was measured, and what only the simulation knows.
pub(super) struct Run {
    pub(super) intervals: Vec<Interval>,
    pub(super) lat: Hist,
    /// When the bucket first ran dry, ns, and requests completed by then.
    pub(super) dry: Option<(f64, u64)>,
}

/// Times in which nothing completes.
fn stalls_of(disk: &Disk, random: &mut Random) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    if let Some((first, period, length, spread)) = disk.stalls {
        let mut at = first;
        while at < disk.runtime_ns {
            let start = at + spread * random.normal();
            all.push((start, start + length));
            at += period;
        }
    }
    if let Noise::RandomStalls(spacing, length) = disk.noise {
        let mut at = spacing * random.exponential();
        while at < disk.runtime_ns {
            let end = at + length * random.exponential();
            all.push((at, end));
            at = end + spacing * random.exponential();
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// Mean-one multiplier of each tenth of a second.
fn levels_of(disk: &Disk, random: &mut Random) -> Vec<f64> {
    let count = (disk.runtime_ns / INTERVAL_NS) as usize + 2;
    match disk.noise {
        Noise::Ar1(rho, sigma) => {
            let mut state = random.normal();
            let mut next = || {
                state = rho * state + (1.0 - rho * rho).sqrt() * random.normal();
                (sigma * state - 0.5 * sigma * sigma).exp()
            };
            (0..count).map(|_| next()).collect()
        }
        Noise::Phases(length) => {
            let mut slow = false;
            let mut next = || {
                slow ^= random.uniform() < INTERVAL_NS / length;
                if slow { 4.0 / 3.0 } else { 2.0 / 3.0 }
            };
            (0..count).map(|_| next()).collect()
        }
        _ => vec![1.0; count],
    }
}

/// One service time with mean 1.
fn draw(noise: Noise, random: &mut Random) -> f64 {
    let log_normal = |sigma: f64, random: &mut Random| (sigma * random.normal() - 0.5 * sigma * sigma).exp();
    match noise {
        Noise::LogNormal(sigma) => log_normal(sigma, random),
        Noise::Ar1(..) | Noise::Phases(_) => log_normal(0.3, random),
        Noise::Hyper(share, ratio) => {
            let scale = 1.0 / (1.0 - share + share * ratio);
            scale * random.exponential() * if random.uniform() < share { ratio } else { 1.0 }
        }
        Noise::RandomStalls(..) => draw(Noise::Hyper(0.05, 8.0), random),
        // A thousand times the scale at most, as a device's own timeout cuts its tail.
        Noise::Pareto(exponent) => (exponent - 1.0) / exponent * random.uniform().powf(-1.0 / exponent).min(1000.0),
    }
}

/// Runs `disk`.
pub(super) fn run(disk: &Disk, seed: u64) -> Run {
    let mut random = super::seeded(seed);
    let (stalls, multipliers) = (stalls_of(disk, &mut random), levels_of(disk, &mut random));
    let mut gather = Gather::new(disk.runtime_ns);
    let mut free = vec![0.0f64; disk.depth];
    let (mut tokens, mut tokens_at) = (disk.bucket.map_or(0.0, |(_, burst)| burst), 0.0f64);
    let mut dry = None;
    let mut stall = 0;
    loop {
        let slot = (0..free.len()).min_by(|a, b| free[*a].total_cmp(&free[*b])).expect("a slot");
        let now = free[slot];
        if now >= disk.runtime_ns {
            break;
        }
        let mut begin = now;
        if let Some((rate, burst)) = disk.bucket {
            tokens = (tokens + (now - tokens_at).max(0.0) * rate / 1e9).min(burst) - 1.0;
            tokens_at = tokens_at.max(now);
            if tokens < 0.0 {
                begin = now - tokens * 1e9 / rate;
                dry.get_or_insert((now, gather.completed));
            }
        }
        let level = disk.levels.iter().rev().find(|(from, _)| *from <= begin).map_or(1.0, |(_, factor)| *factor);
        let own = multipliers[((begin / INTERVAL_NS) as usize).min(multipliers.len() - 1)];
        let creep = (disk.creep * begin / disk.runtime_ns).exp();
        let mut end = begin + disk.service_ns * level * own * creep * draw(disk.noise, &mut random);
        while stall < stalls.len() && stalls[stall].1 < now {
            stall += 1;
        }
        for (from, to) in &stalls[stall..] {
            if *from > end {
                break;
            }
            // Work that is unfinished when the device stops is done when it continues.
            end += (to - from.max(now)).max(0.0);
        }
        gather.add(end, end - now);
        free[slot] = end;
    }
    Run { intervals: gather.intervals(), lat: gather.lat, dry }
}

/// Completed requests by interval.
struct Gather {
    bins: Vec<(u64, u64, u64, Option<CoarseHist>)>,
    lat: Hist,
    completed: u64,
}

impl Gather {
    fn new(runtime_ns: f64) -> Self {
        let count = (runtime_ns / INTERVAL_NS) as usize;
        Self { bins: vec![(0, 0, 0, None); count], lat: Hist::new(), completed: 0 }
    }

    fn add(&mut self, end_ns: f64, lat_ns: f64) {
        let Some(bin) = self.bins.get_mut((end_ns / INTERVAL_NS) as usize) else { return };
        let lat = lat_ns.max(1.0) as u64;
        (bin.0, bin.1, bin.2) = (bin.0 + 1, bin.1 + lat, bin.2.max(lat));
        bin.3.get_or_insert_default().record(lat);
        self.lat.record(lat);
        self.completed += 1;
    }

    fn intervals(&self) -> Vec<Interval> {
        let interval = |(i, (ios, sum, max, hist)): (usize, &(u64, u64, u64, Option<CoarseHist>))| Interval {
            start_ns: i as u64 * INTERVAL_NS as u64,
            length_ns: INTERVAL_NS as u64,
            streams: hist.as_ref().map_or_else(Vec::new, |hist| {
                vec![IntervalStream {
                    class: OpClass::Read,
                    ios: *ios,
                    bytes: ios * BLOCK,
                    lat_sum_ns: *sum,
                    lat_max_ns: *max,
                    bins: hist.sparse(),
                }]
            }),
        };
        self.bins.iter().enumerate().map(interval).collect()
    }
}

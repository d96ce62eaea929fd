//! Service times: mixtures of modes or laws drawn through percentiles, and the numbers drawn from them.

use rand_distr::{Distribution, Exp1, LogNormal, StandardUniform};
use rand_xoshiro::Xoshiro256PlusPlus;

/// One mode of a latency: log-normal, constant, or exponential.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// Share of requests, relative to the other modes.
    pub weight: f64,
    /// Median, ns.
    pub median_ns: f64,
    /// Standard deviation of the logarithm; 0 for a constant, [`Mode::EXPONENTIAL`] for an exponential law.
    pub sigma: f64,
}

impl Mode {
    /// The `sigma` of an exponential law of that median. Two such modes are a hyper-exponential (H2).
    pub const EXPONENTIAL: f64 = f64::INFINITY;

    /// An exponential phase, by its mean.
    pub fn exponential(weight: f64, mean_ns: f64) -> Self {
        Self { weight, median_ns: mean_ns * std::f64::consts::LN_2, sigma: Self::EXPONENTIAL }
    }
}

/// Service time of one kind of request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    /// The mixture.
    pub modes: Vec<Mode>,
    /// Added per byte, ns.
    pub per_byte_ns: f64,
    /// Points of the law as (probability, ns), both rising, which replace the modes if there are any: for disks of
    /// which only published percentiles are known.
    pub quantiles: Vec<(f64, f64)>,
}

impl Service {
    /// One log-normal mode without a size dependence.
    pub fn log_normal(median_ns: f64, sigma: f64) -> Self {
        Self { modes: vec![Mode { weight: 1.0, median_ns, sigma }], ..Self::default() }
    }

    /// The law through these points of (probability, ns), without a size dependence.
    pub fn through(quantiles: Vec<(f64, f64)>) -> Self {
        Self { quantiles, ..Self::default() }
    }

    /// The time below which this share of requests lies, ns, of a law through points. Between two of them the logarithm
    /// of the time is linear in -ln(1 - p), so that a tail of decades of p is as smooth as its logarithm; below the
    /// first and above the last it is theirs.
    pub fn quantile_ns(&self, p: f64) -> f64 {
        let after = self.quantiles.partition_point(|(known, _)| *known <= p);
        let at = |number: usize| self.quantiles.get(number).copied();
        match (after.checked_sub(1).and_then(at), at(after)) {
            (Some((low, low_ns)), Some((high, high_ns))) => {
                let depth = |p: f64| -(1.0 - p).ln();
                let share = (depth(p) - depth(low)) / (depth(high) - depth(low));
                (low_ns.ln() + share * (high_ns.ln() - low_ns.ln())).exp()
            }
            (Some((_, only_ns)), None) | (None, Some((_, only_ns))) => only_ns,
            (None, None) => 0.0,
        }
    }
}

/// Draws the service time of a request of `len` bytes, ns.
pub(super) fn draw(rng: &mut Xoshiro256PlusPlus, service: &Service, len: u32) -> f64 {
    draw_bytes(rng, service, f64::from(len))
}

/// Draws the service time of a request that moves `bytes`, which may be fractional after compression; ns.
pub(super) fn draw_bytes(rng: &mut Xoshiro256PlusPlus, service: &Service, bytes: f64) -> f64 {
    let uniform: f64 = StandardUniform.sample(rng);
    if !service.quantiles.is_empty() {
        return service.quantile_ns(uniform) + service.per_byte_ns * bytes;
    }
    let total: f64 = service.modes.iter().map(|mode| mode.weight).sum();
    let mut pick = uniform * total;
    let mut chosen = service.modes.last().copied();
    for mode in &service.modes {
        if pick < mode.weight {
            chosen = Some(*mode);
            break;
        }
        pick -= mode.weight;
    }
    let base = match chosen {
        Some(Mode { median_ns, sigma, .. }) if sigma == Mode::EXPONENTIAL => {
            let phase: f64 = Exp1.sample(rng);
            phase * median_ns / std::f64::consts::LN_2
        }
        Some(Mode { median_ns, sigma, .. }) if sigma > 0.0 => {
            LogNormal::new(median_ns.ln(), sigma).map_or(median_ns, |law| law.sample(rng))
        }
        Some(mode) => mode.median_ns,
        None => 0.0,
    };
    base + service.per_byte_ns * bytes
}

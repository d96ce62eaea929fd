//! Service times: mixtures of modes, and the numbers drawn from them.

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
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// The mixture.
    pub modes: Vec<Mode>,
    /// Added per byte, ns.
    pub per_byte_ns: f64,
}

impl Service {
    /// One log-normal mode without a size dependence.
    pub fn log_normal(median_ns: f64, sigma: f64) -> Self {
        Self { modes: vec![Mode { weight: 1.0, median_ns, sigma }], per_byte_ns: 0.0 }
    }
}

/// Draws the service time of a request of `len` bytes, ns.
pub(super) fn draw(rng: &mut Xoshiro256PlusPlus, service: &Service, len: u32) -> f64 {
    draw_bytes(rng, service, f64::from(len))
}

/// Draws the service time of a request that moves `bytes`, which after compression is a fraction; ns.
pub(super) fn draw_bytes(rng: &mut Xoshiro256PlusPlus, service: &Service, bytes: f64) -> f64 {
    let total: f64 = service.modes.iter().map(|mode| mode.weight).sum();
    let uniform: f64 = StandardUniform.sample(rng);
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

//! Random processes of latencies whose distribution, and therefore every figure, is known.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::random::Random;

/// Spread of each mode of a log-normal mixture, in the logarithm.
const MODE_SIGMA: f64 = 0.2;

/// A random process of latencies with a known distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Process {
    /// Independent, log-normal.
    LogNormal {
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Independent, a mixture of two log-normals (sigma 0.2).
    Bimodal {
        /// Share of slow operations.
        slow: f64,
        /// How many times slower they are.
        ratio: f64,
    },
    /// Independent, a mixture of two exponentials (H2), the fit to measured disk latencies of Wajahat et al. 2020.
    Hyper {
        /// Share of slow operations.
        slow: f64,
        /// How many times slower they are.
        ratio: f64,
    },
    /// Log-normal whose logarithm is an AR(1) process from one operation to the next.
    Ar1 {
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// Correlation of neighbours.
        rho: f64,
    },
    /// Phases of fast and of slow operations (sigma 0.2), of geometric length: a throttled disk.
    Phases {
        /// Mean length of a fast phase, operations.
        fast_ops: f64,
        /// Mean length of a slow phase, operations.
        slow_ops: f64,
        /// How many times slower the slow ones are.
        ratio: f64,
    },
    /// The same with exponential latencies in each phase: H2 overall, and dependent.
    HyperPhases {
        /// Mean length of a fast phase, operations.
        fast_ops: f64,
        /// Mean length of a slow phase, operations.
        slow_ops: f64,
        /// How many times slower the slow ones are.
        ratio: f64,
    },
}

/// A process as a mixture of two modes of one shape.
#[derive(Clone, Copy, Debug)]
struct Mixture {
    /// Long-run share of slow operations.
    slow: f64,
    /// How many times slower they are.
    ratio: f64,
    /// Standard deviation of the logarithm of a mode, or `None` for exponential modes.
    sigma: Option<f64>,
}

impl Process {
    /// Name for the table.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::LogNormal { sigma } => format!("log-normal {sigma}"),
            Self::Bimodal { slow, ratio } => format!("bimodal {:.0} % x{ratio}", slow * 100.0),
            Self::Hyper { slow, ratio } => format!("H2 {:.0} % x{ratio}", slow * 100.0),
            Self::Ar1 { sigma, rho } => format!("AR(1) {rho}, sigma {sigma}"),
            Self::Phases { fast_ops, slow_ops, ratio } => format!("phases {fast_ops}/{slow_ops} x{ratio}"),
            Self::HyperPhases { fast_ops, slow_ops, ratio } => format!("H2 phases {fast_ops}/{slow_ops} x{ratio}"),
        }
    }

    /// Mean lengths of its fast and slow phases, where it has phases.
    fn phases(self) -> Option<(f64, f64)> {
        match self {
            Self::Phases { fast_ops, slow_ops, .. } | Self::HyperPhases { fast_ops, slow_ops, .. } => {
                Some((fast_ops, slow_ops))
            }
            _ => None,
        }
    }

    fn mixture(self) -> Mixture {
        let (slow, ratio, sigma) = match self {
            Self::LogNormal { sigma } | Self::Ar1 { sigma, .. } => (0.0, 1.0, Some(sigma)),
            Self::Bimodal { slow, ratio } => (slow, ratio, Some(MODE_SIGMA)),
            Self::Hyper { slow, ratio } => (slow, ratio, None),
            Self::Phases { fast_ops, slow_ops, ratio } => (slow_ops / (fast_ops + slow_ops), ratio, Some(MODE_SIGMA)),
            Self::HyperPhases { fast_ops, slow_ops, ratio } => (slow_ops / (fast_ops + slow_ops), ratio, None),
        };
        Mixture { slow, ratio, sigma }
    }

    /// Scale of the fast mode (its median, or its mean where exponential) that gives a mean latency of `mean_ns`.
    pub(super) fn scale(self, mean_ns: f64) -> f64 {
        let Mixture { slow, ratio, sigma } = self.mixture();
        let of_mode = sigma.map_or(1.0, |sigma| (0.5 * sigma * sigma).exp());
        mean_ns / ((1.0 - slow + slow * ratio) * of_mode)
    }

    /// True quantile `q`, ns, at a mean of `mean_ns`: by bisection of the distribution function of the mixture.
    #[must_use]
    pub fn quantile_ns(self, mean_ns: f64, q: f64) -> f64 {
        let Mixture { slow, ratio, sigma } = self.mixture();
        let normal = Normal::standard();
        let of_mode = |log: f64| match sigma {
            Some(sigma) => normal.cdf(log / sigma),
            None => -(-log.exp()).exp_m1(),
        };
        let cdf = |log: f64| (1.0 - slow) * of_mode(log) + slow * of_mode(log - ratio.ln());
        let (mut low, mut high) = (-20.0, ratio.ln() + 20.0);
        for _ in 0..80 {
            let middle = 0.5 * (low + high);
            if cdf(middle) < q {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.scale(mean_ns) * low.exp()
    }
}

/// Slow operations in a row that a run can distinguish from chance: the shortest stall the analysis looks for.
const EPISODE_OPS: u64 = 4;

/// A process under way: draws one latency after another.
pub(super) struct Source {
    process: Process,
    scale: f64,
    random: Random,
    /// The second of the last pair of normally distributed numbers, until it is used.
    spare_normal: Option<f64>,
    /// State of the process: the AR(1) value, or 1 in a slow phase.
    state: f64,
    /// Slow operations so far in this phase.
    slow_ops: u64,
    /// Whether a phase of at least [`EPISODE_OPS`] has been met.
    pub(super) met_episode: bool,
}

impl Source {
    pub(super) fn new(process: Process, mean_ns: f64, seed: u64) -> Self {
        let mut source = Self {
            process,
            scale: process.scale(mean_ns),
            random: Random::new(seed),
            spare_normal: None,
            state: 0.0,
            slow_ops: 0,
            met_episode: process.phases().is_none(),
        };
        source.state = match process.phases() {
            Some(_) => f64::from(u8::from(source.random.uniform() < process.mixture().slow)),
            None => source.normal(),
        };
        source
    }

    /// The next latency, ns.
    pub(super) fn draw(&mut self) -> f64 {
        let Mixture { slow, ratio, sigma } = self.process.mixture();
        let slow_now = match (self.process, self.process.phases()) {
            (_, Some((fast_ops, slow_ops))) => {
                let leave = if self.state > 0.5 { 1.0 / slow_ops } else { 1.0 / fast_ops };
                if self.random.uniform() < leave {
                    self.state = 1.0 - self.state;
                }
                self.slow_ops = if self.state > 0.5 { self.slow_ops + 1 } else { 0 };
                self.met_episode |= self.slow_ops >= EPISODE_OPS;
                self.state > 0.5
            }
            (Process::Ar1 { sigma, rho }, _) => {
                self.state = rho * self.state + (1.0 - rho * rho).sqrt() * self.normal();
                return self.scale * (sigma * self.state).exp();
            }
            _ => slow > 0.0 && self.random.uniform() < slow,
        };
        let of_mode = match sigma {
            Some(sigma) => (sigma * self.normal()).exp(),
            None => -self.random.uniform().ln(),
        };
        self.scale * of_mode * if slow_now { ratio } else { 1.0 }
    }

    /// A standard normal number from the same generator.
    pub(super) fn normal(&mut self) -> f64 {
        self.spare_normal.take().unwrap_or_else(|| {
            let (first, second) = self.random.normal_pair();
            self.spare_normal = Some(second);
            first
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_has_the_figures_it_is_said_to_have() {
        let processes = [
            Process::LogNormal { sigma: 0.5 },
            Process::Bimodal { slow: 0.1, ratio: 10.0 },
            Process::Hyper { slow: 0.05, ratio: 20.0 },
            Process::Ar1 { sigma: 0.5, rho: 0.5 },
            Process::HyperPhases { fast_ops: 100.0, slow_ops: 25.0, ratio: 5.0 },
        ];
        for process in processes {
            let mut source = Source::new(process, 1000.0, 3);
            let mut drawn: Vec<f64> = (0..100_000).map(|_| source.draw()).collect();
            let mean = drawn.iter().sum::<f64>() / 1e5;
            assert!((mean / 1000.0 - 1.0).abs() < 0.05, "{}: {mean}", process.name());
            drawn.sort_by(f64::total_cmp);
            for (rank, q) in [(49_999, 0.5), (98_999, 0.99)] {
                let truth = process.quantile_ns(1000.0, q);
                assert!((drawn[rank] / truth - 1.0).abs() < 0.08, "{} {q}: {truth}", process.name());
            }
        }
    }
}

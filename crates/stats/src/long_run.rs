//! The variance of a sum whose terms depend on their neighbours.
//!
//! Latencies of a disk are not independent: a throttled phase, a garbage collection or a busy neighbour makes a
//! row of them slow. The variance of their sum is then the *long-run variance*, the spectrum at frequency zero,
//! and it is estimated here by the equally weighted cosine transform: project the residuals d_1..d_T on the
//! first nu cosines, average the squares. Under it the studentised sum is t-distributed with nu degrees of
//! freedom (Mueller 2007; Lazarus, Lewis, Stock, Watson 2018, "HAR Inference: Recommendations for Practice").
//!
//! nu trades bias for spread. It is chosen from the residuals as if they were AR(1) with coefficient phi: the
//! estimate's relative bias is then (pi nu / T)^2 / 6 * 2 phi / (1 - phi)^2, and nu is the largest that keeps it
//! below [`BIAS_MAX`]. phi is taken a little above its estimate ([`PHI_MARGIN`]): too few degrees of freedom
//! only widen an interval, too many make it wrong.

use std::f64::consts::PI;
use std::ops::RangeInclusive;

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Largest relative bias of the variance accepted for more degrees of freedom.
const BIAS_MAX: f64 = 0.05;
/// Standard errors added to the estimated lag-1 autocorrelation before it chooses nu.
const PHI_MARGIN: f64 = 0.25;
/// Fewest batches from which a variance is estimated.
pub(crate) const BATCHES_MIN: usize = 4;

/// 97.5 % quantile of the standard normal distribution.
pub const Z_975: f64 = 1.959_963_984_540_054;

/// A long-run variance and its precision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongRun {
    /// Variance of the sum of the residuals.
    pub(crate) variance: f64,
    /// Degrees of freedom of that estimate.
    pub(crate) df: f64,
}

impl LongRun {
    /// From the `power` of the first `df` projections of `count` residuals.
    fn new(count: usize, power: f64, df: usize) -> Self {
        Self { variance: count as f64 * power / df as f64, df: df as f64 }
    }

    /// 97.5 % quantile of Student's t with these degrees of freedom.
    pub(crate) fn t_975(self) -> f64 {
        t_975(self.df)
    }
}

/// 97.5 % quantile of Student's t with `df` degrees of freedom.
pub fn t_975(df: f64) -> f64 {
    t_quantile(0.975, df)
}

/// Quantile `q` of Student's t with `df` degrees of freedom.
pub fn t_quantile(q: f64, df: f64) -> f64 {
    StudentsT::new(0.0, 1.0, df).map_or(Z_975, |t| t.inverse_cdf(q))
}

/// Chance of a Student's t with `df` degrees of freedom at least this far from 0, on either side.
pub fn t_beyond(t: f64, df: f64) -> f64 {
    StudentsT::new(0.0, 1.0, df).map_or(1.0, |of| 2.0 * of.cdf(-t.abs()))
}

/// Long-run variance of residuals in time order, whose sum is zero; `None` for fewer than [`BATCHES_MIN`].
pub(crate) fn long_run(residuals: &[f64]) -> Option<LongRun> {
    if residuals.len() < BATCHES_MIN {
        return None;
    }
    let df = degrees_of_freedom(residuals);
    let power = power(residuals, df);
    Some(LongRun::new(residuals.len(), power, df))
}

/// Two estimates: [`long_run`] from at most `most` cosines, and one from `fixed` of them.
pub(crate) fn long_runs(residuals: &[f64], fixed: usize, most: usize) -> Option<[LongRun; 2]> {
    let count = residuals.len();
    if count < BATCHES_MIN {
        return None;
    }
    let (df, fixed) = (degrees_of_freedom(residuals).min(most), fixed.min(count - 1));
    let powers = powers(residuals, 1..=df.max(fixed));
    Some([df, fixed].map(|df| LongRun::new(count, powers[..df].iter().sum(), df)))
}

/// Sum of the squares of the projections on the first `count` cosines: of those, or of all minus the others, whichever
/// is less work. All together have the sum of squares of the residuals, except for their mean.
fn power(residuals: &[f64], count: usize) -> f64 {
    let all = residuals.len() - 1;
    if 2 * count <= all {
        return powers(residuals, 1..=count).iter().sum();
    }
    let mean = residuals.iter().sum::<f64>() / residuals.len() as f64;
    let of_all: f64 = residuals.iter().map(|residual| (residual - mean).powi(2)).sum();
    (of_all - powers(residuals, count + 1..=all).iter().sum::<f64>()).max(0.0)
}

/// Squares of the projections on these cosines.
fn powers(residuals: &[f64], range: RangeInclusive<usize>) -> Vec<f64> {
    let count = range.clone().count();
    let blocks = range.step_by(LANES).flat_map(|first| projections(residuals, first));
    blocks.take(count).map(|projection| projection.powi(2)).collect()
}

/// Number of cosines projected on in parallel: each term of one waits for the term before it, but not for the others.
const LANES: usize = 8;

/// Projections on the cosines from the `first` on, normalised so that white noise keeps its variance.
fn projections(residuals: &[f64], first: usize) -> [f64; LANES] {
    let count = residuals.len() as f64;
    let steps: [f64; LANES] = std::array::from_fn(|lane| PI * (first + lane) as f64 / count);
    // cos(a + b) = 2 cos(a) cos(b) - cos(a - b): two multiplications instead of a cosine per term.
    let twice = steps.map(|step| 2.0 * step.cos());
    let mut now = steps.map(|step| (0.5 * step).cos());
    let (mut before, mut sums) = (now, [0.0; LANES]);
    for residual in residuals {
        for lane in 0..LANES {
            sums[lane] += residual * now[lane];
            (before[lane], now[lane]) = (now[lane], twice[lane] * now[lane] - before[lane]);
        }
    }
    sums.map(|sum| (2.0 / count).sqrt() * sum)
}

/// How many cosines to use.
fn degrees_of_freedom(residuals: &[f64]) -> usize {
    let count = residuals.len() as f64;
    let phi = (lag_one(residuals) + PHI_MARGIN / count.sqrt()).clamp(0.0, 0.99);
    let largest = residuals.len() - 1;
    let curvature = 2.0 * phi / (1.0 - phi).powi(2);
    if curvature <= 0.0 {
        return largest;
    }
    let nu = count / PI * (6.0 * BIAS_MAX / curvature).sqrt();
    (nu as usize).clamp(3, largest.max(3))
}

/// Lag-1 autocorrelation, corrected for its bias of about -1/T.
fn lag_one(residuals: &[f64]) -> f64 {
    let power: f64 = residuals.iter().map(|d| d * d).sum();
    if power <= 0.0 {
        return 0.0;
    }
    let product: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    product / power + 1.0 / residuals.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in -1..1 without any pattern in time.
    fn noise(count: usize) -> Vec<f64> {
        let mix = |z: u64| (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let scramble = |i: usize| mix(mix((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let raw: Vec<f64> = (0..count).map(|i| (scramble(i) >> 11) as f64 / (1u64 << 52) as f64 - 1.0).collect();
        let mean = raw.iter().sum::<f64>() / count as f64;
        raw.iter().map(|value| value - mean).collect()
    }

    #[test]
    fn of_independent_residuals_it_is_their_variance() {
        let residuals = noise(400);
        let plain: f64 = residuals.iter().map(|d| d * d).sum();
        let run = long_run(&residuals).unwrap();
        assert!((run.variance / plain - 1.0).abs() < 0.25, "{}", run.variance / plain);
        assert!(run.df > 100.0 && run.t_975() < 2.0, "{}", run.df);
    }

    #[test]
    fn of_residuals_in_runs_of_ten_it_is_ten_times_as_much() {
        let residuals: Vec<f64> = noise(200).iter().flat_map(|value| [*value; 10]).collect();
        let plain: f64 = residuals.iter().map(|d| d * d).sum();
        let run = long_run(&residuals).unwrap();
        assert!((5.0..15.0).contains(&(run.variance / plain)), "{}", run.variance / plain);
        assert!(run.df < 200.0, "fewer degrees of freedom: {}", run.df);
    }

    #[test]
    fn three_batches_tell_nothing() {
        assert!(long_run(&[1.0, -2.0, 1.0]).is_none());
    }

    #[test]
    fn what_the_others_leave_is_the_sum_of_the_first() {
        let residuals = noise(60);
        for count in [1, 29, 30, 31, 50, 59] {
            let direct: f64 = powers(&residuals, 1..=count).iter().sum();
            assert!((power(&residuals, count) / direct - 1.0).abs() < 1e-9, "{count}");
        }
    }

    #[test]
    fn the_recurrence_is_the_cosine() {
        let residuals = noise(50);
        for (first, lane) in [(1, 0), (1, 6), (42, 7)] {
            let j = first + lane;
            let cosine = |i: usize| (PI * j as f64 * (i as f64 + 0.5) / 50.0).cos();
            let direct: f64 = residuals.iter().enumerate().map(|(i, d)| d * cosine(i)).sum();
            assert!((projections(&residuals, first)[lane] - (2.0f64 / 50.0).sqrt() * direct).abs() < 1e-9);
        }
    }
}

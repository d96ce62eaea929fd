//! How wide intervals have to be for all of them to hold simultaneously, if sides have several runs.
//!
//! Forty independent figures need what Bonferroni gives them; forty that rise and fall together with their run need
//! hardly more than one; and a variance that is drawn towards that of three others is not known as well as it looks. So
//! the whole procedure is repeated on simulated runs without any difference (a parametric bootstrap of the largest
//! studentised effect: Westfall and Young 1993, Resampling-Based Multiple Testing): as many runs, figures with the
//! variances found, as correlated as the residuals of these runs are (the correlation's mean square, less what so few
//! residuals show by chance), variances pooled and shrunk as those of the figures were. The quantile of the largest
//! effect is the multiple of the standard error that the intervals of a family get; the distance of a single figure
//! gives the chances by which false discoveries are counted.

use super::shrinkage::{Bound, Variance, correlation_squared, shrunk};
use qd1_model::order::Order as _;
use qd1_stats::random::Random;

/// Number of simulated comparisons.
const DRAWS: usize = 3000;
/// Largest number of values drawn in all; beyond it there are fewer comparisons, but at least a quarter.
const NUMBERS_MAX: usize = 8_000_000;

/// Largest number of values drawn and multiplied in the smallest number of comparisons.
const WORK_MAX: usize = 2_000_000_000;

/// Whether this many figures of this many runs can be simulated: a few hundred of a few hundred runs would take
/// minutes.
pub(super) fn are_few(figures: usize, runs: usize) -> bool {
    // The correlations of all pairs of figures, or of runs.
    let pairs = figures.saturating_mul(runs).saturating_mul(figures.min(runs));
    pairs.saturating_add(figures.saturating_mul(runs).saturating_mul(16)).saturating_mul(DRAWS / 4) <= WORK_MAX
}

/// One figure that every run of every side has.
pub(super) struct Figure<'a> {
    /// The same for the figures with which its variance is shrunk.
    pub(super) metric: &'a str,
    /// Standard deviation between runs.
    pub(super) sigma: f64,
    /// One per run.
    pub(super) residuals: Vec<f64>,
}

/// Results of comparisons of equal sides: how many standard errors each figure is away, for the farthest of its sides.
pub(super) struct Draws {
    /// One row per comparison.
    all: Vec<Vec<f32>>,
}

impl Draws {
    /// Simulates comparisons with this many runs of each side.
    pub(super) fn new(figures: &[Figure<'_>], runs: &[usize]) -> Self {
        let count: usize = runs.iter().sum();
        let df = (count - runs.len()) as f64;
        let residuals: Vec<Vec<f64>> = figures.iter().map(|figure| figure.residuals.clone()).collect();
        let r = correlation_squared(&residuals, df, Bound::Lower).sqrt();
        let (common, own) = (r.sqrt(), (1.0 - r).max(0.0).sqrt());
        let mut metrics: Vec<&str> = figures.iter().map(|figure| figure.metric).collect();
        metrics.sort_unstable();
        metrics.dedup();
        let of_metric =
            |metric: &&str| -> Vec<usize> { (0..figures.len()).filter(|at| figures[*at].metric == *metric).collect() };
        let groups: Vec<Vec<usize>> = metrics.iter().map(of_metric).collect();
        let draws = (NUMBERS_MAX / (count * figures.len()).max(1)).clamp(DRAWS / 4, DRAWS);
        let mut random = Random::new(count as u64);
        let mut draw = || {
            let shared: Vec<f64> = (0..count).map(|_| common * random.normal()).collect();
            let mut farthest = vec![0.0_f32; figures.len()];
            for group in &groups {
                let made: Vec<Made> = group
                    .iter()
                    .map(|at| {
                        let sigma = figures[*at].sigma;
                        let logs: Vec<f64> =
                            shared.iter().map(|shared| sigma * (shared + own * random.normal())).collect();
                        Made::of(&logs, runs, df)
                    })
                    .collect();
                let (variances, residuals): (Vec<Variance>, Vec<Vec<f64>>) =
                    made.iter().map(|made| (made.variance, made.residuals.clone())).unzip();
                for ((made, at), variance) in made.iter().zip(group).zip(shrunk(&variances, &residuals)) {
                    let errors =
                        made.effects.iter().map(|(difference, share)| difference / (variance.value * share).sqrt());
                    farthest[*at] = errors.fold(0.0, f64::max) as f32;
                }
            }
            farthest
        };
        Self { all: (0..draws).map(|_| draw()).collect() }
    }

    /// The multiple of the standard error that the farthest of these figures exceeds with this chance.
    pub(super) fn multiple(&self, of: &[usize], chance: f64) -> f64 {
        let farthest = |row: &Vec<f32>| of.iter().map(|at| row[*at]).fold(0.0, f32::max);
        upper(self.all.iter().map(farthest).collect(), chance)
    }

    /// The distances of these figures in all comparisons, individually and in rising order.
    pub(super) fn pooled(&self, of: &[usize]) -> Pooled {
        let mut all: Vec<f32> = self.all.iter().flat_map(|row| of.iter().map(|at| row[*at])).collect();
        all.order_by(f32::total_cmp);
        Pooled { all }
    }
}

/// The distances of single figures if nothing differs, in rising order.
pub(super) struct Pooled {
    all: Vec<f32>,
}

impl Pooled {
    /// The chance that one is this many standard errors away or more.
    pub(super) fn beyond(&self, errors: f64) -> f64 {
        let below = self.all.partition_point(|known| f64::from(*known) < errors);
        (1 + self.all.len() - below) as f64 / (1 + self.all.len()) as f64
    }

    /// The multiple of the standard error that one exceeds with this chance.
    pub(super) fn multiple(&self, chance: f64) -> f64 {
        upper(self.all.clone(), chance)
    }
}

/// The value that this share of them exceeds.
fn upper(mut all: Vec<f32>, chance: f64) -> f64 {
    all.order_by(f32::total_cmp);
    let at = ((1.0 - chance) * all.len() as f64) as usize;
    f64::from(all.get(at.min(all.len().saturating_sub(1))).copied().unwrap_or(f32::INFINITY))
}

/// One figure of simulated runs.
struct Made {
    variance: Variance,
    residuals: Vec<f64>,
    /// For each other side: its distance from the first, and the share of a run's variance in that of the difference.
    effects: Vec<(f64, f64)>,
}

impl Made {
    fn of(logs: &[f64], runs: &[usize], df: f64) -> Self {
        let (mut residuals, mut means, mut from) = (Vec::with_capacity(logs.len()), Vec::new(), 0);
        for runs in runs {
            let side = &logs[from..from + runs];
            let mean = side.iter().sum::<f64>() / *runs as f64;
            residuals.extend(side.iter().map(|log| log - mean));
            means.push((mean, 1.0 / *runs as f64));
            from += runs;
        }
        let value = residuals.iter().map(|residual| residual * residual).sum::<f64>() / df;
        let (first, share) = means[0];
        let effects = means[1..].iter().map(|(mean, other)| ((mean - first).abs(), share + other)).collect();
        Self { variance: Variance { value, df }, residuals, effects }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_stats::t_quantile;

    fn figures(residuals: &[Vec<f64>]) -> Vec<Figure<'_>> {
        let figure = |residuals: &Vec<f64>| Figure { metric: "p50", sigma: 0.05, residuals: residuals.clone() };
        residuals.iter().map(figure).collect()
    }

    fn independent(count: usize) -> Vec<Vec<f64>> {
        let mut random = Random::new(3);
        (0..count).map(|_| (0..6).map(|_| random.normal()).collect()).collect()
    }

    fn leading(residuals: &[Vec<f64>]) -> f64 {
        let all: Vec<usize> = (0..residuals.len()).collect();
        Draws::new(&figures(residuals), &[3, 3]).multiple(&all, 0.05)
    }

    #[test]
    fn one_effect_is_students() {
        let found = leading(&independent(1));
        assert!((found / t_quantile(0.975, 4.0) - 1.0).abs() < 0.1, "{found}");
    }

    #[test]
    fn figures_that_move_together_need_little_more_than_one() {
        let found = leading(&vec![vec![1.0, -2.0, 1.0, 0.5, -1.0, 0.5]; 30]);
        assert!(found < 1.3 * t_quantile(0.975, 4.0), "{found}");
    }

    #[test]
    fn independent_ones_need_what_bonferroni_gives_them() {
        let found = leading(&independent(40));
        let bonferroni = t_quantile(1.0 - 0.025 / 40.0, 100.0);
        assert!((0.9..1.2).contains(&(found / bonferroni)), "{found} {bonferroni}");
    }

    /// Regression: the variance that four figures have in common was taken as known, and one comparison in six of equal
    /// disks said "better" or "worse".
    #[test]
    fn what_few_figures_have_in_common_is_not_taken_as_known() {
        assert!(leading(&independent(4)) > 1.1 * t_quantile(1.0 - 0.025 / 4.0, 16.0));
    }
}

//! The spread between runs, estimated a little better than from a few runs alone.
//!
//! Three runs of each side give a variance with four degrees of freedom, and with it intervals that miss a difference of
//! ten percent on any disk. Forty figures have forty such variances, and what they have in common is known much better. So
//! each is drawn towards the common one, by as much as they resemble each other: the empirical Bayes variance of Smyth
//! (2004, Linear Models and Empirical Bayes Methods for Assessing Differential Expression; section 6.2 has the estimates of
//! the prior's degrees of freedom d0 and of its variance s0^2 by the moments of log s^2).
//!
//! This assumes independent figures. Figures of one run rise and fall together, and forty of them may be worth two:
//! what their residuals have in common bounds d0.

use std::collections::BTreeMap;

use statrs::function::gamma::digamma;

/// Fewest figures for which something in common is estimated.
const FIGURES_MIN: usize = 3;
/// Smallest variance of a logarithm: a part in a million.
const VARIANCE_MIN: f64 = 1e-12;
/// 95 % quantile of the standard normal distribution.
const Z_95: f64 = 1.644_853_626_951_472;
/// Degrees of freedom that stand for infinitely many.
const MANY: f64 = 1e6;

/// A variance and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Variance {
    pub(super) value: f64,
    pub(super) df: f64,
}

/// Draws variances towards what they have in common. Each has its residuals, one per run, for runs that all have.
pub(super) fn shrunk(own: &[Variance], residuals: &[Vec<f64>]) -> Vec<Variance> {
    let known: Vec<Variance> = own.iter().map(|own| Variance { value: own.value.max(VARIANCE_MIN), ..*own }).collect();
    let (d0, common) = prior(&known);
    let df = known.iter().map(|own| own.df).sum::<f64>() / known.len().max(1) as f64;
    let d0 = d0.min((effective(residuals, df) - 1.0).max(0.0) * df);
    known
        .iter()
        .map(|own| Variance { value: (d0 * common + own.df * own.value) / (d0 + own.df), df: d0 + own.df })
        .collect()
}

/// Degrees of freedom and variance of what they have in common.
fn prior(known: &[Variance]) -> (f64, f64) {
    if known.len() < FIGURES_MIN {
        return (0.0, 1.0);
    }
    let count = known.len() as f64;
    let centred: Vec<f64> =
        known.iter().map(|own| own.value.ln() - digamma(own.df / 2.0) + (own.df / 2.0).ln()).collect();
    let mean = centred.iter().sum::<f64>() / count;
    let spread = centred.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let by_chance = known.iter().map(|own| trigamma(own.df / 2.0)).sum::<f64>() / count;
    let excess = spread - by_chance;
    if excess <= 0.0 {
        return (MANY, mean.exp());
    }
    let half = inverse_trigamma(excess);
    (2.0 * half, (mean + digamma(half) - half.ln()).exp())
}

/// How many independent figures these are worth.
fn effective(residuals: &[Vec<f64>], df: f64) -> f64 {
    let count = residuals.len() as f64;
    count / (1.0 + (count - 1.0).max(0.0) * correlation_squared(residuals, df, Bound::Upper))
}

/// Which limit of a correlation is on the safe side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Lower,
    Upper,
}

/// Mean square of the correlations among figures, from their residuals, less what `df` of them show by chance: one or
/// the other limit of what it may be (one-sided, 95 %, as if pairs were independent); 1 if nothing is known about it.
pub(super) fn correlation_squared(residuals: &[Vec<f64>], df: f64, bound: Bound) -> f64 {
    let normed = residuals.iter().filter_map(|row| {
        let norm = row.iter().map(|value| value * value).sum::<f64>().sqrt();
        (norm > 0.0).then(|| row.iter().map(|value| value / norm).collect::<Vec<f64>>())
    });
    let mut by_runs: BTreeMap<usize, Vec<Vec<f64>>> = BTreeMap::new();
    normed.for_each(|row| by_runs.entry(row.len()).or_default().push(row));
    let (mut sum, mut pairs) = (0.0, 0.0);
    for rows in by_runs.values() {
        sum += sum_of_squares(rows);
        pairs += rows.len() as f64 * (rows.len() as f64 - 1.0) / 2.0;
    }
    if pairs == 0.0 || df <= 1.0 {
        return 1.0;
    }
    let by_chance = 1.0 / df;
    // Variance of the square of a correlation of independent figures: that of a beta distribution with 1/2 and (df - 1) / 2.
    let doubt = Z_95 * (2.0 * (df - 1.0) / (df * df * (df + 2.0)) / pairs).sqrt();
    let square = sum / pairs + if bound == Bound::Upper { doubt } else { -doubt };
    ((square - by_chance) / (1.0 - by_chance)).clamp(0.0, 1.0)
}

/// The sum of the squared products of all pairs of rows, which have equally many values and length 1. Over all rows and
/// all columns the sum is the same; there are far more figures than runs, or the other way round.
fn sum_of_squares(rows: &[Vec<f64>]) -> f64 {
    let product = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f64>();
    let runs = rows.first().map_or(0, Vec::len);
    if rows.len() <= runs {
        let of =
            |(at, one): (usize, &Vec<f64>)| rows[..at].iter().map(|other| product(one, other).powi(2)).sum::<f64>();
        return rows.iter().enumerate().map(of).sum();
    }
    let columns: Vec<Vec<f64>> = (0..runs).map(|run| rows.iter().map(|row| row[run]).collect()).collect();
    let of = |(at, one): (usize, &Vec<f64>)| {
        let others: f64 = columns[..at].iter().map(|other| product(one, other).powi(2)).sum();
        2.0 * others + product(one, one).powi(2)
    };
    let all: f64 = columns.iter().enumerate().map(of).sum();
    // Each row with itself is 1, and each pair is there twice.
    ((all - rows.len() as f64) / 2.0).max(0.0)
}

/// Derivative of the digamma function, by its recurrence and asymptotic series (NIST DLMF 5.15.5 and 5.15.8).
fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    sum + 1.0 / x
        + square / 2.0
        + square / x * (1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square / 30.0)))
}

/// Where the trigamma function, which falls, has this value; by bisection of the logarithm.
fn inverse_trigamma(value: f64) -> f64 {
    let (mut low, mut high) = (1e-6_f64.ln(), MANY.ln());
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if trigamma(middle.exp()) > value { low = middle } else { high = middle }
    }
    (0.5 * (low + high)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_stats::random::Random;

    #[test]
    fn trigamma_has_its_known_values() {
        use std::f64::consts::PI;
        assert!((trigamma(1.0) - PI * PI / 6.0).abs() < 1e-10);
        assert!((trigamma(0.5) - PI * PI / 2.0).abs() < 1e-10);
        assert!((inverse_trigamma(trigamma(3.7)) - 3.7).abs() < 1e-6);
    }

    /// Six runs in two groups of three: four degrees of freedom.
    fn figures(
        count: usize,
        common: f64,
        sigma: impl Fn(usize) -> f64,
        random: &mut Random,
    ) -> (Vec<Variance>, Vec<Vec<f64>>) {
        let shared: Vec<f64> = (0..6).map(|_| common * random.normal()).collect();
        let each = (0..count).map(|at| {
            let logs: Vec<f64> = shared.iter().map(|shared| sigma(at) * (shared + random.normal())).collect();
            let residuals: Vec<f64> = logs
                .chunks(3)
                .flat_map(|side| {
                    let mean = side.iter().sum::<f64>() / 3.0;
                    side.iter().map(move |log| log - mean)
                })
                .collect();
            let value = residuals.iter().map(|value| value * value).sum::<f64>() / 4.0;
            (Variance { value, df: 4.0 }, residuals)
        });
        each.unzip()
    }

    #[test]
    fn alike_and_independent_figures_share_what_they_know() {
        let mut random = Random::new(1);
        let (own, residuals) = figures(40, 0.0, |_| 0.02, &mut random);
        let shared = shrunk(&own, &residuals);
        assert!(shared.iter().all(|one| one.df > 40.0 && (0.8..1.25).contains(&(one.value / 4e-4))), "{:?}", shared[0]);
    }

    #[test]
    fn figures_that_move_together_are_worth_few() {
        let mut random = Random::new(2);
        let (own, residuals) = figures(40, 5.0, |_| 0.02, &mut random);
        assert!(shrunk(&own, &residuals)[0].df < 9.0, "{:?}", shrunk(&own, &residuals)[0]);
    }

    #[test]
    fn figures_of_different_spread_keep_their_own() {
        let mut random = Random::new(3);
        let (own, residuals) = figures(40, 0.0, |at| if at % 2 == 0 { 0.001 } else { 0.3 }, &mut random);
        let shared = shrunk(&own, &residuals);
        assert!(shared[0].df < 6.0 && shared[0].value < 1e-4 * shared[1].value.max(0.01) * 100.0, "{:?}", &shared[..2]);
    }

    #[test]
    fn two_figures_have_nothing_in_common() {
        let own = [Variance { value: 0.1, df: 4.0 }, Variance { value: 0.2, df: 4.0 }];
        assert_eq!(shrunk(&own, &[vec![1.0], vec![1.0]]), own);
    }
}

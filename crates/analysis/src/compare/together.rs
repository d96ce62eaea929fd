//! How far out intervals have to go for all of them to hold together.
//!
//! Forty independent figures need what Bonferroni gives them; forty that rise and fall together with the run they are of
//! need hardly more than one. So the largest of all studentised effects is simulated as it would be without any difference:
//! numerators and residuals equally correlated by as much as the residuals of these runs are (the correlation's mean
//! square, less what so few residuals show by chance), variances moderated as those of the figures were. The quantile of
//! that maximum is the multiple of the standard error that all intervals get (simultaneous intervals by the maximum's
//! distribution: Dunnett 1955; Hothorn, Bretz, Westfall 2008, Simultaneous Inference in General Parametric Models).

use super::moderate::correlation_squared;
use crate::random::Random;

/// Simulated comparisons.
const DRAWS: usize = 10_000;
/// Figures of a simulated comparison at most: beyond, more hardly matter to the quantile of their maximum.
const FIGURES_MAX: usize = 60;
/// Degrees of freedom from which a variance is taken as known.
const KNOWN_DF: f64 = 200.0;

/// How one kind of figures of a comparison behaves.
pub(super) struct Tier<'a> {
    /// Effects.
    pub(super) count: usize,
    /// Residuals of each figure, one a run.
    pub(super) residuals: &'a [Vec<f64>],
    /// Degrees of freedom of the figures' own variances, and those lent by what they have in common.
    pub(super) own_df: f64,
    pub(super) lent_df: f64,
}

/// The multiple of the standard error that the largest of the tier's effects exceeds with this chance.
pub(super) fn multiple(tier: &Tier<'_>, chance: f64) -> f64 {
    let count = tier.count.clamp(1, FIGURES_MAX);
    let r = correlation_squared(tier.residuals, tier.own_df).sqrt();
    let (common, own) = (r.sqrt(), (1.0 - r).max(0.0).sqrt());
    let df = (tier.own_df.round() as usize).max(1);
    let is_known = tier.own_df + tier.lent_df > KNOWN_DF;
    let mut random = Random::new(count as u64 ^ (df as u64) << 8);
    let mut largest: Vec<f64> = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let shared: Vec<f64> = (0..if is_known { 1 } else { 1 + df }).map(|_| random.normal()).collect();
        let one = |random: &mut Random| {
            let mut each = shared.iter().map(|shared| common * shared + own * random.normal());
            let numerator = each.next().unwrap_or_default();
            let squares: f64 = each.map(|residual| residual * residual).sum();
            if is_known { numerator.abs() } else { numerator.abs() / ((tier.lent_df + squares) / (tier.lent_df + df as f64)).sqrt() }
        };
        largest.push((0..count).map(|_| one(&mut random)).fold(0.0, f64::max));
    }
    largest.sort_by(f64::total_cmp);
    // More effects than were drawn: as many times the chance.
    let chance = chance * count as f64 / tier.count.max(1) as f64;
    largest[(((1.0 - chance) * DRAWS as f64) as usize).min(DRAWS - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::t_quantile;

    fn tier(count: usize, residuals: &[Vec<f64>], lent_df: f64) -> Tier<'_> {
        Tier { count, residuals, own_df: 4.0, lent_df }
    }

    #[test]
    fn one_effect_is_students() {
        let found = multiple(&tier(1, &[], 0.0), 0.05);
        assert!((found / t_quantile(0.975, 4.0) - 1.0).abs() < 0.05, "{found}");
    }

    #[test]
    fn figures_that_move_together_need_little_more_than_one() {
        let residuals = vec![vec![1.0, -2.0, 1.0, 0.5, -1.0, 0.5]; 30];
        let found = multiple(&tier(30, &residuals, 0.0), 0.05);
        assert!((found / t_quantile(0.975, 4.0) - 1.0).abs() < 0.05, "{found}");
    }

    #[test]
    fn independent_ones_need_what_bonferroni_gives_them() {
        let mut random = Random::new(3);
        let residuals: Vec<Vec<f64>> = (0..30).map(|_| (0..6).map(|_| random.normal()).collect()).collect();
        let found = multiple(&tier(30, &residuals, 500.0), 0.05);
        let bonferroni = t_quantile(1.0 - 0.025 / 30.0, 504.0);
        assert!((0.93..1.03).contains(&(found / bonferroni)), "{found} {bonferroni}");
        assert!(multiple(&tier(30, &residuals, 0.0), 0.05) > 1.3 * bonferroni, "four degrees of freedom");
    }
}

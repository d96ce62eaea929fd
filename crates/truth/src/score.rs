//! How sharp intervals are, given that they must hold: the interval score of Gneiting and Raftery (2007), section 6.2,
//! on the logarithm.
//!
//! A 95 % interval costs its width plus, if it misses, 2 / 0.05 times the distance by which it misses. Wide intervals
//! that always hold cost their width, narrow ones that miss cost the penalty; the minimum is reached by the true law.
//! The *oracle* knows that law: its interval around a value comes from the 2.5 % and 97.5 % quantiles of the errors of
//! other runs of the same disk.

/// Cost of a miss, over its size: 2 / alpha.
const PENALTY: f64 = 2.0 / 0.05;

/// What one run printed: a value and the limits of its interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printed {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Score of the interval from `low` to `high`, logarithms, against `truth`.
fn of_interval(low: f64, high: f64, truth: f64) -> f64 {
    (high - low) + PENALTY * ((low - truth).max(0.0) + (truth - high).max(0.0))
}

/// Mean score of what was printed.
pub(crate) fn mean(printed: &[Printed], truth: f64) -> f64 {
    let each = printed.iter().map(|one| of_interval(one.low.ln(), one.high.ln(), truth.ln()));
    each.sum::<f64>() / printed.len() as f64
}

/// Mean score of the oracle's intervals around the same values; NaN for fewer than three runs.
///
/// Each run is judged by an interval from all other runs.
pub(crate) fn of_oracle(printed: &[Printed], truth: f64) -> f64 {
    if printed.len() < 3 {
        return f64::NAN;
    }
    let mut errors: Vec<f64> = printed.iter().map(|one| (one.value / truth).ln()).collect();
    errors.sort_by(f64::total_cmp);
    let others = (errors.len() - 1) as f64;
    // Value at a fractional place among the others, those from `left_out` on being one further.
    let other = |left_out: usize, rank: f64| {
        let place = (rank - 1.0).clamp(0.0, others - 1.0);
        let at = |place: usize| errors[if place < left_out { place } else { place + 1 }];
        let below = (place as usize).min(errors.len() - 2);
        let above = (below + 1).min(errors.len() - 2);
        at(below) + (at(above) - at(below)) * (place - below as f64)
    };
    let each = errors.iter().enumerate().map(|(left_out, error)| {
        let quantile = |q: f64| other(left_out, q * (others + 1.0));
        of_interval(error - quantile(0.975), error - quantile(0.025), 0.0)
    });
    each.sum::<f64>() / errors.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Of a normal law with standard deviation 1 the best interval costs 2 phi(1.96) / 0.025 = 4.676.
    #[test]
    fn an_oracle_of_a_normal_law_costs_what_theory_says() {
        let mut random = Random::new(5);
        let printed: Vec<Printed> = (0..4000)
            .map(|_| {
                let value = (0.1 * random.normal()).exp();
                Printed { value, low: value * (-0.4f64).exp(), high: value * 0.4f64.exp() }
            })
            .collect();
        let oracle = of_oracle(&printed, 1.0);
        assert!((oracle / 0.4676 - 1.0).abs() < 0.05, "{oracle}");
        // Twice as wide as necessary, and hardly a miss.
        let wide = mean(&printed, 1.0);
        assert!((wide / oracle - 0.8 / 0.4676).abs() < 0.1, "{wide} {oracle}");
    }

    #[test]
    fn a_miss_costs_forty_times_its_size() {
        assert!((of_interval(0.0, 0.1, 0.05) - 0.1).abs() < 1e-12);
        assert!((of_interval(0.0, 0.1, 0.2) - 4.1).abs() < 1e-12);
        assert!((of_interval(0.0, 0.1, -0.1) - 4.1).abs() < 1e-12);
    }

    /// An oracle that had seen the run it is judged by would cover even the most extreme one.
    #[test]
    fn an_oracle_is_not_judged_on_what_it_saw() {
        let printed: Vec<Printed> =
            [1.0, 1.0, 1.0, 1.0, 2.0].map(|value| Printed { value, low: value, high: value }).to_vec();
        let misses = PENALTY * 2.0f64.ln();
        assert!(of_oracle(&printed, 1.0) > misses / 5.0);
    }
}

//! Several ways of doing one thing, compared in rounds: each round has every way once, in a new random order, and what
//! changes from round to round is common to all ways in a round (a randomised complete block design).
//!
//! All calculations use logarithms, since differences are factors. Over the rounds a figure is their geometric mean.
//! Two ways are compared round by round, by Student's t of the differences; no interval is narrower than the intervals
//! from within the rounds allow, so a few rounds that happen to agree prove nothing. Among many comparisons, some would
//! differ by chance: Holm's bound applies to them (1979), which keeps a false one out of 19 tables in 20.

use qd1_model::Estimate;
use qd1_model::filesystems::RoundFigure;
use qd1_model::metric::Better;

use crate::{Z_975, sigma, t_975, t_beyond};

/// Chance of any false difference in a whole table.
const ALPHA: f64 = 0.05;

/// A figure of one way in every round.
pub type Rounds = [RoundFigure];

/// Two ways compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The first divided by the second.
    pub ratio: Estimate,
    /// Chance of a difference this large if there is none; 1 if unknown.
    pub p: f64,
}

/// The figure over all rounds; not resolved if it is not resolved in one of them.
pub fn over_rounds(rounds: &Rounds) -> Estimate {
    let n = rounds.iter().map(|round| round.figure.n).sum();
    let n_needed = rounds.iter().map(|round| round.figure.n_needed).max().unwrap_or(0);
    let none = Estimate { n, n_needed, n_effective: 0.0, ..Estimate::default() };
    let Some(logs) = rounds.iter().map(|round| log(&round.figure)).collect::<Option<Vec<_>>>() else { return none };
    match logs.as_slice() {
        [] => none,
        [_] => Estimate { n_effective: 1.0, ..rounds[0].figure },
        _ => {
            let within = rounds.iter().map(|round| sigma(&round.figure)).collect::<Option<Vec<_>>>();
            let mean = Mean::of(&logs, within.as_deref());
            mean.estimate(n)
        }
    }
}

/// A figure over several runs, those that resolve it; a single one unchanged.
pub fn over_runs(figures: &[Estimate]) -> Estimate {
    let round = |figure: &Estimate| RoundFigure { round: 0, figure: *figure };
    let resolved: Vec<RoundFigure> = figures.iter().filter(|figure| figure.is_resolved()).map(round).collect();
    match (resolved.as_slice(), figures) {
        ([only], _) => only.figure,
        ([], [only]) => *only,
        ([], _) => over_rounds(&figures.iter().map(round).collect::<Vec<_>>()),
        _ => over_rounds(&resolved),
    }
}

/// `a` divided by `b`, from the rounds that have both.
pub fn pair(a: &Rounds, b: &Rounds) -> Pair {
    let both = a.iter().filter_map(|one| {
        let other = b.iter().find(|other| other.round == one.round)?;
        let spread = sigma(&one.figure).zip(sigma(&other.figure)).map(|(one, other)| one.hypot(other));
        Some((log(&one.figure)? - log(&other.figure)?, spread))
    });
    let (differences, within): (Vec<f64>, Vec<Option<f64>>) = both.unzip();
    if differences.len() < 2 {
        return Pair { ratio: Estimate::default(), p: 1.0 };
    }
    let within = within.into_iter().collect::<Option<Vec<_>>>();
    let mean = Mean::of(&differences, within.as_deref());
    Pair { ratio: mean.estimate(differences.len() as u64), p: mean.p() }
}

/// Returns which comparisons with these p-values are significant, all of them taken together (Holm).
pub fn significant(chances: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut stands = vec![false; chances.len()];
    for (done, at) in order.into_iter().enumerate() {
        if chances[at] > ALPHA / (chances.len() - done) as f64 {
            break;
        }
        stands[at] = true;
    }
    stands
}

/// Whether the first of a ratio is the better one.
pub fn is_better(ratio: f64, better: Better) -> bool {
    match better {
        Better::Lower => ratio < 1.0,
        Better::Higher => ratio > 1.0,
    }
}

fn log(figure: &Estimate) -> Option<f64> {
    figure.value.filter(|value| *value > 0.0).map(f64::ln)
}

/// The mean of logarithms.
struct Mean {
    mean: f64,
    /// Standard error from the differences between rounds, with its degrees of freedom.
    between: f64,
    df: f64,
    /// Standard error from within the rounds.
    within: f64,
    count: f64,
}

impl Mean {
    /// From at least two.
    fn of(logs: &[f64], within: Option<&[f64]>) -> Self {
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let between = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0) / count).sqrt();
        let within = within.map_or(0.0, |all| all.iter().map(|sigma| sigma * sigma).sum::<f64>().sqrt() / count);
        Self { mean, between, df: count - 1.0, within, count }
    }

    fn estimate(&self, n: u64) -> Estimate {
        let half = (t_975(self.df) * self.between).max(Z_975 * self.within);
        Estimate {
            value: Some(self.mean.exp()),
            low: Some((self.mean - half).exp()),
            high: Some((self.mean + half).exp()),
            n,
            n_effective: self.count,
            n_needed: 0,
        }
    }

    /// Chance of a mean this far from 0.
    fn p(&self) -> f64 {
        let error = self.between.max(self.within);
        match (self.mean == 0.0, error > 0.0) {
            (true, _) => 1.0,
            (false, true) => t_beyond(self.mean / error, self.df),
            (false, false) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use proptest::prelude::*;

    fn rounds(values: &[f64], spread: f64) -> Vec<RoundFigure> {
        let one = |(at, value): (usize, &f64)| RoundFigure {
            round: at as u32 + 1,
            figure: Estimate {
                value: Some(*value),
                low: Some(value / (1.0 + spread)),
                high: Some(value * (1.0 + spread)),
                n: 100,
                n_effective: 100.0,
                n_needed: 0,
            },
        };
        values.iter().enumerate().map(one).collect()
    }

    #[test]
    fn the_mean_over_rounds_is_geometric_and_its_interval_students() {
        let over = over_rounds(&rounds(&[100.0, 400.0], 0.01));
        assert!((over.value.unwrap() - 200.0).abs() < 1e-9);
        // Two rounds: t is 12.7, the standard error ln 2.
        assert!((over.high.unwrap() / 200.0 - (12.706_f64 * 2.0_f64.ln()).exp()).abs() < 2.0, "{over:?}");
        assert_eq!((over.n, over.n_effective), (200, 2.0));
    }

    #[test]
    fn rounds_that_happen_to_agree_are_no_surer_than_each_of_them() {
        let over = over_rounds(&rounds(&[100.0; 4], 0.2));
        assert!(over.high.unwrap() > 108.0, "{over:?}");
        assert!(pair(&rounds(&[100.0; 4], 0.2), &rounds(&[104.0; 4], 0.2)).p > 0.3);
    }

    #[test]
    fn a_figure_that_one_round_does_not_resolve_is_not_resolved() {
        let mut some = rounds(&[100.0, 100.0, 100.0], 0.01);
        some[1].figure = Estimate { n: 20, n_needed: 368, ..Estimate::default() };
        let over = over_rounds(&some);
        assert_eq!((over.value, over.n_needed, over.n), (None, 368, 220));
        // The other two can still be compared.
        assert!(pair(&some, &rounds(&[200.0, 1.0, 200.1], 0.01)).p < 0.05);
    }

    #[test]
    fn changes_between_rounds_do_not_hide_differences_within_them() {
        let (slow, fast) = (rounds(&[220.0, 440.0, 108.0, 880.0], 0.02), rounds(&[200.0, 400.0, 100.0, 800.0], 0.02));
        let found = pair(&slow, &fast);
        assert!(found.p < 0.01 && (found.ratio.value.unwrap() - 1.095).abs() < 0.01, "{found:?}");
        assert!(!is_better(found.ratio.value.unwrap(), Better::Lower));
        // Each alone shows nothing: the intervals overlap widely.
        assert!(over_rounds(&slow).low < over_rounds(&fast).high);
    }

    #[test]
    fn one_round_compares_nothing() {
        assert_eq!(pair(&rounds(&[1.0], 0.1), &rounds(&[9.0], 0.1)).p, 1.0);
    }

    #[test]
    fn of_many_comparisons_only_the_sure_ones_stand() {
        assert_eq!(significant(&[0.04, 0.9, 0.001]), [false, false, true]);
        assert_eq!(significant(&[0.04]), [true]);
        assert_eq!(significant(&[]), Vec::<bool>::new());
    }

    #[test]
    fn equal_ways_differ_in_at_most_one_table_in_twenty() {
        let (tables, ways, figures, count) = (400, 3, 8, 5);
        let mut random = Random::new(5);
        let mut wrong = 0;
        for _ in 0..tables {
            let mut chances = Vec::new();
            for _ in 0..figures {
                let shared: Vec<f64> = (0..count).map(|_| random.normal()).collect();
                let of: Vec<Vec<RoundFigure>> = (0..ways)
                    .map(|_| {
                        let values: Vec<f64> =
                            shared.iter().map(|round| (0.5 * round + 0.1 * random.normal()).exp()).collect();
                        rounds(&values, 0.01)
                    })
                    .collect();
                chances
                    .extend((1..ways).flat_map(|a| (0..a).map(move |b| (a, b))).map(|(a, b)| pair(&of[a], &of[b]).p));
            }
            wrong += u32::from(significant(&chances).contains(&true));
        }
        assert!(wrong <= tables / 20 + 8, "{wrong} of {tables}");
    }

    proptest! {
        #[test]
        fn a_pair_the_other_way_round_is_the_inverse(
            a in prop::collection::vec(1.0..1e6f64, 3..6), b in prop::collection::vec(1.0..1e6f64, 3..6)
        ) {
            let (there, back) = (pair(&rounds(&a, 0.1), &rounds(&b, 0.1)), pair(&rounds(&b, 0.1), &rounds(&a, 0.1)));
            prop_assert!((there.ratio.value.unwrap() * back.ratio.value.unwrap() - 1.0).abs() < 1e-9);
            prop_assert!((there.p - back.p).abs() < 1e-9);
        }
    }
}

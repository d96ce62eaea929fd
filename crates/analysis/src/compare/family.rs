//! Which figures decide, and how many of them may be called better or worse by chance.
//!
//! Looking at a hundred figures finds five differences by chance, and allowing for a hundred finds nothing. So a dozen
//! *primary* figures are tested first, by Holm's procedure (1979, A Simple Sequentially Rejective Multiple Test
//! Procedure): in 95 of 100 comparisons of equal sides no figure is said to differ. Each has a weight, its share of the
//! 5 %, and a figure found to differ passes its share on to the others. Figures of several runs, which rise and fall
//! together, share theirs: the farthest of them is compared with the farthest of simulated comparisons
//! (`simultaneous.rs`), then the farthest of the rest. All other figures are *exploratory*: on average, one in twenty
//! of those said to differ does so by chance (Benjamini and Hochberg 1995, whose procedure is valid if figures rise and
//! fall together, as Benjamini and Yekutieli 2001 showed). Their intervals allow for having been chosen (Benjamini and
//! Yekutieli 2005, False Discovery Rate-Adjusted Multiple Confidence Intervals).

use qd1_model::OpClass;
use qd1_model::comparison::Row;
use qd1_model::order::Order as _;

use super::effects::{Figures, Spread, Width};
use super::simultaneous::{Draws, Figure, are_few};

/// Chance of any false "better" or "worse" among the primary figures of equal sides.
pub(super) const FAMILY_WISE: f64 = 0.05;
/// Share of false ones among the exploratory discoveries, on average.
pub(super) const DISCOVERY: f64 = 0.05;

/// The figures that decide: with the whole (`overall.rs`), a dozen.
const PRIMARY: [(&str, OpClass, &str); 11] = [
    ("qd1", OpClass::Read, "lat_p50_ns"),
    ("qd1", OpClass::Read, "lat_p99_ns"),
    ("qd1", OpClass::Read, "lat_p999_ns"),
    ("qd1", OpClass::Write, "lat_p50_ns"),
    ("commit1", OpClass::Commit, "lat_p50_ns"),
    ("commit1", OpClass::Commit, "lat_p99_ns"),
    ("wal", OpClass::Commit, "sync_p99_ns"),
    ("read32", OpClass::Read, "iops"),
    ("write32", OpClass::Write, "iops"),
    ("seqread", OpClass::Read, "bytes_per_second"),
    ("seqwrite", OpClass::Write, "bytes_per_second"),
];

/// Marks the figures that decide: those of `check`, or, for other suites, those that users of a step notice first.
pub(super) fn mark(rows: &mut [(Row, Figures)]) {
    let is_named = |row: &Row| PRIMARY.contains(&(row.step.as_str(), row.op, row.metric.as_str()));
    let has_any = rows.iter().any(|(row, _)| is_named(row));
    rows.iter_mut().for_each(|(row, _)| row.is_primary = if has_any { is_named(row) } else { row.leads });
}

/// One figure of one side, compared with the first.
pub(super) struct Test {
    /// Its share of the error rate.
    pub(super) weight: f64,
    /// Its own chance that equal sides would be this far apart; 1 if unknown.
    pub(super) chance: f64,
    /// For a figure compared with simulated comparisons: its number in them, and its distance in standard errors.
    pub(super) drawn: Option<(usize, f64)>,
}

/// The result of Holm's procedure.
pub(super) struct Told {
    /// Which figures differ.
    pub(super) differs: Vec<bool>,
    /// How wide each interval is for all of them to hold together.
    pub(super) widths: Vec<Width>,
}

/// Tests the primary figures; `df` are the degrees of freedom of those in `draws`.
pub(super) fn holm(tests: &[Test], draws: Option<(&Draws, f64)>) -> Told {
    let mut differs = vec![false; tests.len()];
    let mut widths = None;
    let weight = |of: &dyn Fn(&Test) -> bool| tests.iter().filter(|test| of(test)).map(|test| test.weight).sum::<f64>();
    let of_drawn = weight(&|test| test.drawn.is_some());
    loop {
        let left: Vec<usize> = (0..tests.len()).filter(|at| !differs[*at]).collect();
        let mut members: Vec<usize> = left.iter().filter_map(|at| Some(tests[*at].drawn?.0)).collect();
        members.dedup();
        // Figures compared with simulated comparisons keep their share until all of them are rejected.
        let alone: f64 =
            left.iter().map(|at| &tests[*at]).filter(|test| test.drawn.is_none()).map(|test| test.weight).sum();
        let total = alone + if members.is_empty() { 0.0 } else { of_drawn };
        let drawn_level = FAMILY_WISE * of_drawn / total;
        let multiple = match draws {
            Some((draws, _)) if !members.is_empty() => draws.multiple(&members, drawn_level),
            _ => f64::INFINITY,
        };
        let level = |test: &Test| FAMILY_WISE * test.weight / total;
        widths.get_or_insert_with(|| {
            let width = |test: &Test| match (test.drawn, draws) {
                (Some(_), Some((_, df))) => {
                    Width { chance: drawn_level / members.len() as f64, together: Some((multiple, df)) }
                }
                _ => Width::alone(level(test)),
            };
            tests.iter().map(width).collect::<Vec<Width>>()
        });
        let is_told = |test: &Test| match test.drawn {
            Some((_, errors)) => errors > multiple,
            None => test.chance <= level(test),
        };
        let told: Vec<usize> = left.into_iter().filter(|at| is_told(&tests[*at])).collect();
        if told.is_empty() {
            return Told { differs, widths: widths.unwrap_or_default() };
        }
        told.into_iter().for_each(|at| differs[at] = true);
    }
}

/// Which of these chances are discoveries, and the chance with which each interval may be wrong: that of the last
/// discovery.
pub(super) fn discoveries(chances: &[f64]) -> (Vec<bool>, f64) {
    let mut sorted: Vec<f64> = chances.to_vec();
    sorted.order_by(f64::total_cmp);
    let level = |rank: usize| DISCOVERY * rank as f64 / chances.len().max(1) as f64;
    let found = (1..=sorted.len()).rev().find(|rank| sorted[rank - 1] <= level(*rank)).unwrap_or(0);
    let level = level(found.max(1));
    (chances.iter().map(|chance| found > 0 && *chance <= level).collect(), level)
}

/// Simulated comparisons like this one, of the rows that every run of every side has; with each row's number in them
/// and the degrees of freedom. `None` if no side has several runs, or there are too many to simulate.
pub(super) struct MadeUp {
    pub(super) draws: Draws,
    pub(super) numbers: Vec<Option<usize>>,
    pub(super) df: f64,
}

impl MadeUp {
    pub(super) fn of(rows: &[(Row, Figures)], spreads: &[Option<Spread>]) -> Option<Self> {
        let runs = rows.iter().map(|(_, figures)| figures.runs()).max_by_key(|runs| runs.iter().sum::<usize>())?;
        let mut numbers = vec![None; rows.len()];
        let (mut figures, mut df): (Vec<Figure<'_>>, f64) = (Vec::new(), 0.0);
        for (at, ((row, of), spread)) in rows.iter().zip(spreads).enumerate() {
            let Some(spread) = spread.filter(|_| of.is_whole() && of.runs() == runs) else { continue };
            numbers[at] = Some(figures.len());
            df += spread.df;
            let residuals = of.residuals();
            figures.push(Figure { metric: &row.metric, sigma: spread.value.sqrt(), residuals });
        }
        if figures.is_empty() || !are_few(figures.len(), runs.iter().sum()) {
            return None;
        }
        Some(Self { df: df / figures.len() as f64, draws: Draws::new(&figures, runs), numbers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests_of(chances: &[f64], weights: &[f64]) -> Vec<Test> {
        let test = |(chance, weight): (&f64, &f64)| Test { weight: *weight, chance: *chance, drawn: None };
        chances.iter().zip(weights).map(test).collect()
    }

    #[test]
    fn holm_leaves_what_was_told_to_the_others() {
        // Four figures: the smallest has to be below 0.05 / 4 = 0.0125, the next to 0.05 / 3 = 0.0167, the next to
        // 0.025, where it ends.
        let told = holm(&tests_of(&[0.015, 0.9, 0.012, 0.03], &[1.0; 4]), None);
        assert_eq!(told.differs, [true, false, true, false]);
        // The same without the smallest: 0.015 is not below 0.0125, so nothing is rejected.
        assert_eq!(holm(&tests_of(&[0.015, 0.9, 0.013, 0.03], &[1.0; 4]), None).differs, [false; 4]);
        assert!(told.widths.iter().all(|width| (width.chance - 0.0125).abs() < 1e-12), "Bonferroni's hold together");
    }

    #[test]
    fn a_weight_is_a_share_of_what_may_be_wrong() {
        // 0.6 of 0.05 is 0.03, 0.2 of it 0.01; once the first is rejected, each of the others has 0.025, and then 0.05.
        let differs = |chances: [f64; 3]| holm(&tests_of(&chances, &[0.6, 0.2, 0.2]), None).differs;
        assert_eq!(differs([0.029, 0.024, 0.049]), [true, true, true]);
        assert_eq!(differs([0.031, 0.024, 0.049]), [false, false, false]);
        assert_eq!(differs([0.031, 0.009, 0.2]), [true, true, false], "0.05 x 0.6 / 0.8 = 0.0375");
    }

    #[test]
    fn discoveries_are_benjaminis_and_hochbergs() {
        // The example of their paper (1995, section 3.2): 15 chances, of which Bonferroni's finds three and this four.
        let chances = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
            0.7590, 1.0,
        ];
        let (found, level) = discoveries(&chances);
        assert_eq!(found.iter().filter(|found| **found).count(), 4);
        assert!(found[..4].iter().all(|found| *found));
        assert!((level - 0.05 * 4.0 / 15.0).abs() < 1e-12);
        let (none, level) = discoveries(&[0.04, 0.6]);
        assert!(none == [false, false] && (level - 0.025).abs() < 1e-12);
        assert!(discoveries(&[]).0.is_empty());
    }

    #[test]
    fn figures_that_move_together_are_held_against_the_farthest() {
        let residuals = vec![1.0, -2.0, 1.0, 0.5, -1.0, 0.5];
        let figure = || Figure { metric: "p50", sigma: 0.05, residuals: residuals.clone() };
        let draws = Draws::new(&(0..8).map(|_| figure()).collect::<Vec<_>>(), &[3, 3]);
        let alone = draws.multiple(&[0], FAMILY_WISE);
        let test = |at: usize| Test { weight: 1.0, chance: 1.0, drawn: Some((at, 1.35 * alone)) };
        let told = holm(&(0..8).map(test).collect::<Vec<_>>(), Some((&draws, 4.0)));
        assert!(told.differs.iter().all(|differs| *differs), "eight that are as one need hardly more than one");
    }
}

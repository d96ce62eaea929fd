//! The ratio of two sides with its interval.
//!
//! All is done on logarithms. Where sides have several runs, runs scatter by a variance that is pooled over the sides and
//! drawn towards that of the other figures (`moderate.rs`), and the difference of two means is a Student's t. Where they have
//! one run each, the limits of both figures are put together by their distances from the values (MOVER: Zou and Donner 2008,
//! Construction of confidence limits about effect measures), stretched from 95 % to what all effects together need (Bonferroni)
//! as a Student's t would with as many degrees of freedom as a run has stretches to tell its level from, about.

use qd1_model::Estimate;
use qd1_model::comparison::{Basis, Effect, FOUND, Word};
use qd1_model::metric::Better;

use super::moderate::{Variance, moderated};
use super::together::{Figure, are_few, multiples};
use crate::stats::{Z_975, t_quantile};

/// Degrees of freedom of an interval within a run.
const WITHIN_DF: f64 = 60.0;
/// The widest interval that is called "the same", and the one that is called so although it does not hold 1.
const SAME_MAX: f64 = 0.1;
const SAME_ALWAYS: f64 = 0.02;
/// The latter of single runs, which differ by some percent on any disk.
const SAME_OF_SINGLE: f64 = 0.05;
/// Degrees of freedom of the spread between runs from which the intervals within them are no bound to it.
const TRUSTED_DF: f64 = 12.0;
/// Chances from which a multiple of a standard error is carried over to other degrees of freedom.
const CARRIED: f64 = 0.001;
/// Least variance between runs: that of half a percent. Equal figures are rounded ones.
const VARIANCE_MIN: f64 = 2.5e-5;
/// Runs that are thought of at most.
const RUNS_MAX: u32 = 100;

/// The logarithms of one figure on every side.
pub(super) struct Figures {
    sides: Vec<Vec<Log>>,
    /// Runs of each side, those that did not resolve it included.
    runs: Vec<usize>,
    /// Whether it is the mean of many.
    is_mean: bool,
    /// Whether a run of each side was spoilt.
    is_spoiled: Vec<bool>,
}

/// A figure of one run.
#[derive(Clone, Copy, Debug)]
struct Log {
    value: f64,
    /// Standard deviations downwards and upwards, where there is an interval.
    down: Option<f64>,
    up: Option<f64>,
}

impl Log {
    fn of(figure: &Estimate) -> Option<Self> {
        let value = figure.value.filter(|value| *value > 0.0)?;
        let down = figure.low.filter(|low| *low > 0.0).map(|low| (value / low).ln().max(0.0) / Z_975);
        let up = figure.high.map(|high| (high / value).ln().max(0.0) / Z_975);
        Some(Self { value: value.ln(), down, up })
    }

    /// It, or its inverse.
    fn turned(self, sign: f64) -> Self {
        if sign > 0.0 { self } else { Self { value: -self.value, down: self.up, up: self.down } }
    }

    /// Variance, the larger way.
    fn within(&self) -> Option<f64> {
        self.down.zip(self.up).map(|(down, up)| down.max(up).powi(2))
    }
}

/// How runs scatter in one figure.
pub(super) type Spread = Variance;

/// How wide an interval is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Width {
    /// The chance that it may be wrong with, by itself.
    pub(super) chance: f64,
    /// The multiple of the standard error that all of its kind need together, and the degrees of freedom that this is for;
    /// absent where their chance says it all.
    pub(super) together: Option<(f64, f64)>,
}

impl Width {
    pub(super) const fn alone(chance: f64) -> Self {
        Self { chance, together: None }
    }

    /// The multiple of a standard error that is known with `df` degrees of freedom.
    fn multiple(self, df: f64) -> f64 {
        match self.together {
            None => t_quantile(1.0 - self.chance / 2.0, df),
            // Of a figure that fewer runs have.
            Some((multiple, of_df)) if df < of_df - 0.5 => {
                multiple * t_quantile(1.0 - CARRIED, df) / t_quantile(1.0 - CARRIED, of_df)
            }
            Some((multiple, _)) => multiple,
        }
    }
}

/// The widths of intervals of leading figures and of all others that hold together but for these chances, of `others` sides
/// against the first. Each figure has its metric, and whether it leads. Of too many to be repeated, Bonferroni's.
pub(super) fn widths(of: &[(&str, bool, &Figures, Option<&Spread>)], others: usize, chances: [f64; 2]) -> [Width; 2] {
    let count = |leads: bool| of.iter().filter(|row| row.1 == leads).count() * others;
    let mut widths = [true, false].map(|leads| Width::alone(chances[usize::from(!leads)] / count(leads).max(1) as f64));
    let Some(runs) = of.iter().map(|row| &row.2.runs).max_by_key(|runs| runs.iter().sum::<usize>()) else {
        return widths;
    };
    let figures: Vec<(Figure<'_>, f64)> = of
        .iter()
        .filter(|(_, _, figures, _)| figures.is_whole() && figures.runs == *runs)
        .filter_map(|(metric, leads, figures, spread)| {
            let spread = (*spread)?;
            let residuals = figures.residuals();
            Some((Figure { metric, leads: *leads, sigma: spread.value.sqrt(), residuals }, spread.df))
        })
        .collect();
    if figures.is_empty() || !are_few(figures.len(), runs.iter().sum()) {
        return widths;
    }
    let (figures, dfs): (Vec<Figure<'_>>, Vec<f64>) = figures.into_iter().unzip();
    let df = dfs.iter().sum::<f64>() / dfs.len() as f64;
    for (width, multiple) in widths.iter_mut().zip(multiples(&figures, runs, chances)) {
        width.together = (multiple > 0.0).then_some((multiple, df));
    }
    widths
}

impl Figures {
    /// Of the estimates of every side's runs; those that are not resolved count for nothing.
    pub(super) fn new(sides: &[Vec<Estimate>], is_spoiled: Vec<bool>) -> Self {
        let logs = sides.iter().map(|runs| {
            // What is nothing has no logarithm, and the others alone would not speak for the side; nor would a minority.
            let is_nothing = |figure: &Estimate| figure.value.is_some_and(|value| value <= 0.0);
            let logs: Vec<Log> = runs.iter().filter_map(Log::of).collect();
            let speaks = !runs.iter().any(is_nothing) && 2 * logs.len() >= runs.len();
            if speaks { logs } else { Vec::new() }
        });
        Self { sides: logs.collect(), runs: sides.iter().map(Vec::len).collect(), is_mean: false, is_spoiled }
    }

    /// Whether every side has it of all its runs.
    pub(super) fn is_whole(&self) -> bool {
        self.sides.iter().zip(&self.runs).all(|(side, runs)| side.len() == *runs && *runs > 0)
    }

    /// How many runs each side has.
    pub(super) fn runs(&self) -> &[usize] {
        &self.runs
    }

    /// The mean of several figures run by run, each times its sign. Intervals are averaged: what moves one may move all.
    pub(super) fn mean_of(figures: &[(&Self, f64)]) -> Self {
        let count = figures.len() as f64;
        let log = |side: usize, run: usize| {
            let logs = figures.iter().map(|(figures, sign)| figures.sides[side][run].turned(*sign));
            logs.fold(Log { value: 0.0, down: Some(0.0), up: Some(0.0) }, |sum, log| Log {
                value: sum.value + log.value / count,
                down: sum.down.zip(log.down).map(|(sum, down)| sum + down / count),
                up: sum.up.zip(log.up).map(|(sum, up)| sum + up / count),
            })
        };
        let runs = figures[0].0.runs.clone();
        let sides =
            runs.iter().enumerate().map(|(side, runs)| (0..*runs).map(|run| log(side, run)).collect()).collect();
        let is_spoiled = vec![false; runs.len()];
        Self { sides, runs, is_mean: true, is_spoiled }
    }

    /// The variance between runs by itself; `None` where no side has two.
    pub(super) fn between(&self) -> Option<Variance> {
        let df: usize = self.sides.iter().map(|side| side.len().saturating_sub(1)).sum();
        let squares: f64 = self.residuals().iter().map(|residual| residual * residual).sum();
        (df > 0).then(|| Variance { value: (squares / df as f64).max(VARIANCE_MIN), df: df as f64 })
    }

    fn residuals(&self) -> Vec<f64> {
        let of_side = |side: &Vec<Log>| {
            let mean = mean(side);
            side.iter().map(move |log| log.value - mean).collect::<Vec<_>>()
        };
        self.sides.iter().flat_map(of_side).collect()
    }

    /// Whether something else spoilt a run of the first side or of this one, and no repeats say how much of a difference that
    /// makes.
    pub(super) fn is_lost(&self, side: usize, spread: Option<&Spread>) -> bool {
        self.is_spoiled(0, spread) || self.is_spoiled(side, spread)
    }

    /// Whether something else spoilt a run of this side, and no repeats say how much of a difference that makes.
    pub(super) fn is_spoiled(&self, side: usize, spread: Option<&Spread>) -> bool {
        spread.is_none() && self.is_spoiled[side]
    }

    /// Mean of the variances within runs, where all have one.
    fn within(&self) -> Option<f64> {
        let all: Vec<f64> = self.sides.iter().flatten().map(Log::within).collect::<Option<_>>()?;
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// `side` over the first one, with an interval of this width.
    pub(super) fn ratio(&self, side: usize, spread: Option<&Spread>, width: Width) -> Estimate {
        let (first, other) = (&self.sides[0], &self.sides[side]);
        let runs = (first.len() + other.len()) as u64;
        if first.is_empty() || other.is_empty() {
            return Estimate { n: runs, ..Estimate::default() };
        }
        let difference = mean(other) - mean(first);
        let (down, up) = match spread {
            Some(spread) => {
                let share = 1.0 / first.len() as f64 + 1.0 / other.len() as f64;
                let half = self.half_width(spread, share, width);
                (Some(half), Some(half))
            }
            None => {
                let factor = t_quantile(1.0 - width.chance / 2.0, WITHIN_DF);
                let apart = |one: Option<f64>, two: Option<f64>| one.zip(two).map(|(one, two)| factor * one.hypot(two));
                (apart(other[0].down, first[0].up), apart(other[0].up, first[0].down))
            }
        };
        Estimate {
            value: Some(difference.exp()),
            low: down.map(|down| (difference - down).exp()),
            high: up.map(|up| (difference + up).exp()),
            n: runs,
            n_effective: spread.map_or(runs as f64, |spread| spread.df),
            n_needed: 0,
        }
    }

    /// The figure of a side by itself, with an interval of this width.
    pub(super) fn level(&self, side: usize, spread: Option<&Spread>, width: Width) -> Estimate {
        let (logs, n) = (&self.sides[side], self.runs[side] as u64);
        let Some(only) = logs.first() else { return Estimate { n, ..Estimate::default() } };
        let level = mean(logs);
        let (down, up) = match spread {
            Some(spread) => {
                let half = self.half_width(spread, 1.0 / logs.len() as f64, width);
                (Some(half), Some(half))
            }
            None => {
                let factor = t_quantile(1.0 - width.chance / 2.0, WITHIN_DF);
                (only.down.map(|down| factor * down), only.up.map(|up| factor * up))
            }
        };
        Estimate {
            value: Some(level.exp()),
            low: down.map(|down| (level - down).exp()),
            high: up.map(|up| (level + up).exp()),
            n,
            n_effective: spread.map_or(n as f64, |spread| spread.df),
            n_needed: 0,
        }
    }

    /// Half of an interval, of a mean or a difference of means whose variance is this share of that of a run.
    fn half_width(&self, spread: &Spread, share: f64, width: Width) -> f64 {
        let between = width.multiple(spread.df) * (spread.value * share).sqrt();
        // A few runs in two states of a disk may happen to agree; the mean of many figures has no such states.
        let is_single = !self.is_mean && spread.df < TRUSTED_DF;
        let within = self.within().filter(|_| is_single).unwrap_or(0.0);
        between.max(Z_975 * (within * share).sqrt())
    }

    /// The runs of each side that would find a difference of [`FOUND`], at least two.
    pub(super) fn runs_needed(&self, spread: Option<&Spread>, width: Width) -> Option<u32> {
        let (value, more) = match (spread, self.between()) {
            (Some(spread), Some(own)) => (spread.value, spread.df - own.df),
            _ => (self.within()?, 0.0),
        };
        let found = |runs: &u32| {
            let runs = f64::from(*runs);
            width.multiple(2.0 * (runs - 1.0) + more) * (2.0 * value / runs).sqrt() <= (1.0 + FOUND).ln()
        };
        Some((2..RUNS_MAX).find(found).unwrap_or(RUNS_MAX))
    }
}

fn mean(side: &[Log]) -> f64 {
    side.iter().map(|log| log.value).sum::<f64>() / side.len().max(1) as f64
}

/// How runs scatter in each figure, figures of one metric together; `None` where no side has two runs.
pub(super) fn spreads(rows: &[(&str, &Figures)]) -> Vec<Option<Spread>> {
    let own: Vec<Option<Variance>> = rows.iter().map(|(_, figures)| figures.between()).collect();
    let mut found = own.clone();
    let mut metrics: Vec<&str> = rows.iter().map(|(metric, _)| *metric).collect();
    metrics.sort_unstable();
    metrics.dedup();
    for metric in metrics {
        let of: Vec<usize> = (0..rows.len()).filter(|at| rows[*at].0 == metric && own[*at].is_some()).collect();
        let variances: Vec<Variance> = of.iter().filter_map(|at| own[*at]).collect();
        let residuals: Vec<Vec<f64>> = of.iter().map(|at| rows[*at].1.residuals()).collect();
        for (at, variance) in of.into_iter().zip(moderated(&variances, &residuals)) {
            found[at] = Some(variance);
        }
    }
    found
}

/// The word for a ratio, of several runs of a side or of single ones.
pub(super) fn conclude(ratio: Estimate, better: Better, basis: Basis) -> Effect {
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
        return Effect { ratio, ..Effect::default() };
    };
    let within = (high - 1.0).max(1.0 - low);
    let is_apart = low > 1.0 || high < 1.0;
    let negligible = if basis == Basis::Runs { SAME_ALWAYS } else { SAME_OF_SINGLE };
    match is_apart {
        true if within > negligible => Effect { ratio, word: Word::of(low > 1.0, better), ..Effect::default() },
        _ if within <= SAME_MAX => Effect { ratio, word: Word::Same, within: Some(within), ..Effect::default() },
        _ => Effect { ratio, ..Effect::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(sides: &[Vec<Estimate>]) -> Figures {
        Figures::new(sides, vec![false; sides.len()])
    }

    fn figure(value: f64, spread: f64) -> Estimate {
        let (low, high) = (Some(value / (1.0 + spread)), Some(value * (1.0 + spread)));
        Estimate { value: Some(value), low, high, n: 100, ..Estimate::default() }
    }

    #[test]
    fn words_follow_the_interval_and_the_better_direction() {
        let of = |low, high, better| {
            let ratio = Estimate { value: Some(1.0), low: Some(low), high: Some(high), ..Estimate::default() };
            conclude(ratio, better, Basis::Runs)
        };
        assert_eq!(of(1.1, 1.3, Better::Lower).word, Word::Worse);
        assert_eq!(of(1.1, 1.3, Better::Higher).word, Word::Better);
        assert_eq!(of(0.7, 0.9, Better::Lower).word, Word::Better);
        assert_eq!(of(0.9, 1.2, Better::Lower).word, Word::CannotTell);
        let same = of(0.96, 1.03, Better::Lower);
        assert!(same.word == Word::Same && (same.within.unwrap() - 0.04).abs() < 1e-9);
        assert_eq!(of(1.004, 1.012, Better::Lower).word, Word::Same, "nobody cares for a percent");
    }

    #[test]
    fn single_runs_are_apart_by_their_own_intervals() {
        let figures = new(&[vec![figure(100.0, 0.02)], vec![figure(150.0, 0.02)], vec![figure(101.0, 0.02)]]);
        assert!(figures.between().is_none());
        let far = figures.ratio(1, None, Width::alone(0.001));
        assert!(far.low.unwrap() > 1.3 && (far.value.unwrap() - 1.5).abs() < 1e-9, "{far:?}");
        let near = figures.ratio(2, None, Width::alone(0.001));
        assert!(near.low.unwrap() < 1.0 && near.high.unwrap() > 1.0, "{near:?}");
        // The fewer may be wrong, the wider.
        assert!(figures.ratio(1, None, Width::alone(1e-5)).low < far.low);
    }

    #[test]
    fn runs_that_scatter_hide_what_single_ones_seemed_to_show() {
        let side = |values: &[f64]| values.iter().map(|value| figure(*value, 0.001)).collect::<Vec<_>>();
        let figures = new(&[side(&[100.0, 130.0, 80.0]), side(&[120.0, 90.0, 150.0])]);
        let spreads = spreads(&[("lat_p50_ns", &figures)]);
        let ratio = figures.ratio(1, spreads[0].as_ref(), Width::alone(0.05));
        assert_eq!(conclude(ratio, Better::Lower, Basis::Runs).word, Word::CannotTell, "{ratio:?}");
        assert!(figures.runs_needed(spreads[0].as_ref(), Width::alone(0.05)).unwrap() > 10);
    }

    #[test]
    fn what_one_side_did_not_resolve_cannot_be_told() {
        let figures = new(&[vec![figure(100.0, 0.02)], vec![Estimate { n: 10, n_needed: 368, ..Estimate::default() }]]);
        assert_eq!(
            conclude(figures.ratio(1, None, Width::alone(0.05)), Better::Lower, Basis::Visits).word,
            Word::CannotTell
        );
    }

    /// Tools that state no interval.
    #[test]
    fn single_figures_without_intervals_have_a_ratio_and_no_word() {
        let bare = |value| vec![Estimate { value: Some(value), ..Estimate::default() }];
        let figures = new(&[bare(100.0), bare(300.0)]);
        let effect = conclude(figures.ratio(1, None, Width::alone(0.05)), Better::Higher, Basis::Visits);
        assert_eq!((effect.word, effect.ratio.low), (Word::CannotTell, None));
        assert!((effect.ratio.value.unwrap() - 3.0).abs() < 1e-9);
    }
}

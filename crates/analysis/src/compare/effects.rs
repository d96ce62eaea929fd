//! The ratio of two sides with its interval.
//!
//! All calculations use logarithms. If sides have several runs, runs scatter by a variance that is pooled over the
//! sides and drawn towards that of the other figures (`shrinkage.rs`), and the difference of two means is a Student's
//! t. If they have one run each, the limits of both figures are combined by their distances from the values (MOVER: Zou
//! and Donner 2008, Construction of confidence limits about effect measures), stretched from 95 % to what all effects
//! together need, as Student's t would with about as many degrees of freedom as a run has stretches that show its
//! level. If they were measured in turn, visit by visit, the mean of the differences of neighbouring visits follows a
//! Student's t on its own.

use qd1_model::Estimate;
use qd1_model::comparison::{Basis, Effect, FOUND, Word};
use qd1_model::metric::Better;

use super::shrinkage::{Variance, shrunk};
use crate::spoiling::Slack;
use qd1_stats::{Z_975, t_beyond, t_quantile};

/// Degrees of freedom of an interval within a run.
const WITHIN_DF: f64 = 60.0;
/// The widest interval that is called "the same", and the widest one called so although it does not contain 1.
const SAME_MAX: f64 = 0.1;
const SAME_ALWAYS: f64 = 0.02;
/// The latter for single runs, which differ by a few percent on any disk.
const SAME_OF_SINGLE: f64 = 0.05;
/// Degrees of freedom of the spread between runs from which the intervals within them do not bound it.
const TRUSTED_DF: f64 = 12.0;
/// Chances at which a multiple of a standard error is converted to other degrees of freedom.
const CARRIED: f64 = 0.001;
/// Smallest variance between runs: that of half a percent. Equal figures are just rounded.
const VARIANCE_MIN: f64 = 2.5e-5;
/// Number of runs considered at most.
const RUNS_MAX: u32 = 100;
/// Fewest pairs of visits that show how they scatter.
const PAIRS_MIN: usize = 4;

/// The logarithms of one figure on every side.
pub(super) struct Figures {
    sides: Vec<Vec<Log>>,
    /// Runs of each side, including those that did not resolve it.
    runs: Vec<usize>,
    /// Whether it is the mean of many figures.
    is_mean: bool,
    /// Whether a run of each side was spoiled.
    is_spoiled: Vec<bool>,
    /// The largest part of a difference that the spoiling explains, for each other side; absent if unknown.
    slack: Vec<Option<Slack>>,
    /// Differences of neighbouring visits of each other side from the first, if they were measured in turn.
    pairs: Vec<Vec<f64>>,
}

/// How far two sides are apart, and how well that is known.
struct Gap {
    difference: f64,
    /// Standard errors downwards and upwards, where they are known.
    down: Option<f64>,
    up: Option<f64>,
    df: f64,
    /// Half of the interval below which none gets, at any level.
    floor: f64,
    /// What is subtracted for whatever spoiled the runs.
    slack: Slack,
}

/// A figure of one run.
#[derive(Clone, Copy, Debug)]
struct Log {
    value: f64,
    /// Standard deviations downwards and upwards, if there is an interval.
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

    /// Variance in the direction in which it is larger.
    fn within(&self) -> Option<f64> {
        self.down.zip(self.up).map(|(down, up)| down.max(up).powi(2))
    }
}

/// How runs scatter in one figure.
pub(super) type Spread = Variance;

/// How wide an interval should be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Width {
    /// Its own allowed chance of being wrong.
    pub(super) chance: f64,
    /// The multiple of the standard error that all of its kind need together, and the degrees of freedom to which this
    /// applies; absent if their chance is enough.
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
            // For a figure that fewer runs have.
            Some((multiple, of_df)) if df < of_df - 0.5 => {
                multiple * t_quantile(1.0 - CARRIED, df) / t_quantile(1.0 - CARRIED, of_df)
            }
            Some((multiple, _)) => multiple,
        }
    }
}

impl Figures {
    /// From the estimates of every side's runs; those that are not resolved are ignored.
    pub(super) fn new(sides: &[Vec<Estimate>], is_spoiled: Vec<bool>) -> Self {
        let logs = sides.iter().map(|runs| {
            // Zero has no logarithm, and the others alone would not represent the side; nor would a minority.
            let is_nothing = |figure: &Estimate| figure.value.is_some_and(|value| value <= 0.0);
            let logs: Vec<Log> = runs.iter().filter_map(Log::of).collect();
            let speaks = !runs.iter().any(is_nothing) && 2 * logs.len() >= runs.len();
            if speaks { logs } else { Vec::new() }
        });
        let slack = is_spoiled[1..].iter().map(|side| (!side && !is_spoiled[0]).then(Slack::default));
        let slack = slack.collect();
        let runs = sides.iter().map(Vec::len).collect();
        Self { sides: logs.collect(), runs, is_mean: false, is_spoiled, slack, pairs: Vec::new() }
    }

    /// The same, with the largest part of each other side's difference that the spoiling explains.
    pub(super) fn explained(self, slack: Vec<Option<Slack>>) -> Self {
        Self { slack, ..self }
    }

    /// The same of sides that were measured in turn: the differences of neighbouring visits, of each other side from the first.
    pub(super) fn in_turn(self, pairs: Vec<Vec<f64>>) -> Self {
        Self { pairs, ..self }
    }

    /// The differences of neighbouring visits, if there are enough of them.
    pub(super) fn pairs(&self, side: usize) -> Option<&[f64]> {
        self.pairs.get(side - 1).map(Vec::as_slice).filter(|pairs| pairs.len() >= PAIRS_MIN)
    }

    /// Whether every side has it for all its runs.
    pub(super) fn is_whole(&self) -> bool {
        self.sides.iter().zip(&self.runs).all(|(side, runs)| side.len() == *runs && *runs > 0)
    }

    /// How many runs each side has.
    pub(super) fn runs(&self) -> &[usize] {
        &self.runs
    }

    /// The mean of several figures run by run, each times its sign. Intervals are averaged, since one cause may move
    /// all.
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
        let slack = vec![Some(Slack::default()); runs.len() - 1];
        Self { sides, runs, is_mean: true, is_spoiled, slack, pairs: Self::mean_of_pairs(figures) }
    }

    /// The mean of the differences of neighbouring visits of several figures, of those that have as many as most.
    fn mean_of_pairs(figures: &[(&Self, f64)]) -> Vec<Vec<f64>> {
        let others = figures[0].0.runs.len() - 1;
        let of_side = |side: usize| {
            let most = figures.iter().filter_map(|(of, _)| of.pairs(side)).map(<[f64]>::len).max().unwrap_or(0);
            let of: Vec<(&[f64], f64)> = figures
                .iter()
                .filter_map(|(of, sign)| Some((of.pairs(side).filter(|pairs| pairs.len() == most)?, *sign)))
                .collect();
            let mean = |at: usize| of.iter().map(|(pairs, sign)| sign * pairs[at]).sum::<f64>() / of.len() as f64;
            (0..most).map(mean).collect()
        };
        (1..=others).map(of_side).collect()
    }

    /// The variance between runs on its own; `None` if no side has two.
    pub(super) fn between(&self) -> Option<Variance> {
        let df: usize = self.sides.iter().map(|side| side.len().saturating_sub(1)).sum();
        let squares: f64 = self.residuals().iter().map(|residual| residual * residual).sum();
        (df > 0).then(|| Variance { value: (squares / df as f64).max(VARIANCE_MIN), df: df as f64 })
    }

    pub(super) fn residuals(&self) -> Vec<f64> {
        let of_side = |side: &Vec<Log>| {
            let mean = mean(side);
            side.iter().map(move |log| log.value - mean).collect::<Vec<_>>()
        };
        self.sides.iter().flat_map(of_side).collect()
    }

    /// Whether something else spoiled a run of the first side or of this one, and no repeats show how much of a
    /// difference that makes.
    pub(super) fn is_lost(&self, side: usize, spread: Option<&Spread>) -> bool {
        self.pairs(side).is_none() && (self.is_spoiled(0, spread) || self.is_spoiled(side, spread))
    }

    /// The largest part of the difference from the first side that the spoiling of either explains, if known.
    pub(super) fn slack(&self, side: usize) -> Option<Slack> {
        self.slack.get(side - 1).copied().flatten()
    }

    /// Whether something else spoiled a run of this side, and no repeats show how much of a difference that makes.
    pub(super) fn is_spoiled(&self, side: usize, spread: Option<&Spread>) -> bool {
        spread.is_none() && self.is_spoiled[side]
    }

    /// Mean of the variances within runs, if all have one.
    fn within(&self) -> Option<f64> {
        let all: Vec<f64> = self.sides.iter().flatten().map(Log::within).collect::<Option<_>>()?;
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// How far `side` is from the first one; `None` if either lacks it.
    fn gap(&self, side: usize, spread: Option<&Spread>) -> Option<Gap> {
        let slack = Slack::default();
        if let Some(pairs) = self.pairs(side) {
            let count = pairs.len() as f64;
            let difference = pairs.iter().sum::<f64>() / count;
            let squares: f64 = pairs.iter().map(|pair| (pair - difference).powi(2)).sum();
            let error = (squares / (count - 1.0)).max(VARIANCE_MIN).sqrt() / count.sqrt();
            let (down, up) = (Some(error), Some(error));
            return Some(Gap { difference, down, up, df: count - 1.0, floor: 0.0, slack });
        }
        let (first, other) = (&self.sides[0], &self.sides[side]);
        if first.is_empty() || other.is_empty() {
            return None;
        }
        let difference = mean(other) - mean(first);
        Some(match spread {
            Some(spread) => {
                let share = 1.0 / first.len() as f64 + 1.0 / other.len() as f64;
                let (error, floor) = (Some((spread.value * share).sqrt()), self.floor(spread, share));
                Gap { difference, down: error, up: error, df: spread.df, floor, slack }
            }
            None => {
                let apart = |one: Option<f64>, two: Option<f64>| one.zip(two).map(|(one, two)| one.hypot(two));
                let (down, up) = (apart(other[0].down, first[0].up), apart(other[0].up, first[0].down));
                let slack = self.slack(side).unwrap_or_default();
                Gap { difference, down, up, df: WITHIN_DF, floor: 0.0, slack }
            }
        })
    }

    /// `side` divided by the first one, with an interval of this width.
    pub(super) fn ratio(&self, side: usize, spread: Option<&Spread>, width: Width) -> Estimate {
        let runs = (self.sides[0].len() + self.sides[side].len()) as u64;
        let Some(gap) = self.gap(side, spread) else { return Estimate { n: runs, ..Estimate::default() } };
        let half = |error: f64, slack: f64| (width.multiple(gap.df) * error).max(gap.floor) + slack;
        let is_known = spread.is_some() || self.pairs(side).is_some();
        Estimate {
            value: Some(gap.difference.exp()),
            low: gap.down.map(|down| (gap.difference - half(down, gap.slack.down)).exp()),
            high: gap.up.map(|up| (gap.difference + half(up, gap.slack.up)).exp()),
            n: runs,
            n_effective: if is_known { gap.df } else { runs as f64 },
            n_needed: 0,
        }
    }

    /// How many standard errors `side` is from the first one, less what the spoiling of either explains; with the
    /// degrees of freedom. 0 if an interval would contain 1 at any level.
    pub(super) fn distance(&self, side: usize, spread: Option<&Spread>) -> Option<(f64, f64)> {
        let gap = self.gap(side, spread)?;
        let (error, slack) = if gap.difference > 0.0 { (gap.down?, gap.slack.down) } else { (gap.up?, gap.slack.up) };
        let beyond = gap.difference.abs() - slack;
        let errors = if error > 0.0 { beyond / error } else { f64::INFINITY };
        Some((if beyond <= gap.floor { 0.0 } else { errors }, gap.df))
    }

    /// The chance that sides which are the same would be this far apart, for this figure on its own.
    pub(super) fn chance(&self, side: usize, spread: Option<&Spread>) -> Option<f64> {
        self.distance(side, spread).map(|(errors, df)| if errors > 0.0 { t_beyond(errors, df) } else { 1.0 })
    }

    /// The figure of a side on its own, with an interval of this width.
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

    /// Half of an interval, for a mean or a difference of means whose variance is this share of that of a run.
    fn half_width(&self, spread: &Spread, share: f64, width: Width) -> f64 {
        let between = width.multiple(spread.df) * (spread.value * share).sqrt();
        between.max(self.floor(spread, share))
    }

    /// Its minimum: a few runs in two states of a disk may happen to agree; the mean of many figures has no such
    /// states.
    fn floor(&self, spread: &Spread, share: f64) -> f64 {
        let is_single = !self.is_mean && spread.df < TRUSTED_DF;
        let within = self.within().filter(|_| is_single).unwrap_or(0.0);
        Z_975 * (within * share).sqrt()
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

/// How runs scatter in each figure, with figures of one metric together; `None` if no side has two runs.
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
        for (at, variance) in of.into_iter().zip(shrunk(&variances, &residuals)) {
            found[at] = Some(variance);
        }
    }
    found
}

/// The word for a ratio, of several runs of a side or of single ones. If the procedure as a whole distinguishes it from
/// 1 by what other figures left over, its interval ends there.
pub(super) fn conclude(ratio: Estimate, is_told: bool, better: Better, basis: Basis) -> Effect {
    let (Some(value), Some(low), Some(high)) = (ratio.value, ratio.low, ratio.high) else {
        return Effect { ratio, ..Effect::default() };
    };
    let (low, high) = match is_told {
        true if value > 1.0 => (low.max(1.0), high),
        true => (low, high.min(1.0)),
        false => (low, high),
    };
    let ratio = Estimate { low: Some(low), high: Some(high), ..ratio };
    let within = (high - 1.0).max(1.0 - low);
    let negligible = if basis == Basis::Visits { SAME_OF_SINGLE } else { SAME_ALWAYS };
    match is_told {
        true if within > negligible => Effect { ratio, word: Word::of(value > 1.0, better), ..Effect::default() },
        _ if within <= SAME_MAX => Effect { ratio, word: Word::Same, within: Some(within), ..Effect::default() },
        _ => Effect { ratio, ..Effect::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_apart(ratio: &Estimate) -> bool {
        ratio.low.zip(ratio.high).is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }

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
            let value = Some(0.5 * (low + high));
            let ratio = Estimate { value, low: Some(low), high: Some(high), ..Estimate::default() };
            conclude(ratio, is_apart(&ratio), better, Basis::Runs)
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
        assert!(!is_apart(&ratio), "{ratio:?}");
        assert_eq!(conclude(ratio, false, Better::Lower, Basis::Runs).word, Word::CannotTell, "{ratio:?}");
        assert!(figures.runs_needed(spreads[0].as_ref(), Width::alone(0.05)).unwrap() > 10);
    }

    #[test]
    fn what_one_side_did_not_resolve_cannot_be_told() {
        let figures = new(&[vec![figure(100.0, 0.02)], vec![Estimate { n: 10, n_needed: 368, ..Estimate::default() }]]);
        assert_eq!(
            conclude(figures.ratio(1, None, Width::alone(0.05)), false, Better::Lower, Basis::Visits).word,
            Word::CannotTell
        );
    }

    /// Tools that state no interval.
    #[test]
    fn single_figures_without_intervals_have_a_ratio_and_no_word() {
        let bare = |value| vec![Estimate { value: Some(value), ..Estimate::default() }];
        let figures = new(&[bare(100.0), bare(300.0)]);
        let effect = conclude(figures.ratio(1, None, Width::alone(0.05)), true, Better::Higher, Basis::Visits);
        assert_eq!((effect.word, effect.ratio.low), (Word::CannotTell, None));
        assert!((effect.ratio.value.unwrap() - 3.0).abs() < 1e-9);
    }
}

//! How often a run met the events that its figures depend on.
//!
//! A disk that stalls, is throttled or shares its neighbours' load is slow in *episodes*. A run that met three of them
//! does not know how many the next one will meet, however many operations it made: a variance estimated from three
//! episodes is no better known than the number three. Every interval of [`super`] rests on such a variance, so here the
//! episodes are counted. A figure that depends on K of them gets no more than K degrees of freedom (one at least), and
//! an interval at least as wide as the uncertainty of their number: wide, but not missing.
//!
//! At a *level*, a latency exceeded by c operations whose count over time has the inflation VIF, the run holds K = c /
//! VIF effective episodes. (N episodes of one length count N; of geometric lengths, N / 2. Independent exceedances are
//! an episode each.) Levels are examined from a few exceedances up to half of the operations, and on the fast side as
//! well. A level matters to a figure when it is clustered beyond doubt ([`CLUSTERED_SIGMA`]) and when its uncertainty
//! alone could move the figure out of its interval: the true rate of K episodes may be as high as the upper 97.5 %
//! limit of a Poisson count, U(K), so that the operations beyond the level, and what they add to the figure, may be
//! U(K) / K times as many. If a rate does not depend on latency (requests at a fixed rate) they add nothing; so their
//! contribution is limited to what a regression over the batches shows. A level of fewer than [`EPISODES_MIN`] episodes
//! that matters less widens the interval by that much, as one more independent error.

use crate::long_run::Z_975;
use crate::series::{Quantity, Series};

/// Effective episodes below which a level widens even the figures that it hardly affects. Chosen on the tuning part of
/// the coverage table.
const EPISODES_MIN: f64 = 6.0;
/// Fewest exceedances of a level: the shortest stall looked for.
const EXCEEDANCES_MIN: f64 = 4.0;
/// Standard deviations by which a level's VIF must lie above 1 to count as clustered.
const CLUSTERED_SIGMA: f64 = 3.0;
/// Shift of the figure, in half widths of its interval, from which a level matters; a smaller one widens the interval.
const SHIFT_MAX: f64 = 0.7;
/// Number of cosines from which a level's variance is estimated besides the number chosen for its residuals, since a
/// variance from three of them often misses the one episode of a run; and the most used for either, to save time.
const COSINES: usize = 16;
const COSINES_MAX: usize = 48;

/// A level whose exceedances are clustered.
#[derive(Debug)]
struct Level {
    /// Its coarse bin.
    edge: usize,
    /// Exceedances of each batch beyond its share of all.
    residuals: Vec<f64>,
    /// Exceedances, or the other operations if those are fewer.
    count: f64,
    /// Effective episodes.
    episodes: f64,
}

/// The levels of a series whose exceedances are clustered.
#[derive(Debug)]
pub(crate) struct Episodes {
    levels: Vec<Level>,
    /// Whether the batches are moments drawn at random, whose number is known and needs no estimate.
    is_sample: bool,
}

/// The episodes that a figure depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EpisodeBasis {
    /// Fewest episodes of a level that matters; infinite if none does.
    pub(crate) on: f64,
    /// Factor on the half width, at least 1.
    pub(crate) widen: f64,
}

impl EpisodeBasis {
    /// A figure that depends on no episodes.
    pub(crate) const NOTHING: Self = Self { on: f64::INFINITY, widen: 1.0 };

    /// Degrees of freedom that it leaves to a variance.
    pub(crate) fn degrees(self) -> f64 {
        self.on.max(1.0)
    }
}

impl Episodes {
    /// Examines the levels of `series`.
    pub(crate) fn new(series: &Series) -> Self {
        let n = series.n as f64;
        let mut edges = Vec::new();
        let mut count = EXCEEDANCES_MIN;
        while count < n {
            let share = count.min(0.5 * n) / n;
            edges.extend(series.edge_for(share));
            edges.extend(series.edge_for(1.0 - share));
            if count >= 0.5 * n {
                break;
            }
            count *= 2.0;
        }
        edges.sort_unstable_by_key(|(edge, _)| *edge);
        edges.dedup_by_key(|(edge, _)| *edge);
        let ios = series.each(Quantity::Ios);
        let level = |(edge, share): (usize, f64)| clustered(series, &ios, edge, share);
        Self { levels: edges.into_iter().filter_map(level).collect(), is_sample: series.is_sample() }
    }

    /// The episodes on which a sum of `residuals`, one per batch of the same series, depends, if its 95 % interval has
    /// this `half_width`. `added(edge)` is what the operations at or above a level add to the sum beyond their share;
    /// what those below it add is the opposite. Levels of at least `near` exceedances are the figure's own: its limits
    /// already account for the skewness of their number.
    pub(crate) fn under(
        &self,
        residuals: &[f64],
        half_width: f64,
        near: f64,
        added: impl Fn(usize) -> f64,
    ) -> EpisodeBasis {
        let mut rests = EpisodeBasis::NOTHING;
        for level in &self.levels {
            let power: f64 = level.residuals.iter().map(|e| e * e).sum();
            let product: f64 = level.residuals.iter().zip(residuals).map(|(e, d)| e * d).sum();
            let sum = (product / power * level.count).abs().min(added(level.edge).abs());
            let shift = sum * (upper_limit(level.episodes) / level.episodes - 1.0) / half_width;
            if shift > SHIFT_MAX {
                if !self.is_sample {
                    rests.on = rests.on.min(level.episodes);
                }
                rests.widen = rests.widen.max(if level.count < near { shift } else { 1.0 });
            } else if level.episodes < EPISODES_MIN {
                rests.widen = rests.widen.max(1.0f64.hypot(shift));
            }
        }
        rests
    }
}

/// The level at coarse bin `edge`, which `share` of the operations reach, if it is clustered.
fn clustered(series: &Series, ios: &[f64], edge: usize, share: f64) -> Option<Level> {
    let n = series.n as f64;
    let count = n * share.min(1.0 - share);
    if count < EXCEEDANCES_MIN {
        return None;
    }
    let residuals: Vec<f64> = series.exceedances(edge).iter().zip(ios).map(|(x, y)| x - share * y).collect();
    let runs = series.runs(&residuals, COSINES, COSINES_MAX)?;
    let vif = |variance: f64| variance / (n * share * (1.0 - share));
    let noise = |df: f64| (2.0 / df + 1.0 / count).sqrt();
    let beyond_doubt = runs.iter().any(|run| vif(run.variance) > 1.0 + CLUSTERED_SIGMA * noise(run.df));
    let episodes = count / vif(runs[0].variance.max(runs[1].variance)).max(1.0);
    beyond_doubt.then_some(Level { edge, residuals, count, episodes })
}

/// Upper 97.5 % limit of the mean of a Poisson count `k` (Byar's approximation; Breslow and Day 1987, Statistical
/// Methods in Cancer Research II, p. 69).
pub(crate) fn upper_limit(k: f64) -> f64 {
    let next = k + 1.0;
    next * (1.0 - 1.0 / (9.0 * next) + Z_975 / (3.0 * next.sqrt())).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::hist::CoarseHist;
    use qd1_model::op::OpClass;
    use qd1_model::record::{Interval, IntervalStream};

    /// A hundred intervals of a hundred operations; those of `stalls` hold eight slow ones.
    fn with_stalls(stalls: &[usize]) -> Series {
        let interval = |index: usize| {
            let mut coarse = CoarseHist::default();
            for op in 0..100usize {
                let slow = op < 8 && stalls.contains(&index);
                coarse.record(if slow { 20_000_000 } else { 100_000 + 10_000 * ((op * 37 + index * 11) % 10) as u64 });
            }
            let (ios, bins) = (100, coarse.sparse());
            let stream =
                IntervalStream { class: OpClass::Read, ios, bytes: 0, lat_sum_ns: 0, lat_max_ns: 20_000_000, bins };
            Interval { start_ns: index as u64 * 100, length_ns: 100, streams: vec![stream] }
        };
        Series::new(&(0..100).map(interval).collect::<Vec<_>>(), OpClass::Read)
    }

    /// Effective episodes of the rarest clustered level.
    fn of_stalls(stalls: &[usize]) -> Option<f64> {
        Episodes::new(&with_stalls(stalls)).levels.last().map(|level| level.episodes)
    }

    #[test]
    fn each_stall_counts_once_whatever_it_holds() {
        assert_eq!(of_stalls(&[]), None);
        for stalls in [vec![40], vec![5, 30, 31, 77], (0..20).map(|index| index * index / 4).collect()] {
            let counted = of_stalls(&stalls).unwrap();
            let ratio = counted / stalls.len() as f64;
            assert!((0.5..1.5).contains(&ratio), "{counted} of {}", stalls.len());
        }
    }

    #[test]
    fn a_figure_that_the_stalls_do_not_move_does_not_rest_on_them() {
        let series = with_stalls(&[10, 60]);
        let episodes = Episodes::new(&series);
        let stalled: Vec<f64> = (0..100).map(|index| if [10, 60].contains(&index) { 7.84 } else { -0.16 }).collect();
        let moved = episodes.under(&stalled, 10.0, f64::INFINITY, |_| 16.0);
        assert!(moved.degrees() < 3.0, "{moved:?}");
        assert_eq!(episodes.under(&stalled, 1e6, f64::INFINITY, |_| 16.0).on, f64::INFINITY, "too few to matter");
        let steady: Vec<f64> = (0..100).map(|index| f64::from(index % 2) - 0.5).collect();
        assert_eq!(episodes.under(&steady, 10.0, f64::INFINITY, |_| 16.0).on, f64::INFINITY, "unrelated to them");
    }

    #[test]
    fn the_poisson_limits_are_those_of_the_tables() {
        // Exact: 5.57, 11.67 and 18.39 for 1, 5 and 10.
        for (count, limit) in [(1.0, 5.57), (5.0, 11.67), (10.0, 18.39)] {
            assert!((upper_limit(count) - limit).abs() < 0.02, "{}", upper_limit(count));
        }
    }
}

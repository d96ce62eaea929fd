//! A test that knows the law: how much runs of each disk scatter, in each deciding figure and jointly.
//!
//! Many runs of the disk itself give the standard deviation of each primary figure between runs, and the distribution
//! of the largest difference in any figure between the means of random groups of runs when nothing differs. The oracle
//! reports a difference when the largest one exceeds that of all but 5 % of such groups. No test that has to learn the
//! scatter from the runs themselves can be expected to do better.

use std::collections::BTreeMap;

use qd1_analysis::compare::{Group, compare};
use qd1_model::OpClass;
use qd1_model::measured::Measured;
use qd1_model::metric::{Better, metric};

use super::{SALT, run};
use crate::parallel::each;
use crate::random::Random;
use crate::repeat::Cell;

/// Number of runs from which the law of a disk is known.
const POOL: u64 = 40;
/// Number of random groups of them.
const DRAWS: usize = 4000;
/// Chance of finding something where nothing differs.
const ALPHA: f64 = 0.05;

/// A deciding figure; the one without a step is the overall result.
type Key = (String, OpClass, String);

/// What is known about a disk.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// Standard deviations between runs.
    sigma: BTreeMap<Key, f64>,
    critical: f64,
}

impl Oracle {
    fn of(pool: &[Measured], runs: usize) -> Self {
        let half = pool.len() / 2;
        let sides = [("a", &pool[..half]), ("b", &pool[half..])];
        let groups = sides.map(|(name, runs)| Group { name: name.to_owned(), runs: runs.to_vec() });
        let rows = compare(&groups, &[]).expect("runs of one disk have the same steps").rows;
        let names = rows.iter().filter(|row| row.is_primary);
        let names: Vec<Key> = names.map(|row| (row.step.clone(), row.op, row.metric.clone())).collect();
        let logs: Vec<BTreeMap<Key, f64>> = pool.iter().map(|run| logs(run, &names)).collect();
        let sigma = |key: &Key| {
            let of: Vec<f64> = logs.iter().map(|logs| logs.get(key).copied()).collect::<Option<_>>()?;
            let mean = mean(&of);
            let squares: f64 = of.iter().map(|log| (log - mean).powi(2)).sum();
            Some((squares / (of.len() - 1) as f64).sqrt().max(1e-6))
        };
        let whole = (String::new(), OpClass::Read, String::new());
        let sigma: BTreeMap<Key, f64> =
            names.into_iter().chain([whole]).filter_map(|key| Some((key.clone(), sigma(&key)?))).collect();
        let mut random = Random::new(pool.len() as u64);
        let mut farthest: Vec<f64> = (0..DRAWS)
            .map(|_| {
                let mut left: Vec<&BTreeMap<Key, f64>> = logs.iter().collect();
                let mut take = || -> Vec<&BTreeMap<Key, f64>> {
                    (0..runs).map(|_| left.swap_remove((random.next_u64() % left.len() as u64) as usize)).collect()
                };
                let (first, other) = (take(), take());
                farthest(&sigma, &first, &other).abs()
            })
            .collect();
        farthest.sort_by(f64::total_cmp);
        let critical = farthest[((1.0 - ALPHA) * DRAWS as f64) as usize];
        Self { sigma, critical }
    }

    /// Whether the second side is found to be slower.
    #[must_use]
    pub fn finds(&self, first: &[Measured], other: &[Measured]) -> bool {
        let names: Vec<Key> = self.sigma.keys().filter(|key| !key.0.is_empty()).cloned().collect();
        let [first, other] = [first, other].map(|runs| runs.iter().map(|run| logs(run, &names)).collect::<Vec<_>>());
        let farthest = farthest(&self.sigma, &first.iter().collect::<Vec<_>>(), &other.iter().collect::<Vec<_>>());
        farthest > self.critical
    }
}

/// What is known about each disk when sides have this many runs.
pub(super) fn of_disks(disks: &[(Cell, bool)], runs: usize) -> Vec<Oracle> {
    let of = |number: u64| {
        let (cell, differs) = &disks[number as usize];
        let pool: Vec<Measured> =
            (0..POOL).map(|at| run(cell, *differs, 1.0, (3 << 48 | number << 16 | at) ^ SALT)).collect();
        Oracle::of(&pool, runs)
    };
    each(0..disks.len() as u64, of)
}

/// How many standard errors the farthest figure lies above that of the first side; below where negative.
fn farthest(sigma: &BTreeMap<Key, f64>, first: &[&BTreeMap<Key, f64>], other: &[&BTreeMap<Key, f64>]) -> f64 {
    let of = |side: &[&BTreeMap<Key, f64>], key: &Key| {
        let logs: Option<Vec<f64>> = side.iter().map(|logs| logs.get(key).copied()).collect();
        logs.map(|logs| mean(&logs))
    };
    let share = 1.0 / first.len() as f64 + 1.0 / other.len() as f64;
    let each =
        sigma.iter().filter_map(|(key, sigma)| Some((of(other, key)? - of(first, key)?) / (sigma * share.sqrt())));
    each.fold(0.0, |most: f64, one| if one.abs() > most.abs() { one } else { most })
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

/// The logarithms of the figures of a run, larger being worse, and the mean over all kinds of operation.
fn logs(run: &Measured, names: &[Key]) -> BTreeMap<Key, f64> {
    let value = |step: &str, op: OpClass, name: &str| {
        let step = run.steps.iter().find(|known| known.name == step)?;
        let figure = step.streams.iter().find(|stream| stream.class == op)?.figure(name)?.value?;
        let is_higher_better = metric(name).is_some_and(|metric| metric.better == Better::Higher);
        Some(if is_higher_better { -figure.ln() } else { figure.ln() })
    };
    let mut all: BTreeMap<Key, f64> =
        names.iter().filter_map(|key| Some((key.clone(), value(&key.0, key.1, &key.2)?))).collect();
    let streams = run.steps.iter().flat_map(|step| step.streams.iter().map(move |stream| (step, stream)));
    let means: Vec<f64> = streams.filter_map(|(step, stream)| value(&step.name, stream.class, "lat_mean_ns")).collect();
    all.insert((String::new(), OpClass::Read, String::new()), mean(&means));
    all
}

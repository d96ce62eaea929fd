//! Does `compare` find real differences, and nothing where there are none?
//!
//! Pairs of runs, or of groups of three, of check's visits on the disks of [`crate::repeat`]: the same disk on both
//! sides, or one on which every request takes longer by a factor. Each run meets its disk at a different time. On one
//! more disk each run has its own level, which lasts for the run: the case that repeats are for. The table also shows
//! what an oracle, which knows how runs of each disk differ ([`oracle`]), finds in the same runs. Pairs that are
//! measured in turn are two places on one disk ([`in_turn`]).

mod in_turn;
mod oracle;

use std::fmt::Write as _;

use qd1_analysis::compare::{Group, compare, measured};
use qd1_engine::sim::{Device, Service};
use qd1_model::comparison::{Comparison, Effect, Row, Word};
use qd1_model::measured::Measured;

use self::oracle::Oracle;
use crate::Seeds;
use crate::parallel::each;
use crate::random::Random;
use crate::repeat::{self, Cell};

/// Standard deviation of the logarithm of each run's own level, on the disk whose runs differ.
const OF_RUNS: f64 = 0.02;
/// Separates the seeds of this study from those of others.
const SALT: u64 = 0x0000_C0DF_0000_0000;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// Runs of each side; 0 for one of each, measured in turn.
    pub runs: u32,
    /// Factor by which each request of the second side takes longer.
    pub factor: f64,
}

/// The result of one comparison.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Primary figures correctly reported as better or worse; none if nothing differs.
    pub right: usize,
    /// Those reported in the wrong direction, or although nothing differs.
    pub wrong: Vec<String>,
    /// Exploratory figures correctly reported as better or worse.
    pub explored: usize,
    /// Those reported in the wrong direction, or although nothing differs.
    pub explored_wrong: usize,
    /// Whether the oracle finds it.
    pub is_found_by_oracle: bool,
    /// Intervals of figures whose true ratio is known.
    pub intervals: usize,
    /// Of these, those that contained it.
    pub held: usize,
}

/// The disks, and whether each run of a disk has its own level.
#[must_use]
pub fn disks() -> Vec<(Cell, bool)> {
    let all = repeat::cells();
    let steady = all[0].clone();
    all.into_iter().map(|cell| (cell, false)).chain([(steady, true)]).collect()
}

fn slower(device: &Device, factor: f64) -> Device {
    let scaled = |service: &Service| {
        let mut service = service.clone();
        service.modes.iter_mut().for_each(|mode| mode.median_ns *= factor);
        service.per_byte_ns *= factor;
        service
    };
    let Device { read, write, flush, .. } = device;
    Device { read: scaled(read), write: scaled(write), flush: scaled(flush), ..device.clone() }
}

fn run(cell: &Cell, differs: bool, factor: f64, seed: u64) -> Measured {
    let own = if differs { (OF_RUNS * Random::new(seed).normal()).exp() } else { 1.0 };
    let cell = cell.on(slower(cell.device(), factor * own));
    let record = repeat::record(&cell, seed);
    measured(&record, &qd1_analysis::summarize(&record), &[])
}

/// One comparison on the disk with this number.
#[must_use]
pub fn outcome(case: Case, seeds: Seeds, number: u64, oracles: &[Oracle]) -> Outcome {
    let disks = disks();
    let at = (number % disks.len() as u64) as usize;
    let (cell, differs) = &disks[at];
    let seed = |side: u64, at: u32| seeds.seed(number << 8 | side << 4 | u64::from(at)) ^ SALT;
    if case.runs == 0 {
        return judge(&in_turn::comparison(cell, case.factor, seed(0, 0)), case.factor, &cell.name);
    }
    let group = |side: u64, factor: f64| Group {
        name: if side == 0 { "a" } else { "b" }.to_owned(),
        runs: (0..case.runs).map(|at| run(cell, *differs, factor, seed(side, at))).collect(),
    };
    let groups = [group(0, 1.0), group(1, case.factor)];
    let comparison = compare(&groups, &[]).expect("both sides have the same steps");
    let is_found_by_oracle = oracles.get(at).is_some_and(|oracle| oracle.finds(&groups[0].runs, &groups[1].runs));
    Outcome { is_found_by_oracle, ..judge(&comparison, case.factor, &cell.name) }
}

fn judge(comparison: &Comparison, factor: f64, cell: &str) -> Outcome {
    let mut outcome = Outcome::default();
    for effect in &comparison.overall {
        match effect.word {
            Word::Worse if factor > 1.0 => outcome.right += 1,
            Word::Better | Word::Worse => outcome.wrong.push(format!("{cell}: overall {:?}", effect.ratio)),
            _ => {}
        }
    }
    let effects = comparison.rows.iter().flat_map(|row| row.effects.iter().map(move |effect| (row, effect)));
    for (row, effect) in effects {
        match (effect.word, row.is_primary) {
            (Word::Worse, true) if factor > 1.0 => outcome.right += 1,
            (Word::Worse, false) if factor > 1.0 => outcome.explored += 1,
            (Word::Better | Word::Worse, true) => outcome.wrong.push(show(cell, row, effect)),
            (Word::Better | Word::Worse, false) => outcome.explored_wrong += 1,
            (Word::Same | Word::CannotTell, _) => {}
        }
        if let (Some(truth), Some(low), Some(high)) = (truth(row, factor, cell), effect.ratio.low, effect.ratio.high) {
            outcome.intervals += 1;
            outcome.held += usize::from((low..=high).contains(&truth));
        }
    }
    outcome
}

fn show(cell: &str, row: &Row, effect: &Effect) -> String {
    let ratio = effect.ratio;
    format!(
        "{cell}: {} {} {:.3} [{:.3}..{:.3}]",
        row.step,
        row.metric,
        ratio.value.unwrap_or(0.0),
        ratio.low.unwrap_or(0.0),
        ratio.high.unwrap_or(0.0)
    )
}

/// The true ratio, if everything that makes up the figure takes `factor` times as long: not for stalls, and not for
/// requests on a fixed schedule, which wait for stalls.
fn truth(row: &Row, factor: f64, cell: &str) -> Option<f64> {
    let is_scaled = !row.step.starts_with("paced") && !matches!(cell, "a stall in 5 s" | "frozen");
    match row.metric.as_str() {
        _ if !is_scaled => None,
        "iops" | "bytes_per_second" => Some(1.0 / factor),
        "stall_longest_ns" | "stall_share" => None,
        _ => Some(factor),
    }
}

/// A line of the table.
#[derive(Clone, Debug, Default)]
pub struct Total {
    /// Comparisons.
    pub count: usize,
    /// Those with a primary figure reported as worse, and none reported wrongly.
    pub found: usize,
    /// Those in which the oracle finds the difference.
    pub found_by_oracle: usize,
    /// Those with a wrongly reported primary figure.
    pub wrong: usize,
    /// Those with a wrongly reported exploratory figure.
    pub explored_wrong: usize,
    /// Sum of the shares of wrong ones among the exploratory figures reported to differ.
    pub false_share: f64,
    /// Intervals, and those that held.
    pub intervals: usize,
    /// See `intervals`.
    pub held: usize,
    /// What was wrong.
    pub errors: Vec<String>,
    /// Those found, those found by the oracle, and all, of each disk.
    pub by_disk: Vec<[usize; 3]>,
}

/// `count` comparisons.
#[must_use]
pub fn study(case: Case, seeds: Seeds, count: u64, oracles: &[Oracle]) -> Total {
    let mut total = Total { by_disk: vec![[0; 3]; disks().len()], ..Total::default() };
    let outcomes = each(0..count, |number| outcome(case, seeds, number, oracles));
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let is_found = outcome.right > 0 && outcome.wrong.is_empty();
        let at = number % total.by_disk.len();
        let counts = [is_found, outcome.is_found_by_oracle, true].map(usize::from);
        total.by_disk[at].iter_mut().zip(counts).for_each(|(sum, one)| *sum += one);
        total.count += 1;
        total.found += counts[0];
        total.found_by_oracle += counts[1];
        total.wrong += usize::from(!outcome.wrong.is_empty());
        total.explored_wrong += usize::from(outcome.explored_wrong > 0);
        let explored = outcome.explored + outcome.explored_wrong;
        total.false_share += outcome.explored_wrong as f64 / explored.max(1) as f64;
        total.intervals += outcome.intervals;
        total.held += outcome.held;
        total.errors.extend(outcome.wrong);
    }
    total
}

/// The table: `count` pairs of equal disks with three runs per side, half as many with single runs and in turn; then
/// pairs that differ, a quarter as many each.
pub fn table(seeds: Seeds, count: u64, is_verbose: bool) -> String {
    let mut text = format!("compare: check's visits on {} disks, {seeds:?} seeds\n", disks().len());
    let _ = writeln!(
        text,
        "  {:<24}{:>6}{:>8}{:>8}{:>8}{:>20}{:>10}",
        "", "pairs", "found", "oracle", "wrong", "exploratory wrong", "hold"
    );
    let oracles = oracle::of_disks(&disks(), 3);
    let cases = [(3, 1.0), (1, 1.0), (0, 1.0), (1, 1.1), (3, 1.1), (3, 1.25), (3, 2.0), (0, 1.1), (0, 1.25)];
    for (runs, factor) in cases {
        let count = match (runs, factor == 1.0) {
            (3, true) => count,
            (_, true) => count / 2,
            (_, false) => count / 4,
        };
        let oracles: &[Oracle] = if runs == 3 { &oracles } else { &[] };
        let total = study(Case { runs, factor }, seeds, count, oracles);
        let sides = match runs {
            0 => "in turn".to_owned(),
            1 => "1 run per side".to_owned(),
            _ => format!("{runs} runs per side"),
        };
        let name = format!("{sides}, {:+.0} %", 100.0 * (factor - 1.0));
        let percent = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
        let of_oracle = if oracles.is_empty() {
            format!("{:>8}", "")
        } else {
            format!("{:>6.1} %", percent(total.found_by_oracle, total.count))
        };
        let _ = writeln!(
            text,
            "  {name:<24}{:>6}{:>6.1} %{of_oracle}{:>6.1} %{:>9.1} %, {:>4.1} %{:>8.2} %",
            total.count,
            percent(total.found, total.count),
            percent(total.wrong, total.count),
            percent(total.explored_wrong, total.count),
            100.0 * total.false_share / total.count.max(1) as f64,
            percent(total.held, total.intervals)
        );
        if is_verbose {
            for (at, (cell, differs)) in disks().iter().enumerate() {
                let [found, by_oracle, of] = total.by_disk[at];
                let name = if *differs { "runs differ" } else { &cell.name };
                let _ = writeln!(text, "    {name:<20} found {found}, by the oracle {by_oracle}, of {of}");
            }
            total.errors.iter().for_each(|error| _ = writeln!(text, "  - {error}"));
        }
    }
    text
}

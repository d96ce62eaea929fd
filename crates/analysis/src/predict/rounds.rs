//! Which commits a program is compared with: a shared disk behaves differently some minutes later. With `--verify`
//! commits are measured again after each program, so that each ran between two rounds of them.

use std::ops::Range;

use qd1_model::plan::Work;
use qd1_model::plan::program::Program;
use qd1_model::prediction::Predicts;
use qd1_model::{Estimate, Record};

use qd1_stats::Z_975;

/// The steps of a Record: commits, loads of a program, commits, loads of another program.
pub(super) struct Rounds {
    parts: Vec<Part>,
}

/// Neighbours of one kind: measured commits, or the loads of one program.
struct Part {
    program: Option<Program>,
    steps: Range<usize>,
}

/// The two rounds that a program ran between.
pub(super) struct AdjacentCommits {
    pub(super) before: Range<usize>,
    /// `None` if a run ended with the program.
    pub(super) after: Option<Range<usize>>,
}

impl AdjacentCommits {
    /// Everything, including the program's loads.
    pub(super) fn whole(&self) -> Range<usize> {
        let end = self.after.as_ref().map_or(self.before.end, |after| after.end);
        self.before.start..end
    }
}

impl Rounds {
    pub(super) fn of(record: &Record) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        for (at, step) in record.steps.iter().enumerate() {
            let program = match record.plan.step(&step.name).map(|plan| &plan.work) {
                Some(Work::App(work)) => Some(work.program),
                _ => None,
            };
            match parts.last_mut().filter(|part| part.program == program) {
                Some(part) => part.steps.end = at + 1,
                None => parts.push(Part { program, steps: at..at + 1 }),
            }
        }
        Self { parts }
    }

    /// The first commits.
    pub(super) fn first(&self) -> Range<usize> {
        self.commits().next().unwrap_or_default()
    }

    /// The last commits.
    pub(super) fn last(&self) -> Range<usize> {
        self.commits().last().unwrap_or_default()
    }

    /// The commits around the program of a figure; `None` if that was not run.
    pub(super) fn around(&self, what: Predicts) -> Option<AdjacentCommits> {
        let at = self.parts.iter().position(|part| part.program == Some(what.program()))?;
        let is_commits = |part: &&Part| part.program.is_none();
        let before = self.parts[..at].iter().rfind(is_commits)?.steps.clone();
        let after = self.parts[at + 1..].iter().find(is_commits).map(|part| part.steps.clone());
        Some(AdjacentCommits { before, after })
    }

    fn commits(&self) -> impl Iterator<Item = Range<usize>> {
        self.parts.iter().filter(|part| part.program.is_none()).map(|part| part.steps.clone())
    }
}

/// The expected figures of a program that ran between two predictions: the disk was somewhere between its states before
/// and after; exactly where is not known.
pub(super) fn between(before: &Estimate, after: &Estimate) -> Estimate {
    let of = |estimate: &Estimate| [estimate.value, estimate.low, estimate.high].map(|figure| figure.unwrap_or(0.0));
    let ([value_a, low_a, high_a], [value_b, low_b, high_b]) = (of(before), of(after));
    if value_a <= 0.0 || value_b <= 0.0 {
        let value = f64::midpoint(value_a, value_b);
        return Estimate { value: Some(value), low: Some(0.0), high: Some(high_a.max(high_b)), ..*before };
    }
    let value = (value_a * value_b).sqrt();
    // Nothing is known about a place between two ends, so it is uniform.
    let moved = Z_975 * (value_b / value_a).ln().abs() / 12f64.sqrt();
    let wide = |a: f64, b: f64| ((a.ln() + b.ln()) / 2.0).hypot(moved).exp();
    let (low, high) = match low_a > 0.0 && low_b > 0.0 {
        true => (value / wide(value_a / low_a, value_b / low_b), value * wide(high_a / value_a, high_b / value_b)),
        false => (0.0, value * wide(high_a / value_a, high_b / value_b)),
    };
    Estimate { value: Some(value), low: Some(low), high: Some(high), ..*before }
}

#[cfg(test)]
mod tests {
    use qd1_model::plan::program::AppWork;
    use qd1_model::plan::{Rw, Sync};

    use super::*;
    use crate::testing;

    #[test]
    fn each_program_lies_between_the_commits_next_to_it() {
        let mut record = testing::empty();
        for name in ["commit1", "wal", "wal-full", "commit1-r2", "wal-r2", "1 client", "10 clients", "commit1-r3"] {
            testing::step(&mut record, name, testing::io(Rw::Write, 4096, Sync::Fdatasync, true), 10, 40_000);
        }
        for (at, program) in [(2, Program::Sqlite), (5, Program::Postgres), (6, Program::Postgres)] {
            record.plan.steps[at].work = Work::App(AppWork { program, clients: 1, rate: None });
        }
        let rounds = Rounds::of(&record);
        let found =
            |what| rounds.around(what).map(|around| (around.before.clone(), around.after.clone(), around.whole()));
        assert_eq!((rounds.first(), rounds.last()), (0..2, 7..8));
        assert_eq!(found(Predicts::SqliteWalFull), Some((0..2, Some(3..5), 0..5)));
        assert_eq!(found(Predicts::PostgresTps), Some((3..5, Some(7..8), 3..8)));
        assert_eq!(found(Predicts::EtcdRate), None);
        record.steps.truncate(7);
        let around = Rounds::of(&record).around(Predicts::PostgresTps).unwrap();
        assert_eq!((around.before.clone(), around.after.clone()), (3..5, None), "it ended there");
    }

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value: Some(value), low: Some(low), high: Some(high), ..Estimate::default() }
    }

    fn figures(estimate: &Estimate) -> [f64; 3] {
        [estimate.value, estimate.low, estimate.high].map(Option::unwrap)
    }

    #[test]
    fn a_disk_that_stayed_the_same_is_expected_to_do_the_same() {
        let found = figures(&between(&estimate(100.0, 80.0, 125.0), &estimate(100.0, 80.0, 125.0)));
        for (found, wanted) in found.iter().zip([100.0, 80.0, 125.0]) {
            assert!((found / wanted - 1.0).abs() < 1e-9, "{found} {wanted}");
        }
    }

    #[test]
    fn one_that_changed_is_expected_between_both_with_more_doubt() {
        let [value, low, high] = figures(&between(&estimate(100.0, 80.0, 125.0), &estimate(400.0, 320.0, 500.0)));
        assert!((value - 200.0).abs() < 1e-9, "{value}");
        assert!(low < 160.0 * 0.8 && low > 70.0 && high > 250.0 / 0.8 && high < 600.0, "{low} {high}");
        let [value, low, high] = figures(&between(&estimate(0.0, 0.0, 30.0), &estimate(10.0, 5.0, 20.0)));
        assert_eq!([value, low, high], [5.0, 0.0, 30.0]);
    }
}

//! The central claim, on a sample of the table that `examples/coverage.rs` prints in full: nominal 95 % intervals
//! are to cover the truth in 93 to 97 % of seeded runs, for independent and for dependent latencies. `coverage.rs` says
//! where they do not.

use qd1_analysis::coverage::{Case, CoverageRow, Process, study};

/// Runs of a cell: few enough for a debug build. The standard error of a coverage of 95 % is then 1.1 %, so the band
/// asserted here is one percent wider on either side than the claim, which the full table checks with 1,000 runs.
const RUNS: usize = 400;

fn case(process: Process, mean_ms: u64, seconds: u64) -> Case {
    Case { process, mean_ns: mean_ms * 1_000_000, duration_ns: seconds * 1_000_000_000, stop: None }
}

fn row<'a>(rows: &'a [CoverageRow], figure: &str) -> &'a CoverageRow {
    rows.iter().find(|row| row.figure == figure).expect("the study has this figure")
}

/// Asserts the claim for `figures` of `case`, and that nearly every run resolves them.
fn covers(case: Case, runs: usize, figures: &[&str]) {
    let rows = study(case, runs, 7);
    for figure in figures {
        let row = row(&rows, figure);
        let (coverage, resolved) = (row.coverage() * 100.0, row.resolved_share() * 100.0);
        println!("{} {figure}: covered {coverage:.1} %, resolved {resolved:.0} %", case.process.name());
        assert!((92.0..=98.0).contains(&coverage), "{} {figure}: {coverage:.1} %", case.process.name());
        assert!(resolved > 90.0, "{} {figure}: resolved {resolved:.0} %", case.process.name());
    }
}

#[test]
fn independent_latencies_are_covered() {
    covers(case(Process::LogNormal { sigma: 0.5 }, 1, 3), RUNS, &["p50", "p99", "mean", "iops"]);
    covers(case(Process::Bimodal { slow: 0.1, ratio: 10.0 }, 1, 3), RUNS, &["p50", "p99", "mean", "iops"]);
}

#[test]
fn p999_is_covered_where_it_is_resolved() {
    covers(case(Process::LogNormal { sigma: 0.5 }, 1, 10), 200, &["p99.9"]);
}

#[test]
fn autocorrelated_latencies_are_covered() {
    covers(case(Process::Ar1 { sigma: 0.5, rho: 0.5 }, 1, 3), RUNS, &["p50", "p99", "mean", "iops"]);
    covers(case(Process::Ar1 { sigma: 0.5, rho: 0.9 }, 1, 3), RUNS, &["p50", "mean", "iops"]);
}

#[test]
fn slow_and_fast_phases_are_covered() {
    let process = Process::Phases { fast_ops: 100.0, slow_ops: 25.0, ratio: 5.0 };
    covers(case(process, 1, 3), RUNS, &["p50", "mean", "iops"]);
}

#[test]
fn stopping_when_the_interval_is_tight_does_not_spoil_it() {
    let process = Process::Ar1 { sigma: 0.5, rho: 0.5 };
    let stop = Some((0.99, 0.08, 2_000_000_000));
    let rows = study(Case { stop, ..case(process, 1, 6) }, 200, 7);
    let p99 = row(&rows, "p99");
    assert!(p99.mean_duration_ns < 5.5e9, "it does stop early: {:.1} s", p99.mean_duration_ns / 1e9);
    assert!(p99.coverage() >= 0.93, "{:.3}", p99.coverage());
}

#[test]
fn what_cannot_be_resolved_is_not_claimed() {
    let rows = study(case(Process::LogNormal { sigma: 0.5 }, 10, 10), 100, 7);
    assert_eq!(row(&rows, "p99.9").resolved, 0, "1,000 operations never resolve p99.9");
}

//! The central claims, on a sample of the table that `examples/coverage.rs` prints in full: nominal 95 % intervals
//! cover the truth in 93 to 97 % of the seeded runs that resolve the figure, and of all runs at most 7 % are wrong
//! (resolve it and miss the truth), but for those that never met a slow phase.

use qd1_truth::coverage::{Case, CoverageRow, Process, study};

/// Runs of a cell: few enough for a debug build. The standard error of a share of 7 % is then 2 %, and the bounds
/// asserted here are the claims and two of them: they find what breaks, while the full table with 1,000 runs is the
/// proof.
const RUNS: usize = 150;
const COVERED_MIN: f64 = 89.0;
const WRONG_MAX: f64 = 11.0;

fn case(process: Process, mean_ms: u64, seconds: u64) -> Case {
    Case::fixed(process, mean_ms * 1_000_000, seconds * 1_000_000_000)
}

fn row<'a>(rows: &'a [CoverageRow], figure: &str) -> &'a CoverageRow {
    rows.iter().find(|row| row.figure == figure).expect("the study has this figure")
}

/// Asserts that no figure of `case` is wrong too often, and returns its rows.
fn seldom_wrong(case: Case, runs: usize) -> Vec<CoverageRow> {
    let rows = study(case, runs, 7);
    for row in &rows {
        let wrong = (row.wrong_share() - row.unmet_share()) * 100.0;
        assert!(wrong <= WRONG_MAX, "{} {}: wrong in {wrong:.1} % of the runs", case.process.name(), row.figure);
    }
    rows
}

/// Asserts both claims for `figures` of `case`, and that nearly every run resolves them.
fn covers(case: Case, runs: usize, figures: &[&str]) {
    let rows = seldom_wrong(case, runs);
    for figure in figures {
        let row = row(&rows, figure);
        let (coverage, resolved) = (row.coverage() * 100.0, row.resolved_share() * 100.0);
        println!("{} {figure}: covered {coverage:.1} %, resolved {resolved:.0} %", case.process.name());
        assert!(coverage >= COVERED_MIN, "{} {figure}: {coverage:.1} %", case.process.name());
        assert!(resolved > 90.0, "{} {figure}: resolved {resolved:.0} %", case.process.name());
    }
}

#[test]
fn independent_latencies_are_covered() {
    covers(case(Process::LogNormal { sigma: 0.5 }, 1, 3), RUNS, &["p50", "p99", "mean", "iops"]);
    covers(case(Process::Bimodal { slow: 0.1, ratio: 10.0 }, 1, 3), RUNS, &["p50", "p99", "mean", "iops"]);
    covers(case(Process::Hyper { slow: 0.05, ratio: 20.0 }, 1, 3), RUNS, &["p50", "p99", "mean", "iops"]);
}

#[test]
fn p999_is_covered_where_it_is_resolved() {
    let rows = seldom_wrong(case(Process::LogNormal { sigma: 0.5 }, 1, 10), 80);
    let p999 = row(&rows, "p99.9");
    assert!(p999.resolved_share() > 0.9 && p999.coverage() > 0.92, "{:.3}", p999.coverage());
}

#[test]
fn autocorrelated_latencies_are_covered() {
    covers(case(Process::Ar1 { sigma: 0.5, rho: 0.5 }, 1, 3), RUNS, &["p50", "p99", "mean", "iops"]);
    covers(case(Process::Ar1 { sigma: 0.5, rho: 0.9 }, 1, 3), RUNS, &["p50", "mean", "iops"]);
}

#[test]
fn the_tail_of_a_short_correlated_run_is_bounded_further_out() {
    let rows = seldom_wrong(case(Process::Ar1 { sigma: 0.5, rho: 0.9 }, 1, 3), RUNS);
    let p99 = row(&rows, "p99");
    assert!(p99.resolved_share() > 0.9 && p99.coverage() * 100.0 >= COVERED_MIN, "{:.3}", p99.coverage());
}

#[test]
fn slow_and_fast_phases_are_covered() {
    let process = Process::Phases { fast_ops: 100.0, slow_ops: 25.0, ratio: 5.0 };
    covers(case(process, 1, 3), RUNS, &["p50", "mean", "iops"]);
}

#[test]
fn a_regime_met_three_times_leaves_tail_and_mean_wide() {
    let process = Process::Phases { fast_ops: 1000.0, slow_ops: 50.0, ratio: 10.0 };
    let rows = seldom_wrong(case(process, 1, 3), RUNS);
    for (figure, least) in [("p99", 0.3), ("mean", 0.5)] {
        let half_width = row(&rows, figure).half_width;
        assert!(half_width > least, "{figure}: {half_width:.2}");
    }
}

#[test]
fn five_stalls_resolve_the_median_and_leave_p99_wide_open() {
    let process = Process::Phases { fast_ops: 2000.0, slow_ops: 8.0, ratio: 20.0 };
    let rows = seldom_wrong(case(process, 1, 10), 100);
    assert!(row(&rows, "p50").resolved_share() > 0.9);
    assert!(row(&rows, "p99").half_width > 0.5, "{:.2}", row(&rows, "p99").half_width);
}

#[test]
fn the_sync_part_is_covered_by_the_dependence_of_commits() {
    let whole = case(Process::Ar1 { sigma: 0.5, rho: 0.5 }, 1, 6);
    covers(Case { part: true, ..whole }, 120, &["p50", "p99"]);
}

#[test]
fn several_workers_are_covered_as_one_is() {
    covers(
        Case { depth: 4, ..case(Process::Ar1 { sigma: 0.5, rho: 0.5 }, 4, 3) },
        200,
        &["p50", "p99", "mean", "iops"],
    );
}

#[test]
fn stopping_when_the_interval_is_tight_does_not_spoil_it() {
    let process = Process::Ar1 { sigma: 0.5, rho: 0.5 };
    let stop = Some((0.99, 0.08, 2_000_000_000));
    let rows = seldom_wrong(Case { stop, ..case(process, 1, 6) }, 100);
    let p99 = row(&rows, "p99");
    assert!(p99.mean_duration_ns < 5.5e9, "it does stop early: {:.1} s", p99.mean_duration_ns / 1e9);
    assert!(p99.coverage() >= 0.92, "{:.3}", p99.coverage());
}

#[test]
fn what_cannot_be_resolved_is_not_claimed() {
    let rows = study(case(Process::LogNormal { sigma: 0.5 }, 10, 10), 100, 7);
    assert_eq!(row(&rows, "p99.9").resolved, 0, "1,000 operations never resolve p99.9");
}

//! Prints the table of measured coverage:
//! `cargo run --release -p qd1-truth --example coverage [RUNS [SEED [held-out]]]`.

use qd1_truth::coverage::{Case, CoverageRow, cases, held_out, study};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(default);
    let (runs, seed) = (number(0, 1000) as usize, number(1, 1));
    let held = arguments.get(2).is_some_and(|text| text == "held-out");
    let which = if held { "held-out cases" } else { "tuned cases" };
    println!("nominal 95 % intervals, {which}, {runs} runs, seed {seed}; all in percent");
    println!("a cell: coverage of the runs that resolve it (runs that resolve it; half width) wrong-unmet");
    println!("  wrong: of all runs, resolved and missing the truth; unmet: those of them that met no slow phase");
    println!("  -: no run resolves it; ( ) around a coverage: fewer than half do; !: a claim is missed\n");
    let figures = ["p50", "p99", "p99.9", "mean", "iops"].map(|figure| format!("{figure:^28}"));
    println!("{:<22} {:>8} {:>6}      {}", "process", "mean", "time", figures.join(" | "));
    let rows: Vec<Vec<CoverageRow>> =
        if held { held_out() } else { cases() }.into_iter().map(|case| line(case, runs, seed)).collect();
    summary(&rows.concat());
    println!("* stopped early, when p99 was within 5 %, looked at every 0.5 s from 2 s on");
    println!("d4: four workers at once; sync: figures of the sync part of commits, intervals of the whole commits");
}

/// Studies one case and prints its line.
fn line(case: Case, runs: usize, seed: u64) -> Vec<CoverageRow> {
    let rows = study(case, runs, seed);
    let kind = match (case.stop, case.depth, case.part) {
        (Some(_), ..) => "*",
        (_, 2.., _) => "d4",
        (.., true) => "sync",
        _ => "",
    };
    let cells: Vec<String> = rows.iter().map(cell).collect();
    println!(
        "{:<22} {:>5.2} ms {:>4.1} s {kind:<4} {}",
        case.process.name(),
        case.mean_ns as f64 / 1e6,
        rows[0].mean_duration_ns / 1e9,
        cells.join(" | ")
    );
    rows
}

fn cell(row: &CoverageRow) -> String {
    if row.resolved == 0 {
        return format!("{:>28}", "-");
    }
    let coverage = row.coverage() * 100.0;
    let counts = row.resolved_share() >= 0.5;
    let shown = if counts { format!("{coverage:.1} ") } else { format!("({coverage:.1})") };
    format!(
        "{shown:>7} ({:3.0}; {:5.1}) {:4.1}-{:4.1}{}",
        row.resolved_share() * 100.0,
        row.half_width * 100.0,
        row.wrong_share() * 100.0,
        row.unmet_share() * 100.0,
        if met(row) { " " } else { "!" }
    )
}

/// Whether the interval is not too narrow by either claim, to half a percent: the standard error of 1,000 runs is 0.7
/// %.
fn met(row: &CoverageRow) -> bool {
    let covered = row.resolved_share() < 0.5 || row.coverage() >= 0.925;
    covered && row.wrong_share() - row.unmet_share() <= 0.075
}

/// Counts of cells.
fn summary(rows: &[CoverageRow]) {
    let count = |test: &dyn Fn(&CoverageRow) -> bool| rows.iter().filter(|row| test(row)).count();
    let resolved = |row: &CoverageRow| row.resolved_share() >= 0.5;
    println!("\n{} cells, {} of them resolved in at least half of the runs; of these", rows.len(), count(&resolved));
    println!("  covered in less than 93.0 %: {}", count(&|row| resolved(row) && row.coverage() < 0.93));
    println!(
        "  covered in 93.0 to 97.0 %:   {}",
        count(&|row| resolved(row) && (0.93..=0.97).contains(&row.coverage()))
    );
    println!("  covered in more than 97.0 %: {}", count(&|row| resolved(row) && row.coverage() > 0.97));
    let beyond = |row: &CoverageRow| row.wrong_share() - row.unmet_share();
    let worst = rows.iter().map(beyond).fold(0.0, f64::max);
    println!("wrong, of all runs, where a slow phase was met: at most {:.1} % in any cell", worst * 100.0);
    println!("  more than 7 % in {} of all {} cells", count(&|row| beyond(row) > 0.07), rows.len());
    println!("  unmet (no run can know): more than 7 % in {} cells", count(&|row| row.unmet_share() > 0.07));
    let latencies = rows.iter().filter(|row| row.figure != "iops");
    let low = latencies.map(CoverageRow::low_wrong_share).fold(0.0, f64::max);
    println!("lower limit of a latency above the truth, resolved or not: at most {:.1} % of the runs", low * 100.0);
}

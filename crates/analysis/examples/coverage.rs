//! Prints the table of measured coverage: `cargo run --release -p qd1-analysis --example coverage [RUNS [SEED]]`.

use qd1_analysis::coverage::{cases, study};

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse::<u64>().ok());
    let runs = arguments.next().unwrap_or(1000) as usize;
    let seed = arguments.next().unwrap_or(1);
    println!(
        "coverage of nominal 95 % intervals in percent of the runs that resolve the figure; {runs} runs, seed {seed}"
    );
    println!(
        "a cell: coverage (resolved in % of runs; half width in % of the truth; interval wholly below the truth, %)\n"
    );
    println!("{:<22} {:>7} {:>8}  p50 | p99 | p99.9 | mean | iops", "process", "mean", "time");
    for case in cases() {
        let rows = study(case, runs, seed);
        let cells: Vec<String> = rows
            .iter()
            .map(|row| match row.resolved {
                0 => format!("{:>18}", "not resolved"),
                _ => format!(
                    "{:5.1} ({:3.0}; {:5.1}; {:4.1})",
                    row.coverage() * 100.0,
                    row.resolved_share() * 100.0,
                    row.half_width * 100.0,
                    row.below as f64 / row.resolved as f64 * 100.0
                ),
            })
            .collect();
        let stop = if case.stop.is_some() { "*" } else { " " };
        println!(
            "{:<22} {:>4.1} ms {:>4.1} s{stop} {}",
            case.process.name(),
            case.mean_ns as f64 / 1e6,
            rows[0].mean_duration_ns / 1e9,
            cells.join(" | ")
        );
    }
    println!("\n* stopped early, when p99 was within 5 %, looked at every 0.5 s from 2 s on, at most 10 s");
}

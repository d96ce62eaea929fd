//! Prints how well changes, periods, drifts and steady states are found on simulated disks of known course:
//! `cargo run --release -p qd1-analysis --example change [N [SEED [CASE]]]`, N runs of each line;
//! CASE is a part of a case's name.

use qd1_analysis::change::truth::{Case, Row, at, study};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(default);
    let (runs, seed) = (number(0, 50) as usize, number(1, 1));
    println!("{runs} runs a line, seed {seed}; shares in percent");
    println!("  time: error of a change in intervals of 100 ms, or of a period in percent; size: error in percent");
    println!("  held: stated 95 % interval of the size (or period) holds the truth");
    println!("  false: runs with a change / period / drift that there was not; steady: so called (of these wrong)\n");
    println!(
        "{:<20} {:<16} {:>6} {:>14} {:>14} {:>6} {:>16} {:>12}",
        "case", "noise", "found", "time p50 p95", "size p50 p95", "held", "false", "steady"
    );
    let only = arguments.get(2);
    for case in Case::ALL.into_iter().filter(|case| only.is_none_or(|only| case.name().contains(only.as_str()))) {
        let rows = study(case, runs, seed);
        rows.iter().for_each(|row| line(case, row));
        line(case, &together(&rows));
    }
}

/// All lines of a case as one.
fn together(rows: &[Row]) -> Row {
    let mut all = Row { noise: "= all".to_owned(), ..Row::default() };
    for row in rows {
        all.runs += row.runs;
        all.expected += row.expected;
        all.found += row.found;
        all.covered += row.covered;
        all.false_changes += row.false_changes;
        all.false_periods += row.false_periods;
        all.false_drifts += row.false_drifts;
        all.steady += row.steady;
        all.steady_wrong += row.steady_wrong;
        all.time_errors.extend(&row.time_errors);
        all.size_errors.extend(&row.size_errors);
    }
    all.time_errors.sort_unstable_by(f64::total_cmp);
    all.size_errors.sort_unstable_by(f64::total_cmp);
    all
}

fn line(case: Case, row: &Row) {
    let share = |part: usize, whole: usize| if whole == 0 { f64::NAN } else { 100.0 * part as f64 / whole as f64 };
    let unit = if case == Case::Stalls { 100.0 } else { 1.0 };
    let pair = |errors: &[f64], unit: f64| match errors {
        [] => format!("{:>14}", "-"),
        errors => format!("{:>7.2} {:>6.2}", unit * at(errors, 0.5), unit * at(errors, 0.95)),
    };
    let shown =
        |part: usize, whole: usize| if whole == 0 { "-".to_owned() } else { format!("{:.1}", share(part, whole)) };
    println!(
        "{:<20} {:<16} {:>6} {} {} {:>6} {:>4.1} /{:>4.1} /{:>4.1} {:>5.0} ({:>4.1})",
        case.name(),
        row.noise,
        shown(row.found, row.expected),
        pair(&row.time_errors, unit),
        pair(&row.size_errors, 100.0),
        shown(row.covered, row.found),
        share(row.false_changes, row.runs),
        share(row.false_periods, row.runs),
        share(row.false_drifts, row.runs),
        share(row.steady, row.runs),
        share(row.steady_wrong, row.runs),
    );
}

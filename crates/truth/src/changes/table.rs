//! The table of the changes, periods, drifts and steady states that were found.

use std::fmt::Write as _;

use super::{Case, Row, at, study};
use crate::Seeds;

/// The table of `count` / 5 runs a line; `is_verbose` has a line for each kind of noise.
pub fn table(seeds: Seeds, count: u64, is_verbose: bool) -> String {
    let runs = count.div_ceil(5) as usize;
    let seed = match seeds {
        Seeds::Tuning => 1,
        Seeds::Table => 1000,
    };
    let mut text = format!("change: {runs} runs for each case and noise, seed {seed}; shares in percent\n");
    text += "  time: error of a change in intervals of 100 ms, or of a period in percent; size: error in percent\n";
    text += "  held: stated 95 % interval of the size (or period) contains the truth\n";
    text += "  false: runs with a change / period / drift that did not exist; steady: runs called steady (of these wrong)\n";
    let _ = writeln!(
        text,
        "  {:<20} {:<16} {:>6} {:>14} {:>14} {:>6} {:>16} {:>12}",
        "case", "noise", "found", "time p50 p95", "size p50 p95", "held", "false", "steady"
    );
    for case in Case::ALL {
        let rows = study(case, runs, seed);
        if is_verbose {
            rows.iter().for_each(|row| line(&mut text, case, row));
        }
        line(&mut text, case, &together(&rows));
    }
    text
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

fn line(text: &mut String, case: Case, row: &Row) {
    let share = |part: usize, whole: usize| if whole == 0 { f64::NAN } else { 100.0 * part as f64 / whole as f64 };
    let unit = if case == Case::Stalls { 100.0 } else { 1.0 };
    let pair = |errors: &[f64], unit: f64| match errors {
        [] => format!("{:>14}", "-"),
        errors => format!("{:>7.2} {:>6.2}", unit * at(errors, 0.5), unit * at(errors, 0.95)),
    };
    let shown =
        |part: usize, whole: usize| if whole == 0 { "-".to_owned() } else { format!("{:.1}", share(part, whole)) };
    let _ = writeln!(
        text,
        "  {:<20} {:<16} {:>6} {} {} {:>6} {:>4.1} /{:>4.1} /{:>4.1} {:>5.0} ({:>4.1})",
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

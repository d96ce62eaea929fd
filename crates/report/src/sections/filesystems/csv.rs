//! The table of filesystems for a data frame: one row for each figure and filesystem.

use qd1_model::filesystems::{Candidate, CellOf, Comparison, Row};
use qd1_model::{Estimate, Report};

const HEADER: &str = "run,step,op,metric,leads,filesystem,kind,rank,value,low,high,n,rounds,round_values,round_lows,\
                      round_highs,to_best,to_best_low,to_best_high\n";

/// Returns all figures. Unresolved ones are empty; lists inside a field are separated by spaces.
pub(crate) fn render(report: &Report, table: &Comparison) -> String {
    let mut text = HEADER.to_owned();
    for row in &table.rows {
        for (one, cell) in table.filesystems.iter().zip(&row.cells) {
            text += &fields(&report.record.id, row, one, cell).join(",");
            text.push('\n');
        }
    }
    text
}

fn fields(run: &str, row: &Row, one: &Candidate, cell: &CellOf) -> Vec<String> {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let each = |pick: fn(&Estimate) -> Option<f64>| {
        let values: Vec<String> =
            cell.rounds.iter().map(|round| pick(&round.figure).map_or("-".to_owned(), |v| v.to_string())).collect();
        values.join(" ")
    };
    let (over, to_best) = (&cell.over_rounds, cell.to_best.unwrap_or_default());
    vec![
        run.to_owned(),
        row.step.clone(),
        row.op.name().to_owned(),
        row.metric.clone(),
        row.leads.to_string(),
        one.name.clone(),
        one.kind.clone(),
        cell.rank.map(|rank| rank.to_string()).unwrap_or_default(),
        number(over.value),
        number(over.low),
        number(over.high),
        over.n.to_string(),
        cell.rounds.len().to_string(),
        each(|figure| figure.value),
        each(|figure| figure.low),
        each(|figure| figure.high),
        number(to_best.value),
        number(to_best.low),
        number(to_best.high),
    ]
}

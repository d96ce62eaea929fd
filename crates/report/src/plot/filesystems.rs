//! Filesystems side by side: each one's figure as a multiple of the best one's.

use qd1_model::filesystems::{CellOf, Comparison, Row};
use qd1_model::metric::{Better, metric};

use super::{Axis, AxisUnit, Body, Chart, Grid, Group, Pictured, named};

/// Returns the chart of each comparison of filesystems.
pub(super) fn groups(runs: &[Pictured]) -> Vec<Group> {
    let tables = runs.iter().filter_map(|run| Some((run, run.report.part::<Comparison>()?)));
    tables.map(|(run, table)| group(runs, run, table)).collect()
}

fn group(runs: &[Pictured], run: &Pictured, table: &Comparison) -> Group {
    let names = |label, unit| Axis { label, unit, is_log: false };
    let chart = Chart {
        id: named(runs, run, "filesystems").replace(' ', "-"),
        title: named(runs, run, "filesystems: how many times worse than the best"),
        note: "1 is the best in its row. Values within each other's intervals do not differ; the intervals are in the \
             table."
            .to_owned(),
        x: names("filesystem", AxisUnit::Names),
        y: names("figure", AxisUnit::Names),
        body: Body::Grid { grid: grid(table) },
        time: None,
        bounds: Vec::new(),
        made: String::new(),
    };
    let title = named(runs, run, "filesystems");
    Group { title, about: String::new(), findings: Vec::new(), is_open: true, charts: vec![chart] }
}

fn grid(table: &Comparison) -> Grid {
    let leading: Vec<&Row> = table.rows.iter().filter(|row| row.leads).collect();
    let best = |row: &Row, cell: &CellOf| row.cells.iter().any(|other| other.rank != Some(1)) && cell.rank == Some(1);
    let marked = leading.iter().enumerate().flat_map(|(at, row)| {
        let is_best = row.cells.iter().map(move |cell| best(row, cell));
        is_best.enumerate().filter(|(_, is_best)| *is_best).map(move |(column, _)| (at, column))
    });
    let marked: Vec<(usize, usize)> = marked.collect();
    Grid {
        columns: table.filesystems.iter().map(|one| one.name.clone()).collect(),
        rows: leading.iter().map(|row| label(row)).collect(),
        values: leading.iter().map(|row| times_worse(row)).collect(),
        unit: Some(AxisUnit::Count),
        mark: if marked.is_empty() {
            String::new()
        } else {
            "the best, where the others are certainly worse".to_owned()
        },
        marked,
    }
}

fn label(row: &Row) -> String {
    let title = metric(&row.metric).map_or(row.metric.as_str(), |metric| metric.title);
    format!("{} {} {title}", row.step, row.op.name())
}

/// Each filesystem's figure divided by the best one's, inverted where more is better.
fn times_worse(row: &Row) -> Vec<Option<f64>> {
    let is_rate = metric(&row.metric).is_some_and(|metric| metric.better == Better::Higher);
    let cost = |cell: &CellOf| {
        let value = cell.over_rounds.value.filter(|value| *value > 0.0)?;
        Some(if is_rate { 1.0 / value } else { value })
    };
    let best = row.cells.iter().filter_map(cost).reduce(f64::min);
    row.cells.iter().map(|cell| Some(cost(cell)? / best?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::filesystems::sample;
    use qd1_model::chart::ChartData;

    #[test]
    fn the_best_of_each_row_is_one_and_no_cell_is_better() {
        let run = Pictured { name: "a".to_owned(), report: sample::report(), data: ChartData::default() };
        let groups = groups(std::slice::from_ref(&run));
        let Body::Grid { grid } = &groups[0].charts[0].body else { panic!("a grid") };
        let table = run.report.part::<Comparison>().unwrap();
        assert_eq!(
            (grid.columns.len(), grid.rows.len()),
            (table.filesystems.len(), table.rows.iter().filter(|row| row.leads).count())
        );
        for values in &grid.values {
            let best = values.iter().flatten().copied().fold(f64::INFINITY, f64::min);
            assert!((best - 1.0).abs() < 1e-9, "{values:?}");
        }
    }
}

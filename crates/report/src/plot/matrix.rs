//! Disks by classes of workload: which run got which grade, and the figure that decided.

use qd1_model::metric::metric;
use qd1_model::{Grade, Report, Verdict};

use super::{Axis, AxisUnit, Body, Chart, Graded, Matrix, Pictured};
use crate::sections::verdicts;
use crate::words;

const CLASSES: Axis = Axis { label: "class of workload", unit: AxisUnit::Names, is_log: false };
const RUNS: Axis = Axis { label: "run", unit: AxisUnit::Names, is_log: false };
/// Single reads, which have words of their own.
const READS: &str = "one read at a time";

/// Returns the grades of runs; `None` where no run was judged by classes.
pub(crate) fn of(runs: &[Pictured]) -> Option<Matrix> {
    let mut columns: Vec<String> = Vec::new();
    for verdict in runs.iter().flat_map(|run| &run.report.verdicts) {
        if !columns.contains(&verdict.title) {
            columns.push(verdict.title.clone());
        }
    }
    if columns.is_empty() {
        return None;
    }
    let has_reads = runs.iter().any(|run| reads(&run.report).is_some());
    let row = |run: &Pictured| -> Vec<Option<Graded>> {
        let of_class = |title: &String| {
            let verdict = run.report.verdicts.iter().find(|verdict| verdict.title == *title)?;
            Some(graded(verdict))
        };
        let mut cells: Vec<Option<Graded>> = columns.iter().map(of_class).collect();
        if has_reads {
            cells.push(reads(&run.report));
        }
        cells
    };
    let cells = runs.iter().map(row).collect();
    if has_reads {
        columns.push(READS.to_owned());
    }
    Some(Matrix { columns, rows: runs.iter().map(|run| run.name.clone()).collect(), cells })
}

fn graded(verdict: &Verdict) -> Graded {
    let decided = words::deciding(verdict).first().map(|judged| verdicts::figure_parts(judged));
    let (of, value) = decided.unwrap_or_default();
    Graded { word: word(verdict.grade).to_owned(), of, value, color: verdicts::color(verdict.grade) }
}

/// A grade in a narrow cell.
const fn word(grade: Grade) -> &'static str {
    match grade {
        Grade::Pass => "PASS",
        Grade::Marginal => "MARGINAL",
        Grade::Fail => "FAIL",
        Grade::NotResolved => "OPEN",
    }
}

fn reads(report: &Report) -> Option<Graded> {
    let reads = report.impressions.iter().find(|impression| impression.requests == "reads")?;
    let metric = metric(&reads.metric)?;
    let value = reads.figure.map_or_else(|| "not measured".to_owned(), |figure| words::known(metric.unit, &figure));
    Some(Graded {
        word: reads.word.as_deref().unwrap_or("OPEN").to_uppercase(),
        of: metric.title.to_owned(),
        value,
        color: verdicts::color_of_reads(reads),
    })
}

/// Returns the grades as a chart.
pub(super) fn chart(runs: &[Pictured]) -> Option<Chart> {
    let matrix = of(runs)?;
    Some(Chart {
        id: "matrix".to_owned(),
        title: "Disks by class of workload".to_owned(),
        note: String::new(),
        x: CLASSES,
        y: RUNS,
        body: Body::Matrix { matrix },
        time: None,
        bounds: Vec::new(),
        made: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;
    use qd1_model::chart::ChartData;

    #[test]
    fn each_run_has_its_grade_and_figure_for_each_class() {
        let run = |name: &str, report| Pictured { name: name.to_owned(), report, data: ChartData::default() };
        let runs = [run("vps", sample::slow_vps()), run("local", sample::fast_nvme()), run("suite", sample::suite())];
        let matrix = of(&runs).unwrap();
        assert_eq!(matrix.rows, ["vps", "local", "suite"]);
        assert_eq!(matrix.columns[0], "etcd / Kubernetes");
        assert_eq!(matrix.columns.last().unwrap(), "one read at a time");
        let etcd = matrix.cells[0][0].as_ref().unwrap();
        assert_eq!((etcd.word.as_str(), etcd.figure().as_str(), etcd.color), ("FAIL", "wal sync p99 12.0 ms", "bad"));
        for (cells, run) in matrix.cells.iter().zip(&runs) {
            assert_eq!(cells.len(), matrix.columns.len());
            let count = cells.iter().flatten().count();
            assert_eq!(count, run.report.verdicts.len() + usize::from(!run.report.verdicts.is_empty()), "{}", run.name);
        }
        assert!(of(&runs[2..]).is_none(), "a suite has no classes");
    }
}

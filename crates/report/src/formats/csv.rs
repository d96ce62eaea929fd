//! CSV after RFC 4180, for spreadsheets and data frames: one row per step, kind of operation and metric (of a sweep:
//! per cell).

use qd1_model::metric::{METRICS, Unit};
use qd1_model::plan::criterion::Criterion;
use qd1_model::{OpClass, Report};

use crate::sections::{self, apps};
use crate::table::quoted;
use crate::words;

const HEADER: &str = "run,step,op,metric,unit,value,low,high,n,n_effective,resolved,criteria\n";

/// Returns the whole report. A figure that n samples do not resolve has an empty value, never a number; its known bound
/// is kept.
pub(crate) fn render(report: &Report) -> String {
    if let Some(own) = sections::body(report).iter().find_map(|section| section.csv()) {
        return own;
    }
    let mut text = HEADER.to_owned();
    for step in &report.summary.steps {
        for stream in &step.streams {
            for metric in METRICS {
                let Some(estimate) = (metric.get)(stream) else { continue };
                let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
                let fields = [
                    quoted(&report.record.id),
                    quoted(&step.name),
                    stream.class.name().into(),
                    metric.name.into(),
                    unit(metric.unit).into(),
                    number(estimate.value),
                    number(estimate.low),
                    number(estimate.high),
                    estimate.n.to_string(),
                    estimate.n_effective.round().to_string(),
                    estimate.is_resolved().to_string(),
                    quoted(&criteria(report, &step.name, stream.class, metric.name)),
                ];
                text += &fields.join(",");
                text.push('\n');
            }
        }
        for (kind, figure) in apps::figures(report, &step.name) {
            let (unit, value) = (apps::unit(figure.unit), figure.value.to_string());
            let fields = [report.record.id.as_str(), &step.name, kind, &figure.name, unit, &value];
            text += &fields.map(quoted).join(",");
            text += ",,,,,,\n";
        }
    }
    text
}

/// Returns the results of the suite's own criteria of this figure: `pass: at least 200 MB/s (standard droplet); fail:
/// ...`.
fn criteria(report: &Report, step: &str, op: OpClass, metric: &str) -> String {
    let here = |c: &Criterion| c.step == step && c.op == op && c.metric == metric;
    let results = report.criteria.iter().filter(|judged| here(&judged.criterion)).map(|judged| {
        let label = &judged.criterion.label;
        let label = if label.is_empty() { String::new() } else { format!(" ({label})") };
        format!("{}: {}{label}", judged.grade.name(), words::limits(&judged.criterion))
    });
    results.collect::<Vec<_>>().join("; ")
}

const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Ns => "ns",
        Unit::PerSecond => "1/s",
        Unit::BytesPerSecond => "B/s",
        Unit::Share => "1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;

    #[test]
    fn a_name_with_commas_or_quotes_stays_one_field() {
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        let mut report = sample::slow_vps();
        report.summary.steps[0].name = "randread, \"mine\"".into();
        assert!(render(&report).contains(",\"randread, \"\"mine\"\"\",read,"));
    }

    #[test]
    fn rows_have_all_columns_and_unresolved_ones_have_no_value() {
        let text = render(&sample::slow_vps());
        let columns = HEADER.matches(',').count();
        assert!(text.lines().all(|line| line.matches(',').count() == columns));
        let unresolved: Vec<_> = text.lines().filter(|line| line.ends_with(",false,")).collect();
        assert!(!unresolved.is_empty() && unresolved.iter().all(|line| line.contains(",,,,")), "{unresolved:?}");
    }

    #[test]
    fn a_figure_has_the_results_of_its_criteria() {
        let text = render(&sample::suite());
        let row = text.lines().find(|line| line.contains(",bw-test,write,bytes_per_second,")).unwrap();
        let results =
            "fail: at least 200 MB/s (190 MB/s, 5 % less, counts) (standard droplet); marginal: pass from 300 MB/s";
        assert!(row.contains(results), "{row}");
    }

    #[test]
    fn csv_snapshot() {
        insta::assert_snapshot!(render(&sample::interrupted()));
    }
}

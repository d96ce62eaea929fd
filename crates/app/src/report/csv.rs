//! One row per step, kind of operation and metric, as RFC 4180 has it: a spreadsheet or a data frame takes it as it is.

use qd1_model::Report;
use qd1_model::metric::{METRICS, Unit};

const HEADER: &str = "run,step,op,metric,unit,value,low,high,n,n_effective,resolved\n";

/// The whole report. What n cannot resolve has an empty value, never a number; a bound it does have is kept.
pub(super) fn render(report: &Report) -> String {
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
                ];
                text += &fields.join(",");
                text.push('\n');
            }
        }
    }
    text
}

const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Ns => "ns",
        Unit::PerSecond => "1/s",
        Unit::BytesPerSecond => "B/s",
    }
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn a_name_with_commas_or_quotes_stays_one_field() {
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        let mut report = sample::slow_vps();
        report.summary.steps[0].name = "randread, \"mine\"".into();
        assert!(render(&report).contains(",\"randread, \"\"mine\"\"\",read,"));
    }

    #[test]
    fn every_row_has_every_column_and_an_unresolved_one_has_no_value() {
        let text = render(&sample::slow_vps());
        let columns = HEADER.matches(',').count();
        assert!(text.lines().all(|line| line.matches(',').count() == columns));
        let unresolved: Vec<_> = text.lines().filter(|line| line.ends_with(",false")).collect();
        assert!(!unresolved.is_empty() && unresolved.iter().all(|line| line.contains(",,,,")), "{unresolved:?}");
    }

    #[test]
    fn csv_snapshot() {
        insta::assert_snapshot!(render(&sample::interrupted()));
    }
}

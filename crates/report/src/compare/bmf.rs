//! The figures of the last side in Bencher Metric Format (bencher.dev, "Bencher Metric Format"): benchmark, measure, value and
//! its limits.

use std::collections::BTreeMap;

use qd1_model::comparison::Comparison;
use serde::Serialize;

/// One figure.
#[derive(Debug, Serialize)]
pub(super) struct Value {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

/// Returns the resolved figures by `step/operation` and metric.
pub(super) fn of(comparison: &Comparison) -> BTreeMap<String, BTreeMap<String, Value>> {
    let mut all: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for row in &comparison.rows {
        let Some(figure) = row.figures.last() else { continue };
        let Some(value) = figure.value else { continue };
        let measured = Value { value, lower_value: figure.low, upper_value: figure.high };
        let benchmark = format!("{}/{}", row.step, row.op.name());
        all.entry(benchmark).or_default().insert(row.metric.clone(), measured);
    }
    all
}

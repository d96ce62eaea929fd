//! A report of `qd1 check --json` compared with the truth: does each stated 95 % interval contain it?

use qd1_engine::sim::Device;
use serde_json::Value;

use crate::truth::Law;

/// One stated figure and the truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Step, class and percentile, such as `qd1 read lat_p99_ns`.
    pub what: String,
    /// The truth, ns.
    pub truth_ns: f64,
    /// The figure and its stated interval, ns; `None` if the report says that its samples do not resolve the figure.
    pub stated_ns: Option<Stated>,
}

/// A figure as stated in a report, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stated {
    /// The figure.
    pub value: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
}

impl Compared {
    /// Whether the interval contains the truth; `None` for a figure that was not stated.
    pub fn holds(&self) -> Option<bool> {
        self.stated_ns.map(|stated| (stated.low..=stated.high).contains(&self.truth_ns))
    }
}

/// The truth about what the steps `qd1` and `commit1` of a check measure.
pub struct Truth {
    laws: Vec<(&'static str, &'static str, Law)>,
}

impl Truth {
    /// Computes the truth from this many operations of each kind. With a million, the error of a p99.9 is 0.3 % where
    /// the law's sigma is 0.35, and that of a p50 0.05 %; it falls with the square root of the number. A debug build
    /// draws about 200,000 a second.
    pub fn new(device: &Device, draws: usize) -> Self {
        let reads = Law::reads(device, 4096, draws);
        let writes = Law::writes(device, 4096, draws);
        let commits = Law::commits(device, 4096, draws);
        Self { laws: vec![("qd1", "read", reads), ("qd1", "write", writes), ("commit1", "commit", commits)] }
    }

    /// Every percentile of a report for which the law gives the truth. Steps that the report lacks are left out.
    pub fn compare(&self, report: &Value) -> Vec<Compared> {
        let mut compared = Vec::new();
        for (step, class, law) in &self.laws {
            let Some(stream) = stream(report, step, class) else { continue };
            for (key, q) in [("lat_p50_ns", 0.5), ("lat_p99_ns", 0.99), ("lat_p999_ns", 0.999)] {
                let estimate = &stream[key];
                let number = |part: &str| estimate[part].as_f64();
                let stated = || Some(Stated { value: number("value")?, low: number("low")?, high: number("high")? });
                let what = format!("{step} {class} {key}");
                compared.push(Compared { what, truth_ns: law.quantile(q), stated_ns: stated() });
            }
        }
        compared
    }
}

fn stream<'a>(report: &'a Value, step: &str, class: &str) -> Option<&'a Value> {
    let steps = report["summary"]["steps"].as_array()?;
    let step = steps.iter().find(|candidate| candidate["name"] == step)?;
    step["streams"].as_array()?.iter().find(|candidate| candidate["class"] == class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_engine::sim::Service;
    use serde_json::json;

    #[test]
    fn an_interval_beside_the_truth_is_a_miss_unless_unresolved() {
        let device = Device { read: Service::log_normal(1e6, 0.0), ..Device::default() };
        let estimate = |value: Option<f64>, low: f64, high: f64| json!({ "value": value, "low": low, "high": high });
        let stream = json!({
            "class": "read",
            "lat_p50_ns": estimate(Some(1e6), 0.9e6, 1.1e6),
            "lat_p99_ns": estimate(Some(2e6), 1.5e6, 2.5e6),
            "lat_p999_ns": estimate(None, 1e6, 1e6),
        });
        let report = json!({ "summary": { "steps": [{ "name": "qd1", "streams": [stream] }] } });
        let held: Vec<_> = Truth::new(&device, 100).compare(&report).iter().map(Compared::holds).collect();
        assert_eq!(held, [Some(true), Some(false), None]);
    }
}

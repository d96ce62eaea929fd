//! Figures as shown: an estimate with its interval and sample count, and a summary of each step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::op::{Ended, OpClass};

/// A figure with its 95 % confidence interval. Never a bare number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The figure itself; absent when `n` cannot resolve it.
    pub value: Option<f64>,
    /// Lower end of the 95 % interval; absent when there is no interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Number of samples it is based on.
    pub n: u64,
    /// Effective number of independent samples after correction for autocorrelation.
    pub n_effective: f64,
    /// If not resolved: approximately how many samples would resolve it.
    pub n_needed: u64,
}

impl Estimate {
    /// A figure known exactly (a count, a size).
    pub fn exact(value: f64, n: u64) -> Self {
        Self { value: Some(value), low: Some(value), high: Some(value), n, n_effective: n as f64, n_needed: 0 }
    }

    /// Whether there is a value.
    pub fn is_resolved(&self) -> bool {
        self.value.is_some()
    }
}

/// Percentiles every summary holds, as quantiles.
pub const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];

/// Summary of one kind of operation in one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamSummary {
    /// The kind of operation.
    pub class: OpClass,
    /// Operations.
    pub ios: u64,
    /// Operations per second.
    pub iops: Estimate,
    /// Bytes per second.
    pub bytes_per_second: Estimate,
    /// Mean latency, ns.
    pub lat_mean_ns: Estimate,
    /// Total latency at 50, 99, 99.9, 99.99 %, ns.
    pub lat_p50_ns: Estimate,
    /// 99th percentile, ns.
    pub lat_p99_ns: Estimate,
    /// 99.9th percentile, ns.
    pub lat_p999_ns: Estimate,
    /// 99.99th percentile, ns.
    pub lat_p9999_ns: Estimate,
    /// Slowest observed, ns: an observation, not an estimate.
    pub lat_max_ns: u64,
    /// Sync part of commits, 50th percentile, ns.
    pub sync_p50_ns: Option<Estimate>,
    /// Sync part of commits, 99th percentile, ns.
    pub sync_p99_ns: Option<Estimate>,
    /// Longest wait of this kind of operation in any step with visits, ns: the observed value, which is also the lower
    /// end; the upper end is the maximum that another run of this length would see in 19 of 20 cases. Absent without
    /// visits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_longest_ns: Option<Estimate>,
    /// Share of the time in which a request of this kind would wait longer than 100 ms, 0..1, over all steps with
    /// visits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_share: Option<Estimate>,
    /// The figures as they would be without waits for a processor; absent if slow operations were not examined, or none
    /// waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_waits: Option<WithoutWaits>,
    /// Where the slowest of them spent their time; absent if that was not examined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<TailTime>,
}

impl StreamSummary {
    /// Returns the figures as they would be without waits for a processor, if there were any.
    #[must_use]
    pub fn without_waits(&self) -> Option<Self> {
        let WithoutWaits { lat_p99_ns, lat_p999_ns, lat_p9999_ns, sync_p99_ns, .. } = self.without_waits?;
        Some(Self { lat_p99_ns, lat_p999_ns, lat_p9999_ns, sync_p99_ns, without_waits: None, ..self.clone() })
    }
}

/// Where the slowest 0.1 % of the operations, at least ten, spent their time; for the rest they slept until the disk
/// had answered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TailTime {
    /// Number of these operations.
    pub ios: u64,
    /// Share running, nearly all of it in the kernel, 0..1.
    pub worked: f64,
    /// Share ready and waiting for a processor, 0..1.
    pub waited: f64,
}

/// Tails of latencies without the time that slow operations waited for a processor of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WithoutWaits {
    /// 99th percentile, ns.
    pub lat_p99_ns: Estimate,
    /// 99.9th percentile, ns.
    pub lat_p999_ns: Estimate,
    /// 99.99th percentile, ns.
    pub lat_p9999_ns: Estimate,
    /// Sync part of commits, 99th percentile, ns: scaled like that of the whole commit.
    pub sync_p99_ns: Option<Estimate>,
}

/// Summary of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepSummary {
    /// Name in the plan.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Engine that ran; empty for file operations.
    pub engine: String,
    /// Measured time, ns.
    pub runtime_ns: u64,
    /// Why it ended.
    pub ended: Ended,
    /// Failed requests.
    pub errors: u64,
    /// Per kind of operation.
    pub streams: Vec<StreamSummary>,
    /// Background load that ran at the same time; usually none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<LoadSummary>,
}

/// The throughput of one kind of operation in a background load; counted, not estimated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadSummary {
    /// Which.
    pub class: OpClass,
    /// Operations per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
}

/// All steps of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// In the order they ran.
    pub steps: Vec<StepSummary>,
}

impl Summary {
    /// The stream `class` of step `name`.
    pub fn stream(&self, name: &str, class: OpClass) -> Option<&StreamSummary> {
        self.steps.iter().find(|step| step.name == name)?.streams.iter().find(|stream| stream.class == class)
    }
}

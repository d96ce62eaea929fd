//! A sweep: its settings, and the surface over block size, iodepth and rw that the analysis makes from it.

use crate::plan::sweep::SweepPlan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::Estimate;
use crate::plan::Rw;

/// The surface: cells, and the conclusions from them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Surface {
    /// The settings.
    pub asked: SweepPlan,
    /// Every combination measured, by rw, block size and iodepth.
    pub cells: Vec<Cell>,
    /// Throughput against iodepth, for each rw and block size.
    pub curves: Vec<Curve>,
    /// Throughput against block size, for each rw, at the deepest queue.
    pub crossovers: Vec<Crossover>,
    /// Each pass against the mean of all, where there are several.
    pub drift: Vec<PassDrift>,
}

/// One combination of rw, block size and iodepth, all its passes together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Direction.
    pub rw: Rw,
    /// Block size, bytes.
    pub block: u32,
    /// Requested number of requests in flight.
    pub iodepth: u32,
    /// The steps it was measured in, in the order they ran.
    pub steps: Vec<String>,
    /// Operations per second, while the queue was kept full.
    pub iops: Estimate,
    /// Bytes per second.
    pub bytes_per_second: Estimate,
    /// Mean latency, ns.
    pub lat_mean_ns: Estimate,
    /// Median latency, ns.
    pub lat_p50_ns: Estimate,
    /// 99th percentile, ns.
    pub lat_p99_ns: Estimate,
    /// 99.9th percentile, ns.
    pub lat_p999_ns: Estimate,
    /// Operations per second of each pass.
    pub pass_iops: Vec<f64>,
    /// Average requests in flight by Little's law: throughput times mean latency. Should equal `iodepth`.
    pub in_flight: f64,
    /// How far `in_flight` may be from `iodepth`, relative, before it matters.
    pub in_flight_tolerance: f64,
    /// Average requests in flight by the kernel's counters of the device; absent if there are none.
    pub in_flight_device: Option<f64>,
    /// What is wrong with it.
    pub flags: Vec<CellFlag>,
}

/// A reason to distrust a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CellFlag {
    /// Throughput times latency is below the requested depth: the queue was not kept full.
    DepthNotReached,
    /// Throughput times latency is above the depth: the figures contradict each other.
    LittleBroken,
    /// We had the depth in flight, but most of it waited above the device.
    DeviceQueueShallow,
    /// The passes differ by more than their spread explains.
    PassesDisagree,
    /// Requests failed.
    Errors,
}

/// Where a curve bends from one limit to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bend {
    /// What is known of it.
    pub state: BendState,
    /// Where it is: a value with its interval if seen, otherwise only the bound.
    pub at: Estimate,
    /// How sharp: 1 as smooth as one queue with one server and random service, 100 a hard corner.
    pub sharpness: f64,
    /// Root mean square of the fit's relative residuals.
    pub residual: f64,
}

/// What is known of a bend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BendState {
    /// Within the measured range.
    Seen,
    /// Not reached: at least `at.low`.
    AtLeast,
    /// Already past: at most `at.high`.
    AtMost,
    /// The figures cannot tell.
    NotResolved,
}

/// Throughput against iodepth at one block size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// Direction.
    pub rw: Rw,
    /// Block size, bytes.
    pub block: u32,
    /// The knee: the iodepth at which the line of the unloaded device meets the ceiling.
    pub knee: Bend,
    /// The ceiling of the fit, operations per second; absent if the knee was not reached.
    pub iops_ceiling: Option<f64>,
    /// The highest rate measured, operations per second.
    pub iops_best: Estimate,
    /// At which iodepth.
    pub iodepth_best: u32,
    /// Whether throughput falls again beyond `iodepth_best`.
    pub falls: bool,
    /// The depth that the latency bound allows, if one was given.
    pub allowed: Option<Allowed>,
}

/// The iodepth that a bound on p99 allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Allowed {
    /// Deepest measured queue whose p99, and that of all shallower ones, is within the bound; absent if none is.
    pub iodepth: Option<u32>,
    /// Whether all depths measured are within the bound, so that deeper ones may be.
    pub at_least: bool,
    /// Whether the intervals leave no doubt, here and at the next depth.
    pub certain: bool,
    /// Where p99 meets the bound, interpolated between the depths measured; absent at either end.
    pub interpolated: Option<f64>,
    /// Throughput at `iodepth`, operations per second.
    pub iops: Estimate,
}

/// Where the limit changes from operations per second to bytes per second, at one iodepth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Crossover {
    /// Direction.
    pub rw: Rw,
    /// Queue depth at which it was measured.
    pub iodepth: u32,
    /// Block size in bytes: below it operations per second bind, above it bytes per second.
    pub block: Bend,
    /// The limit of operations per second; absent where only bytes per second bind.
    pub iops_limit: Option<f64>,
    /// The limit of bytes per second; absent where only operations per second bind.
    pub bytes_limit: Option<f64>,
    /// Whether the queue was past the knee at the smallest block: if not, a deeper one may do more operations.
    pub saturated: bool,
}

/// One pass against the mean of all passes, over all cells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PassDrift {
    /// From 1.
    pub pass: u32,
    /// Mean relative difference of throughput (0.1: 10 % faster than the mean of all passes), with its interval.
    pub relative: Estimate,
}

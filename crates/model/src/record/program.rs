//! What a real program says of itself and of its loads.

use crate::environment::DeviceCounters;
use crate::plan::program::Program;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The program of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppRecord {
    /// Which.
    pub program: Program,
    /// Its version, as it says.
    pub version: String,
    /// How it was set up, where that differs from its own defaults or decides what is measured.
    pub settings: Vec<Setting>,
    /// How long making its data took, ns; not measured as a load.
    pub prepare_ns: u64,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// The program's name for it.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// What one load brought besides what qd1 timed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppStep {
    /// What the program counted over the load, its warm-up included.
    pub counters: Vec<Counter>,
    /// Figures that the program states itself; without intervals, since it gives none.
    pub reported: Vec<Counter>,
    /// Its own histograms over the load.
    pub buckets: Vec<Buckets>,
    /// What the kernel counted on the disk over the load, its warm-up included; absent where there is no one disk.
    pub device: Option<DeviceCounters>,
}

impl AppStep {
    /// The counter called `name`.
    pub fn counter(&self, name: &str) -> Option<f64> {
        self.counters.iter().find(|counter| counter.name == name).map(|counter| counter.value)
    }

    /// The figure called `name` that the program states.
    pub fn reported(&self, name: &str) -> Option<f64> {
        self.reported.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AppUnit {
    /// A number of things.
    Count,
    /// Things per second.
    PerSecond,
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Things for each operation of the load.
    PerOperation,
    /// Bytes for each operation of the load.
    BytesPerOperation,
}

/// A figure with its name and unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counter {
    /// The program's name for it where it has one.
    pub name: String,
    /// In this unit.
    pub unit: AppUnit,
    /// The figure.
    pub value: f64,
}

impl Counter {
    /// A figure.
    pub fn new(name: impl Into<String>, unit: AppUnit, value: f64) -> Self {
        Self { name: name.into(), unit, value }
    }
}

/// A histogram of a program's own, with the bounds it chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Buckets {
    /// The program's name for it.
    pub name: String,
    /// Upper bound of each bucket, ns, rising; what lies above the last is counted last.
    pub bounds_ns: Vec<u64>,
    /// Values in each bucket, and above the last bound: one more than there are bounds.
    pub counts: Vec<u64>,
    /// Sum of the values, ns.
    pub sum_ns: u64,
}

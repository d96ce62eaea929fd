//! The table of metrics: one row each, from which text, CSV, HTML, comparison and thresholds follow.

use crate::figure::{Estimate, StreamSummary};
use crate::units::{format_count, format_ns, format_rate, format_share};

/// Unit of a metric's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Operations per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// A share, 0..1.
    Share,
}

/// Which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Smaller.
    Lower,
    /// Larger.
    Higher,
}

impl Better {
    /// Whether a value is no worse than a limit.
    #[must_use]
    pub fn is_within(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Lower => value <= limit,
            Self::Higher => value >= limit,
        }
    }

    /// Whether one interval (low, high) lies entirely on the better side of the other.
    #[must_use]
    pub fn is_surely(self, one: (f64, f64), other: (f64, f64)) -> bool {
        match self {
            Self::Lower => one.1 < other.0,
            Self::Higher => one.0 > other.1,
        }
    }

    /// One more than the number of intervals in `all` that are significantly better than this one.
    #[must_use]
    pub fn rank(self, one: (f64, f64), all: &[(f64, f64)]) -> usize {
        1 + all.iter().filter(|other| self.is_surely(**other, one)).count()
    }
}

/// One metric of a stream.
#[derive(Debug)]
pub struct Metric {
    /// Name in JSON, CSV and thresholds; its unit is its suffix.
    pub name: &'static str,
    /// Heading in tables.
    pub title: &'static str,
    /// Unit.
    pub unit: Unit,
    /// Better direction.
    pub better: Better,
    /// Reads it; `None` if the stream has no such figure.
    pub get: fn(&StreamSummary) -> Option<Estimate>,
}

/// Every metric, in the order of columns.
pub static METRICS: &[Metric] = &[
    Metric { name: "lat_p50_ns", title: "p50", unit: Unit::Ns, better: Better::Lower, get: |s| Some(s.lat_p50_ns) },
    Metric { name: "lat_p99_ns", title: "p99", unit: Unit::Ns, better: Better::Lower, get: |s| Some(s.lat_p99_ns) },
    Metric { name: "lat_p999_ns", title: "p99.9", unit: Unit::Ns, better: Better::Lower, get: |s| Some(s.lat_p999_ns) },
    Metric {
        name: "lat_p9999_ns",
        title: "p99.99",
        unit: Unit::Ns,
        better: Better::Lower,
        get: |s| Some(s.lat_p9999_ns),
    },
    Metric { name: "lat_mean_ns", title: "mean", unit: Unit::Ns, better: Better::Lower, get: |s| Some(s.lat_mean_ns) },
    Metric { name: "sync_p50_ns", title: "sync p50", unit: Unit::Ns, better: Better::Lower, get: |s| s.sync_p50_ns },
    Metric { name: "sync_p99_ns", title: "sync p99", unit: Unit::Ns, better: Better::Lower, get: |s| s.sync_p99_ns },
    Metric { name: "iops", title: "per second", unit: Unit::PerSecond, better: Better::Higher, get: |s| Some(s.iops) },
    Metric {
        name: "bytes_per_second",
        title: "throughput",
        unit: Unit::BytesPerSecond,
        better: Better::Higher,
        get: |s| Some(s.bytes_per_second).filter(|rate| rate.value.is_none_or(|value| value > 0.0)),
    },
    Metric {
        name: "stall_longest_ns",
        title: "longest stall",
        unit: Unit::Ns,
        better: Better::Lower,
        get: |s| s.stall_longest_ns,
    },
    Metric {
        name: "stall_share",
        title: "share of time in stalls",
        unit: Unit::Share,
        better: Better::Lower,
        get: |s| s.stall_share,
    },
];

/// The metric called `name`.
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

impl Unit {
    /// Whether it is a rate.
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::PerSecond | Self::BytesPerSecond)
    }

    /// A value of this unit for people.
    pub fn format(self, value: f64) -> String {
        match self {
            Self::Ns => format_ns(value),
            Self::PerSecond => format_count(value),
            Self::BytesPerSecond => format_rate(value),
            Self::Share => format_share(value),
        }
    }
}

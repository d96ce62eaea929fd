//! When requests are issued, and rates limited to what the disk can sustain.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{IoWork, StepPlan, Stop, Work};
use crate::units::Bytes;

/// When requests are issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// As soon as a slot is free: `iodepth` always in flight.
    #[default]
    Closed,
    /// Open loop, evenly spaced; latency counts from when the request was due.
    Fixed {
        /// Requests per second of each worker.
        iops: f64,
    },
    /// Open loop, exponentially spaced; latency counts from when the request was due.
    Poisson {
        /// Mean requests per second of each worker.
        iops: f64,
    },
    /// As `Fixed`, at a rate that the disk can sustain: its rate with one request at a time is measured first.
    Paced {
        /// Maximum requests per second of each worker.
        iops: f64,
        /// Maximum offered rate as a share of what the disk sustains.
        load_max: f64,
    },
}

impl Arrival {
    /// Returns the arrival of each of this many workers so that all of them together do this.
    #[must_use]
    pub fn shared_by(self, workers: u32) -> Self {
        let share = |iops: f64| iops / f64::from(workers.max(1));
        match self {
            Self::Closed => Self::Closed,
            Self::Fixed { iops } => Self::Fixed { iops: share(iops) },
            Self::Poisson { iops } => Self::Poisson { iops: share(iops) },
            Self::Paced { iops, load_max } => Self::Paced { iops: share(iops), load_max },
        }
    }

    /// Returns the requests per second of each worker in an open loop.
    pub fn iops(self) -> Option<f64> {
        match self {
            Self::Closed => None,
            Self::Fixed { iops } | Self::Poisson { iops } | Self::Paced { iops, .. } => Some(iops),
        }
    }

    /// Whether requests are due at their own times, even if earlier ones are not done.
    pub fn is_open(self) -> bool {
        self != Self::Closed
    }
}

/// How many requests per second a step should have offered, how many the disk sustained one at a time, and how many
/// were offered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pace {
    /// The requested rate.
    pub asked_iops: f64,
    /// The rate measured before the step with one request at a time.
    pub sustained_iops: f64,
    /// The offered rate: at most the plan's share of that.
    pub offered_iops: f64,
}

impl StepPlan {
    /// For a paced step, returns the step that measures, before its first visit, what the disk sustains with one
    /// request at a time; `None` for other steps.
    #[must_use]
    pub fn pace_probe(&self) -> Option<Self> {
        let Work::Io(io) = &self.work else { return None };
        let Arrival::Paced { .. } = io.arrival else { return None };
        let work = IoWork { arrival: Arrival::Closed, iodepth: 1, numjobs: 1, io_size: Bytes(0), ..io.clone() };
        let stop = Stop { min_ns: 0, max_ns: PACE_PROBE_NS, ramp_ns: 0, quantile: 0.0, tolerance: 0.05 };
        Some(Self { work: Work::Io(work), background: Vec::new(), stop, visits: 1, ..self.clone() })
    }

    /// Returns the step as it is run on a disk that sustains this many requests per second, and that pace.
    ///
    /// # Panics
    /// For a step without a [`pace_probe`](Self::pace_probe).
    #[must_use]
    pub fn at_pace(&self, sustained_iops: f64) -> (Self, Pace) {
        let mut step = self.clone();
        let Work::Io(io) = &mut step.work else { panic!("only I/O has a pace") };
        let Arrival::Paced { iops, load_max } = io.arrival else { panic!("the step has a pace") };
        let workers = f64::from(io.numjobs.max(1));
        let offered_iops = (workers * iops).min(load_max * sustained_iops).max(PACE_MIN);
        io.arrival = Arrival::Fixed { iops: offered_iops / workers };
        (step, Pace { asked_iops: workers * iops, sustained_iops, offered_iops })
    }
}

/// How long the sustained rate is measured, ns.
pub(super) const PACE_PROBE_NS: u64 = 700_000_000;
/// Minimum requests per second offered, even to a disk that does not answer.
const PACE_MIN: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{BlockShare, Data, EngineChoice, FileUse, Order, Rw, Sync};

    fn step(arrival: Arrival) -> StepPlan {
        let io = IoWork {
            ioengine: EngineChoice::Auto,
            rw: Rw::Randrw,
            rwmixread: 25,
            order: Order::Random,
            blocks: vec![BlockShare { bytes: 4096, weight: 1 }],
            iodepth: 32,
            numjobs: 2,
            direct: true,
            sync: Sync::Fdatasync,
            writes_per_sync: 1,
            file: FileUse::Shared,
            size: Bytes(1 << 30),
            io_size: Bytes(0),
            arrival,
            data: Data::Random,
        };
        let stop = Stop { min_ns: 0, max_ns: 6_000_000_000, ramp_ns: 0, quantile: 0.0, tolerance: 0.05 };
        StepPlan {
            name: "paced".to_owned(),
            title: String::new(),
            work: Work::Io(io),
            background: Vec::new(),
            stop,
            visits: 12,
            writes_max: Bytes(0),
        }
    }

    /// 90 commits a second were offered to a disk that does 47, and its queue was called stalls.
    #[test]
    fn no_more_is_offered_than_half_of_what_a_disk_sustains() {
        let step = step(Arrival::Paced { iops: 60.0, load_max: 0.5 });
        let of_each = |step: &StepPlan| match &step.work {
            Work::Io(io) => io.arrival.iops().unwrap(),
            _ => unreachable!(),
        };
        let (slow, pace) = step.at_pace(62.0);
        assert_eq!((pace.asked_iops, pace.sustained_iops, pace.offered_iops), (120.0, 62.0, 31.0));
        assert_eq!(of_each(&slow), 15.5, "two workers share it");
        let (fast, pace) = step.at_pace(20_000.0);
        assert_eq!((of_each(&fast), pace.offered_iops), (60.0, 120.0));
        assert!(step.at_pace(0.0).1.offered_iops > 0.0);
    }

    #[test]
    fn the_probe_asks_for_one_request_after_another() {
        let probe = step(Arrival::Paced { iops: 60.0, load_max: 0.5 }).pace_probe().unwrap();
        let Work::Io(io) = &probe.work else { panic!("it is I/O") };
        assert_eq!((io.arrival, io.iodepth, io.numjobs, probe.visits), (Arrival::Closed, 1, 1, 1));
        assert_eq!(step(Arrival::Fixed { iops: 60.0 }).pace_probe(), None);
    }
}

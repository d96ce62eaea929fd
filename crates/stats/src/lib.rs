//! Statistics of the measurements of a step. Pure: no file, no clock, no judgement.
//!
//! [`estimate`] gives figures with 95 % confidence intervals that hold for dependent samples; [`cross_step`] widens
//! them by what the other steps of a run saw; [`change`] describes the course of a step over time;
//! [`randomized_blocks`] compares in rounds; [`contrast`](mod@contrast) compares two samples; [`stalls`] measures the
//! longest waits. The `truth` crate measures whether the intervals hold as often as they claim.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod change;
pub mod contrast;
pub mod cross_step;
mod episodes;
pub mod estimate;
mod invert;
pub mod level;
pub mod long_run;
pub mod random;
pub mod randomized_blocks;
mod rank;
mod sample;
pub mod samples;
pub mod series;
pub mod stalls;

pub use cross_step::{CrossEstimates, CrossStep, at_own_times, union};
pub use estimate::{
    Quantiles, byte_rate, mean, precise_enough, quantile, quantile_coarse, quantile_of_part, rate, rate_of_own_time,
    rates_knowing, scaled, sigma,
};
pub use level::Belief;
pub use long_run::{Z_975, t_975, t_beyond, t_quantile};
pub use series::{Series, bin_ends_ns};
pub use stalls::{STALL_NS, Stalls, likely_longest_ns};

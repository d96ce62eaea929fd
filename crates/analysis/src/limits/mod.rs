//! Rate limits: what to measure next, and what the measurements show.
//!
//! A limiter and a disk at its own top speed both show a flat top. The difference: a limiter gives the same rate at
//! another block size and at another depth, and it counts, so that the number of completions stays within a few
//! requests of a straight line, whereas a disk's own rate wanders. All three are required; if one fails, the limit is
//! "at least" what the disk did. docs/method.md has the tests and how often they are right.
//!
//! [`Procedure`] is a pure state machine: [`Procedure::next`] gives the next [`Probe`], [`Procedure::enough`] ends one
//! early, [`Procedure::feed`] takes its result, and [`conclude()`] judges. The application runs it on disks, the tests
//! on the simulated device.

mod conclude;
pub(crate) mod fingerprint;
mod probe;
mod procedure;
mod series;
mod tiers;
mod windows;

pub use conclude::{Measured, conclude, of_record};
pub use probe::{Probe, Role};
pub use procedure::{Options, Procedure};
pub use series::{BurstFit, Fit, Level, Series};
pub use tiers::{Tier, tiers};

//! Experiments: treatments of the machine, measured in shuffled rounds, each change journalled and undone.
//!
//! [`powercut`] needs no rounds: it checks whether commits survive a power cut. [`rounds`] runs any list of
//! [`treatment::Treatment`]s; `filesystems` is the first of them.
#![forbid(unsafe_code)]

pub mod filesystems;
pub mod powercut;
mod rounds;
mod treatment;
mod workload;

pub use rounds::Experiment;
pub use treatment::{Applied, Substrate, Treatment, TreatmentSite};
pub use workload::Workload;

//! The binary on simulated disks whose times are known, in real time. `cargo xtask test` runs these tests after all others,
//! which would take the processors that a disk needs to keep its times.

#[path = "../common/mod.rs"]
mod common;

mod biolatency;
mod in_device;
mod laws;
mod syncs;

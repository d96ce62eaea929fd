//! A disk with known truth in real time: a FUSE filesystem whose files behave like one simulated device.
//!
//! The device's law is that of `qd1_engine::sim`, the same code that the virtual-time engine runs: one law, two clocks.
//! It adds faults: errors, short transfers, flipped bits, hangs, a full disk. It exists for tests of the whole binary;
//! `qd1` contains none of it. A scenario is a TOML file, see [`scenario`].

pub mod compare;
mod fault;
mod files;
mod mount;
pub mod scenario;
mod serve;
mod store;
mod tree;
pub mod truth;

pub use fault::{Fault, FaultEffect, RequestKind};
pub use files::stored_bytes_max;
pub use mount::Mounted;
pub use scenario::Scenario;
pub use serve::{Overhead, Served};

//! Disks with known truth that are created on this machine and removed again: loop devices, filesystems on them, disks
//! in memory, throttled control groups, terminals, simulated disks behind FUSE, and an emulated machine with its own disks.
//!
//! The tests of the binary, `cargo xtask` and the campaigns of qd1-truth use them. Each is a guard that undoes what it
//! did when it goes out of scope, also on errors and panics. On Ctrl-C and SIGTERM the process must live long enough
//! for that: [`catch_signals`] turns both into a flag that [`interrupted`] reads between steps. Nothing here touches a
//! device that it did not create itself.
#![forbid(unsafe_code)]

pub mod clock;
pub mod cmd;
mod loops;
pub mod machine;
mod mounts;
mod places;
mod signals;
mod simulated;
mod terminal;
mod throttle;
mod tool;
mod zram;

pub use loops::{Loop, QueueSetting};
pub use mounts::{Mount, Mounted};
pub use places::{fill_device, make_file, open_dir, open_up, quiet_dir, takes_direct, temp_dir};
pub use signals::{as_root, catch_signals, interrupted, need_root};
pub use simulated::Simulated;
pub use terminal::Terminal;
pub use throttle::Throttle;
pub use tool::{Unavailable, tool};
pub use zram::Zram;

//! The binary on disks, filesystems and mounts that the tests make: loop devices, simulated disks behind FUSE, limits
//! that the kernel sets. Most of it needs root; what cannot run is skipped and says so.

#[path = "../common/mod.rs"]
mod common;

mod doctor;
mod faults;
mod filesystems;
mod filesystems_end;
mod mounts;
mod overwritten;
mod powercut;
mod recorded;
mod safety;
mod simdisk;
mod small_volumes;
mod throttled;
mod trace;
mod watch;
mod watch_bios;
mod watch_msync;
mod watch_recorded;
mod watch_screen;

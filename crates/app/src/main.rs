//! qd1: what a disk will feel like to the programs on it.
#![forbid(unsafe_code)]

mod report;
mod store;
mod thresholds;

fn main() {}

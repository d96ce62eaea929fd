//! The arguments of `cargo xtask bench`.

use std::path::PathBuf;

/// What to measure, and for how long.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these benchmarks (default: all); `list` prints their names
    pub(super) names: Vec<String>,
    /// Number of rounds, in each of which fio and qd1 run in turn
    #[arg(long, default_value_t = 5)]
    pub(super) rounds: usize,
    /// Seconds of one run
    #[arg(long, default_value_t = 3)]
    pub(super) seconds: u64,
    /// Only this peer of `peers` (can be given several times; default: all)
    #[arg(long, value_name = "NAME")]
    pub(super) peer: Vec<String>,
    /// Use this binary for `peers` and `watching` instead of building one
    #[arg(long, value_name = "FILE")]
    pub(super) binary: Option<PathBuf>,
    /// Exit with 1 if a target is missed
    #[arg(long)]
    pub(super) strict: bool,
}

//! What `cargo xtask bench` takes.

use std::path::PathBuf;

/// What to measure, and for how long.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these benchmarks (all without); `list` prints them
    pub(super) names: Vec<String>,
    /// Rounds in which fio and we run in turn
    #[arg(long, default_value_t = 5)]
    pub(super) rounds: usize,
    /// Seconds of one run
    #[arg(long, default_value_t = 3)]
    pub(super) seconds: u64,
    /// Only this peer of `peers` (can be given several times; all without)
    #[arg(long, value_name = "NAME")]
    pub(super) peer: Vec<String>,
    /// This binary for `peers` instead of one built for it
    #[arg(long, value_name = "FILE")]
    pub(super) binary: Option<PathBuf>,
    /// Exit 1 where a target is missed
    #[arg(long)]
    pub(super) strict: bool,
}

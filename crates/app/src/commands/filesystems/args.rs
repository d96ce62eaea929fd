//! The command line of `qd1 filesystems`.

use std::path::PathBuf;

use clap::Args;
use qd1_model::Bytes;

use crate::cli::{CommonArgs, DeviceArgs, duration};

#[derive(Debug, Args)]
pub(crate) struct FilesystemsArgs {
    /// Directory in which a file for each round is made, or block device to make the filesystems on (with --destroy)
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Only these, separated by commas: ext4, xfs, btrfs, zfs. One named twice shows what the method itself makes of two equal ones
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// How often each is made and measured [default: 5; --quick: 3; --full: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: Option<u32>,
    /// Tune each for databases, which copy-on-write filesystems need: noatime; btrfs nodatacow; zfs recordsize=8k,
    /// logbias=throughput
    #[arg(long)]
    pub(crate) fair: bool,
    /// Shorter steps and three rounds
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Longer steps and ten rounds
    #[arg(long)]
    pub(crate) full: bool,
    /// Only these steps, separated by commas; * stands for any letters: read, write, commit1, commit8, seqread, seqwrite,
    /// files
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    pub(crate) steps: Vec<String>,
    /// PostgreSQL's pgbench at 10 and 100 clients as well, on a throwaway server on each (minutes more; see `qd1 app`)
    #[arg(long)]
    pub(crate) postgres: bool,
    /// pgbench's scale for --postgres, about 16 MB each [default: 100]
    #[arg(long, value_name = "N", requires = "postgres", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) scale: Option<u32>,
    /// Size of the test file [default: 512MiB; --quick: 256MiB; --full: 2GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// Size of each filesystem [default: three times what the steps need, and 512MiB; more for --postgres]
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk: Option<Bytes>,
    /// Time of each step
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) runtime: Option<u64>,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

//! `cargo xtask truth`: how near the analysis comes to disks whose truth is known.

mod agree;
mod busy;
mod cluster;
mod pairs;
mod predict;
mod programs;
mod real;
mod times;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args as Arguments;
use qd1_lab::cmd;

use crate::metadata;

/// What it takes.
#[derive(Arguments)]
pub(crate) struct Args {
    /// How many disks of each kind: of limits so many with and so many without, of kinds of storage half as many again
    /// in all
    count: Option<u64>,
    /// One table alone: limits, fingerprints, caches, change, identify, repeat, stalls, over, compare,
    /// published or program-verdicts
    #[arg(long, value_name = "TABLE")]
    only: Option<String>,
    /// Draw from the seeds that thresholds were set with, instead of those of the table
    #[arg(long)]
    tuning: bool,
    /// A line for each disk on which something was wrong
    #[arg(long)]
    verbose: bool,
    /// Instead of the simulated disks in virtual time: how often the intervals of check hold on those behind FUSE, in real
    /// time (root; half an hour, and nothing else should run)
    #[arg(long)]
    intervals: bool,
    /// Limits that the kernel sets on a loop device, instead of the simulated disks (root; ten minutes)
    #[arg(long)]
    real: bool,
    /// Checks of this directory one after another (12, or COUNT), and whether they agree; `loop` for a loop device whose
    /// limits change (root), `simdisk` for one whose speed does, a minute each, and nothing else should run; `lab` for disks
    /// of an emulated machine, six each
    #[arg(long, value_name = "DIR|loop|simdisk|lab")]
    agree: Option<String>,
    /// Checks of a fast disk beside busy processors (20, or COUNT), and whose waits they say it was (root; ten minutes)
    #[arg(long)]
    busy: bool,
    /// What PostgreSQL, etcd and SQLite feel on disks drawn at random (60, or COUNT), and what check says of these: a line of
    /// JSON a disk is added to FILE (root; some minutes a disk, three at once)
    #[arg(long, value_name = "FILE")]
    programs: Option<PathBuf>,
    /// How long commands said that they take, and how long they took, on three disks (root; half an hour, and nothing else
    /// should run); `--only WORDS` for those that hold these words
    #[arg(long)]
    times: bool,
    /// Pairs of short checks on a simulated and a throttled disk (15 each, or COUNT), and what `qd1 compare` says of them (root;
    /// a quarter of an hour)
    #[arg(long)]
    pairs: bool,
    /// The power of guests' hosts cut while they commit, with `cache=unsafe` and with `cache=none` (10 of each, or COUNT), and
    /// what `qd1 powercut` says (root; a minute each)
    #[arg(long)]
    powercut: bool,
    /// Hold the claims of a check over hours against drives of others: a gzipped CSV file of drive, seconds, latency_us
    #[arg(long, value_name = "FILE")]
    traces: Option<PathBuf>,
    /// Predictions for databases on nine disks, or on COUNT drawn at random, and what the databases did on them (root; six
    /// minutes a disk)
    #[arg(long)]
    predict: bool,
    /// Of `--predict` only disks whose name holds this; `work` measures what the programs take where commits cost nothing
    #[arg(long, value_name = "NAME", requires = "predict")]
    disk: Option<String>,
    /// Of `--predict` only these programs, as `qd1 predict --verify` names them
    #[arg(long, value_name = "PROGRAM,...", requires = "predict", default_value = "postgres,mysql,etcd,sqlite")]
    verify: String,
    /// Of `--predict`: measure nothing, and hold today's models against runs of the history, each as DISK=RUN
    #[arg(long, value_name = "DISK=RUN", value_delimiter = ',', requires = "predict", conflicts_with = "disk")]
    kept: Vec<String>,
}

/// What starts programs in a throttled group: on a machine that does other work as well, 20,000 requests a second want
/// their turn.
const AHEAD: [&str; 3] = ["nice", "-n", "-10"];

/// Builds these packages, optimised; the directory of their binaries.
fn release(packages: &[&str]) -> Result<PathBuf> {
    let each = packages.iter().flat_map(|package| ["--package", package]);
    cmd::run(cmd::cargo().args(["build", "--release", "--quiet"]).args(each))?;
    Ok(metadata::target_dir()?.join("release"))
}

/// Builds and runs the tables, optimised: some disks serve a hundred million requests.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.predict {
        return if args.kept.is_empty() {
            predict::run(args.disk.as_deref(), args.count, &args.verify)
        } else {
            predict::again(&args.kept)
        };
    }
    if args.pairs {
        return pairs::run(args.count.unwrap_or(15));
    }
    if args.times {
        return times::run(args.only.as_deref());
    }
    if let Some(place) = &args.agree {
        return agree::run(place, args.count.unwrap_or(12));
    }
    if let Some(file) = &args.programs {
        let from = if args.tuning { programs::TUNING } else { programs::UNSEEN };
        return programs::run(file, from, args.count.unwrap_or(60));
    }
    if args.powercut {
        qd1_lab::as_root("a loop device and a mount")?;
        return qd1_lab::machine::powercut::run(&crate::lab::machine()?, args.count.unwrap_or(10));
    }
    if args.busy {
        return busy::run(args.count.unwrap_or(20));
    }
    if args.real {
        return real::run();
    }
    if args.intervals {
        let binary = release(&["qd1"])?.join("qd1");
        let mut cargo = cmd::cargo();
        cargo.args(["run", "--release", "--quiet", "--package", "qd1-simdisk", "--example", "campaign", "--"]);
        return cmd::run(cargo.arg(binary));
    }
    let mut cargo = cmd::cargo();
    cargo
        .args(["run", "--release", "--quiet", "--package", "qd1-truth", "--"])
        .arg(args.count.unwrap_or(200).to_string());
    for (flag, wanted) in [("--tuning", args.tuning), ("--verbose", args.verbose)] {
        if wanted {
            cargo.arg(flag);
        }
    }
    if let Some(file) = &args.traces {
        cargo.arg("--traces").arg(std::path::absolute(file)?);
    }
    if let Some(table) = &args.only {
        cargo.args(["--only", table]);
    }
    cmd::run(&mut cargo)
}

//! Prints how close the analysis comes to the truth on disks whose truth is known, in tables and campaigns: `cargo
//! xtask truth`, which builds what they need.
#![forbid(unsafe_code)]

mod campaigns;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use qd1_lab::as_root;
use qd1_lab::machine::{Machine, Unpacked, powercut};
use qd1_truth::{
    Seeds, caches, changes, compare, fingerprints, identify, limits, long_check, program_verdicts, published, repeat,
    stalls, traces, verdicts,
};

use crate::campaigns::{agree, busy, pairs, predict, programs, real, times};

/// Print how close the analysis comes to the truth on disks whose truth is known
#[derive(Parser)]
#[command(name = "cargo xtask truth", bin_name = "cargo xtask truth")]
struct Args {
    /// Number of disks of each kind: for limits, this many with and this many without; for kinds of storage, one and a
    /// half times as many in total
    count: Option<u64>,
    /// Only one table: limits, fingerprints, caches, change, identify, repeat, stalls, over, compare,
    /// published, verdicts or program-verdicts
    #[arg(long, value_name = "TABLE")]
    only: Option<String>,
    /// Draw from the seeds used to set thresholds instead of those used for the tables
    #[arg(long)]
    tuning: bool,
    /// Print a line for each disk on which something was wrong
    #[arg(long)]
    verbose: bool,
    /// Instead of simulated disks in virtual time: how often check's intervals hold on simulated disks behind FUSE, in
    /// real time (root; half an hour, and nothing else should run)
    #[arg(long)]
    intervals: bool,
    /// Limits that the kernel sets on a loop device, instead of the simulated disks (root; ten minutes)
    #[arg(long)]
    real: bool,
    /// Check this directory several times in succession (12, or COUNT) and print whether the results agree; `loop` for
    /// a loop device whose limits change (root), `simdisk` for a simulated disk whose speed changes (a minute each, and
    /// nothing else should run), `lab` for disks of an emulated machine (six each)
    #[arg(long, value_name = "DIR|loop|simdisk|lab")]
    agree: Option<String>,
    /// Check a fast disk while the processors are busy (20 times, or COUNT), and print whether the checks blame the
    /// processors or the disk (root; ten minutes)
    #[arg(long)]
    busy: bool,
    /// What PostgreSQL, etcd and SQLite feel on randomly drawn disks (60, or COUNT), and what check says about them:
    /// appends a line of JSON per disk to FILE (root; some minutes per disk, three in parallel)
    #[arg(long, value_name = "FILE")]
    programs: Option<PathBuf>,
    /// How long commands announced that they would take, and how long they took, on three disks (root; half an hour,
    /// and nothing else should run); `--only WORDS` for commands that contain these words
    #[arg(long)]
    times: bool,
    /// Pairs of short checks on a simulated and a throttled disk (15 each, or COUNT), and what `qd1 compare` says about
    /// them (root; a quarter of an hour)
    #[arg(long)]
    pairs: bool,
    /// Cut the power of guests' hosts while the guests commit, with `cache=unsafe` and with `cache=none` (10 of each,
    /// or COUNT), and print what `qd1 powercut` says (root; a minute each)
    #[arg(long)]
    powercut: bool,
    /// Compare the claims of a check over hours with published drive traces: a gzipped CSV file of drive, seconds,
    /// latency_us
    #[arg(long, value_name = "FILE")]
    traces: Option<PathBuf>,
    /// Predictions for databases on nine disks, or on COUNT randomly drawn ones, and what the databases then did on
    /// them (root; six minutes per disk)
    #[arg(long)]
    predict: bool,
    /// With `--predict`: only disks whose name contains NAME; `work` measures what the programs need when commits cost
    /// nothing
    #[arg(long, value_name = "NAME", requires = "predict")]
    disk: Option<String>,
    /// With `--predict`: only these programs, with the names of `qd1 predict --verify`
    #[arg(long, value_name = "PROGRAM,...", requires = "predict", default_value = "postgres,mysql,etcd,sqlite")]
    verify: String,
    /// With `--predict`: measure nothing, and compare today's models with runs in the history, each as DISK=RUN
    #[arg(long, value_name = "DISK=RUN", value_delimiter = ',', requires = "predict", conflicts_with = "disk")]
    kept: Vec<String>,
    /// What `limits` measured on the disk with this seed
    #[arg(long, value_name = "SEED", value_parser = hexadecimal, hide = true)]
    probes: Option<u64>,
    /// The unoptimised qd1, for `--real`
    #[arg(long, value_name = "FILE", hide = true)]
    unoptimised: Option<PathBuf>,
    /// Where the packages of the emulated machine are unpacked
    #[arg(long, value_name = "DIR", hide = true)]
    lab_packages: Option<PathBuf>,
    /// The static qd1 that the emulated machine runs
    #[arg(long, value_name = "FILE", hide = true)]
    lab_binary: Option<PathBuf>,
}

impl Args {
    fn machine(&self) -> Result<Machine> {
        let both = self.lab_packages.as_ref().zip(self.lab_binary.as_ref());
        let (packages, binary) = both.context("an emulated machine needs --lab-packages and --lab-binary")?;
        Ok(Machine { packages: Unpacked::open(packages)?, binary: binary.clone() })
    }
}

fn hexadecimal(seed: &str) -> Result<u64, std::num::ParseIntError> {
    u64::from_str_radix(seed.trim_start_matches("0x"), 16)
}

/// A table, made from its seeds, the number of disks, and whether each disk that went wrong gets a line.
type Table = fn(Seeds, u64, bool) -> String;

/// All of them, in the order in which they are printed.
const TABLES: &[(&str, Table)] = &[
    ("limits", limits::table),
    ("fingerprints", fingerprints::table),
    // Half as many with and without each of the five: 100 where limits have 200.
    ("caches", |seeds, count, verbose| caches::table(seeds, count.div_ceil(2), verbose)),
    ("change", changes::table),
    // Half as many again: 300.
    ("identify", |seeds, count, verbose| identify::table(seeds, count * 3 / 2, verbose)),
    // Five times as many: 1,000.
    ("repeat", |seeds, count, verbose| repeat::table(seeds, count * 5, verbose)),
    // A tenth as many: 20.
    ("verdicts", |seeds, count, verbose| verdicts::table(seeds, count.div_ceil(10), verbose)),
    ("stalls", |seeds, count, _| stalls::table(seeds, count)),
    ("over", |seeds, count, _| long_check::table(seeds, count)),
    ("compare", compare::table),
    // These compare the analysis with stored results.
    ("published", |_, _, _| published::table()),
    ("program-verdicts", |seeds, _, _| program_verdicts::table(seeds)),
];

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let seeds = if args.tuning { Seeds::Tuning } else { Seeds::Table };
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
        return agree::run(place, args.count.unwrap_or(12), || args.machine());
    }
    if let Some(file) = &args.programs {
        let from = if args.tuning { programs::TUNING } else { programs::UNSEEN };
        return programs::run(file, from, args.count.unwrap_or(60));
    }
    if args.powercut {
        as_root("a loop device and a mount")?;
        return powercut::run(&args.machine()?, args.count.unwrap_or(10));
    }
    if args.busy {
        return busy::run(args.count.unwrap_or(20));
    }
    if args.real {
        return real::run(args.unoptimised.as_deref().context("--real needs --unoptimised QD1")?);
    }
    if args.intervals {
        return campaigns::intervals();
    }
    if let Some(seed) = args.probes {
        print!("{}", limits::probes(seed));
        return Ok(());
    }
    if let Some(file) = &args.traces {
        let table = traces::table(file, seeds).with_context(|| format!("cannot read {}", file.display()))?;
        println!("{table}");
        return Ok(());
    }
    tables(args, seeds)
}

fn tables(args: &Args, seeds: Seeds) -> Result<()> {
    let only = args.only.as_deref();
    if let Some(unknown) = only.filter(|only| TABLES.iter().all(|(name, _)| only != name)) {
        let names: Vec<&str> = TABLES.iter().map(|(name, _)| *name).collect();
        bail!("there is no table {unknown:?}; choose from {}", names.join(", "));
    }
    for (_, table) in TABLES.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        println!("{}", table(seeds, args.count.unwrap_or(200), args.verbose));
    }
    Ok(())
}

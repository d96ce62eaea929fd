//! `cargo xtask faults`: runs each command of the binary under each fault, for as long as you like.
//!
//! The campaign itself is a test (`crates/app/tests/system/faults`), whose short form `cargo xtask test` runs.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args as Arguments;
use qd1_lab::cmd;

use crate::setup;

/// Its arguments.
#[derive(Arguments)]
pub(crate) struct Args {
    /// Number of runs
    #[arg(default_value_t = 2000)]
    runs: u64,
    /// Seed from which they are drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a line for each run to this file; runs already in it are skipped, so that a campaign can be continued
    #[arg(long, value_name = "FILE", default_value = "target/faults.log")]
    log: PathBuf,
    /// Only the run with this number
    #[arg(long, value_name = "NUMBER")]
    only: Option<u64>,
    /// Only runs under this fault, for example `OutputIsInput`
    #[arg(long, value_name = "NAME")]
    fault: Option<String>,
}

/// Runs the campaign. An error if a run lost, left behind or changed something, or hung.
pub(crate) fn run(args: &Args) -> Result<()> {
    qd1_lab::need_root("loop devices and other users")?;
    setup::run()?;
    let mut test = cmd::cargo();
    test.args(["test", "--quiet", "--package", "qd1", "--test", "system", "--"]);
    test.args(["--exact", "faults::no_fault_loses_leaves_or_changes_anything", "--nocapture"]);
    test.env("QD1_FAULTS_RUNS", args.runs.to_string()).env("QD1_FAULTS_SEED", args.seed.to_string());
    match args.only {
        Some(number) => test.env("QD1_FAULTS_ONLY", number.to_string()),
        None => test.env("QD1_FAULTS_LOG", cmd::root().join(&args.log)),
    };
    if let Some(fault) = &args.fault {
        test.env("QD1_FAULTS_FAULT", fault);
    }
    cmd::run(&mut test)
}

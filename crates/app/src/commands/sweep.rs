//! `qd1 sweep`: measures a surface over block size, iodepth and rw. It runs like any suite, and the analysis makes the
//! surface.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use qd1_model::plan::Rw;
use qd1_model::{Bytes, Subject};
use qd1_suites::sweep::{Axes, Grid, suite};

use crate::args::{MeasureArgs, duration};
use crate::command_line::CommandLine;
use crate::session::Session;
use crate::suite_job::{Overrides, SuiteJob, request};

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// Directory, file (only read) or block device (only read, unless --destroy) to measure
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Block sizes, separated by commas [default: 4k,16k,64k,256k,1M]
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    pub(crate) bs: Vec<Bytes>,
    /// Requests in flight, separated by commas [default: 1,2,4,8,16,32,64]
    #[arg(long, value_name = "DEPTHS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) iodepth: Vec<u32>,
    /// Directions, separated by commas: read, write, randread, randwrite, rw, randrw [default: randread,randwrite]
    #[arg(long, value_name = "RW", value_delimiter = ',', value_parser = direction)]
    pub(crate) rw: Vec<Rw>,
    /// How often to measure each cell, spread over the run; two or more show drift [default: 2; --full: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) passes: Option<u32>,
    /// Longest acceptable p99; the report shows which depth it allows
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1ms")]
    pub(crate) max_p99: u64,
    #[command(flatten)]
    pub(crate) how: MeasureArgs,
}

/// Measures the surface.
///
/// # Errors
/// When the options contradict each other, or the run fails.
pub(crate) fn run(args: &SweepArgs, typed: &CommandLine) -> Result<ExitCode> {
    let effort = args.how.effort();
    let axes = Axes { rw: args.rw.clone(), blocks: args.bs.clone(), depths: args.iodepth.clone(), passes: args.passes };
    let grid = Grid::new(axes, effort)?;
    let session = Session::begin(request(typed, Subject::Sweep, &args.how))?;
    let make = |_: &_, seed| Ok(suite(&grid, Some(args.max_p99), effort, seed));
    session.run(&mut SuiteJob::new(typed, &args.path, Overrides::from(&args.how), make))
}

fn direction(text: &str) -> Result<Rw, String> {
    Ok(match text {
        "read" => Rw::Read,
        "write" => Rw::Write,
        "randread" => Rw::Randread,
        "randwrite" => Rw::Randwrite,
        "rw" | "readwrite" => Rw::Rw,
        "randrw" => Rw::Randrw,
        other => {
            return Err(format!("unknown rw {other:?}; choose read, write, randread, randwrite, rw or randrw"));
        }
    })
}

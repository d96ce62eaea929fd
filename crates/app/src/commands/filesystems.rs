//! `qd1 filesystems`: the same work on several filesystems, one table.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use qd1_experiment::filesystems::{Filesystems, Options};
use qd1_model::plan::Plan;
use qd1_model::{Bytes, Subject};
use qd1_probe::Machine;
use qd1_runner::RunContext;
use qd1_runner::place::Place;
use qd1_runner::watch::Watch;

use crate::args::{CommonArgs, DeviceArgs, duration, effort};
use crate::command_line::CommandLine;
use crate::message;
use crate::session::{self, Job, Measured, Request, Session};

#[derive(Debug, Args)]
pub(crate) struct FilesystemsArgs {
    /// Directory in which to make a file for each round, or block device to make the filesystems on (with --destroy)
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Compare only these, separated by commas: ext4, xfs, btrfs, zfs. Name one twice to see how much equal ones differ
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// How many times to make and measure each [default: 5; --quick: 3; --full: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: Option<u32>,
    /// Tune each for databases (copy-on-write filesystems need this): noatime; btrfs nodatacow; zfs recordsize=8k,
    /// logbias=throughput
    #[arg(long)]
    pub(crate) fair: bool,
    /// Use shorter steps and three rounds
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Use longer steps and ten rounds
    #[arg(long)]
    pub(crate) full: bool,
    /// Run only these steps, separated by commas; * matches any characters: read, write, commit1, commit8, seqread,
    /// seqwrite, files
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    pub(crate) steps: Vec<String>,
    /// Also run PostgreSQL's pgbench with 10 and 100 clients, on a throwaway server on each filesystem (takes minutes
    /// longer; see `qd1 app`)
    #[arg(long)]
    pub(crate) postgres: bool,
    /// pgbench's scale factor for --postgres, about 16 MB per unit [default: 100]
    #[arg(long, value_name = "N", requires = "postgres", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) scale: Option<u32>,
    /// Size of the test file [default: 512MiB; --quick: 256MiB; --full: 2GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// Size of each filesystem [default: three times what the steps need, plus 512MiB; more for --postgres]
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

/// Measures and reports.
///
/// # Errors
/// When the options contradict each other, or nothing could be measured.
pub(crate) fn run(args: &FilesystemsArgs, typed: &CommandLine) -> Result<ExitCode> {
    let subject = Subject::Filesystems;
    let session = Session::begin(Request { typed, subject, common: &args.common, thresholds: None, fail_on: None })?;
    let comparison = Filesystems::new(args.options())?;
    session.run(&mut Comparison { args, typed, comparison })
}

/// A comparison of filesystems as a job.
struct Comparison<'a> {
    args: &'a FilesystemsArgs,
    typed: &'a CommandLine,
    comparison: Filesystems,
}

impl Job for Comparison<'_> {
    fn place(&self, machine: &Machine, id: &str) -> Result<Place> {
        session::inspect(self.typed, machine, &self.args.path, id)
    }

    fn plan(&mut self, place: &Place, seed: u64) -> Result<Plan> {
        self.comparison.plan(place, seed)
    }

    fn dry_run(&self, _plan: &Plan) -> String {
        self.comparison.dry_run()
    }

    fn decided(&self, _plan: &Plan) -> Vec<(&'static str, String)> {
        self.comparison.decided()
    }

    fn may_run(&self, place: &Place, machine: &Machine) -> Result<()> {
        self.comparison.may_run(place, machine)?;
        if !self.args.common.quiet {
            for (name, why) in self.comparison.missing() {
                message::print(format_args!("qd1: {name} is not measured: {why}"));
            }
        }
        Ok(())
    }

    fn execute(&mut self, _plan: Plan, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<Option<Measured>> {
        let outcome = self.comparison.execute(context, watch)?;
        Ok(outcome.map(|(record, failure)| Measured { record, failure, files: None }))
    }
}

impl FilesystemsArgs {
    fn options(&self) -> Options {
        Options {
            path: self.path.clone(),
            only: self.only.clone(),
            rounds: self.rounds,
            fair: self.fair,
            effort: effort(self.quick, self.full),
            steps: self.steps.clone(),
            postgres: self.postgres,
            scale: self.scale,
            size: self.size,
            disk: self.disk,
            runtime_ns: self.runtime,
            engine: self.device.engine,
            destroy: self.device.destroy.clone(),
        }
    }
}

//! `qd1 app NAME PATH`: real programs on the disk.

mod args;

use std::process::ExitCode;

use anyhow::Result;
use qd1_model::Subject;
use qd1_model::plan::Plan;
use qd1_probe::Machine;
use qd1_programs::{Etcd, Mysql, Postgres, ProgramRun, Rocksdb, Sqlite, Sysbench, without_password};
use qd1_runner::RunContext;
use qd1_runner::place::Place;
use qd1_runner::watch::Watch;

pub(crate) use args::AppCommand;
use args::AppCommon;

use crate::command_line::CommandLine;
use crate::session::{self, Job, Measured, Request, Session};

/// Runs one of the programs.
///
/// # Errors
/// When it cannot be run, or nothing could be measured.
pub(crate) fn run(command: &AppCommand, typed: &CommandLine) -> Result<ExitCode> {
    let common = command.common();
    let request =
        Request { typed, subject: Subject::Program, common: &common.run, thresholds: None, fail_on: common.fail_on };
    let session = Session::begin(request)?;
    let program = match command {
        AppCommand::Postgres(args) => ProgramRun::new(Postgres::new(args.options())?),
        AppCommand::Mysql(args) => ProgramRun::new(Mysql::new(args.options())?),
        AppCommand::Etcd(args) => ProgramRun::new(Etcd::new(args.options())),
        AppCommand::Sqlite(args) => ProgramRun::new(Sqlite::new(args.options())),
        AppCommand::Rocksdb(args) => ProgramRun::new(Rocksdb::new(args.options())),
        AppCommand::Sysbench(args) => ProgramRun::new(Sysbench::new(args.options())),
    }?;
    session.run(&mut ProgramJob { program, typed, dsn: command.dsn() })
}

/// A program's loads as a job.
struct ProgramJob<'a> {
    program: ProgramRun,
    typed: &'a CommandLine,
    dsn: Option<&'a str>,
}

impl Job for ProgramJob<'_> {
    fn place(&self, machine: &Machine, id: &str) -> Result<Place> {
        session::or_missing(self.typed, self.program.path(), || self.program.place(machine, id))
    }

    fn plan(&mut self, place: &Place, seed: u64) -> Result<Plan> {
        self.program.plan(place, seed)
    }

    fn dry_run(&self, plan: &Plan) -> String {
        let program = &self.program;
        qd1_report::plan::program(plan, program.title(), program.space(), &program.caution())
    }

    /// Returns the DSN without its password, so that the password is not saved.
    fn decided(&self, _plan: &Plan) -> Vec<(&'static str, String)> {
        self.dsn.map(|dsn| ("dsn", without_password(dsn))).into_iter().collect()
    }

    fn execute(&mut self, plan: Plan, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<Option<Measured>> {
        Ok(Some(self.program.execute(plan, context, watch)?.into()))
    }
}

impl AppCommand {
    fn common(&self) -> &AppCommon {
        match self {
            Self::Postgres(args) => &args.common,
            Self::Mysql(args) => &args.common,
            Self::Etcd(args) => &args.common,
            Self::Sqlite(args) => &args.common,
            Self::Rocksdb(args) => &args.common,
            Self::Sysbench(args) => &args.common,
        }
    }

    fn dsn(&self) -> Option<&str> {
        match self {
            Self::Postgres(args) => args.dsn.as_deref(),
            _ => None,
        }
    }
}

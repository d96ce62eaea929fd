//! `qd1 predict`: predicts from a disk's commits what databases will do on it. Runs the suite `predict`, whose report
//! begins with the answer, or uses a saved run that has such steps. `--verify` runs the databases afterwards, in the
//! same Record.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use qd1_analysis::predict::{CLIENTS, etcd_rate};
use qd1_model::plan::Plan;
use qd1_model::plan::prediction::{PredictionPlan, name_in_round};
use qd1_model::prediction::Prediction as Predictions;
use qd1_model::record::StepRecord;
use qd1_model::units::format_span_ns;
use qd1_model::{Bytes, Problem, Record, Subject};
use qd1_probe::Machine;
use qd1_programs::options::{EtcdOptions, MysqlOptions, PostgresOptions, SqliteOptions};
use qd1_programs::{Etcd, Mysql, Postgres, ProgramRun, Sqlite};
use qd1_report::Detail;
use qd1_runner::place::Place;
use qd1_runner::watch::Watch;
use qd1_runner::{RunContext, execute};
use qd1_system::tool::memory;

use crate::args::MeasureArgs;
use crate::bounds::Bounds;
use crate::command_line::CommandLine;
use crate::output;
use crate::session::{Job, Measured, Session};
use crate::suite_job::{Overrides, SuiteJob, builtin, request};

#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// Directory to measure
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Measure nothing: use the commits of this saved run of check or predict (see `qd1 history`)
    #[arg(long, value_name = "RUN", conflicts_with_all = ["path", "verify"])]
    pub(crate) from: Option<String>,
    /// Then run these programs on the same disk, and show how far off the predictions are [default: all of them]
    #[arg(long, value_name = "PROGRAM", value_delimiter = ',', value_enum, num_args = 0.., require_equals = true,
          default_missing_values = ["postgres", "mysql", "etcd", "sqlite"])]
    pub(crate) verify: Vec<Verified>,
    /// pgbench's scale factor, with --verify about 16 MB per unit (MariaDB: 3 MB)
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) scale: u32,
    #[command(flatten)]
    pub(crate) how: MeasureArgs,
}

/// Measured time of each load of a server, ns: with `--quick`, without flags, and with `--full`.
const SERVER_NS: [u64; 3] = [5_000_000_000, 15_000_000_000, 60_000_000_000];
const WARM_UP_NS: u64 = 3_000_000_000;
const SQLITE_NS: [u64; 3] = [2_000_000_000, 5_000_000_000, 30_000_000_000];
/// Measured time of each rate of puts, ns; at low rates a percentile takes longer.
const ETCD_NS: [u64; 3] = [3_000_000_000, 5_000_000_000, 20_000_000_000];
const SLOW_ETCD_NS: u64 = 10_000_000_000;
const SLOW_PUTS: f64 = 100.0;
/// Rates of puts that are tried, relative to the predicted one.
const TRIED: [f64; 8] = [0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.2];
/// Lowest rate tried: fewer puts a second do not resolve a 99th percentile in the time of a slow rate.
const TRIED_MIN: f64 = 12.0;
/// Rates tried when none is predicted, to see whether a few puts stay within the bound after all.
const TRIED_FOR_NONE: [u32; 3] = [12, 24, 50];
/// Highest rate tried: etcd's JSON gateway handles no more on any machine we know.
const TRIED_MAX: f64 = 50_000.0;

/// A program whose prediction is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verified {
    /// pgbench at 1, 10 and 100 clients
    Postgres,
    /// The same transactions on MariaDB or MySQL
    Mysql,
    /// Puts at several rates
    Etcd,
    /// Commits with a log and with a rollback journal
    Sqlite,
}

/// Measures the commits, or takes those of a saved run, and reports the predictions.
///
/// # Errors
/// When the run cannot be started or fails, or the saved one has no commits.
pub(crate) fn run(args: &PredictArgs, typed: &CommandLine) -> Result<ExitCode> {
    let session = Session::begin(request(typed, Subject::Predict, &args.how))?;
    if let Some(id) = &args.from {
        return from_saved(id, args);
    }
    let suite = builtin("predict")?;
    let commits = SuiteJob::new(typed, &args.path, Overrides::from(&args.how), |_, _| Ok(suite));
    session.run(&mut Prediction { commits, programs: Programs::new(args)? })
}

/// Predicts from a saved run.
fn from_saved(id: &str, args: &PredictArgs) -> Result<ExitCode> {
    let mut record = qd1_runs::history::read()?.load(id)?;
    let experience = qd1_runs::experience::on(&record.environment, Some(&record.id));
    record.plan.prediction = Some(PredictionPlan { scale: args.scale, experience });
    let output = &args.how.common.output;
    let report = Bounds::of_run(record.plan.subject, None)?.judge(record, output.is_redacted())?;
    if report.part::<Predictions>().is_none() {
        let why = format!("run {id} has no step commit1; choose a run of qd1 check or qd1 predict (see `qd1 history`)");
        return Err(Problem::usage(why).into());
    }
    output::report(output, &report, Detail::Screen { is_kept: false, lines: None })?;
    Ok(ExitCode::SUCCESS)
}

/// The commits, and the programs that are run after them.
struct Prediction<'a> {
    commits: SuiteJob<'a>,
    programs: Programs,
}

impl Job for Prediction<'_> {
    fn place(&self, machine: &Machine, id: &str) -> Result<Place> {
        self.commits.place(machine, id)
    }

    fn plan(&mut self, place: &Place, seed: u64) -> Result<Plan> {
        let mut plan = self.commits.plan(place, seed)?;
        self.programs.fit(place, seed)?;
        let experience = qd1_runs::experience::on(&Machine::new().environment(&place.path), None);
        plan.prediction = Some(PredictionPlan { scale: self.programs.scale, experience });
        Ok(plan)
    }

    fn dry_run(&self, plan: &Plan) -> String {
        let more: String = self.programs.lines().iter().map(|line| format!("then      {line}\n")).collect();
        self.commits.dry_run(plan) + &more
    }

    fn execute(&mut self, plan: Plan, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<Option<Measured>> {
        if let Some(verifying) = self.programs.verifying(&plan) {
            watch.heading(&format!("the commits, and after them {verifying}"));
        }
        let mut measured = self.commits.execute(plan, context, watch)?;
        if let Some(Measured { record, failure, files }) = &mut measured
            && !record.interrupted
        {
            // The programs use their own files.
            drop(files.take());
            // What was measured is kept, whatever happens afterwards.
            *failure = self.programs.run_after(record, context, watch).err();
        }
        Ok(measured)
    }
}

/// The programs that are run after the commits; none without `--verify`.
struct Programs {
    scale: u32,
    verify: Vec<Verified>,
    effort: usize,
    place: Option<Place>,
    postgres: Option<ProgramRun>,
    mysql: Option<ProgramRun>,
    sqlite: Option<ProgramRun>,
}

impl Programs {
    /// Finds the programs, before anything is measured.
    fn new(args: &PredictArgs) -> Result<Self> {
        let effort = args.how.effort() as usize;
        let wants = |program| args.verify.contains(&program);
        let postgres = || {
            let options = PostgresOptions {
                clients: CLIENTS.to_vec(),
                scale: Some(args.scale),
                warmup_ns: WARM_UP_NS,
                runtime_ns: SERVER_NS[effort],
                ..PostgresOptions::default()
            };
            ProgramRun::new(Postgres::new(options.in_memory(memory()))?)
        };
        let mysql = || {
            let options = MysqlOptions {
                clients: CLIENTS.to_vec(),
                scale: Some(args.scale),
                warmup_ns: WARM_UP_NS,
                runtime_ns: SERVER_NS[effort],
                ..MysqlOptions::default()
            };
            ProgramRun::new(Mysql::new(options.in_memory(memory()))?)
        };
        let sqlite = || {
            let options = SqliteOptions {
                runtime_ns: SQLITE_NS[effort],
                cache: Some(Bytes::mib(64)),
                ..SqliteOptions::default()
            };
            ProgramRun::new(Sqlite::new(options))
        };
        let programs = Self {
            scale: args.scale,
            verify: args.verify.clone(),
            effort,
            place: None,
            postgres: wants(Verified::Postgres).then(postgres).transpose()?,
            mysql: wants(Verified::Mysql).then(mysql).transpose()?,
            sqlite: wants(Verified::Sqlite).then(sqlite).transpose()?,
        };
        if wants(Verified::Etcd) {
            programs.etcd(None)?;
        }
        Ok(programs)
    }

    /// Returns a run of etcd with a load for each rate tried around the predicted one.
    fn etcd(&self, predicted: Option<f64>) -> Result<ProgramRun> {
        let with =
            |rate, runtime_ns| ProgramRun::new(Etcd::new(EtcdOptions { rate, runtime_ns, ..EtcdOptions::default() }));
        let Some(predicted) = predicted else { return with(TRIED_FOR_NONE.to_vec(), SLOW_ETCD_NS) };
        let mut rates = TRIED.map(|part| (part * predicted).clamp(TRIED_MIN, TRIED_MAX).round() as u32).to_vec();
        rates.dedup();
        // Up and down again, so that changes over time affect low and high rates alike.
        rates.extend(rates.clone().into_iter().rev());
        with(rates, if predicted < SLOW_PUTS { SLOW_ETCD_NS } else { ETCD_NS[self.effort] })
    }

    /// Refuses a place that is too small for them.
    fn fit(&mut self, place: &Place, seed: u64) -> Result<()> {
        self.place = Some(place.clone());
        self.postgres
            .iter()
            .chain(&self.mysql)
            .chain(&self.sqlite)
            .try_for_each(|program| program.plan(place, seed).map(drop))
    }

    /// Returns the lines for `--dry-run`.
    fn lines(&self) -> Vec<String> {
        let space = self.postgres.iter().map(ProgramRun::space).max();
        let lines = self.verify.iter().map(|program| match program {
            Verified::Postgres => {
                format!("pgbench at 1, 10, 100 clients, scale {}, in {}", self.scale, space.unwrap_or_default())
            }
            Verified::Mysql => {
                let space = self.mysql.iter().map(ProgramRun::space).max().unwrap_or_default();
                format!("MariaDB at 1, 10, 100 clients, scale {}, in {space}", self.scale)
            }
            Verified::Etcd => {
                "etcd under puts at eight rates around the one predicted, up and down, each with a new etcd".to_owned()
            }
            Verified::Sqlite => "SQLite's commits by journal and synchronous mode".to_owned(),
        });
        let again = (!self.verify.is_empty()).then(|| {
            let longest = format_span_ns(self.longest_ns());
            format!("after each of these, the commits again; the loads take at most {longest}, plus setting them up")
        });
        lines.chain(again).collect()
    }

    /// Describes how long the programs take, and the commits measured again after each; `None` without `--verify`.
    fn verifying(&self, commits: &Plan) -> Option<String> {
        let again_ns = commits.duration_max_ns().saturating_mul(self.verify.len() as u64);
        let longest = format_span_ns(self.longest_ns().saturating_add(again_ns));
        let is_any = !self.verify.is_empty();
        is_any.then(|| format!("verifying the predictions: at most {longest} of load, plus setting up programs"))
    }

    /// Returns the longest time of all loads, ns; etcd's is an estimate, since its rate is not known yet.
    fn longest_ns(&self) -> u64 {
        let etcd = self.verify.contains(&Verified::Etcd).then(|| self.etcd(Some(SLOW_PUTS)).ok()).flatten();
        let programs = self.sqlite.iter().chain(&etcd).chain(&self.postgres).chain(&self.mysql);
        programs.flat_map(ProgramRun::steps).map(|step| step.duration_max_ns()).sum()
    }

    /// Runs the programs, each between two rounds of commits, so that changes of the disk do not count as errors of the
    /// models.
    fn run_after(&mut self, record: &mut Record, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<()> {
        let commits = record.plan.clone();
        if let Some(verifying) = self.verifying(&commits) {
            watch.heading(&verifying);
        }
        let place = self.place.clone().expect("the place is known before anything runs");
        let mut round = 1;
        let mut between = |record: &mut Record, program: &mut ProgramRun, watch: &mut dyn Watch| {
            round += 1;
            if let Err(error) = add(record, program, &place, context, watch) {
                append_failed(record, program, &error);
            }
            repeat_commits(record, &commits, round, context, watch)
        };
        if let Some(program) = &mut self.sqlite {
            between(record, program, watch)?;
        }
        if self.verify.contains(&Verified::Etcd) {
            let mut program = self.etcd(etcd_rate(record))?;
            between(record, &mut program, watch)?;
        }
        for program in self.postgres.iter_mut().chain(&mut self.mysql) {
            between(record, program, watch)?;
        }
        Ok(())
    }
}

/// Runs a program, and adds its loads to the Record as steps.
fn add(
    record: &mut Record,
    program: &mut ProgramRun,
    place: &Place,
    context: &RunContext<'_>,
    watch: &mut dyn Watch,
) -> Result<()> {
    if context.is_cancelled() {
        return Ok(());
    }
    let plan = program.plan(place, record.plan.seed)?;
    append(record, program.execute(plan, context, watch)?);
    Ok(())
}

/// Adds a program that could not run to the Record, as its first load.
fn append_failed(record: &mut Record, program: &ProgramRun, error: &anyhow::Error) {
    let step = program.steps().into_iter().next().expect("a program has a load");
    record.steps.push(StepRecord::failed(&step.name, format!("{error:#}"), record.elapsed_ns));
    record.plan.steps.push(step);
}

/// Measures the commits once more.
fn repeat_commits(
    record: &mut Record,
    commits: &Plan,
    round: usize,
    context: &RunContext<'_>,
    watch: &mut dyn Watch,
) -> Result<()> {
    if context.is_cancelled() {
        return Ok(());
    }
    let mut plan = commits.clone();
    plan.steps.iter_mut().for_each(|step| step.name = name_in_round(&step.name, round));
    append(record, execute(plan, context, watch)?.0);
    Ok(())
}

/// Appends a run to the one it follows.
fn append(record: &mut Record, mut run: Record) {
    run.steps.iter_mut().for_each(|step| step.started_ns += record.elapsed_ns);
    record.elapsed_ns += run.elapsed_ns;
    record.interrupted |= run.interrupted;
    record.plan.steps.extend(run.plan.steps);
    record.steps.extend(run.steps);
    record.programs.extend(run.app);
}

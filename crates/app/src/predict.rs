//! `qd1 predict`: what databases will do on a disk, from its commits. The suite `predict`, whose report begins with the answer;
//! or a kept run that has such steps. `--verify` runs the databases afterwards, in the same Record.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result};
use qd1_analysis::predict::{CLIENTS, etcd_rate};
use qd1_model::Record;
use qd1_model::plan::Plan;
use qd1_model::prediction::{PredictionPlan, name_in_round};

use crate::apps::part::Part;
use crate::cli::PredictArgs;
use crate::measure::{self, Asked, Sequel, With};
use crate::place::Place;
use crate::progress::Progress;
use crate::run::{self, Circumstances};
use crate::store::{Store, default_path};
use crate::{output, suites, system, thresholds};
use qd1_model::Problem;

/// Measured time of each load, ns: of a load of PostgreSQL with `--quick`, as usual, and with `--full`.
const POSTGRES_NS: [u64; 3] = [5_000_000_000, 15_000_000_000, 60_000_000_000];
const WARM_UP_NS: u64 = 3_000_000_000;
const SQLITE_NS: [u64; 3] = [2_000_000_000, 5_000_000_000, 30_000_000_000];
/// Of each rate of puts; where few come in a second, a percentile takes longer.
const ETCD_NS: [u64; 3] = [3_000_000_000, 5_000_000_000, 20_000_000_000];
const SLOW_ETCD_NS: u64 = 10_000_000_000;
const SLOW_PUTS: f64 = 100.0;
/// Rates of puts that are tried, as parts of the one that is predicted.
const TRIED: [f64; 8] = [0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.2];
/// Fewer than these in a second make no 99th percentile in the time of a slow rate.
const TRIED_MIN: f64 = 12.0;
/// Where none is predicted: whether a few are within the bound after all.
const TRIED_FOR_NONE: [u32; 3] = [12, 24, 50];
/// A gateway for JSON does not take more on any machine we know.
const TRIED_MAX: f64 = 50_000.0;

/// A program to hold its prediction against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Verified {
    /// pgbench at 1, 10 and 100 clients
    Postgres,
    /// Puts at several rates
    Etcd,
    /// Commits with a log and with a rollback journal
    Sqlite,
}

/// Measures, or takes what was measured, and says what to expect.
///
/// # Errors
/// When the run cannot be made or fails, or the kept one has no commits.
pub(crate) fn run(args: &PredictArgs) -> Result<ExitCode> {
    let Some(id) = &args.from else {
        let suite = suites::builtin("predict").context("the suite of predict is built in")?;
        let mut follow = Follow::new(args)?;
        return measure::run(Asked { sequel: Some(&mut follow), ..Asked::of("predict", suite, &args.path, &args.how) });
    };
    let mut record = Store::open(&default_path(|name| std::env::var_os(name))?)?.load(id)?;
    record.plan.prediction = Some(PredictionPlan { scale: args.scale });
    let thresholds = thresholds::of_run(record.plan.subject, None)?;
    let mut report = qd1_analysis::analyse(record, &thresholds);
    if report.prediction.is_none() {
        let why = format!("run {id} has no step commit1; choose a run of qd1 check or qd1 predict (qd1 history)");
        return Err(Problem::usage(why).into());
    }
    output::report(&args.how.common.output, &mut report)?;
    Ok(ExitCode::SUCCESS)
}

/// What follows the commits: nothing, or the programs.
struct Follow {
    scale: u32,
    programs: Vec<Verified>,
    effort: usize,
    postgres: Option<Part>,
    sqlite: Option<Part>,
}

impl Follow {
    /// With the programs looked for, before anything is measured.
    fn new(args: &PredictArgs) -> Result<Self> {
        let effort = measure::effort(&args.how) as usize;
        let wants = |program| args.verify.contains(&program);
        let clients = CLIENTS.map(|clients| clients.to_string()).join(",");
        let memory = system::memory();
        let postgres = || Part::postgres_in_memory(&clients, args.scale, WARM_UP_NS, POSTGRES_NS[effort], memory);
        let follow = Self {
            scale: args.scale,
            programs: args.verify.clone(),
            effort,
            postgres: wants(Verified::Postgres).then(postgres).transpose()?,
            sqlite: wants(Verified::Sqlite).then(|| Part::sqlite(SQLITE_NS[effort])).transpose()?,
        };
        if wants(Verified::Etcd) {
            follow.etcd(None)?;
        }
        Ok(follow)
    }

    /// The rates that are tried around the one predicted, each in a load.
    fn etcd(&self, predicted: Option<f64>) -> Result<Part> {
        let Some(predicted) = predicted else { return Part::etcd(&TRIED_FOR_NONE, SLOW_ETCD_NS) };
        let mut rates = TRIED.map(|part| (part * predicted).clamp(TRIED_MIN, TRIED_MAX).round() as u32).to_vec();
        rates.dedup();
        // There and back: what changes with time meets the low rates as it does the high ones.
        rates.extend(rates.clone().into_iter().rev());
        let runtime_ns = if predicted < SLOW_PUTS { SLOW_ETCD_NS } else { ETCD_NS[self.effort] };
        Part::etcd(&rates, runtime_ns)
    }
}

impl Sequel for Follow {
    fn check(&self, place: &Place, seed: u64) -> Result<()> {
        self.postgres.iter().chain(&self.sqlite).try_for_each(|part| part.fits(place, seed))
    }

    fn planned(&self) -> Vec<String> {
        let space = self.postgres.iter().map(Part::space).max();
        let lines = self.programs.iter().map(|program| match program {
            Verified::Postgres => {
                format!("pgbench at 1, 10, 100 clients, scale {}, in {}", self.scale, space.unwrap_or_default())
            }
            Verified::Etcd => {
                "etcd under puts at eight rates around the one predicted, there and back, each with a new etcd"
                    .to_owned()
            }
            Verified::Sqlite => "SQLite's commits by journal and synchronous mode".to_owned(),
        });
        let again = (!self.programs.is_empty()).then(|| "after each of these the commits again".to_owned());
        lines.chain(again).collect()
    }

    fn follow(&mut self, record: &mut Record, with: &With<'_>, progress: &mut Progress) -> Result<()> {
        record.plan.prediction = Some(PredictionPlan { scale: self.scale });
        let commits = record.plan.clone();
        let mut round = 1;
        // Each program runs between two rounds of commits: what the disk becomes meanwhile is not the models' fault.
        let mut follow = |record: &mut Record, part: &mut Part, progress: &mut Progress| {
            round += 1;
            add(record, part, with, progress)?;
            again(record, &commits, round, with, progress)
        };
        if let Some(part) = &mut self.sqlite {
            follow(record, part, progress)?;
        }
        if self.programs.contains(&Verified::Etcd) {
            let mut part = self.etcd(etcd_rate(record))?;
            part.fits(with.place, record.plan.seed)?;
            follow(record, &mut part, progress)?;
        }
        if let Some(part) = &mut self.postgres {
            follow(record, part, progress)?;
        }
        Ok(())
    }
}

/// Runs a program, and adds its loads to the Record as steps.
fn add(record: &mut Record, part: &mut Part, with: &With<'_>, progress: &mut Progress) -> Result<()> {
    if with.cancel.load(Ordering::Relaxed) {
        return Ok(());
    }
    let circumstances = (record.id.as_str(), record.plan.seed);
    let run = part.measure(with.place, circumstances, None, with.machine, with.cancel, progress)?;
    append(record, run);
    Ok(())
}

/// Measures the commits once more.
fn again(record: &mut Record, commits: &Plan, round: usize, with: &With<'_>, progress: &mut Progress) -> Result<()> {
    if with.cancel.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut plan = commits.clone();
    plan.steps.iter_mut().for_each(|step| step.name = name_in_round(&step.name, round));
    let circumstances = Circumstances { id: record.id.clone(), command: record.command.clone(), machine: with.machine };
    let run = run::execute(plan, &circumstances, with.cancel, progress)?;
    append(record, run);
    Ok(())
}

/// Adds a run to the one it follows.
fn append(record: &mut Record, mut run: Record) {
    run.steps.iter_mut().for_each(|step| step.started_ns += record.elapsed_ns);
    record.elapsed_ns += run.elapsed_ns;
    record.interrupted |= run.interrupted;
    record.plan.steps.extend(run.plan.steps);
    record.steps.extend(run.steps);
    record.programs.extend(run.app);
}

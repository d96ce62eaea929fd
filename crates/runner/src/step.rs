//! One step: opens its files, runs it, ends it once its figures are precise enough, and adds the kernel's counters.

use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};
use qd1_engine::backing::{OpenAs, drop_cache, fill};
use qd1_engine::files::{Tree, run_durable_files, run_files};
use qd1_engine::run::{Decision, IoJob, Outcome, Progress as Watched, run_io};
use qd1_engine::select::{Chosen, choose};
use qd1_model::OpClass;
use qd1_model::op::Ended;
use qd1_model::plan::{EngineKind, FileUse, FilesWork, IoWork, StepPlan, Stop, Sync, TargetKind, Visit, Work};
use qd1_model::record::machine::MachineInterval;
use qd1_model::record::{Interval, StepRecord};
use qd1_stats as stats;

use crate::background::BackgroundLoad;
use crate::context::Files;
use crate::context::Run;
use crate::test_file::TestFile;
use crate::watch::{Pacer, Watch};
use crate::witness::{between, in_device};
use qd1_probe::sampler::{Change, Sampler};
use qd1_system::scratch::Scratch;

/// Whether a running step has measured enough, in addition to its own [`Stop`].
pub(crate) type Enough<'a> = &'a dyn Fn(&[Interval]) -> bool;

/// Who follows a step, and may end it.
pub(crate) struct Follower<'a> {
    pub(crate) watch: &'a mut dyn Watch,
    /// The intervals of the step's earlier visits, which count in the figures shown.
    pub(crate) so_far: &'a [Interval],
    pub(crate) enough: Enough<'a>,
}

/// Runs one visit of a step, which is all of it for most steps.
///
/// # Errors
/// When its files or its engine are not available.
pub(crate) fn run(run: &mut Run<'_>, step: &StepPlan, visit: Visit, mut follower: Follower<'_>) -> Result<StepRecord> {
    let seed = visit_seed(run, step, visit);
    let (paced, pace) = match sustained(run, step, visit, &mut follower)? {
        Some(sustained_iops) => {
            let (paced, pace) = step.at_pace(sustained_iops);
            (Some(paced), Some(pace))
        }
        None => (None, None),
    };
    let step = paced.as_ref().unwrap_or(step);
    let witness = run.context.witness;
    // Those before it are of no interest.
    let before = witness.map(|witness| (witness.others(), witness.slow_requests()).0);
    let mut record = of_visit(run, step, seed, &mut follower)?;
    if let Some((witness, before)) = witness.zip(before) {
        record.others = between(&before, witness.others());
        let started_ns = (record.started_ns + run.begin_ns).saturating_sub(run.earlier_ns);
        // With several operations under way, a request may belong to any of them.
        let is_single =
            matches!(&step.work, Work::Io(io) if io.numjobs * io.iodepth == 1) && step.background.is_empty();
        let requests = witness.slow_requests().filter(|_| is_single);
        for stream in &mut record.streams {
            stream.in_device = requests.as_ref().and_then(|requests| in_device(stream, started_ns, requests));
        }
    }
    Ok(StepRecord { pace, ..record })
}

/// Returns what the disk sustains one request at a time, where that sets the pace of a step: measured once, before the first
/// of its visits.
pub(crate) fn sustained(
    run: &mut Run<'_>,
    step: &StepPlan,
    visit: Visit,
    follower: &mut Follower<'_>,
) -> Result<Option<f64>> {
    let Some(probe) = step.pace_probe() else { return Ok(None) };
    if let Some(known) = run.sustained.get(&step.name) {
        return Ok(Some(*known));
    }
    let seed = visit_seed(run, step, visit) ^ PROBE_SEED;
    let record = of_visit(run, &probe, seed, follower)?;
    let done: u64 = record.streams.iter().map(|stream| stream.lat.count()).sum();
    let sustained_iops = done as f64 * 1e9 / record.runtime_ns.max(1) as f64;
    run.sustained.insert(step.name.clone(), sustained_iops);
    Ok(Some(sustained_iops))
}

fn visit_seed(run: &Run<'_>, step: &StepPlan, visit: Visit) -> u64 {
    step_seed(run.plan.seed, &step.name).wrapping_add(u64::from(visit.number) << 48)
}

/// Gives other offsets than those of the visit that follows.
const PROBE_SEED: u64 = 0x9E37_79B9_7F4A_7C15;

fn of_visit(run: &mut Run<'_>, step: &StepPlan, seed: u64, follower: &mut Follower<'_>) -> Result<StepRecord> {
    let part = &step.visit();
    match &part.work {
        Work::Io(work) => {
            let once = |part: &StepPlan| io(run, part, work, seed, step.stop.interval_ns(), follower);
            with_ramp(part, once).with_context(|| format!("step {}", step.name))
        }
        Work::Files(work) if !work.sync.is_none() => durable_files(run, part, work, seed, follower),
        Work::Files(work) => files(run, part, work, seed, follower).with_context(|| format!("step {}", step.name)),
        Work::App(_) => anyhow::bail!("step {}: only `qd1 app` runs it", step.name),
    }
}

fn durable_files(
    run: &mut Run<'_>,
    step: &StepPlan,
    work: &FilesWork,
    seed: u64,
    follower: &mut Follower<'_>,
) -> Result<StepRecord> {
    let scratch = Scratch::create(&run.plan.target.path, &run.context.id)?;
    let mut sampler = run.counters.sample(&step.stop);
    let mut check = follower.check(&step.stop, &mut sampler);
    let (cost, dir) = (qd1_probe::thread_cost, scratch.path());
    let outcome = run_durable_files(work, &step.stop, dir, seed, cost, run.context.cancel, &mut check)?;
    drop(check);
    let change = sampler.end(&outcome.requests, outcome.started_ns);
    Ok(record(run, step, outcome, change, None, false))
}

fn files(
    run: &mut Run<'_>,
    step: &StepPlan,
    work: &FilesWork,
    seed: u64,
    follower: &mut Follower<'_>,
) -> Result<StepRecord> {
    let mut files = match run.files.take() {
        Some(files) => files,
        None => {
            let scratch = Scratch::create(&run.plan.target.path, &run.context.id)?;
            Files { tree: Tree::new(scratch.path()), _scratch: scratch }
        }
    };
    let mut sampler = run.counters.sample(&step.stop);
    let mut check = follower.check(&step.stop, &mut sampler);
    let cost = qd1_probe::thread_cost;
    let outcome = run_files(work, &step.stop, &mut files.tree, seed, cost, run.context.cancel, &mut check)?;
    drop(check);
    let change = sampler.end(&outcome.requests, outcome.started_ns);
    let fault = stop_fault(&outcome);
    let record = StepRecord { fault, ..record(run, step, outcome, change, None, false) };
    run.files = (!files.tree.is_empty()).then_some(files);
    Ok(record)
}

/// Returns what stopped a step on files and what to do about it; empty unless it failed.
fn stop_fault(outcome: &Outcome) -> String {
    if outcome.ended != Ended::Failed {
        return String::new();
    }
    let names: Vec<&str> = outcome.errors.iter().map(|error| error.error.as_str()).collect();
    let done: u64 = outcome.streams.iter().map(|stream| stream.lat.count()).sum();
    let advice = match names.iter().find(|name| matches!(**name, "ENOSPC" | "EDQUOT" | "EROFS")) {
        Some(&"ENOSPC") => "no space, or no inode, is left; free some, or ask for fewer or smaller files",
        Some(&"EDQUOT") => "the quota is used up; ask for fewer or smaller files, or for more quota",
        Some(_) => "the filesystem takes no more writes; see the kernel's log (dmesg)",
        None => "nothing succeeded; see the kernel's log (dmesg)",
    };
    format!("stopped by {} after {done} operations: {advice}", names.join(", "))
}

/// A step that took less than this part of its time has measured next to nothing.
const NEXT_TO_NOTHING: u64 = 20;

/// Measures block I/O by `once`. If the ramp left next to nothing of the `io_size` to be measured, on a place faster
/// than planned, it is measured again from its beginning, without a ramp.
fn with_ramp(step: &StepPlan, mut once: impl FnMut(&StepPlan) -> Result<StepRecord>) -> Result<StepRecord> {
    let record = once(step)?;
    let is_short = record.runtime_ns < step.stop.max_ns / NEXT_TO_NOTHING;
    let is_used_up = step.stop.ramp_ns > 0 && record.ended == Ended::Done && is_short;
    if !is_used_up || !record.errors.is_empty() {
        return Ok(record);
    }
    let record = once(&StepPlan { stop: Stop { ramp_ns: 0, ..step.stop }, ..step.clone() })?;
    Ok(StepRecord { is_without_ramp: true, ..record })
}

fn io(
    run: &mut Run<'_>,
    step: &StepPlan,
    work: &IoWork,
    seed: u64,
    interval_ns: u64,
    follower: &mut Follower<'_>,
) -> Result<StepRecord> {
    let mut work = work.clone();
    bound_buffered(run, step, &mut work);
    let open_as = OpenAs { write: work.rw.writes(), direct: work.direct, sync: work.sync };
    // Kept until the step is over: unnamed files live as long as they are open.
    let own = match run.kept.remove(&step.name) {
        Some(kept) => kept,
        None => own_targets(run, &work, seed)?,
    };
    let mut files: Vec<OwnedFd> = own.iter().map(|target| target.open(open_as)).collect::<Result<_, _>>()?;
    if own.is_empty() {
        let shared = run.shared.as_ref().context("the plan has no shared file")?;
        files.push(shared.open(open_as)?);
    }
    files.iter().for_each(drop_cache);
    let chosen = choose(&work, files.first())?;
    if chosen.spread {
        // The rate is that of a job, which now has several workers.
        work.arrival = work.arrival.shared_by(work.iodepth);
        (work.numjobs, work.iodepth) = (work.numjobs * work.iodepth, 1);
    }
    let job = IoJob {
        work: &work,
        stop: &step.stop,
        interval_ns,
        kind: chosen.kind,
        files: &files,
        offset: 0,
        seed,
        sim: None,
        batch_min: 1,
        thread_cost: qd1_probe::thread_cost,
        thread_time: qd1_probe::thread_clock(),
    };
    let load = BackgroundLoad::open(run, step, seed)?;
    let mut sampler = run.counters.sample(&step.stop);
    let measure = || Ok(run_io(&job, run.context.cancel, &mut follower.check(&step.stop, &mut sampler))?);
    let (outcome, load) = load.around(measure)?;
    let change = sampler.end(&outcome.requests.plus(&load.requests), outcome.started_ns);
    let record = record(run, step, outcome, change, Some(chosen), work.direct);
    // A recycled segment stays; a new or empty one is created again for each visit.
    if step.visits > 1 && work.file == FileUse::Own {
        run.kept.insert(step.name.clone(), own);
    }
    Ok(StepRecord { background: load.background, ..record })
}

/// Creates the files that belong to this step alone; none if it uses the shared one.
fn own_targets(run: &Run<'_>, work: &IoWork, seed: u64) -> Result<Vec<TestFile>> {
    if work.file == FileUse::Shared || run.plan.target.kind != TargetKind::Directory {
        return Ok(Vec::new());
    }
    let target = &run.plan.target;
    (0..work.numjobs)
        .map(|number| {
            let own = TestFile::create(&target.path, &format!("{}-{number}", run.context.id))?;
            match work.file {
                FileUse::Own => {
                    let mut decide = |_: &Watched<'_>| Decision::Continue;
                    let (size, seed) = (work.size.0, seed ^ u64::from(number) ^ 0xF111);
                    let longest_ns = target.prepare_max_ns.max(10_000_000_000);
                    let filled = fill(&own, size, longest_ns, target.direct, seed, run.context.cancel, &mut decide)?;
                    if let Some(error) = filled.errors.first() {
                        anyhow::bail!("writing its file failed: {} at offset {}", error.error, error.first_offset);
                    }
                }
                FileUse::Allocated => {
                    own.allocate(work.size.0)?;
                }
                FileUse::Empty | FileUse::Shared => {}
            }
            Ok(own)
        })
        .collect()
}

/// Limits a buffered step, which ends only when its data is written out, to what the disk wrote in the same time when
/// the test file was written.
fn bound_buffered(run: &Run<'_>, step: &StepPlan, work: &mut IoWork) {
    let Some(prepare) = run.prepared.as_ref().filter(|prepare| prepare.elapsed_ns > 0) else { return };
    if work.direct || work.sync != Sync::EndFsync {
        return;
    }
    let per_ns = prepare.bytes.0 as f64 / prepare.elapsed_ns as f64;
    let block = u64::from(work.block_max());
    let bytes = (per_ns * step.stop.max_ns as f64) as u64 / block * block;
    let wanted = if work.io_size.0 > 0 { work.io_size.0 } else { u64::MAX };
    work.io_size.0 = bytes.max(16 * block).min(wanted);
}

impl Follower<'_> {
    /// Returns a callback that shows a step's figures and ends it once they are precise enough.
    fn check(&mut self, stop: &Stop, sampler: &mut Sampler<'_>) -> impl FnMut(&Watched<'_>) -> Decision {
        let mut pacer = Pacer::default();
        move |now| {
            sampler.look();
            let is_over = pacer.take(now.elapsed_ns, || {
                if self.so_far.is_empty() {
                    self.watch.figures(now.intervals);
                } else {
                    self.watch.figures(&[self.so_far, now.intervals].concat());
                }
                now.elapsed_ns >= stop.min_ns && (precise(now, stop) || (self.enough)(now.intervals))
            });
            self.watch.tick(now.elapsed_ns, stop);
            if is_over == Some(true) { Decision::Enough } else { Decision::Continue }
        }
    }
}

fn precise(now: &Watched<'_>, stop: &Stop) -> bool {
    if stop.quantile <= 0.0 {
        return false;
    }
    let mut classes = OpClass::ALL
        .into_iter()
        .filter(|class| {
            now.intervals.iter().any(|interval| interval.streams.iter().any(|stream| stream.class == *class))
        })
        .peekable();
    classes.peek().is_some()
        && classes.all(|class| {
            let estimate = stats::quantile_coarse(now.intervals, class, stop.quantile);
            stats::precise_enough(&estimate, stop.tolerance)
        })
}

fn record(
    run: &Run<'_>,
    step: &StepPlan,
    outcome: Outcome,
    (change, machine): (Change, Vec<MachineInterval>),
    chosen: Option<Chosen>,
    direct: bool,
) -> StepRecord {
    let engine: Option<EngineKind> = chosen.as_ref().map(|chosen| chosen.kind);
    let mut engine_why = chosen.map(|chosen| chosen.why).unwrap_or_default();
    if !outcome.caveat.is_empty() {
        engine_why = format!("{engine_why}; {}", outcome.caveat);
    }
    StepRecord {
        name: step.name.clone(),
        engine,
        engine_why,
        direct,
        started_ns: outcome.started_ns.saturating_sub(run.begin_ns) + run.earlier_ns,
        runtime_ns: outcome.runtime_ns,
        end_fsync_ns: outcome.end_fsync_ns,
        ended: outcome.ended,
        pace: None,
        is_without_ramp: false,
        fault: String::new(),
        streams: outcome.streams,
        others: Vec::new(),
        background: Vec::new(),
        intervals: outcome.intervals,
        errors: outcome.errors,
        device: change.device,
        cost: outcome.cost,
        steal: change.steal,
        busy: change.busy,
        pressure: change.pressure,
        machine,
        app: None,
        sort_ns: None,
    }
}

/// Returns a seed for each step, so that leaving one out does not change the others (FNV-1a of the name).
fn step_seed(seed: u64, name: &str) -> u64 {
    name.bytes()
        .fold(seed ^ 0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

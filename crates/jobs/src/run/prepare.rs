//! Before any thread begins: inspects all files, refuses what is not safe, and lays out the files that must exist.

use std::collections::HashSet;

use qd1_engine::backing::Target;
use qd1_fio::types::Verify;

use super::*;
use crate::verify::header_bytes;

/// Inspects all files of all threads and refuses what is not safe. As long as the returned devices are held, nobody
/// else can mount them or write a filesystem to them.
pub(super) fn prepare<'a>(
    jobs: &'a [FioJob],
    around: &Surroundings<'_>,
) -> Result<(Vec<Prepared<'a>>, Vec<Target>), JobError> {
    let mut prepared = Vec::new();
    for plan in threads(jobs, around.drawn) {
        let job = &jobs[plan.job];
        if plan_is_first(&plan) {
            verifiable(job)?;
        }
        let files = files::plan_files(job, plan.clone, plan.seed)?;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(plan.seed ^ 0xDE1A);
        let (least, most) = (job.startdelay.min.as_nanos() as u64, job.startdelay.max.as_nanos() as u64);
        prepared.push(Prepared {
            plan,
            job,
            files,
            live: Arc::default(),
            outbox: Arc::new(Mutex::new(Vec::new())),
            stage: Stage::Pending,
            delay_ns: least + if most > least { rng.next_u64() % (most - least) } else { 0 },
            begin: None,
            ended: None,
        });
    }
    refuse_unsafe(&prepared, around)?;
    let held = hold_devices(&prepared)?;
    raise_file_limit(prepared.iter().map(|thread| thread.files.len() as u64).sum());
    Ok((prepared, held))
}

/// Lays out the files that must exist.
pub(super) fn lay_out(
    prepared: &[Prepared<'_>],
    around: &Surroundings<'_>,
    watcher: &mut dyn Watcher,
) -> Result<(), JobError> {
    let mut made = LaidOutFiles::default();
    for thread in prepared {
        if plan_is_first(&thread.plan) {
            crate::unwritten_data::doubts(thread.job, &thread.files).iter().for_each(|text| watcher.warn(text));
        }
        if thread.job.ioengine.moves_data() {
            let cancelled = || around.cancel.load(Ordering::Relaxed);
            let mut show = |now: LayingOut| watcher.laying_out(thread.job, now.files, now.bytes);
            files::lay_out(thread.job, &thread.files, &mut made, &cancelled, &mut show)?;
        }
    }
    Ok(())
}

pub(super) fn plan_is_first(plan: &ThreadPlan) -> bool {
    plan.clone == 0
}

/// Whether what the job writes can be verified as it asks.
fn verifiable(job: &FioJob) -> Result<(), JobError> {
    let fail = |text: String| Err(JobError::new(&job.name, rustix::io::Errno::INVAL, text));
    if job.verify == Verify::Pattern && job.verify_pattern.0.is_empty() {
        return fail("verify=pattern requires verify_pattern".to_owned());
    }
    let (header, block) = (header_bytes(job.verify) as u64, job.block_range(1).min);
    if job.verify != Verify::None && job.verify != Verify::Pattern && block < header {
        let name = job.verify.name();
        return fail(format!(
            "verify={name} puts a header of {header} bytes into each block, but bs is only {block}; give a larger bs"
        ));
    }
    Ok(())
}

/// All files of a job are open while it runs: as many as the hard limit allows.
fn raise_file_limit(files: u64) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let wanted = files + 256;
    if limit.current.is_some_and(|current| current < wanted) {
        let current = limit.maximum.map(|most| most.min(wanted)).or(Some(wanted));
        // If it cannot be raised, opening the files reports what is wrong.
        let _ = rustix::process::setrlimit(
            rustix::process::Resource::Nofile,
            rustix::process::Rlimit { current, maximum: limit.maximum },
        );
    }
}

/// Refuses to change files and devices that must not be changed.
fn refuse_unsafe(prepared: &[Prepared<'_>], around: &Surroundings<'_>) -> Result<(), JobError> {
    let mut asked: HashSet<&Path> = HashSet::new();
    for (thread, file) in files_of(prepared) {
        let is_written = files::changes(thread.job, file) || files::makes(thread.job, file);
        if is_written && asked.insert(&file.path) {
            (around.may_change)(&file.path).map_err(|text| JobError {
                target_is_unsafe: true,
                ..JobError::new(&thread.job.name, Errno::BUSY, text)
            })?;
        }
    }
    Ok(())
}

/// The existing files and devices that a thread changes or deletes.
fn changed<'b>(prepared: &'b [Prepared<'_>]) -> impl Iterator<Item = (&'b Prepared<'b>, &'b FilePlan)> {
    files_of(prepared).filter(|(thread, file)| files::changes(thread.job, file))
}

fn files_of<'b>(prepared: &'b [Prepared<'_>]) -> impl Iterator<Item = (&'b Prepared<'b>, &'b FilePlan)> {
    let of = |thread: &'b Prepared<'_>| thread.files.iter().map(move |file| (thread, file));
    prepared.iter().flat_map(of)
}

/// Opens exclusively the devices that are written to.
fn hold_devices(prepared: &[Prepared<'_>]) -> Result<Vec<Target>, JobError> {
    let mut held: Vec<Target> = Vec::new();
    for (thread, file) in changed(prepared).filter(|(_, file)| file.kind == FileKind::Block) {
        let path = std::fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
        if held.iter().all(|known| known.path() != path) {
            let target = Target::exclusive(&path).map_err(|error| JobError::engine(&thread.job.name, &error))?;
            held.push(target);
        }
    }
    Ok(held)
}

/// The flows, each with the weights of all its threads.
pub(super) fn flows(prepared: &[Prepared<'_>]) -> HashMap<u32, Arc<Flow>> {
    let mut flows: HashMap<u32, Arc<Flow>> = HashMap::new();
    for thread in prepared {
        let flow = flows.entry(thread.job.flow_id).or_default();
        if thread.job.flow > 0 {
            flow.expect(thread.job.flow);
        }
    }
    flows
}

//! The rounds: each filesystem made, mounted, measured and taken away, with every change in the journal before it is made.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use qd1_engine::clock;
use qd1_model::filesystems::MountRecord;
use qd1_model::{Record, SCHEMA_VERSION};
use qd1_probe::Machine;

use super::ground::{Disk, Ground};
use super::kinds::{Entry, Field};
use super::planned::Planned;
use super::workload::{At, Workload};
use super::zfs;
use crate::journal::{Change, Journal};
use crate::progress::Progress;
use crate::system;

/// What all rounds share.
pub(super) struct Course<'a> {
    pub(super) machine: &'a Machine,
    pub(super) id: &'a str,
    pub(super) field: &'a Field,
    pub(super) planned: &'a Planned,
    pub(super) workloads: &'a mut [Workload],
    pub(super) ground: &'a Ground,
    pub(super) scratch: &'a Path,
    pub(super) journal: &'a mut Journal,
    pub(super) cancel: &'a AtomicBool,
    pub(super) progress: &'a mut Progress,
}

impl Course<'_> {
    /// Runs all rounds, or those until a signal; what ended them early, if it was an error, beside what was measured.
    ///
    /// # Errors
    /// When nothing was measured at all.
    pub(super) fn run(mut self, command: Vec<String>) -> Result<(Record, Option<anyhow::Error>)> {
        let begin_ns = clock::now_ns();
        let mut record = self.empty(command);
        let mut failure = None;
        for round in 1..=self.planned.asked.rounds {
            if self.is_cancelled() {
                break;
            }
            if let Err(error) = self.round(round, begin_ns, &mut record) {
                failure = Some(error);
                break;
            }
        }
        self.ground.clear();
        record.elapsed_ns = clock::now_ns() - begin_ns;
        record.interrupted = self.is_cancelled();
        match failure {
            Some(error) if record.steps.is_empty() => Err(error),
            failure => Ok((record, failure)),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// The Record of a run in which nothing was measured yet.
    fn empty(&self, command: Vec<String>) -> Record {
        let mut plan = self.planned.plan.clone();
        plan.steps.clear();
        Record {
            schema_version: SCHEMA_VERSION,
            id: self.id.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            started_unix_ns: clock::wall_ns(),
            elapsed_ns: 0,
            interrupted: false,
            environment: self.machine.environment(&plan.target.path),
            plan,
            prepare: None,
            app: None,
            steps: Vec::new(),
            mounts: Vec::new(),
            programs: Vec::new(),
        }
    }

    fn round(&mut self, round: u32, begin_ns: u64, record: &mut Record) -> Result<()> {
        let Planned { plan, asked, .. } = self.planned;
        let seed = plan.seed.wrapping_add(u64::from(round).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        self.progress.heading(&format!("round {round} of {}: writing {}", asked.rounds, asked.disk));
        let laid = self.ground.lay(asked.disk, seed, self.cancel, self.progress)?;
        record.prepare.get_or_insert(laid);
        for at in &asked.order[round as usize - 1] {
            let entry = &self.field.entries[*at as usize];
            // One that could not be made will not be made in the next round either.
            let fails = record.mounts.iter().any(|mount| mount.name == entry.name && !mount.fault.is_empty());
            if fails {
                continue;
            }
            if self.is_cancelled() {
                break;
            }
            self.progress.heading(&format!("round {round} of {}: {}", asked.rounds, entry.name));
            self.one(entry, round, seed, begin_ns, record)?;
        }
        Ok(())
    }

    /// One filesystem in one round. What keeps it from being measured is in the Record.
    ///
    /// # Errors
    /// When something could not be undone: then it is in the way of all others.
    fn one(&mut self, entry: &Entry, round: u32, seed: u64, begin_ns: u64, record: &mut Record) -> Result<()> {
        let mut mount = MountRecord { name: entry.name.clone(), round, ..MountRecord::default() };
        mount.asked_options = entry.kind.options(self.planned.asked.fair).join(",");
        let depth = self.journal.depth();
        let measured = self.on_mount(entry, seed, begin_ns, &mut mount, record);
        let undone = self.journal.undo_to(depth);
        if let Err(error) = measured {
            mount.fault = format!("{error:#}");
            self.progress.heading(&format!("  {}: {}", entry.name, mount.fault));
        }
        // Stopped before anything was measured on it: the same as if it had not begun.
        if !mount.steps.is_empty() || !mount.fault.is_empty() {
            record.mounts.push(mount);
        }
        undone
    }

    fn on_mount(
        &mut self,
        entry: &Entry,
        seed: u64,
        begin_ns: u64,
        mount: &mut MountRecord,
        record: &mut Record,
    ) -> Result<()> {
        let dir = self.scratch.join(&entry.name);
        std::fs::create_dir_all(&dir)?;
        let device = self.make(entry, &dir, mount)?;
        let at = At { machine: self.machine, dir: &dir, id: self.id, seed, cancel: self.cancel };
        let counted = || self.machine.device_counters(&device);
        let before = counted();
        for workload in self.workloads.iter_mut() {
            let started_ns = clock::now_ns() - begin_ns;
            if self.cancel.load(Ordering::Relaxed) {
                break;
            }
            let part = workload.measure(&at, self.progress)?;
            add(record, mount, part, started_ns);
        }
        mount.counted = counted().zip(before).map(|(now, before)| now.since(&before));
        Ok(())
    }

    /// Makes the filesystem and mounts it on `dir`; the kernel's name of its device.
    fn make(&mut self, entry: &Entry, dir: &Path, mount: &mut MountRecord) -> Result<String> {
        let asked = &self.planned.asked;
        let is_zfs = entry.kind.name == zfs::NAME;
        if is_zfs {
            zfs::serve(self.scratch, self.journal)?;
        }
        mount.tool = entry.kind.version();
        let Disk { device, loop_direct } = self.ground.disk(self.machine, self.journal)?;
        mount.loop_direct = loop_direct;
        let options = entry.kind.options(asked.fair);
        let name = device.to_string_lossy().into_owned();
        let mut command = entry.kind.command(&name, loop_direct.is_none().then_some(asked.disk));
        let pool = format!("qd1_{}", self.id);
        if is_zfs {
            zfs::rest(&mut command, &pool, &dir.to_string_lossy(), &options);
        }
        let placeless = |word: &String| match word {
            word if *word == name => "DEVICE".to_owned(),
            word if Path::new(word) == dir => "DIR".to_owned(),
            word if *word == pool => "POOL".to_owned(),
            word => word.clone(),
        };
        mount.commands = vec![command.iter().map(placeless).collect::<Vec<_>>().join(" ")];
        self.journal.note(Change::Mount { point: PathBuf::from(dir) })?;
        if is_zfs {
            self.journal.note(Change::Pool { name: pool.clone() })?;
        }
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        system::tool(words[0], &words[1..])?;
        if is_zfs {
            mount.properties = zfs::properties(&pool);
        } else {
            system::mount(&device, dir, entry.kind.name, &options)?;
        }
        Ok(device.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default())
    }
}

/// Adds what was measured on a mount to the whole.
fn add(record: &mut Record, mount: &mut MountRecord, part: Record, started_ns: u64) {
    mount.filesystem = part.environment.filesystem;
    mount.devices = part.environment.devices;
    mount.direct = part.plan.target.direct;
    mount.prepare = part.prepare.or(mount.prepare.take());
    mount.app = part.app.or(mount.app.take());
    if record.environment.clock.read_cost_ns == 0.0 {
        record.environment.clock = part.environment.clock;
    }
    let ran: Vec<String> = part.steps.iter().map(|step| step.name.clone()).collect();
    for mut step in part.plan.steps.into_iter().filter(|step| ran.contains(&step.name)) {
        step.name = mount.step_name(&step.name);
        record.plan.steps.push(step);
    }
    for mut step in part.steps {
        step.name = mount.step_name(&step.name);
        step.started_ns += started_ns;
        mount.steps.push(step.name.clone());
        record.steps.push(step);
    }
}

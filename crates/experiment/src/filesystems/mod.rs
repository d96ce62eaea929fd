//! `qd1 filesystems`: the same work on ext4, xfs, btrfs and zfs, made one after another on the same disk, in rounds,
//! and compared in one table (docs/method.md).
//!
//! Each filesystem is a treatment in a general experiment; the analysis makes the table from the Record alone, so that
//! `qd1 history show` can print it again.

mod backing;
mod kinds;
mod made;
mod planned;
mod zfs;

use std::path::{Path, PathBuf};

use anyhow::Result;
use qd1_engine::backing::PathKind;
use qd1_model::plan::EngineChoice;
use qd1_model::spec::Effort;
use qd1_model::{Bytes, Problem, ProblemKind, Record};
use qd1_probe::Machine;
use qd1_programs::ProgramRun;
use qd1_runner::place::Place;
use qd1_runner::watch::Watch;
use qd1_runner::{RunContext, destroy};
use qd1_system::journal::Journal;
use qd1_system::tool::find;
use qd1_system::trust;

use crate::rounds::Experiment;
use crate::treatment::Treatment;
use crate::workload::Workload;
use backing::Backing;
use kinds::Participants;
use made::MadeFilesystem;
use planned::Planned;

/// Programs needed by every comparison, and their Debian packages.
const PROGRAMS: [(&str, &str); 2] = [("losetup", "mount"), ("wipefs", "util-linux")];

/// What the user requests; absent or empty options take their defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory, or block device.
    pub path: PathBuf,
    /// Only these filesystems.
    pub only: Vec<String>,
    /// How many times each is created and measured.
    pub rounds: Option<u32>,
    /// Whether each is tuned for databases.
    pub fair: bool,
    /// How much time to spend.
    pub effort: Effort,
    /// Only these steps.
    pub steps: Vec<String>,
    /// Whether pgbench runs as well.
    pub postgres: bool,
    /// The scale of pgbench.
    pub scale: Option<u32>,
    /// Size of the test file.
    pub size: Option<Bytes>,
    /// Size of each filesystem.
    pub disk: Option<Bytes>,
    /// Time of each step, ns.
    pub runtime_ns: Option<u64>,
    /// How I/O is issued.
    pub engine: Option<EngineChoice>,
    /// The device that may be overwritten.
    pub destroy: Option<PathBuf>,
}

/// A comparison of filesystems.
pub struct Filesystems {
    options: Options,
    participants: Participants,
    program: Option<ProgramRun>,
    planned: Option<Planned>,
    backing: Option<Backing>,
}

impl Filesystems {
    /// Creates a comparison of the available filesystems.
    ///
    /// # Errors
    /// If a named filesystem is not available, or none is.
    pub fn new(options: Options) -> Result<Self> {
        let participants = Participants::of(&options.only).map_err(Problem::usage)?;
        // Filesystems named by the user must be available; without names, some may be missing.
        let named = !options.only.is_empty();
        let none = participants.entries.is_empty();
        if let Some((name, why)) = participants.missing.first().filter(|_| named || none) {
            let message = format!("{name} cannot be measured: {why}; install it, or leave it out with --only");
            return Err(Problem::new(ProblemKind::Capability, message).into());
        }
        Ok(Self { options, participants, program: None, planned: None, backing: None })
    }

    /// Plans the comparison at this place.
    ///
    /// # Errors
    /// If something is not allowed, does not fit, or is missing.
    pub fn plan(&mut self, place: &Place, seed: u64) -> Result<qd1_model::Plan> {
        self.refuse(place)?;
        self.program = planned::program(&self.options)?;
        let planned = planned::decide(&self.options, place, &self.participants, self.program.as_ref(), seed)?;
        let plan = planned.plan.clone();
        self.backing = Some(match planned.comparison.on_loop {
            true => Backing::file(planned.comparison.disk, place.direct.supported),
            false => Backing::device(planned.comparison.disk, &place.path),
        });
        self.planned = Some(planned);
        Ok(plan)
    }

    fn refuse(&self, place: &Place) -> Result<()> {
        let path = place.path.display();
        let is_named = destroy::is_allowed(place, self.options.destroy.as_deref())?;
        match place.kind {
            PathKind::Directory => Ok(()),
            PathKind::Block(_) if is_named => Ok(()),
            PathKind::Block(_) => {
                let message = format!(
                    "creating filesystems on {path} would destroy its contents; confirm with --destroy {path}, or \
                     name a directory"
                );
                Err(Problem::new(ProblemKind::Unsafe, message).into())
            }
            _ => {
                let message = format!("{path} is a file; name a directory in which filesystems can be created");
                Err(Problem::usage(message).into())
            }
        }
    }

    fn planned(&self) -> &Planned {
        self.planned.as_ref().expect("a comparison is planned before it is shown or run")
    }

    /// Describes what would be done.
    ///
    /// # Panics
    /// Before [`Filesystems::plan`].
    pub fn dry_run(&self) -> String {
        planned::dry_run(self.planned(), &self.participants)
    }

    /// Returns the options in effect: elsewhere, or at another time, others might be chosen.
    ///
    /// # Panics
    /// Before [`Filesystems::plan`].
    pub fn decided(&self) -> Vec<(&'static str, String)> {
        planned::decided(&self.options, self.planned())
    }

    /// Returns the filesystems that are not measured, and why.
    pub fn missing(&self) -> &[(&'static str, String)] {
        &self.participants.missing
    }

    /// Refuses what this user or machine cannot do, and a device that is in use.
    ///
    /// # Errors
    /// When something is missing or in use; the message says what to do.
    pub fn may_run(&self, place: &Place, machine: &Machine) -> Result<()> {
        if !rustix::process::geteuid().is_root() {
            let message = "qd1 filesystems creates and mounts filesystems, which only root can do: run it as root \
                           (sudo), or with --dry-run to see what it would do";
            return Err(Problem::new(ProblemKind::Capability, message).into());
        }
        for (program, package) in PROGRAMS {
            if find(program).is_none() {
                let message = format!("{program} is not installed (Debian package {package}); install it");
                return Err(Problem::new(ProblemKind::Capability, message).into());
            }
        }
        let on_loop = place.kind == PathKind::Directory;
        if on_loop && !Path::new("/dev/loop-control").exists() {
            let message = "there are no loop devices here (/dev/loop-control is missing, as in many containers); use \
                           a block device with --destroy instead, or load the loop module";
            return Err(Problem::new(ProblemKind::Capability, message).into());
        }
        if self.options.destroy.is_some() {
            destroy::refuse_in_use(machine, &place.path)?;
        }
        Ok(())
    }

    /// Measures. Returns what was measured, and the error that ended it early, if any; `None` when it was stopped
    /// before anything was measured.
    ///
    /// # Errors
    /// When nothing could be measured.
    ///
    /// # Panics
    /// Before [`Filesystems::plan`].
    pub fn execute(
        &mut self,
        context: &RunContext<'_>,
        watch: &mut dyn Watch,
    ) -> Result<Option<(Record, Option<anyhow::Error>)>> {
        let planned = self.planned.as_ref().expect("a comparison is planned before it is run");
        let backing = self.backing.as_mut().expect("its disk is planned with it");
        let mut journal = Journal::open(&context.id, &context.command.join(" "))?;
        // Mount points and files that tools open by name must be where nobody else can rename them; only the disk's
        // file is measured.
        let scratch = journal.scratch(&trust::temp_dir(), &format!("{}-m", context.id))?;
        let target = &planned.plan.target.path;
        let files = if planned.comparison.on_loop { Some(journal.scratch(target, &context.id)?) } else { None };
        backing.put_into(files.as_ref().unwrap_or(&scratch).path());
        let mut workloads = vec![Workload::Suite(Box::new(planned.spec.clone()))];
        workloads.extend(self.program.take().map(Workload::Program));
        let made: Vec<MadeFilesystem<'_>> = self
            .participants
            .entries
            .iter()
            .map(|participant| MadeFilesystem { participant, comparison: &planned.comparison, backing })
            .collect();
        let treatments: Vec<&dyn Treatment> = made.iter().map(|made| made as &dyn Treatment).collect();
        let experiment = Experiment {
            plan: &planned.plan,
            order: &planned.comparison.order,
            treatments: &treatments,
            workloads: &mut workloads,
            substrate: backing,
            scratch: scratch.path(),
            journal: &mut journal,
            context,
            watch,
        };
        let (record, failure) = experiment.run()?;
        if !record.steps.is_empty() {
            return Ok(Some((record, failure)));
        }
        if context.is_cancelled() {
            return Ok(None);
        }
        let faults: Vec<String> =
            record.mounts.iter().map(|mount| format!("{}: {}", mount.name, mount.fault)).collect();
        let message = format!("no filesystem could be measured; {}", faults.join("; "));
        Err(Problem::new(ProblemKind::Failed, message).into())
    }
}

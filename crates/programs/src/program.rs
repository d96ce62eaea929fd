//! The seam for real programs: one file, or directory, for each [`Driver`].
//!
//! A program's loads are the steps of an ordinary run, so that plan, progress, record, summary, history and every report
//! format serve them too. What a program issues is its own I/O; the engine has no part in it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use qd1_model::Bytes;
use qd1_model::op::Ended;
use qd1_model::plan::program::{AppWork, Program};
use qd1_model::plan::{StepPlan, Stop, Work};
use qd1_model::record::program::{AppStep, Setting};
use qd1_model::record::{Interval, IoErrors, Stream};
use qd1_runner::watch::Watch;
use qd1_system::scratch::Scratch;

/// Drives a program: makes its data, starts it, runs its loads, and takes all away again.
pub trait Driver {
    /// Which program.
    fn program(&self) -> Program;

    /// Where it works; `None` where it needs no directory of its own.
    fn path(&self) -> Option<&Path>;

    /// Its loads, in order.
    fn steps(&self) -> Vec<StepPlan>;

    /// Space it takes at most, as far as can be told.
    fn space(&self) -> Bytes;

    /// Refuses what cannot go well, before anything is done: programs that are missing, settings that make no sense.
    ///
    /// # Errors
    /// Each says what to do.
    fn check(&mut self) -> Result<()>;

    /// What is left alone or changed, for `--dry-run`.
    fn caution(&self) -> String {
        "nothing after it: data, sockets and server go with the run".to_owned()
    }

    /// Makes its data and starts it; its version and settings.
    ///
    /// # Errors
    /// When it does not start. [`qd1_system::child::Cancelled`] when it was stopped.
    fn prepare(&mut self, site: &Site<'_>, watch: &mut dyn Watch) -> Result<(String, Vec<Setting>)>;

    /// Runs one load.
    ///
    /// # Errors
    /// When nothing could be measured. [`qd1_system::child::Cancelled`] likewise.
    fn load(&mut self, step: &StepPlan, site: &Site<'_>, watch: &mut dyn Watch) -> Result<Loaded>;

    /// Ends the server, and removes what it made.
    ///
    /// # Errors
    /// When something is left that has to be said.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Where and for which run a program works.
pub struct Site<'a> {
    /// The directory that is measured, as resolved.
    pub(crate) path: &'a Path,
    pub(crate) id: &'a str,
    pub(crate) seed: u64,
    pub(crate) cancel: &'a AtomicBool,
}

impl Site<'_> {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// A directory on the disk that is measured, gone when dropped, that a server's user can pass through.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn scratch(&self) -> Result<Scratch> {
        let scratch = Scratch::create(self.path, self.id)?;
        open_to_others(scratch.path())?;
        Ok(scratch)
    }

    /// The same in the system's place for temporary files, for what is not to be on the disk: sockets, logs. Its name is
    /// short, since that of a socket may have no more than 107 bytes.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn scratch_aside(&self) -> Result<Scratch> {
        self.scratch_aside_for("t")
    }

    /// Another of that kind.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn scratch_aside_for(&self, what: &str) -> Result<Scratch> {
        let usual = std::env::temp_dir();
        let dir = if usual.as_os_str().len() > 50 { PathBuf::from("/tmp") } else { usual };
        let scratch = Scratch::create(&dir, &format!("{}-{what}", self.id))?;
        open_to_others(scratch.path())?;
        Ok(scratch)
    }
}

/// A directory in memory, gone when dropped; `None` where the machine has none.
pub(crate) fn scratch_in_memory(id: &str) -> Option<Scratch> {
    let scratch = Scratch::create(Path::new("/dev/shm"), &format!("{id}-m")).ok()?;
    open_to_others(scratch.path()).ok().map(|()| scratch)
}

/// Lets everybody pass through a directory, whatever umask it was made with.
pub fn open_to_others(dir: &Path) -> Result<()> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir, mode).with_context(|| format!("cannot open {} to others", dir.display()))
}

/// What a load measured.
#[derive(Default)]
pub struct Loaded {
    pub(crate) streams: Vec<Stream>,
    pub(crate) intervals: Vec<Interval>,
    pub(crate) runtime_ns: u64,
    pub(crate) ended: Ended,
    pub(crate) fault: String,
    pub(crate) errors: Vec<IoErrors>,
    pub(crate) app: AppStep,
}

/// A load as a step of the plan.
pub(crate) fn step(program: Program, name: String, title: String, clients: u32, ramp_ns: u64, max_ns: u64) -> StepPlan {
    StepPlan {
        name,
        title,
        work: Work::App(AppWork { program, clients, rate: None }),
        background: Vec::new(),
        stop: Stop { min_ns: max_ns, max_ns, ramp_ns, quantile: 0.0, tolerance: 0.0 },
        writes_max: Bytes(0),
    }
}

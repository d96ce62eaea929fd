//! The interface to real programs: one file or directory for each [`Driver`].
//!
//! A program's loads are the steps of an ordinary run, so that plan, progress, record, summary, history and every
//! report format serve them too. A program issues its own I/O; the engine is not involved.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use qd1_model::op::Ended;
use qd1_model::plan::program::{AppWork, Program};
use qd1_model::plan::{StepPlan, Stop, Work};
use qd1_model::record::program::{AppStep, Setting};
use qd1_model::record::{Interval, IoErrors, Stream};
use qd1_model::{Bytes, Problem};
use qd1_runner::watch::Watch;
use qd1_system::scratch::Scratch;
use qd1_system::trust;
use qd1_system::user::User;

/// Drives a program: creates its data, starts it, runs its loads, and removes everything again.
pub trait Driver {
    /// Returns which program it is.
    fn program(&self) -> Program;

    /// Returns the directory it works in; `None` if it needs none of its own.
    fn path(&self) -> Option<&Path>;

    /// Returns its loads, in order.
    fn steps(&self) -> Vec<StepPlan>;

    /// Returns the maximum space it takes, as far as known.
    fn space(&self) -> Bytes;

    /// Checks in advance that no program is missing and the settings make sense.
    ///
    /// # Errors
    /// When the check fails; the message says what to do.
    fn check(&mut self) -> Result<()>;

    /// Describes what is changed and what remains, for `--dry-run`.
    fn caution(&self) -> String {
        "none afterwards: data, sockets and server are removed with the run".to_owned()
    }

    /// Creates its data and starts it; returns its version and settings.
    ///
    /// # Errors
    /// When it does not start. [`qd1_system::child::Cancelled`] when it was stopped.
    fn prepare(&mut self, site: &Site<'_>, watch: &mut dyn Watch) -> Result<(String, Vec<Setting>)>;

    /// Runs one load.
    ///
    /// # Errors
    /// When nothing could be measured. [`qd1_system::child::Cancelled`] likewise.
    fn load(&mut self, step: &StepPlan, site: &Site<'_>, watch: &mut dyn Watch) -> Result<Loaded>;

    /// Ends the server, and removes what it created.
    ///
    /// # Errors
    /// When something could not be removed.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Where a program works, and the run it works for.
pub struct Site<'a> {
    /// The measured directory, with symbolic links resolved.
    pub(crate) path: &'a Path,
    pub(crate) id: &'a str,
    pub(crate) seed: u64,
    pub(crate) cancel: &'a AtomicBool,
}

impl Site<'_> {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Creates a directory on the measured disk, removed when dropped, that a server's user can pass through.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(crate) fn scratch(&self) -> Result<Scratch> {
        let scratch = Scratch::create(self.path, self.id)?;
        scratch.open_to_others()?;
        Ok(scratch)
    }

    /// Creates one in the system's directory for temporary files, for sockets and logs, which should not be on the
    /// disk. Its name is short, since a socket's path can have at most 107 bytes.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(crate) fn temp_scratch(&self) -> Result<Scratch> {
        self.temp_scratch_for("t")
    }

    /// Creates another temporary directory, for a purpose named by `what`.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(crate) fn temp_scratch_for(&self, what: &str) -> Result<Scratch> {
        let usual = trust::temp_dir();
        let dir = if usual.as_os_str().len() > 50 { PathBuf::from("/tmp") } else { usual };
        let scratch = Scratch::create(&dir, &format!("{}-{what}", self.id))?;
        scratch.open_to_others()?;
        Ok(scratch)
    }
}

/// Creates a directory in memory, removed when dropped; `None` if the machine has no /dev/shm.
pub(crate) fn scratch_in_memory(id: &str) -> Option<Scratch> {
    let scratch = Scratch::create(Path::new("/dev/shm"), &format!("{id}-m")).ok()?;
    scratch.open_to_others().ok().map(|()| scratch)
}

/// Lets everybody pass through a directory, whatever umask it was created with.
pub fn open_to_others(dir: &Path) -> Result<()> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir, mode)
        .with_context(|| format!("cannot make {} accessible to other users", dir.display()))
}

/// Creates a directory that only the server's user can enter.
pub(crate) fn private_dir(path: &Path, user: Option<&User>) -> Result<()> {
    let made = DirBuilder::new().mode(0o700).create(path);
    made.and_then(|()| user.map_or(Ok(()), |user| chown(path, Some(user.uid), Some(user.gid))))
        .with_context(|| format!("cannot create {} for the server", path.display()))
}

/// Refuses a rate at which too few operations are due in the time to draw any conclusion.
///
/// # Errors
/// If fewer than [`DUE_MIN`] operations are due on average.
pub(crate) fn enough(rate: u32, runtime_ns: u64) -> Result<()> {
    let due = f64::from(rate) * runtime_ns as f64 / 1e9;
    if due >= DUE_MIN {
        return Ok(());
    }
    let seconds = (DUE_MIN / f64::from(rate)).ceil();
    let message = format!(
        "--rate {rate} makes only {due:.0} operations in all, too few for a result; use --runtime {seconds:.0}s"
    );
    Err(Problem::usage(message).into())
}

/// Minimum number of operations due in a load at a rate.
const DUE_MIN: f64 = 10.0;

/// The result of a load.
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

/// Returns a load as a step of the plan.
pub(crate) fn step(program: Program, name: String, title: String, clients: u32, ramp_ns: u64, max_ns: u64) -> StepPlan {
    StepPlan {
        name,
        title,
        work: Work::App(AppWork { program, clients, rate: None }),
        background: Vec::new(),
        stop: Stop { min_ns: max_ns, max_ns, ramp_ns, quantile: 0.0, tolerance: 0.0 },
        visits: 1,
        writes_max: Bytes(0),
    }
}

/// Returns a load for each distinct number of clients; `rate` is that of all clients together, each operation timed
/// from when it was due.
pub(crate) fn client_steps(
    program: Program,
    clients: &[u32],
    rate: Option<u32>,
    what: &str,
    ramp_ns: u64,
    max_ns: u64,
) -> Vec<StepPlan> {
    let load = |clients: u32| {
        let name = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
        let (name, when) =
            rate.map_or((name.clone(), ""), |rate| (format!("{name}, {rate}/s"), ", timed from when due"));
        let title = format!("{what}, {name}{when}");
        let work = Work::App(AppWork { program, clients, rate });
        StepPlan { work, ..step(program, name, title, clients, ramp_ns, max_ns) }
    };
    let mut clients = clients.to_vec();
    clients.dedup();
    clients.into_iter().map(load).collect()
}

//! The treatments that an experiment compares: changes to the machine, each of which is made, measured and undone.

use std::path::{Path, PathBuf};

use anyhow::Result;
use qd1_model::record::Prepare;
use qd1_model::record::mounts::MountRecord;
use qd1_runner::RunContext;
use qd1_runner::watch::Watch;
use qd1_system::journal::Journal;

/// One of the treatments that are compared.
pub trait Treatment {
    /// Returns its name in the table, unique in the experiment.
    fn name(&self) -> &str;

    /// Applies it. Each change is recorded in the journal of `site` before it is made, so that the journal undoes it,
    /// however the run ends. `mount` receives the details.
    ///
    /// # Errors
    /// When it cannot be applied; the caller undoes what was done.
    fn apply(&self, site: &mut TreatmentSite<'_>, mount: &mut MountRecord) -> Result<Applied>;
}

/// What a treatment works with.
pub struct TreatmentSite<'a> {
    /// The context of the run.
    pub context: &'a RunContext<'a>,
    /// The treatment's own empty directory.
    pub dir: &'a Path,
    /// The experiment's own directory, removed with it.
    pub scratch: &'a Path,
    /// Records each change and undoes it.
    pub journal: &'a mut Journal,
}

/// A treatment in effect.
pub struct Applied {
    /// The directory to measure in.
    pub dir: PathBuf,
    /// The kernel's name for the device whose requests are counted.
    pub device: String,
}

/// The thing to which all treatments of a round are applied.
pub trait Substrate {
    /// Describes the preparation of each round, for the progress: `writing 2 GiB`.
    fn preparation(&self) -> String;

    /// Prepares it for a round, so that each treatment starts from the same state.
    ///
    /// # Errors
    /// If there is no space, or the disk does not accept writes.
    fn prepare(&self, seed: u64, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<Prepare>;

    /// Removes everything it created.
    fn clear(&self);
}

//! What an experiment compares: changes of the machine, each of which is made, measured and undone.

use std::path::{Path, PathBuf};

use anyhow::Result;
use qd1_model::record::Prepare;
use qd1_model::record::mounts::MountRecord;
use qd1_runner::RunContext;
use qd1_runner::watch::Watch;
use qd1_system::journal::Journal;

/// One of the things that are compared.
pub trait Treatment {
    /// Its name in the table, of its own in the experiment.
    fn name(&self) -> &str;

    /// Makes it. Each change is noted in the journal of `site` before it is made, so that the journal undoes it, however the
    /// run ends. What is known of it goes into `mount`.
    ///
    /// # Errors
    /// When it cannot be made; what was made of it is undone.
    fn apply(&self, site: &mut TreatmentSite<'_>, mount: &mut MountRecord) -> Result<Applied>;
}

/// What a treatment works with.
pub struct TreatmentSite<'a> {
    /// The run.
    pub context: &'a RunContext<'a>,
    /// A directory of the treatment's own, empty.
    pub dir: &'a Path,
    /// A directory of the experiment's own, gone with it.
    pub scratch: &'a Path,
    /// Knows how each change is undone.
    pub journal: &'a mut Journal,
}

/// A treatment that was made.
pub struct Applied {
    /// The directory to measure in.
    pub dir: PathBuf,
    /// The kernel's name of the device whose requests are counted.
    pub device: String,
}

/// What all treatments of a round stand on.
pub trait Substrate {
    /// What is done before each round, for the progress: `writing 2 GiB`.
    fn preparation(&self) -> String;

    /// Makes it ready for a round, so that each treatment finds the same.
    ///
    /// # Errors
    /// When there is no space, or the disk takes no writes.
    fn prepare(&self, seed: u64, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<Prepare>;

    /// Leaves nothing behind.
    fn clear(&self);
}

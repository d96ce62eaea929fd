//! What holds for all jobs of a command line, whatever their sections say.

use crate::Limits;
use crate::types::KbBase;

/// What holds for all jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Sections to run, all where empty. Global sections count in any case.
    pub sections: Vec<String>,
    /// Whether a job that writes or trims is an error.
    pub readonly: bool,
    /// Workers at most.
    pub max_jobs: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { sections: Vec::new(), readonly: false, max_jobs: Limits::MAX_JOBS }
    }
}

/// The meaning of `k` and `m` in values that are not a job's, such as those of flags.
pub(crate) const PLAIN: KbBase = KbBase::Binary;

//! What applies to all jobs on a command line, whatever their sections say.

use crate::Limits;
use crate::types::KbBase;

/// What applies to all jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Sections to run; all if empty. Global sections always apply.
    pub sections: Vec<String>,
    /// Whether a job that writes or trims is an error.
    pub readonly: bool,
    /// Maximum number of workers.
    pub max_jobs: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { sections: Vec::new(), readonly: false, max_jobs: Limits::MAX_JOBS }
    }
}

/// The meaning of `k` and `m` in values outside jobs, such as those of flags.
pub(crate) const PLAIN: KbBase = KbBase::Binary;

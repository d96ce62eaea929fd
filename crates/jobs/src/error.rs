//! Why a job cannot run, or ended early.

use rustix::io::Errno;

/// A fault of one job.
#[derive(Clone, Debug, thiserror::Error)]
#[error("job `{job}`: {text}")]
pub struct JobError {
    /// The job's name.
    pub job: String,
    /// What is wrong and what to do next.
    pub text: String,
    /// The errno to report, as fio's `err=`.
    pub errno: i32,
    /// Whether the target was refused because writing to it could destroy something.
    pub target_is_unsafe: bool,
}

impl JobError {
    /// A fault with an errno of its own.
    pub(crate) fn new(job: &str, errno: Errno, text: impl Into<String>) -> Self {
        Self { job: job.to_owned(), text: text.into(), errno: errno.raw_os_error(), target_is_unsafe: false }
    }

    /// A fault that the engine or the kernel reported.
    pub(crate) fn engine(job: &str, error: &qd1_engine::EngineError) -> Self {
        use qd1_engine::EngineError;
        let errno = match error {
            EngineError::Path { errno, .. } | EngineError::Broken { errno, .. } => *errno,
            EngineError::Unavailable { .. }
            | EngineError::Plan(_)
            | EngineError::Worker(_)
            | EngineError::Threads(_) => Errno::NOSYS,
        };
        Self::new(job, errno, error.to_string())
    }
}

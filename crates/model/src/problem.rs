//! Errors that end a command, with their exit codes.

use std::fmt;

/// Why a command failed. The number is the exit code that README.md documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The run failed.
    Failed = 1,
    /// The command line, a file or a path is invalid.
    Usage = 2,
    /// A threshold failed, and `--fail-on` makes that a failure.
    Threshold = 3,
    /// The target is not safe to use.
    Unsafe = 4,
    /// The machine, or this user, cannot do it.
    Capability = 5,
}

impl ProblemKind {
    /// Returns the exit code of the process.
    pub const fn exit_code(self) -> u8 {
        self as u8
    }
}

/// An error with an exit code. Its message says what to do next.
#[derive(Debug)]
pub struct Problem {
    kind: ProblemKind,
    message: String,
}

impl Problem {
    /// Returns an error of `kind`.
    pub fn new(kind: ProblemKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Returns a usage error.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ProblemKind::Usage, message)
    }

    /// Returns the kind, which determines the exit code.
    pub const fn kind(&self) -> ProblemKind {
        self.kind
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

//! What ends a command, and with which exit code: the table of design section 6, in one place.

use std::fmt;

use qd1_engine::EngineError;

/// Why a command did not do what was asked. The number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The run failed.
    Failed = 1,
    /// The command line, a file or a path makes no sense.
    Usage = 2,
    /// A threshold failed, and `--fail-on` asks to say so.
    Threshold = 3,
    /// The target is not safe to use.
    Unsafe = 4,
    /// The machine, or this user, cannot do it.
    Capability = 5,
}

/// An error that knows its exit code. Its message says what to do next.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: Kind,
    message: String,
}

impl Problem {
    /// An error of `kind`.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// A usage error.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// The exit code for an error that reached `main`.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(problem) = error.downcast_ref::<Problem>() {
        return problem.kind as u8;
    }
    let kind = match error.downcast_ref::<EngineError>() {
        Some(EngineError::Path { errno, .. }) => {
            use std::io::ErrorKind;
            match std::io::Error::from(*errno).kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => Kind::Usage,
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Kind::Capability,
                ErrorKind::ResourceBusy => Kind::Unsafe,
                _ => Kind::Failed,
            }
        }
        Some(EngineError::Unavailable { .. }) => Kind::Capability,
        _ => Kind::Failed,
    };
    kind as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn each_kind_of_error_has_its_documented_code() {
        let path = |errno| anyhow::Error::from(EngineError::path("open", "/x", errno));
        assert_eq!(exit_code(&path(Errno::NOENT)), 2);
        assert_eq!(exit_code(&path(Errno::ACCESS)), 5);
        assert_eq!(exit_code(&path(Errno::ROFS)), 5);
        assert_eq!(exit_code(&path(Errno::BUSY)), 4);
        assert_eq!(exit_code(&path(Errno::IO)), 1);
        assert_eq!(exit_code(&Problem::usage("x").into()), 2);
        assert_eq!(exit_code(&anyhow::anyhow!("anything")), 1);
    }
}

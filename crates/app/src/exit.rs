//! The exit code of an error that reached `main`; README.md lists the codes.

use qd1_engine::EngineError;
use qd1_model::{Problem, ProblemKind};

/// Returns the exit code for an error that reached `main`.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(problem) = error.downcast_ref::<Problem>() {
        return problem.kind().exit_code();
    }
    let kind = match error.downcast_ref::<EngineError>() {
        Some(EngineError::Path { errno, .. }) => {
            use std::io::ErrorKind;
            match std::io::Error::from(*errno).kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => ProblemKind::Usage,
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => ProblemKind::Capability,
                ErrorKind::ResourceBusy => ProblemKind::Unsafe,
                _ => ProblemKind::Failed,
            }
        }
        Some(EngineError::Unavailable { .. } | EngineError::Threads(_)) => ProblemKind::Capability,
        _ => ProblemKind::Failed,
    };
    kind.exit_code()
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
        assert_eq!(exit_code(&EngineError::Threads("x".to_owned()).into()), 5);
        assert_eq!(exit_code(&Problem::usage("x").into()), 2);
        assert_eq!(exit_code(&anyhow::anyhow!("anything")), 1);
    }
}

//! Messages for a history that cannot be used, with what to do about it.

use std::path::Path;

use qd1_model::{Problem, ProblemKind};
use rusqlite::ErrorCode;

use crate::{BUSY, file, spare};

/// What the history is opened for, which decides the advice if that is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Keep,
    Rounds,
    Read,
    Remove,
}

impl Access {
    pub(crate) const fn elsewhere(self) -> &'static str {
        match self {
            Self::Keep => "set QD1_STORE to a file you can write, or use --no-save to run without a history",
            Self::Rounds => {
                "for a new check over hours, set QD1_STORE to a file you can write; to resume one, to the history it began in"
            }
            Self::Read => "set QD1_STORE to a history that you can read",
            Self::Remove => "set QD1_STORE to a copy of it that you can write",
        }
    }
}

/// Adds the file's name to an error and, if known, what to do about it.
pub(crate) fn with_advice(error: anyhow::Error, path: &Path, access: Access) -> anyhow::Error {
    let sqlite = error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
    let elsewhere = access.elsewhere();
    let capability = Some(ProblemKind::Capability);
    let verb = if access == Access::Read { "read" } else { "written" };
    let (what, kind) = match sqlite {
        _ if error.is::<file::Foreign>() => (format!("is not a qd1 history; {elsewhere}"), Some(ProblemKind::Usage)),
        Some(ErrorCode::DatabaseCorrupt) => {
            let salvage =
                "`qd1 history export -o FILE` saves what can still be read, and `sqlite3 FILE .recover` perhaps more";
            (format!("is damaged; {salvage}. Move it away to begin a new one, or {elsewhere}"), None)
        }
        _ if error.downcast_ref().is_some_and(|error| spare::is_full(error, path)) => {
            let what = match access {
                Access::Read => "cannot be used because the disk is full",
                Access::Remove => "cannot be used because the disk is full: free a megabyte there",
                Access::Keep | Access::Rounds => {
                    "cannot grow because the disk is full: `qd1 history prune --keep 20` removes old runs"
                }
            };
            // SQLite's own message would add nothing.
            let message = format!("the history {} {what}; {elsewhere}", path.display());
            return Problem::new(ProblemKind::Capability, message).into();
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            (format!("cannot be {verb}; {elsewhere}"), capability)
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            let wait = BUSY.as_secs();
            (format!("has been locked by another program for more than {wait} s; try again, or {elsewhere}"), None)
        }
        _ if error.is::<std::io::Error>() => (format!("cannot be {verb}; {elsewhere}"), capability),
        _ => (format!("cannot be used; {elsewhere}"), None),
    };
    let message = format!("the history {} {what}", path.display());
    match kind {
        Some(kind) => error.context(Problem::new(kind, message)),
        None => error.context(message),
    }
}

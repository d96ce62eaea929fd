//! What is wrong, where, and what to write instead.

use std::fmt;
use std::sync::Arc;

use crate::Limits;

/// Where something was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a job file; line and column start at one, and the column is in characters.
    File {
        /// The name as given, `-` for standard input.
        file: Arc<str>,
        /// Line.
        line: u32,
        /// Column.
        column: u32,
    },
    /// On the command line; position and column start at one, and the program's name is not counted.
    Argument {
        /// Which argument.
        position: u32,
        /// Position within the argument, in characters.
        column: u32,
    },
    /// The input as a whole.
    Whole,
}

impl Place {
    /// The same place, this many characters further right.
    #[must_use]
    pub fn right(&self, by: usize) -> Self {
        let mut moved = self.clone();
        if let Self::File { column, .. } | Self::Argument { column, .. } = &mut moved {
            *column = column.saturating_add(u32::try_from(by).unwrap_or(u32::MAX));
        }
        moved
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line, column } if &**file == "-" => write!(f, "standard input:{line}:{column}"),
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Argument { position, column } => write!(f, "argument {position}:{column}"),
            Self::Whole => f.write_str("job"),
        }
    }
}

/// One thing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Where.
    pub place: Place,
    /// The offending text as written, short enough to print.
    pub text: String,
    /// What.
    pub kind: ErrorKind,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// No fio option has this name.
    #[error("unknown option `{name}`{}", did_you_mean(.nearest.as_deref()))]
    UnknownOption {
        /// As written.
        name: String,
        /// The most similar known name.
        nearest: Option<String>,
    },
    /// An option that fio has and qd1 does not.
    #[error("`{name}` is a fio option that qd1 does not have: {why}")]
    RefusedOption {
        /// fio's name for it.
        name: String,
        /// Why.
        why: String,
    },
    /// fio has this command-line flag and qd1 does not.
    #[error("`--{name}` is a fio flag that qd1 does not have: {why}")]
    RefusedFlag {
        /// fio's name for it.
        name: String,
        /// Why.
        why: String,
    },
    /// fio has this value of an option and qd1 does not.
    #[error("`{option}={value}` is valid in fio, but qd1 does not support it: {why}")]
    RefusedValue {
        /// The option.
        option: String,
        /// The value.
        value: String,
        /// Why.
        why: String,
    },
    /// The start of several names.
    #[error("`--{name}` is ambiguous; it could be any of: {}", .candidates.join(", "))]
    Ambiguous {
        /// As written.
        name: String,
        /// What it could be.
        candidates: Vec<String>,
    },
    /// A value that the option does not take.
    #[error("invalid value {} for `{option}`: {problem}; expected {accepts}", quoted(.value))]
    Value {
        /// The option.
        option: String,
        /// The value, with variables expanded.
        value: String,
        /// What is wrong with it.
        problem: String,
        /// What would be right.
        accepts: String,
    },
    /// An option without its value.
    #[error("`{option}` needs a value: it takes {accepts}")]
    NeedsValue {
        /// The option.
        option: String,
        /// What it takes.
        accepts: String,
    },
    /// An option of an engine that the job does not use.
    #[error("`{option}` belongs to ioengine={}, but this job uses {used}", .engines.join(" or "))]
    OtherEngine {
        /// The option.
        option: String,
        /// The engines that have it.
        engines: Vec<String>,
        /// The job's engine.
        used: String,
    },
    /// Options that contradict each other, or a job that cannot run.
    #[error("{0}")]
    Conflict(String),
    /// A line that is not a section, an option or a comment.
    #[error("{0}")]
    Syntax(String),
    /// A job file that cannot be read.
    #[error("cannot read {file}: {why}")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        why: String,
    },
    /// More than is allowed.
    #[error("too many {what}: at most {limit} are allowed")]
    Limit {
        /// What there are too many of.
        what: String,
        /// How much is allowed.
        limit: usize,
    },
    /// Nothing to run.
    #[error("no job to run: give a job file, or start a job with --name=NAME")]
    NoJobs,
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(": did you mean `{name}`?")).unwrap_or_default()
}

/// A value in quotes, truncated if it is too long to read.
fn quoted(value: &str) -> String {
    format!("`{}`", shortened(value))
}

/// At most eighty characters of a text, with control characters made visible.
pub(crate) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() {
        short.push_str("...");
    }
    short
}

impl Error {
    pub(crate) fn new(place: Place, text: &str, kind: ErrorKind) -> Self {
        Self { place, text: shortened(text), kind }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.kind)
    }
}

/// Everything that is wrong, in the order it was found, never empty.
///
/// They are reported together, since someone who moves a job file from fio wants to see everything that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(pub Vec<Error>);

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

impl From<Error> for Errors {
    fn from(error: Error) -> Self {
        Self(vec![error])
    }
}

/// Something that took effect differently from what its author may expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where.
    pub place: Place,
    /// What, in a sentence.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// Errors and notes collected so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) errors: Vec<Error>,
    pub(crate) notes: Vec<Note>,
}

impl Findings {
    pub(crate) fn error(&mut self, error: Error) {
        if self.errors.len() < Limits::ERRORS {
            self.errors.push(error);
        }
    }

    pub(crate) fn note(&mut self, place: &Place, text: impl Into<String>) {
        let note = Note { place: place.clone(), text: text.into() };
        // A global option would repeat the same note for each job.
        if self.notes.len() < Limits::ERRORS && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Whether there are so many errors that continuing is pointless.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() >= Limits::ERRORS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_place_option_and_nearest_name() {
        let place = Place::File { file: "a.fio".into(), line: 3, column: 5 };
        let kind = ErrorKind::UnknownOption { name: "iodeph".into(), nearest: Some("iodepth".into()) };
        let error = Error::new(place, "iodeph", kind);
        assert_eq!(error.to_string(), "a.fio:3:5: unknown option `iodeph`: did you mean `iodepth`?");
    }

    #[test]
    fn any_value_prints_short_and_without_control_characters() {
        let kind = ErrorKind::Value {
            option: "bs".into(),
            value: format!("\u{1b}[2J{}", "x".repeat(9000)),
            problem: "it is not a number".into(),
            accepts: "a size".into(),
        };
        let text = Error::new(Place::Whole, "", kind).to_string();
        assert!(text.len() < 300 && !text.contains('\u{1b}'), "{text}");
    }
}

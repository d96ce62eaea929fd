//! The thresholds of a run, and the analysis that applies them: with names, or without them for a report to be shared.

use std::path::Path;

use anyhow::{Context as _, Result};
use qd1_model::{Record, Report, Subject, Thresholds};
use qd1_report::{redact, redact_thresholds};

use crate::given;

/// The thresholds of a run.
pub(crate) struct Bounds {
    thresholds: Thresholds,
    /// Whether they are the user's own, whose texts may contain names.
    are_own: bool,
}

impl Bounds {
    /// Returns the user's thresholds, or the built-in ones for this kind of run.
    ///
    /// # Errors
    /// When the user's thresholds cannot be read or are invalid.
    pub(crate) fn of_run(subject: Subject, own: Option<&Path>) -> Result<Self> {
        Ok(Self { thresholds: given::thresholds(subject, own)?, are_own: own.is_some() })
    }

    /// The thresholds themselves.
    pub(crate) const fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// Analyses a run.
    ///
    /// # Errors
    /// When it cannot be redacted: then it must not be shown.
    pub(crate) fn judge(&self, record: Record, is_redacted: bool) -> Result<Report> {
        if !is_redacted {
            return Ok(qd1_analysis::analyse(record, &self.thresholds));
        }
        // Redacted before it is analysed: no sentence can then quote what was removed.
        let shared = redact(&record).context("this run cannot be redacted, so it is not shown")?;
        let own = self.are_own.then(|| redact_thresholds(&self.thresholds, &record));
        Ok(qd1_analysis::analyse(shared, own.as_ref().unwrap_or(&self.thresholds)))
    }
}

#[cfg(test)]
mod tests;

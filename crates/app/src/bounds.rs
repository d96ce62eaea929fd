//! What a run is judged by, and the judgement: with names or, where it is to be shared, without.

use std::path::Path;

use anyhow::{Context as _, Result};
use qd1_model::{Record, Report, Subject, Thresholds};
use qd1_report::{redact, redact_thresholds};

use crate::given;

/// The thresholds of a run.
pub(crate) struct Bounds {
    thresholds: Thresholds,
    /// Whether they are the user's own, whose words name something.
    are_own: bool,
}

impl Bounds {
    /// Returns the user's own, or the built-in ones of such a run.
    ///
    /// # Errors
    /// When the user's own cannot be read or are wrong.
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
        let shared = redact(&record).context("this run cannot be redacted, and is not shown")?;
        let own = self.are_own.then(|| redact_thresholds(&self.thresholds, &record));
        Ok(qd1_analysis::analyse(shared, own.as_ref().unwrap_or(&self.thresholds)))
    }
}

#[cfg(test)]
mod tests;

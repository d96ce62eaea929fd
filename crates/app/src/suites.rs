//! The built-in suites: one TOML file each, whose top comment is its documentation.

use anyhow::{Context as _, Result};
use qd1_model::spec::Suite;

/// The suite behind `qd1 check`.
pub(crate) const CHECK: &str = include_str!("suites/check.toml");

/// Reads a suite.
///
/// # Errors
/// With line and column, when it is not one.
pub(crate) fn parse(text: &str) -> Result<Suite> {
    toml::from_str(text).context("not a suite")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_suite_is_well_formed_and_its_names_are_unique() {
        let suite = parse(CHECK).unwrap();
        let names: std::collections::HashSet<&str> = suite.job.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names.len(), suite.job.len());
        assert!(suite.job.iter().all(|job| job.rw.is_some() != job.files.is_some()));
    }

    #[test]
    fn an_unknown_field_is_an_error_that_names_it() {
        let error = format!("{:#}", parse("name = \"x\"\nbogus = 1\n").unwrap_err());
        assert!(error.contains("bogus"), "{error}");
    }
}

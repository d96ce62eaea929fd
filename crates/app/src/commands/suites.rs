//! `qd1 suites`: prints the list of the built-in suites, or the TOML of one.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use qd1_model::spec::{Effort, Suite};

use crate::args::DestinationArgs;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct SuitesArgs {
    /// Print the TOML of this suite
    pub(crate) name: Option<String>,
}

/// Prints the list, or the suite named.
///
/// # Errors
/// When there is no such suite, or stdout cannot be written.
pub(crate) fn run(args: &SuitesArgs) -> Result<ExitCode> {
    let to_stdout = DestinationArgs::stdout();
    let text = match &args.name {
        Some(name) => qd1_suites::text(name).ok_or_else(|| qd1_suites::unknown(name))?.to_owned(),
        None => {
            let suites: Vec<Suite> = qd1_suites::names().filter_map(qd1_suites::builtin).collect();
            let efforts = [Effort::Default, Effort::Quick, Effort::Full];
            let rows = suites.iter().map(|suite| (suite, efforts.map(|effort| qd1_suites::longest_ns(suite, effort))));
            qd1_report::suites(&rows.collect::<Vec<_>>(), &output::style(&to_stdout, qd1_report::Detail::All))
        }
    };
    output::write(&to_stdout, &text)?;
    Ok(ExitCode::SUCCESS)
}

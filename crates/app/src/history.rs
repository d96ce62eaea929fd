//! `qd1 history`: what was run here, and any of it again with today's analysis.

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::{HistoryArgs, HistoryCommand, OutputArgs, When};
use crate::report::{self, Format};
use crate::store::{Store, default_path};
use crate::{output, thresholds};

pub(crate) fn run(args: &HistoryArgs) -> Result<ExitCode> {
    let store = Store::open(&default_path(|name| std::env::var_os(name))?)?;
    match &args.command {
        None => list(&store, args)?,
        Some(HistoryCommand::Show { id, thresholds, output }) => {
            let thresholds = match thresholds {
                Some(path) => thresholds::load(path)?,
                None => thresholds::builtin(),
            };
            output::report(output, &mut qd1_analysis::analyse(store.load(id)?, &thresholds))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(store: &Store, args: &HistoryArgs) -> Result<()> {
    let rows = store.list(args.limit)?;
    let to_stdout =
        OutputArgs { format: Format::Human, json: args.json, output: None, redact: false, color: When::Auto };
    let text = if args.json {
        report::history_json(&rows)?
    } else {
        report::history_human(&rows, &output::style(&to_stdout), &jiff::tz::TimeZone::system())
    };
    output::write(&to_stdout, &text)
}

/// `qd1 schema`.
pub(crate) fn schema() -> Result<ExitCode> {
    let to_stdout = OutputArgs { format: Format::Human, json: false, output: None, redact: false, color: When::Auto };
    output::write(&to_stdout, &report::schema())?;
    Ok(ExitCode::SUCCESS)
}

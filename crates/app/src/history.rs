//! `qd1 history`: what was run here, and any of it again with today's analysis.

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::{HistoryArgs, HistoryCommand, OutputArgs};
use crate::report;
use crate::store::{Store, default_path};
use crate::{output, thresholds};

pub(crate) fn run(args: &HistoryArgs) -> Result<ExitCode> {
    let store = Store::open(&default_path(|name| std::env::var_os(name))?)?;
    match &args.command {
        None => list(&store, args)?,
        Some(HistoryCommand::Show { id, thresholds, output }) => {
            let record = store.load(id)?;
            let thresholds = thresholds::for_suite(&record.plan.suite, thresholds.as_deref())?;
            output::report(output, &mut qd1_analysis::analyse(record, &thresholds))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(store: &Store, args: &HistoryArgs) -> Result<()> {
    let rows = store.list(args.limit)?;
    let to_stdout = OutputArgs::stdout();
    let text = if args.json {
        report::history_json(&rows)?
    } else {
        report::history_human(&rows, &output::style(&to_stdout), &jiff::tz::TimeZone::system())
    };
    output::write(&to_stdout, &text)
}

/// `qd1 schema`.
pub(crate) fn schema() -> Result<ExitCode> {
    output::write(&OutputArgs::stdout(), &report::schema())?;
    Ok(ExitCode::SUCCESS)
}

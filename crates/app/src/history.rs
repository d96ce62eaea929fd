//! `qd1 history`: what was run here, and any of it again with today's analysis.

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::{HistoryArgs, HistoryCommand, OutputArgs};
use crate::report::{self, Format};
use crate::store::{Store, default_path};
use crate::{limits, output, thresholds};

pub(crate) fn run(args: &HistoryArgs) -> Result<ExitCode> {
    let store = Store::open(&default_path(|name| std::env::var_os(name))?)?;
    match &args.command {
        None => list(&store, args)?,
        Some(HistoryCommand::Show { id, thresholds, output }) => {
            let record = store.load(id)?;
            let thresholds = thresholds::of_run(record.plan.subject, thresholds.as_deref())?;
            let mut report = qd1_analysis::analyse(record, &thresholds);
            // A run of `qd1 limits` is shown as that showed it, in the formats it has.
            match output.format() {
                Format::Human | Format::Json if limits::is_of(&report.record) => limits::print(output, &mut report)?,
                _ => output::report(output, &mut report)?,
            }
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

//! `qd1 history`: lists the saved runs, and shows any of them again with the current analysis.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use qd1_report::Detail;
use qd1_store::Store;
use qd1_suites::thresholds;

use crate::args::{DestinationArgs, OutputArgs};
use crate::{output, session};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct HistoryArgs {
    #[command(subcommand)]
    pub(crate) command: Option<HistoryCommand>,
    /// How many runs to list, the newest first
    #[arg(long, default_value = "20")]
    pub(crate) limit: std::num::NonZeroUsize,
    /// List as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// Print a saved run again, with the current analysis of what it measured
    Show {
        /// Its id, or the beginning of it
        id: String,
        /// Your own thresholds instead of the built-in ones
        #[arg(long, value_name = "FILE")]
        thresholds: Option<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Lists the runs, or shows one.
///
/// # Errors
/// When the history cannot be read, or has no such run.
pub(crate) fn run(args: &HistoryArgs) -> Result<ExitCode> {
    let store = session::kept_runs()?;
    match &args.command {
        None => list(&store, args)?,
        Some(HistoryCommand::Show { id, thresholds, output }) => {
            output.to.output.iter().try_for_each(|path| output::check_destination(path))?;
            let record = store.load(id)?;
            let thresholds = thresholds::of_run(record.plan.subject, thresholds.as_deref())?;
            session::show(record, &thresholds, output, Detail::All)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(store: &Store, args: &HistoryArgs) -> Result<()> {
    let mut rows = store.list(args.limit.get())?;
    for row in rows.iter_mut().filter(|row| row.headline.is_none()).take(JUDGED_MAX) {
        row.headline = judged(store, &row.id);
    }
    let to_stdout = DestinationArgs::stdout();
    let text = if args.json {
        qd1_report::history_json(&rows)
    } else {
        qd1_report::history_human(&rows, &output::style(&to_stdout, Detail::All), &jiff::tz::TimeZone::system())
    };
    output::write(&to_stdout, &text)
}

/// Runs that are judged for the list: those that an earlier qd1 kept, which noted no headline.
const JUDGED_MAX: usize = 20;

/// Returns what a run found; `None` where it cannot be read.
fn judged(store: &Store, id: &str) -> Option<String> {
    let record = store.load(id).ok()?;
    let thresholds = thresholds::of_run(record.plan.subject, None).ok()?;
    Some(qd1_report::headline(&qd1_analysis::analyse(record, &thresholds)))
}

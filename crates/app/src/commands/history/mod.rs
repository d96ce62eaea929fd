//! `qd1 history`: lists the saved runs, shows any of them again with the current analysis, and manages them.

pub(crate) mod filter;
mod transfer;
pub(crate) mod trend;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use qd1_model::history::{Filter, NOTE_MAX, Row, is_tag};
use qd1_model::{Problem, printable};
use qd1_report::Detail;
use qd1_store::Store;

use crate::args::{DestinationArgs, OutputArgs};
use crate::bounds::Bounds;
use crate::{output, session};
use filter::FilterArgs;

/// Text at the end of the help.
pub(crate) const EXAMPLE: &str = "\
Examples:
  qd1 history --path /srv --since 30d
  qd1 history --trend commit1.p99
  qd1 history tag 3f2a before-upgrade
  qd1 history prune --keep 100 --dry-run

A tag can be used wherever a run is expected: qd1 compare @before-upgrade @latest.

Exit codes: 0 done; 1 the history is damaged; 2 usage error; 5 it cannot be read or written.";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct HistoryArgs {
    #[command(subcommand)]
    pub(crate) command: Option<HistoryCommand>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// How many runs to list, the newest first
    #[arg(long, default_value = "20")]
    pub(crate) limit: std::num::NonZeroUsize,
    /// Show one figure across the runs of a place, such as commit1.p99 or read32.iops: how it developed, when its level
    /// changed, and what else changed at that time
    #[arg(long, value_name = "FIGURE", conflicts_with = "limit")]
    pub(crate) trend: Option<String>,
    /// List as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// Print a saved run again, with the current analysis
    Show {
        /// Its id, or the beginning of it; @latest, @previous, @yesterday, @TAG
        #[arg(default_value = "@latest")]
        id: String,
        /// Your own thresholds instead of the built-in ones
        #[arg(long, value_name = "FILE")]
        thresholds: Option<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Give a run tags, to find, compare and keep it
    Tag {
        /// Its id, or the beginning of it; @latest, @previous, @yesterday, @TAG
        id: String,
        /// The tags: words of letters, digits, - _ and .
        #[arg(required = true)]
        tags: Vec<String>,
        /// Remove these tags instead
        #[arg(long)]
        remove: bool,
    },
    /// Add a note to a run
    Note {
        /// Its id, or the beginning of it; @latest, @previous, @yesterday, @TAG
        id: String,
        /// The note; an empty text removes it
        text: String,
    },
    /// Remove old runs, except those with a tag or a note, and unfinished checks over hours
    Prune {
        /// How many of the matching runs to keep: the newest ones
        #[arg(long)]
        keep: usize,
        #[command(flatten)]
        filter: FilterArgs,
        /// Only show what would be removed
        #[arg(long)]
        dry_run: bool,
    },
    /// Write runs with their tags and notes to a file, for another machine or as a backup
    Export(transfer::ExportArgs),
    /// Add the runs in exported files or --json files; runs that are already there stay as they are
    Import {
        /// Files to import
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// Lists the runs, or does with them what the subcommand says.
///
/// # Errors
/// When the history cannot be read or written, or has no such run.
pub(crate) fn run(args: &HistoryArgs) -> Result<ExitCode> {
    match &args.command {
        None => match &args.trend {
            Some(figure) => trend::run(figure, &args.filter, args.json)?,
            None => list(&with_hosts(&args.filter)?, args)?,
        },
        Some(HistoryCommand::Show { id, thresholds, output }) => {
            output.to.output.iter().try_for_each(|path| output::check_destination(path))?;
            let store = qd1_runs::history::read()?;
            let record = store.load(&qd1_runs::find::id(&store, id)?)?;
            let bounds = Bounds::of_run(record.plan.subject, thresholds.as_deref())?;
            session::show(record, &bounds, output, Detail::All)?;
        }
        Some(HistoryCommand::Tag { id, tags, remove }) => {
            if let Some(wrong) = tags.iter().find(|tag| !is_tag(tag)) {
                let message = format!(
                    "{}: a tag is a word of at most {} letters, digits, - _ and ., and begins with a letter",
                    printable(wrong),
                    qd1_model::history::TAG_MAX
                );
                return Err(Problem::usage(message).into());
            }
            let store = qd1_runs::history::open()?;
            for id in qd1_runs::find::ids(&store, id)? {
                store.tag(&id, tags, !remove)?;
            }
        }
        Some(HistoryCommand::Note { id, text }) => {
            if text.chars().count() > NOTE_MAX {
                return Err(Problem::usage(format!("a note can have at most {NOTE_MAX} characters")).into());
            }
            let store = qd1_runs::history::open()?;
            store.note(&qd1_runs::find::id(&store, id)?, text.trim())?;
        }
        Some(HistoryCommand::Prune { keep, filter, dry_run }) => prune(*keep, filter, *dry_run)?,
        Some(HistoryCommand::Export(args)) => transfer::export(args)?,
        Some(HistoryCommand::Import { files }) => transfer::import(files)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the history for reading; if a machine is asked for, first learns the machine of every run.
fn with_hosts(filter: &FilterArgs) -> Result<Store> {
    if filter.host.is_some()
        && let Ok(store) = qd1_runs::history::open()
    {
        store.learn_hosts()?;
    }
    qd1_runs::history::read()
}

fn list(store: &Store, args: &HistoryArgs) -> Result<()> {
    let filter = args.filter.filter()?;
    let mut rows = store.find(&filter, args.limit.get())?;
    let to_stdout = DestinationArgs::stdout();
    if rows.is_empty() && filter != Filter::default() && !args.json && !store.list(1)?.is_empty() {
        return output::write(&to_stdout, "no run matches these filters; `qd1 history` lists all\n");
    }
    let mut found: Vec<(String, String)> = Vec::new();
    for row in rows.iter_mut().filter(|row| row.headline.is_none()).take(JUDGED_MAX) {
        row.headline = judged(store, &row.id);
        // The headline of an unfinished run may still change.
        let headline = row.headline.clone().filter(|_| !row.unfinished);
        found.extend(headline.map(|headline| (row.id.clone(), headline)));
    }
    let text = if args.json {
        qd1_report::history_json(&rows)
    } else {
        qd1_report::history_human(&rows, &output::style(&to_stdout, Detail::All), &jiff::tz::TimeZone::system())
    };
    output::write(&to_stdout, &text)?;
    note_headlines(&found);
    Ok(())
}

/// Saves headlines by the ids of their runs, after the list is printed: this waits while another process writes. If
/// nothing can be written, the runs are judged each time.
fn note_headlines(found: &[(String, String)]) {
    if found.is_empty() {
        return;
    }
    if let Ok(store) = qd1_runs::history::open() {
        let _ = found.iter().try_for_each(|(id, headline)| store.note_headline(id, headline));
    }
}

/// Most runs that are judged for a list: those without a saved headline, imported or saved by an earlier qd1.
const JUDGED_MAX: usize = 20;

/// Returns the headline of a run; `None` if it cannot be read.
fn judged(store: &Store, id: &str) -> Option<String> {
    let record = store.load(id).ok()?;
    let report = Bounds::of_run(record.plan.subject, None).ok()?.judge(record, false).ok()?;
    Some(qd1_report::headline(&report))
}

fn prune(keep: usize, conditions: &FilterArgs, is_dry_run: bool) -> Result<()> {
    let filter = conditions.filter()?;
    let path = qd1_runs::history::path()?;
    let store = if is_dry_run || !path.exists() { with_hosts(conditions)? } else { Store::open_to_remove(&path)? };
    if !is_dry_run && conditions.host.is_some() && path.exists() {
        store.learn_hosts()?;
    }
    let rows = store.find(&filter, usize::MAX)?;
    let is_spared = |row: &Row| !row.tags.is_empty() || row.note.is_some() || row.unfinished;
    let (spared, old): (Vec<Row>, Vec<Row>) = rows.into_iter().skip(keep).partition(is_spared);
    let ids: Vec<String> = old.into_iter().map(|row| row.id).collect();
    let kept_size = match is_dry_run || ids.is_empty() || store.remove(&ids)? {
        true => "",
        false => "; there is not enough space to shrink the history, but later runs will use the freed space",
    };
    let verb = if is_dry_run { "would be removed" } else { "removed" };
    let spared = match spared.len() {
        0 => String::new(),
        count => format!("; kept {count} of the older runs: with tags or notes, or resumable"),
    };
    let text = format!("{} {verb}{spared}{kept_size}\n", counted(ids.len()));
    output::write(&DestinationArgs::stdout(), &text)
}

/// `1 run`, `12 runs`.
fn counted(count: usize) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}

//! Runs from one history to another: a file with a line of JSON for each, compressed if its name ends with `.gz` or
//! `.zst`.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use qd1_model::history::{NOTE_MAX, Row, is_tag};
use qd1_model::{Problem, Record, printable};
use qd1_report::redact;
use qd1_store::{Salvaged, Store};
use qd1_system::source::Kind;

use super::filter::FilterArgs;
use super::{counted, with_hosts};
use crate::args::DestinationArgs;
use crate::{message, output};
use qd1_runs::exports::{self, Content, Exported, Line};
use qd1_runs::stored::{Packing, Stored};

/// A file of `history export`.
const HISTORY: Kind = Kind { name: "a history", most: 4 << 30 };
/// Digits of a run's id.
const ID_DIGITS: usize = 12;
/// The years 2000 to 2200, ns since the Unix epoch, and a year, ns.
const STARTS_NS: Range<u64> = 946_684_800_000_000_000..7_258_118_400_000_000_000;
const ELAPSED_NS_MAX: u64 = 366 * 86_400_000_000_000;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Ids of the runs, the beginnings of ids, or @TAG [default: all runs that match the filters]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Write to this file, compressed if its name ends with .gz or .zst [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Leave out names, addresses, models, paths, tags and notes, to share the runs
    #[arg(long)]
    pub(crate) redact: bool,
}

/// Writes runs to a file. A run that cannot be read is reported, and left out.
///
/// # Errors
/// When the history cannot be read, has no such run, or the file cannot be written.
pub(super) fn export(args: &ExportArgs) -> Result<()> {
    args.output.iter().try_for_each(|path| output::check_destination(path))?;
    let store = with_hosts(&args.filter)?;
    let is_all = args.ids.is_empty() && args.filter == FilterArgs::default();
    let mut rows = match store.find(&args.filter.filter()?, usize::MAX) {
        Ok(rows) => rows,
        // Whoever asks for certain runs must not get others.
        Err(error) if !is_all => return Err(error),
        Err(error) => {
            message::print(format_args!("qd1: {error:#}"));
            Vec::new()
        }
    };
    // The oldest first, as they came.
    rows.reverse();
    if !args.ids.is_empty() {
        let mut wanted = Vec::new();
        for word in &args.ids {
            for id in qd1_runs::find::ids(&store, word)? {
                wanted.push(store.load(&id)?.id);
            }
        }
        rows.retain(|row| wanted.contains(&row.id));
    }
    let mut export = Export { text: Vec::new(), written: BTreeSet::new(), is_redacted: args.redact };
    let mut failed: Vec<(String, anyhow::Error)> = Vec::new();
    for row in &rows {
        let written = store.load(&row.id).and_then(|record| export.add(record, &row.tags, row.note.as_deref()));
        failed.extend(written.err().map(|error| (row.id.clone(), error)));
    }
    let mut lost = 0;
    if is_all && (!failed.is_empty() || store.count().ok() != Some(rows.len())) {
        lost = export.salvage(&store, &rows);
        failed.retain(|(id, _)| !export.written.contains(id));
    }
    for (_, error) in &failed {
        message::print(format_args!("qd1: not exported: {error:#}"));
    }
    lost = lost.max(failed.len());
    let written = export.written.len();
    if written == 0 && lost == 0 {
        return Err(Problem::usage("there is no run to export; `qd1 history` lists the runs").into());
    }
    if written == 0 {
        anyhow::bail!("none of the runs can be read, so nothing was written");
    }
    let to = DestinationArgs { output: args.output.clone(), ..DestinationArgs::stdout() };
    match args.output.as_deref().and_then(Packing::of) {
        Some(packing) => output::write_bytes(&to, &packing.packed(&export.text)?)?,
        None => output::write(&to, str::from_utf8(&export.text)?)?,
    }
    if args.output.is_some() {
        message::print(format_args!("qd1: exported {}", counted(written)));
    }
    if lost > 0 {
        anyhow::bail!(
            "{} could not be read and {} not in the file",
            counted(lost),
            if lost == 1 { "is" } else { "are" }
        );
    }
    Ok(())
}

/// The lines of an export so far.
struct Export {
    text: Vec<u8>,
    /// Ids of their runs.
    written: BTreeSet<String>,
    is_redacted: bool,
}

impl Export {
    fn add(&mut self, record: Record, tags: &[String], note: Option<&str>) -> Result<()> {
        let id = record.id.clone();
        let record = if self.is_redacted { redact(&record).context("this run cannot be redacted")? } else { record };
        let (tags, note) = if self.is_redacted { (&[][..], None) } else { (tags, note) };
        serde_json::to_writer(&mut self.text, &Line { tags, note, record: &record })?;
        self.text.push(b'\n');
        self.written.insert(id);
        Ok(())
    }

    /// Adds the runs that neither the list nor the index of a damaged history leads to; returns how many are lost.
    fn salvage(&mut self, store: &Store, rows: &[Row]) -> usize {
        let Salvaged { records, mut lost, is_counted } = store.salvage();
        let missing: Vec<Record> = records.into_iter().filter(|record| !self.written.contains(&record.id)).collect();
        let more = if is_counted { "" } else { "; more may be lost" };
        message::print(format_args!(
            "qd1: the history is damaged; searched for each run separately: {} more found{more}",
            counted(missing.len())
        ));
        for record in missing {
            let row = rows.iter().find(|row| row.id == record.id);
            let (tags, note) = row.map_or((&[][..], None), |row| (&row.tags[..], row.note.as_deref()));
            if let Err(error) = self.add(record, tags, note) {
                message::print(format_args!("qd1: not exported: {error:#}"));
                lost += 1;
            }
        }
        lost
    }
}

/// Adds the runs of files to the history.
///
/// # Errors
/// When a file cannot be read or holds no run, or the history cannot be written. What was added before stays.
pub(super) fn import(files: &[PathBuf]) -> Result<()> {
    let contents = files.iter().map(|path| content(path)).collect::<Result<Vec<_>>>()?;
    let store = qd1_runs::history::open()?;
    let mut known: BTreeSet<String> = store.list(usize::MAX)?.into_iter().map(|row| row.id).collect();
    let (mut added, mut there) = (0, 0);
    for (content, path) in contents.into_iter().zip(files) {
        let runs: Box<dyn Iterator<Item = Result<Exported>>> = match &content {
            Content::Run(record) => Box::new(std::iter::once(Ok(Exported::alone(Record::clone(record))))),
            Content::Export(export) => Box::new(export.runs()),
            Content::Other(_) => continue,
        };
        for run in runs {
            let run = run?;
            // One run may be in several of the files.
            if !known.insert(run.record.id.clone()) {
                there += 1;
                continue;
            }
            store.save(&run.record).with_context(|| printable(&path.to_string_lossy()).into_owned())?;
            added += 1;
            keep_words(&store, &run)?;
        }
    }
    let already = if there == 0 { String::new() } else { format!("; {} already there", counted(there)) };
    output::write(&DestinationArgs::stdout(), &format!("{} added{already}\n", counted(added)))
}

fn keep_words(store: &Store, run: &Exported) -> Result<()> {
    let tags: Vec<String> = run.tags.iter().filter(|tag| is_tag(tag)).cloned().collect();
    store.tag(&run.record.id, &tags, true)?;
    if let Some(note) = run.note.as_deref() {
        store.note(&run.record.id, &note.chars().take(NOTE_MAX).collect::<String>())?;
    }
    Ok(())
}

/// Reads a file, and all of its runs once, so that nothing is added if any file is invalid.
fn content(path: &Path) -> Result<Content> {
    let name = || printable(&path.to_string_lossy()).into_owned();
    let found = exports::content(Stored::read(path, HISTORY)?)?;
    match &found {
        Content::Run(record) => check(record).with_context(name)?,
        Content::Export(export) => {
            for (at, run) in (1..).zip(export.runs()) {
                check(&run.with_context(name)?.record).with_context(|| format!("{}: run {at}", name()))?;
            }
        }
        Content::Other(text) if text.trim_ascii().is_empty() => {
            return Err(Problem::usage(format!("{}: is empty; name another file", name())).into());
        }
        Content::Other(_) => return Err(Problem::usage(format!("{}: line 1: {}", name(), exports::NO_RUN)).into()),
    }
    Ok(found)
}

/// Refuses a record that qd1 cannot have made: its id and times are used to find and list the run, and are shown
/// unchanged.
fn check(record: &Record) -> Result<(), Problem> {
    let is_digit = |letter: u8| letter.is_ascii_digit() || (b'a'..=b'f').contains(&letter);
    let is_id = record.id.len() == ID_DIGITS && record.id.bytes().all(is_digit);
    let what = match record {
        _ if !is_id => {
            let id: String = record.id.chars().take(2 * ID_DIGITS).collect();
            format!("its id {:?} is not {ID_DIGITS} lowercase hexadecimal digits", printable(&id))
        }
        _ if !STARTS_NS.contains(&record.started_unix_ns) => "it began before 2000 or after 2200".to_owned(),
        _ if record.elapsed_ns > ELAPSED_NS_MAX => "it took longer than a year".to_owned(),
        _ => return Ok(()),
    };
    Err(Problem::usage(format!("is damaged: {what}; export it again with `qd1 history export`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_qd1_cannot_have_made_is_refused() {
        let good = qd1_report::samples::slow_vps().record;
        let good = Record { id: "0123456789ab".to_owned(), ..good };
        check(&good).unwrap();
        for id in
            ["", "0123456789a", "0123456789abc", "0123456789aB", "@latest", "%", "\u{1b}c3456789ab", "0123456789\u{e9}"]
        {
            let error = check(&Record { id: id.to_owned(), ..good.clone() }).unwrap_err().to_string();
            assert!(error.contains("12 lowercase hexadecimal digits") && !error.contains('\u{1b}'), "{error}");
        }
        let long = check(&Record { id: "x".repeat(5_000_000), ..good.clone() }).unwrap_err().to_string();
        assert!(long.len() < 200, "{}", long.len());
        for started_unix_ns in [0, 900_000_000_000_000_000, 7_300_000_000_000_000_000, u64::MAX] {
            let error = check(&Record { started_unix_ns, ..good.clone() }).unwrap_err().to_string();
            assert!(error.contains("before 2000 or after 2200"), "{error}");
        }
        assert!(
            check(&Record { elapsed_ns: u64::MAX, ..good }).unwrap_err().to_string().contains("longer than a year")
        );
    }
}

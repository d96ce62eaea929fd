//! Runs from one history to another: a file with a line of JSON for each, compressed where its name ends with `.gz`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use qd1_analysis::analyse;
use qd1_model::history::{NOTE_MAX, Row, is_tag};
use qd1_model::{Problem, Record, printable};
use qd1_report::redact;
use qd1_store::{Salvaged, Store, from_json};
use qd1_suites::thresholds;

use super::filter::FilterArgs;
use super::{counted, with_hosts};
use crate::args::DestinationArgs;
use crate::exports::{self, Exported, Line};
use crate::{message, output, runs, session};

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Their ids, or the beginnings of them, or @TAG; otherwise all that the conditions mean
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// The file, compressed where its name ends with .gz; stdout otherwise
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Leave out names, addresses, models, paths, tags and notes, to share the runs
    #[arg(long)]
    pub(crate) redact: bool,
}

/// Writes runs to a file. One that cannot be read is named, and left out.
///
/// # Errors
/// When the history cannot be read, has no such run, or the file cannot be written.
pub(super) fn export(args: &ExportArgs) -> Result<()> {
    args.output.iter().try_for_each(|path| output::check_destination(path))?;
    let store = with_hosts(&args.filter)?;
    let Exportable { runs, mut lost } = exportable(&store, args)?;
    let mut text = Vec::new();
    let mut written = 0;
    for run in runs {
        let kept = run.and_then(|run| {
            Ok(Exported { record: if args.redact { redacted(run.record)? } else { run.record }, ..run })
        });
        let run = match kept {
            Ok(run) => run,
            Err(error) => {
                message::print(format_args!("qd1: not exported: {error:#}"));
                lost += 1;
                continue;
            }
        };
        let (tags, note) = if args.redact { (&[][..], None) } else { (&run.tags[..], run.note.as_deref()) };
        serde_json::to_writer(&mut text, &Line { tags, note, record: &run.record })?;
        text.push(b'\n');
        written += 1;
    }
    if written == 0 {
        return Err(Problem::usage("there is no run to export; `qd1 history` lists what there is").into());
    }
    let is_packed = args.output.as_ref().and_then(|path| path.extension()).is_some_and(|end| end == "gz");
    let bytes = if is_packed { packed(&text)? } else { text };
    let to = DestinationArgs { output: args.output.clone(), ..DestinationArgs::stdout() };
    output::write_bytes(&to, &bytes)?;
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

/// Runs to export, each read when its turn comes.
struct Exportable<'a> {
    runs: Box<dyn Iterator<Item = Result<Exported>> + 'a>,
    /// Those that are there and cannot be read.
    lost: usize,
}

fn exportable<'a>(store: &'a Store, args: &ExportArgs) -> Result<Exportable<'a>> {
    let mut rows = match store.find(&args.filter.filter()?, usize::MAX) {
        Ok(rows) => rows,
        // Whoever asks for some runs may not get others.
        Err(error) if !args.ids.is_empty() || args.filter != FilterArgs::default() => return Err(error),
        Err(error) => {
            message::print(format_args!("qd1: {error:#}"));
            let Salvaged { records, lost, is_counted } = store.salvage();
            let more = if is_counted { "" } else { "; more may be lost" };
            message::print(format_args!(
                "qd1: looked for each run by itself: {} found, without tags and notes{more}",
                counted(records.len())
            ));
            let runs = records.into_iter().map(|record| Ok(Exported { record, tags: Vec::new(), note: None }));
            return Ok(Exportable { runs: Box::new(runs), lost });
        }
    };
    // The oldest first, as they came.
    rows.reverse();
    if !args.ids.is_empty() {
        let mut wanted = Vec::new();
        for word in &args.ids {
            for id in runs::ids(store, word)? {
                wanted.push(store.load(&id)?.id);
            }
        }
        rows.retain(|row| wanted.contains(&row.id));
    }
    let run = |row: Row| Ok(Exported { record: store.load(&row.id)?, tags: row.tags, note: row.note });
    Ok(Exportable { runs: Box::new(rows.into_iter().map(run)), lost: 0 })
}

fn redacted(record: Record) -> Result<Record> {
    let thresholds = thresholds::of_run(record.plan.subject, None)?;
    let mut report = analyse(record, &thresholds);
    redact(&mut report).context("this run cannot be redacted")?;
    Ok(report.record)
}

fn packed(text: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(text)?;
    Ok(gzip.finish()?)
}

/// Adds the runs of files to the history.
///
/// # Errors
/// When a file cannot be read or holds no run, or the history cannot be written. What was added before stays.
pub(super) fn import(files: &[PathBuf]) -> Result<()> {
    let contents = files.iter().map(|path| content(path)).collect::<Result<Vec<_>>>()?;
    let store = session::history()?;
    let mut known: BTreeSet<String> = store.list(usize::MAX)?.into_iter().map(|row| row.id).collect();
    let (mut added, mut there) = (0, 0);
    for run in contents.into_iter().flatten() {
        // One run may be in several of the files.
        if !known.insert(run.record.id.clone()) {
            there += 1;
            continue;
        }
        store.save(&run.record)?;
        added += 1;
        keep_words(&store, &run)?;
    }
    let already = if there == 0 { String::new() } else { format!("; {} were there already", counted(there)) };
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

fn content(path: &Path) -> Result<Vec<Exported>> {
    let name = printable(&path.to_string_lossy()).into_owned();
    let cannot = |error: std::io::Error| Problem::usage(format!("{name}: cannot be read: {error}"));
    let bytes = exports::unpacked(std::fs::read(path).map_err(cannot)?, exports::BYTES_MAX).map_err(cannot)?;
    if bytes.len() as u64 > exports::BYTES_MAX {
        let most = exports::BYTES_MAX >> 30;
        return Err(Problem::usage(format!("{name}: is larger than {most} GiB; that is no history")).into());
    }
    if let Some(record) = from_json(&bytes).with_context(|| name.clone())? {
        return Ok(vec![Exported { record, tags: Vec::new(), note: None }]);
    }
    let found = exports::read(&bytes).with_context(|| name.clone())?;
    if found.is_empty() {
        return Err(Problem::usage(format!("{name}: is empty")).into());
    }
    Ok(found)
}

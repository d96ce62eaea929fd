//! Which run a word of the command line names: one of the history, or a file of qd1 or of another tool.

use std::path::Path;

use anyhow::{Context as _, Result};
use jiff::Zoned;
use qd1_analysis::compare::{MEASURED_BY, measured, spoilers};
use qd1_model::history::{Filter, Row};
use qd1_model::measured::Measured;
use qd1_model::suggest::nearest;
use qd1_model::{Problem, Record, printable};
use qd1_store::Store;
use qd1_system::source::Kind;

use crate::exports::{self, Content, Export, Exported};
use crate::history;
use crate::stored::Stored;

/// Names that mean a run by its time.
const NAMES: [&str; 3] = ["latest", "previous", "yesterday"];
/// A result file.
const RESULT: Kind = Kind { name: "a result", most: 256 << 20 };

/// What a word names.
enum Found {
    /// Runs of qd1: several if a tag names several.
    Records(Vec<Record>),
    /// An export, which may have many.
    Export(Export),
    /// Runs of another tool.
    Others(Vec<Measured>),
}

/// Returns the runs that a word names, at most `most` from a file: an id or its beginning, `@latest`, `@previous`,
/// `@yesterday`, `@TAG`, or a file: of qd1, an export of its history, or of another tool. A tag and a file may name
/// several runs.
///
/// # Errors
/// When there is no such run; the message says what there is.
pub fn find(word: &str, most: usize) -> Result<Vec<Measured>> {
    if is_file(word) {
        let runs = looked_at(Path::new(word), most, |record| Ok((of_record(&record), ())))?;
        return Ok(runs.into_iter().map(|(run, _)| run).collect());
    }
    let (store, ids) = kept(word)?;
    ids.iter().map(|id| of_kept(&store, id, word)).collect()
}

/// Returns what can be compared of a run of the history: as it was noted, or computed now, and noted if that is
/// possible.
fn of_kept(store: &Store, id: &str, word: &str) -> Result<Measured> {
    if let Some(noted) = store.measured(id, MEASURED_BY) {
        return Ok(noted);
    }
    let record = load(store, id, word)?;
    let run = of_record(&record);
    // An unfinished run will still change. If nothing can be written, this is computed each time.
    if !record.is_unfinished()
        && let Ok(store) = history::open()
    {
        let _ = store.note_measured(&record.id, MEASURED_BY, &run);
    }
    Ok(run)
}

/// Returns the runs of a file, each of qd1 as `look` takes it from its record.
///
/// # Errors
/// When it has none, or more than `most`, or `look` fails.
pub fn looked_at<T: Send>(
    path: &Path,
    most: usize,
    look: impl Fn(Record) -> Result<(Measured, T)> + Sync,
) -> Result<Vec<(Measured, Option<T>)>> {
    let word = path.to_string_lossy();
    let name = printable(&word);
    let of = |record: Record| look(record).map(|(run, seen)| (run, Some(seen)));
    let mut runs: Vec<(Measured, Option<T>)> = match of_file(&word, path)? {
        Found::Records(records) => records.into_iter().map(of).collect::<Result<_>>()?,
        Found::Export(export) if export.has_more_than(most) => {
            return Err(Problem::usage(format!("{name}: has more than {most} runs; give only some of them")).into());
        }
        Found::Export(export) => export.each(|run| of(run.record)).with_context(|| name.clone().into_owned())?,
        Found::Others(runs) => return Ok(runs.into_iter().map(|run| (run, None)).collect()),
    };
    // Runs are called by their file, and those of one file also by their ids.
    let is_one = runs.len() == 1;
    for (run, _) in &mut runs {
        run.label = if is_one { name.clone().into_owned() } else { format!("{name} {}", printable(&run.label)) };
    }
    Ok(runs)
}

/// Returns the runs of qd1 that a word names, as [`find`] does; at most `most` from a file.
///
/// # Errors
/// When there is none.
pub fn records(word: &str, most: usize) -> Result<Vec<Exported>> {
    match look_up(word)? {
        Found::Records(records) => Ok(with_tags(records, is_file(word))),
        Found::Export(export) => {
            if export.has_more_than(most) {
                let message = format!("{}: has more than {most} runs, too many to draw", printable(word));
                return Err(Problem::usage(message).into());
            }
            export.all().with_context(|| printable(word).into_owned())
        }
        Found::Others(_) => {
            let word = printable(word);
            let message =
                format!("{word}: is a result of another tool, which has no charts; `qd1 compare` can read it");
            Err(Problem::usage(message).into())
        }
    }
}

/// The runs with the tags that they have in the history; those of a file have none.
fn with_tags(records: Vec<Record>, are_of_file: bool) -> Vec<Exported> {
    let rows = if are_of_file { None } else { history::read().and_then(|store| store.list(usize::MAX)).ok() };
    let tags = |id: &str| rows.iter().flatten().find(|row| row.id == id).map(|row| row.tags.clone());
    let kept = |record: Record| Exported { tags: tags(&record.id).unwrap_or_default(), ..Exported::alone(record) };
    records.into_iter().map(kept).collect()
}

/// Whether a word names a file rather than runs of the history.
pub fn is_file(word: &str) -> bool {
    !word.starts_with('@') && Path::new(word).exists()
}

fn look_up(word: &str) -> Result<Found> {
    if is_file(word) {
        return of_file(word, Path::new(word));
    }
    let (store, ids) = kept(word)?;
    Ok(Found::Records(ids.iter().map(|id| load(&store, id, word)).collect::<Result<_>>()?))
}

/// The history, and the ids of the runs in it that a word names.
fn kept(word: &str) -> Result<(Store, Vec<String>)> {
    if word == "-" {
        return Err(Problem::usage("-: stdin is not read here; name a file").into());
    }
    if NAMES.contains(&word) {
        return Err(Problem::usage(format!("there is no file {word}; did you mean @{word}?")).into());
    }
    if word.contains('/') {
        return Err(Problem::usage(format!("{}: there is no such file", printable(word))).into());
    }
    let store = history::read()?;
    let ids = ids(&store, word)?;
    Ok((store, ids))
}

/// Returns the ids, or the beginnings of them, of the runs of the history that a word names.
///
/// # Errors
/// When there are none of that name.
pub fn ids(store: &Store, word: &str) -> Result<Vec<String>> {
    Ok(match word.strip_prefix('@') {
        Some(name) if NAMES.contains(&name) => vec![named(&store.list(usize::MAX)?, name, &Zoned::now())?],
        Some(tag) => tagged(store, tag)?,
        None => vec![word.to_owned()],
    })
}

/// The same for a word that has to name one run.
///
/// # Errors
/// When it names none, or several.
pub fn id(store: &Store, word: &str) -> Result<String> {
    match ids(store, word)?.as_slice() {
        [one] => Ok(one.clone()),
        many => {
            let message = format!("{} names {} runs; give the id of one", printable(word), many.len());
            Err(Problem::usage(message).into())
        }
    }
}

/// Returns the ids of the runs with a tag, the newest first.
fn tagged(store: &Store, tag: &str) -> Result<Vec<String>> {
    let filter = Filter { tag: Some(tag.to_owned()), ..Filter::default() };
    let ids: Vec<String> = store.find(&filter, usize::MAX)?.into_iter().map(|row| row.id).collect();
    if ids.is_empty() {
        let meant = nearest(tag, NAMES.into_iter()).map_or_else(String::new, |name| format!("did you mean @{name}? "));
        let message = format!(
            "there is no run @{}; {meant}use @latest, @previous, @yesterday or a tag that `qd1 history` shows",
            printable(tag)
        );
        return Err(Problem::usage(message).into());
    }
    Ok(ids)
}

fn load(store: &Store, id: &str, word: &str) -> Result<Record> {
    store.load(id).map_err(|error| match error.downcast::<Problem>() {
        Ok(problem) => Problem::usage(format!("{problem}; and there is no file {}", printable(word))).into(),
        Err(error) => error,
    })
}

/// Returns the id of the run that a name such as `latest` means.
fn named(rows: &[Row], name: &str, now: &Zoned) -> Result<String, Problem> {
    let Some(latest) = rows.first() else {
        return Err(Problem::usage(format!("@{name}: the history is empty; `qd1 check PATH` makes a run")));
    };
    let is_like = |row: &&Row| (&row.suite, &row.path) == (&latest.suite, &latest.path);
    let of_latest = format!("of {} on {}", printable(&latest.suite), printable(&latest.path));
    match name {
        "latest" => Ok(latest.id.clone()),
        "previous" => rows[1..]
            .iter()
            .find(is_like)
            .map(|row| row.id.clone())
            .ok_or_else(|| Problem::usage(format!("@previous: there is no earlier run {of_latest}"))),
        "yesterday" => {
            let day = now.date().yesterday().ok();
            let began = |row: &&Row| {
                let time = jiff::Timestamp::from_nanosecond(row.started_unix_ns.into()).ok();
                time.map(|time| time.to_zoned(now.time_zone().clone()).date())
            };
            let found = rows.iter().filter(is_like).find(|row| began(row).is_some() && began(row) == day);
            found.map(|row| row.id.clone()).ok_or_else(|| {
                Problem::usage(format!("@yesterday: there was no run yesterday like the latest one, {of_latest}"))
            })
        }
        _ => Err(Problem::usage(format!("@{name}: not one of @latest, @previous and @yesterday"))),
    }
}

fn of_file(word: &str, path: &Path) -> Result<Found> {
    Ok(match exports::content(Stored::read(path, RESULT)?)? {
        Content::Run(record) => Found::Records(vec![*record]),
        Content::Export(export) => Found::Export(export),
        Content::Other(text) if text.starts_with(b"<!DOCTYPE html>") => {
            let name = printable(word);
            let message = format!("{name}: is an HTML page; save the record in it with its button, and give that file");
            return Err(Problem::usage(message).into());
        }
        Content::Other(text) => Found::Others(qd1_import::read(&printable(word), &text)?),
    })
}

/// Returns what can be compared of a run.
pub fn of_record(record: &Record) -> Measured {
    let summary = qd1_analysis::summarize(record);
    let spoilers = spoilers(record, &summary);
    measured(record, &summary, &spoilers)
}

/// Returns names for runs that are shown together: files without their directory, unless that tells them apart, and
/// without what all names begin and end with.
pub fn names(words: &[String]) -> Vec<String> {
    let short: Vec<String> = words.iter().map(|word| short(word)).collect();
    let is_alone = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    let mut names: Vec<String> = short
        .iter()
        .zip(words)
        .map(|(short, word)| if is_alone(short) { short.clone() } else { printable(word).into_owned() })
        .collect();
    distinct(&mut names);
    names
}

/// The name of a file without its directory; any other word as it is.
fn short(word: &str) -> String {
    let name = word.rsplit('/').find(|part| !part.is_empty()).unwrap_or(word);
    printable(name).into_owned()
}

/// Takes out of names what all of them begin and end with, up to a mark between words.
fn distinct(names: &mut [String]) {
    let is_mark = |letter: char| matches!(letter, '-' | '_' | '.' | ' ');
    let Some((first, others)) = names.split_first().filter(|(_, others)| !others.is_empty()) else { return };
    let ends_at_mark = |text: &str| text.is_empty() || text.ends_with(is_mark);
    let begins_at_mark = |text: &str| text.is_empty() || text.starts_with(is_mark);
    let cuts = |text: &str| text.char_indices().map(|(at, _)| at).chain([text.len()]).collect::<Vec<_>>();
    let begin = cuts(first).into_iter().rev().map(|at| &first[..at]);
    let begin =
        begin.filter(|begin| ends_at_mark(begin)).find(|begin| others.iter().all(|name| name.starts_with(begin)));
    let end = cuts(first).into_iter().map(|at| &first[at..]);
    let end = end.filter(|end| begins_at_mark(end)).find(|end| others.iter().all(|name| name.ends_with(end)));
    let (begin, end) = (begin.unwrap_or_default(), end.unwrap_or_default());
    let short = |name: &str| {
        name.get(begin.len()..name.len().checked_sub(end.len())?).filter(|name| !name.is_empty()).map(str::to_owned)
    };
    let tells = |name: &String| name.len() > 2 && !name.bytes().all(|letter| letter.is_ascii_digit() || letter == b'.');
    if let Some(short) = names.iter().map(|name| short(name)).collect::<Option<Vec<String>>>()
        && short.iter().all(tells)
    {
        names.iter_mut().zip(short).for_each(|(name, short)| *name = short);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    const DAY_NS: u64 = 86_400_000_000_000;

    fn rows() -> Vec<Row> {
        let row = |id: &str, days: u64, suite: &str| Row {
            id: id.to_owned(),
            started_unix_ns: days * DAY_NS + DAY_NS / 2,
            suite: suite.to_owned(),
            path: "/srv".to_owned(),
            ..Row::default()
        };
        vec![row("d", 20_010, "check"), row("c", 20_009, "sweep"), row("b", 20_009, "check"), row("a", 20_003, "check")]
    }

    #[test]
    fn names_by_time_mean_runs_like_the_latest_one() {
        let now = jiff::Timestamp::from_second(20_010 * 86_400 + 70_000).unwrap().to_zoned(TimeZone::UTC);
        let of = |name| named(&rows(), name, &now).map_err(|error| error.to_string());
        assert_eq!(of("latest").unwrap(), "d");
        assert_eq!(of("previous").unwrap(), "b");
        assert_eq!(of("yesterday").unwrap(), "b");
        let later = jiff::Timestamp::from_second(20_020 * 86_400).unwrap().to_zoned(TimeZone::UTC);
        assert!(named(&rows(), "yesterday", &later).unwrap_err().to_string().contains("check on /srv"));
        assert!(named(&[], "latest", &now).unwrap_err().to_string().contains("empty"));
    }

    #[test]
    fn names_keep_what_tells_them_apart() {
        let of = |names: &[&str]| {
            let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            distinct(&mut names);
            names
        };
        assert_eq!(of(&["vps-do-5-fio_read.txt", "vps-ovh-1-fio_read.txt"]), ["do-5", "ovh-1"]);
        assert_eq!(of(&["before.json", "after.json"]), ["before", "after"]);
        assert_eq!(of(&["old.json", "old-b.json"]), ["old", "old-b"]);
        assert_eq!(of(&["fio-3.33-commit.txt", "fio-3.42-commit.txt"]), ["fio-3.33-commit.txt", "fio-3.42-commit.txt"]);
        assert_eq!(of(&["4f2a9c01", "4f2a77aa"]), ["4f2a9c01", "4f2a77aa"]);
        assert_eq!(of(&["größe-eins", "größe-zwei"]), ["eins", "zwei"]);
        assert_eq!(of(&["a", "a"]), ["a", "a"]);
        assert_eq!(of(&["one.txt"]), ["one.txt"]);
    }
}

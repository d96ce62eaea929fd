//! Which run a word of the command line names: one of the history, or a file of qd1 or of another tool.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use jiff::Zoned;
use qd1_analysis::compare::{measured, spoilers};
use qd1_model::history::Row;
use qd1_model::measured::Measured;
use qd1_model::suggest::nearest;
use qd1_model::{Problem, Record, printable};
use qd1_store::Store;

use crate::session;

/// Names of runs by their time.
const NAMES: [&str; 3] = ["latest", "previous", "yesterday"];
/// Largest file that is read.
const BYTES_MAX: u64 = 256 << 20;

/// Returns the runs that a word names: an id or its beginning, `@latest`, `@previous`, `@yesterday`, or a file. A file may
/// hold several runs.
///
/// # Errors
/// When there is no such run; the message says what there is.
pub(crate) fn find(word: &str) -> Result<Vec<Measured>> {
    let path = Path::new(word);
    if !word.starts_with('@') && path.exists() {
        return of_file(word, path);
    }
    if word == "-" {
        return Err(Problem::usage("-: stdin is not read here; name a file").into());
    }
    if NAMES.contains(&word) {
        return Err(Problem::usage(format!("there is no file {word}; did you mean @{word}?")).into());
    }
    if word.contains('/') {
        return Err(Problem::usage(format!("{}: there is no such file", printable(word))).into());
    }
    let store = session::kept_runs()?;
    let id = match word.strip_prefix('@') {
        Some(name) => named(&store.list(usize::MAX)?, name, &Zoned::now())?,
        None => word.to_owned(),
    };
    let record = load(&store, &id, word)?;
    Ok(vec![of_record(&record)])
}

fn load(store: &Store, id: &str, word: &str) -> Result<Record> {
    store.load(id).map_err(|error| match error.downcast::<Problem>() {
        Ok(problem) => Problem::usage(format!("{problem}; and there is no file {}", printable(word))).into(),
        Err(error) => error,
    })
}

/// Returns the id of the run that has a name of its own by its time.
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
            .ok_or_else(|| Problem::usage(format!("@previous: there is no run before the latest one, {of_latest}"))),
        "yesterday" => {
            let day = now.date().yesterday().ok();
            let began = |row: &&Row| {
                let time = jiff::Timestamp::from_nanosecond(row.started_unix_ns.into()).ok();
                time.map(|time| time.to_zoned(now.time_zone().clone()).date())
            };
            let found = rows.iter().filter(is_like).find(|row| began(row).is_some() && began(row) == day);
            found.map(|row| row.id.clone()).ok_or_else(|| {
                Problem::usage(format!("@yesterday: there is no run of yesterday like the latest one, {of_latest}"))
            })
        }
        _ => {
            let meant =
                nearest(name, NAMES.into_iter()).map_or_else(String::new, |name| format!("did you mean @{name}? "));
            Err(Problem::usage(format!(
                "there is no run @{}; {meant}@latest, @previous and @yesterday are known, `qd1 history` lists all",
                printable(name)
            )))
        }
    }
}

fn of_file(word: &str, path: &Path) -> Result<Vec<Measured>> {
    if path.is_dir() {
        return Err(Problem::usage(format!("{}: is a directory; name a file", path.display())).into());
    }
    let cannot = |error: std::io::Error| Problem::usage(format!("{}: cannot be read: {error}", path.display()));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(cannot)?;
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > BYTES_MAX {
        let most = BYTES_MAX >> 20;
        return Err(Problem::usage(format!("{}: is larger than {most} MiB; that is no result", path.display())).into());
    }
    let label = printable(word).into_owned();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").map(<[u8]>::to_vec).unwrap_or(bytes);
    match qd1_store::from_json(&bytes).with_context(|| label.clone())? {
        Some(record) => Ok(vec![Measured { label, ..of_record(&record) }]),
        None => Ok(qd1_import::read(&label, &bytes)?),
    }
}

fn of_record(record: &Record) -> Measured {
    let summary = qd1_analysis::summarize(record);
    let spoilers = spoilers(record, &summary);
    measured(record, &summary, &spoilers)
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
            elapsed_ns: 0,
            suite: suite.to_owned(),
            path: "/srv".to_owned(),
            device: String::new(),
            filesystem: String::new(),
            version: String::new(),
            interrupted: false,
            headline: None,
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
        assert!(of("tomorrow").unwrap_err().contains("@previous"));
        let later = jiff::Timestamp::from_second(20_020 * 86_400).unwrap().to_zoned(TimeZone::UTC);
        assert!(named(&rows(), "yesterday", &later).unwrap_err().to_string().contains("check on /srv"));
        assert!(named(&[], "latest", &now).unwrap_err().to_string().contains("empty"));
    }
}

//! Keeps every run in SQLite, so that any two can be compared and an old one can be judged again by a newer qd1.
//!
//! A run is one row written in one transaction: if the process is killed, the history has the whole run or none of it.
//! The record is kept as zlib-compressed JSON, because the intervals of a one-minute check come to several hundred KiB
//! of very repetitive text; everything `qd1 history` lists is in columns of its own and needs no unpacking. Verdicts
//! are not stored: a record is judged again each time it is read. The caller chooses the path of the file.
#![forbid(unsafe_code)]

mod advice;
mod blob;
mod file;
mod list;
mod measured;
mod salvage;
mod spare;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use qd1_model::history::{Filter, Row};
use qd1_model::record::long_check::Round;
use qd1_model::trend::{FigureName, KeptFigure};
use qd1_model::{Problem, Record};
use rusqlite::{Connection, OptionalExtension, ffi};

use advice::{Access, with_advice};
pub use blob::{from_json, unpack};
use blob::{pack, pack_round, unpack_round};
pub use list::Kept;
pub use salvage::Salvaged;

/// SQLite's codes for a row that already exists.
const IS_THERE: [i32; 2] = [ffi::SQLITE_CONSTRAINT_PRIMARYKEY, ffi::SQLITE_CONSTRAINT_UNIQUE];

/// Two runs that end at the same moment wait this long for each other.
const BUSY: Duration = Duration::from_secs(10);

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Another process is measuring the same run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken;

impl std::fmt::Display for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("another qd1 is measuring this run; only one can do so at a time")
    }
}

impl std::error::Error for Taken {}

/// The history of runs.
pub struct Store {
    db: Connection,
    path: PathBuf,
    access: Access,
    /// Device and inode of the file.
    file: Option<(u64, u64)>,
}

impl Store {
    /// Opens the history at `path` to keep runs, or creates it and its directories, readable by its owner only. Another
    /// program's database is left as it is.
    ///
    /// # Errors
    /// When it cannot be created or opened, is not a history, or a newer qd1 wrote it; the message says what to do.
    pub fn open(path: &Path) -> Result<Self> {
        Self::of(file::open(path), path, Access::Keep)
    }

    /// The same for a run that cannot do without a history.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_for_rounds(path: &Path) -> Result<Self> {
        Self::of(file::open(path), path, Access::Rounds)
    }

    /// The same to remove runs. If the disk is full, the spare file that is kept for this case is deleted first.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_to_remove(path: &Path) -> Result<Self> {
        let may_be_full = |error: &anyhow::Error| error.downcast_ref().is_some_and(spare::may_be_full);
        let opened = match file::open(path) {
            Err(error) if may_be_full(&error) && spare::give_up(path) => file::open(path),
            opened => opened,
        };
        Self::of(opened, path, Access::Remove)
    }

    fn of(opened: Result<Connection>, path: &Path, access: Access) -> Result<Self> {
        let db = opened.map_err(|error| with_advice(error, path, access))?;
        Ok(Self { db, path: path.to_owned(), access, file: identity(path) })
    }

    /// Opens the history at `path` to read it, even if nothing can be written. One that does not exist is empty.
    ///
    /// # Errors
    /// When it cannot be read, is not a history, or a newer qd1 wrote it; the message says what to do.
    pub fn read(path: &Path) -> Result<Self> {
        Self::of(file::read(path), path, Access::Read)
    }

    /// Returns true while its path leads to the file that was opened. If that was removed or replaced meanwhile,
    /// whatever is saved would be lost.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        self.file.is_some() && identity(&self.path) == self.file
    }

    /// The file next to the history that the process measuring the run `id` holds a lock on. It is the same by any name
    /// of the history.
    #[must_use]
    pub fn lock_file(&self, id: &str) -> PathBuf {
        let mut path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone()).into_os_string();
        path.push(format!("-{id}.lock"));
        path.into()
    }

    /// Adds a run, whole or not at all; a run that was kept while it was unfinished is replaced as a whole.
    ///
    /// # Errors
    /// When it cannot be written, or the history has a run with this id that is over: history is not rewritten.
    pub fn save(&self, record: &Record) -> Result<()> {
        self.put(record, record.is_unfinished())
    }

    /// Adds a run whose rounds will be added by [`Self::add_round`].
    ///
    /// # Errors
    /// As [`Self::save`].
    pub fn begin(&self, record: &Record) -> Result<()> {
        self.put(record, true)
    }

    fn put(&self, record: &Record, unfinished: bool) -> Result<()> {
        let blob = pack(record)?;
        let target = &record.plan.target;
        let device = record.environment.devices.first().map_or("", |device| device.name.as_str());
        let (started, elapsed) = (i64::try_from(record.started_unix_ns)?, i64::try_from(record.elapsed_ns)?);
        let put = || -> rusqlite::Result<usize> {
            let transaction = self.db.unchecked_transaction()?;
            let count = transaction.execute(
                "INSERT INTO run (id, started_unix_ns, elapsed_ns, suite, path, device, filesystem, version, interrupted,
                                  record, unfinished, host, kernel, size)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                 ON CONFLICT (id) DO UPDATE SET elapsed_ns = excluded.elapsed_ns, version = excluded.version,
                    interrupted = excluded.interrupted, record = excluded.record, unfinished = excluded.unfinished
                 WHERE run.unfinished",
                (
                    &record.id,
                    started,
                    elapsed,
                    &record.plan.suite,
                    target.path.to_string_lossy(),
                    device,
                    &target.filesystem,
                    &record.version,
                    record.interrupted || unfinished,
                    blob,
                    unfinished,
                    &record.environment.hostname,
                    &record.environment.kernel,
                    i64::try_from(target.size.0).unwrap_or(i64::MAX),
                ),
            )?;
            // Those that are in the record now. Any later round belongs to another process, and is left to it.
            let next = record.over.as_ref().map_or(0, |over| over.next());
            transaction.execute("DELETE FROM round WHERE run = ? AND number < ?", (&record.id, next))?;
            transaction.commit()?;
            Ok(count)
        };
        match put() {
            Ok(0) => bail!("run {} is already in the history", record.id),
            Ok(_) => {
                spare::keep(&self.path);
                Ok(())
            }
            Err(error) => Err(self.advise(error)),
        }
    }

    /// Adds a round to an unfinished run.
    ///
    /// # Errors
    /// When it cannot be written; [`Taken`] when another process measured the same round.
    pub fn add_round(&self, id: &str, round: &Round) -> Result<()> {
        let blob = pack_round(round)?;
        let number = round.round.number;
        let added = self.db.execute("INSERT INTO round (run, number, round) VALUES (?, ?, ?)", (id, number, blob));
        match added {
            Ok(_) => Ok(()),
            // A round without its run is another error.
            Err(error) if error.sqlite_error().is_some_and(|error| IS_THERE.contains(&error.extended_code)) => {
                Err(Taken.into())
            }
            Err(error) => Err(self.advise(error)),
        }
    }

    /// Returns the last `limit` runs, the newest first.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn list(&self, limit: usize) -> Result<Vec<Row>> {
        self.find(&Filter::default(), limit)
    }

    /// Returns the last `limit` runs that match the filter, the newest first.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn find(&self, filter: &Filter, limit: usize) -> Result<Vec<Row>> {
        list::find(&self.db, filter, limit).map_err(|error| self.advise(error))
    }

    /// Finds out machine, kernel and size of the runs that an earlier qd1 kept, so that one can search by them. A run
    /// that cannot be read has none.
    ///
    /// # Errors
    /// When the history cannot be written.
    pub fn learn_hosts(&self) -> Result<()> {
        let unknown = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.db.prepare("SELECT id FROM run WHERE host IS NULL")?;
            statement.query_map([], |row| row.get(0))?.collect()
        };
        for id in unknown().map_err(|error| self.advise(error))? {
            let (host, kernel, size) = self.load(&id).map_or_else(
                |_| Default::default(),
                |record| (record.environment.hostname, record.environment.kernel, record.plan.target.size.0),
            );
            let size = i64::try_from(size).unwrap_or(i64::MAX);
            let noted = self
                .db
                .execute("UPDATE run SET host = ?, kernel = ?, size = ? WHERE id = ?", (host, kernel, size, &id));
            noted.map_err(|error| self.advise(error))?;
        }
        Ok(())
    }

    /// Notes the figures of a run, for its trend.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn note_figures(&self, id: &str, figures: &[KeptFigure]) -> Result<()> {
        let note = || -> rusqlite::Result<()> {
            let transaction = self.db.unchecked_transaction()?;
            transaction.execute("DELETE FROM figure WHERE run = ?", [id])?;
            let mut statement = transaction.prepare(
                "INSERT OR REPLACE INTO figure (run, step, op, metric, value, low, high) VALUES (?, ?, ?, ?, ?, ?, ?)",
            )?;
            for figure in figures.iter().filter(|figure| figure.value.is_finite()) {
                let KeptFigure { step, op, metric, value, low, high } = figure;
                statement.execute((id, step, op, metric, value, low, high))?;
            }
            drop(statement);
            transaction.execute("UPDATE run SET has_figures = 1 WHERE id = ?", [id])?;
            transaction.commit()
        };
        note().map_err(|error| self.advise(error))
    }

    /// Returns the ids of the runs that match the filter and whose figures were not noted.
    ///
    /// # Errors
    /// When the history cannot be read, or an earlier qd1 wrote it and it cannot be written.
    pub fn without_figures(&self, filter: &Filter) -> Result<Vec<String>> {
        list::without_figures(&self.db, filter).map_err(|error| self.advise(error))
    }

    /// Returns a figure of the runs that match the filter, the oldest first, with kernel and size of each.
    ///
    /// # Errors
    /// As [`Self::without_figures`].
    pub fn trend(&self, filter: &Filter, figure: &FigureName) -> Result<Vec<Kept>> {
        list::trend(&self.db, filter, figure).map_err(|error| self.advise(error))
    }

    /// Adds tags to a run, or removes them; those that it already has, or does not have, are ignored.
    ///
    /// # Errors
    /// When there is no such run, or it cannot be written.
    pub fn tag(&self, id_prefix: &str, tags: &[String], is_given: bool) -> Result<()> {
        let id = self.resolve(id_prefix)?;
        let sql = if is_given {
            "INSERT INTO tag (run, tag) VALUES (?, ?) ON CONFLICT DO NOTHING"
        } else {
            "DELETE FROM tag WHERE run = ? AND tag = ?"
        };
        let all = || -> rusqlite::Result<()> {
            let transaction = self.db.unchecked_transaction()?;
            tags.iter().try_for_each(|tag| transaction.execute(sql, (&id, tag)).map(drop))?;
            transaction.commit()
        };
        all().map_err(|error| self.advise(error))
    }

    /// Notes a remark on a run; an empty one removes it.
    ///
    /// # Errors
    /// When there is no such run, or it cannot be written.
    pub fn note(&self, id_prefix: &str, note: &str) -> Result<()> {
        let id = self.resolve(id_prefix)?;
        let note = Some(note).filter(|note| !note.is_empty());
        let noted = self.db.execute("UPDATE run SET note = ? WHERE id = ?", (note, &id));
        noted.map(drop).map_err(|error| self.advise(error))
    }

    /// Removes runs, and gives their space back to the disk.
    ///
    /// Returns whether the file is smaller now: if there is no room to rewrite it, the space of the runs is used by
    /// later ones.
    ///
    /// # Errors
    /// When they cannot be removed; then all of them stay, or, where the disk is full, those that were not yet removed.
    pub fn remove(&self, ids: &[String]) -> Result<bool> {
        match self.remove_at_once(ids) {
            Err(error) if spare::may_be_full(&error) && spare::give_up(&self.path) => {
                // One at a time needs the least room, once what was written before it is no longer needed.
                for id in ids {
                    self.remove_at_once(std::slice::from_ref(id)).map_err(|error| self.advise(error))?;
                    let _ = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
                }
            }
            removed => removed.map_err(|error| self.advise(error))?,
        }
        let is_smaller = self.db.execute_batch("VACUUM").is_ok();
        spare::keep(&self.path);
        Ok(is_smaller)
    }

    fn remove_at_once(&self, ids: &[String]) -> rusqlite::Result<()> {
        let transaction = self.db.unchecked_transaction()?;
        for id in ids {
            for sql in [
                "DELETE FROM tag WHERE run = ?",
                "DELETE FROM round WHERE run = ?",
                "DELETE FROM figure WHERE run = ?",
                "DELETE FROM measured WHERE run = ?",
                "DELETE FROM run WHERE id = ?",
            ] {
                transaction.execute(sql, [id])?;
            }
        }
        transaction.commit()
    }

    /// Notes what a kept run found, in a line, for the list.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note_headline(&self, id: &str, headline: &str) -> Result<()> {
        let noted = self.db.execute("UPDATE run SET headline = ? WHERE id = ?", (headline, id));
        noted.map(drop).map_err(|error| self.advise(error))
    }

    /// Returns the run whose id begins with `id_prefix`.
    ///
    /// # Errors
    /// When none or several do, or the record cannot be read.
    pub fn load(&self, id_prefix: &str) -> Result<Record> {
        let id = self.resolve(id_prefix)?;
        let found: Option<(String, Vec<u8>)> = self
            .db
            .query_row("SELECT version, record FROM run WHERE id = ?", [&id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(|error| self.advise(error))?;
        let (version, blob) = found.with_context(|| format!("run {id} was just removed"))?;
        let whole = || -> Result<Record> {
            let mut record = unpack(&blob, &version)?;
            for round in self.rounds(&id)? {
                let round = unpack_round(&round)?;
                if record.over.as_ref().is_none_or(|over| over.next() <= round.round.number) {
                    record.add_round(round);
                    record.interrupted = true;
                }
            }
            blob::check(&record)?;
            Ok(record)
        };
        whole().with_context(|| format!("run {id} in {}", self.path.display()))
    }

    /// Returns the blobs of the rounds that are not yet in the record of a run, in order.
    fn rounds(&self, id: &str) -> Result<Vec<Vec<u8>>> {
        let rounds = || -> rusqlite::Result<Vec<Vec<u8>>> {
            // A history that an earlier qd1 wrote, and that cannot be written here, has no such table.
            let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'round'";
            if self.db.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0 {
                return Ok(Vec::new());
            }
            let mut statement = self.db.prepare("SELECT round FROM round WHERE run = ? ORDER BY number")?;
            statement.query_map([id], |row| row.get(0))?.collect()
        };
        rounds().map_err(|error| self.advise(error))
    }

    fn advise(&self, error: rusqlite::Error) -> anyhow::Error {
        with_advice(error.into(), &self.path, self.access)
    }

    fn resolve(&self, prefix: &str) -> Result<String> {
        let wanted = prefix.trim().to_ascii_lowercase();
        if wanted.is_empty() {
            bail!(Problem::usage("an empty run id matches every run; `qd1 history` lists them"));
        }
        let rows = self.list(usize::MAX)?;
        let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let matching: Vec<&str> = ids.iter().copied().filter(|id| id.starts_with(&wanted)).collect();
        match matching.as_slice() {
            [one] => Ok((*one).to_owned()),
            [] if ids.is_empty() => {
                bail!(Problem::usage(format!("no run {prefix:?}: the history {} is empty", self.path.display())))
            }
            [] => {
                let hint = closest(&wanted, &ids).map(|id| format!("; did you mean {id}?")).unwrap_or(";".to_owned());
                let (path, all) = (self.path.display(), ids.len());
                bail!(Problem::usage(format!("no run {prefix:?} in {path}{hint} `qd1 history` lists all {all}")))
            }
            many => {
                // A complete id is accepted even if another begins with it.
                if let Some(exact) = many.iter().find(|id| **id == wanted) {
                    return Ok((*exact).to_owned());
                }
                let shown = many.iter().take(5).copied().collect::<Vec<_>>().join(", ");
                let more = if many.len() > 5 { ", ..." } else { "" };
                let count = many.len();
                bail!(Problem::usage(format!(
                    "{prefix:?} is ambiguous: {count} runs begin with it ({shown}{more}); give more digits"
                )))
            }
        }
    }
}

/// Fewest typed digits for which a similar id is suggested: fewer are close to any id.
const TYPED_MIN: usize = 4;

/// Returns the id whose beginning takes the fewest edits to become `wanted`; `None` when none is close.
fn closest<'a>(wanted: &str, ids: &[&'a str]) -> Option<&'a str> {
    if wanted.len() < TYPED_MIN {
        return None;
    }
    let distance_to = |id: &&str| distance(wanted, &id.chars().take(wanted.chars().count()).collect::<String>());
    let best = ids.iter().copied().min_by_key(distance_to)?;
    (distance_to(&best) <= wanted.len().div_ceil(3)).then_some(best)
}

/// Returns the Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};

    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::file::MIGRATIONS;
    use super::*;
    use qd1_model::SCHEMA_VERSION;
    use qd1_model::record::long_check::RoundRecord;
    use qd1_report::samples as sample;

    pub(crate) fn record(id: &str, started_unix_ns: u64) -> Record {
        Record { id: id.into(), started_unix_ns, ..sample::slow_vps().record }
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/qd1/history.db");
        (dir, path)
    }

    fn error<T>(result: Result<T>) -> String {
        format!("{:#}", result.err().expect("should have failed"))
    }

    #[test]
    fn runs_are_loaded_unchanged_and_listed_newest_first() {
        let (_dir, path) = place();
        let store = Store::open(&path).unwrap();
        store.save(&record("aaaaaaaaaaaa", 1)).unwrap();
        store.save(&record("bbbbbbbbbbbb", 2)).unwrap();
        drop(store);
        let store = Store::open(&path).unwrap();
        assert!(store.load("aaaa").unwrap() == record("aaaaaaaaaaaa", 1));
        let ids: Vec<_> = store.list(10).unwrap().into_iter().map(|row| row.id).collect();
        assert_eq!(ids, ["bbbbbbbbbbbb", "aaaaaaaaaaaa"]);
        let row = store.list(1).unwrap().remove(0);
        assert_eq!((row.suite.as_str(), row.device.as_str(), row.filesystem.as_str()), ("check", "vda1", "ext4"));
    }

    #[test]
    fn the_history_is_private_to_its_owner() {
        let (_dir, path) = place();
        Store::open(&path).unwrap().save(&record("aaaaaaaaaaaa", 1)).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn a_wrong_or_ambiguous_id_is_reported_with_alternatives() {
        let (_dir, path) = place();
        let store = Store::open(&path).unwrap();
        assert!(error(store.load("4f")).contains("is empty"));
        store.save(&record("4f2a9c01d3e7", 1)).unwrap();
        store.save(&record("4f2a00000000", 2)).unwrap();
        assert!(error(store.load("4f2a9d")).contains("did you mean 4f2a9c01d3e7? `qd1 history` lists all 2"));
        assert!(error(store.load("4f2")).contains("is ambiguous: 2 runs begin with it (4f2a00000000, 4f2a9c01d3e7)"));
        assert!(error(store.load("77777777")).contains("`qd1 history` lists"));
        assert!(error(store.load(" ")).contains("empty run id"));
    }

    /// One of them hid the whole history, or caused a panic when a wrong id was looked up.
    #[test]
    fn a_damaged_row_does_not_hide_the_others() {
        let (_dir, path) = place();
        let store = Store::open(&path).unwrap();
        store.save(&record("aaaaaaaaaaaa", 2)).unwrap();
        store.save(&record("bbbbbbbbbbbb", 1)).unwrap();
        let damage = "UPDATE run SET id = 'b\u{e9}bbbbbbbbbb', path = CAST(x'fe' AS TEXT) WHERE id LIKE 'b%'";
        store.db.execute(damage, []).unwrap();
        let rows = store.list(10).unwrap();
        assert_eq!((rows.len(), rows[0].id.as_str(), rows[1].path.as_str()), (2, "aaaaaaaaaaaa", "\u{fffd}"));
        assert_eq!(store.load("aa").unwrap().started_unix_ns, 2);
        assert!(error(store.load("bcbb")).contains("did you mean"));
    }

    /// A check over an hour, in which nothing was measured yet.
    fn over_an_hour(id: &str) -> Record {
        Record { id: id.into(), started_unix_ns: 1, ..sample::over_an_hour() }
    }

    #[test]
    fn a_long_run_is_kept_round_by_round_and_then_whole() {
        let (_dir, path) = place();
        let store = Store::open(&path).unwrap();
        store.begin(&over_an_hour("aaaaaaaaaaaa")).unwrap();
        (0..3).for_each(|number| store.add_round("aaaaaaaaaaaa", &sample::round(number)).unwrap());
        // As another process finds it, or this one after a reboot.
        let so_far = Store::read(&path).unwrap().load("a").unwrap();
        let once: u64 = sample::round(0).steps[0].streams[0].lat.count();
        assert_eq!(so_far.steps[0].streams[0].lat.count(), 3 * once);
        assert_eq!(so_far.over.as_ref().unwrap().next(), 3);
        assert!(so_far.is_unfinished());
        assert!(store.add_round("aaaaaaaaaaaa", &sample::round(2)).unwrap_err().is::<Taken>());
        // Interrupted, it is kept whole and can go on; once it is over, it cannot.
        store.save(&so_far).unwrap();
        assert_eq!(store.load("a").unwrap().steps[0].streams[0].lat.count(), 3 * once, "no round counts twice");
        store.add_round("aaaaaaaaaaaa", &sample::round(3)).unwrap();
        let over = Record { interrupted: false, ..store.load("a").unwrap() };
        store.save(&over).unwrap();
        assert!(store.load("a").unwrap() == over);
        assert!(error(store.save(&over)).contains("already"));
        assert!(!store.list(1).unwrap()[0].interrupted);
    }

    #[test]
    fn history_is_not_rewritten() {
        let (_dir, path) = place();
        let store = Store::open(&path).unwrap();
        store.save(&record("aaaaaaaaaaaa", 1)).unwrap();
        assert!(error(store.save(&record("aaaaaaaaaaaa", 2))).contains("already"));
        assert_eq!(store.load("a").unwrap().started_unix_ns, 1);
    }

    #[test]
    fn a_record_of_a_newer_layout_is_refused() {
        let (_dir, path) = place();
        let store = Store::open(&path).unwrap();
        let newer = Record { schema_version: SCHEMA_VERSION + 1, version: "9.0".into(), ..record("aaaaaaaaaaaa", 1) };
        store.save(&newer).unwrap();
        let error = error(store.load("aaaa"));
        assert!(error.contains("written by qd1 9.0") && error.contains("update qd1"), "{error}");
    }

    #[test]
    fn tables_of_a_newer_qd1_are_left_alone() {
        let (_dir, path) = place();
        Store::open(&path).unwrap().db.pragma_update(None, "user_version", 99).unwrap();
        let error = error(Store::open(&path));
        assert!(error.contains("newer qd1") && error.contains("--no-save"), "{error}");
    }

    #[test]
    fn another_file_at_its_path_is_reported_and_not_touched() {
        let (_dir, path) = place();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = "not a database, but long enough to look at ".repeat(50);
        std::fs::write(&path, &text).unwrap();
        assert!(error(Store::open(&path)).contains("not an SQLite database"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn an_unwritable_path_is_reported_with_what_to_do() {
        for place in ["/proc/qd1/history.db", "/dev/null/history.db", "/"] {
            let error = error(Store::open(Path::new(place)));
            assert!(error.contains("QD1_STORE") && error.contains("--no-save"), "{place}: {error}");
        }
    }

    #[test]
    fn a_long_record_is_packed_to_a_fraction() {
        let record = sample::long_record();
        let json = serde_json::to_vec(&record).unwrap().len();
        let blob = pack(&record).unwrap();
        assert!(json > 20_000 && blob.len() * 3 < json, "{json} B of JSON became {} B", blob.len());
        assert!(unpack(&blob, "").unwrap() == record);
    }

    #[test]
    fn two_runs_that_end_together_are_both_kept() {
        let (_dir, path) = place();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    let store = Store::open(path).unwrap();
                    (0..5).for_each(|at| store.save(&record(&format!("{writer}{at}0000000000"), at)).unwrap());
                });
            }
        });
        assert_eq!(Store::open(&path).unwrap().list(100).unwrap().len(), 20);
    }

    /// The process that the next test kills; on its own, without the variable, it does nothing.
    #[test]
    fn saver_for_the_sigkill_test() {
        let Some(path) = std::env::var_os("QD1_TEST_SAVE_TO") else { return };
        let store = Store::open(Path::new(&path)).unwrap();
        let long = sample::long_record();
        // Bounded, so that it ends even if the test dies first.
        for at in 0_u64..2000 {
            store.save(&Record { id: format!("{at:012x}"), started_unix_ns: at, ..long.clone() }).unwrap();
        }
    }

    #[test]
    fn sigkill_leaves_whole_runs_only() {
        let (_dir, path) = place();
        for round in 1..=3 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "tests::saver_for_the_sigkill_test"])
                .env("QD1_TEST_SAVE_TO", &path)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let runs = || Store::open(&path).and_then(|store| store.list(usize::MAX)).map_or(0, |rows| rows.len());
            for _ in 0..6_000 {
                if runs() >= 3 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10 + round));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            let store = Store::open(&path).unwrap();
            let check: String = store.db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(check, "ok");
            let rows = store.list(usize::MAX).unwrap();
            assert!(rows.len() >= 3, "{} runs", rows.len());
            assert!(rows.iter().all(|row| store.load(&row.id).unwrap().id == row.id));
            std::fs::remove_file(&path).unwrap();
        }
    }

    /// The other process of the next test; on its own, without the variable, it does nothing.
    #[test]
    fn reader_for_the_locks_test() {
        let Some(path) = std::env::var_os("QD1_TEST_READ_FROM") else { return };
        Store::read(Path::new(&path)).unwrap().list(1).unwrap();
    }

    /// A process loses its locks on a file when it closes any descriptor of it. The second opening looked at the header
    /// through one of its own: another process then took itself for the last one, removed the WAL, and what was kept after
    /// that was gone.
    #[test]
    fn a_second_opening_in_one_process_costs_the_first_no_locks() {
        let (_dir, path) = place();
        let store = Store::open(&path).unwrap();
        store.begin(&over_an_hour("aaaaaaaaaaaa")).unwrap();
        let _second = Store::open(&path).unwrap();
        let reader = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::reader_for_the_locks_test"])
            .env("QD1_TEST_READ_FROM", &path)
            .stdout(Stdio::null())
            .status();
        assert!(reader.unwrap().success());
        store.add_round("aaaaaaaaaaaa", &sample::round(0)).unwrap();
        assert!(path.with_extension("db-wal").exists());
        let other = Command::new("cp").arg(&path).arg(path.with_extension("copy")).status();
        assert!(other.unwrap().success());
        std::fs::copy(path.with_extension("db-wal"), path.with_extension("copy-wal")).unwrap();
        let kept = Store::read(&path.with_extension("copy")).unwrap().load("a").unwrap();
        assert_eq!(kept.over.map(|over| over.next()), Some(1));
    }

    /// Names and contents of all files, which show any change.
    fn state_of(dir: &Path) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
            .collect();
        files.sort();
        files
    }

    /// Cause: `QD1_STORE` of a browser's database got our table, WAL mode and our user_version.
    #[test]
    fn another_programs_database_is_refused_byte_for_byte() {
        let script = "CREATE TABLE cookies (id INTEGER PRIMARY KEY, host TEXT); INSERT INTO cookies VALUES (1, 'x');";
        let lookalike = MIGRATIONS[0].replace("suite ", "suites ");
        for (more, version) in [("", 0), ("", 1), ("PRAGMA application_id = 7", 0), ("PRAGMA journal_mode = WAL", 1)] {
            for tables in [script, &lookalike, ""] {
                if tables.is_empty() && !more.contains("application_id") {
                    continue;
                }
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("theirs.db");
                let db = Connection::open(&path).unwrap();
                db.execute_batch(&format!("{tables}; PRAGMA user_version = {version}; {more}")).unwrap();
                drop(db);
                let before = state_of(dir.path());
                let error = error(Store::open(&path));
                assert!(error.contains("another program"), "{more} {version}: {error}");
                assert!(state_of(dir.path()) == before, "{more} {version}: changed");
            }
        }
    }

    /// Cause: 300 KB of zlib took 795 MB.
    #[test]
    fn a_small_blob_that_inflates_without_end_is_refused() {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
        let spaces = vec![b' '; 1 << 20];
        (0..300).for_each(|_| zlib.write_all(&spaces).unwrap());
        let error = error(unpack(&zlib.finish().unwrap(), "1"));
        assert!(error.contains("is damaged: it would take more than"), "{error}");
    }

    /// Cause: one changed number made `history show` ask for 11 GB: time without intervals, rows and processors of the
    /// predictions, intervals of years.
    #[test]
    fn numbers_that_would_fill_the_memory_are_damage() {
        use qd1_model::plan::prediction::{DiskError, Experience, PredictionPlan};
        use qd1_model::prediction::Predicts::EtcdRate;
        let changes: [fn(&mut Record); 8] = [
            |record| record.steps[0].steal = 1e308,
            |record| {
                let errors = vec![DiskError { error: 1e9, sd: 0.0 }];
                let experience = vec![Experience { what: EtcdRate, clients: 1, errors }];
                record.plan.prediction = Some(PredictionPlan { scale: 50, experience });
            },
            |record| record.steps[0].intervals[9].start_ns = 1 << 60,
            |record| record.steps[0].intervals[9].length_ns = u64::MAX,
            |record| record.steps[0].intervals.last_mut().unwrap().start_ns = u64::MAX,
            |record| record.steps[0].intervals[9].streams[0].bins[0].0 = 60_000,
            |record| record.environment.cpus = u32::MAX,
            |record| {
                record.plan.prediction = Some(PredictionPlan { scale: u32::MAX, experience: Vec::new() });
            },
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut record = sample::long_record();
            change(&mut record);
            let error = error(unpack(&pack(&record).unwrap(), "1"));
            assert!(error.contains("is damaged"), "{at}: {error}");
        }
        let rounds = |record: &mut Record| record.over.get_or_insert_default().rounds.push(RoundRecord::default());
        let changes: [&dyn Fn(&mut Record); 5] = [
            &|record| record.plan.over.as_mut().unwrap().duration_ns = u64::MAX,
            &|record| record.plan.over.as_mut().unwrap().rounds = u32::MAX,
            &|record| (0..2).for_each(|_| rounds(record)),
            &|record| record.over.get_or_insert_default().rounds.push(sample::round(14).round),
            &|record| record.plan.over = None,
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut record = over_an_hour("aaaaaaaaaaaa");
            rounds(&mut record);
            unpack(&pack(&record).unwrap(), "1").unwrap();
            change(&mut record);
            let error = error(unpack(&pack(&record).unwrap(), "1"));
            assert!(error.contains("is damaged"), "{at}: {error}");
        }
    }

    #[test]
    fn a_blob_of_endless_empty_histograms_is_damage() {
        let hist = serde_json::to_string(&qd1_model::Hist::new()).unwrap();
        let json = format!("{{\"schema_version\": 1, \"x\": [{}0]}}", format!("{hist},").repeat(100_000));
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
        zlib.write_all(json.as_bytes()).unwrap();
        let error = error(unpack(&zlib.finish().unwrap(), "1"));
        assert!(error.contains("is damaged: it has 100000 histograms"), "{error}");
    }

    /// A history as qd1 made it before it wrote its application_id.
    fn old_history(path: &Path) -> Connection {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let db = Connection::open(path).unwrap();
        db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        db.execute_batch(&format!("{}; PRAGMA user_version = 1", MIGRATIONS[0])).unwrap();
        db
    }

    #[test]
    fn an_old_history_is_known_by_its_tables_and_stamped() {
        let (_dir, path) = place();
        // Even while nothing of it is in the file itself yet.
        let writer = old_history(&path);
        assert!(Store::read(&path).unwrap().list(9).unwrap().is_empty());
        assert_eq!(std::fs::read(&path).unwrap().get(68..72), Some(&[0; 4][..]), "reading stamps nothing");
        Store::open(&path).unwrap().save(&record("aaaaaaaaaaaa", 1)).unwrap();
        drop(writer);
        assert_eq!(std::fs::read(&path).unwrap()[68..72], *b"qd1h");
        assert_eq!(Store::read(&path).unwrap().list(9).unwrap().len(), 1);
    }

    #[test]
    fn reading_a_missing_history_does_not_create_one() {
        let (dir, path) = place();
        let store = Store::read(&path).unwrap();
        assert!(store.list(9).unwrap().is_empty() && error(store.load("4f")).contains("is empty"));
        assert!(state_of(dir.path()).is_empty());
    }

    /// Cause: an empty disk was made a database.
    #[test]
    fn anything_but_a_regular_file_is_refused() {
        for path in ["/dev/zero", "/"] {
            for opened in [Store::open(Path::new(path)), Store::read(Path::new(path))] {
                assert!(error(opened).contains("not a regular file"), "{path}");
            }
        }
    }

    #[test]
    fn no_save_is_not_suggested_to_readers() {
        let (_dir, path) = place();
        let newer = Store::open(&path).unwrap();
        newer.db.pragma_update(None, "user_version", 99).unwrap();
        let error = error(Store::read(&path));
        assert!(error.contains("newer qd1") && !error.contains("--no-save"), "{error}");
    }

    #[test]
    fn runs_are_found_by_every_filter() {
        let (_dir, path) = place();
        let store = Store::open(&path).unwrap();
        let mut other = record("bbbbbbbbbbbb", 2_000);
        (other.environment.hostname, other.plan.suite) = ("db2".to_owned(), "sweep".to_owned());
        other.plan.target.path = "/srv/data/sub".into();
        let mut first = record("aaaaaaaaaaaa", 1_000);
        first.plan.target.path = "/srv/database".into();
        for record in [&first, &other] {
            store.save(record).unwrap();
        }
        store.tag("bbbb", &["nightly".to_owned(), "old".to_owned(), "nightly".to_owned()], true).unwrap();
        store.tag("bbbb", &["old".to_owned()], false).unwrap();
        store.note("bbbb", "it's \"new\"").unwrap();
        let ids = |filter: Filter| {
            store.find(&filter, 9).unwrap().into_iter().map(|row| row.id[..1].to_owned()).collect::<String>()
        };
        let word = |text: &str| Some(text.to_owned());
        assert_eq!(ids(Filter::default()), "ba");
        assert_eq!(ids(Filter { host: word("db2"), ..Filter::default() }), "b");
        assert_eq!(ids(Filter { suite: word("sweep"), ..Filter::default() }), "b");
        assert_eq!(ids(Filter { tag: word("nightly"), ..Filter::default() }), "b");
        assert_eq!(ids(Filter { tag: word("old"), ..Filter::default() }), "");
        for (place, found) in
            [("/srv", "ba"), ("/srv/", "ba"), ("/srv/data", "b"), ("/srv/data/sub", "b"), ("/", "ba"), ("/srv/dat", "")]
        {
            assert_eq!(ids(Filter { path: word(place), ..Filter::default() }), found, "{place}");
        }
        let time = |since, until| Filter { since_unix_ns: since, until_unix_ns: until, ..Filter::default() };
        assert_eq!([ids(time(Some(1_500), None)), ids(time(None, Some(2_000)))], ["b", "a"]);
        let row =
            store.find(&Filter { host: word("db2"), tag: word("nightly"), ..Filter::default() }, 9).unwrap().remove(0);
        assert_eq!((row.tags, row.note.as_deref()), (vec!["nightly".to_owned()], Some("it's \"new\"")));
        store.note("bbbb", "").unwrap();
        assert_eq!(store.list(1).unwrap()[0].note, None);
        store.remove(&["bbbbbbbbbbbb".to_owned()]).unwrap();
        assert_eq!(
            (ids(Filter::default()), ids(Filter { tag: word("nightly"), ..Filter::default() })),
            ("a".into(), String::new())
        );
    }

    /// The earlier tables are in a file next to the history, which an earlier qd1 can still read.
    #[test]
    fn a_history_is_copied_before_its_tables_change_and_its_hosts_are_learnt() {
        let (dir, path) = place();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let db = Connection::open(&path).unwrap();
        MIGRATIONS[..3].iter().for_each(|script| db.execute_batch(script).unwrap());
        db.execute_batch("PRAGMA application_id = 0x71643168; PRAGMA user_version = 3").unwrap();
        let kept = record("aaaaaaaaaaaa", 1);
        let columns = "id, started_unix_ns, elapsed_ns, suite, path, device, filesystem, version, interrupted, record";
        db.execute(
            &format!("INSERT INTO run ({columns}) VALUES (?, 1, 1, 'check', '/srv', 'vda', 'ext4', '0.1.0', 0, ?)"),
            (&kept.id, pack(&kept).unwrap()),
        )
        .unwrap();
        drop(db);
        // Reading it changes nothing.
        assert_eq!(Store::read(&path).unwrap().list(9).unwrap()[0].host, None);
        let copy = dir.path().join("state/qd1/history.db.v3");
        assert!(!copy.exists());
        let store = Store::open(&path).unwrap();
        store.learn_hosts().unwrap();
        let host = kept.environment.hostname.clone();
        let filter = Filter { host: Some(host), ..Filter::default() };
        assert_eq!(store.find(&filter, 9).unwrap().len(), 1);
        let copied = Connection::open(&copy).unwrap();
        let version: usize = copied.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!((version, std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777), (3, 0o600));
        assert!(Store::read(&copy).unwrap().load("aaaa").unwrap() == kept);
    }

    #[test]
    fn ten_thousand_runs_are_listed_and_filtered_without_being_unpacked() {
        let (_dir, path) = place();
        let store = Store::open(&path).unwrap();
        store.save(&record("aaaaaaaaaaaa", 1)).unwrap();
        // A blob that would be an error, if anybody looked at it.
        store
            .db
            .execute_batch(
                "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
                 INSERT INTO run (id, started_unix_ns, elapsed_ns, suite, path, device, filesystem, version, interrupted, record, host)
                 SELECT printf('%012x', i), i, 1, 'check', '/srv', 'vda', 'ext4', '0.1.0', 0, x'00', printf('h%d', i % 7) FROM n;
                 INSERT INTO tag SELECT id, 'all' FROM run",
            )
            .unwrap();
        let filter = Filter { host: Some("h3".into()), tag: Some("all".into()), ..Filter::default() };
        assert_eq!(
            (store.list(usize::MAX).unwrap().len(), store.find(&filter, usize::MAX).unwrap().len()),
            (10_000, 1_429)
        );
    }
}

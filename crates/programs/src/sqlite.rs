//! `qd1 app sqlite`: qd1's built-in SQLite, in this process: commits by journal and synchronous mode, and reads.
//!
//! SQLite issues its own I/O, although it is linked in, so it is here and not in the engine. Each operation is one
//! statement in its own transaction, as in programs that store one item at a time.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use fastrand::Rng;
use qd1_clock as clock;
use qd1_model::op::{Ended, OpClass};
use qd1_model::plan::program::Program;
use qd1_model::plan::{StepPlan, Stop};
use qd1_model::record::program::{AppStep, Setting};
use qd1_model::{Bytes, Problem, ProblemKind};
use rusqlite::{Connection, params};

use crate::options::{JournalMode, SqliteOptions, Synchronous};
use crate::program::{Driver, Loaded, Site};
use crate::tally::Tally;
use qd1_runner::watch::{Pacer, Watch};
use qd1_system::child::Cancelled;
use qd1_system::scratch::Scratch;
use qd1_system::trust;

/// Bytes of a row's value.
const VALUE: usize = 200;
/// Name of the read load.
const READS: &str = "reads";
/// Rows per transaction while the table is filled.
const ROWS_AT_ONCE: u32 = 10_000;

/// SQLite with its options.
pub struct Sqlite {
    options: SqliteOptions,
    base: Option<Base>,
}

/// The filled database.
struct Base {
    file: PathBuf,
    _dir: Scratch,
}

impl Sqlite {
    /// Creates the driver.
    pub fn new(options: SqliteOptions) -> Self {
        Self { options, base: None }
    }

    fn modes(&self) -> Vec<(JournalMode, Synchronous)> {
        let (mut journals, mut synchronous) = (self.options.journal.clone(), self.options.synchronous.clone());
        journals.dedup();
        synchronous.dedup();
        journals.iter().flat_map(|journal| synchronous.iter().map(|mode| (*journal, *mode))).collect()
    }
}

impl Driver for Sqlite {
    fn program(&self) -> Program {
        Program::Sqlite
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.options.path)
    }

    fn steps(&self) -> Vec<StepPlan> {
        let (rows, runtime_ns) = (self.options.rows, self.options.runtime_ns);
        let step = |name: String, title: String| crate::program::step(Program::Sqlite, name, title, 1, 0, runtime_ns);
        let commits = self.modes().into_iter().map(|(journal, mode)| {
            let (journal, mode) = (journal.name(), mode.name());
            let title = format!("one of {rows} rows per commit, journal_mode={journal}, synchronous={mode}");
            step(format!("{journal}-{mode}"), title)
        });
        let reads = format!("one of {rows} rows by key, mostly from memory");
        commits.chain([step(READS.to_owned(), reads)]).collect()
    }

    fn space(&self) -> Bytes {
        // Row, key and page overhead, and the log.
        Bytes(u64::from(self.options.rows) * 300 * 2 + (64 << 20))
    }

    fn check(&mut self) -> Result<()> {
        if self.options.runtime_ns == 0 {
            bail!(Problem::usage("--runtime must be more than zero, for example 5s"));
        }
        Ok(())
    }

    fn prepare(&mut self, site: &Site<'_>, watch: &mut dyn Watch) -> Result<(String, Vec<Setting>)> {
        // SQLite resolves the path again and opens the files by name, whatever the names refer to by then.
        if let Some(dir) = trust::leads_root_astray(site.path) {
            let dir = dir.display();
            let why =
                format!("another user can change {dir} and thereby redirect SQLite, running as root, to other files");
            let advice = "run this as that user, or name a directory that only root can change";
            bail!(Problem::new(ProblemKind::Unsafe, format!("{why}; {advice}")));
        }
        watch.note(&format!("filling a table with {} rows", self.options.rows));
        let dir = site.scratch()?;
        let file = dir.path().join("base.db");
        // Stored before the first file is made, so that it is removed even if filling fails.
        self.base = Some(Base { file: file.clone(), _dir: dir });
        fill(&file, self.options.rows, site)?;
        let setting = |name: &str, value: String| Setting { name: name.to_owned(), value };
        let settings = vec![
            setting("rows", self.options.rows.to_string()),
            setting("value bytes", VALUE.to_string()),
            setting("page_size", "4096".to_owned()),
            setting("wal_autocheckpoint", "1000".to_owned()),
            setting("cache", self.options.cache.map_or("2 MB".to_owned(), |cache| cache.to_string())),
        ];
        Ok((rusqlite::version().to_owned(), settings))
    }

    fn load(&mut self, step: &StepPlan, site: &Site<'_>, watch: &mut dyn Watch) -> Result<Loaded> {
        let base = self.base.as_ref().context("the database has not been created")?;
        let mode =
            self.modes().into_iter().find(|(journal, mode)| step.name == format!("{}-{}", journal.name(), mode.name()));
        let db = open(&base.file, mode)?;
        if let Some(cache) = self.options.cache {
            // A negative number of pages is a number of KiB.
            db.execute_batch(&format!("pragma cache_size = -{}", cache.0.div_ceil(1024)))?;
            // A user who gives it memory expects the table to be cached: on a disk with slow reads, reading it in took
            // a whole load.
            db.query_row("select sum(length(value)) from kv", [], |row| row.get::<_, i64>(0))?;
        }
        let mut load = Running {
            rows: u64::from(self.options.rows),
            random: random_of(site.seed, &step.name),
            tally: Tally::new(if mode.is_some() { OpClass::Commit } else { OpClass::Read }, step.stop.max_ns),
            fault: String::new(),
        };
        let start_ns = clock::now_ns();
        match mode {
            Some(_) => load.commits(&db, start_ns, &step.stop, site.cancel, watch)?,
            None => load.reads(&db, start_ns, &step.stop, site.cancel, watch)?,
        }
        if load.tally.settle() == 0 {
            if site.is_cancelled() {
                return Err(Cancelled.into());
            }
            let fault = if load.fault.is_empty() { "no operation completed in the measured time" } else { &load.fault };
            bail!("{fault}");
        }
        let ended = match (site.is_cancelled(), load.fault.is_empty()) {
            (true, _) => Ended::Interrupted,
            (false, true) => Ended::Time,
            (false, false) => Ended::Failed,
        };
        let least_ns = if ended == Ended::Time { step.stop.max_ns } else { 1 };
        let runtime_ns = load.tally.seen_ns().max(least_ns);
        let (stream, intervals) = load.tally.finish(runtime_ns);
        let (streams, fault, app) = (stream.into_iter().collect(), load.fault, AppStep::default());
        Ok(Loaded { streams, intervals, runtime_ns, ended, fault, app, ..Loaded::default() })
    }

    fn end(&mut self) -> Result<()> {
        self.base = None;
        Ok(())
    }
}

/// Creates and fills the table, which is durable at the end, so that no load pays for it.
fn fill(file: &Path, rows: u32, site: &Site<'_>) -> Result<()> {
    let message = || format!("SQLite cannot fill {}", file.display());
    let mut db = Connection::open(file).with_context(message)?;
    db.execute_batch("pragma page_size = 4096; create table kv (id integer primary key, value blob not null)")
        .with_context(message)?;
    let mut random = random_of(site.seed, "fill");
    let mut done = 0;
    while done < rows {
        if site.is_cancelled() {
            return Err(Cancelled.into());
        }
        let until = rows.min(done + ROWS_AT_ONCE);
        let transaction = db.transaction()?;
        {
            let mut insert = transaction.prepare("insert into kv values (?, ?)")?;
            for id in done..until {
                insert.execute(params![id, value(&mut random)]).with_context(message)?;
            }
        }
        transaction.commit().with_context(message)?;
        done = until;
    }
    Ok(())
}

/// Opens the database in this mode, or without one, in its current mode.
fn open(file: &Path, mode: Option<(JournalMode, Synchronous)>) -> Result<Connection> {
    let db = Connection::open(file).context("SQLite cannot open its database")?;
    db.busy_timeout(Duration::from_secs(1))?;
    if let Some((journal, synchronous)) = mode {
        let wanted = journal.name();
        let got: String = db.query_row(&format!("pragma journal_mode = {wanted}"), [], |row| row.get(0))?;
        if got != wanted {
            bail!("journal_mode={wanted} is not possible here (it remains {got}); choose another with --journal");
        }
        db.execute_batch(&format!("pragma synchronous = {}", synchronous.name()))?;
    }
    Ok(db)
}

/// A running load.
struct Running {
    rows: u64,
    random: Rng,
    tally: Tally,
    /// The first error.
    fault: String,
}

impl Running {
    fn commits(
        &mut self,
        db: &Connection,
        start_ns: u64,
        stop: &Stop,
        cancel: &AtomicBool,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let mut update = db.prepare("update kv set value = ? where id = ?")?;
        self.repeat(start_ns, stop, cancel, watch, |random, rows| {
            let (value, id) = (value(random), random.u64(..rows));
            let begin_ns = clock::now_ns();
            match update.execute(params![value, id as i64])? {
                1 => Ok(begin_ns),
                changed => Err(rusqlite::Error::StatementChangedRows(changed)),
            }
        });
        Ok(())
    }

    fn reads(
        &mut self,
        db: &Connection,
        start_ns: u64,
        stop: &Stop,
        cancel: &AtomicBool,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let mut select = db.prepare("select length(value) from kv where id = ?")?;
        self.repeat(start_ns, stop, cancel, watch, |random, rows| {
            let id = random.u64(..rows);
            let begin_ns = clock::now_ns();
            select.query_row([id as i64], |row| row.get::<_, i64>(0))?;
            Ok(begin_ns)
        });
        Ok(())
    }

    /// Repeats `operation`, which returns when it began, until the time is up, the user stops it, or it fails.
    fn repeat(
        &mut self,
        start_ns: u64,
        stop: &Stop,
        cancel: &AtomicBool,
        watch: &mut dyn Watch,
        mut operation: impl FnMut(&mut Rng, u64) -> rusqlite::Result<u64>,
    ) {
        let mut pacer = Pacer::default();
        while !cancel.load(std::sync::atomic::Ordering::Relaxed) {
            match operation(&mut self.random, self.rows) {
                Ok(begin_ns) => {
                    let end_ns = clock::now_ns();
                    self.tally.add(end_ns - start_ns, end_ns - begin_ns);
                    if end_ns >= start_ns + stop.max_ns {
                        return;
                    }
                    pacer.take(end_ns - start_ns, || {
                        watch.figures(&self.tally.so_far());
                        watch.tick(end_ns - start_ns, stop);
                    });
                }
                Err(error) => {
                    self.fault = format!("SQLite: {error}");
                    return;
                }
            }
        }
    }
}

/// Returns separate random numbers for each load: SQLite writes nothing if a value stays the same, so a load that
/// repeats another's values would commit nothing.
fn random_of(seed: u64, name: &str) -> Rng {
    let mixed = name.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    Rng::with_seed(mixed)
}

/// Returns bytes that neither compress nor repeat.
fn value(random: &mut Rng) -> Vec<u8> {
    (0..VALUE / 8).flat_map(|_| random.u64(..).to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_stated_length_and_never_repeat() {
        let mut random = Rng::with_seed(7);
        let (one, other) = (value(&mut random), value(&mut random));
        assert_eq!((one.len(), other.len()), (VALUE, VALUE));
        assert_ne!(one, other);
    }

    #[test]
    fn no_load_writes_what_another_wrote() {
        let first = |name: &str| value(&mut random_of(42, name));
        assert_ne!(first("delete-normal"), first("delete-full"));
        assert_eq!(first("wal-full"), first("wal-full"), "the same seed gives the same values");
    }

    #[test]
    fn a_mode_that_is_not_available_is_refused() {
        let db = Connection::open_in_memory().unwrap();
        let got: String = db.query_row("pragma journal_mode = wal", [], |row| row.get(0)).unwrap();
        assert_ne!(got, "wal", "SQLite itself only returns the mode it has");
        let error = open(Path::new(":memory:"), Some((JournalMode::Wal, Synchronous::Full))).unwrap_err().to_string();
        assert!(error.contains("journal_mode=wal is not possible here"), "{error}");
    }
}

//! `qd1 app sqlite`: the SQLite that qd1 carries with it, in this process: commits by journal and synchronous mode, and reads.
//!
//! It is a program of others that issues its own I/O, though it is linked in; so it is here and not in the engine. Each
//! operation is one statement in a transaction of its own, as programs that store one thing at a time use it.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use fastrand::Rng;
use qd1_engine::clock;
use qd1_model::Bytes;
use qd1_model::app::{AppStep, Program, Setting};
use qd1_model::plan::{StepPlan, Stop};
use qd1_model::record::{Ended, OpClass};
use rusqlite::{Connection, params};

use super::args::{AppCommon, SqliteArgs};
use super::child::Cancelled;
use super::tally::Tally;
use super::{App, Loaded, World};
use crate::progress::{Looks, Progress};
use crate::scratch::Scratch;

/// Bytes of a row's value.
const VALUE: usize = 200;
/// Name of the load that reads.
const READS: &str = "reads";
/// Rows written at once while the table is filled.
const ROWS_AT_ONCE: u32 = 10_000;

/// Where SQLite keeps what it needs to take back, or to finish, a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Journal {
    /// A log of new pages, and one sync a commit with synchronous=FULL, none with NORMAL
    Wal,
    /// A rollback journal that is deleted at each commit: SQLite's default
    Delete,
    /// A rollback journal that is cut at each commit
    Truncate,
    /// A rollback journal that is overwritten at each commit
    Persist,
}

/// When SQLite syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Synchronous {
    /// At the moments that keep the database whole; in WAL mode the last commits may be lost
    Normal,
    /// At each commit: SQLite's default
    Full,
    /// And the directory, after the journal is gone
    Extra,
}

impl Journal {
    const fn name(self) -> &'static str {
        match self {
            Self::Wal => "wal",
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Persist => "persist",
        }
    }
}

impl Synchronous {
    const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Full => "full",
            Self::Extra => "extra",
        }
    }
}

/// The program with what it was asked.
pub(super) struct Sqlite {
    args: SqliteArgs,
    base: Option<Base>,
}

/// The filled database.
struct Base {
    file: PathBuf,
    _dir: Scratch,
}

impl Sqlite {
    pub(super) fn new(args: SqliteArgs) -> Self {
        Self { args, base: None }
    }

    fn modes(&self) -> Vec<(Journal, Synchronous)> {
        let (mut journals, mut synchronous) = (self.args.journal.clone(), self.args.synchronous.clone());
        journals.dedup();
        synchronous.dedup();
        journals.iter().flat_map(|journal| synchronous.iter().map(|mode| (*journal, *mode))).collect()
    }
}

impl App for Sqlite {
    fn program(&self) -> Program {
        Program::Sqlite
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.args.path)
    }

    fn common(&self) -> &AppCommon {
        &self.args.common
    }

    fn steps(&self) -> Vec<StepPlan> {
        let (rows, runtime_ns) = (self.args.rows, self.args.runtime);
        let step = |name: String, title: String| super::step(Program::Sqlite, name, title, 1, 0, runtime_ns);
        let commits = self.modes().into_iter().map(|(journal, mode)| {
            let (journal, mode) = (journal.name(), mode.name());
            let title = format!("one row a commit of {rows}, journal_mode={journal}, synchronous={mode}");
            step(format!("{journal}-{mode}"), title)
        });
        let reads = format!("one row by its key of {rows}, mostly from memory");
        commits.chain([step(READS.to_owned(), reads)]).collect()
    }

    fn space(&self) -> Bytes {
        // Row, key and page overhead; the log beside it.
        Bytes(u64::from(self.args.rows) * 300 * 2 + (64 << 20))
    }

    fn check(&mut self) -> Result<()> {
        if self.args.runtime == 0 {
            bail!(qd1_model::Problem::usage("--runtime needs some time, for example 5s"));
        }
        Ok(())
    }

    fn options(&self) -> Vec<String> {
        let journals: Vec<&str> = self.args.journal.iter().map(|journal| journal.name()).collect();
        let modes: Vec<&str> = self.args.synchronous.iter().map(|mode| mode.name()).collect();
        let pairs = [
            ("--journal", journals.join(",")),
            ("--synchronous", modes.join(",")),
            ("--runtime", format!("{}ms", self.args.runtime / 1_000_000)),
            ("--rows", self.args.rows.to_string()),
        ];
        let cache = self.args.cache.map(|cache| ("--cache", cache.0.to_string()));
        pairs.into_iter().chain(cache).flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    fn prepare(&mut self, world: &World<'_>, progress: &mut Progress) -> Result<(String, Vec<Setting>)> {
        progress.note(&format!("filling a table with {} rows", self.args.rows));
        let dir = world.scratch()?;
        let file = dir.path().join("base.db");
        // Kept from the first file on, so that it goes also where filling fails.
        self.base = Some(Base { file: file.clone(), _dir: dir });
        fill(&file, self.args.rows, world)?;
        let setting = |name: &str, value: String| Setting { name: name.to_owned(), value };
        let settings = vec![
            setting("rows", self.args.rows.to_string()),
            setting("value bytes", VALUE.to_string()),
            setting("page_size", "4096".to_owned()),
            setting("wal_autocheckpoint", "1000".to_owned()),
            setting("cache", self.args.cache.map_or("2 MB".to_owned(), |cache| cache.to_string())),
        ];
        Ok((rusqlite::version().to_owned(), settings))
    }

    fn load(&mut self, step: &StepPlan, world: &World<'_>, progress: &mut Progress) -> Result<Loaded> {
        let base = self.base.as_ref().context("there is no database")?;
        let mode =
            self.modes().into_iter().find(|(journal, mode)| step.name == format!("{}-{}", journal.name(), mode.name()));
        let db = open(&base.file, mode)?;
        if let Some(cache) = self.args.cache {
            // A negative number of pages is a number of KiB.
            db.execute_batch(&format!("pragma cache_size = -{}", cache.0.div_ceil(1024)))?;
        }
        let mut load = Running {
            rows: u64::from(self.args.rows),
            random: random_of(world.seed, &step.name),
            tally: Tally::new(if mode.is_some() { OpClass::Commit } else { OpClass::Read }, step.stop.max_ns),
            fault: String::new(),
        };
        let start_ns = clock::now_ns();
        match mode {
            Some(_) => load.commits(&db, start_ns, &step.stop, world.cancel, progress)?,
            None => load.reads(&db, start_ns, &step.stop, world.cancel, progress)?,
        }
        if load.tally.count() == 0 {
            if world.is_cancelled() {
                return Err(Cancelled.into());
            }
            let fault = if load.fault.is_empty() { "nothing was completed in its time" } else { &load.fault };
            bail!("{fault}");
        }
        let ended = match (world.is_cancelled(), load.fault.is_empty()) {
            (true, _) => Ended::Interrupted,
            (false, true) => Ended::Time,
            (false, false) => Ended::Failed,
        };
        let runtime_ns = if ended == Ended::Time { step.stop.max_ns } else { load.tally.seen_ns().max(1) };
        let (stream, intervals) = load.tally.finish(runtime_ns);
        let (streams, fault, app) = (stream.into_iter().collect(), load.fault, AppStep::default());
        Ok(Loaded { streams, intervals, runtime_ns, ended, fault, app, ..Loaded::default() })
    }

    fn end(&mut self) -> Result<()> {
        self.base = None;
        Ok(())
    }
}

/// Makes the table; durable at its end, so that no load pays for it.
fn fill(file: &Path, rows: u32, world: &World<'_>) -> Result<()> {
    let explained = || format!("SQLite cannot fill {}", file.display());
    let mut db = Connection::open(file).with_context(explained)?;
    db.execute_batch("pragma page_size = 4096; create table kv (id integer primary key, value blob not null)")
        .with_context(explained)?;
    let mut random = random_of(world.seed, "fill");
    let mut done = 0;
    while done < rows {
        if world.is_cancelled() {
            return Err(Cancelled.into());
        }
        let until = rows.min(done + ROWS_AT_ONCE);
        let transaction = db.transaction()?;
        {
            let mut insert = transaction.prepare("insert into kv values (?, ?)")?;
            for id in done..until {
                insert.execute(params![id, value(&mut random)]).with_context(explained)?;
            }
        }
        transaction.commit().with_context(explained)?;
        done = until;
    }
    Ok(())
}

/// Opens it in this mode; for reading as it is.
fn open(file: &Path, mode: Option<(Journal, Synchronous)>) -> Result<Connection> {
    let db = Connection::open(file).context("SQLite cannot open its database")?;
    db.busy_timeout(Duration::from_secs(1))?;
    if let Some((journal, synchronous)) = mode {
        let asked = journal.name();
        let got: String = db.query_row(&format!("pragma journal_mode = {asked}"), [], |row| row.get(0))?;
        if got != asked {
            bail!("journal_mode={asked} is not possible here (it stays {got}); choose another with --journal");
        }
        db.execute_batch(&format!("pragma synchronous = {}", synchronous.name()))?;
    }
    Ok(db)
}

/// A load that goes on.
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
        progress: &mut Progress,
    ) -> Result<()> {
        let mut update = db.prepare("update kv set value = ? where id = ?")?;
        self.each(start_ns, stop, cancel, progress, |random, rows| {
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
        progress: &mut Progress,
    ) -> Result<()> {
        let mut select = db.prepare("select length(value) from kv where id = ?")?;
        self.each(start_ns, stop, cancel, progress, |random, rows| {
            let id = random.u64(..rows);
            let begin_ns = clock::now_ns();
            select.query_row([id as i64], |row| row.get::<_, i64>(0))?;
            Ok(begin_ns)
        });
        Ok(())
    }

    /// Repeats `operation`, which says when it began, until the time is up, the user stops it, or it fails.
    fn each(
        &mut self,
        start_ns: u64,
        stop: &Stop,
        cancel: &AtomicBool,
        progress: &mut Progress,
        mut operation: impl FnMut(&mut Rng, u64) -> rusqlite::Result<u64>,
    ) {
        let mut looks = Looks::new();
        while !cancel.load(std::sync::atomic::Ordering::Relaxed) {
            match operation(&mut self.random, self.rows) {
                Ok(begin_ns) => {
                    let end_ns = clock::now_ns();
                    self.tally.add(end_ns - start_ns, end_ns - begin_ns);
                    if end_ns >= start_ns + stop.max_ns {
                        return;
                    }
                    looks.take(end_ns - start_ns, || {
                        progress.figures(&self.tally.so_far());
                        progress.tick(end_ns - start_ns, stop);
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

/// A stream of its own for each load: SQLite writes nothing where a value stays the same, so that a load that repeated
/// another's values would commit nothing.
fn random_of(seed: u64, name: &str) -> Rng {
    let mixed = name.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    Rng::with_seed(mixed)
}

/// Bytes that neither compress nor repeat.
fn value(random: &mut Rng) -> Vec<u8> {
    (0..VALUE / 8).flat_map(|_| random.u64(..).to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_the_said_length_and_never_the_same() {
        let mut random = Rng::with_seed(7);
        let (one, other) = (value(&mut random), value(&mut random));
        assert_eq!((one.len(), other.len()), (VALUE, VALUE));
        assert_ne!(one, other);
    }

    #[test]
    fn no_load_writes_what_another_wrote() {
        let first = |name: &str| value(&mut random_of(42, name));
        assert_ne!(first("delete-normal"), first("delete-full"));
        assert_eq!(first("wal-full"), first("wal-full"), "and the same seed brings the same");
    }

    #[test]
    fn a_mode_that_is_not_to_be_had_is_told() {
        let db = Connection::open_in_memory().unwrap();
        let got: String = db.query_row("pragma journal_mode = wal", [], |row| row.get(0)).unwrap();
        assert_ne!(got, "wal", "SQLite itself only says what it has");
        let error = open(Path::new(":memory:"), Some((Journal::Wal, Synchronous::Full))).unwrap_err().to_string();
        assert!(error.contains("journal_mode=wal is not possible here"), "{error}");
    }
}

//! The file of the history: made private, recognised before anything is written, and read even where nothing can be
//! written.
//!
//! `QD1_STORE` can name any file. A database is ours when its header says so (SQLite's `application_id`), or when it
//! has exactly the tables that qd1 made before it said so; anything else is left as it is, to the byte. So a file is
//! looked at read-only first, and where possible `immutable`, which creates no files next to it either.

use std::fmt::Write as _;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::{BUSY, spare};

/// "qd1h", which the header of our databases contains.
const APPLICATION_ID: i32 = 0x7164_3168;
/// Its position in SQLite's file format, and how a database begins.
const APPLICATION_ID_AT: usize = 68;
const MAGIC: &[u8] = b"SQLite format 3\0";

/// `PRAGMA user_version` of each state of the tables; the script at index N migrates from version N to N + 1.
pub(crate) const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE run (
        id              TEXT PRIMARY KEY,
        started_unix_ns INTEGER NOT NULL,
        elapsed_ns      INTEGER NOT NULL,
        suite           TEXT NOT NULL,
        path            TEXT NOT NULL,
        device          TEXT NOT NULL,
        filesystem      TEXT NOT NULL,
        version         TEXT NOT NULL,
        interrupted     INTEGER NOT NULL,
        record          BLOB NOT NULL
    ) STRICT;
    CREATE INDEX run_started ON run (started_unix_ns DESC);
",
    "
    -- A check over hours is kept while it goes on: its run, and each round since that was last written.
    ALTER TABLE run ADD COLUMN unfinished INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE round (
        run    TEXT NOT NULL REFERENCES run (id),
        number INTEGER NOT NULL,
        round  BLOB NOT NULL,
        PRIMARY KEY (run, number)
    ) STRICT;
",
    "
    -- What `qd1 history` says of a run: a note of what an analysis once found, which `qd1 history show` does anew.
    ALTER TABLE run ADD COLUMN headline TEXT;
",
    "
    -- The machine, to find a run by it; what people say of a run.
    ALTER TABLE run ADD COLUMN host TEXT;
    ALTER TABLE run ADD COLUMN note TEXT;
    ALTER TABLE run ADD COLUMN kernel TEXT;
    ALTER TABLE run ADD COLUMN size INTEGER;
    -- What `qd1 history --trend` looks at: whether figures were noted, and these.
    ALTER TABLE run ADD COLUMN has_figures INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE figure (
        run    TEXT NOT NULL REFERENCES run (id),
        step   TEXT NOT NULL,
        op     TEXT NOT NULL,
        metric TEXT NOT NULL,
        value  REAL NOT NULL,
        low    REAL,
        high   REAL,
        PRIMARY KEY (step, metric, run, op)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX figure_run ON figure (run);
    CREATE TABLE tag (
        run TEXT NOT NULL REFERENCES run (id),
        tag TEXT NOT NULL,
        PRIMARY KEY (run, tag)
    ) STRICT;
    CREATE INDEX tag_tag ON tag (tag);
    -- All that a list needs: of a row itself, what lies behind the record is read only by way of the whole record.
    DROP INDEX run_started;
    CREATE INDEX run_list ON run (started_unix_ns DESC, id, elapsed_ns, suite, path, device, filesystem, version, interrupted,
        unfinished, headline, host, note, kernel, size, has_figures);
",
    "
    -- What `qd1 compare` takes of a run, as the version that is named worked it out.
    CREATE TABLE measured (
        run      TEXT PRIMARY KEY REFERENCES run (id),
        noted_by TEXT NOT NULL,
        measured BLOB NOT NULL
    ) STRICT;
",
];

/// Why a file is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    Special,
    NoDatabase,
    Others,
}

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Special => "it is not a regular file",
            Self::NoDatabase => "it is not an SQLite database; move it away to begin a new one",
            Self::Others => "it is the database of another program, and was left unchanged",
        })
    }
}

impl std::error::Error for Foreign {}

/// Opens the history to keep runs, and creates it if there is none.
pub(crate) fn open(path: &Path) -> Result<Connection> {
    recognise(path)?;
    make_private(path)?;
    let mut db = Connection::open(path)?;
    db.busy_timeout(BUSY)?;
    if spare::has_little_room(path) {
        db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    }
    db.pragma_update(None, "synchronous", "FULL")?;
    migrate(&mut db)?;
    // WAL lets `qd1 history` read while a run is saved. If it does not work (some network and FUSE filesystems, a
    // read-only directory), SQLite keeps its rollback journal, which is as safe.
    let _ = db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()));
    Ok(db)
}

/// Opens the history to read it; one that does not exist is empty.
pub(crate) fn read(path: &Path) -> Result<Connection> {
    if !recognise(path)? {
        let mut db = Connection::open_in_memory()?;
        migrate(&mut db)?;
        return Ok(db);
    }
    // If others have it open, they also have the complete index of its WAL.
    if spare::has_little_room(path)
        && let Ok(db) = alone(path)
    {
        return refuse_newer(version(&db)?).map(|()| db);
    }
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    match version(&db) {
        Ok(version) => refuse_newer(version).map(|()| db),
        // Its WAL cannot be created or opened where nothing can be written. The file alone is complete if there is no
        // WAL; and if only the index of the WAL has no room, one in memory suffices as long as nobody else has the
        // history open.
        Err(error) if is_unwritable(&error) => {
            let db = if has_wal(path) { alone(path).map_err(|_| error)? } else { immutable(path)? };
            refuse_newer(version(&db)?).map(|()| db)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns whether there is a history of ours, without changing anything; false where there is none yet.
fn recognise(path: &Path) -> Result<bool> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    if !found.is_file() {
        bail!(Foreign::Special);
    }
    let header = header(path)?;
    if header.is_empty() {
        return Ok(false);
    }
    if !header.starts_with(MAGIC) {
        bail!(Foreign::NoDatabase);
    }
    let id = header.get(APPLICATION_ID_AT..APPLICATION_ID_AT + 4).map(|id| id == APPLICATION_ID.to_be_bytes());
    if id == Some(true) {
        return Ok(true);
    }
    // What the file has decides, if it has any table; a WAL that was never written back may have the first ones.
    let seen = immutable(path).and_then(|db| look(&db));
    let seen = match seen {
        Ok(Tables::None) | Err(_) if has_wal(path) => look(&connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?)?,
        seen => seen?,
    };
    match seen {
        Tables::Ours => Ok(true),
        Tables::None => Ok(false),
        Tables::Others => bail!(Foreign::Others),
    }
}

/// Returns how the file begins. The descriptor is never closed: a process that closes any descriptor of a file loses
/// its locks on it (fcntl_locking(2)), including those of a database that it has open, and another process would then
/// remove the WAL of that database.
fn header(path: &Path) -> Result<Vec<u8>> {
    static OPENED: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let file = File::open(path)?;
    let mut header = Vec::new();
    let read = (&file).take(100).read_to_end(&mut header);
    OPENED.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    read?;
    Ok(header)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tables {
    None,
    Ours,
    Others,
}

/// Returns whose tables `db` has.
fn look(db: &Connection) -> rusqlite::Result<Tables> {
    let id: i32 = db.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let (version, schema) = (version(db)?, schema(db)?);
    if id == APPLICATION_ID {
        return Ok(Tables::Ours);
    }
    if id == 0 && version == 0 && schema.is_empty() {
        return Ok(Tables::None);
    }
    // As histories were made before they had an application_id.
    let ours = Connection::open_in_memory()?;
    ours.execute_batch(MIGRATIONS[0])?;
    Ok(if id == 0 && version == 1 && schema == self::schema(&ours)? { Tables::Ours } else { Tables::Others })
}

/// The definitions of all tables and indexes, one space between words.
fn schema(db: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = db.prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name")?;
    let rows = statement.query_map([], |row| {
        let sql: String = row.get(1)?;
        Ok((row.get(0)?, sql.split_whitespace().collect::<Vec<_>>().join(" ")))
    })?;
    rows.collect()
}

fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(BUSY)?;
    Ok(db)
}

/// Opens a database that nobody else has open, with the index of its WAL in memory.
fn alone(path: &Path) -> rusqlite::Result<Connection> {
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    version(&db)?;
    Ok(db)
}

/// Opens a database as a file that nobody changes: without locks, and without files next to it.
fn immutable(path: &Path) -> rusqlite::Result<Connection> {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            _ if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            _ => write!(uri, "%{byte:02X}").expect("a String takes all"),
        }
    }
    uri.push_str("?immutable=1");
    connect(Path::new(&uri), OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
}

/// Whether a WAL next to the file may have data that the file lacks.
fn has_wal(path: &Path) -> bool {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    std::fs::metadata(PathBuf::from(wal)).is_ok_and(|found| found.len() > 0)
}

fn is_unwritable(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::SystemIoFailure)
    )
}

/// Creates the file before SQLite does, so that it and the journals, which copy its mode, are private from the start.
fn make_private(path: &Path) -> Result<()> {
    if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    if !path.exists() {
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    }
    Ok(())
}

/// The version of the tables.
pub(crate) fn version(db: &Connection) -> rusqlite::Result<usize> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn is_stamped(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("PRAGMA application_id", [], |row| row.get::<_, i32>(0)).map(|id| id == APPLICATION_ID)
}

/// Creates the tables of this version, and marks the header as ours. An earlier version is copied to a file next to it.
fn migrate(db: &mut Connection) -> Result<()> {
    let from = version(db)?;
    if from == MIGRATIONS.len() && is_stamped(db)? {
        return Ok(());
    }
    // Looked at again under the lock: another program may be creating tables.
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if look(&transaction)? == Tables::Others {
        bail!(Foreign::Others);
    }
    let from = version(&transaction)?;
    refuse_newer(from)?;
    if (1..MIGRATIONS.len()).contains(&from) {
        back_up(&transaction, from)?;
    }
    for script in &MIGRATIONS[from..] {
        transaction.execute_batch(script)?;
    }
    transaction.pragma_update(None, "user_version", MIGRATIONS.len())?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.commit()?;
    Ok(())
}

/// Copies a history whose tables have an earlier version to a file next to it, unless that was done before. The copy
/// has its name only once it is whole and on the disk. `db` has the write lock: nobody else copies, and nothing is
/// added between the copy and the change.
fn back_up(db: &Connection, version: usize) -> Result<()> {
    let Some(path) = db.path().filter(|path| !path.is_empty()) else { return Ok(()) };
    let copy = format!("{path}.v{version}");
    let part = format!("{copy}.part");
    let copied = copy_whole(Path::new(path), &part, &copy, version);
    if copied.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    copied.with_context(|| format!("cannot copy it to {copy} before its tables are changed"))
}

fn copy_whole(path: &Path, part: &str, copy: &str, version: usize) -> Result<()> {
    // Left by a process that was killed, like any incomplete copy from before copies were renamed into place.
    remove_if_there(part)?;
    if is_whole(Path::new(copy), version)? {
        return Ok(());
    }
    // Private from the start; SQLite writes into an empty file.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(part)?;
    // By a connection of its own, as no transaction may be open on it.
    connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?.execute("VACUUM INTO ?", [part])?;
    // SQLite does not sync what it copies.
    File::open(part)?.sync_all()?;
    // These would be taken for parts of the new copy.
    ["-wal", "-shm", "-journal"].iter().try_for_each(|end| remove_if_there(&format!("{copy}{end}")))?;
    std::fs::rename(part, copy)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(File::open(directory)?.sync_all()?)
}

fn remove_if_there(path: &str) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether there is a whole history of ours with tables of this version.
///
/// # Errors
/// When that cannot be determined: the file is not replaced then.
fn is_whole(copy: &Path, version: usize) -> Result<bool> {
    match std::fs::metadata(copy) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
        Ok(found) if !found.is_file() => bail!(Foreign::Special),
        Ok(_) => {}
    }
    let checked = || -> rusqlite::Result<bool> {
        let db = if has_wal(copy) { connect(copy, OpenFlags::SQLITE_OPEN_READ_ONLY)? } else { immutable(copy)? };
        let is_sound = db.query_row("PRAGMA quick_check(1)", [], |row| Ok(row.get::<_, String>(0)? == "ok"))?;
        Ok(is_sound && self::version(&db)? == version && look(&db)? == Tables::Ours)
    };
    match checked() {
        Err(error)
            if matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)) =>
        {
            Ok(false)
        }
        checked => Ok(checked?),
    }
}

fn refuse_newer(version: usize) -> Result<()> {
    let known = MIGRATIONS.len();
    if version > known {
        bail!(
            "it was written by a newer qd1 (its tables have version {version}, and this qd1 knows up to {known}); use \
             that qd1"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: usize = 3;

    /// A history as an earlier version made it, with one run that has this id.
    fn earlier(path: &Path, id: &str) {
        let db = Connection::open(path).unwrap();
        MIGRATIONS[..VERSION].iter().for_each(|script| db.execute_batch(script).unwrap());
        db.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        db.pragma_update(None, "user_version", VERSION).unwrap();
        db.execute("INSERT INTO run VALUES (?, 1, 1, 's', 'p', 'd', 'f', '0', 0, zeroblob(100000), 0, NULL)", [id])
            .unwrap();
    }

    /// The ids of the runs in the copy of an earlier version.
    fn copied(copy: &Path) -> Vec<String> {
        assert!(is_whole(copy, VERSION).unwrap());
        let db = immutable(copy).unwrap();
        let mut statement = db.prepare("SELECT id FROM run ORDER BY id").unwrap();
        let ids = statement.query_map([], |row| row.get(0)).unwrap();
        ids.map(Result::unwrap).collect()
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// What a kill during VACUUM INTO left was taken for the copy, so the tables were changed without one.
    #[test]
    fn a_copy_that_is_not_whole_is_replaced() {
        let sample = tempfile::tempdir().unwrap();
        earlier(&sample.path().join("whole"), "aaaa");
        let whole = std::fs::read(sample.path().join("whole")).unwrap();
        let mut torn = whole.clone();
        torn[20_000..60_000].fill(0);
        let mut others = whole.clone();
        // The last byte of user_version.
        others[63] = VERSION as u8 + 1;
        for left in [&[][..], &whole[..4096], &whole[..whole.len() - 4096], &torn, &others, b"no database"] {
            let dir = tempfile::tempdir().unwrap();
            let (path, copy) = (dir.path().join("h.db"), dir.path().join("h.db.v3"));
            earlier(&path, "aaaa");
            std::fs::write(&copy, left).unwrap();
            // These would be read with the new copy.
            std::fs::write(dir.path().join("h.db.v3-journal"), "left").unwrap();
            std::fs::write(dir.path().join("h.db.v3.part"), "left").unwrap();
            drop(open(&path).unwrap());
            assert_eq!(copied(&copy), ["aaaa"]);
            assert_eq!(names(dir.path()), ["h.db", "h.db.v3"]);
        }
    }

    #[test]
    fn a_whole_copy_is_never_replaced_and_what_a_kill_left_goes() {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("h.db"), dir.path().join("h.db.v3"));
        earlier(&path, "aaaa");
        earlier(&copy, "bbbb");
        std::fs::write(dir.path().join("h.db.v3.part"), "left").unwrap();
        drop(open(&path).unwrap());
        assert_eq!(copied(&copy), ["bbbb"]);
        assert_eq!(names(dir.path()), ["h.db", "h.db.v3"]);
    }

    /// The tables stay as they are if no copy can be made.
    #[test]
    fn without_a_copy_the_tables_are_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h.db");
        earlier(&path, "aaaa");
        std::fs::create_dir(dir.path().join("h.db.v3")).unwrap();
        let error = format!("{:#}", open(&path).err().unwrap());
        assert!(error.contains("h.db.v3 before its tables are changed"), "{error}");
        assert_eq!(version(&immutable(&path).unwrap()).unwrap(), VERSION);
    }

    #[test]
    fn several_that_open_an_earlier_history_make_one_copy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h.db");
        earlier(&path, "aaaa");
        std::thread::scope(|scope| {
            (0..4).for_each(|_| _ = scope.spawn(|| drop(open(&path).unwrap())));
        });
        assert_eq!(copied(&dir.path().join("h.db.v3")), ["aaaa"]);
        assert_eq!(names(dir.path()), ["h.db", "h.db.v3"]);
    }
}

//! Settings of programs, by how they commit.
//!
//! Sources: PostgreSQL, "Write Ahead Log", `wal_sync_method` (on Linux fdatasync by default; open_datasync and
//! open_sync write through the page cache unless replication and archiving are off, since 16 unless `debug_io_direct`);
//! MySQL 8.4, "InnoDB Startup Options": `innodb_flush_method` (O_DIRECT concerns the data files, the log is written
//! through the page cache and synced by fsync; O_DSYNC opens the log O_SYNC), `innodb_use_fdatasync` (since 8.0.26),
//! `innodb_flush_log_at_trx_commit`; SQLite, "PRAGMA synchronous" and "Write-Ahead Logging" (a commit in WAL mode
//! appends, and syncs only with FULL; in the other modes it makes and removes a journal and syncs that, its directory
//! and the database); etcd, `server/storage/wal` (fdatasync on preallocated segments of 64 MB); Redis, "Persistence"
//! (`appendfsync always` syncs an append-only file after each round of commands, by fdatasync).

use qd1_model::Estimate;
use qd1_model::plan::{FileSync, Sync};
use qd1_model::sync::{SyncAdvice, SyncFiles, SyncLayout, SyncMethod, SyncRow, SyncSetting};

use super::{compares, is_above};

/// How a program commits, to be looked up among the measurements.
#[derive(Clone, Copy)]
enum CommitWay {
    /// A sync of this kind through the page cache, over written data.
    Log(Sync),
    /// The same in another layout, or over written data if that layout was not measured.
    At(Sync, SyncLayout),
    /// A new file and its directory, among other things.
    NewFile,
    /// Nothing that it waits for.
    Nothing,
}

/// One row: program, setting, what it means, how it commits, whether it is the program's default.
struct KnownSetting {
    program: &'static str,
    setting: &'static str,
    note: &'static str,
    commit: CommitWay,
    usual: bool,
}

const fn known_setting(
    program: &'static str,
    setting: &'static str,
    note: &'static str,
    commit: CommitWay,
    usual: bool,
) -> KnownSetting {
    KnownSetting { program, setting, note, commit, usual }
}

const POSTGRES: &str = "PostgreSQL";
const MYSQL: &str = "MySQL";
const SQLITE: &str = "SQLite";
const REDIS: &str = "Redis";

static SETTINGS: &[KnownSetting] = &[
    known_setting(POSTGRES, "wal_sync_method=fdatasync", "its default on Linux", CommitWay::Log(Sync::Fdatasync), true),
    known_setting(POSTGRES, "wal_sync_method=fsync", "", CommitWay::Log(Sync::Fsync), false),
    known_setting(
        POSTGRES,
        "wal_sync_method=open_datasync",
        "without O_DIRECT, as a server does",
        CommitWay::Log(Sync::ODsync),
        false,
    ),
    known_setting(
        POSTGRES,
        "wal_sync_method=open_sync",
        "without O_DIRECT, as a server does",
        CommitWay::Log(Sync::OSync),
        false,
    ),
    known_setting(
        MYSQL,
        "innodb_flush_method=O_DIRECT",
        "or fsync: either syncs the log with fsync; with innodb_flush_log_at_trx_commit=1",
        CommitWay::Log(Sync::Fsync),
        true,
    ),
    known_setting(
        MYSQL,
        "innodb_use_fdatasync=ON",
        "since 8.0.26, with the above and innodb_flush_log_at_trx_commit=1",
        CommitWay::Log(Sync::Fdatasync),
        false,
    ),
    known_setting(
        MYSQL,
        "innodb_flush_method=O_DSYNC",
        "opens the log O_SYNC; with innodb_flush_log_at_trx_commit=1",
        CommitWay::Log(Sync::OSync),
        false,
    ),
    known_setting(
        MYSQL,
        "innodb_flush_log_at_trx_commit=2",
        "no sync on commit: a power cut loses the last second",
        CommitWay::Nothing,
        false,
    ),
    known_setting(
        SQLITE,
        "journal_mode=DELETE, synchronous=FULL",
        "its default; a commit takes more than the new journal counted here",
        CommitWay::NewFile,
        true,
    ),
    known_setting(
        SQLITE,
        "journal_mode=WAL, synchronous=FULL",
        "one fdatasync of an appended log per commit",
        CommitWay::At(Sync::Fdatasync, SyncLayout::Append),
        false,
    ),
    known_setting(
        SQLITE,
        "journal_mode=WAL, synchronous=NORMAL",
        "no sync on commit: a power cut loses the last ones, and harms nothing else",
        CommitWay::Nothing,
        false,
    ),
    known_setting(
        "etcd",
        "none to choose",
        "fdatasync of a preallocated log",
        CommitWay::At(Sync::Fdatasync, SyncLayout::Preallocated),
        true,
    ),
    known_setting(
        REDIS,
        "appendfsync always",
        "with appendonly yes: fdatasync of an appended file",
        CommitWay::At(Sync::Fdatasync, SyncLayout::Append),
        false,
    ),
    known_setting(
        REDIS,
        "appendfsync everysec",
        "its default with appendonly yes: a power cut loses the last second or two",
        CommitWay::Nothing,
        true,
    ),
];

/// All settings, with the measurements of the way each commits.
pub(super) fn settings(rows: &[SyncRow], files: &[SyncFiles], block: u32) -> Vec<SyncSetting> {
    if rows.is_empty() {
        return Vec::new();
    }
    SETTINGS.iter().map(|known| setting(known, rows, files, block)).collect()
}

/// The median and the rate of a way to commit, if it was measured.
fn measured(commit: CommitWay, rows: &[SyncRow], files: &[SyncFiles], block: u32) -> Option<(Estimate, Estimate)> {
    let buffered = |sync| SyncMethod { sync, direct: false };
    let log = |sync| rows.iter().find(|row| row.method == buffered(sync) && compares(row, block));
    let row = match commit {
        CommitWay::Log(sync) => log(sync)?,
        CommitWay::At(sync, layout) => {
            let alike = |row: &&SyncRow| {
                row.method == buffered(sync) && row.layout == layout && row.committers == 1 && row.writes_per_sync == 1
            };
            rows.iter().find(alike).or_else(|| log(sync))?
        }
        CommitWay::NewFile => {
            let files = files.iter().find(|files| files.sync == FileSync::FsyncDirectory)?;
            return Some((files.create_p50_ns, files.files_per_second));
        }
        CommitWay::Nothing => return None,
    };
    Some((row.lat_p50_ns, row.commits_per_second))
}

/// Whether one way to commit is faster than another beyond doubt, by its rate or by its median, which is the figure
/// shown; not by the median alone if its rate is lower.
pub(super) fn beats(a: &(Estimate, Estimate), b: &(Estimate, Estimate)) -> bool {
    is_above(&a.1, &b.1) || is_above(&b.0, &a.0) && a.1.value >= b.1.value
}

/// Whether a program by default waits for nothing on commit, so that a power cut loses the last ones.
fn is_usually_lost(program: &str) -> bool {
    SETTINGS.iter().any(|known| known.program == program && known.usual && matches!(known.commit, CommitWay::Nothing))
}

fn setting(known: &KnownSetting, rows: &[SyncRow], files: &[SyncFiles], block: u32) -> SyncSetting {
    let figures = measured(known.commit, rows, files, block);
    let sync = match known.commit {
        CommitWay::Log(sync) | CommitWay::At(sync, _) => sync,
        CommitWay::NewFile => Sync::Fsync,
        CommitWay::Nothing => Sync::None,
    };
    let figures_of = |other: &KnownSetting| measured(other.commit, rows, files, block);
    let others: Vec<&KnownSetting> = SETTINGS
        .iter()
        .filter(|other| other.program == known.program && !matches!(other.commit, CommitWay::Nothing))
        .collect();
    let advice = match (&figures, known.commit) {
        (_, CommitWay::Nothing) => SyncAdvice::Unsafe,
        (None, _) => SyncAdvice::Unknown,
        (Some(_), _) if others.len() == 1 && known.usual => SyncAdvice::Only,
        (Some(_), _) if is_usually_lost(known.program) => SyncAdvice::Decide,
        (Some(own), _) => {
            let usual = others.iter().find(|other| other.usual).and_then(|other| figures_of(other));
            let fastest = others.iter().filter_map(|other| figures_of(other)).all(|other| other.1.value <= own.1.value);
            let beaten = others.iter().filter_map(|other| figures_of(other)).any(|other| beats(&other, own));
            match known.usual {
                true if !beaten => SyncAdvice::Keep,
                false if fastest && usual.is_none_or(|usual| beats(own, &usual)) => SyncAdvice::Choose,
                _ => SyncAdvice::Possible,
            }
        }
    };
    SyncSetting {
        program: known.program.to_owned(),
        setting: known.setting.to_owned(),
        note: known.note.to_owned(),
        method: SyncMethod { sync, direct: false },
        lat_p50_ns: figures.map(|(p50, _)| p50),
        commits_per_second: figures.map(|(_, rate)| rate),
        durable: !matches!(known.commit, CommitWay::Nothing),
        advice,
    }
}

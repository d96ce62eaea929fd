//! The options of each program as plain data, set by the command line and by other commands that run a program. The
//! defaults are those of `qd1 app`.

use std::path::PathBuf;

use qd1_model::Bytes;

/// PostgreSQL under pgbench.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Directory for the throwaway cluster, or data directory of the server in `dsn`; by default the current directory.
    pub path: Option<PathBuf>,
    /// Numbers of concurrent clients, with one load for each number.
    pub clients: Vec<u32>,
    /// Transactions per second of all clients together, each timed from when it was due; by default as fast as they are
    /// answered.
    pub rate: Option<u32>,
    /// pgbench's scale; by default the largest number of clients.
    pub scale: Option<u32>,
    /// Measured time of each load.
    pub runtime_ns: u64,
    /// Time at the start of each load that is not measured.
    pub warmup_ns: u64,
    /// Built-in script of pgbench.
    pub builtin: String,
    /// The user's own scripts instead.
    pub script: Vec<PathBuf>,
    /// Threads of pgbench; by default one for each processor.
    pub threads: Option<u32>,
    /// Settings of the server, as `NAME=VALUE`.
    pub set: Vec<String>,
    /// Whether the tables are read into the server's memory first.
    pub prewarm: bool,
    /// Directory of initdb, postgres and pgbench; by default the newest found.
    pub bindir: Option<PathBuf>,
    /// The user that the server runs as when started by root.
    pub user: Option<String>,
    /// Connection to a running server, which is used instead.
    pub dsn: Option<String>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            path: None,
            clients: vec![10, 100],
            rate: None,
            scale: None,
            runtime_ns: 30_000_000_000,
            warmup_ns: 5_000_000_000,
            builtin: "tpcb-like".to_owned(),
            script: Vec::new(),
            threads: None,
            set: Vec::new(),
            prewarm: false,
            bindir: None,
            user: None,
            dsn: None,
        }
    }
}

/// MySQL or MariaDB under the same transaction.
#[derive(Clone, Debug)]
pub struct MysqlOptions {
    /// Directory for the throwaway server.
    pub path: PathBuf,
    /// Numbers of concurrent clients, with one load for each number.
    pub clients: Vec<u32>,
    /// Transactions per second of all clients together, each timed from when it was due; by default as fast as they are
    /// answered.
    pub rate: Option<u32>,
    /// Branches, with 10,000 accounts each; by default the largest number of clients.
    pub scale: Option<u32>,
    /// Measured time of each load.
    pub runtime_ns: u64,
    /// Time at the start of each load that is not measured.
    pub warmup_ns: u64,
    /// Settings of the server, as `NAME=VALUE`.
    pub set: Vec<String>,
    /// Directory of the server's programs; by default those of PATH.
    pub bindir: Option<PathBuf>,
    /// The user that the server runs as when started by root.
    pub user: Option<String>,
}

impl Default for MysqlOptions {
    fn default() -> Self {
        Self {
            path: ".".into(),
            clients: vec![10, 100],
            rate: None,
            scale: None,
            runtime_ns: 30_000_000_000,
            warmup_ns: 5_000_000_000,
            set: Vec::new(),
            bindir: None,
            user: None,
        }
    }
}

/// etcd.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// Directory for its data.
    pub path: PathBuf,
    /// Loads of `etcdctl check perf`.
    pub load: Vec<EtcdLoad>,
    /// Puts per second instead of those loads, with one load for each rate.
    pub rate: Vec<u32>,
    /// Measured time of each rate.
    pub runtime_ns: u64,
    /// Directory of etcd and etcdctl.
    pub bindir: Option<PathBuf>,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            path: ".".into(),
            load: vec![EtcdLoad::S, EtcdLoad::M],
            rate: Vec::new(),
            runtime_ns: 10_000_000_000,
            bindir: None,
        }
    }
}

/// A load of `etcdctl check perf`: its own clients and writes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdLoad {
    /// 50 clients, 150 writes a second.
    S,
    /// 200 clients, 1,000 writes a second.
    M,
    /// 500 clients, 8,000 writes a second.
    L,
    /// 1,000 clients, 15,000 writes a second.
    Xl,
}

impl EtcdLoad {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::S, Self::M, Self::L, Self::Xl];

    /// Returns etcdctl's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::S => "s",
            Self::M => "m",
            Self::L => "l",
            Self::Xl => "xl",
        }
    }

    /// Returns the number of concurrent clients.
    pub const fn clients(self) -> u32 {
        match self {
            Self::S => 50,
            Self::M => 200,
            Self::L => 500,
            Self::Xl => 1000,
        }
    }

    /// Returns the writes per second of all clients.
    pub const fn writes_per_second(self) -> u32 {
        match self {
            Self::S => 150,
            Self::M => 1000,
            Self::L => 8000,
            Self::Xl => 15_000,
        }
    }
}

/// SQLite, inside this process.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// Directory for the database.
    pub path: PathBuf,
    /// Journal modes.
    pub journal: Vec<JournalMode>,
    /// Synchronous modes.
    pub synchronous: Vec<Synchronous>,
    /// Measured time of each load.
    pub runtime_ns: u64,
    /// Rows in the table.
    pub rows: u32,
    /// Memory for pages of the database; by default 2 MB.
    pub cache: Option<Bytes>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            path: ".".into(),
            journal: vec![JournalMode::Wal, JournalMode::Delete],
            synchronous: vec![Synchronous::Normal, Synchronous::Full],
            runtime_ns: 5_000_000_000,
            rows: 100_000,
            cache: None,
        }
    }
}

/// Where SQLite keeps the data needed to roll back or finish a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalMode {
    /// A log of new pages: one sync per commit with synchronous=FULL, none with NORMAL.
    Wal,
    /// A rollback journal that is deleted at each commit: SQLite's default.
    Delete,
    /// A rollback journal that is truncated at each commit.
    Truncate,
    /// A rollback journal that is overwritten at each commit.
    Persist,
}

impl JournalMode {
    /// SQLite's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wal => "wal",
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Persist => "persist",
        }
    }
}

/// When SQLite syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// Only as needed to keep the database consistent; in WAL mode the last commits may be lost.
    Normal,
    /// At each commit: SQLite's default.
    Full,
    /// At each commit, and the directory after the journal is deleted.
    Extra,
}

impl Synchronous {
    /// SQLite's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Full => "full",
            Self::Extra => "extra",
        }
    }
}

/// RocksDB's db_bench.
#[derive(Clone, Debug)]
pub struct RocksdbOptions {
    /// Directory for the database.
    pub path: PathBuf,
    /// Benchmarks of db_bench.
    pub benchmarks: Vec<String>,
    /// Keys written.
    pub num: u32,
    /// Bytes of each value.
    pub value_size: Bytes,
    /// Longest time of each benchmark.
    pub runtime_ns: u64,
}

/// sysbench fileio.
#[derive(Clone, Debug)]
pub struct SysbenchOptions {
    /// Directory for the files.
    pub path: PathBuf,
    /// Modes of sysbench fileio.
    pub mode: Vec<String>,
    /// Size of all files together.
    pub size: Bytes,
    /// Time of each mode.
    pub runtime_ns: u64,
    /// Threads.
    pub threads: u32,
}

//! The command line of `qd1 app`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use qd1_model::Bytes;

use qd1_programs::options::{
    EtcdLoad, EtcdOptions, JournalMode, MysqlOptions, PostgresOptions, RocksdbOptions, SqliteOptions, Synchronous,
    SysbenchOptions,
};

use crate::args::{Choice, CommonArgs, FailOn, choice, duration};

const LOADS: [Choice<EtcdLoad>; 4] = [
    ("s", "50 clients, 150 writes a second", EtcdLoad::S),
    ("m", "200 clients, 1,000 writes a second", EtcdLoad::M),
    ("l", "500 clients, 8,000 writes a second", EtcdLoad::L),
    ("xl", "1,000 clients, 15,000 writes a second", EtcdLoad::Xl),
];

const JOURNALS: [Choice<JournalMode>; 4] = [
    ("wal", "A log of new pages: one sync per commit with synchronous=FULL, none with NORMAL", JournalMode::Wal),
    ("delete", "A rollback journal that is deleted at each commit: SQLite's default", JournalMode::Delete),
    ("truncate", "A rollback journal that is truncated at each commit", JournalMode::Truncate),
    ("persist", "A rollback journal that is overwritten at each commit", JournalMode::Persist),
];

const SYNCHRONOUS: [Choice<Synchronous>; 3] = [
    (
        "normal",
        "Sync only when the database needs it to stay consistent; in WAL mode the last commits may be lost",
        Synchronous::Normal,
    ),
    ("full", "Sync at each commit: SQLite's default", Synchronous::Full),
    ("extra", "Sync at each commit, and sync the directory after the journal is deleted", Synchronous::Extra),
];

/// Arguments of every program.
#[derive(Debug, Args)]
pub(crate) struct AppCommon {
    /// Exit with code 3 if the result of any of the program's own rules is this bad or worse
    #[arg(long, value_name = "GRADE", value_enum)]
    pub(crate) fail_on: Option<FailOn>,
    #[command(flatten)]
    pub(crate) run: CommonArgs,
}

/// The programs.
#[derive(Debug, Subcommand)]
pub(crate) enum AppCommand {
    /// PostgreSQL under pgbench: transactions per second and their latency at 10 and 100 clients
    Postgres(Box<PostgresArgs>),
    /// MySQL or MariaDB under the same transactions, on a throwaway server
    Mysql(Box<MysqlArgs>),
    /// etcd under its own `etcdctl check perf`, with the syncs of its log
    Etcd(EtcdArgs),
    /// SQLite, inside qd1: commits by journal and synchronous mode, and reads
    Sqlite(SqliteArgs),
    /// RocksDB's db_bench: a fill, reads, and synced writes
    Rocksdb(RocksdbArgs),
    /// sysbench fileio, as in many published results
    Sysbench(SysbenchArgs),
}

/// The load of a server.
#[derive(Debug, Args)]
pub(crate) struct ServerLoad {
    /// Numbers of concurrent clients, separated by commas; each is a separate load
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "10,100", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) clients: Vec<u32>,
    /// Transactions per second in total, each timed from when it was due [default: as fast as they are answered]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: Option<u32>,
    /// Measured time of each load
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub(crate) runtime: u64,
    /// Time at the start of each load during which nothing is measured
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub(crate) warmup: u64,
}

#[derive(Debug, Args)]
pub(crate) struct PostgresArgs {
    /// Directory for the throwaway cluster [default: .; with --dsn: where that server keeps its data]
    pub(crate) path: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) load: ServerLoad,
    /// pgbench's scale factor, about 16 MB per unit [default: the largest number of clients, as its documentation
    /// advises]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) scale: Option<u32>,
    /// Built-in script of pgbench to run
    #[arg(long, value_name = "NAME", default_value = "tpcb-like", value_parser = ["tpcb-like", "simple-update", "select-only"])]
    pub(crate) builtin: String,
    /// A script of your own instead of a built-in one; may be given several times
    #[arg(long, value_name = "FILE", conflicts_with = "builtin")]
    pub(crate) script: Vec<PathBuf>,
    /// Threads of pgbench [default: one per processor, at most one per client]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// A setting of the server, for example -c synchronous_commit=off; may be given several times
    #[arg(short = 'c', value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Read the tables into the server's memory first, with the extension pg_prewarm; -c shared_buffers sets the size
    /// of that memory
    #[arg(long)]
    pub(crate) prewarm: bool,
    /// Directory with initdb, postgres and pgbench [default: the newest found]
    #[arg(long, value_name = "DIR")]
    pub(crate) bindir: Option<PathBuf>,
    /// User that the server runs as when started by root [default: postgres or nobody]
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Use this running server instead, in a separate schema that is dropped afterwards
    #[arg(long, value_name = "CONNINFO", conflicts_with_all = ["set", "user"])]
    pub(crate) dsn: Option<String>,
    #[command(flatten)]
    pub(crate) common: AppCommon,
}

#[derive(Debug, Args)]
pub(crate) struct MysqlArgs {
    /// Directory for the throwaway server
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) load: ServerLoad,
    /// Branches of 10,000 accounts, about 3 MB each [default: the largest number of clients]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) scale: Option<u32>,
    /// A setting of the server, for example -c innodb_flush_log_at_trx_commit=2; may be given several times
    #[arg(short = 'c', value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Directory with the server's programs [default: MariaDB's in PATH, else MySQL's]
    #[arg(long, value_name = "DIR")]
    pub(crate) bindir: Option<PathBuf>,
    /// User that the server runs as when started by root [default: mysql or nobody]
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    #[command(flatten)]
    pub(crate) common: AppCommon,
}

#[derive(Debug, Args)]
pub(crate) struct EtcdArgs {
    /// Directory for etcd's data
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Loads of `etcdctl check perf`, separated by commas; each takes a minute
    #[arg(long, value_name = "LOAD", value_delimiter = ',', default_value = "s,m", value_parser = choice(&LOADS))]
    pub(crate) load: Vec<EtcdLoad>,
    /// Use these numbers of puts per second instead, separated by commas; each put is timed from when it was due
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with = "load", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: Vec<u32>,
    /// Measured time of each --rate
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s", requires = "rate")]
    pub(crate) runtime: u64,
    /// Directory with etcd and etcdctl
    #[arg(long, value_name = "DIR")]
    pub(crate) bindir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: AppCommon,
}

#[derive(Debug, Args)]
pub(crate) struct SqliteArgs {
    /// Directory for the database
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Journal modes, separated by commas
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_value = "wal,delete", value_parser = choice(&JOURNALS))]
    pub(crate) journal: Vec<JournalMode>,
    /// Synchronous modes, separated by commas
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_value = "normal,full", value_parser = choice(&SYNCHRONOUS))]
    pub(crate) synchronous: Vec<Synchronous>,
    /// Measured time of each load
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub(crate) runtime: u64,
    /// Rows in the table
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) rows: u32,
    /// Memory for pages of the database [default: 2 MB, SQLite's own]
    #[arg(long, value_name = "SIZE")]
    pub(crate) cache: Option<Bytes>,
    #[command(flatten)]
    pub(crate) common: AppCommon,
}

#[derive(Debug, Args)]
pub(crate) struct RocksdbArgs {
    /// Directory for the database
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Benchmarks of db_bench, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "fillseq,readrandom,fillsync")]
    pub(crate) benchmarks: Vec<String>,
    /// Keys written
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1_000..))]
    pub(crate) num: u32,
    /// Bytes of each value
    #[arg(long, value_name = "SIZE", default_value = "400")]
    pub(crate) value_size: Bytes,
    /// Longest time of each benchmark
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "20s")]
    pub(crate) runtime: u64,
    #[command(flatten)]
    pub(crate) common: AppCommon,
}

#[derive(Debug, Args)]
pub(crate) struct SysbenchArgs {
    /// Directory for the files
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Modes of sysbench fileio, separated by commas: seqwr, seqrewr, seqrd, rndrd, rndwr, rndrw
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_value = "seqwr,rndrw", value_parser = ["seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw"])]
    pub(crate) mode: Vec<String>,
    /// Size of all files together
    #[arg(long, value_name = "SIZE", default_value = "2GiB")]
    pub(crate) size: Bytes,
    /// Time of each mode
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "20s")]
    pub(crate) runtime: u64,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: u32,
    #[command(flatten)]
    pub(crate) common: AppCommon,
}

impl PostgresArgs {
    pub(super) fn options(&self) -> PostgresOptions {
        PostgresOptions {
            path: self.path.clone(),
            clients: self.load.clients.clone(),
            rate: self.load.rate,
            scale: self.scale,
            runtime_ns: self.load.runtime,
            warmup_ns: self.load.warmup,
            builtin: self.builtin.clone(),
            script: self.script.clone(),
            threads: self.threads,
            set: self.set.clone(),
            prewarm: self.prewarm,
            bindir: self.bindir.clone(),
            user: self.user.clone(),
            dsn: self.dsn.clone(),
        }
    }
}

impl MysqlArgs {
    pub(super) fn options(&self) -> MysqlOptions {
        MysqlOptions {
            path: self.path.clone(),
            clients: self.load.clients.clone(),
            rate: self.load.rate,
            scale: self.scale,
            runtime_ns: self.load.runtime,
            warmup_ns: self.load.warmup,
            set: self.set.clone(),
            bindir: self.bindir.clone(),
            user: self.user.clone(),
        }
    }
}

impl EtcdArgs {
    pub(super) fn options(&self) -> EtcdOptions {
        EtcdOptions {
            path: self.path.clone(),
            load: self.load.clone(),
            rate: self.rate.clone(),
            runtime_ns: self.runtime,
            bindir: self.bindir.clone(),
        }
    }
}

impl SqliteArgs {
    pub(super) fn options(&self) -> SqliteOptions {
        SqliteOptions {
            path: self.path.clone(),
            journal: self.journal.clone(),
            synchronous: self.synchronous.clone(),
            runtime_ns: self.runtime,
            rows: self.rows,
            cache: self.cache,
        }
    }
}

impl RocksdbArgs {
    pub(super) fn options(&self) -> RocksdbOptions {
        RocksdbOptions {
            path: self.path.clone(),
            benchmarks: self.benchmarks.clone(),
            num: self.num,
            value_size: self.value_size,
            runtime_ns: self.runtime,
        }
    }
}

impl SysbenchArgs {
    pub(super) fn options(&self) -> SysbenchOptions {
        SysbenchOptions {
            path: self.path.clone(),
            mode: self.mode.clone(),
            size: self.size,
            runtime_ns: self.runtime,
            threads: self.threads,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line<A: Args> {
        #[command(flatten)]
        args: A,
    }

    fn unset<A: Args>() -> A {
        Line::<A>::parse_from(["app"]).args
    }

    #[test]
    fn without_flags_the_options_are_the_defaults_of_the_programs() {
        let same = |ours: String, theirs: String| assert_eq!(ours, theirs);
        same(format!("{:?}", unset::<PostgresArgs>().options()), format!("{:?}", PostgresOptions::default()));
        same(format!("{:?}", unset::<EtcdArgs>().options()), format!("{:?}", EtcdOptions::default()));
        same(format!("{:?}", unset::<SqliteArgs>().options()), format!("{:?}", SqliteOptions::default()));
    }
}

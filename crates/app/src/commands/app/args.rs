//! The command line of `qd1 app`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use qd1_model::Bytes;

use super::{etcd, sqlite};
use crate::cli::{CommonArgs, FailOn, duration};

/// What every one of them takes.
#[derive(Debug, Args)]
pub(crate) struct AppCommon {
    /// Exit with code 3 if any of the program's own rules comes out this bad or worse
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
    /// etcd under its own `etcdctl check perf`, with the syncs of its log
    Etcd(EtcdArgs),
    /// SQLite, inside qd1: commits by journal and synchronous mode, and reads
    Sqlite(SqliteArgs),
    /// RocksDB's db_bench: a fill, reads, and synced writes
    Rocksdb(RocksdbArgs),
    /// sysbench fileio, as it is often published
    Sysbench(SysbenchArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PostgresArgs {
    /// Directory for the throwaway cluster [default: .; with --dsn: where that server keeps its data]
    pub(crate) path: Option<PathBuf>,
    /// Clients at once, separated by commas: a load for each
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "10,100", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) clients: Vec<u32>,
    /// pgbench's scale, about 16 MB each [default: the most clients, as its documentation advises]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) scale: Option<u32>,
    /// Measured time of each load
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub(crate) runtime: u64,
    /// Time at the start of each load that is not measured
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub(crate) warmup: u64,
    /// Built-in script of pgbench
    #[arg(long, value_name = "NAME", default_value = "tpcb-like", value_parser = ["tpcb-like", "simple-update", "select-only"])]
    pub(crate) builtin: String,
    /// A script of your own instead of a built-in one; may be given several times
    #[arg(long, value_name = "FILE", conflicts_with = "builtin")]
    pub(crate) script: Vec<PathBuf>,
    /// Threads of pgbench [default: one for each processor, at most one for each client]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// A setting of the server, for example -c synchronous_commit=off; may be given several times
    #[arg(short = 'c', value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Read the tables into the server's memory first, by its extension pg_prewarm; -c shared_buffers says how much it has
    #[arg(long)]
    pub(crate) prewarm: bool,
    /// Where initdb, postgres and pgbench are [default: the newest that is found]
    #[arg(long, value_name = "DIR")]
    pub(crate) bindir: Option<PathBuf>,
    /// Who the server runs as when started by root [default: postgres or nobody]
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Use this running server instead, in a schema of our own that is dropped again
    #[arg(long, value_name = "CONNINFO", conflicts_with_all = ["set", "user"])]
    pub(crate) dsn: Option<String>,
    #[command(flatten)]
    pub(crate) common: AppCommon,
}

#[derive(Debug, Args)]
pub(crate) struct EtcdArgs {
    /// Directory for etcd's data
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Loads of `etcdctl check perf`, separated by commas; each takes a minute
    #[arg(long, value_name = "LOAD", value_delimiter = ',', default_value = "s,m", value_enum)]
    pub(crate) load: Vec<etcd::Load>,
    /// Instead: so many puts a second, separated by commas, each timed from when it was due
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with = "load", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: Vec<u32>,
    /// Measured time of each --rate
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s", requires = "rate")]
    pub(crate) runtime: u64,
    /// Where etcd and etcdctl are
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
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_value = "wal,delete", value_enum)]
    pub(crate) journal: Vec<sqlite::Journal>,
    /// Synchronous modes, separated by commas
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_value = "normal,full", value_enum)]
    pub(crate) synchronous: Vec<sqlite::Synchronous>,
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

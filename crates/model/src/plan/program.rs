//! Real programs, and their loads as steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A real program that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// PostgreSQL, under pgbench.
    Postgres,
    /// MySQL or MariaDB, under pgbench's transaction.
    Mysql,
    /// etcd, under `etcdctl check perf`.
    Etcd,
    /// SQLite, inside qd1.
    Sqlite,
    /// RocksDB's db_bench.
    Rocksdb,
    /// sysbench fileio.
    Sysbench,
}

impl Program {
    /// Returns the name for the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Etcd => "etcd",
            Self::Sqlite => "sqlite",
            Self::Rocksdb => "rocksdb",
            Self::Sysbench => "sysbench",
        }
    }

    /// Returns the name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Mysql => "MySQL/MariaDB",
            Self::Etcd => "etcd",
            Self::Sqlite => "SQLite",
            Self::Rocksdb => "RocksDB db_bench",
            Self::Sysbench => "sysbench fileio",
        }
    }
}

/// A planned load of a real program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppWork {
    /// Which program.
    pub program: Program,
    /// Concurrent clients.
    pub clients: u32,
    /// Requests per second, sent whether or not earlier ones were answered; absent if each client waits for its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
}

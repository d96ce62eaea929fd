//! Real programs, and their loads as steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A program that is run for its own sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// PostgreSQL, under pgbench.
    Postgres,
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
    /// For the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Etcd => "etcd",
            Self::Sqlite => "sqlite",
            Self::Rocksdb => "rocksdb",
            Self::Sysbench => "sysbench",
        }
    }

    /// For people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Etcd => "etcd",
            Self::Sqlite => "SQLite",
            Self::Rocksdb => "RocksDB db_bench",
            Self::Sysbench => "sysbench fileio",
        }
    }
}

/// What a load is, as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppWork {
    /// Which program.
    pub program: Program,
    /// Clients that work side by side.
    pub clients: u32,
    /// Requests per second that come whether or not those before them are answered; absent where each client waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
}

//! What databases will do on a disk, computed from its commits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::Estimate;
use crate::plan::program::Program;

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Predicts {
    /// PostgreSQL: TPC-B-like transactions of pgbench per second.
    PostgresTps,
    /// MariaDB or MySQL: the same transactions per second.
    MysqlTps,
    /// etcd: puts per second at which the 99th percentile of their latency passes 10 ms.
    EtcdRate,
    /// SQLite with a write-ahead log, synchronous=FULL: commits per second.
    SqliteWalFull,
    /// SQLite with a write-ahead log, synchronous=NORMAL: commits per second.
    SqliteWalNormal,
    /// SQLite with a rollback journal, synchronous=FULL: commits per second.
    SqliteRollbackFull,
}

impl Predicts {
    /// The program whose figure it is.
    pub const fn program(self) -> Program {
        match self {
            Self::PostgresTps => Program::Postgres,
            Self::MysqlTps => Program::Mysql,
            Self::EtcdRate => Program::Etcd,
            Self::SqliteWalFull | Self::SqliteWalNormal | Self::SqliteRollbackFull => Program::Sqlite,
        }
    }

    /// What people call it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::PostgresTps => "PostgreSQL transactions/s",
            Self::MysqlTps => "MariaDB transactions/s",
            Self::EtcdRate => "etcd puts/s, p99 at 10 ms",
            Self::SqliteWalFull => "SQLite commits/s, WAL FULL",
            Self::SqliteWalNormal => "SQLite commits/s, WAL NORMAL",
            Self::SqliteRollbackFull => "SQLite commits/s, rollback FULL",
        }
    }
}

/// What limits a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Waiting for commits.
    Commits,
    /// The processors.
    Processor,
    /// Waiting for rows that another transaction holds until it has committed.
    Locks,
}

/// How a measured figure relates to the true one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exactness {
    /// It is the true figure.
    Measured,
    /// The true figure is larger: nothing higher was tried.
    AtLeast,
    /// The true figure is smaller: nothing lower was tried.
    Below,
}

/// The result of running the program itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// The same figure.
    pub value: Estimate,
    /// How it relates to the true one.
    pub exactness: Exactness,
    /// predicted / measured - 1, or 0 if only a bound was measured and the prediction is within it.
    pub error: Option<f64>,
    /// Whether the predicted interval holds what was measured.
    pub holds: bool,
    /// The prediction before any program ran: changes of the disk since then are not in it.
    #[serde(default)]
    pub at_first: Option<f64>,
    /// The error of that.
    #[serde(default)]
    pub error_at_first: Option<f64>,
}

/// One predicted figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Predicted {
    /// Of what.
    pub what: Predicts,
    /// Number of concurrent clients; 1 if the program has no such setting.
    pub clients: u32,
    /// The figure, with an interval that covers the uncertainty of the data and the past error of the model; 0 if the
    /// program cannot meet its bound at any rate. If the program was run, it is based on the commits before and after
    /// it.
    pub value: Estimate,
    /// What limits it most.
    pub bound: Bound,
    /// Number of disks of this machine on which the program ran before: the figure is corrected by the error there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub disks_before: u32,
    /// What was measured when the program itself was run afterwards (`--verify`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Everything that is predicted from one Record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// The figures.
    pub rows: Vec<Predicted>,
    /// What could not be predicted, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

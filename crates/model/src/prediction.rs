//! What databases will do on a disk, worked out from its commits.

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

/// What holds a program back.
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

/// How a measured figure stands to the true one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exactness {
    /// It is the figure.
    Measured,
    /// The figure is larger: no more was tried.
    AtLeast,
    /// The figure is smaller: no less was tried.
    Below,
}

/// What came of the program itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// The same figure.
    pub value: Estimate,
    /// How it stands to the true one.
    pub exactness: Exactness,
    /// predicted / measured - 1, or 0 where no more than a bound was measured and that holds.
    pub error: Option<f64>,
    /// Whether the predicted interval holds what was measured.
    pub holds: bool,
    /// What was predicted before any program ran: what the disk did differently since is not in it.
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
    /// Clients at once; 1 where the program has no such number.
    pub clients: u32,
    /// The figure, with an interval that holds what the data leaves open and what the model has been off by; 0 where the
    /// program cannot keep its bound at any rate. Where the program was run, from the commits before it and after it.
    pub value: Estimate,
    /// What holds it back most.
    pub bound: Bound,
    /// Disks of this machine on which the program ran before: by what it was off there the figure is corrected.
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

/// All that is predicted from one Record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// The figures.
    pub rows: Vec<Predicted>,
    /// What could not be predicted, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

//! Kinds of measured operations, and reasons why a step ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OpClass {
    /// A read.
    Read,
    /// A write that is not a commit.
    Write,
    /// A trim.
    Trim,
    /// A flush of the device's cache, as the device sees it.
    Flush,
    /// A write and its sync as one.
    Commit,
    /// Create a file, write it, close it.
    Create,
    /// stat of a file.
    Stat,
    /// Unlink of a file.
    Delete,
    /// Open a file, read all of it, close it.
    Open,
    /// Read a whole directory.
    List,
    /// Rename a file.
    Rename,
    /// Give a file a second name.
    Link,
    /// Read, change and write back a piece of a file, as one.
    Rewrite,
    /// A read at a random offset of a file; every tenth is written back.
    Seek,
    /// A transaction of a database, from its beginning to its commit.
    Transaction,
    /// A read, write or trim, from a tool that does not distinguish them.
    Mixed,
}

impl OpClass {
    /// All kinds, in the order of streams.
    pub const ALL: [Self; 16] = [
        Self::Read,
        Self::Write,
        Self::Trim,
        Self::Flush,
        Self::Commit,
        Self::Create,
        Self::Stat,
        Self::Delete,
        Self::Open,
        Self::List,
        Self::Rename,
        Self::Link,
        Self::Rewrite,
        Self::Seek,
        Self::Transaction,
        Self::Mixed,
    ];

    /// Returns the name in JSON, tables and thresholds.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Flush => "flush",
            Self::Commit => "commit",
            Self::Create => "create",
            Self::Stat => "stat",
            Self::Delete => "delete",
            Self::Open => "open",
            Self::List => "list",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Rewrite => "rewrite",
            Self::Seek => "seek",
            Self::Transaction => "transaction",
            Self::Mixed => "mixed",
        }
    }

    /// Returns true if it moves no bytes.
    pub const fn moves_nothing(self) -> bool {
        matches!(self, Self::Flush | Self::Stat | Self::Delete | Self::List | Self::Rename | Self::Link)
    }
}

/// Why a step ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Its time was up.
    #[default]
    Time,
    /// The figures were tight enough.
    Precise,
    /// All its work was done (`io_size`, `count`).
    Done,
    /// The user stopped it.
    Interrupted,
    /// Too many errors.
    Failed,
}

/// Requests made to the target, measured or not (ramp included).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Reads that succeeded.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Writes that succeeded.
    pub writes: u64,
    /// Their bytes.
    pub write_bytes: u64,
    /// Syncs, and writes to files opened O_SYNC or O_DSYNC.
    pub syncs: u64,
}

impl RequestCounts {
    /// Sum of two workers.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            write_bytes: self.write_bytes + other.write_bytes,
            syncs: self.syncs + other.syncs,
        }
    }
}

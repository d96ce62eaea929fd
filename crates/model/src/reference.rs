//! How a disk ranks among published results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identity::StorageKind;

/// Its rank by one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Standing {
    /// `reads` or `commits`.
    pub requests: String,
    /// The median measured here, ns: of reads, or of the sync of a commit.
    pub median_ns: f64,
    /// How many published results are slower.
    pub slower: u32,
    /// Number of results.
    pub of: u32,
    /// The kinds that have results, in the order of tables.
    pub kinds: Vec<Published>,
}

/// The published results for one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// The kind.
    pub kind: StorageKind,
    /// Results.
    pub count: u32,
    /// The shortest median, ns.
    pub least_ns: f64,
    /// The median of all, ns.
    pub median_ns: f64,
    /// The longest, ns.
    pub most_ns: f64,
}

/// Its rank among virtual machines measured in the same way, by one figure for appends that are made durable one at a
/// time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AmongVps {
    /// Which figure: the name of a [`crate::metric::Metric`].
    pub metric: String,
    /// The value measured here, ns.
    pub value_ns: f64,
    /// How many of the others are slower.
    pub slower: u32,
    /// Number of machines, each counted once however often it was measured.
    pub of: u32,
    /// The shortest value, ns.
    pub least_ns: f64,
    /// The median of all, ns.
    pub median_ns: f64,
    /// The longest, ns.
    pub most_ns: f64,
}

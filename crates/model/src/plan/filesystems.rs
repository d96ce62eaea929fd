//! What makes a plan a comparison of filesystems.

use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What makes a run a comparison of filesystems; in the Plan, so that a stored one is judged as it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilesystemsPlan {
    /// How often each filesystem is made and measured.
    pub rounds: u32,
    /// The filesystems by name, in the order asked; one that was asked twice has a number behind its name.
    pub names: Vec<String>,
    /// The order in each round, as positions in `names`.
    pub order: Vec<Vec<u32>>,
    /// Whether each was tuned for databases (`--fair`) or left as its tools make it.
    pub fair: bool,
    /// Size of each filesystem's disk.
    pub disk: Bytes,
    /// Whether that disk is a file with a loop device over it; else it is the block device named.
    pub on_loop: bool,
}

//! The part of a plan that makes it a comparison of filesystems.

use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What makes a run a comparison of filesystems; in the Plan, so that a saved run is analysed as it was requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilesystemsPlan {
    /// How many times each filesystem is created and measured.
    pub rounds: u32,
    /// The filesystems by name, in the requested order; one that was requested twice has a number after its name.
    pub names: Vec<String>,
    /// The order in each round, as positions in `names`.
    pub order: Vec<Vec<u32>>,
    /// Whether each was tuned for databases (`--fair`) or has its tools' defaults.
    pub fair: bool,
    /// Size of each filesystem's disk.
    pub disk: Bytes,
    /// Whether that disk is a loop device on a file; otherwise it is the named block device.
    pub on_loop: bool,
}

//! A kept run as it is listed.

use serde::Serialize;

/// One run of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Random identifier, 12 hexadecimal digits.
    pub id: String,
    /// Wall clock at the start, ns since the Unix epoch.
    pub started_unix_ns: u64,
    /// Duration of the whole run, ns.
    pub elapsed_ns: u64,
    /// Name of the suite.
    pub suite: String,
    /// The place that was measured.
    pub path: String,
    /// The topmost block device; empty where there is none.
    pub device: String,
    /// Type of the filesystem; empty for a block device.
    pub filesystem: String,
    /// Version of the qd1 that ran.
    pub version: String,
    /// Whether it was ended early.
    pub interrupted: bool,
    /// What it found, in a line, as the qd1 that listed or saved it judged it; absent where nobody did yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headline: Option<String>,
}

//! Filesystems that were created for a run.

use crate::environment::{Device, DeviceCounters, Filesystem};
use crate::record::Prepare;
use crate::record::program::AppRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One filesystem in one round: how it was created, what the kernel reports about it, and which steps ran on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MountRecord {
    /// Its name in the plan.
    pub name: String,
    /// Round, from 1.
    pub round: u32,
    /// Name and version of the program that created it: `mkfs.xfs version 6.1.0`.
    pub tool: String,
    /// The commands that created it, as run; the device is `DEVICE`, the mount point `DIR`.
    pub commands: Vec<String>,
    /// Mount options that were requested beyond the filesystem's own defaults.
    pub asked_options: String,
    /// Type and all mount options, from mountinfo.
    pub filesystem: Filesystem,
    /// Properties that mountinfo does not show (zfs), as `name=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<String>,
    /// Block devices below it, the topmost first.
    pub devices: Vec<Device>,
    /// Whether the loop device bypasses the page cache for its file; absent without a loop device.
    pub loop_direct: Option<bool>,
    /// Whether programs can bypass this filesystem's page cache.
    pub direct: bool,
    /// The kernel's counters of its device while its steps ran; absent if it has none.
    pub counted: Option<DeviceCounters>,
    /// How its test file was made; absent if no step needs one.
    pub prepare: Option<Prepare>,
    /// The real program that was run on it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<AppRecord>,
    /// The names of its steps in the Record: `NAME/rROUND/STEP`.
    pub steps: Vec<String>,
    /// Why it could not be measured; usually empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fault: String,
}

impl MountRecord {
    /// Returns the name in the Record of `step` on this mount.
    pub fn step_name(&self, step: &str) -> String {
        format!("{}/r{}/{step}", self.name, self.round)
    }

    /// Returns the name in its suite of a step of this mount.
    pub fn plain_name<'a>(&self, step: &'a str) -> &'a str {
        step.strip_prefix(&self.step_name("")).unwrap_or(step)
    }
}

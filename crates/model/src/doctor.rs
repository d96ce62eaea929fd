//! What the doctor says about a machine's settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::Severity;
use crate::setting::{Setting, Unseen};

/// The result of `qd1 doctor`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// Version of the format, as of a report.
    pub schema_version: u32,
    /// The mount points (or the device) that were looked at.
    pub places: Vec<String>,
    /// Number of rules that were applied.
    pub rules: usize,
    /// What is set up badly, the worst first.
    pub advice: Vec<Advice>,
    /// What could not be looked at.
    pub unseen: Vec<Unseen>,
    /// All settings that were read.
    pub settings: Vec<Setting>,
}

impl Diagnosis {
    /// Whether anything of the kernel was read; without `/proc` and `/sys` the absence of advice says nothing.
    #[must_use]
    pub fn saw_the_kernel(&self) -> bool {
        self.settings.iter().any(|setting| ["/proc/", "/sys/"].iter().any(|root| setting.place.starts_with(root)))
    }
}

/// One setting that costs latency, durability or the truth of figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// The rule that found it. Stable.
    pub rule: String,
    /// How much it matters.
    pub severity: Severity,
    /// What it concerns: a mount point, a device, a program; empty for the machine.
    pub subject: String,
    /// What is wrong, in one sentence.
    pub title: String,
    /// The setting, with its value in force and after the next boot; absent if it is a state and not a setting.
    pub setting: Option<Setting>,
    /// What it costs.
    pub cost: String,
    /// Who says so: addresses of documents.
    pub sources: Vec<String>,
    /// How to change it.
    pub fix: Fix,
    /// How to see what a change does on this machine.
    pub proof: String,
}

/// How to change a setting. What is not needed is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fix {
    /// The file to change for the next boot.
    pub file: String,
    /// Its line, from 1; 0 to add one.
    pub line: u32,
    /// What the line sets now.
    pub old: String,
    /// What it is to contain.
    pub new: String,
    /// The command that changes what is in force now.
    pub command: String,
    /// What else has to be done, in words.
    pub advice: String,
}

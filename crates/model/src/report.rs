//! A Record with what the analysis makes of it: the document that `--json` prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::AppSummary;
use crate::figure::Summary;
use crate::filesystems::Comparison;
use crate::finding::{Finding, Severity};
use crate::identity::Identity;
use crate::limits::Limits;
use crate::meta::Meta;
use crate::over::OverSummary;
use crate::prediction::Prediction;
use crate::record::Record;
use crate::reference::{AmongVps, Standing};
use crate::sweep::Surface;
use crate::sync::SyncTable;
use crate::verdict::{Durability, Impression, Judged, Verdict};

/// One run, judged. Reports render this and compute nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this layout: [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Grades per class of workload.
    pub verdicts: Vec<Verdict>,
    /// What commits and reads are like, in a word each; empty in other runs than a check of a disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impressions: Vec<Impression>,
    /// Whether flushes write out what was written; absent in other runs than a check of a disk with commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// The suite's own criteria, judged, in its order; absent where it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Judged>,
    /// Conclusions, the most severe first.
    pub findings: Vec<Finding>,
    /// The surface of a sweep; absent in other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Surface>,
    /// What was found about files; absent in runs that measure none alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// Filesystems beside each other; absent in other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystems: Option<Comparison>,
    /// What kind of storage it is; absent where too little was measured to say anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Ways to make writes durable; absent in runs of other commands than `sync`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<SyncTable>,
    /// Rate limits; absent in runs of other commands than `limits`, which prints a document of its own.
    #[serde(skip)]
    pub limits: Option<Limits>,
    /// What a real program's own counters come to; absent in other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<AppSummary>,
    /// What databases will do on the disk; absent where it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// Where the disk stands among those that others published; empty in other runs than a check of a disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standings: Vec<Standing>,
    /// Where it stands among VPS that somebody measured alike; empty in other runs than a check of a disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub among_vps: Vec<AmongVps>,
    /// The hours of a check over hours; absent in other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<OverSummary>,
    /// Figures with their intervals.
    pub summary: Summary,
    /// Everything measured.
    pub record: Record,
}

impl Report {
    /// Returns the finding that what was measured is no disk, for which no class of workload is judged.
    #[must_use]
    pub fn no_disk(&self) -> Option<&Finding> {
        no_disk(&self.findings)
    }
}

/// The same, among the findings of a run.
#[must_use]
pub fn no_disk(findings: &[Finding]) -> Option<&Finding> {
    findings
        .iter()
        .find(|finding| finding.id == "not_a_disk" && finding.severity == Severity::Critical && finding.step.is_empty())
}

//! A Record with what the analysis makes of it. `--json` prints it as `part.rs` lays it out.

use crate::figure::Summary;
use crate::finding::{Finding, Severity};
use crate::finding_id::FindingId;
use crate::part::{IsPart, Part};
use crate::record::Record;
use crate::reference::{AmongVps, Standing};
use crate::verdict::{Durability, Impression, Judged, Verdict};

/// One run, judged. Reports render this and compute nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Version of this layout: [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Grades per class of workload.
    pub verdicts: Vec<Verdict>,
    /// What commits and reads are like, in a word each; empty in other runs than a check of a disk.
    pub impressions: Vec<Impression>,
    /// Whether flushes write out what was written; absent in other runs than a check of a disk with commits.
    pub durability: Option<Durability>,
    /// The suite's own criteria, judged, in its order; empty where it has none.
    pub criteria: Vec<Judged>,
    /// Conclusions, the most severe first.
    pub findings: Vec<Finding>,
    /// What belongs to the kind of run, the answer to what its command asks first.
    pub parts: Vec<Part>,
    /// Where the disk stands among those that others published; empty in other runs than a check of a disk.
    pub standings: Vec<Standing>,
    /// Where it stands among VPS that somebody measured alike; empty in other runs than a check of a disk.
    pub among_vps: Vec<AmongVps>,
    /// Figures with their intervals.
    pub summary: Summary,
    /// Everything measured.
    pub record: Record,
}

impl Report {
    /// Returns the part of a type; `None` in runs without it.
    #[must_use]
    pub fn part<T: IsPart>(&self) -> Option<&T> {
        self.parts.iter().find_map(T::of)
    }

    /// The same, to change it.
    pub fn part_mut<T: IsPart>(&mut self) -> Option<&mut T> {
        self.parts.iter_mut().find_map(T::of_mut)
    }

    /// Returns the finding that what was measured is no disk, for which no class of workload is judged.
    #[must_use]
    pub fn no_disk(&self) -> Option<&Finding> {
        no_disk(&self.findings)
    }
}

/// The same, among the findings of a run.
#[must_use]
pub fn no_disk(findings: &[Finding]) -> Option<&Finding> {
    findings.iter().find(|finding| {
        finding.id == FindingId::NotADisk && finding.severity == Severity::Critical && finding.step.is_empty()
    })
}

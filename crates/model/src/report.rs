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
    /// Commits and reads, described in one word each; empty except in a check of a disk.
    pub impressions: Vec<Impression>,
    /// Whether flushes write data out; absent except in a check of a disk with commits.
    pub durability: Option<Durability>,
    /// The suite's own criteria, judged, in its order; empty if it has none.
    pub criteria: Vec<Judged>,
    /// Conclusions, the most severe first.
    pub findings: Vec<Finding>,
    /// The parts that belong to the kind of run, with the command's own answer first.
    pub parts: Vec<Part>,
    /// How the disk ranks among published results; empty except in a check of a disk.
    pub standings: Vec<Standing>,
    /// How it ranks among VPS measured in the same way; empty except in a check of a disk.
    pub among_vps: Vec<AmongVps>,
    /// Figures with their intervals.
    pub summary: Summary,
    /// Everything measured.
    pub record: Record,
}

impl Report {
    /// Returns the part with this type; `None` in runs without it.
    #[must_use]
    pub fn part<T: IsPart>(&self) -> Option<&T> {
        self.parts.iter().find_map(T::of)
    }

    /// The same, mutably.
    pub fn part_mut<T: IsPart>(&mut self) -> Option<&mut T> {
        self.parts.iter_mut().find_map(T::of_mut)
    }

    /// Returns the finding that the measured place is not a disk, in which case no class of workload is judged.
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

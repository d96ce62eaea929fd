//! Detectors: each concludes one thing from a Record. One row in [`DETECTORS`] and one file per detector.

use qd1_model::{Finding, Record, Summary};

/// One detector.
struct Detector {
    /// Name, the stem of its file and of its findings' ids.
    #[allow(dead_code)]
    name: &'static str,
    /// What it concludes.
    run: fn(&Record, &Summary) -> Vec<Finding>,
}

/// All detectors.
static DETECTORS: &[Detector] = &[];

/// What the detectors conclude, the most severe first, and within a severity the surest first.
#[must_use]
pub fn findings(record: &Record, summary: &Summary) -> Vec<Finding> {
    let mut all: Vec<Finding> = DETECTORS.iter().flat_map(|detector| (detector.run)(record, summary)).collect();
    all.sort_by(|a, b| b.severity.cmp(&a.severity).then(b.confidence.total_cmp(&a.confidence)));
    all
}

//! The kind of storage measured, if enough was measured to tell.
//!
//! Concludes from [`identify`](mod@crate::identify): the likeliest kind with its runner-up and the strongest evidence
//! for it, or that it is unknown. A refuted label is named. The confidence is the kind's probability.

use qd1_model::FindingId;
use qd1_model::identity::{EvidenceSource, Identity, KindProbability};
use qd1_model::{Finding, Record, Severity, Summary};

use super::{base_finding, percent};
use crate::identify::{PARTS_MIN, identify};

/// Below this, no kind is stated.
const LIKELY: f64 = 0.5;
/// Number of pieces of evidence listed.
const LISTED: usize = 3;

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    identify(record)
        .filter(|identity| identity.measured >= PARTS_MIN)
        .map(|identity| finding(&identity))
        .into_iter()
        .collect()
}

fn finding(identity: &Identity) -> Finding {
    let [first, second] = [identity.kinds[0], identity.kinds[1]];
    let named = |kind: &KindProbability| format!("{} {}", kind.kind.title(), percent(kind.probability));
    let title = if first.probability >= LIKELY {
        format!("the kind of storage is {}", first.kind.title())
    } else {
        "the kind of storage cannot be determined".to_owned()
    };
    let speaks = |weight: f64| first.probability < LIKELY || weight > 0.0;
    let for_it = identity
        .evidence
        .iter()
        .filter(|one| one.source != EvidenceSource::Label)
        .filter(|one| one.weights.iter().any(|weight| weight.kind == first.kind && speaks(weight.weight)));
    let mut texts: Vec<String> = for_it.take(LISTED).map(|one| one.text.clone()).collect();
    texts.insert(0, format!("{}, {}", named(&first), named(&second)));
    texts.extend(identity.contradictions.iter().cloned());
    Finding {
        title,
        evidence: texts.join("; "),
        ..base_finding(FindingId::StorageKind, Severity::Info, first.probability)
    }
}

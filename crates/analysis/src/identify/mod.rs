//! What kind of storage a Record was measured on: probabilities, with the evidence for and against each kind.
//!
//! A log-likelihood model (docs/method.md). Each kind has classes with published ranges of figures (`kinds.tsv`);
//! within a class the figures count as independent, with their logarithms scaled down ([`TEMPER`]) because they are
//! correlated. Labels (`labels.tsv`) count little, so that measurements outrank them. What this machine's own kernel
//! serves itself (loop, zram, tmpfs, NFS) is known and not inferred. If little was measured, the probabilities are
//! drawn closer to each other.

mod features;
mod kinds;
mod labels;

use qd1_model::Record;
use qd1_model::identity::{EvidenceSource, Identity, KindEvidence, KindProbability, KindWeight, StorageKind};
use qd1_model::order::Order as _;

use features::{Feature, FeatureSet, collect};
use kinds::{Class, TABLE};
use labels::{Label, labels, structure};

/// Weight of a figure's logarithm: figures of one device depend on each other more than those of different devices do.
const TEMPER: f64 = 0.6;
/// The most that all labels together may count for a kind, compared with the average (natural logarithm: a factor of
/// 90).
const LABELS_MAX: f64 = 4.5;
/// With this many different things measured the probabilities are used unchanged; with fewer they are drawn together.
const PARTS_ENOUGH: u32 = 6;
/// Fewest things measured for a [`Finding`](qd1_model::Finding).
pub(crate) const PARTS_MIN: u32 = 5;
/// The remaining weight of figures if workers waited for a processor all the time.
const TRUST_MIN: f64 = 0.5;
/// Their remaining weight if a limit on requests per second decides how long requests take.
const TRUST_LIMITED: f64 = 0.5;
/// Probability left to the other kinds if the kernel itself is the storage.
const STRUCTURE_DOUBT: f64 = 0.03;
/// A label that is this many times as likely on a kind claims that kind.
const SAYS: f64 = 3.0;
/// A kind less probable than this is contradicted.
const CONTRADICTED: f64 = 0.1;

const KINDS: usize = StorageKind::ALL.len();

/// Identifies the storage of `record`; nothing if neither measurements nor this kernel's layers allow a conclusion.
#[must_use]
pub fn identify(record: &Record) -> Option<Identity> {
    let FeatureSet { features, parts, missing, waited, limited } = collect(record);
    let structure = structure(&record.environment);
    if parts == 0 && structure.is_none() {
        return None;
    }
    let labels = labels(&record.environment);
    let measured = Measured::of(&features);
    let of_labels = sum_of_labels(&labels);
    let inferred = normalized(std::array::from_fn(|kind| measured.kinds[kind] + of_labels[kind]));
    let of_the_disk = if limited { TRUST_LIMITED } else { 1.0 };
    let inferred = doubted(inferred, trust(parts) * (1.0 - waited).max(TRUST_MIN) * of_the_disk);
    let mut probabilities = inferred;
    if let Some((kind, _)) = &structure {
        probabilities.iter_mut().for_each(|p| *p *= STRUCTURE_DOUBT);
        probabilities[index(*kind)] += 1.0 - STRUCTURE_DOUBT;
    }
    let kinds = likeliest_first(probabilities);
    let mut evidence: Vec<KindEvidence> = features.iter().map(|feature| measured.evidence(feature)).collect();
    evidence.extend(labels.iter().map(of_label));
    let top = kinds[0].kind;
    let weight = |evidence: &KindEvidence| evidence.weights[index(top)].weight;
    evidence.order_by(|a, b| weight(b).abs().total_cmp(&weight(a).abs()));
    if let Some((kind, text)) = &structure {
        evidence.insert(0, of_structure(*kind, text.clone()));
    }
    let contradictions = contradictions(&evidence, &labels, structure.as_ref(), &measured, &inferred, parts);
    Some(Identity { kinds, evidence, contradictions, missing, measured: parts })
}

/// Probabilities by figures alone, the likeliest kind first: names and values as in `kinds.tsv`. `doubts` draws them
/// together if few of the things that [`identify`] measures are among them.
#[must_use]
pub fn by_figures(figures: &[(&'static str, f64)], doubts: bool) -> Vec<KindProbability> {
    let features = figures.iter().map(|(name, value)| Feature { name, value: *value, text: String::new() });
    let features: Vec<Feature> = features.collect();
    let trust = if doubts { trust(features::parts(&features)) } else { 1.0 };
    likeliest_first(doubted(normalized(Measured::of(&features).kinds), trust))
}

/// How far probabilities are used unchanged with this many things measured.
fn trust(parts: u32) -> f64 {
    (f64::from(parts) / f64::from(PARTS_ENOUGH)).min(1.0)
}

/// Drawn evenly towards all kinds by what is missing from `trust`.
fn doubted(probabilities: [f64; KINDS], trust: f64) -> [f64; KINDS] {
    probabilities.map(|p| p * trust + (1.0 - trust) / KINDS as f64)
}

fn likeliest_first(probabilities: [f64; KINDS]) -> Vec<KindProbability> {
    let all = StorageKind::ALL.into_iter().zip(probabilities);
    let mut kinds: Vec<KindProbability> =
        all.map(|(kind, probability)| KindProbability { kind, probability }).collect();
    kinds.order_by(|a, b| b.probability.total_cmp(&a.probability));
    kinds
}

fn index(kind: StorageKind) -> usize {
    kind as usize
}

/// Probabilities from logarithms that are known up to a common constant.
fn normalized(logs: [f64; KINDS]) -> [f64; KINDS] {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights = logs.map(|log| (log - most).exp());
    let sum: f64 = weights.iter().sum();
    debug_assert!(
        sum.is_finite() && sum >= 1.0,
        "some kind is possible, whatever the table says of the figures: {logs:?}"
    );
    weights.map(|weight| weight / sum)
}

/// Log-likelihoods of the measurements.
struct Measured {
    /// Of each kind, combined over its classes.
    kinds: [f64; KINDS],
    /// Each class with its share of its kind, given all figures.
    classes: Vec<(&'static Class, f64)>,
}

impl Measured {
    fn of(features: &[Feature]) -> Self {
        let log_of = |class: &Class| {
            let each = features.iter().filter_map(|one| TABLE.log_likelihood(class, one.name, one.value));
            class.weight.ln() + TEMPER * each.sum::<f64>()
        };
        let logs: Vec<f64> = TABLE.classes.iter().map(log_of).collect();
        let of_kind = |kind: StorageKind| TABLE.classes.iter().zip(&logs).filter(move |(class, _)| class.kind == kind);
        let kinds = StorageKind::ALL.map(|kind| log_sum(of_kind(kind).map(|(_, log)| *log)));
        let share = |class: &Class, log: f64| (log - kinds[index(class.kind)]).exp();
        let classes = TABLE.classes.iter().zip(&logs).map(|(class, log)| (class, share(class, *log))).collect();
        Self { kinds, classes }
    }

    /// What one figure says about each kind, given the weights of its classes by all figures together.
    fn evidence(&self, feature: &Feature) -> KindEvidence {
        let of = |kind: StorageKind| {
            let classes = self.classes.iter().filter(|(class, _)| class.kind == kind);
            let logs = classes.filter_map(|(class, share)| {
                let log = TABLE.log_likelihood(class, feature.name, feature.value)?;
                Some(share.max(1e-12).ln() + log)
            });
            TEMPER * log_sum(logs)
        };
        KindEvidence {
            feature: feature.name.to_owned(),
            source: EvidenceSource::Measured,
            text: feature.text.clone(),
            value: Some(feature.value),
            weights: against_average(StorageKind::ALL.map(of)),
        }
    }
}

fn log_sum(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    most + logs.map(|log| (log - most).exp()).sum::<f64>().ln()
}

fn against_average(logs: [f64; KINDS]) -> Vec<KindWeight> {
    let mean = logs.iter().sum::<f64>() / KINDS as f64;
    StorageKind::ALL.into_iter().zip(logs).map(|(kind, log)| KindWeight { kind, weight: log - mean }).collect()
}

/// What all labels say together, limited to [`LABELS_MAX`].
fn sum_of_labels(labels: &[Label]) -> [f64; KINDS] {
    let sums = StorageKind::ALL.map(|kind| labels.iter().map(|label| label.log_factor(kind)).sum::<f64>());
    sums.map(|sum| sum.clamp(-LABELS_MAX, LABELS_MAX))
}

fn of_label(label: &Label) -> KindEvidence {
    KindEvidence {
        feature: format!("label_{}", label.name),
        source: EvidenceSource::Label,
        text: label.text.clone(),
        value: None,
        weights: against_average(StorageKind::ALL.map(|kind| label.log_factor(kind))),
    }
}

fn of_structure(kind: StorageKind, text: String) -> KindEvidence {
    let log = ((1.0 - STRUCTURE_DOUBT) / STRUCTURE_DOUBT * KINDS as f64).ln();
    let logs = StorageKind::ALL.map(|known| if known == kind { log } else { 0.0 });
    KindEvidence {
        feature: "structure".to_owned(),
        source: EvidenceSource::Structure,
        text,
        value: None,
        weights: against_average(logs),
    }
}

/// Labels that the measurements refute, and what is visible through a layer of this kernel.
fn contradictions(
    evidence: &[KindEvidence],
    labels: &[Label],
    structure: Option<&(StorageKind, String)>,
    measured: &Measured,
    inferred: &[f64; KINDS],
    parts: u32,
) -> Vec<String> {
    if parts < PARTS_MIN {
        return Vec::new();
    }
    let mut said = Vec::new();
    // The figure that is the strongest evidence against a kind.
    let against = |kind: StorageKind| {
        let figures = evidence.iter().filter(|one| one.source == EvidenceSource::Measured);
        figures.min_by(|a, b| a.weights[index(kind)].weight.total_cmp(&b.weights[index(kind)].weight))
    };
    let claims = |label: &Label, kind: StorageKind| label.log_factor(kind) >= SAYS.ln();
    for label in labels {
        let meant: Vec<StorageKind> = StorageKind::ALL.into_iter().filter(|kind| claims(label, *kind)).collect();
        // Without the labels, since a label must not support itself.
        let alone = normalized(measured.kinds);
        let is_refuted = !meant.is_empty() && meant.iter().all(|kind| alone[index(*kind)] < CONTRADICTED / 2.0);
        let likeliest = meant.iter().max_by(|a, b| label.log_factor(**a).total_cmp(&label.log_factor(**b)));
        if is_refuted
            && let Some(kind) = likeliest
            && let Some(figure) = against(*kind)
        {
            said.push(format!("{}, but {}", label.text, figure.text));
        }
    }
    if let Some((kind, text)) = structure {
        let top = StorageKind::ALL.into_iter().max_by(|a, b| inferred[index(*a)].total_cmp(&inferred[index(*b)]));
        if let Some(top) = top.filter(|top| top != kind && inferred[index(*kind)] < CONTRADICTED) {
            said.push(format!("{text}; the storage behaves like: {}", top.title()));
        }
    }
    said
}

#[cfg(test)]
mod tests;

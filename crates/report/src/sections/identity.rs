//! The kind of storage, for people: the likeliest kinds, the evidence for and against them, and what was not examined.

use qd1_model::identity::{EvidenceSource, Identity, KindEvidence, StorageKind};
use qd1_model::order::Order as _;
use qd1_model::{Report, Subject};

use crate::page::{BOLD, DIM, GOOD, MIDDLING, NOTE, Page};
use crate::section::{Lines, Section};
use crate::table::escaped;

/// Column at which the text next to a label begins.
const COLUMN: usize = 11;
/// Kinds below this are not listed; the JSON has all.
const LISTED: f64 = 0.01;
/// From this probability on a kind is stated as certain; below [`LIKELY`] as uncertain.
const SURE: f64 = 0.9;
const LIKELY: f64 = 0.5;
/// Evidence that makes a kind this much likelier or less likely than the others is named with it (factors).
const FACTOR_MIN: f64 = 1.5;
/// What the model was tested on.
const SHOWN: &str = "Probabilities from a model that was right for 98 % of 300 simulated disks (for one it was \
                     confidently wrong) and for 21 of 46 published results of real products, which had two to five of \
                     its six inputs (docs/method/identify.md).";
/// Most kinds named for and against in a line.
const NAMED: usize = 3;

/// Returns true if the run was made to identify the storage.
pub(crate) fn is_identify(report: &Report) -> bool {
    report.record.plan.subject == Subject::Identify
}

/// The likeliest kinds of storage.
pub(crate) struct Kind<'a> {
    pub(crate) identity: &'a Identity,
}

impl Section for Kind<'_> {
    fn answer(&self) -> String {
        sentence(self.identity)
    }

    fn brief(&self, page: &mut Page) {
        brief(page, self.identity);
    }

    fn human(&self, page: &mut Page) {
        section(page, self.identity);
    }

    fn markdown(&self, text: &mut String) {
        markdown(text, self.identity);
    }

    fn lines(&self, lines: &mut Lines<'_>) {
        lines.add("identity", self.identity);
    }
}

/// Returns the answer in a sentence.
fn sentence(identity: &Identity) -> String {
    let mut kinds = identity.kinds.iter();
    let (Some(first), Some(second)) = (kinds.next(), kinds.next()) else {
        return "Nothing was measured that distinguishes the kinds of storage.".to_owned();
    };
    // An answer from memory does not show whose memory it is.
    let title = |kind: StorageKind| if kind == StorageKind::Ram { "memory or a host's cache" } else { kind.title() };
    let (name, share) = (title(first.kind), percent(first.probability));
    let other = format!("{} {}", title(second.kind), percent(second.probability));
    match first.probability {
        p if p >= SURE => format!("Kind of storage: like {name} ({share})."),
        p if p >= LIKELY => format!("Kind of storage: most like {name} ({share}); {other}."),
        _ => format!("Kind of storage: uncertain; {name} {share}, {other}."),
    }
}

/// Returns the kind that a disk is most like, if there is one: `like local NVMe (95 %)`.
pub(crate) fn likely(report: &Report) -> Option<String> {
    let top = report.part::<Identity>()?.top().filter(|top| top.probability >= LIKELY)?;
    Some(format!("like {} ({:.0} %)", top.kind.title(), 100.0 * top.probability))
}

/// Most pieces of evidence on the first screen.
const EVIDENCE: usize = 4;

/// Writes the likeliest kinds, and the evidence that weighs most for or against the first.
fn brief(page: &mut Page, identity: &Identity) {
    most_likely(page, identity);
    let Some(first) = identity.kinds.first() else { return };
    let weight = |evidence: &&KindEvidence| {
        evidence
            .weights
            .iter()
            .filter(|weight| weight.kind == first.kind)
            .map(|weight| weight.weight.abs())
            .sum::<f64>()
    };
    let mut evidence: Vec<&KindEvidence> = identity.evidence.iter().collect();
    evidence.order_by(|a, b| weight(b).total_cmp(&weight(a)));
    for evidence in evidence.into_iter().take(EVIDENCE) {
        page.hang(2, "because", DIM, COLUMN, &evidence.text);
    }
    for contradiction in &identity.contradictions {
        page.hang(2, "but", MIDDLING, COLUMN, contradiction);
    }
}

fn most_likely(page: &mut Page, identity: &Identity) {
    for kind in identity.kinds.iter().filter(|kind| kind.probability >= LISTED) {
        let paint = if kind.probability >= LIKELY { GOOD } else { DIM };
        page.hang(2, &format!("{:>5}", percent(kind.probability)), paint, COLUMN, kind.kind.title());
    }
}

/// Writes the section of the human report.
fn section(page: &mut Page, identity: &Identity) {
    if identity.kinds.is_empty() {
        return;
    }
    page.heading("How likely");
    most_likely(page, identity);
    page.prose(2, SHOWN);
    page.heading("Why");
    for evidence in &identity.evidence {
        let label = match evidence.source {
            EvidenceSource::Measured => "measured",
            EvidenceSource::Label => "label",
            EvidenceSource::Structure => "kernel",
        };
        page.hang(2, label, BOLD, COLUMN, &evidence.text);
        let kinds = for_and_against(evidence);
        if !kinds.is_empty() {
            page.prose(COLUMN + 2, &kinds);
        }
    }
    if !identity.contradictions.is_empty() {
        page.heading("Contradictions");
        for contradiction in &identity.contradictions {
            page.hang(2, "!", MIDDLING, 4, contradiction);
        }
    }
    if !identity.missing.is_empty() {
        page.heading("Not examined");
        for missing in &identity.missing {
            page.hang(2, "-", NOTE, 4, missing);
        }
    }
}

/// Writes the section of the Markdown report.
fn markdown(text: &mut String, identity: &Identity) {
    if identity.kinds.is_empty() {
        return;
    }
    *text += "### How likely\n\n| kind | probability |\n|---|--:|\n";
    for kind in identity.kinds.iter().filter(|kind| kind.probability >= LISTED) {
        *text += &format!("| {} | {} |\n", kind.kind.title(), percent(kind.probability));
    }
    *text += &format!("\n{SHOWN}\n\n### Why\n\n| evidence | for and against |\n|---|---|\n");
    for evidence in &identity.evidence {
        *text += &format!("| {} | {} |\n", escaped(&evidence.text), for_and_against(evidence));
    }
    for contradiction in &identity.contradictions {
        *text += &format!("\nContradiction: {}\n", escaped(contradiction));
    }
    for missing in &identity.missing {
        *text += &format!("\nNot examined: {}\n", escaped(missing));
    }
    text.push('\n');
}

/// Returns `for local NVMe (3.1x), memory (2.0x); against rotating disk (1/40)`: factors relative to the average kind.
fn for_and_against(evidence: &KindEvidence) -> String {
    let mut weights: Vec<(StorageKind, f64)> =
        evidence.weights.iter().map(|weight| (weight.kind, weight.weight)).collect();
    weights.order_by(|a, b| b.1.total_cmp(&a.1));
    let listed = |of: Vec<String>, word: &str| match of.is_empty() {
        true => None,
        false => Some(format!("{word} {}", of.join(", "))),
    };
    let is_strong = |weight: f64| weight.abs() >= FACTOR_MIN.ln();
    let named = |(kind, weight): &(StorageKind, f64)| format!("{} ({})", kind.title(), factor(*weight));
    let for_it = weights.iter().take(NAMED).filter(|(_, weight)| *weight > 0.0 && is_strong(*weight)).map(named);
    let against = weights.iter().rev().take(NAMED).filter(|(_, weight)| *weight < 0.0 && is_strong(*weight)).map(named);
    let sides = [listed(for_it.collect(), "for"), listed(against.collect(), "against")];
    sides.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn factor(weight: f64) -> String {
    let times = weight.abs().exp();
    let number = if times < 9.95 { format!("{times:.1}") } else { format!("{times:.0}") };
    if weight >= 0.0 { format!("{number}x") } else { format!("1/{number}") }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        value if value > 99.0 => "> 99 %".to_owned(),
        value => format!("{value:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use qd1_model::identity::{KindProbability, KindWeight};

    use super::*;
    use crate::page::Style;

    fn identity(first: f64) -> Identity {
        let kinds = StorageKind::ALL
            .into_iter()
            .enumerate()
            .map(|(at, kind)| KindProbability { kind, probability: if at == 0 { first } else { (1.0 - first) / 8.0 } });
        let weights = StorageKind::ALL
            .into_iter()
            .enumerate()
            .map(|(at, kind)| KindWeight { kind, weight: [2.0, 1.0, -3.0, 0.1, 0.0, 0.0, 0.0, 0.0, -0.1][at] });
        Identity {
            kinds: kinds.collect(),
            evidence: vec![KindEvidence {
                feature: "read_median".to_owned(),
                source: EvidenceSource::Measured,
                text: "random 4 KiB reads take 92.1 us".to_owned(),
                value: Some(92_100.0),
                weights: weights.collect(),
            }],
            contradictions: vec!["vda says it rotates, but a read takes 90 us".to_owned()],
            missing: vec!["what a byte costs: there are no 1 MiB reads, one at a time".to_owned()],
            measured: 6,
        }
    }

    #[test]
    fn the_answer_is_as_sure_as_the_probability_and_no_surer() {
        let text = |first| sentence(&identity(first));
        assert_eq!(text(0.95), "Kind of storage: like local NVMe (95 %).");
        assert!(text(0.7).contains("most like local NVMe (70 %)"));
        assert!(text(0.3).contains("uncertain"));
    }

    #[test]
    fn evidence_names_the_kinds_for_and_against_with_its_strength() {
        let identity = identity(0.95);
        for width in [60, 80, 120] {
            let mut page = Page::new(&Style::plain(width));
            section(&mut page, &identity);
            let text = page.text;
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                flat.contains("for local NVMe (7.4x), local SATA SSD (2.7x); against rotating disk (1/20)"),
                "{flat}"
            );
            assert!(flat.contains("Contradictions") && flat.contains("Not examined"), "{flat}");
        }
    }

    #[test]
    fn markdown_has_the_same() {
        let mut text = String::new();
        markdown(&mut text, &identity(0.95));
        assert!(text.contains("| local NVMe | 95 % |") && text.contains("against rotating disk"), "{text}");
    }
}

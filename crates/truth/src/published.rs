//! `qd1 identify` on published results of named products: the model sees only the figures, no labels.
//!
//! `published.tsv` contains the figures as their sources state them. A source has only some of what `identify`
//! measures, so the model is shown twice: with its doubt about what was not measured, as users see it, and without that
//! doubt.

use std::fmt::Write as _;

use qd1_analysis::identify::by_figures;
use qd1_model::identity::{KindProbability, StorageKind};

use crate::identify::CONFIDENT;

/// Tab-separated; the first line names the columns, lines that begin with `#` are remarks.
const ROWS: &str = include_str!("published.tsv");
/// Latencies are in microseconds.
const US: f64 = 1e3;
/// Bytes between the two sizes whose times give the cost of a byte.
const SIZES: f64 = ((1 << 20) - (64 << 10)) as f64;

/// One product as described by its source.
#[derive(Clone, Debug)]
pub struct Published {
    /// Its name.
    pub product: &'static str,
    /// What it is.
    pub kind: StorageKind,
    /// Figures by their names in `kinds.tsv`.
    pub figures: Vec<(&'static str, f64)>,
}

impl Published {
    /// The likeliest kind and its probability, with or without the model's doubt.
    pub fn said(&self, doubts: bool) -> KindProbability {
        by_figures(&self.figures, doubts).into_iter().next().expect("each kind has a probability")
    }

    /// Whether it has random reads and at least one other figure.
    fn has_two(&self) -> bool {
        let has = |names: &[&str]| self.figures.iter().any(|(name, _)| names.contains(name));
        has(&["read_median"]) && has(&["seq_random", "parallel", "size_slope", "write_read", "flush"])
    }

    /// Whether the likeliest kind is wrong and the model is sure of it.
    pub fn is_confidently_wrong(&self, doubts: bool) -> bool {
        let said = self.said(doubts);
        said.kind != self.kind && said.probability >= CONFIDENT
    }
}

/// All rows that have a figure of reads or of commits.
///
/// # Panics
/// On a malformed row, which a test would have shown.
pub fn all() -> Vec<Published> {
    let mut lines = ROWS.lines().filter(|line| !line.starts_with('#'));
    let columns: Vec<&str> = lines.next().expect("there is a header").split('\t').collect();
    lines.map(|line| row(&columns, line)).filter(|row| !row.figures.is_empty()).collect()
}

fn row(columns: &[&str], line: &'static str) -> Published {
    let fields: Vec<&'static str> = line.split('\t').collect();
    let field = |name: &str| {
        let at = columns.iter().position(|column| *column == name).expect("the header has it");
        fields.get(at).copied().unwrap_or_default()
    };
    let number = |name: &str| field(name).parse::<f64>().ok();
    let ratio = |above: Option<f64>, below: Option<f64>| above.zip(below).map(|(above, below)| above / below);
    // A source without a median has a mean, which is close to it except for the slowest disks.
    let read = number("read_p50_us").or(number("read_mean_us"));
    let rate = number("read_iops_1").or(number("read_mean_us").map(|us| 1e6 / us));
    let slope = number("read_1m_us").zip(number("read_64k_us")).map(|(large, middle)| (large - middle) * US / SIZES);
    let figures = [
        ("read_median", read.map(|us| us * US)),
        ("read_low", ratio(number("read_p5_us"), number("read_p50_us"))),
        ("read_tail", ratio(number("read_p99_us"), number("read_p50_us"))),
        ("seq_random", ratio(read, number("seqread_mean_us_4k"))),
        ("parallel", ratio(number("read_iops_32"), rate)),
        ("size_slope", slope),
        ("write_read", ratio(number("write_p50_us"), read)),
        // After a buffered write a sync writes the data as well, which no flush does.
        (
            "flush",
            number("sync_p50_us").filter(|_| !field("notes").to_lowercase().contains("buffered")).map(|us| us * US),
        ),
    ];
    let kind = StorageKind::ALL.into_iter().find(|kind| kind.name() == field("kind"));
    Published {
        product: field("product"),
        kind: kind.unwrap_or_else(|| panic!("{line:?} has no known kind")),
        figures: figures.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
    }
}

/// What was reported for those with at least two figures measured, and how often it was right for all.
pub fn table() -> String {
    let all = all();
    let mut text = format!(
        "published: {} results of known products, figures only; those with two or more of them\n  {:42}{:>20}  {:32}{}\n",
        all.len(),
        "",
        "is",
        "said",
        "without the doubt"
    );
    let (enough, thin): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.has_two());
    for one in &enough {
        let said = |doubts| {
            let said = one.said(doubts);
            format!("{} {:.0} %", said.kind.name(), 100.0 * said.probability)
        };
        let mark = if one.is_confidently_wrong(false) { " WRONG" } else { "" };
        let name: String = one.product.chars().take(41).collect();
        let _ = writeln!(text, "  {name:42}{:>20}  {:32}{}{mark}", one.kind.name(), said(true), said(false));
    }
    for (name, of) in [("two figures or more", &enough), ("one figure", &thin)] {
        let right = of.iter().filter(|one| one.said(true).kind == one.kind).count();
        let wrong = |doubts| of.iter().filter(|one| one.is_confidently_wrong(doubts)).count();
        let _ = writeln!(
            text,
            "  {name}: {right} of {} right; confidently wrong {}, without the doubt {}",
            of.len(),
            wrong(true),
            wrong(false)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the model's doubt none can be sure: so few figures do not allow it. Without it a polled Optane drive is
    /// taken for memory: nothing else reads as fast.
    #[test]
    fn without_its_doubt_the_model_is_sure_and_wrong_of_one_published_result() {
        let all = all();
        assert!(all.len() >= 75, "{} rows", all.len());
        let wrong: Vec<&str> =
            all.iter().filter(|one| one.is_confidently_wrong(false)).map(|one| one.product).collect();
        assert!(wrong.len() == 1 && wrong[0].contains("Optane"), "{wrong:?}");
        let enough: Vec<&Published> = all.iter().filter(|one| one.has_two()).collect();
        let right = enough.iter().filter(|one| one.said(true).kind == one.kind).count();
        assert!(right >= 20, "{right} of {}; it was 21 of 46", enough.len());
    }

    /// What `check` compares a disk with is taken from here.
    #[test]
    fn every_reference_has_its_source_here() {
        for row in qd1_analysis::reference::rows() {
            let column = |names: &[usize], fields: &[&str]| {
                names
                    .iter()
                    .find_map(|at| fields[*at].parse::<f64>().ok())
                    .is_some_and(|us| (us * 1e3 / row.ns - 1.0).abs() < 1e-5)
            };
            let has_it = |line: &&str| {
                let fields: Vec<&str> = line.split('\t').collect();
                // The median, else the mean, of reads; the median of syncs.
                let of: &[usize] = if row.what == "read" { &[3, 6] } else { &[13] };
                fields[0] == row.product && fields[1] == row.kind.name() && column(of, &fields)
            };
            assert!(ROWS.lines().skip(1).any(|line| has_it(&line)), "{row:?}");
        }
    }

    #[test]
    fn each_row_has_a_source_and_a_known_kind() {
        for line in ROWS.lines().skip(1) {
            let fields: Vec<&str> = line.split('\t').collect();
            assert!(fields.len() == 17 && !fields[15].is_empty(), "{line}");
        }
    }
}

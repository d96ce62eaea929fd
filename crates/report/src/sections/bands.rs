//! Suites that give letters: criteria with the labels "band A", "band B" and so on, one for the edge of each band, become one
//! line for each figure, and the disk gets the worst letter.

use qd1_model::metric::{Unit, metric};
use qd1_model::order::Order as _;
use qd1_model::plan::criterion::Criterion;
use qd1_model::verdict::Judged;
use qd1_model::{Grade, Report};

use crate::page::{BAD, GOOD, MIDDLING, Page};
use crate::reasons::Reasons;
use crate::words;

/// Before the letter in a label.
const LABEL: &str = "band ";
/// The letter of a figure in no band.
const BEYOND: char = 'F';
const MIB: f64 = (1 << 20) as f64;

/// A figure and its bands, the best one first.
struct Figure<'a> {
    bands: Vec<(char, &'a Judged)>,
}

/// The best and the worst letter that a figure may have; equal if the letter is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Letters {
    best: char,
    worst: char,
}

impl Letters {
    /// `C`, or `B or C`, or `B to D`.
    fn words(self) -> String {
        let Self { best, worst } = self;
        match (worst as u32).saturating_sub(best as u32) {
            0 => best.to_string(),
            1 => format!("{best} or {worst}"),
            _ => format!("{best} to {worst}"),
        }
    }

    const fn paint(self) -> anstyle::Style {
        match self.worst {
            'A' | 'B' => GOOD,
            'C' | 'D' => MIDDLING,
            _ => BAD,
        }
    }
}

impl Figure<'_> {
    fn letters(&self) -> Letters {
        let first = |is_meant: fn(Grade) -> bool| {
            let found = self.bands.iter().find(|(_, judged)| is_meant(judged.grade));
            found.map_or(BEYOND, |(letter, _)| *letter)
        };
        Letters { best: first(|grade| grade != Grade::Fail), worst: first(|grade| grade == Grade::Pass) }
    }

    /// Whether it is not resolved against any band.
    fn is_open(&self) -> bool {
        self.bands.iter().all(|(_, judged)| judged.grade == Grade::NotResolved)
    }

    /// `wal_fsync commit: p99.9 4.42 ms (A 1 ms, B 3 ms, C 10 ms, D 50 ms)`.
    fn words(&self, reasons: &mut Reasons) -> String {
        let judged = self.bands.first().map_or_else(String::new, |(_, judged)| {
            // The letters show which edge its interval lies across.
            reasons.judged(&Judged {
                why: if self.is_open() { judged.why.clone() } else { String::new() },
                ..(*judged).clone()
            })
        });
        format!("{judged} ({})", self.edges())
    }

    /// `A 1 ms, B 3 ms, C 10 ms, D 50 ms`.
    fn edges(&self) -> String {
        let edge = |(letter, judged): &(char, &Judged)| {
            let Criterion { metric: name, pass, .. } = &judged.criterion;
            match metric(name).map(|metric| metric.unit) {
                // Most likely as the suite states it: in round numbers.
                Some(Unit::BytesPerSecond) if pass % MIB == 0.0 => format!("{letter} {} MiB/s", pass / MIB),
                Some(unit) => format!("{letter} {}", words::threshold(unit, *pass)),
                None => format!("{letter} {pass}"),
            }
        };
        let edges: Vec<String> = self.bands.iter().map(edge).collect();
        edges.join(", ")
    }
}

/// The letter of a criterion's band.
pub(crate) fn letter(judged: &Judged) -> Option<char> {
    let mut rest = judged.criterion.label.strip_prefix(LABEL)?.chars();
    rest.next().filter(|letter| letter.is_ascii_uppercase() && rest.next().is_none())
}

fn figures(report: &Report) -> Vec<Figure<'_>> {
    let mut figures: Vec<Figure<'_>> = Vec::new();
    for judged in &report.criteria {
        let Some(letter) = letter(judged) else { continue };
        let is_same = |figure: &&mut Figure<'_>| {
            let Criterion { step, op, metric, .. } = &figure.bands[0].1.criterion;
            (step, op, metric) == (&judged.criterion.step, &judged.criterion.op, &judged.criterion.metric)
        };
        match figures.iter_mut().find(is_same) {
            Some(figure) => figure.bands.push((letter, judged)),
            None => figures.push(Figure { bands: vec![(letter, judged)] }),
        }
    }
    figures.iter_mut().for_each(|figure| figure.bands.order_by_key(|(letter, _)| *letter));
    figures
}

/// Returns the letter of the disk: `p99bench: C, the worst letter of 7 figures (wal_fsync).`; `None` where the suite has no
/// bands. A figure that is not resolved may have any letter, so with one of them the disk's may be worse.
pub(super) fn sentence(report: &Report) -> Option<String> {
    let figures = figures(report);
    let suite = &report.record.plan.suite;
    let (open, known): (Vec<_>, Vec<_>) = figures.iter().partition(|figure| figure.is_open());
    let all: Vec<Letters> = known.iter().map(|figure| figure.letters()).collect();
    let bests = all.iter().map(|one| one.best).max();
    let Some((best, worst)) = bests.zip(all.iter().map(|one| one.worst).max()) else {
        return (!figures.is_empty()).then(|| format!("{suite}: no letter, since no figure is resolved."));
    };
    let is_worst = |figure: &&&Figure<'_>| figure.letters().worst == worst;
    let mut steps: Vec<&str> =
        known.iter().filter(is_worst).map(|figure| figure.bands[0].1.criterion.step.as_str()).collect();
    steps.dedup();
    let letters = match (Letters { best, worst }) {
        Letters { best, .. } if !open.is_empty() && best != BEYOND => format!("{best} or worse"),
        letters => letters.words(),
    };
    let of = if all.len() == 1 { "the only figure".to_owned() } else { format!("{} figures", all.len()) };
    let open = if open.is_empty() { String::new() } else { format!("; {} not resolved", open.len()) };
    Some(format!("{suite}: {letters}, the worst letter of {of} ({}){open}.", steps.join(", ")))
}

fn worst_first(report: &Report) -> Vec<Figure<'_>> {
    let mut figures = figures(report);
    figures.order_by_key(|figure| (figure.is_open(), std::cmp::Reverse(figure.letters().worst)));
    figures
}

/// A figure with its letter, in words.
pub(crate) struct Lettered<'a> {
    /// `C`, or `B to D`; `?` where it is not resolved.
    pub(crate) letter: String,
    /// The grade nearest to the letter, for its colour.
    pub(crate) grade: Grade,
    /// The figure at the edge of its best band.
    pub(crate) judged: &'a Judged,
    /// How far each letter reaches.
    pub(crate) edges: String,
}

/// Returns the figures that have letters, the worst first.
pub(crate) fn lettered(report: &Report) -> Vec<Lettered<'_>> {
    fn one(figure: Figure<'_>) -> Option<Lettered<'_>> {
        let judged = figure.bands.first()?.1;
        let letters = figure.letters();
        let (letter, grade) = match letters.worst {
            _ if figure.is_open() => ("?".to_owned(), Grade::NotResolved),
            'A' | 'B' => (letters.words(), Grade::Pass),
            'C' | 'D' => (letters.words(), Grade::Marginal),
            _ => (letters.words(), Grade::Fail),
        };
        Some(Lettered { letter, grade, judged, edges: figure.edges() })
    }
    worst_first(report).into_iter().filter_map(one).collect()
}

/// Writes a line for each figure, the worst letters first.
pub(super) fn lines(page: &mut Page, report: &Report, reasons: &mut Reasons) {
    for figure in &worst_first(report) {
        let letters = figure.letters();
        let (label, paint) =
            if figure.is_open() { ("?".to_owned(), crate::page::NOTE) } else { (letters.words(), letters.paint()) };
        page.hang(2, &label, paint, 9, &figure.words(reasons));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;

    /// The first criterion of the sample at four edges, with these grades; then another figure in band A.
    fn report(grades: [Grade; 4]) -> Report {
        let mut report = sample::suite();
        let like = report.criteria[0].clone();
        let band = |letter: char, step: &str, grade| Judged {
            criterion: Criterion { label: format!("band {letter}"), step: step.to_owned(), ..like.criterion.clone() },
            grade,
            ..like.clone()
        };
        report.criteria =
            ['A', 'B', 'C', 'D'].into_iter().zip(grades).map(|(letter, grade)| band(letter, "wal", grade)).collect();
        report.criteria.push(band('A', "read", Grade::Pass));
        report
    }

    #[test]
    fn the_worst_letter_is_the_disks() {
        use Grade::{Fail, NotResolved, Pass};
        for (grades, letter) in [
            ([Pass, Pass, Pass, Pass], "A"),
            ([Fail, Fail, Pass, Pass], "C"),
            ([Fail, NotResolved, Pass, Pass], "B or C"),
            ([NotResolved, NotResolved, Fail, Fail], "A to F"),
            ([Fail, Fail, Fail, Fail], "F"),
        ] {
            let said = sentence(&report(grades)).unwrap();
            assert!(said.contains(&format!(": {letter}, the worst letter of 2 figures")), "{said}");
        }
        let open = sentence(&report([NotResolved; 4])).unwrap();
        assert!(open.ends_with(": A or worse, the worst letter of the only figure (read); 1 not resolved."), "{open}");
        assert_eq!(sentence(&sample::suite()), None);
    }
}

//! Where a disk stands among those that others published: a line, and a small chart of the kinds.

use qd1_model::reference::Standing;
use qd1_model::units::format_ns;

use crate::page::{BOLD, DIM, Page};

/// Column of the chart, and its width.
const LABEL: usize = 36;
const CHART: usize = 42;
/// The ends of its axis, as powers of ten of ns: 1 us and 100 ms.
const FROM: f64 = 3.0;
const TO: f64 = 8.0;
const NOTE: &str = "Medians that others published of products whose names they gave, by other tools and on other machines: - from the \
                    least to the most, | their median, * this disk (crates/truth/src/published.tsv has the sources).";

/// Returns where the disk stands, in a sentence; `None` where nothing was measured for it.
pub(crate) fn sentence(standings: &[Standing]) -> Option<String> {
    let one = |standing: &Standing| {
        let Standing { requests, median_ns, slower, of, .. } = standing;
        format!("{requests} ({}) faster than {slower} of {of}", format_ns(*median_ns))
    };
    let all: Vec<String> = standings.iter().map(one).collect();
    (!all.is_empty()).then(|| format!("Among published disks: {}.", all.join(", ")))
}

/// Writes the chart.
pub(crate) fn section(page: &mut Page, standings: &[Standing]) {
    if standings.is_empty() || page.style.width < LABEL + CHART {
        return;
    }
    for standing in standings {
        let title = if standing.requests == "commits" { "sync of a commit" } else { "single 4 KiB reads" };
        page.heading(&format!("Among published disks: median of {title}"));
        for kind in &standing.kinds {
            let mut bar = [' '; CHART];
            let (least, most) = (place(kind.least_ns), place(kind.most_ns));
            bar[least..=most].fill('-');
            bar[place(kind.median_ns)] = '|';
            bar[place(standing.median_ns)] = '*';
            let label = format!("{} ({})", kind.kind.title(), kind.count);
            page.line(&format!("  {label:<w$}{}", bar.iter().collect::<String>(), w = LABEL - 2));
        }
        let mut axis = [' '; CHART];
        for (ns, text) in [(1e3, "1us"), (1e4, "10us"), (1e5, "100us"), (1e6, "1ms"), (1e7, "10ms")] {
            let at = place(ns);
            text.chars().enumerate().for_each(|(offset, letter)| axis[at + offset] = letter);
        }
        let axis = page.paint(DIM, &axis.iter().collect::<String>());
        page.line(&format!("{:LABEL$}{axis}", ""));
    }
    for line in crate::page::wrap(NOTE, page.prose_width() - 2) {
        let line = page.paint(DIM, &line);
        page.line(&format!("  {line}"));
    }
}

fn place(ns: f64) -> usize {
    let share = (ns.max(1.0).log10() - FROM) / (TO - FROM);
    ((share * CHART as f64) as usize).min(CHART - 1)
}

/// Writes the line on the first screen.
pub(crate) fn brief(page: &mut Page, standings: &[Standing]) {
    if let Some(sentence) = sentence(standings) {
        page.hang(2, "", BOLD, 2, &sentence);
    }
}

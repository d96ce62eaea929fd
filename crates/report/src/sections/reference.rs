//! Where a disk stands among those that others published: a line, and a small chart of the kinds.

use qd1_model::Report;
use qd1_model::metric::metric;
use qd1_model::reference::{AmongVps, Standing};
use qd1_model::units::format_ns;

use crate::page::{BOLD, DIM, Page};

/// Column of the chart, and its width.
const LABEL: usize = 36;
const CHART: usize = 42;
/// The ends of its axis, as powers of ten of ns: 1 us and 100 ms.
const FROM: f64 = 3.0;
const TO: f64 = 8.0;
const NOTE: &str = "Medians that others published for named products, measured with other tools on other machines: - \
                    from the lowest to the highest, | their median, * this disk (sources: \
                    crates/truth/src/published.tsv).";
const NOTE_VPS: &str = "Compared: step wal here, and 8 KiB O_SYNC writes into allocated space there. Both are durable \
                        when they return, and go to space not yet written. Each host counts once, with the median of \
                        its runs (docs/verdicts.md says what can be compared).";

/// Returns where the disk stands, in a sentence; `None` where nothing was measured for it.
pub(crate) fn sentence(report: &Report) -> Option<String> {
    let one = |standing: &Standing| {
        let Standing { requests, median_ns, slower, of, .. } = standing;
        format!("{requests} ({}) faster than {slower} of {of}", format_ns(*median_ns))
    };
    let all: Vec<String> = report.standings.iter().map(one).collect();
    let disks = (!all.is_empty()).then(|| format!("Among published disks: {}.", all.join(", ")));
    let sentences: Vec<String> = [disks, vps(&report.among_vps)].into_iter().flatten().collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// Where it stands among VPS: `Durable appends: p99 1.20 ms, better than 8 of 13 VPS of 2026; p99.9 4.10 ms, than 6.`
fn vps(among: &[AmongVps]) -> Option<String> {
    let (first, others) = among.split_first()?;
    let figure = |one: &AmongVps| {
        let title = metric(&one.metric).map_or(one.metric.as_str(), |metric| metric.title);
        format!("{title} {}", format_ns(one.value_ns))
    };
    let others = others.iter().map(|one| format!("; {}, than {}", figure(one), one.slower)).collect::<String>();
    Some(format!(
        "Durable appends: {}, better than {} of {} VPS of 2026{others}.",
        figure(first),
        first.slower,
        first.of
    ))
}

/// Writes the chart.
pub(crate) fn section(page: &mut Page, report: &Report) {
    among_vps(page, &report.among_vps);
    let standings = &report.standings;
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

/// Writes where it stands among VPS.
fn among_vps(page: &mut Page, among: &[AmongVps]) {
    let Some(sentence) = vps(among) else { return };
    page.heading("Among VPS that p99bench measured in July 2026");
    page.prose(2, &sentence);
    for one in among {
        let title = metric(&one.metric).map_or(one.metric.as_str(), |metric| metric.title);
        let [least, median, most] = [one.least_ns, one.median_ns, one.most_ns].map(format_ns);
        page.prose(2, &format!("Their {title}: from {least} to {most}, median {median}."));
    }
    for line in crate::page::wrap(NOTE_VPS, page.prose_width() - 2) {
        let line = page.paint(DIM, &line);
        page.line(&format!("  {line}"));
    }
}

fn place(ns: f64) -> usize {
    let share = (ns.max(1.0).log10() - FROM) / (TO - FROM);
    ((share * CHART as f64) as usize).min(CHART - 1)
}

/// Writes the line on the first screen.
pub(crate) fn brief(page: &mut Page, report: &Report) {
    if let Some(sentence) = sentence(report) {
        page.hang(2, "", BOLD, 2, &sentence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_stands_among_vps_by_each_figure_of_its_tail() {
        let one = |metric: &str, value_ns, slower| AmongVps {
            metric: metric.to_owned(),
            value_ns,
            slower,
            of: 13,
            least_ns: 0.4e6,
            median_ns: 1.8e6,
            most_ns: 21e6,
        };
        let said = vps(&[one("lat_p99_ns", 1.2e6, 8), one("lat_p999_ns", 4.1e6, 6)]).unwrap();
        assert_eq!(said, "Durable appends: p99 1.20 ms, better than 8 of 13 VPS of 2026; p99.9 4.10 ms, than 6.");
        assert_eq!(vps(&[]), None);
    }
}

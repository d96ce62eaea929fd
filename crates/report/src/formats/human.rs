//! The report for a terminal: the verdict first, then what it is based on. Plain ASCII, made for 80 columns.

use qd1_model::Report;

use crate::headline;
use crate::machine;
use crate::page::{DIM, Page, Style};
use crate::sections::{self, findings};

/// Column of a fact about the place.
const FACT: usize = 15;

/// Returns the whole report.
pub(crate) fn render(report: &Report, style: &Style) -> String {
    let mut page = Page::new(style);
    for sentence in headline::headline(report) {
        page.bold(&sentence);
    }
    sections::body(report).iter().for_each(|section| section.human(&mut page));
    if !sections::leading(report).stands_alone() {
        findings::human(&mut page, report);
    }
    page.heading("Where and how");
    for (label, text) in sections::place_of(report) {
        page.hang(2, label, DIM, FACT, &text);
    }
    page.heading("Run it again");
    // Never wrapped by us: a broken line could not be pasted.
    page.line(&format!("  {}", machine::command_again(&report.record)));
    if report.record.is_unfinished() {
        page.line(&format!("or continue: qd1 check --resume {}", report.record.id));
    }
    page.text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;

    fn plain(report: &Report, width: usize) -> String {
        render(report, &Style::plain(width))
    }

    /// The command at the end is exempt: it must stay in one piece to be pasted.
    fn longest_line(text: &str) -> usize {
        let body = text.split("\nRun it again").next().unwrap();
        body.lines().map(|line| line.chars().count()).max().unwrap()
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide() {
        for report in [sample::slow_vps(), sample::interrupted(), sample::fast_nvme(), sample::suite()] {
            for width in [40, 60, 79, 80, 100, 132] {
                let text = plain(&report, width);
                assert!(longest_line(&text) <= width, "{width}:\n{text}");
            }
        }
    }

    #[test]
    fn the_body_is_plain_ascii_so_any_terminal_shows_it() {
        assert!(plain(&sample::slow_vps(), 80).is_ascii());
    }

    #[test]
    fn colour_adds_escape_sequences_and_changes_no_word() {
        let painted = render(&sample::slow_vps(), &Style { color: true, ..Style::plain(80) });
        let mut bare = String::new();
        let mut rest = painted.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            bare += before;
            rest = after.split_once('m').unwrap().1;
        }
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trimmed(&(bare + rest)), trimmed(&plain(&sample::slow_vps(), 80)));
    }

    #[test]
    fn an_unresolved_percentile_says_how_many_samples_it_needs() {
        let text = plain(&sample::slow_vps(), 80);
        assert!(text.contains("not resolved") && text.contains("needs ~1,000"), "{text}");
    }

    #[test]
    fn the_report_of_a_run_without_any_step_is_still_a_report() {
        let mut report = sample::interrupted();
        report.summary.steps.clear();
        report.record.steps.clear();
        report.verdicts.clear();
        report.impressions.clear();
        report.durability = None;
        let text = plain(&report, 80);
        assert!(text.contains("0 steps measured; no class of workload was judged."), "{text}");
    }

    #[test]
    fn human_snapshot_at_80_columns() {
        insta::assert_snapshot!(plain(&sample::slow_vps(), 80));
    }

    #[test]
    fn human_snapshot_of_an_interrupted_run() {
        insta::assert_snapshot!(plain(&sample::interrupted(), 80));
    }

    #[test]
    fn human_snapshot_of_a_fast_disk() {
        insta::assert_snapshot!(plain(&sample::fast_nvme(), 80));
    }

    #[test]
    fn human_snapshot_of_a_check_over_a_day() {
        insta::assert_snapshot!(plain(&sample::over_a_day(), 80));
    }

    #[test]
    fn human_snapshot_of_a_suite() {
        insta::assert_snapshot!("human_suite_80", plain(&sample::suite(), 80));
        insta::assert_snapshot!("human_suite_60", plain(&sample::suite(), 60));
    }

    #[test]
    fn human_snapshot_in_colour() {
        let report = Report { summary: Default::default(), ..sample::slow_vps() };
        insta::assert_snapshot!(render(&report, &Style { color: true, ..Style::plain(80) }));
    }

    #[test]
    fn human_snapshot_at_120_and_at_60_columns() {
        insta::assert_snapshot!("human_120", plain(&sample::slow_vps(), 120));
        insta::assert_snapshot!("human_60", plain(&sample::interrupted(), 60));
    }
}

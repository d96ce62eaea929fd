//! The report for an issue or a forum post: the same content as the human one, as GitHub-flavoured tables.

use qd1_model::Report;

use crate::headline;
use crate::machine;
use crate::sections::{self, findings, reference};
use crate::table::escaped;

/// Returns the whole report.
pub(crate) fn render(report: &Report) -> String {
    let headline = headline::headline(report);
    let sentences: String = headline.iter().map(|sentence| format!("**{}**\n\n", escaped(sentence))).collect();
    let among = reference::sentence(report).map_or_else(String::new, |among| format!("{}\n\n", escaped(&among)));
    sentences + &among + &body(report)
}

/// Returns the report without what the first screen of a page has.
pub(crate) fn body(report: &Report) -> String {
    let mut text = String::new();
    sections::body(report).iter().for_each(|section| section.markdown(&mut text));
    if !sections::leading(report).stands_alone() {
        findings::markdown(&mut text, report);
    }
    text += "### Where and how\n\n| | |\n|---|---|\n";
    for (label, fact) in sections::place_of(report) {
        text += &format!("| {label} | {} |\n", escaped(&fact));
    }
    text += &format!("\n### Run it again\n\n```sh\n{}\n```\n", machine::command_again(&report.record));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;

    #[test]
    fn every_row_of_a_table_has_as_many_cells_as_its_heading() {
        let text = render(&sample::slow_vps()) + &render(&sample::suite()) + &render(&sample::over_a_day());
        let mut columns = None;
        for line in text.lines() {
            let bars = line.replace("\\|", "").matches('|').count();
            columns = if bars == 0 { None } else { Some(*columns.get_or_insert(bars)) };
            assert_eq!(columns.unwrap_or(0), bars, "{line}");
        }
    }

    #[test]
    fn a_path_or_model_cannot_break_the_table() {
        assert_eq!(escaped("a|b <path> x_y"), "a\\|b \\<path\\> x\\_y");
    }

    #[test]
    fn markdown_snapshot() {
        insta::assert_snapshot!(render(&sample::slow_vps()));
    }

    #[test]
    fn markdown_of_a_suite_snapshot() {
        insta::assert_snapshot!(render(&sample::suite()));
    }

    #[test]
    fn markdown_of_an_interrupted_run_snapshot() {
        insta::assert_snapshot!(render(&sample::interrupted()));
    }
}

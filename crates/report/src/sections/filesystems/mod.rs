//! The comparison of filesystems for people: one table, its certain differences, and how each filesystem was made.

mod csv;
mod markdown;
#[cfg(test)]
pub(crate) mod sample;
mod words;

use qd1_model::Report;
use qd1_model::filesystems::{CellOf, Comparison, Row};

use crate::page::{BOLD, DIM, GOOD, NOTE, Page};
use crate::section::{Lines, Section};

/// Width of a figure's name.
const LABEL: usize = 12;
/// Column of the text about one filesystem.
const TEXT: usize = 12;

/// A comparison of filesystems.
pub(crate) struct Filesystems<'a> {
    pub(crate) report: &'a Report,
    pub(crate) table: &'a Comparison,
}

impl Section for Filesystems<'_> {
    fn answer(&self) -> String {
        words::sentence(self.report, self.table)
    }

    fn brief(&self, page: &mut Page) {
        brief(page, self.table);
    }

    fn stands_alone(&self) -> bool {
        true
    }

    fn human(&self, page: &mut Page) {
        section(page, self.report, self.table);
    }

    fn markdown(&self, text: &mut String) {
        markdown::section(text, self.report, self.table);
    }

    fn csv(&self) -> Option<String> {
        Some(csv::render(self.report, self.table))
    }

    fn lines(&self, lines: &mut Lines<'_>) {
        lines.all("row", &self.table.rows);
        lines.all("filesystem", &self.table.filesystems);
    }

    fn place(&self) -> Option<Vec<(&'static str, String)>> {
        Some(words::place(self.report))
    }
}

/// Writes the section of the human report.
fn section(page: &mut Page, report: &Report, table: &Comparison) {
    if report.record.interrupted {
        page.prose(2, &words::interrupted(report, table));
    }
    let cell = cell_width(table);
    let fit = (page.style.width.saturating_sub(LABEL) / cell).max(1);
    let all: Vec<usize> = (0..table.filesystems.len()).collect();
    for columns in all.chunks(fit) {
        page.line("");
        columns_of(page, table, columns, cell);
    }
    page.line("");
    page.prose(2, &words::legend(table));
    page.heading("What differs for sure");
    for sentence in words::sure(table) {
        page.hang(2, "", BOLD, 4, &sentence);
    }
    page.heading(if words::is_fair(report) { "How each was made, tuned for databases" } else { "How each was made" });
    for (name, facts) in words::made(report, table) {
        for (number, fact) in facts.iter().enumerate() {
            page.hang(2, if number == 0 { &name } else { "" }, BOLD, TEXT, fact);
        }
    }
    let notes = words::notes(table);
    if !notes.is_empty() {
        page.heading("What limits these figures");
        for (who, text) in notes {
            page.hang(2, &who, NOTE, TEXT, &text);
        }
    }
}

/// Writes the other certain differences, and the table with as many filesystems as fit side by side.
fn brief(page: &mut Page, table: &Comparison) {
    let sure = words::sure(table);
    for sentence in sure.iter().skip(1) {
        page.hang(2, "-", BOLD, 4, sentence);
    }
    if sure.len() > 1 {
        page.line("");
    }
    let cell = cell_width(table);
    let fit = (page.style.width.saturating_sub(LABEL) / cell).max(1);
    let all: Vec<usize> = (0..table.filesystems.len()).collect();
    columns_of(page, table, &all[..fit.min(all.len())], cell);
    if let Some(open) = words::open_cells(table) {
        page.prose(2, open);
    }
}

/// Returns the width of the widest cell, with a space before it.
fn cell_width(table: &Comparison) -> usize {
    let rows = table.rows.iter().filter(|row| row.leads);
    let cells = rows.flat_map(|row| row.cells.iter().map(|cell| words::cell(row, cell).chars().count()));
    let names = table.filesystems.iter().map(|one| one.name.chars().count());
    cells.chain(names).max().unwrap_or(0) + 1
}

/// Writes the table of the filesystems at `columns`.
fn columns_of(page: &mut Page, table: &Comparison, columns: &[usize], width: usize) {
    let names: String = columns.iter().map(|at| format!("{:>width$}", table.filesystems[*at].name)).collect();
    let head = page.paint(BOLD, &format!("{:LABEL$}{names}", ""));
    page.line(&head);
    let mut step = "";
    for row in table.rows.iter().filter(|row| row.leads) {
        if row.step != step {
            step = &row.step;
            let title = page.paint(DIM, &row.title);
            page.line(&title);
        }
        let cells: String = columns.iter().map(|at| painted(page, row, &row.cells[*at], width)).collect();
        page.line(&format!("  {:<w$}{cells}", words::label(row), w = LABEL - 2));
    }
}

/// Returns a cell, in colour if its filesystem is among the best and another is certainly worse.
fn painted(page: &Page, row: &Row, cell: &CellOf, width: usize) -> String {
    let text = format!("{:>width$}", words::cell(row, cell));
    if words::differ(row) && cell.rank == Some(1) { page.paint(GOOD, &text) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Style, render};

    fn shown(report: &Report, width: usize) -> String {
        render(report, Format::Human, &Style::plain(width))
    }

    #[test]
    fn the_table_fits_into_80_columns_and_says_what_is_sure() {
        let text = shown(&sample::report(), 80);
        // The command to run again is one line, so that it can be pasted.
        let table = text.split("Run it again").next().unwrap();
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    /// Three rounds give no certainty in dozens of comparisons: "nothing" was reported next to 25.8k and 6.5k a second.
    #[test]
    fn a_large_difference_in_every_round_is_shown_though_it_is_not_sure() {
        let mut report = sample::report();
        let table = report.part_mut::<Comparison>().unwrap();
        table.rounds = 3;
        table.rows.iter_mut().flat_map(|row| &mut row.cells).for_each(|cell| cell.rank = Some(1));
        let text = shown(&report, 80);
        let sure = text.split("What differs for sure").nth(1).unwrap().split("How each").next().unwrap();
        assert!(sure.contains("nothing: 3 rounds are too few") && sure.contains("times"), "{sure}");
        let far: Vec<&str> = sure.lines().filter(|line| line.contains("'s")).collect();
        assert!(!far.is_empty() && far.len() < 6, "{sure}");
    }

    #[test]
    fn filesystems_that_do_not_fit_continue_below() {
        let text = shown(&sample::report(), 50);
        let heads: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(heads.contains(&vec!["ext4", "xfs"]) && heads.contains(&vec!["btrfs"]), "{text}");
    }

    #[test]
    fn colour_only_wraps_what_is_there() {
        let report = sample::report();
        let coloured = render(&report, Format::Human, &Style { color: true, ..Style::plain(80) });
        assert!(coloured.contains('\u{1b}') && !shown(&report, 80).contains('\u{1b}'));
    }

    #[test]
    fn markdown_has_a_row_for_each_leading_figure() {
        let report = sample::report();
        let table = report.part::<Comparison>().unwrap();
        let mut text = String::new();
        markdown::section(&mut text, &report, table);
        let rows = text.lines().filter(|line| line.starts_with("| ")).count();
        assert_eq!(rows, 1 + table.rows.iter().filter(|row| row.leads).count(), "{text}");
    }

    #[test]
    fn csv_has_a_row_for_each_figure_and_filesystem() {
        let report = sample::report();
        let table = report.part::<Comparison>().unwrap();
        let text = csv::render(&report, table);
        let columns = text.lines().next().unwrap().matches(',').count();
        assert!(text.lines().all(|line| line.matches(',').count() == columns), "{text}");
        assert_eq!(text.lines().count(), 1 + table.rows.len() * table.filesystems.len());
    }
}

//! The table of filesystems for an issue or a forum post.

use qd1_model::Report;
use qd1_model::filesystems::Comparison;

use super::words;

/// Writes the section of the Markdown report.
pub(super) fn section(text: &mut String, report: &Report, table: &Comparison) {
    if report.record.interrupted {
        *text += &format!("{}\n\n", words::interrupted(report, table));
    }
    let names: String = table.filesystems.iter().map(|one| format!(" {} |", one.name)).collect();
    *text += &format!("| step | figure |{names}\n|---|---|{}\n", "--:|".repeat(table.filesystems.len()));
    for row in table.rows.iter().filter(|row| row.leads) {
        let cells: String = row.cells.iter().map(|cell| format!(" {} |", words::cell(row, cell))).collect();
        *text += &format!("| {} | {} |{cells}\n", row.title, words::label(row));
    }
    *text += &format!("\n{}\n\n### What differs for sure\n\n", words::legend(table));
    for sentence in words::sure(table) {
        *text += &format!("- {sentence}\n");
    }
    *text += if words::is_fair(report) {
        "\n### How each was made, tuned for databases\n\n"
    } else {
        "\n### How each was made\n\n"
    };
    for (name, facts) in words::made(report, table) {
        *text += &format!("- {name}: {}\n", facts.join("; "));
    }
    let notes = words::notes(table);
    if !notes.is_empty() {
        *text += "\n### What limits these figures\n\n";
        for (who, note) in notes {
            let who = if who.is_empty() { String::new() } else { format!("{who}: ") };
            *text += &format!("- {who}{note}\n");
        }
    }
    text.push('\n');
}

//! All findings of a run, with their evidence and what to do about them.

use qd1_model::{Report, Severity};

use crate::page::{BAD, BOLD, MIDDLING, NOTE, Page};
use crate::sections::sentence;
use crate::table::escaped;
use crate::words;

/// Writes all findings for a terminal.
pub(crate) fn human(page: &mut Page, report: &Report) {
    page.heading("Findings");
    if report.findings.is_empty() {
        page.line("  none");
    }
    for finding in &report.findings {
        let paint = match finding.severity {
            Severity::Info => NOTE,
            Severity::Warning => MIDDLING,
            Severity::Critical => BAD,
        };
        page.hang(2, &words::severity(finding.severity).to_uppercase(), paint, 12, &finding.title);
        let sep = if finding.evidence.is_empty() { "" } else { " " };
        page.prose(14, &format!("{}{sep}({})", finding.evidence, words::certainty(finding)));
        if !finding.advice.is_empty() {
            page.hang(14, "->", BOLD, 17, &finding.advice);
        }
    }
}

/// Writes all findings as Markdown.
pub(crate) fn markdown(text: &mut String, report: &Report) {
    *text += "### Findings\n\n";
    if report.findings.is_empty() {
        *text += "None.\n";
    }
    for finding in &report.findings {
        let (severity, sure) = (words::severity(finding.severity), escaped(&words::certainty(finding)));
        let (title, evidence) = (escaped(&sentence(&finding.title)), escaped(&finding.evidence));
        *text += &format!("- **{severity}**: {title} {evidence} ({sure})\n");
        if !finding.advice.is_empty() {
            *text += &format!("  - {}\n", escaped(&finding.advice));
        }
    }
    text.push('\n');
}

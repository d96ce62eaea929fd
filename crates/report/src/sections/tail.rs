//! Where the slowest operations of each step spent their time: asleep until the disk had answered, at work, waiting for a
//! processor.

use qd1_model::figure::{StepSummary, TailTime};
use qd1_model::{Report, StreamSummary};

use crate::page::{BOLD, DIM, Page};
use crate::words;

/// Columns of the table.
const LABEL: usize = 20;
const CELL: usize = 12;
const NOTE: &str = "How the slowest 0.1 % (at least ten), each examined on its own, spent their time: asleep until the \
                    disk, or a kernel thread that writes to it for them, was done; at work in the kernel; waiting for \
                    a processor of this machine. Steps with several requests in flight are left out.";

/// Label, count and shares of each kind of operation that was examined.
fn rows(report: &Report) -> Vec<(String, [String; 4])> {
    let streams = report.summary.steps.iter().flat_map(|step| step.streams.iter().map(move |stream| (step, stream)));
    let looked_at = streams.filter_map(|(step, stream)| Some((step, stream, stream.tail?)));
    let row = |(step, stream, tail): (&StepSummary, &StreamSummary, TailTime)| {
        let [asleep, kernel, processor] = shares(&tail);
        let count = words::thousands(tail.ios);
        (format!("{}: {}", step.name, stream.class.name()), [count, asleep, kernel, processor])
    };
    looked_at.map(row).collect()
}

/// Shares asleep, at work in the kernel, and waiting for a processor, in whole percents of the whole.
fn shares(tail: &TailTime) -> [String; 3] {
    let waited = (100.0 * tail.waited).clamp(0.0, 100.0).round();
    let worked = (100.0 * tail.worked).round().clamp(0.0, 100.0 - waited);
    [100.0 - worked - waited, worked, waited].map(|share| format!("{share:.0} %"))
}

/// Writes the table.
pub(crate) fn section(page: &mut Page, report: &Report) {
    let rows = rows(report);
    if rows.is_empty() {
        return;
    }
    let is_table = page.style.width >= LABEL + 4 * CELL && rows.iter().all(|(label, _)| label.len() + 2 < LABEL);
    if is_table {
        let line = |label: &str, cells: [&str; 4]| {
            let cells: String = cells.map(|cell| format!("{cell:>CELL$}")).concat();
            format!("{label:LABEL$}{cells}")
        };
        let heading = page.paint(BOLD, &line("The slowest requests", ["how many", "asleep", "kernel", "processor"]));
        page.line("");
        page.line(&heading);
        for (label, [count, asleep, kernel, processor]) in &rows {
            page.line(&line(&format!("  {label}"), [count, asleep, kernel, processor]));
        }
    } else {
        page.heading("The slowest requests");
        for (label, [count, asleep, kernel, processor]) in &rows {
            page.hang(2, &format!("{label}:"), BOLD, 4, "");
            page.prose(4, &format!("{count} requests: asleep {asleep}, kernel {kernel}, processor {processor}"));
        }
    }
    for text in crate::page::wrap(NOTE, page.prose_width() - 2) {
        let text = page.paint(DIM, &text);
        page.line(&format!("  {text}"));
    }
}

/// Writes the table as Markdown.
pub(crate) fn markdown(text: &mut String, report: &Report) {
    let rows = rows(report);
    if rows.is_empty() {
        return;
    }
    *text += "### The slowest requests\n\n| | how many | asleep | kernel | processor |\n|---|--:|--:|--:|--:|\n";
    for (label, [count, asleep, kernel, processor]) in rows {
        *text += &format!("| {} | {count} | {asleep} | {kernel} | {processor} |\n", crate::table::escaped(&label));
    }
    *text += &format!("\n{NOTE}\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_add_up_to_the_whole() {
        assert_eq!(shares(&TailTime { ios: 10, worked: 0.02, waited: 0.9 }), ["8 %", "2 %", "90 %"]);
        assert_eq!(shares(&TailTime { ios: 10, worked: 0.004, waited: 0.0 }), ["100 %", "0 %", "0 %"]);
        assert_eq!(shares(&TailTime { ios: 10, worked: 0.224, waited: 0.286 }), ["49 %", "22 %", "29 %"]);
        // Readings of several clocks may add up to a little more.
        assert_eq!(shares(&TailTime { ios: 10, worked: 0.3, waited: 0.75 }), ["0 %", "25 %", "75 %"]);
    }
}

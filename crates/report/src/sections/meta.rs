//! File operations for people: a row for each, with its rate, latency and processor time. And bonnie++'s line of
//! figures, so that programs that read its results read ours.

use qd1_model::meta::{Meta, MetaRow};
use qd1_model::metric::Unit;
use qd1_model::op::Ended;
use qd1_model::plan::{FileOp, FileOrder, FilesWork, Work};
use qd1_model::units::format_span_ns;
use qd1_model::{Bytes, Estimate, Report, Subject};

use crate::page::{BAD, BOLD, DIM, Page};
use crate::section::{Lines, Section};
use crate::table::escaped;
use crate::table::{cell, compact, legend};
use crate::words;
use qd1_model::meta::{BONNIE_SEEKERS, BONNIE_SEEKS, BONNIE_UNIT};

/// Width of the first column, of those with figures, and of that with the processor's share.
const LABEL: usize = 13;
const CELL: usize = 15;
const CPU: usize = 8;
/// Below this many columns there is no room for a table.
const TABLE_MIN: usize = LABEL + 3 * CELL + CPU + 6;

/// The format version of bonnie++'s (2.00) line, its number of fields, and its marks for results of less than half a
/// second.
const BONNIE_FORMAT: &str = "1.98";
const BONNIE_FIELDS: usize = 50;
const BONNIE_MIN_NS: u64 = 500_000_000;
const TOO_SHORT: &str = "+++++";
const TOO_SHORT_CPU: &str = "+++";

/// Returns true if the run is bonnie++'s job.
fn is_bonnie(report: &Report) -> bool {
    report.record.plan.subject == Subject::Bonnie
}

/// Operations on files, a row for each.
pub(crate) struct FileOperations<'a> {
    pub(crate) report: &'a Report,
    pub(crate) meta: &'a Meta,
}

impl Section for FileOperations<'_> {
    fn answer(&self) -> String {
        sentence(self.report, self.meta)
    }

    fn brief(&self, page: &mut Page) {
        brief(page, self.meta);
    }

    fn human(&self, page: &mut Page) {
        section(page, self.report, self.meta);
    }

    fn markdown(&self, text: &mut String) {
        markdown(text, self.meta);
    }

    fn csv(&self) -> Option<String> {
        is_bonnie(self.report).then(|| bonnie_line(self.report, self.meta))
    }

    fn lines(&self, lines: &mut Lines<'_>) {
        lines.all("file_operation", &self.meta.rows);
    }
}

/// Returns the first line of the report: the files, and the rates of the operations that matter most.
fn sentence(report: &Report, meta: &Meta) -> String {
    let name = if is_bonnie(report) { "bonnie++'s job" } else { "File operations" };
    let so_far = if report.record.interrupted { "so far, " } else { "" };
    let parts: Vec<String> = [large(report), many(report)].into_iter().flatten().collect();
    let mut rates: Vec<String> = Vec::new();
    for row in meta.rows.iter().filter(|row| LEADING.contains(&row.op)) {
        let (unit, rate) = rate(row);
        // A rate without an interval was still measured.
        let seen = if unit == Unit::BytesPerSecond { row.seen_bytes_per_second } else { row.seen_per_second };
        let rate = words::worded(unit, rate.value.unwrap_or(seen));
        let is_new = !rates.iter().any(|known| known.starts_with(label(row.op)));
        rates.extend(is_new.then(|| format!("{} {rate}", label(row.op))));
    }
    let rates = if rates.is_empty() {
        String::new()
    } else {
        format!(" {}.", super::sentence(&rates.join(", ")).trim_end_matches('.'))
    };
    format!("{name}, {so_far}{}.{rates}", parts.join("; "))
}

/// Operations that the headline names.
const LEADING: [FileOp; 6] =
    [FileOp::BlockWrite, FileOp::BlockRead, FileOp::Seek, FileOp::Create, FileOp::Stat, FileOp::Delete];

/// Returns the first work on files of the plan that is wanted.
fn work(report: &Report, wanted: impl Fn(&FilesWork) -> bool) -> Option<&FilesWork> {
    report.record.plan.steps.iter().find_map(|step| match &step.work {
        Work::Files(files) if wanted(files) => Some(files),
        _ => None,
    })
}

fn large(report: &Report) -> Option<String> {
    let work = work(report, |work| work.ops.iter().all(|op| op.is_block()))?;
    Some(format!("a file of {} in pieces of {}", work.size, work.chunk))
}

fn many(report: &Report) -> Option<String> {
    let work = work(report, |work| work.ops.contains(&FileOp::Create))?;
    let size = match (work.size.0, work.size_spread.0) {
        (0, _) => "empty files".to_owned(),
        (_, 0) => format!("files of {}", work.size),
        (size, spread) => format!("files of {} to {}", Bytes(size - spread), work.size),
    };
    let dirs = match work.dirs() {
        1 => "in one directory".to_owned(),
        _ => format!("{} in a directory", words::thousands(work.per_dir)),
    };
    let workers = if work.workers == 1 { String::new() } else { format!(", {} workers", work.workers) };
    Some(format!("{} {size}, {dirs}{workers}, {}", words::thousands(work.count), durability(work)))
}

/// Returns what was made durable.
fn durability(work: &FilesWork) -> &'static str {
    match (work.fsync.files, work.fsync.dir, work.fsync.end) {
        (true, true, _) => "fsync of each file and its directory",
        (true, false, _) => "fsync of each file",
        (false, true, _) => "fsync of the directory with each change",
        (false, false, true) => "all written out at the end of each operation",
        (false, false, false) => "nothing made durable",
    }
}

/// Writes a line for each operation.
fn brief(page: &mut Page, meta: &Meta) {
    let cells = |row: &MetaRow| {
        let (unit, rate) = rate(row);
        let [p50, p99] = [row.lat_p50_ns, row.lat_p99_ns].map(|figure| words::figure(Unit::Ns, &figure));
        let order = if row.order == FileOrder::Random && !row.op.is_block() { ", random" } else { "" };
        vec![format!("{}{order}", label(row.op)), words::figure(unit, &rate), p50, p99]
    };
    let rows: Vec<Vec<String>> = meta.rows.iter().map(cells).collect();
    if !rows.is_empty() {
        compact(page, &["operation", "rate", "p50 [95 %]", "p99 [95 %]"], &rows);
    }
}

/// Writes the section of the human report.
fn section(page: &mut Page, report: &Report, meta: &Meta) {
    for (heading, rows) in groups(meta) {
        page.line("");
        let is_table = page.style.width >= TABLE_MIN;
        if is_table {
            let titles = format!("{:CELL$}{:CELL$}{:CELL$}{:CPU$}", "per second", "p50", "p99", "CPU");
            let label = format!("{heading:LABEL$}");
            // A heading as wide as the first column would shift the titles.
            if label.chars().count() > LABEL {
                page.bold(heading);
                let line = page.paint(BOLD, &format!("{:LABEL$}{titles}n", ""));
                page.line(&line);
            } else {
                let line = page.paint(BOLD, &format!("{label}{titles}n"));
                page.line(&line);
            }
        } else {
            page.bold(heading);
        }
        for row in rows {
            if is_table {
                table_row(page, row)
            } else {
                list_row(page, row)
            }
            notes(page, report, row);
        }
    }
    for text in words::not_run(report) {
        page.hang(0, "not run: ", BOLD, 9, &text);
    }
    legend(page, &explanation(report));
}

/// Groups the rows under their headings.
fn groups(meta: &Meta) -> Vec<(&'static str, Vec<&MetaRow>)> {
    let heading = |row: &MetaRow| match (row.op.is_block(), row.order) {
        (true, _) => "One file",
        (false, FileOrder::Random) => "Random order",
        (false, _) => "In order",
    };
    let mut groups: Vec<(&'static str, Vec<&MetaRow>)> = Vec::new();
    for row in &meta.rows {
        match groups.last_mut() {
            Some((known, rows)) if *known == heading(row) => rows.push(row),
            _ => groups.push((heading(row), vec![row])),
        }
    }
    groups
}

/// Returns a row's name.
const fn label(op: FileOp) -> &'static str {
    match op {
        FileOp::StatRead => "stat+read",
        FileOp::BlockWrite => "write",
        FileOp::BlockRewrite => "rewrite",
        FileOp::BlockRead => "read",
        FileOp::Seek => "seeks",
        op => op.name(),
    }
}

/// Returns a row's rate: bytes of a large file, else operations.
fn rate(row: &MetaRow) -> (Unit, Estimate) {
    match row.bytes_per_second {
        Some(bytes) if row.op.is_block() && row.op != FileOp::Seek => (Unit::BytesPerSecond, bytes),
        _ => (Unit::PerSecond, row.per_second),
    }
}

fn cpu(row: &MetaRow) -> String {
    format!("{:.0} %", row.cpu_share * 100.0)
}

fn table_row(page: &mut Page, row: &MetaRow) {
    let (unit, rate) = rate(row);
    let cells = [cell(unit, &rate), cell(Unit::Ns, &row.lat_p50_ns), cell(Unit::Ns, &row.lat_p99_ns)];
    two_lines(page, label(row.op), &cells, &format!("{:CPU$}{}", cpu(row), words::thousands(row.ios)));
    if let (Some(p50), Some(p99)) = (row.sync_p50_ns, row.sync_p99_ns) {
        two_lines(
            page,
            "  its sync",
            &[(String::new(), String::new()), cell(Unit::Ns, &p50), cell(Unit::Ns, &p99)],
            "",
        );
    }
}

fn two_lines(page: &mut Page, label: &str, cells: &[(String, String)], rest: &str) {
    let figures: String = cells.iter().map(|(figure, _)| format!("{figure:CELL$}")).collect();
    let intervals: String = cells.iter().map(|(_, interval)| format!("{interval:CELL$}")).collect();
    page.line(&format!("  {label:w$}{figures}{rest}", w = LABEL - 2));
    let below = page.paint(DIM, format!("{:LABEL$}{intervals}", "").trim_end());
    page.line(&below);
}

fn list_row(page: &mut Page, row: &MetaRow) {
    let (unit, rate) = rate(row);
    let text = format!(
        "{}; p50 {}; p99 {}; CPU {}",
        words::whole(unit, &rate),
        words::figure(Unit::Ns, &row.lat_p50_ns),
        words::figure(Unit::Ns, &row.lat_p99_ns),
        cpu(row)
    );
    page.hang(2, label(row.op), BOLD, LABEL, &text);
}

/// Writes why a row is incomplete.
fn notes(page: &mut Page, report: &Report, row: &MetaRow) {
    let step = report.summary.steps.iter().find(|step| step.name == row.step);
    let errors = step.map(|step| words::errors(report, step)).unwrap_or_default();
    if !errors.is_empty() {
        page.hang(2, "ERRORS", BAD, LABEL, &errors);
    }
    let after = format_span_ns(row.elapsed_ns);
    let all = words::thousands(row.wanted);
    match row.ended {
        Ended::Time if row.wanted > 0 => {
            page.hang(2, "", DIM, LABEL, &format!("stopped after {after}, before all {all}"))
        }
        Ended::Interrupted => page.hang(2, "", BAD, LABEL, &format!("interrupted after {after}")),
        _ => {}
    }
}

/// Returns what one needs to know to read the figures.
fn explanation(report: &Report) -> String {
    let durable = work(report, |work| work.fsync != qd1_model::plan::FilesSync::default()).is_some();
    let mut text = "CPU: the workers' processor time divided by the elapsed time; 100 % is one processor.".to_owned();
    if !durable {
        text += " Nothing had to reach the disk (see --fsync): new files are stat'ed, read and changed in memory.";
    } else if is_bonnie(report) {
        text += " Rates include writing everything out at the end, which happens only once, so they have no interval.";
    }
    text
}

/// Writes the section of the Markdown report.
fn markdown(text: &mut String, meta: &Meta) {
    *text += "### Files\n\n| operation | order | n | per second | p50 | p99 | CPU |\n|---|---|---|---|---|---|---|\n";
    for row in &meta.rows {
        let (unit, rate) = rate(row);
        let order = if row.op.is_block() { "" } else { row.order.name() };
        *text += &format!(
            "| {} | {order} | {} | {} | {} | {} | {} |\n",
            label(row.op),
            words::thousands(row.ios),
            escaped(&words::figure(unit, &rate)),
            escaped(&words::figure(Unit::Ns, &row.lat_p50_ns)),
            escaped(&words::figure(Unit::Ns, &row.lat_p99_ns)),
            cpu(row)
        );
    }
    text.push('\n');
}

/// Returns bonnie++'s line (format 1.98), as `bon_csv2html` and `bon_csv2txt` read it.
///
/// As in bonnie++, a result of less than half a second is `+++++`, and one that was not measured is empty.
fn bonnie_line(report: &Report, meta: &Meta) -> String {
    let record = &report.record;
    let mut fields = vec![BONNIE_FORMAT.to_owned(), format!("qd1-{}", record.version)];
    let host = record.environment.hostname.replace([',', '\n'], " ");
    fields.extend([host, "1".to_owned(), (record.started_unix_ns / 1_000_000_000).to_string()]);
    let find = |op: FileOp, random: bool| {
        meta.rows.iter().find(|row| row.op == op && (op.is_block() || (row.order == FileOrder::Random) == random))
    };
    let block = [
        None,
        find(FileOp::BlockWrite, false),
        find(FileOp::BlockRewrite, false),
        None,
        find(FileOp::BlockRead, false),
        find(FileOp::Seek, true),
    ];
    let many: Vec<_> = [false, true]
        .into_iter()
        .flat_map(|random| [FileOp::Create, FileOp::StatRead, FileOp::Delete].map(|op| find(op, random)))
        .collect();
    fields.extend(large_fields(report));
    block.iter().for_each(|row| fields.extend(pair(*row)));
    fields.extend(many_fields(report));
    many.iter().for_each(|row| fields.extend(pair(*row)));
    let latency = |row: &Option<&MetaRow>| row.map_or_else(String::new, |row| span(row.lat_max_ns));
    fields.extend(block.iter().chain(&many).map(latency));
    debug_assert_eq!(fields.len(), BONNIE_FIELDS, "bonnie++'s line has a fixed number of fields");
    fields.join(",") + "\n"
}

/// Returns size, chunk if it is not bonnie++'s default, seeks and seekers.
fn large_fields(report: &Report) -> [String; 4] {
    let Some(work) = work(report, |work| work.ops.iter().all(|op| op.is_block())) else { return Default::default() };
    let mib = work.size.0 >> 20;
    let size = if mib.is_multiple_of(1024) { format!("{}G", mib >> 10) } else { format!("{mib}M") };
    let chunk = if work.chunk == Bytes::kib(8) { String::new() } else { work.chunk.0.to_string() };
    [size, chunk, BONNIE_SEEKS.to_string(), BONNIE_SEEKERS.to_string()]
}

/// Returns files in units of 1,024, largest and smallest size, and two fields that bonnie++ fills if they are not its
/// defaults.
fn many_fields(report: &Report) -> [String; 5] {
    let Some(work) = work(report, |work| work.ops.contains(&FileOp::Create)) else { return Default::default() };
    let size = |bytes: u64| if work.size.0 == 0 { String::new() } else { bytes.to_string() };
    let dirs = if work.dirs() > 1 { work.dirs().to_string() } else { String::new() };
    let units = work.count / BONNIE_UNIT;
    [units.to_string(), size(work.size.0), size(work.size.0 - work.size_spread.0), String::new(), dirs]
}

/// Returns rate and share of the processor: KiB/s of a large file, operations per second of others.
fn pair(row: Option<&MetaRow>) -> [String; 2] {
    let Some(row) = row else { return Default::default() };
    if row.elapsed_ns < BONNIE_MIN_NS {
        return [TOO_SHORT.to_owned(), TOO_SHORT_CPU.to_owned()];
    }
    let text = match row.op {
        FileOp::Seek => format!("{:.1}", row.seen_per_second),
        op if op.is_block() => format!("{:.0}", row.seen_bytes_per_second / 1024.0),
        _ => format!("{:.0}", row.seen_per_second),
    };
    [text, format!("{:.0}", row.cpu_share * 100.0)]
}

/// Formats a latency in the units that bonnie++ prints: whole microseconds, milliseconds or seconds, at most five
/// digits.
fn span(ns: u64) -> String {
    match ns {
        0..100_000_000 => format!("{}us", ns / 1000),
        100_000_000..100_000_000_000 => format!("{}ms", ns / 1_000_000),
        _ => format!("{}s", ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Format;
    use crate::page::Style;
    use crate::render;
    use crate::samples as sample;

    fn text(report: &Report, width: usize) -> String {
        render(report, Format::Human, &Style::plain(width))
    }

    #[test]
    fn each_operation_has_rate_latency_and_processor_time() {
        let text = text(&sample::meta(), 80);
        assert!(text.starts_with("File operations, 20,000 files of 1 KiB to 64 KiB, 1,000 in a directory"), "{text}");
        assert!(text.contains("its sync") && text.contains("[19.0..21.0]") && text.contains("81 %"), "{text}");
        assert!(text.contains("stopped after 20 s, before all 20,000"), "{text}");
        insta::assert_snapshot!(text.split("Where and how").next().unwrap());
    }

    #[test]
    fn no_line_is_wider_than_the_page() {
        for report in [sample::meta(), sample::bonnie()] {
            for width in [40, 60, 80, 120] {
                let text = text(&report, width);
                let section = text.split("Run it again").next().unwrap();
                assert!(section.lines().all(|line| line.chars().count() <= width), "{width}: {section}");
            }
        }
    }

    #[test]
    fn bonnies_line_has_bonnies_fields() {
        let report = sample::bonnie();
        let line = bonnie_line(&report, report.part::<qd1_model::meta::Meta>().unwrap());
        // The header that bonnie++ -x prints, with the seeks and seekers that it leaves out there.
        let fields: Vec<&str> = line.trim_end().split(',').collect();
        assert_eq!(fields.len(), BONNIE_FIELDS);
        assert_eq!((fields[0], fields[3], fields[5], &fields[6..9]), ("1.98", "1", "2G", &["", "8192", "5"][..]));
        assert_eq!(&fields[9..13], ["", "", "97656", "81"], "one letter at a time is not measured; MB/s are KiB/s");
        assert_eq!(fields[19..21], ["20000.0", "81"], "seeks");
        assert_eq!(fields[21..26], ["16", "", "", "", ""]);
        assert_eq!(fields[26..30], ["20000", "81", "+++++", "+++"], "what took less than half a second has no figure");
        assert_eq!((fields[38], fields[39], fields[43], fields[49]), ("", "3000us", "3000us", "3000us"));
        assert!(render(&report, Format::Csv, &Style::plain(80)) == line);
    }

    #[test]
    fn latencies_are_written_as_bonnie_writes_them() {
        assert_eq!([1_535_000, 250_000_000, 120_000_000_000].map(span), ["1535us", "250ms", "120s"]);
    }

    #[test]
    fn markdown_has_the_same_rows() {
        let report = sample::meta();
        let text = render(&report, Format::Markdown, &Style::plain(80));
        assert!(text.contains("| create | sequential | 20,000 | 20.0k/s"), "{text}");
    }
}

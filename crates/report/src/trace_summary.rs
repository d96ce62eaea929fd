//! `qd1 trace summary`: what a recorded trace was, as text and JSON.

use qd1_model::printable;
use qd1_model::trace_summary::{LoadSummary, OperationSummary, ProgramSummary, Resemblance, Times, TraceSummary};
use qd1_model::units::{Bytes, format_count, format_ns, format_rate, format_share, format_span_ns, short_size};

use crate::formats::document;
use crate::page::{BOLD, Page, Style, shorten};
use crate::words::thousands;

/// Width of a name.
const NAME: usize = 15;

/// Returns the summary of a trace, named `title`.
#[must_use]
pub fn trace_summary_human(summary: &TraceSummary, title: &str, style: &Style) -> String {
    let mut page = Page::new(style);
    let seconds = summary.span_ns as f64 / 1e9;
    page.bold(&headline(summary, title));
    for sentence in sentences(&summary.all) {
        page.prose(0, &sentence);
    }
    operations(&mut page, summary, seconds);
    syncs(&mut page, summary);
    programs(&mut page, summary, seconds);
    files(&mut page, summary);
    if !summary.fio_job.is_empty() {
        page.heading("A fio job that resembles it (--fio prints only this)");
        summary.fio_job.lines().for_each(|line| page.line(&indented(line)));
    }
    if !summary.resembles.is_empty() {
        page.heading("Steps that resemble it (`qd1 run SUITE --only STEP` runs one)");
        summary.resembles.iter().for_each(|step| page.line(&resembles(step)));
    }
    page.text
}

/// Returns it as one JSON document.
#[must_use]
pub fn trace_summary_json(summary: &TraceSummary) -> String {
    document(summary)
}

fn indented(line: &str) -> String {
    if line.is_empty() { String::new() } else { format!("  {line}") }
}

fn headline(summary: &TraceSummary, title: &str) -> String {
    let all = &summary.all;
    let requests = format!("{} request{}", thousands(all.requests), if all.requests == 1 { "" } else { "s" });
    let title = printable(title);
    if summary.span_ns == 0 {
        return format!("{title}: {requests}, {}, at unknown times", Bytes(all.bytes));
    }
    let seconds = summary.span_ns as f64 / 1e9;
    format!(
        "{title}: {requests} in {}, {} a second, {}",
        format_span_ns(summary.span_ns),
        format_count(all.requests as f64 / seconds),
        format_rate(all.bytes as f64 / seconds)
    )
}

/// The load in sentences.
fn sentences(all: &LoadSummary) -> Vec<String> {
    let mut lines = Vec::new();
    if all.bytes > 0 {
        let least = if all.touched_is_partial { "at least " } else { "" };
        lines.push(format!(
            "{} reads; {} sequential; touches {least}{}",
            format_share(all.read_share),
            format_share(all.sequential_share),
            Bytes(all.touched_bytes)
        ));
        let mut repeated = Vec::new();
        if all.read_share > 0.0 {
            repeated.push(format!("{} of the bytes read had been read before", format_share(all.reread_share)));
        }
        if all.read_share < 1.0 {
            repeated
                .push(format!("{} of the bytes written had been written before", format_share(all.rewritten_share)));
        }
        lines.push(format!("Repeated: {}", repeated.join(", ")));
    }
    if let Some(depth) = all.depth {
        lines.push(format!(
            "In flight: {} on average; when a request is issued, p50 {}, p99 {}, max {}",
            if depth.mean < 1.0 { format!("{:.2}", depth.mean) } else { format!("{:.1}", depth.mean) },
            depth.p50,
            depth.p99,
            depth.max
        ));
    }
    if let Some(arrivals) = all.arrivals.filter(|arrivals| arrivals.p99_ns > 0) {
        let pattern = match arrivals.variation {
            v if v < 0.5 => "evenly spaced",
            v if v < 1.3 => "irregular, as if independent",
            _ => "in bursts",
        };
        lines.push(format!(
            "Between arrivals: p50 {}, p99 {}; {pattern} (variation {:.1})",
            format_ns(arrivals.p50_ns as f64),
            format_ns(arrivals.p99_ns as f64),
            arrivals.variation
        ));
    }
    lines
}

/// Begins a table.
fn heading(page: &mut Page, columns: &str) {
    page.line("");
    let columns = page.paint(BOLD, columns);
    page.line(&columns);
}

fn operations(page: &mut Page, summary: &TraceSummary, seconds: f64) {
    if summary.operations.is_empty() {
        return;
    }
    let head = format!(
        "{:<8} {:>9} {:>9} {:>5} {:>9} {:>9} {:>9} {:>9}",
        "", "requests", "per s", "seq", "queue p99", "dev. p50", "dev. p99", "dev. max"
    );
    heading(page, &head);
    for of in &summary.operations {
        let time = |times: Option<Times>, get: fn(&Times) -> u64| {
            times.map_or_else(|| "-".to_owned(), |times| format_ns(get(&times) as f64))
        };
        let row = format!(
            "{:<8} {:>9} {:>9} {:>5} {:>9} {:>9} {:>9} {:>9}",
            of.op,
            format_count(of.requests as f64),
            if seconds > 0.0 { format_count(of.requests as f64 / seconds) } else { "-".to_owned() },
            if matches!(of.op.as_str(), "read" | "write") { short_share(of.sequential_share) } else { "-".to_owned() },
            time(of.queue, |times| times.p99_ns),
            time(of.device, |times| times.p50_ns),
            time(of.device, |times| times.p99_ns),
            time(of.device, |times| times.max_ns),
        );
        page.line(&row);
        if let Some(sizes) = sizes(of) {
            page.line(&format!("         {sizes}"));
        }
        if of.errors > 0 {
            page.line(&format!("         {} failed", thousands(of.errors)));
        }
    }
}

fn short_share(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// The most frequent sizes, if there are sizes.
fn sizes(of: &OperationSummary) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut shown = 0;
    for (size, count) in of.sizes.iter().filter(|(size, _)| *size > 0).take(5) {
        let share = *count as f64 / of.requests as f64;
        if parts.is_empty() || share >= 0.01 {
            parts.push(format!("{} {}", short_size(Bytes(u64::from(*size))), short_share(share)));
            shown += count;
        }
    }
    let rest = of.requests - shown;
    if parts.is_empty() {
        return None;
    }
    if rest as f64 >= 0.005 * of.requests as f64 {
        parts.push(format!("others {}", short_share(rest as f64 / of.requests as f64)));
    }
    Some(format!("sizes: {}", parts.join(", ")))
}

fn syncs(page: &mut Page, summary: &TraceSummary) {
    if summary.syncs.is_empty() {
        return;
    }
    let head = format!(
        "{:<NAME$} {:>9} {:>7} {:>9} {:>9} {:>9} {:>9}",
        "syncs", "calls", "files", "p50", "p99", "p99.9", "max"
    );
    heading(page, &head);
    for of in &summary.syncs {
        let Times { p50_ns, p99_ns, p999_ns, max_ns } = of.took;
        let [p50, p99, p999, max] = [p50_ns, p99_ns, p999_ns, max_ns].map(|ns| format_ns(ns as f64));
        let (calls, files) = (format_count(of.syncs as f64), format_count(of.files as f64));
        page.line(&format!("{:<NAME$} {calls:>9} {files:>7} {p50:>9} {p99:>9} {p999:>9} {max:>9}", of.call));
    }
}

fn programs(page: &mut Page, summary: &TraceSummary, seconds: f64) {
    if summary.programs.is_empty() {
        return;
    }
    let head = format!(
        "{:<NAME$} {:>5} {:>9} {:>9} {:>9} {:>5} {:>9} {:>6}",
        "program", "pids", "requests", "read", "written", "seq", "total p99", "syncs"
    );
    heading(page, &head);
    summary.programs.iter().for_each(|program| page.line(&program_row(program, seconds, summary.sees_syncs)));
}

fn program_row(program: &ProgramSummary, seconds: f64, sees_syncs: bool) -> String {
    let rate =
        |bytes: u64| if bytes == 0 || seconds <= 0.0 { "-".to_owned() } else { format_rate(bytes as f64 / seconds) };
    let name = if program.name.is_empty() { "-" } else { &program.name };
    format!(
        "{:<NAME$} {:>5} {:>9} {:>9} {:>9} {:>5} {:>9} {:>6}",
        shorten(&printable(name), NAME),
        format_count(program.processes as f64),
        format_count(program.requests as f64),
        rate(program.read_bytes),
        rate(program.written_bytes),
        short_share(program.sequential_share),
        program.p99_ns.map_or_else(|| "-".to_owned(), |ns| format_ns(ns as f64)),
        if sees_syncs { format_count(program.syncs as f64) } else { "-".to_owned() }
    )
}

fn files(page: &mut Page, summary: &TraceSummary) {
    if summary.files.is_empty() {
        return;
    }
    heading(page, &format!("{:>9} {:>10} {:>10}  file", "requests", "read", "written"));
    for file in &summary.files {
        let (read, written) = (Bytes(file.read_bytes).to_string(), Bytes(file.written_bytes).to_string());
        let name = shorten(&printable(&file.name), 46);
        page.line(&format!("{:>9} {read:>10} {written:>10}  {name}", format_count(file.requests as f64)));
    }
}

fn resembles(step: &Resemblance) -> String {
    let shape = &step.shape;
    let order = match shape.random_share {
        share if share >= 0.5 => "random",
        _ => "sequential",
    };
    let kind = match shape.read_share {
        1.0 => "reads".to_owned(),
        0.0 => "writes".to_owned(),
        share => format!("{:.0}/{:.0} reads and writes", share * 100.0, (1.0 - share) * 100.0),
    };
    let syncs = match shape.writes_per_sync {
        None => String::new(),
        Some(1.0) => ", each with a sync".to_owned(),
        Some(writes) => format!(", a sync for every {writes:.0} writes"),
    };
    let (size, depth) = (short_size(shape.bs), shape.depth);
    let exact = if step.distance < 0.75 { "" } else { " (roughly)" };
    format!("  {:<28} {size} {order} {kind}, depth {depth:.0}{syncs}{exact}", format!("{} {}", step.suite, step.step))
}

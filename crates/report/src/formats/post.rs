//! A dozen plain lines for a forum: what was measured on what kind of place, the classes with the figures that decided, and the
//! figures that people compare. No names of hosts, paths or people: the app redacts the record before it is judged, and this
//! form uses nothing that says where somebody's disk is. It can be pasted between Markdown fences as it is.

use jiff::tz::TimeZone;
use qd1_model::environment::FilesystemClass;
use qd1_model::metric::{Unit, metric};
use qd1_model::units::format_span_ns;
use qd1_model::{Estimate, Grade, OpClass, Record, Report, Severity, StreamSummary, Subject};

use super::worth_telling;
use crate::headline;
use crate::page::{Page, Style};
use crate::sections::{self, bands, identity, verdicts};
use crate::words;

/// Columns: what a forum shows without a bar to scroll.
const WIDTH: usize = 80;
/// Column of a line's text.
const TEXT: usize = 15;
/// Most lines for runs other than checks, and most warnings.
const LINES_MAX: usize = 10;
const WARNINGS_MAX: usize = 3;
/// Length of the date at the start of a time.
const DATE: usize = 10;

/// Returns the post.
pub(crate) fn render(report: &Report) -> String {
    let mut page = Page::new(&Style::plain(WIDTH));
    let record = &report.record;
    let date: String = words::when(record.started_unix_ns, &TimeZone::UTC).chars().take(DATE).collect();
    let early = if record.interrupted { ", ended early" } else { "" };
    let took = format_span_ns(record.elapsed_ns);
    let suite = match record.plan.subject {
        Subject::Watch => "watch".to_owned(),
        _ => known(&record.plan.suite).unwrap_or_else(|| "a suite".to_owned()),
    };
    page.prose(0, &format!("qd1 {}, {suite}, {date}, took {took}{early}", record.version));
    line(&mut page, "machine", &machine(record));
    line(&mut page, "storage", &storage(report));
    if words::is_check(report) && !report.verdicts.is_empty() {
        verdicts::brief(&mut page, report);
        figures(&mut page, report);
    } else {
        other(&mut page, report);
        figures(&mut page, report);
    }
    warnings(&mut page, report);
    page.text
}

/// Writes a labelled line, unless there is nothing to say.
fn line(page: &mut Page, label: &str, text: &str) {
    if !text.is_empty() {
        page.hang(2, label, anstyle::Style::new(), TEXT, text);
    }
}

/// A text, unless it was redacted.
fn known(text: &str) -> Option<String> {
    (!text.is_empty() && !text.starts_with('<')).then(|| text.to_owned())
}

fn machine(record: &Record) -> String {
    let env = &record.environment;
    let product = [&env.vendor, &env.product].into_iter().filter_map(|text| known(text)).collect::<Vec<_>>().join(" ");
    let virtualization = match env.virtualization.as_str() {
        "none" => Some("no virtualization".to_owned()),
        kind => known(kind),
    };
    let cpu = known(&env.cpu_model).unwrap_or_else(|| "CPU".to_owned());
    let parts = [known(&product), virtualization, Some(format!("{} x {cpu}", env.cpus)), Some(env.memory.to_string())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The kind of place, from the filesystem down to the hardware.
fn storage(report: &Report) -> String {
    let env = &report.record.environment;
    let fs = &env.filesystem;
    let class = match fs.class {
        FilesystemClass::Memory => " in memory, not on a disk",
        FilesystemClass::Network => " on another machine",
        FilesystemClass::Fuse => " in user space",
        FilesystemClass::Disk | FilesystemClass::Overlay | FilesystemClass::Pseudo => "",
    };
    let mut parts: Vec<String> = known(&fs.kind).map(|kind| format!("{kind}{class}")).into_iter().collect();
    let layers = env.devices.iter().filter(|device| device.kind != "partition" && device.kind != "disk");
    parts.extend(layers.filter_map(|device| known(&device.kind)));
    if let Some(disk) = env.devices.last() {
        let size = (disk.size.0 > 0).then(|| disk.size.to_string());
        let facts: Vec<String> = [known(&disk.transport), known(&disk.model), size].into_iter().flatten().collect();
        parts.push(if facts.is_empty() { "a disk".to_owned() } else { format!("disk ({})", facts.join(", ")) });
    }
    let kind = identity::likely(report).map_or_else(String::new, |kind| format!("; {kind}"));
    format!("{}{kind}", parts.join(" on "))
}

/// The figures that people compare, of the steps that there are.
fn figures(page: &mut Page, report: &Report) {
    for impression in &report.impressions {
        let tail = metric(&impression.metric).zip(impression.figure).filter(|(_, figure)| is_known(figure));
        let median =
            impression.median.filter(is_known).map(|median| format!("p50 {}", words::known(Unit::Ns, &median)));
        let tail = tail.map(|(metric, figure)| format!("{} {}", metric.title, words::known(metric.unit, &figure)));
        let text: Vec<String> = median.into_iter().chain(tail).collect();
        line(page, &impression.requests, &text.join(", "));
    }
    let many = [("read32", OpClass::Read, "reads"), ("write32", OpClass::Write, "writes")];
    rates(page, report, "32 in flight", &many, Unit::PerSecond, |stream| stream.iops);
    let large = [("seqread", OpClass::Read, "reads"), ("seqwrite", OpClass::Write, "writes")];
    rates(page, report, "in order", &large, Unit::BytesPerSecond, |stream| stream.bytes_per_second);
}

fn rates(
    page: &mut Page,
    report: &Report,
    label: &str,
    steps: &[(&str, OpClass, &str)],
    unit: Unit,
    get: fn(&StreamSummary) -> Estimate,
) {
    let one = |(step, class, word): &(&str, OpClass, &str)| {
        let figure = report.summary.stream(step, *class).map(get).filter(is_known)?;
        Some(format!("{word} {}", words::known(unit, &figure)))
    };
    line(page, label, &steps.iter().filter_map(one).collect::<Vec<_>>().join(", "));
}

fn is_known(figure: &Estimate) -> bool {
    figure.value.is_some() || figure.low.is_some() || figure.high.is_some()
}

/// What another kind of run answers, and the first lines of its table.
fn other(page: &mut Page, report: &Report) {
    page.prose(2, &headline::paragraph(report));
    if !report.criteria.is_empty() {
        return criteria(page, report);
    }
    let mut table = Page::new(&Style::plain(WIDTH));
    sections::brief(&mut table, report);
    let count = table.text.lines().count();
    let shown = if count <= LINES_MAX { count } else { LINES_MAX - 1 };
    table.text.lines().take(shown).for_each(|line| page.line(line));
    if shown < count {
        page.line(&format!("  ({} more lines)", count - shown));
    }
}

/// The criteria of a suite, the worst first: letters, then grades.
fn criteria(page: &mut Page, report: &Report) {
    let letters =
        bands::lettered(report).into_iter().map(|lettered| (lettered.letter, verdicts::figure(lettered.judged)));
    let graded = [Grade::Fail, Grade::Marginal, Grade::NotResolved, Grade::Pass].into_iter().flat_map(|grade| {
        let of_grade =
            report.criteria.iter().filter(move |judged| judged.grade == grade && bands::letter(judged).is_none());
        of_grade.map(move |judged| (grade.name().to_uppercase(), verdicts::short(judged)))
    });
    let mut lines: Vec<(String, String)> = letters.chain(graded).collect();
    // A figure that is in several bands or groups gets one line.
    lines.dedup();
    let shown = if lines.len() <= LINES_MAX { lines.len() } else { LINES_MAX - 1 };
    lines[..shown].iter().for_each(|(label, text)| line(page, label, text));
    if shown < lines.len() {
        page.line(&format!("  ({} more criteria)", lines.len() - shown));
    }
}

fn warnings(page: &mut Page, report: &Report) {
    let severe: Vec<_> = worth_telling(report).filter(|finding| finding.severity >= Severity::Warning).collect();
    for finding in severe.iter().take(WARNINGS_MAX) {
        line(page, words::severity(finding.severity), &sections::sentence(&finding.title));
    }
    match severe.len().saturating_sub(WARNINGS_MAX) {
        0 => {}
        1 => line(page, "", "1 more warning"),
        more => line(page, "", &format!("{more} more warnings")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;

    #[test]
    fn a_post_is_a_dozen_plain_lines_that_fit_a_fence() {
        for report in [
            sample::slow_vps(),
            sample::fast_nvme(),
            sample::interrupted(),
            sample::over_a_day(),
            sample::suite(),
            sample::meta(),
            sample::bonnie(),
        ] {
            let text = render(&report);
            assert!(text.lines().count() <= 20, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
            assert!(text.is_ascii() && !text.contains("```") && text.starts_with("qd1 "), "{text}");
        }
    }

    #[test]
    fn a_post_has_each_class_and_the_figures_that_people_compare() {
        let text = render(&sample::slow_vps());
        for part in [
            "FAIL         etcd / Kubernetes     wal sync p99 12.0 ms, fail >10 ms",
            "commits      p50 5.43 ms, p99 12.9 ms",
            "reads        p50 302 us, p99.9 2.46 ms",
            "32 in flight reads 10.0k/s, writes 9.98k/s",
            "in order     reads 400 MB/s, writes 184 MB/s",
            "critical     Flushes do not reach the device",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_post_names_no_host_and_no_place() {
        let report = sample::slow_vps();
        let text = render(&report);
        for secret in [report.record.environment.hostname.as_str(), "/srv", &report.record.id, "vda"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }

    #[test]
    fn post_snapshot() {
        insta::assert_snapshot!(render(&sample::slow_vps()));
    }

    #[test]
    fn post_of_a_suite_snapshot() {
        insta::assert_snapshot!(render(&sample::suite()));
    }
}

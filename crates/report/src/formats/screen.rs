//! The first screen of a run: what it found, the figures behind that, what to do about it, and where the rest is. It fits a
//! terminal of 80 columns and 24 lines, so that nothing of it has scrolled away when the prompt is back; a larger one shows more.

use qd1_model::order::Order as _;
use qd1_model::units::format_span_ns;
use qd1_model::{Bytes, Finding, Grade, Report, Severity, Verdict};
use qd1_model::{Detector, FindingId};

use crate::headline;
use crate::page::{BAD, BOLD, DIM, Detail, MIDDLING, NOTE, Page, Style, wrap};
use crate::sections;
use crate::words;

/// Lines of the smallest terminal, and those that are left for the command and for the prompt.
const SMALLEST: usize = 24;
const LEFT: usize = 2;
/// Digits of a run's id that are shown.
const ID: usize = 8;
/// Most findings that are shown.
const FINDINGS: usize = 2;
/// Lines that the table keeps, whatever else is found.
const TABLE_MIN: usize = 8;
/// The same if there would otherwise be no room for what to do about the first finding.
const TABLE_LEAST: usize = 5;
/// Lines of classes that are kept, whatever else is found.
const CLASSES_MAX: usize = 12;
/// Lines of the headline at most.
const PARAGRAPH_MAX: usize = 9;
/// Letters of its last line where more would follow.
const CUT: usize = 70;
/// How the second line of a table's row begins.
const CONTINUES: &str = "          ";
/// Column of a finding's text.
const TEXT: usize = 12;

/// Returns the screen.
pub(crate) fn render(report: &Report, style: &Style) -> String {
    let mut page = Page::new(style);
    let paragraph = wrap(&headline::paragraph(report), page.prose_width());
    for (at, line) in paragraph.iter().take(PARAGRAPH_MAX).enumerate() {
        let is_cut = at + 1 == PARAGRAPH_MAX && paragraph.len() > PARAGRAPH_MAX;
        let line = if is_cut { line.chars().take(CUT).chain(" ...".chars()).collect() } else { line.clone() };
        let line = page.paint(BOLD, &line);
        page.line(&line);
    }
    let most = match style.detail {
        Detail::Screen { lines: Some(lines), .. } => lines.max(SMALLEST) - LEFT,
        _ => usize::MAX,
    };
    let table = lines(style, |page| sections::brief(page, report));
    let foot = lines(style, |page| foot(page, report));
    let used = page.text.lines().count() + foot.len() + 1;
    // A blank line before the table, and one before the findings.
    // The finding that matters most is shown with what to do about it, even if the table loses lines for it.
    let worst = worth_telling(report).next();
    let first = worst.map_or(0, |finding| lines(style, |page| tell(page, finding, true)).len());
    // For a check, all classes are the answer.
    let (table_min, table_least) = match report.verdicts.is_empty() {
        true => (TABLE_MIN, TABLE_LEAST),
        false => (CLASSES_MAX, CLASSES_MAX),
    };
    let room = most.saturating_sub(used + 1 + table_min.min(table.len()) + 1);
    let room = room.max(first.min(most.saturating_sub(used + 1 + table_least.min(table.len()) + 1)));
    // What makes these figures doubtful is always shown, however long the answer is; the last rows of the table give
    // way.
    let critical = worst.filter(|finding| finding.severity == Severity::Critical);
    let title = critical.map_or(0, |finding| lines(style, |page| tell(page, finding, false)).len());
    let room = room.max(title);
    let findings = findings(report, style, room);
    let blank = usize::from(!findings.is_empty());
    let room = most.saturating_sub(used + 1 + findings.len() + blank);
    let mut shown = if table.len() <= room { table.len() } else { room.saturating_sub(1) };
    // The second line of a row is indented further: it stays with the first.
    while shown > 0 && shown < table.len() && table[shown].starts_with(CONTINUES) {
        shown -= 1;
    }
    if shown > 0 {
        page.line("");
    }
    table[..shown].iter().for_each(|line| page.line(line));
    if shown > 0 && shown < table.len() {
        let more = page.paint(DIM, &format!("  ({} more lines)", table.len() - shown));
        page.line(&more);
    }
    if !findings.is_empty() {
        page.line("");
    }
    findings.iter().chain(std::iter::once(&String::new())).chain(&foot).for_each(|line| page.line(line));
    page.text
}

/// Returns what `write` puts on a page, in lines.
fn lines(style: &Style, write: impl FnOnce(&mut Page)) -> Vec<String> {
    let mut page = Page::new(style);
    write(&mut page);
    page.text.lines().map(str::to_owned).collect()
}

/// Returns the findings that matter most, with what to do about them, in at most `room` lines.
fn findings(report: &Report, style: &Style, room: usize) -> Vec<String> {
    let mut all = Vec::new();
    for finding in worth_telling(report).take(FINDINGS) {
        let whole = lines(style, |page| tell(page, finding, true));
        let title = lines(style, |page| tell(page, finding, false));
        let left = room.saturating_sub(all.len());
        match (whole.len() <= left, title.len() <= left) {
            (true, _) => all.extend(whole),
            (false, true) => all.extend(title),
            (false, false) => break,
        }
    }
    all
}

/// Findings about settings of the machine, the same in every run there: the whole report has them.
const SETTINGS: [FindingId; 3] =
    [FindingId::MountOptionsDiscard, FindingId::MountOptionsCommit, FindingId::DirtyLimits];

/// Whether other programs on this machine spoiled figures: a longer run would not help.
fn is_machine_busy(report: &Report) -> bool {
    let spoils = |finding: &Finding| matches!(finding.id.detector(), Detector::CpuSpoiled | Detector::OtherTraffic);
    report.findings.iter().any(|finding| finding.severity == Severity::Critical && spoils(finding))
}

/// The findings by weight. Those that only inform are worth a line only if there is something to do about them.
pub(crate) fn worth_telling(report: &Report) -> impl Iterator<Item = &Finding> + use<'_> {
    // A check says it in its first line.
    let no_disk = report.no_disk().filter(|_| words::is_check(report));
    let is_told = move |finding: &&Finding| {
        let is_general = SETTINGS.contains(&finding.id);
        Some(*finding) != no_disk
            && !is_general
            && !(finding.severity == Severity::Info && finding.id.detector() == Detector::CpuSpoiled)
            && (finding.severity >= Severity::Warning || !finding.advice.is_empty())
    };
    let mut all: Vec<&Finding> = report.findings.iter().filter(is_told).collect();
    // What this machine's processors did comes after what the disk did.
    all.order_by_key(|finding| (std::cmp::Reverse(finding.severity), finding.id.detector() == Detector::CpuSpoiled));
    all.into_iter()
}

fn tell(page: &mut Page, finding: &Finding, with_advice: bool) {
    let paint = match finding.severity {
        Severity::Info => NOTE,
        Severity::Warning => MIDDLING,
        Severity::Critical => BAD,
    };
    page.hang(2, &words::severity(finding.severity).to_uppercase(), paint, TEXT, &sections::sentence(&finding.title));
    if with_advice && !finding.advice.is_empty() {
        page.hang(TEXT, "->", BOLD, TEXT + 3, &finding.advice);
    }
}

/// Writes where the rest is, and what else to run.
fn foot(page: &mut Page, report: &Report) {
    let dim = |page: &mut Page, text: &str| {
        for line in wrap(text, page.prose_width()) {
            let line = page.paint(DIM, &line);
            page.line(&line);
        }
    };
    let id: String = report.record.id.chars().take(ID).collect();
    let wrote = match report.record.written() {
        Bytes(0) => String::new(),
        bytes => format!(" and wrote {bytes}"),
    };
    let is_over_hours = report.record.plan.over.is_some();
    if report.record.is_unfinished() {
        page.line(&format!("Continue: qd1 check --resume {}", report.record.id));
    } else if words::is_check(report) && !is_over_hours && !report.verdicts.is_empty() {
        if let Some(classes) = too_quick_for(report) {
            let advice = match is_machine_busy(report) {
                true => format!("Not decided for {classes}: measure again when nothing else uses this machine."),
                false => format!("--quick was too quick for {classes}: leave it out."),
            };
            dim(page, &advice);
        }
        let took = format_span_ns(report.record.elapsed_ns);
        let text = format!("It took {took}{wrote}: measure at busy hours too (check --over 24h).");
        dim(page, &text);
    } else if !is_over_hours && !wrote.is_empty() && report.record.watched.is_none() {
        dim(page, &format!("It took {}{wrote}.", format_span_ns(report.record.elapsed_ns)));
    }
    let rest = match page.style.detail {
        Detail::Screen { is_kept: true, .. } => format!("qd1 history show {id}"),
        _ => "add -v".to_owned(),
    };
    let found = match report.findings.len() {
        0 => String::new(),
        1 => ", 1 finding".to_owned(),
        count => format!(", {count} findings"),
    };
    match (report.record.watched.is_some(), page.style.detail) {
        (true, Detail::Screen { is_kept: true, .. }) => dim(page, &format!("All programs and waits{found}: {rest}")),
        // What is not kept cannot be shown again.
        (true, _) => {}
        (false, _) => dim(page, &format!("All figures and intervals{found}, the machine: {rest}")),
    }
}

/// The classes that a quick check left open for lack of time; `None` for any other run.
fn too_quick_for(report: &Report) -> Option<String> {
    let has = |option: &str| report.record.command.iter().any(|word| word == option);
    if !has("--quick") || has("--runtime") || report.record.interrupted {
        return None;
    }
    // What is open for another reason would still be open after a longer run.
    let wants_time =
        |why: &str| ["too few", "finding out", "lies across", "spans both"].iter().any(|end| why.contains(end));
    let is_open = |verdict: &&Verdict| {
        let mut open = verdict.judged.iter().filter(|judged| judged.grade == Grade::NotResolved);
        verdict.grade == Grade::NotResolved && open.any(|judged| wants_time(&judged.why))
    };
    let titles: Vec<String> = report.verdicts.iter().filter(is_open).map(|verdict| verdict.title.clone()).collect();
    (!titles.is_empty()).then(|| words::join(&titles))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;

    fn screen(report: &Report, width: usize) -> String {
        render(report, &Style { detail: Detail::Screen { is_kept: true, lines: Some(24) }, ..Style::plain(width) })
    }

    /// A busy machine filled the screen with its answer, and what made that doubtful was not on it.
    #[test]
    fn what_makes_figures_doubtful_is_on_the_screen() {
        for (_, mut report) in all() {
            let Some(first) = report.findings.first().cloned() else { continue };
            let title = "something else used the device during step paced".to_owned();
            report.findings.insert(0, Finding { severity: Severity::Critical, title, ..first });
            // However many lines the answer takes.
            report.impressions.clone_from(&sample::slow_vps().impressions);
            for words in 0..40 {
                for impression in &mut report.impressions {
                    impression.word = Some("excellent ".repeat(words));
                }
                let text = screen(&report, 80);
                assert!(text.contains("CRITICAL  Something else used"), "{text}");
                assert!(text.lines().count() <= SMALLEST, "{text}");
            }
        }
    }

    fn all() -> [(&'static str, Report); 7] {
        [
            ("slow_vps", sample::slow_vps()),
            ("interrupted", sample::interrupted()),
            ("fast_nvme", sample::fast_nvme()),
            ("over_a_day", sample::over_a_day()),
            ("suite", sample::suite()),
            ("meta", sample::meta()),
            ("bonnie", sample::bonnie()),
        ]
    }

    #[test]
    fn the_screen_fits_a_terminal_of_24_lines_and_80_columns() {
        for (name, report) in all() {
            let text = screen(&report, 80);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(text.lines().count() <= SMALLEST - LEFT && widest <= 80, "{name}: {text}");
        }
    }

    #[test]
    fn it_says_where_the_rest_is() {
        let report = sample::slow_vps();
        assert!(screen(&report, 80).trim_end().ends_with("qd1 history show 4f2a9c01"));
        let unkept =
            render(&report, &Style { detail: Detail::Screen { is_kept: false, lines: None }, ..Style::plain(80) });
        assert!(unkept.trim_end().ends_with("add -v"), "{unkept}");
    }

    #[test]
    fn a_quick_check_says_which_classes_it_was_too_quick_for() {
        let mut report = sample::slow_vps();
        assert!(!screen(&report, 80).contains("too quick"));
        report.record.command.push("--quick".to_owned());
        let text = screen(&report, 80);
        assert!(text.contains("--quick was too quick for databases in memory and databases that read"), "{text}");
    }

    #[test]
    fn screen_snapshots() {
        for (name, report) in all() {
            insta::assert_snapshot!(format!("screen_{name}"), screen(&report, 80));
        }
    }
}

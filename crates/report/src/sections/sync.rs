//! Methods of making writes durable, for people: a comparison, the best method by size, committers and layout, new
//! files, and the settings of programs.

use qd1_model::metric::Unit;
use qd1_model::order::Order as _;
use qd1_model::plan::{FileSync, Sync};
use qd1_model::sync::{SyncAdvice, SyncFiles, SyncLayout, SyncMethod, SyncRow, SyncSetting, SyncTable};
use qd1_model::{Bytes, Estimate, Report};

use crate::page::{BAD, BOLD, DIM, GOOD, MIDDLING, NOTE, Page};
use crate::section::{Lines, Section};
use crate::table::escaped;
use crate::table::{CELL, cell, compact, legend};
use crate::words;

/// Width of a table's first column.
const LABEL: usize = 15;
/// Column of a setting's text.
const SETTING: usize = 14;

/// Ways to make writes durable.
pub(crate) struct Methods<'a> {
    pub(crate) report: &'a Report,
    pub(crate) table: &'a SyncTable,
}

impl Section for Methods<'_> {
    fn answer(&self) -> String {
        sentence(self.table)
    }

    fn brief(&self, page: &mut Page) {
        brief(page, self.table);
    }

    fn human(&self, page: &mut Page) {
        section(page, self.report, self.table);
    }

    fn markdown(&self, text: &mut String) {
        markdown(text, self.report, self.table);
    }

    fn lines(&self, lines: &mut Lines<'_>) {
        lines.all("sync", &self.table.rows);
        lines.all("sync_files", &self.table.files);
        lines.all("sync_setting", &self.table.settings);
    }
}

/// A table: its title, the titles of its columns, and its rows.
struct Table {
    title: String,
    columns: Vec<&'static str>,
    rows: Vec<Row>,
}

/// A row: its name, the text below the name, and the figures.
struct Row {
    label: String,
    below: String,
    cells: Vec<(Unit, Option<Estimate>)>,
}

/// The program whose setting is always named.
const POSTGRES: &str = "PostgreSQL";

/// Ways that are named if none is clearly the fastest.
const FEW: usize = 3;

/// Returns the answer in a sentence or two.
fn sentence(table: &SyncTable) -> String {
    let Some(best) = table.best else { return "No durable method was measured.".to_owned() };
    let compared = |method: SyncMethod| table.rows.iter().find(|row| is_compared(row, table) && row.method == method);
    let commits = compared(best).map_or_else(String::new, |row| match row.commits_per_second.is_resolved() {
        true => {
            format!(", with {} commits/s", words::figure(Unit::PerSecond, &row.commits_per_second).replace("/s", ""))
        }
        false => format!(", with a median of {} a commit", words::figure(Unit::Ns, &row.lat_p50_ns)),
    });
    let block = Bytes(u64::from(table.block));
    let mut text = match table.tied.is_empty() {
        true => format!("{} is the fastest durable way to commit {block} here{commits}.", named(best)),
        false => {
            let tied: Vec<String> = [best].iter().chain(&table.tied).map(|method| named(*method)).collect();
            let all = table.rows.iter().filter(|row| row.durable && is_compared(row, table)).count();
            let which = match tied.len() {
                ..=FEW => words::join(&tied),
                many => format!("{many} of {all}"),
            };
            format!("The fastest durable ways to commit {block} here, {which}, cannot be distinguished{commits}.")
        }
    };
    let slowest = table.rows.iter().filter(|row| row.durable && is_compared(row, table) && row.method != best);
    let slowest = slowest.filter(|row| !table.tied.contains(&row.method));
    let rate = |row: &SyncRow| row.commits_per_second.value;
    let slowest = slowest.filter_map(|row| Some((row, rate(row)?))).min_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((slow, (one, other))) =
        slowest.and_then(|(row, other)| Some((row, (compared(best).and_then(rate)?, other))))
    {
        text += &format!(" That is {:.1} times the rate of {}, the slowest.", one / other, named(slow.method));
    }
    text + &to_set(table)
}

/// Returns the settings to choose, in a sentence; always PostgreSQL's, which has the most of them.
fn to_set(table: &SyncTable) -> String {
    let advised = |advice: SyncAdvice| table.settings.iter().filter(move |setting| setting.advice == advice);
    let settings: Vec<String> =
        advised(SyncAdvice::Choose).map(|setting| format!("{} ({})", setting.setting, setting.program)).collect();
    let postgres = advised(SyncAdvice::Keep).find(|setting| setting.program == POSTGRES);
    let mut text = match postgres {
        Some(kept) => format!(" {POSTGRES}: keep {}.", kept.setting),
        None => String::new(),
    };
    match (settings.is_empty(), postgres.is_some() || table.settings.is_empty()) {
        (false, _) => text += &format!(" Set {}.", words::join(&settings)),
        (true, false) => text += " No database setting is certainly better than its default.",
        (true, true) => {}
    }
    text
}

/// Writes a line for each durable method, the fastest first.
fn brief(page: &mut Page, table: &SyncTable) {
    let mut methods: Vec<&SyncRow> = table.rows.iter().filter(|row| row.durable && is_compared(row, table)).collect();
    let rate = |row: &&SyncRow| row.commits_per_second.value.unwrap_or_default();
    methods.order_by(|a, b| rate(b).total_cmp(&rate(a)));
    let cells = |row: &&SyncRow| {
        let [p50, p99] = [row.lat_p50_ns, row.lat_p99_ns].map(|figure| words::figure(Unit::Ns, &figure));
        let rate = &row.commits_per_second;
        let rate = match rate.low.is_none() && rate.high.is_none() {
            true => format!("too few, n={}", words::thousands(row.lat_p50_ns.n)),
            false => words::figure(Unit::PerSecond, rate),
        };
        vec![named(row.method), rate, p50, p99]
    };
    let rows: Vec<Vec<String>> = methods.iter().map(cells).collect();
    if !rows.is_empty() {
        compact(page, &["durable ways", "commits [95 %]", "p50 [95 %]", "p99 [95 %]"], &rows);
    }
    let decided = table.settings.iter().filter(|setting| setting.advice == SyncAdvice::Decide);
    let lines: Vec<String> = decided.map(|setting| decision(setting, table)).collect();
    if !lines.is_empty() {
        page.line("");
        lines.iter().for_each(|line| page.hang(2, "", DIM, 2, line));
    }
}

/// Returns what a durable setting costs for a program that is not durable by default, and what the default can lose.
fn decision(setting: &SyncSetting, table: &SyncTable) -> String {
    let is_usual = |other: &&SyncSetting| other.program == setting.program && !other.durable;
    let usual = table.settings.iter().find(is_usual);
    let usual = usual.map_or_else(String::new, |other| format!(" {}: {}.", other.setting, other.note));
    let cost = setting.lat_p50_ns.map_or_else(|| "a wait".to_owned(), |p50| words::figure(Unit::Ns, &p50));
    format!("{}, where nothing may be lost: {}, {cost} a commit.{usual}", setting.program, setting.setting)
}

/// Writes the section of the human report.
fn section(page: &mut Page, report: &Report, table: &SyncTable) {
    for table in tables(table) {
        show(page, &table);
    }
    settings(page, table);
    let notes = notes(table);
    if !notes.is_empty() {
        page.heading("Notes");
        notes.iter().for_each(|note| page.hang(2, "-", NOTE, 4, note));
    }
    for text in words::not_run(report) {
        page.hang(0, "not run: ", BOLD, 9, &text);
    }
    legend(page, "Below a name: how many commits there were.");
}

/// Writes the section of the Markdown report.
fn markdown(text: &mut String, report: &Report, table: &SyncTable) {
    for table in tables(table) {
        let titles: String = table.columns.iter().map(|title| format!(" {title} |")).collect();
        *text += &format!("### {}\n\n| |{titles}\n|---|{}\n", table.title, "--:|".repeat(table.columns.len()));
        for row in &table.rows {
            let cells: String =
                row.cells.iter().map(|(unit, estimate)| format!(" {} |", whole(*unit, estimate))).collect();
            *text += &format!("| {} ({}) |{cells}\n", escaped(&row.label), row.below);
        }
        text.push('\n');
    }
    *text += "### Program settings\n\n| program | setting | | p50 of a commit | |\n|---|---|---|--:|---|\n";
    for setting in &table.settings {
        let p50 = whole(Unit::Ns, &setting.lat_p50_ns);
        let (setting_name, note) = (escaped(&setting.setting), escaped(&setting.note));
        *text += &format!("| {} | {setting_name} | {} | {p50} | {note} |\n", setting.program, advice(setting));
    }
    for note in notes(table) {
        *text += &format!("\n{}\n", escaped(&note));
    }
    for why in words::not_run(report) {
        *text += &format!("\nNot run: {}\n", escaped(&why));
    }
    text.push('\n');
}

fn whole(unit: Unit, estimate: &Option<Estimate>) -> String {
    match estimate {
        Some(estimate) if estimate.is_resolved() => words::figure(unit, estimate),
        Some(estimate) => words::whole(unit, estimate),
        None => "-".to_owned(),
    }
}

/// Returns the name of a method: `O_DSYNC + O_DIRECT`.
fn named(method: SyncMethod) -> String {
    if method.direct { format!("{} + O_DIRECT", method.name()) } else { method.name().to_owned() }
}

fn is_compared(row: &SyncRow, table: &SyncTable) -> bool {
    row.writes_per_sync == 1 && is_base(row, table)
}

/// Returns true for one committer with writes of the common size over written data.
fn is_base(row: &SyncRow, table: &SyncTable) -> bool {
    row.block == table.block && row.committers == 1 && row.layout == SyncLayout::Overwrite
}

/// Returns all tables that have rows.
fn tables(table: &SyncTable) -> Vec<Table> {
    let all = [methods(table), sizes(table), committers(table), layouts(table), files(table)];
    all.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn methods(table: &SyncTable) -> Table {
    let block = Bytes(u64::from(table.block));
    let rows = table.rows.iter().filter(|row| is_compared(row, table)).map(|row| {
        let twice =
            |other: &&SyncRow| is_base(other, table) && other.writes_per_sync == 2 && other.method == row.method;
        let two = table.rows.iter().find(twice).map(|row| row.lat_p50_ns);
        let label = if row.method.direct { "  + O_DIRECT".to_owned() } else { row.method.name().to_owned() };
        let mut cells = cells(row);
        cells.push((Unit::Ns, two));
        Row { label, cells, ..unlabelled(row) }
    });
    Table {
        title: format!("Methods: {block} written and made durable, one committer"),
        columns: vec!["commits/s", "p50", "p99", "sync p50", "2 writes p50"],
        rows: in_pairs(rows.collect(), table),
    }
}

/// Orders the rows so that each method without O_DIRECT precedes the same with O_DIRECT.
fn in_pairs(rows: Vec<Row>, table: &SyncTable) -> Vec<Row> {
    let compared: Vec<&SyncRow> = table.rows.iter().filter(|row| is_compared(row, table)).collect();
    debug_assert_eq!(rows.len(), compared.len(), "there is a row for each compared method");
    let mut order: Vec<(usize, Row)> = rows
        .into_iter()
        .enumerate()
        .map(|(at, row)| {
            let sync = compared[at].method.sync;
            let first = compared.iter().position(|other| other.method.sync == sync).unwrap_or(at);
            (first * 2 + usize::from(compared[at].method.direct), row)
        })
        .collect();
    order.order_by_key(|(place, _)| *place);
    order.into_iter().map(|(_, row)| row).collect()
}

fn unlabelled(row: &SyncRow) -> Row {
    let n = row.lat_p50_ns.n;
    let below = if row.durable { format!("n={}", words::thousands(n)) } else { "NOT DURABLE".to_owned() };
    Row { label: String::new(), below, cells: cells(row) }
}

fn cells(row: &SyncRow) -> Vec<(Unit, Option<Estimate>)> {
    vec![
        (Unit::PerSecond, Some(row.commits_per_second)),
        (Unit::Ns, Some(row.lat_p50_ns)),
        (Unit::Ns, Some(row.lat_p99_ns)),
        (Unit::Ns, row.sync_p50_ns),
    ]
}

const COLUMNS: [&str; 4] = ["commits/s", "p50", "p99", "sync p50"];

/// Returns a table of the rows that have a label, in the order of `key`: they vary the best method.
fn variations<K: Ord>(
    table: &SyncTable,
    title: &str,
    key: impl Fn(&SyncRow) -> K,
    label: impl Fn(&SyncRow) -> Option<String>,
) -> Table {
    let mut rows: Vec<&SyncRow> = table.rows.iter().filter(|row| row.writes_per_sync == 1).collect();
    rows.order_by_key(|row| key(row));
    let labelled: Vec<(SyncMethod, Row)> = rows
        .into_iter()
        .filter_map(|row| label(row).map(|label| (row.method, Row { label, ..unlabelled(row) })))
        .collect();
    let method = labelled.first().map_or_else(String::new, |(method, _)| format!(", {}", named(*method)));
    Table {
        title: format!("{title}{method}"),
        columns: COLUMNS.to_vec(),
        rows: labelled.into_iter().map(|(_, row)| row).collect(),
    }
}

/// Returns the method of the wanted rows.
fn varied_method(table: &SyncTable, wanted: impl Fn(&SyncRow) -> bool) -> Option<SyncMethod> {
    table.rows.iter().find(|row| wanted(row)).map(|row| row.method)
}

fn sizes(table: &SyncTable) -> Table {
    let is_other = |row: &SyncRow| row.block != table.block && row.committers == 1;
    let method = varied_method(table, is_other);
    let by_size = |row: &SyncRow| row.block;
    variations(table, "Size of a commit", by_size, |row| {
        let base = is_base(row, table) && Some(row.method) == method;
        (base || is_other(row)).then(|| Bytes(u64::from(row.block)).to_string())
    })
}

fn committers(table: &SyncTable) -> Table {
    let method = varied_method(table, |row| row.committers > 1);
    let block = Bytes(u64::from(table.block));
    let own_first = |row: &SyncRow| (row.shared, row.committers);
    variations(table, &format!("Concurrent committers, {block} each"), own_first, |row| {
        let one = is_base(row, table) && Some(row.method) == method;
        let files = if row.shared { "one file" } else { "own files" };
        match row.committers {
            1 => one.then(|| "1".to_owned()),
            many => Some(format!("{many} {files}")),
        }
    })
}

fn layouts(table: &SyncTable) -> Table {
    let method = varied_method(table, |row| row.layout != SyncLayout::Overwrite);
    let as_measured = |_: &SyncRow| ();
    variations(table, "Where commits are written", as_measured, |row| match row.layout {
        SyncLayout::Overwrite => {
            (is_compared(row, table) && Some(row.method) == method).then(|| "overwritten".to_owned())
        }
        SyncLayout::Append => Some("appended".to_owned()),
        SyncLayout::Preallocated => Some("preallocated".to_owned()),
    })
}

fn files(table: &SyncTable) -> Table {
    let row = |files: &SyncFiles| Row {
        label: if files.sync == FileSync::FsyncDirectory { "and directory" } else { "file alone" }.to_owned(),
        below: format!("n={}", words::thousands(files.create_p50_ns.n)),
        cells: vec![
            (Unit::PerSecond, Some(files.files_per_second)),
            (Unit::Ns, Some(files.create_p50_ns)),
            (Unit::Ns, Some(files.create_p99_ns)),
            (Unit::Ns, files.sync_p50_ns),
            (Unit::Ns, files.delete_p50_ns),
        ],
    };
    let size = table.files.first().map_or_else(String::new, |files| format!(" of {}", files.size));
    Table {
        title: format!("New files{size}: created, written, synced, closed; then removed"),
        columns: vec!["files/s", "p50", "p99", "sync p50", "removal p50"],
        rows: table.files.iter().map(row).collect(),
    }
}

fn show(page: &mut Page, table: &Table) {
    page.heading(&table.title);
    let is_table = page.style.width >= LABEL + CELL * 5 - 1;
    if is_table {
        let titles: String = table.columns.iter().map(|title| format!("{title:CELL$}")).collect();
        let heading = page.paint(DIM, format!("{:LABEL$}{titles}", "").trim_end());
        page.line(&heading);
    }
    for row in &table.rows {
        let shown: Vec<(String, String)> = row
            .cells
            .iter()
            .map(|(unit, estimate)| {
                estimate.as_ref().map_or(("-".into(), String::new()), |estimate| cell(*unit, estimate))
            })
            .collect();
        if is_table {
            two_lines(page, row, &shown);
        } else {
            page.line(&format!("  {}, {}", row.label.trim(), row.below));
            for (title, (figure, interval)) in table.columns.iter().zip(&shown) {
                page.hang(4, title, DIM, 18, &format!("{figure} {interval}"));
            }
        }
    }
}

fn two_lines(page: &mut Page, row: &Row, shown: &[(String, String)]) {
    let mut label = row.label.as_str();
    if 1 + label.chars().count() >= LABEL {
        page.line(&format!(" {label}"));
        label = "";
    }
    let figures: String = shown.iter().map(|(figure, _)| format!("{figure:CELL$}")).collect();
    let intervals: String = shown.iter().map(|(_, interval)| format!("{interval:CELL$}")).collect();
    page.line(&format!(" {label:w$}{figures}", w = LABEL - 1));
    let below = page.paint(DIM, format!("{:w$}{intervals}", row.below, w = LABEL - 3).trim_end());
    page.line(&format!("   {below}"));
}

fn settings(page: &mut Page, table: &SyncTable) {
    if table.settings.is_empty() {
        return;
    }
    page.heading("Program settings, and the median of a commit with each");
    let mut program = "";
    for setting in &table.settings {
        if setting.program != program {
            program = &setting.program;
            page.line(&format!("  {program}"));
        }
        let paint = match setting.advice {
            SyncAdvice::Keep | SyncAdvice::Choose | SyncAdvice::Only => GOOD,
            SyncAdvice::Possible | SyncAdvice::Unknown | SyncAdvice::Decide => DIM,
            SyncAdvice::Unsafe if setting.durable => MIDDLING,
            SyncAdvice::Unsafe => BAD,
        };
        let figure = match &setting.lat_p50_ns {
            Some(estimate) => words::whole(Unit::Ns, estimate),
            None if setting.durable => "not measured".to_owned(),
            None => "no wait".to_owned(),
        };
        let note = if setting.note.is_empty() { String::new() } else { format!(" ({})", setting.note) };
        page.hang(4, advice(setting), paint, SETTING, &format!("{}: {figure}{note}", setting.setting));
    }
}

const fn advice(setting: &SyncSetting) -> &'static str {
    match setting.advice {
        SyncAdvice::Keep => "keep",
        SyncAdvice::Choose => "choose",
        SyncAdvice::Possible => "possible",
        SyncAdvice::Only => "fixed",
        SyncAdvice::Decide => "durable",
        SyncAdvice::Unsafe => "NOT SAFE",
        SyncAdvice::Unknown => "?",
    }
}

/// Returns the notes that the figures need.
fn notes(table: &SyncTable) -> Vec<String> {
    let mut notes = Vec::new();
    if table.rows.iter().any(|row| row.method.sync == Sync::SyncFileRange) {
        notes.push(
            "sync_file_range makes nothing durable, however fast it is: it writes no metadata, without which the data may \
             not be found again, and sends no flush, so the data may still be in the disk's volatile cache. It is \
             measured only to show how much time it seems to save."
                .to_owned(),
        );
    }
    if table.rows.iter().any(|row| row.method.direct && row.method.sync.is_in_the_write()) {
        notes.push(
            "pg_test_fsync opens the files of open_datasync and open_sync with O_DIRECT; PostgreSQL itself does so only \
             if configured (debug_io_direct, before 16 wal_level=minimal). Compare like with like."
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use crate::formats::Format;
    use crate::page::{Detail, Style};
    use crate::render;
    use crate::samples::sync as report;

    fn text(width: usize) -> String {
        render(&report(), Format::Human, &Style::plain(width))
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [40, 60, 79, 80, 120] {
            let text = text(width);
            let body = text.split("\nRun it again").next().unwrap();
            assert!(body.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
    }

    #[test]
    fn the_first_sentence_names_the_best_method_and_those_as_fast() {
        let text = text(80);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.starts_with("The fastest durable ways to commit 8 KiB here, fdatasync and fdatasync + O_DIRECT, cannot be distinguished, with 5.46k"), "{text}");
    }

    #[test]
    fn the_first_screen_has_postgresqls_setting_and_what_durable_redis_costs() {
        let text = render(
            &report(),
            Format::Human,
            &Style { detail: Detail::Screen { is_kept: false, lines: None }, ..Style::plain(80) },
        );
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains("PostgreSQL: keep wal_sync_method=fdatasync."), "{text}");
        let redis = "Redis, where nothing may be lost: appendfsync always, 401 us [389..413] a commit. appendfsync everysec: its \
                     default: a power cut loses the last second.";
        assert!(flat.contains(redis) && !flat.contains("Set appendfsync"), "{text}");
    }

    #[test]
    fn a_method_that_is_not_durable_is_marked_and_explained() {
        let text = text(80);
        assert!(text.contains("NOT DURABLE"), "{text}");
        assert!(text.contains("sync_file_range makes nothing durable"), "{text}");
    }

    #[test]
    fn human_snapshot_of_a_sync() {
        insta::assert_snapshot!("sync_80", text(80));
    }

    #[test]
    fn markdown_has_a_table_for_each_question() {
        let text = render(&report(), Format::Markdown, &Style::plain(80));
        for title in ["### Methods", "### Size of a commit", "### Concurrent", "### Where commits", "### New files"] {
            assert!(text.contains(title), "{title}: {text}");
        }
        assert!(text.contains("| PostgreSQL | wal\\_sync\\_method=fdatasync | keep | 183 us"), "{text}");
    }
}

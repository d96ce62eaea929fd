//! The texts of the comparison of filesystems, the same for a terminal and for Markdown.

use qd1_model::filesystems::{Candidate, CellOf, Comparison, Row};
use qd1_model::metric::{Better, Unit, metric};
use qd1_model::units::format_rate;
use qd1_model::{Estimate, Report};

use crate::machine;

/// Beyond this the figure is not known to within a factor of two.
const PERCENT_MAX: f64 = 99.5;

pub(crate) fn headline(report: &Report, table: &Comparison) -> String {
    let names: Vec<&str> = table.filesystems.iter().map(|one| one.name.as_str()).collect();
    let rounds = if table.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", table.rounds) };
    format!("{} on {}, {rounds}", names.join(", "), report.record.plan.target.path.display())
}

pub(crate) fn interrupted(report: &Report, table: &Comparison) -> String {
    let planned = report.record.plan.filesystems.as_ref().map_or(0, |plan| plan.rounds);
    format!("{} of {planned} rounds are complete.", table.rounds)
}

/// Returns the name of a row's figure.
pub(crate) fn label(row: &Row) -> String {
    let metric = metric(&row.metric);
    match metric.map(|metric| metric.unit) {
        // The name of the operation only if it fits.
        Some(Unit::PerSecond) if row.op.name().len() > 7 => "per second".to_owned(),
        Some(Unit::PerSecond) => format!("{}s/s", row.op.name()),
        Some(Unit::BytesPerSecond) => "throughput".to_owned(),
        _ => metric.map_or(row.metric.as_str(), |metric| metric.title).to_owned(),
    }
}

/// Returns rank, figure and interval: `2. 137 us +-4%`.
pub(crate) fn cell(row: &Row, cell: &CellOf) -> String {
    if cell.rounds.is_empty() {
        return "-".to_owned();
    }
    let figure = &cell.over_rounds;
    let Some(value) = figure.value else { return "not resolved".to_owned() };
    let unit = metric(&row.metric).map_or(Unit::PerSecond, |metric| metric.unit);
    let rank = cell.rank.filter(|_| differ(row)).map(|rank| format!("{rank}. ")).unwrap_or_default();
    format!("{rank}{}{}", unit.format(value), spread(figure))
}

/// How many times worse than the best a filesystem has to be before an uncertain difference is shown.
const FAR: f64 = 1.5;

/// Returns true if a filesystem in a row is certainly worse than another.
pub(crate) fn differ(row: &Row) -> bool {
    row.cells.iter().any(|cell| cell.rank.is_some_and(|rank| rank > 1))
}

/// Returns the distance of the interval's farther end as a share of the value.
fn spread(figure: &Estimate) -> String {
    let (Some(value), Some(low), Some(high)) = (figure.value, figure.low, figure.high) else { return String::new() };
    let percent = (high / value - 1.0).max(1.0 - low / value) * 100.0;
    match percent {
        percent if percent > PERCENT_MAX => " +-?".to_owned(),
        percent => format!(" +-{:.0}%", percent.max(1.0)),
    }
}

/// Explains cells whose interval has no figure, if there are any.
pub(crate) fn open_cells(table: &Comparison) -> Option<&'static str> {
    let mut cells = table.rows.iter().filter(|row| row.leads).flat_map(|row| &row.cells);
    cells.any(|cell| spread(&cell.over_rounds).ends_with('?')).then_some("+-?: not known to within a factor of two.")
}

/// What the cells hold.
pub(crate) fn legend(table: &Comparison) -> String {
    let leading = || table.rows.iter().filter(|row| row.leads);
    let mut text = "Geometric mean over the rounds, with its 95 % interval".to_owned();
    if leading().any(differ) {
        text += &format!(
            "; before it the rank, if any filesystem certainly differs. Ranks are based on the differences within each \
             round, with a 5 % error rate over all {} comparisons. Equal ranks: no certain difference",
            table.comparisons
        );
    }
    text += ".";
    if let Some(open) = open_cells(table) {
        text += &format!(" {open}");
    }
    if leading().any(|row| row.cells.iter().any(is_unresolved)) {
        text += " Not resolved: too few operations, or too uneven, in some round.";
    }
    text
}

fn is_unresolved(cell: &CellOf) -> bool {
    !cell.rounds.is_empty() && !cell.over_rounds.is_resolved()
}

/// Returns a sentence for each figure in which some are certainly worse.
pub(crate) fn sure(table: &Comparison) -> Vec<String> {
    let mut sentences = Vec::new();
    for row in table.rows.iter().filter(|row| row.leads) {
        let best = row.cells.iter().position(|cell| cell.to_best.is_none() && cell.rank == Some(1));
        let worse: Vec<String> =
            table.filesystems.iter().zip(&row.cells).filter_map(|(one, cell)| worse(row, one, cell)).collect();
        if let Some(best) = best.filter(|_| !worse.is_empty()) {
            let (best, title, label) = (&table.filesystems[best].name, &row.title, label(row));
            sentences.push(format!("{title}, {label}: {} of {best}'s", worse.join(", ")));
        }
    }
    if !sentences.is_empty() {
        return sentences;
    }
    let (rounds, comparisons) = (table.rounds, table.comparisons);
    let seen: Vec<String> = table.rows.iter().filter(|row| row.leads).filter_map(|row| seen(row, table)).collect();
    if rounds > 1 && !seen.is_empty() {
        let first = format!(
            "nothing: {rounds} rounds are too few for certainty in any of {comparisons} comparisons. Seen in every \
             round, and likely where large (more --rounds would confirm):"
        );
        return std::iter::once(first).chain(seen).collect();
    }
    vec![match (table.filesystems.len(), table.rounds) {
        (1, _) => "nothing: there is only one filesystem".to_owned(),
        (_, 0 | 1) => {
            "nothing: one round does not show how much rounds differ by chance; give --rounds 3 or more".to_owned()
        }
        _ => "nothing: no difference is larger than chance; more rounds detect smaller ones (--rounds)".to_owned(),
    }]
}

/// Returns a figure in which one filesystem was far worse than the best in every round, though not certainly.
fn seen(row: &Row, table: &Comparison) -> Option<String> {
    let better = metric(&row.metric)?.better;
    let best = row.cells.iter().position(|cell| cell.to_best.is_none() && cell.over_rounds.is_resolved())?;
    let of_best = |round: u32| row.cells[best].rounds.iter().find(|one| one.round == round)?.figure.value;
    let is_far = |cell: &CellOf| {
        let factor = cell.to_best.and_then(|ratio| ratio.value).unwrap_or(1.0);
        let in_all = cell.rounds.iter().all(|one| match (one.figure.value, of_best(one.round)) {
            (Some(own), Some(best)) if better == Better::Lower => own > best,
            (Some(own), Some(best)) => own < best,
            _ => false,
        });
        in_all && factor.max(1.0 / factor) >= FAR
    };
    let others = table.filesystems.iter().zip(&row.cells).filter(|(_, cell)| is_far(cell));
    let worse: Vec<String> = others.filter_map(|(one, cell)| times(row, one, cell)).collect();
    let (best, title, label) = (&table.filesystems[best].name, &row.title, label(row));
    (!worse.is_empty()).then(|| format!("{title}, {label}: {} of {best}'s", worse.join(", ")))
}

/// Returns `btrfs 1.80 times [1.70..1.90]` for a latency, `btrfs 56 % [53..59]` for a rate.
fn worse(row: &Row, one: &Candidate, cell: &CellOf) -> Option<String> {
    times(row, one, cell).filter(|_| cell.rank.is_some_and(|rank| rank > 1))
}

fn times(row: &Row, one: &Candidate, cell: &CellOf) -> Option<String> {
    let ratio = cell.to_best?;
    let better = metric(&row.metric)?.better;
    let (number, unit): (fn(f64) -> String, _) = match better {
        Better::Lower => (|ratio| if ratio >= 10.0 { format!("{ratio:.0}") } else { format!("{ratio:.2}") }, "times"),
        Better::Higher => {
            (|ratio| if ratio < 0.1 { format!("{:.1}", ratio * 100.0) } else { format!("{:.0}", ratio * 100.0) }, "%")
        }
    };
    let span = match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => format!(" [{}..{}]", number(low), number(high)),
        _ => String::new(),
    };
    Some(format!("{} {} {unit}{span}", one.name, number(ratio.value?)))
}

pub(crate) fn is_fair(report: &Report) -> bool {
    report.record.plan.filesystems.as_ref().is_some_and(|plan| plan.fair)
}

/// Returns name and facts of each filesystem, including those that were not measured.
pub(crate) fn made(report: &Report, table: &Comparison) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> =
        table.filesystems.iter().map(|one| (one.name.clone(), facts(one, table.rounds))).collect();
    let skipped = report.record.plan.skipped.iter();
    all.extend(skipped.map(|skipped| (skipped.name.clone(), vec![format!("not measured: {}", skipped.why)])));
    all
}

fn facts(one: &Candidate, rounds: u32) -> Vec<String> {
    let mut facts = Vec::new();
    if !one.fault.is_empty() {
        facts.push(format!("FAILED: {}", one.fault));
    }
    if !one.tool.is_empty() {
        facts.push(one.tool.clone());
    }
    facts.extend(one.commands.iter().cloned());
    if !one.asked_options.is_empty() {
        facts.push(format!("requested: {}", one.asked_options));
    }
    if !one.options.is_empty() {
        facts.push(format!("mounted as {}: {}", one.kind, one.options.join(", ")));
    }
    if !one.properties.is_empty() {
        facts.push(one.properties.join(", "));
    }
    if let Some(app) = &one.app {
        facts.push(format!("{} {}", app.program.title(), app.version));
        let settings = app.settings.iter().map(|setting| format!("{} = {}", setting.name, setting.value));
        facts.push(settings.collect::<Vec<_>>().join(", "));
    }
    if one.rounds > 0 && !one.direct {
        facts.push("no O_DIRECT: its caches are measured too".to_owned());
    }
    if one.loop_direct == Some(false) {
        facts.push("its loop device goes through the page cache of the filesystem below".to_owned());
    }
    if one.rounds > rounds {
        facts.push(format!("measured in {} rounds", one.rounds));
    }
    facts
}

/// Returns what was compared, and the first certain difference.
pub(crate) fn sentence(report: &Report, table: &Comparison) -> String {
    let first = sure(table).into_iter().next().unwrap_or_default();
    let first = first.trim_end_matches(':');
    match first.strip_prefix("nothing") {
        Some(why) => format!("{}. Nothing differs for sure{why}.", headline(report, table)),
        None => format!("{}. What differs for sure: {first}.", headline(report, table)),
    }
}

/// Returns the filesystems that each finding concerns, and its text.
pub(crate) fn notes(table: &Comparison) -> Vec<(String, String)> {
    table
        .notes
        .iter()
        .map(|note| {
            let all = note.filesystems.len() == table.filesystems.len() && note.filesystems.len() > 1;
            let who = if all { "all".to_owned() } else { note.filesystems.join(" ") };
            let seen = if note.of > 1 { format!(" (seen {} times in {})", note.seen, note.of) } else { String::new() };
            let finding = &note.finding;
            // A long list of names would leave no room next to it.
            let (who, before) =
                if who.chars().count() > 8 { (String::new(), format!("{who}: ")) } else { (who, String::new()) };
            (who, format!("{before}{}: {}{seen}", finding.title.trim_end_matches('.'), finding.evidence))
        })
        .collect()
}

/// Returns what the filesystems were made on, and the machine.
pub(crate) fn place(report: &Report) -> Vec<(&'static str, String)> {
    let record = &report.record;
    let Some(plan) = &record.plan.filesystems else { return Vec::new() };
    let what = if plan.on_loop { "a new file in each round, with a loop device over it" } else { "the device itself" };
    let mut text = format!("{} each, on {what}, fully written beforehand", plan.disk);
    if let Some(prepared) = record.prepare.as_ref().filter(|prepare| prepare.elapsed_ns > 0) {
        text += &format!(" ({})", format_rate(prepared.bytes.0 as f64 * 1e9 / prepared.elapsed_ns as f64));
        if prepared.bytes < plan.disk {
            text += &format!("; only {} of it, because time ran out", prepared.bytes);
        }
    }
    let mut engines: Vec<&str> =
        record.steps.iter().filter_map(|step| step.engine).map(|engine| engine.name()).collect();
    engines.sort_unstable();
    engines.dedup();
    let mut lines = vec![("disks", text), ("engines", engines.join(", "))];
    // Shown above, or for each step.
    lines.extend(machine::lines(report).into_iter().filter(|(label, _)| !["first write", "engine"].contains(label)));
    lines
}

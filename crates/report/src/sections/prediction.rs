//! Predictions of what databases will do on the disk, for people.

use qd1_model::plan::program::Program;
use qd1_model::plan::{StepPlan, Work};
use qd1_model::prediction::{Bound, Exactness, Predicted, Prediction, Predicts};
use qd1_model::{Estimate, Report};

use crate::page::{BAD, DIM, Page};
use crate::section::{Lines, Section};
use crate::words;

/// Columns of the table: what, the figure, its interval, what was measured.
const WHAT: usize = 32;
const FIGURE: usize = 8;
const INTERVAL: usize = 18;
const MEASURED: usize = 9;

/// The first prediction is shown when it differs by more than this factor.
const MOVED: f64 = 1.25;

/// Explains the figures.
const NOTE: &str = "Calculated from the measured commits, not run. On two simulated disks that nothing was tuned on, \
                    the intervals held for all 20 figures; most predictions were too high (scale 50, MariaDB 10.11; \
                    docs/method/predict.md).";

/// Clients of a server whose prediction the headline names.
const CLIENTS: u32 = 10;

/// What a disk is expected to do for programs.
pub(crate) struct Expected<'a> {
    pub(crate) report: &'a Report,
    pub(crate) prediction: &'a Prediction,
}

impl Section for Expected<'_> {
    fn answer(&self) -> String {
        sentence(self.prediction)
    }

    fn brief(&self, page: &mut Page) {
        brief(page, self.prediction);
    }

    fn human(&self, page: &mut Page) {
        section(page, self.report, self.prediction);
    }

    fn markdown(&self, text: &mut String) {
        markdown(text, self.report, self.prediction);
    }

    fn lines(&self, lines: &mut Lines<'_>) {
        lines.all("prediction", &self.prediction.rows);
    }
}

/// Returns what to expect of each program, by one of its figures; if programs were run, their results.
fn sentence(prediction: &Prediction) -> String {
    let is_run = prediction.rows.iter().any(|row| row.verified.is_some());
    let mut told: Vec<Program> = Vec::new();
    let mut parts = Vec::new();
    for row in prediction.rows.iter().filter(|row| row.verified.is_some() == is_run) {
        let is_leading = !has_clients(row.what) || row.clients == CLIENTS;
        if !is_leading || told.contains(&row.what.program()) {
            continue;
        }
        told.push(row.what.program());
        let [what, figure, _, bound] = cells(row);
        let interval = spoken(row);
        let what = match has_clients(row.what) {
            true => format!("{} transactions/s with {CLIENTS} clients", row.what.program().title()),
            false => what,
        };
        let figure = if row.value.value == Some(0.0) { format!("{figure} at any rate") } else { figure };
        parts.push(match is_run {
            true => format!("{what}: {} (predicted {figure}, {interval})", measured(row)[0]),
            false => format!("{what}: {figure} ({interval}), limited by {bound}"),
        });
    }
    let said = parts.join("; ");
    match (parts.is_empty(), is_run) {
        (true, false) => "Nothing could be predicted.".to_owned(),
        (true, true) => format!("Run: {}.", held(prediction)),
        (false, false) => format!("Calculated, not run: {said}."),
        (false, true) => format!("Run: {said}. {}.", held(prediction)),
    }
}

/// Returns how many of the figures that were measured lie in the predicted intervals.
fn held(prediction: &Prediction) -> String {
    let verified: Vec<_> = prediction.rows.iter().filter_map(|row| row.verified).collect();
    let held = verified.iter().filter(|verified| verified.holds).count();
    format!("{held} of {} measured figures lie in the predicted intervals", verified.len())
}

/// Whether it is predicted for several numbers of clients.
const fn has_clients(what: Predicts) -> bool {
    matches!(what, Predicts::PostgresTps | Predicts::MysqlTps)
}

/// Writes the table of predictions.
fn brief(page: &mut Page, prediction: &Prediction) {
    let is_verified = prediction.rows.iter().any(|row| row.verified.is_some());
    let last = if is_verified { format!("{:>MEASURED$}  error", "measured") } else { "limited by".to_owned() };
    page.line(
        &page.paint(DIM, &format!("  {:WHAT$}{:>FIGURE$}  {:INTERVAL$}{last}", "", "predicted", "95 % interval")),
    );
    // What was run comes first.
    let (run, others): (Vec<_>, Vec<_>) = prediction.rows.iter().partition(|row| row.verified.is_some());
    for row in run.into_iter().chain(others) {
        let [what, figure, interval, bound] = cells(row);
        let last = match is_verified {
            true => verified(page, row),
            false => page.paint(DIM, &bound),
        };
        page.line(&format!("  {what:<WHAT$}{figure:>FIGURE$}  {interval:<INTERVAL$}{last}"));
    }
    if prediction.rows.iter().any(|row| row.verified.is_some_and(|verified| !verified.holds)) {
        page.prose(2, "!: outside the predicted interval.");
    }
    if let Some(corrected) = corrected(prediction) {
        page.prose(2, &corrected);
    }
    for missing in &prediction.missing {
        page.prose(2, &format!("Not predicted: {missing}."));
    }
}

/// Writes the section of the human report.
fn section(page: &mut Page, report: &Report, prediction: &Prediction) {
    page.heading("What to expect");
    brief(page, prediction);
    for why in unmeasured(report, prediction) {
        page.prose(2, &why);
    }
    if let Some(moved) = moved(prediction) {
        page.prose(2, &moved);
    }
    // The settings of a program that ended early are not known.
    for program in report.record.programs.iter().filter(|program| !program.settings.is_empty()) {
        let settings = program.settings.iter().map(|setting| format!("{} {}", setting.name, setting.value));
        let settings = settings.collect::<Vec<_>>().join(", ");
        page.prose(2, &format!("{} {}: {settings}.", program.program.title(), program.version));
    }
    page.prose(2, NOTE);
}

/// Returns why programs have no measured figure although others in the run have one.
fn unmeasured(report: &Report, prediction: &Prediction) -> Vec<String> {
    let is_missing = |row: &&Predicted| row.verified.is_none_or(|verified| verified.value.value.is_none());
    if prediction.rows.iter().all(|row| is_missing(&row)) {
        return Vec::new();
    }
    let record = &report.record;
    let mut programs: Vec<Program> = prediction.rows.iter().filter(is_missing).map(|row| row.what.program()).collect();
    programs.dedup();
    let why = |program: Program| {
        let is_of = |step: &&StepPlan| matches!(&step.work, Work::App(work) if work.program == program);
        let steps = || record.plan.steps.iter().filter(is_of).filter_map(|planned| record.step(&planned.name));
        let fault = steps().find(|step| !step.fault.is_empty()).map(|step| step.fault.as_str());
        let why = match fault {
            Some(fault) => fault,
            None if record.interrupted => "the run was interrupted first",
            None if steps().next().is_none() => "--verify did not include it",
            None => "its load was too short, or the disk too slow, for a figure; --full gives it more time",
        };
        format!("Rows without a measured figure for {}: {why}.", program.title())
    };
    programs.into_iter().map(why).collect()
}

/// Writes the section of the Markdown report.
fn markdown(text: &mut String, report: &Report, prediction: &Prediction) {
    *text += "### What to expect\n\n| | predicted | 95 % interval | limited by | measured | error |\n";
    *text += "|---|--:|---|---|--:|--:|\n";
    for row in &prediction.rows {
        let [what, figure, interval, bound] = cells(row);
        let [measured, error] = measured(row);
        *text += &format!("| {what} | {figure} | {interval} | {bound} | {measured} | {error} |\n");
    }
    for missing in &prediction.missing {
        *text += &format!("\nNot predicted: {}.\n", crate::table::escaped(missing));
    }
    for why in unmeasured(report, prediction) {
        *text += &format!("\n{}\n", crate::table::escaped(&why));
    }
    for said in moved(prediction).into_iter().chain(corrected(prediction)) {
        *text += &format!("\n{said}\n");
    }
    *text += &format!("\n{NOTE}\n\n");
}

/// Returns the measured value and the error of the prediction, in red if its interval does not contain the value.
fn verified(page: &Page, row: &Predicted) -> String {
    let [measured, error] = measured(row);
    let missed = row.verified.is_some_and(|verified| !verified.holds);
    let error = format!("{error:>6}");
    format!("{measured:>MEASURED$} {}", if missed { page.paint(BAD, &format!("{error} !")) } else { error })
}

fn measured(row: &Predicted) -> [String; 2] {
    let Some(verified) = &row.verified else { return ["-".to_owned(), String::new()] };
    let figure = verified.value.value.map_or_else(|| "-".to_owned(), |value| count(value, 3));
    let figure = match verified.exactness {
        Exactness::Measured => figure,
        Exactness::AtLeast => format!(">{figure}"),
        Exactness::Below => format!("<{figure}"),
    };
    [figure, verified.error.map_or_else(String::new, |error| format!("{:+.0} %", 100.0 * error))]
}

/// Returns the first predictions that differ from the later ones because the disk or the machine changed.
fn moved(prediction: &Prediction) -> Option<String> {
    let of = |row: &Predicted| {
        let (first, value) = (row.verified?.at_first?, row.value.value?);
        let ratio = first.max(f64::MIN_POSITIVE) / value.max(f64::MIN_POSITIVE);
        let has_moved = !(1.0 / MOVED..=MOVED).contains(&ratio);
        has_moved.then(|| format!("{} {}", cells(row)[0], count(first, digits_known(&row.value))))
    };
    let rows: Vec<String> = prediction.rows.iter().filter_map(of).collect();
    let figures = rows.join("; ");
    (!rows.is_empty()).then(|| {
        format!(
            "The disk or the machine changed during the run: each program is compared with the commits just before and \
             after it. The first commits alone predicted: {figures}."
        )
    })
}

/// Returns which figures were corrected by earlier results of programs on this machine.
fn corrected(prediction: &Prediction) -> Option<String> {
    let mut disks: Vec<(Program, u32)> = Vec::new();
    for row in prediction.rows.iter().filter(|row| row.disks_before > 0) {
        match disks.iter_mut().find(|(program, _)| *program == row.what.program()) {
            Some((_, most)) => *most = row.disks_before.max(*most),
            None => disks.push((row.what.program(), row.disks_before)),
        }
    }
    let programs = disks.iter().map(|(program, disks)| format!("{} ({disks})", program.title()));
    let programs = programs.collect::<Vec<_>>().join(", ");
    let what =
        "Corrected by how far predictions were off when the program itself ran on this machine (number of disks)";
    (!disks.is_empty()).then(|| format!("{what}: {programs}."))
}

/// Returns a row's cells: what, figure, interval, and what limits it.
fn cells(row: &Predicted) -> [String; 4] {
    let clients = match row.clients {
        1 if !has_clients(row.what) => String::new(),
        clients => format!(", {clients}"),
    };
    let digits = digits_known(&row.value);
    let round = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), |figure| count(figure, digits));
    let Estimate { value, low, high, .. } = row.value;
    let bound = match row.bound {
        Bound::Commits => "commits",
        Bound::Processor => "processor",
        Bound::Locks => "row locks",
    };
    let figure = if value == Some(0.0) { "none".to_owned() } else { round(value) };
    let interval = match low {
        Some(0.0) => format!("up to {}", round(high)),
        low => format!("{} to {}", round(low), round(high)),
    };
    [format!("{}{clients}", row.what.title()), figure, interval, bound.to_owned()]
}

/// Returns how many digits of a prediction are known: three where its interval is narrow, one where its ends are more
/// than a factor of three apart.
fn digits_known(value: &Estimate) -> u32 {
    match value.low.zip(value.high).map(|(low, high)| high / low) {
        Some(factor) if factor <= 1.1 => 3,
        Some(factor) if factor <= 3.0 => 2,
        _ => 1,
    }
}

/// An interval whose ends differ by more than this factor is given in words.
const IN_WORDS: f64 = 8.0;

/// Returns the interval as one would say it: `700 to 1,200`, or, if it is very wide, `hundreds to tens of thousands`.
fn spoken(row: &Predicted) -> String {
    let [_, _, interval, _] = cells(row);
    let Some((low, high)) = row.value.low.zip(row.value.high).filter(|(low, high)| *low > 0.0 && high / low > IN_WORDS)
    else {
        return interval;
    };
    let (from, to) = (magnitude(low), magnitude(high));
    if from == to { from.to_owned() } else { format!("{from} to {to}") }
}

fn magnitude(figure: f64) -> &'static str {
    match figure {
        ..10.0 => "a few",
        ..100.0 => "tens",
        ..1e3 => "hundreds",
        ..1e4 => "thousands",
        ..1e5 => "tens of thousands",
        ..1e6 => "hundreds of thousands",
        _ => "millions",
    }
}

/// Formats a figure with this many digits.
fn count(figure: f64, digits: u32) -> String {
    if figure <= 0.0 {
        return "0".to_owned();
    }
    let unit = 10f64.powf(figure.log10().floor() - f64::from(digits) + 1.0);
    let rounded = (figure / unit).round() * unit;
    if unit < 1.0 { format!("{rounded:.1}") } else { words::thousands(rounded.round() as u64) }
}

#[cfg(test)]
mod tests {
    use qd1_model::plan::program::AppWork;
    use qd1_model::prediction::Verified;
    use qd1_model::record::StepRecord;

    use super::*;

    #[test]
    fn a_prediction_has_the_digits_that_it_knows() {
        let with = |digits| [0.0, 1.234, 23.46, 1234.5, 98_765.0].map(|figure| count(figure, digits));
        assert_eq!(with(3), ["0", "1.2", "23.5", "1,230", "98,800"]);
        assert_eq!(with(1), ["0", "1", "20", "1,000", "100,000"]);
        let row = |value: f64, low: f64, high: f64| Predicted {
            what: Predicts::EtcdRate,
            clients: 1,
            value: Estimate { value: Some(value), low: Some(low), high: Some(high), ..Estimate::default() },
            bound: Bound::Commits,
            disks_before: 0,
            verified: None,
        };
        let said = |row: &Predicted| (cells(row)[1].clone(), cells(row)[2].clone(), spoken(row));
        let of =
            |figure: &str, interval: &str, spoken: &str| (figure.to_owned(), interval.to_owned(), spoken.to_owned());
        assert_eq!(said(&row(1811.0, 1720.0, 1890.0)), of("1,810", "1,720 to 1,890", "1,720 to 1,890"));
        assert_eq!(said(&row(1811.0, 1333.0, 2440.0)), of("1,800", "1,300 to 2,400", "1,300 to 2,400"));
        assert_eq!(said(&row(1811.0, 733.0, 4440.0)), of("2,000", "700 to 4,000", "700 to 4,000"));
        assert_eq!(said(&row(1533.0, 601.0, 11_000.0)), of("2,000", "600 to 10,000", "hundreds to tens of thousands"));
        assert_eq!(said(&row(0.0, 0.0, 533.0)), of("none", "up to 500", "up to 500"));
    }

    /// A "-" was in the column without an explanation.
    #[test]
    fn a_program_without_a_measured_figure_has_its_reason() {
        let value = Estimate { value: Some(100.0), ..Estimate::default() };
        let verified = Verified {
            value,
            exactness: Exactness::Measured,
            error: None,
            holds: true,
            at_first: None,
            error_at_first: None,
        };
        let row =
            |what, verified| Predicted { what, clients: 1, value, bound: Bound::Commits, disks_before: 0, verified };
        let rows = vec![row(Predicts::SqliteWalFull, Some(verified)), row(Predicts::EtcdRate, None)];
        let mut report = crate::samples::fast_nvme();
        let prediction = Prediction { rows, missing: Vec::new() };
        let reason = |report: &Report| unmeasured(report, &prediction).concat();
        assert_eq!(reason(&report), "Rows without a measured figure for etcd: --verify did not include it.");
        let work = Work::App(AppWork { program: Program::Etcd, clients: 1, rate: None });
        let planned = StepPlan { name: "etcd-put".into(), work, ..report.record.plan.steps[0].clone() };
        report.record.plan.steps.push(planned);
        report.record.steps.push(StepRecord::failed("etcd-put", "etcd did not answer".into(), 0));
        assert!(reason(&report).contains("etcd did not answer"));
        let none = Prediction { rows: vec![row(Predicts::EtcdRate, None)], missing: Vec::new() };
        assert!(unmeasured(&report, &none).is_empty(), "nothing was verified");
    }

    /// A run that verified MariaDB began with "Calculated, not run", and with PostgreSQL.
    #[test]
    fn what_was_run_comes_first() {
        let of = |value: f64| Estimate {
            value: Some(value),
            low: Some(value / 2.0),
            high: Some(value * 2.0),
            ..Estimate::default()
        };
        let row = |what, clients, verified| Predicted {
            what,
            clients,
            value: of(1000.0),
            bound: Bound::Commits,
            disks_before: 0,
            verified,
        };
        let verified = |measured, holds| {
            let (value, exactness, error) = (of(measured), Exactness::Measured, Some(1000.0 / measured - 1.0));
            Some(Verified { value, exactness, error, holds, at_first: None, error_at_first: None })
        };
        let rows = vec![
            row(Predicts::PostgresTps, 10, None),
            row(Predicts::MysqlTps, 10, verified(1600.0, true)),
            row(Predicts::MysqlTps, 100, verified(300.0, false)),
        ];
        let prediction = Prediction { rows, missing: Vec::new() };
        assert_eq!(
            sentence(&prediction),
            "Run: MySQL/MariaDB transactions/s with 10 clients: 1,600 (predicted 1,000, 500 to 2,000). 1 of 2 measured figures lie \
             in the predicted intervals."
        );
        let mut page = Page::new(&crate::page::Style::plain(80));
        brief(&mut page, &prediction);
        let lines: Vec<&str> = page.text.lines().collect();
        assert!(lines[1].contains("MariaDB transactions/s, 10 ") && lines[3].contains("PostgreSQL"), "{}", page.text);
        assert!(lines[2].ends_with('!') && page.text.contains("!: outside the predicted interval."), "{}", page.text);
    }

    #[test]
    fn a_row_marks_a_measured_value_that_is_only_a_bound() {
        let verified = |exactness| {
            let value = Estimate { value: Some(100.0), ..Estimate::default() };
            Some(Verified { value, exactness, error: Some(-0.2), holds: true, at_first: None, error_at_first: None })
        };
        let value = Estimate { value: Some(80.0), low: Some(60.0), high: Some(110.0), ..Estimate::default() };
        let mut row = Predicted {
            what: Predicts::EtcdRate,
            clients: 1,
            value,
            bound: Bound::Commits,
            disks_before: 0,
            verified: None,
        };
        assert_eq!(measured(&row)[0], "-");
        row.verified = verified(Exactness::AtLeast);
        assert_eq!(measured(&row), [">100", "-20 %"].map(str::to_owned));
        assert_eq!(cells(&row)[..3], ["etcd puts/s, p99 at 10 ms", "80", "60 to 110"].map(str::to_owned));
    }
}

//! Sweeps: one job with lists of values becomes many steps.
//!
//! `sweep = { bs = ["4k", "64k"], iodepth = [1, 32] }` runs every combination, in the order of the
//! text: the first key varies slowest, the last one fastest, and each list starts at its beginning.

use qd1_model::order::Order as _;
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use qd1_model::spec::Job;

use super::keys::{self, Fault};

/// Maximum number of steps: more would take too long to be intended.
const STEPS_MAX: usize = 1000;

/// One step of a job: the job with its swept values filled in, and the table it was read from.
#[derive(Clone, Debug)]
pub(super) struct Step<'t> {
    pub(super) job: Job,
    pub(super) table: DeTable<'t>,
}

/// A key of the sweep with its values.
struct Axis<'t> {
    key: Spanned<std::borrow::Cow<'t, str>>,
    values: Vec<Spanned<DeValue<'t>>>,
}

/// Returns the steps of the job in `table` (without its criteria), which is at `at` in `text`.
pub(super) fn expand<'t>(
    mut table: DeTable<'t>,
    at: std::ops::Range<usize>,
    text: &str,
) -> Result<Vec<Step<'t>>, Fault> {
    let axes = match table.remove("sweep") {
        Some(sweep) => axes(&table, sweep)?,
        None => Vec::new(),
    };
    let count: usize = axes.iter().map(|axis| axis.values.len()).product();
    if count > STEPS_MAX {
        return Err(Fault::new(at, format!("the sweep has {count} steps; the maximum is {STEPS_MAX}")));
    }
    (0..count)
        .map(|number| {
            let mut table = table.clone();
            let mut taken = Vec::new();
            let mut rest = number;
            // The last axis varies fastest.
            for axis in axes.iter().rev() {
                let value = &axis.values[rest % axis.values.len()];
                rest /= axis.values.len();
                taken.insert(0, (axis.key.get_ref().to_string(), written(value, text)));
                table.insert(axis.key.clone(), value.clone());
            }
            let table_at = Spanned::new(at.clone(), DeValue::Table(table.clone()));
            let mut job = Job::deserialize(ValueDeserializer::from(table_at))?;
            job.name = name(&job.name, &taken);
            job.title = job.title.map(|title| filled(&title, &taken));
            let fault = |message: String| Fault::new(at.clone(), message);
            check_name(&job.name).map_err(fault)?;
            Ok(Step { job, table })
        })
        .collect()
}

/// Returns the lists of a sweep in the order of the text.
fn axes<'t>(job: &DeTable<'t>, sweep: Spanned<DeValue<'t>>) -> Result<Vec<Axis<'t>>, Fault> {
    let at = sweep.span();
    let DeValue::Table(sweep) = sweep.into_inner() else {
        return Err(Fault::new(
            at,
            "sweep must be a table of lists, such as { bs = [\"4k\", \"64k\"], iodepth = [1, 32] }",
        ));
    };
    let sweepable: Vec<&str> = keys::JOB.iter().copied().filter(|key| !keys::NOT_SWEPT.contains(key)).collect();
    keys::check(&sweep, &sweepable, "sweep")?;
    let mut axes = Vec::new();
    for (key, value) in sweep {
        let (name, span) = (key.get_ref().clone(), value.span());
        if job.contains_key(name.as_ref()) {
            return Err(Fault::new(key.span(), format!("{name} is set twice, in the job and in its sweep")));
        }
        let values: Vec<_> = match value.into_inner() {
            DeValue::Array(list) => list.iter().cloned().collect(),
            _ => Vec::new(),
        };
        let plain = |value: &Spanned<DeValue<'_>>| !value.get_ref().is_table() && !value.get_ref().is_array();
        if values.is_empty() || !values.iter().all(plain) {
            return Err(Fault::new(span, format!("{name} in sweep must be a list of values, such as [1, 32]")));
        }
        axes.push(Axis { key, values });
    }
    axes.order_by_key(|axis| axis.key.span().start);
    Ok(axes)
}

/// Returns a value as written in the file, without quotes.
pub(super) fn written(value: &Spanned<DeValue<'_>>, text: &str) -> String {
    match value.get_ref() {
        DeValue::String(string) => string.to_string(),
        _ => text.get(value.span()).unwrap_or_default().trim().to_owned(),
    }
}

/// Returns the step's name: the job's with its `{key}`s filled in or, if it has none, with the swept values appended.
fn name(name: &str, taken: &[(String, String)]) -> String {
    if taken.is_empty() || taken.iter().any(|(key, _)| name.contains(&format!("{{{key}}}"))) {
        return filled(name, taken);
    }
    let short = |(key, value): &(String, String)| match key.as_str() {
        "rw" | "bs" | "sync" | "file" | "ioengine" => value.clone(),
        "iodepth" => format!("qd{value}"),
        "numjobs" => format!("j{value}"),
        "rwmixread" => format!("r{value}"),
        "direct" => if value == "true" { "direct" } else { "buffered" }.to_owned(),
        _ => format!("{key}{value}"),
    };
    std::iter::once(name.to_owned()).chain(taken.iter().map(short)).collect::<Vec<_>>().join("-")
}

fn filled(text: &str, taken: &[(String, String)]) -> String {
    taken.iter().fold(text.to_owned(), |text, (key, value)| text.replace(&format!("{{{key}}}"), value))
}

/// Checks that a name can be passed to `--only` and fits on one line.
fn check_name(name: &str) -> Result<(), String> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || ",*{}".contains(c);
    match name.chars().find(|c| bad(*c)) {
        _ if name.is_empty() => Err("a step needs a non-empty name".to_owned()),
        Some(c) => Err(format!(
            "{name:?} cannot be a step's name because it contains {c:?}; {{key}} is replaced only for a swept key"
        )),
        None => Ok(()),
    }
}

//! Parses a suite. What TOML parsing alone does not check (unknown keys, sweeps, criteria) is checked here, so that
//! one clear message names the line.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use qd1_model::spec::{PerEffort, Span, Suite};
use qd1_model::{Bytes, Subject};

use super::keys::{self, Fault};
use super::{axes, criteria};

/// The keys before the jobs.
#[derive(Deserialize)]
struct Head {
    name: String,
    subject: Option<Answer>,
    title: Option<String>,
    #[serde(default)]
    source: String,
    size: Option<PerEffort<Bytes>>,
    prepare: Option<PerEffort<Span>>,
}

/// What a suite answers besides its own criteria: a built-in suite, and any copy of it, gets the report of its command.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Check,
    Identify,
    Predict,
}

impl From<Answer> for Subject {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Check => Self::Check,
            Answer::Identify => Self::Identify,
            Answer::Predict => Self::Predict,
        }
    }
}

/// Defaults, as in `check`.
const SIZE: PerEffort<Bytes> = PerEffort { quick: Bytes::mib(256), default: Bytes::gib(1), full: Bytes::gib(4) };
const PREPARE: PerEffort<Span> =
    PerEffort { quick: Span(2_000_000_000), default: Span(12_000_000_000), full: Span(90_000_000_000) };

/// Reads a suite.
pub(super) fn suite(text: &str) -> Result<Suite, Fault> {
    let mut root = DeTable::parse(text)?.into_inner();
    keys::check(&root, keys::SUITE, "the suite")?;
    for key in ["size", "prepare"] {
        check_effort(&root, key)?;
    }
    let jobs = tables(root.remove("job"), "job")?;
    let Head { name, subject, title, source, size, prepare } = read(root, 0..0)?;
    if name.is_empty() || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Fault::new(0..0, format!("a suite's name must be one word, not {name:?}")));
    }
    if jobs.is_empty() {
        return Err(Fault::new(0..0, "there is no [[job]], so there is nothing to run"));
    }
    let mut suite = Suite {
        title: title.unwrap_or_else(|| name.clone()),
        name,
        subject: subject.map_or(Subject::Suite, Subject::from),
        source,
        size: size.unwrap_or(SIZE),
        prepare: prepare.unwrap_or(PREPARE),
        job: Vec::new(),
        criteria: Vec::new(),
        sweep: None,
    };
    for (table, at) in jobs {
        add_job(&mut suite, table, at, text)?;
    }
    Ok(suite)
}

/// Adds the steps of one `[[job]]` and their criteria.
fn add_job(suite: &mut Suite, mut table: DeTable<'_>, at: Range<usize>, text: &str) -> Result<(), Fault> {
    keys::check(&table, keys::JOB, "[[job]]")?;
    check_effort(&table, "runtime")?;
    check_effort(&table, "visits")?;
    if let Some(files) = table.get("files").and_then(|files| files.get_ref().as_table()) {
        keys::check(files, keys::FILES, "files")?;
    }
    let criteria = match table.remove("criterion") {
        None => Vec::new(),
        Some(value) => match value.get_ref().as_array() {
            Some(list) => list.iter().cloned().collect(),
            None => {
                return Err(Fault::new(value.span(), "criterion must be a list; start each with [[job.criterion]]"));
            }
        },
    };
    let steps = axes::expand(table, at.clone(), text)?;
    for step in &steps {
        let name = &step.job.name;
        if suite.job.iter().any(|job| job.name == *name) {
            return Err(Fault::new(at, format!("two steps are called {name:?}; give each [[job]] its own name")));
        }
        if step.job.rw.is_some() == step.job.files.is_some() {
            return Err(Fault::new(at, format!("{name} needs either rw, such as rw = \"randread\", or files")));
        }
        suite.job.push(step.job.clone());
    }
    for criterion in &criteria {
        let spread = criteria::spread(criterion, &steps, &suite.source, text)?;
        debug_assert!(
            spread.iter().all(|one| steps.iter().any(|step| step.job.name == one.step)),
            "a criterion judges only steps of its own job"
        );
        suite.criteria.extend(spread);
    }
    Ok(())
}

/// Returns the tables of `[[NAME]]` with their positions.
fn tables<'t>(value: Option<Spanned<DeValue<'t>>>, name: &str) -> Result<Vec<(DeTable<'t>, Range<usize>)>, Fault> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let at = value.span();
    let wrong = |at| Fault::new(at, format!("{name} must be a list of tables; start each one with [[{name}]]"));
    let DeValue::Array(list) = value.into_inner() else { return Err(wrong(at)) };
    list.iter()
        .map(|one| match one.get_ref() {
            DeValue::Table(table) => Ok((table.clone(), one.span())),
            _ => Err(wrong(one.span())),
        })
        .collect()
}

fn check_effort(table: &DeTable<'_>, key: &str) -> Result<(), Fault> {
    match table.get(key).and_then(|value| value.get_ref().as_table()) {
        Some(efforts) => keys::check(efforts, keys::EFFORT, key),
        None => Ok(()),
    }
}

fn read<'t, T: Deserialize<'t>>(table: DeTable<'t>, at: Range<usize>) -> Result<T, Fault> {
    Ok(T::deserialize(ValueDeserializer::from(Spanned::new(at, DeValue::Table(table))))?)
}

//! The runs of a file as they are found, and the one place where they are limited and checked, whatever their format.
//!
//! A comparison matches every step with those of every other run, so a small file with many jobs can take minutes and
//! gigabytes; and a text can contain any number.

use std::collections::HashMap;
use std::fmt;

use qd1_model::Estimate;
use qd1_model::measured::{Measured, MeasuredStep};

use crate::figures::is_plausible;

/// Maximum number of runs in a file.
const RUNS_MAX: usize = 2000;
/// Maximum number of steps in a run, and in all runs of a file.
pub(crate) const STEPS_MAX: usize = 1000;
pub(crate) const STEPS_OF_ALL_MAX: usize = 20_000;
/// Maximum number of candidate lines that are examined.
pub(crate) const LINES_MAX: usize = 1_000_000;
/// Maximum length of a step's name, and of any other text, in bytes; longer texts are truncated.
const NAME_MAX: usize = 256;
const TEXT_MAX: usize = 256;
/// The years 2000 to 2200, ns since the Unix epoch: a clock that is set is within these.
const STARTS_NS: std::ops::Range<u64> = 946_684_800_000_000_000..7_258_118_400_000_000_000;

/// A file exceeds a limit.
#[derive(Debug)]
pub(crate) enum TooMuch {
    Runs,
    Steps,
    StepsOfAll,
    Name,
    Values,
    Lines,
}

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs => write!(f, "has more than {RUNS_MAX} runs; give only some of them"),
            Self::Steps => write!(
                f,
                "has a run with more than {STEPS_MAX} steps, too many to compare; fio's --group_reporting merges the \
                 processes of a job into one"
            ),
            Self::StepsOfAll => {
                write!(f, "has more than {STEPS_OF_ALL_MAX} steps in all runs together; give only some of the runs")
            }
            Self::Lines => f.write_str("has too many lines that are not part of a result; give only the result"),
            Self::Name => write!(f, "has a step whose name is longer than {NAME_MAX} bytes; shorten it"),
            Self::Values => f.write_str("has a JSON document with too many values; give a result with fewer jobs"),
        }
    }
}

/// The runs found so far.
#[derive(Default)]
pub(crate) struct Gathered {
    runs: Vec<Measured>,
    /// Positions of the last run's steps, by name.
    places: HashMap<String, usize>,
    steps: usize,
}

impl Gathered {
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Begins another run.
    pub(crate) fn begin(&mut self, mut run: Measured) -> Result<(), TooMuch> {
        if self.runs.len() == RUNS_MAX {
            return Err(TooMuch::Runs);
        }
        let steps = std::mem::take(&mut run.steps);
        self.runs.push(run);
        self.places.clear();
        steps.into_iter().try_for_each(|step| self.add(step))
    }

    /// The run to which steps are added.
    pub(crate) fn last(&mut self) -> Option<&mut Measured> {
        self.runs.last_mut()
    }

    /// Adds a step to the last run.
    pub(crate) fn add(&mut self, step: MeasuredStep) -> Result<(), TooMuch> {
        let Some(run) = self.runs.last_mut() else { return Ok(()) };
        if step.name.len() > NAME_MAX {
            return Err(TooMuch::Name);
        }
        if run.steps.len() == STEPS_MAX {
            return Err(TooMuch::Steps);
        }
        self.steps += 1;
        if self.steps > STEPS_OF_ALL_MAX {
            return Err(TooMuch::StepsOfAll);
        }
        self.places.entry(step.name.clone()).or_insert(run.steps.len());
        run.steps.push(step);
        Ok(())
    }

    /// Replaces the step of the same name in the last run, or adds the step.
    pub(crate) fn replace(&mut self, step: MeasuredStep) -> Result<(), TooMuch> {
        let known = self.places.get(&step.name).copied();
        match self.runs.last_mut().and_then(|run| run.steps.get_mut(known?)) {
            Some(earlier) => *earlier = step,
            None => self.add(step)?,
        }
        Ok(())
    }

    /// Returns the runs, with only what can be a figure.
    pub(crate) fn finish(mut self) -> Vec<Measured> {
        self.runs.iter_mut().for_each(check);
        self.runs
    }
}

/// Adds a sentence unless it is already there.
pub(crate) fn note(notes: &mut Vec<String>, text: &str) {
    if !notes.iter().any(|known| known == text) {
        notes.push(text.to_owned());
    }
}

/// The beginning of a text that may have any length.
pub(crate) fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX)]
}

/// Removes from a run what cannot be true.
fn check(run: &mut Measured) {
    run.started_unix_ns = run.started_unix_ns.filter(|start| STARTS_NS.contains(start));
    run.tool.truncate(short(&run.tool).len());
    run.circumstances.iter_mut().for_each(|known| known.value.truncate(short(&known.value).len()));
    let mut left_out = 0;
    run.steps.retain_mut(|step| {
        let had_figures = !step.streams.is_empty();
        step.fault.truncate(short(&step.fault).len());
        step.engine.truncate(short(&step.engine).len());
        for stream in &mut step.streams {
            let before = stream.figures.len();
            stream.figures.retain_mut(|(_, figure)| is_possible(figure));
            left_out += before - stream.figures.len();
        }
        step.streams.retain(|stream| !stream.figures.is_empty());
        !had_figures || !step.streams.is_empty()
    });
    if left_out > 0 {
        run.missing.push(format!(
            "{left_out} of its numbers were ignored as impossible (negative, not finite or far too large)"
        ));
    }
}

/// Whether a figure is possible; an impossible interval is removed.
fn is_possible(figure: &mut Estimate) -> bool {
    if ![figure.low, figure.high].into_iter().flatten().all(is_plausible) {
        (figure.low, figure.high) = (None, None);
    }
    figure.value.is_none_or(is_plausible)
}

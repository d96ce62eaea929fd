//! Files of `history export`: a line of JSON for each run; and what else a file of runs may be.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use qd1_model::record::StepRecord;
use qd1_model::room::Room;
use qd1_model::{Problem, Record};
use qd1_store::from_json;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::parallel;
use crate::stored::{Line as Text, Stored};

/// The error for a file that is something else.
pub const NO_RUN: &str = "not a run of qd1; give a file written by `qd1 history export` or --json";

/// A run as a line holds it.
#[derive(Serialize)]
pub struct Line<'a> {
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    /// Tags that somebody gave it.
    pub tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    /// A note that somebody made on it.
    pub note: Option<&'a str>,
    /// The run.
    pub record: &'a Record,
}

/// A run from a file, with its tags and its note.
pub struct Exported {
    /// The run.
    pub record: Record,
    /// Tags that somebody gave it.
    pub tags: Vec<String>,
    /// A note that somebody made on it.
    pub note: Option<String>,
}

impl Exported {
    /// A run without tags and note.
    pub const fn alone(record: Record) -> Self {
        Self { record, tags: Vec::new(), note: None }
    }
}

/// A run with more intervals than this is long: ten times a check's.
const INTERVALS_LONG: usize = 20_000;
/// Most intervals of all runs of an export (two days without a break), with one more for each of these bytes of the
/// file. Those of a check take 40 bytes or more, however they are packed, but less than one if they are all alike.
const INTERVALS_MAX: usize = 2_000_000;
const BYTES_PER_INTERVAL: usize = 16;
/// The same if all runs are kept in memory, at 200 bytes for each interval.
const INTERVALS_AT_ONCE_MAX: usize = 1_000_000;
/// Most steps of a run that is analysed, as many as the longest sweep has. All runs of a file together may have as
/// many, with one more for each of these bytes: a step of two seconds takes four times as many, compressed. Each step
/// takes time, even if all are alike.
const STEPS_MAX: usize = 5_000;
const BYTES_PER_STEP: usize = 2_000;
/// A step whose visits alternate with those of others counts for at least this many: each is compared with all others.
const VISITED_WEIGHT: usize = 12;
/// The same if runs are kept but not analysed: in a file of many runs, a step of 50 ms takes twice as many.
const BYTES_PER_KEPT_STEP: usize = 100;
/// Most bytes of the tags of a run that are read: a list of empty tags takes ten times the memory of its text.
const TAGS_MAX: usize = 64 << 10;

#[derive(Deserialize)]
struct Read<'a> {
    #[serde(borrow, default)]
    tags: Option<&'a RawValue>,
    #[serde(default)]
    note: Option<String>,
    #[serde(borrow)]
    record: &'a RawValue,
}

fn intervals(record: &Record) -> usize {
    record.steps.iter().map(|step| step.intervals.len()).sum()
}

/// How many steps the steps of a run count for.
fn weight(run: &Record) -> usize {
    let is_visited = |step: &&StepRecord| step.intervals.windows(2).any(|pair| !pair[0].goes_on(&pair[1]));
    let visited = run.steps.iter().filter(is_visited).count();
    run.steps.len() - visited + visited * visited.max(VISITED_WEIGHT)
}

/// What the remaining runs of a file may still have.
struct Left {
    intervals: usize,
    steps: usize,
    /// The steps that each run may have.
    steps_of_run: usize,
    room: Room,
    /// Whether all runs are kept and share the room; otherwise each has all of it.
    is_at_once: bool,
}

impl Left {
    /// What a file of this many bytes may have.
    fn of(size: usize) -> Self {
        Self {
            intervals: INTERVALS_MAX.saturating_add(size / BYTES_PER_INTERVAL),
            steps: STEPS_MAX.saturating_add(size / BYTES_PER_STEP),
            steps_of_run: STEPS_MAX,
            room: Room::of_run(size),
            is_at_once: false,
        }
    }

    /// Reads a run, and subtracts what it has.
    fn read(&mut self, json: &[u8]) -> Result<Option<Record>> {
        let mut room = self.room;
        let record = from_json(json, if self.is_at_once { &mut self.room } else { &mut room })?;
        record.iter().try_for_each(|run| self.take(run))?;
        Ok(record)
    }

    /// Subtracts what a run has.
    fn take(&mut self, run: &Record) -> Result<(), Problem> {
        let of = |left: usize, taken: usize, what: &str| {
            let more =
                || Problem::usage(format!("the runs up to this one have too many {what}; give only some of them"));
            left.checked_sub(taken).ok_or_else(more)
        };
        self.intervals = of(self.intervals, intervals(run), "intervals")?;
        let steps = weight(run);
        self.steps = of(self.steps, steps, "steps")?;
        if steps > self.steps_of_run {
            return Err(Problem::usage(
                "the run has too many steps, or too many steps with visits, to be analysed; leave it out",
            ));
        }
        Ok(())
    }
}

/// What a file holds.
pub enum Content {
    /// One run of qd1, of --json or a record alone.
    Run(Box<Record>),
    /// Runs of an export, each read on demand: many identical lines take little room, but their runs take a lot.
    Export(Export),
    /// The text of something else.
    Other(Vec<u8>),
}

/// An export.
pub struct Export(Stored);

impl Export {
    /// Returns true if it has more than `most` lines; one that cannot be unpacked counts as a line.
    pub(crate) fn has_more_than(&self, most: usize) -> bool {
        self.0.lines().nth(most).is_some()
    }

    /// Returns its runs one by one. A line that is not a run is an error with its number, and so are too many
    /// intervals. The runs are only kept, so they may have as many steps as any history.
    pub fn runs(&self) -> impl Iterator<Item = Result<Exported>> {
        let steps = STEPS_MAX.saturating_add(self.0.size() / BYTES_PER_KEPT_STEP);
        self.runs_within(Left { steps, steps_of_run: usize::MAX, ..self.most() })
    }

    fn runs_within(&self, mut left: Left) -> impl Iterator<Item = Result<Exported>> {
        self.0.lines().map(move |line| self.run(line, &mut left))
    }

    /// What all of its runs may have.
    fn most(&self) -> Left {
        Left::of(self.0.size())
    }

    /// Returns all of its runs.
    ///
    /// # Errors
    /// When a line is not a run, or the runs are too large together.
    pub fn all(&self) -> Result<Vec<Exported>> {
        self.runs_within(Left { intervals: INTERVALS_AT_ONCE_MAX, is_at_once: true, ..self.most() }).collect()
    }

    /// Reads the run of a line, and subtracts what it has from what is left.
    fn run(&self, line: Result<Text<'_>, Problem>, left: &mut Left) -> Result<Exported> {
        let (at, line) = line?;
        exported(&line, left).with_context(|| format!("line {at}"))
    }

    /// Returns what `of` makes of each of its runs, in their order: hundreds take seconds, so all processors share the
    /// work. A run with very many intervals takes all the memory that is allowed for one, so it is processed alone.
    ///
    /// # Errors
    /// The first line that is not a run, or the first error of `of`.
    pub fn each<T: Send>(&self, of: impl Fn(Exported) -> Result<T> + Sync) -> Result<Vec<T>> {
        let lines = Mutex::new((self.0.lines().enumerate(), self.most()));
        parallel::all(|| {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            let (number, line) = lines.0.next()?;
            let run = self.run(line, &mut lines.1);
            let is_long = run.as_ref().is_ok_and(|run| intervals(&run.record) > INTERVALS_LONG);
            let alone = is_long.then_some(lines);
            let one = run.and_then(&of);
            drop(alone);
            Some((number, one))
        })
    }
}

/// Finds out what a file holds.
///
/// # Errors
/// When it cannot be unpacked, or the run in it is damaged.
pub fn content(stored: Stored) -> Result<Content> {
    let first = stored.lines().next();
    if let Some(Ok((_, line))) = first.filter(|line| line.as_ref().is_ok_and(|(_, line)| is_export(line))) {
        // A report of one line looks like an export, except for its name.
        let only = if stored.lines().nth(1).is_some() {
            None
        } else {
            Left::of(stored.size()).read(without_mark(&line)).with_context(|| stored.name().to_owned())?
        };
        drop(line);
        return Ok(only.map_or_else(|| Content::Export(Export(stored)), |record| Content::Run(Box::new(record))));
    }
    let (name, size) = (stored.name().to_owned(), stored.size());
    let text = stored.whole()?;
    let text = text.strip_prefix(MARK).map(<[u8]>::to_vec).unwrap_or(text);
    let record = Left::of(size).read(&text).with_context(|| name)?;
    Ok(record.map_or(Content::Other(text), |record| Content::Run(Box::new(record))))
}

/// The byte order mark that some editors write before a text.
const MARK: &[u8] = b"\xef\xbb\xbf";

fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(MARK).unwrap_or(line)
}

fn is_export(line: &[u8]) -> bool {
    serde_json::from_slice::<Read<'_>>(without_mark(line)).is_ok()
}

fn exported(line: &[u8], left: &mut Left) -> Result<Exported> {
    let none = || Problem::usage(NO_RUN);
    let Read { tags, note, record } = serde_json::from_slice(without_mark(line)).map_err(|_| none())?;
    let record = left.read(record.get().as_bytes())?.ok_or_else(none)?;
    let tags = tags.map(RawValue::get).filter(|tags| tags.len() <= TAGS_MAX);
    let tags = tags.map_or(Ok(Vec::new()), serde_json::from_str).map_err(|_| none())?;
    Ok(Exported { record, tags, note })
}

#[cfg(test)]
mod tests {
    use qd1_model::record::Interval;

    use super::*;

    fn export(lines: &[String]) -> Export {
        Export(Stored::of("file", lines.join("\n").into_bytes()))
    }

    #[test]
    fn each_run_is_taken_once_in_its_order_and_the_first_error_counts() {
        let line = |number: u64| {
            let mut record = qd1_report::samples::long_record();
            record.id = format!("{number:012x}");
            serde_json::to_string(&Line { tags: &[], note: None, record: &record }).unwrap()
        };
        let mut lines: Vec<String> = (0..9).map(line).collect();
        let ids = |export: &Export| export.each(|run| Ok(run.record.id));
        let expected: Vec<String> = (0..9).map(|number| format!("{number:012x}")).collect();
        assert_eq!(ids(&export(&lines)).unwrap(), expected);
        assert!(export(&lines).has_more_than(8) && !export(&lines).has_more_than(9));
        (lines[3], lines[6]) = ("{}".to_owned(), "{}".to_owned());
        assert_eq!(ids(&export(&lines)).unwrap_err().to_string(), "line 4");
        let each = intervals(&qd1_report::samples::long_record());
        let steps = weight(&qd1_report::samples::long_record());
        let within = |intervals: usize, steps: usize| {
            let runs =
                export(&lines[..3]).runs_within(Left { intervals, steps, ..Left::of(0) }).collect::<Result<Vec<_>>>();
            runs.map(drop).map_err(|error| format!("{error:#}"))
        };
        assert!(each > 0 && steps > 0);
        assert_eq!(within(3 * each, 3 * steps), Ok(()));
        let message =
            |what: &str| Err(format!("line 3: the runs up to this one have too many {what}; give only some of them"));
        assert_eq!(within(3 * each - 1, 3 * steps), message("intervals"));
        assert_eq!(within(3 * each, 3 * steps - 1), message("steps"));
        // A single run is a file like any other.
        let alone = |steps: usize| {
            let record = serde_json::to_vec(&qd1_report::samples::long_record()).unwrap();
            Left { steps, ..Left::of(0) }.read(&record).map(drop).map_err(|error| error.to_string())
        };
        assert!(alone(steps).is_ok() && alone(steps - 1).is_err_and(|error| error.contains("too many steps")));
        // Each of 6,000 planned steps was looked up among all, and each of 150 visited ones compared with all others.
        let of_run = |steps: Vec<StepRecord>| {
            let record = Record { steps, ..qd1_report::samples::long_record() };
            let json = serde_json::to_vec(&record).unwrap();
            Left { steps: usize::MAX, ..Left::of(0) }.read(&json).map(drop).map_err(|error| error.to_string())
        };
        let empty = |number: usize| StepRecord::failed(&number.to_string(), String::new(), 0);
        let of_visits = |number: usize| {
            let intervals = (0..2).map(|visit| Interval { start_ns: visit * 1000, length_ns: 10, streams: Vec::new() });
            StepRecord { intervals: intervals.collect(), ..empty(number) }
        };
        for (fits, does_not) in [
            ((0..STEPS_MAX).map(empty).collect(), (0..=STEPS_MAX).map(empty).collect::<Vec<_>>()),
            ((0..70).map(of_visits).collect(), (0..71).map(of_visits).collect()),
        ] {
            assert_eq!(of_run(fits), Ok(()));
            assert!(of_run(does_not).is_err_and(|error| error.contains("to be analysed")));
        }
        // Runs that are kept together share the room for one.
        let json = serde_json::to_vec(&qd1_report::samples::long_record()).unwrap();
        let mut left = Left { is_at_once: true, ..Left::of(0) };
        let read = (0..1000).take_while(|_| left.read(&json).is_ok()).count();
        assert!((16..1000).contains(&read), "{read}");
        let mut left = Left::of(0);
        left.steps = usize::MAX;
        assert!((0..=read).all(|_| left.read(&json).is_ok()), "of others each has it");
        let refused = export(&lines[..3]).each(|_| anyhow::bail!("refused")).map(|_: Vec<()>| ());
        assert_eq!(refused.unwrap_err().to_string(), "refused");
    }
}

//! The one table of fio's options: every name that fio 3.33 knows, and what qd1 does with it.
//!
//! The row of an option that takes effect holds the field of [`FioJob`] it sets; its default, its help and its manual
//! page entry come from the same row. The row of a refused option holds the reason, and the values that ask for what
//! happens here anyway, so that a job may spell out fio's defaults.

mod buffers;
mod files;
mod io;
mod life;
mod pace;
mod refused;
mod report;
mod shape;
mod verify;

use std::time::Duration;

use crate::job::FioJob;
use crate::types::{Amount, KbBase};
use crate::value::{self, Problem, TimeUnit};
use qd1_model::suggest;

/// The field of a job that an option sets.
pub type Field<T> = fn(&mut FioJob) -> &mut T;
/// The words an option accepts, each with what it does.
pub type Words = fn() -> Vec<(&'static str, &'static str)>;
/// How an option with its own rules is set. If the option may be bare, a missing value is an empty text.
pub type Set = fn(&mut FioJob, &str, KbBase) -> Result<(), Fault>;

/// Why a value was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The value is wrong.
    Problem(Problem),
    /// fio would accept the value, qd1 does not.
    Refused(String),
    /// The value is missing.
    Missing,
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// What values an option takes, and the field they set.
#[derive(Clone, Copy, Debug)]
pub enum ValueKind {
    /// Any text.
    Text(Field<String>),
    /// 0 or 1.
    Bool(Field<bool>),
    /// Bare, or a number, where 0 means no.
    Flag(Field<bool>),
    /// A count.
    Count {
        /// Minimum.
        min: u32,
        /// Maximum.
        max: u32,
        /// The field it sets.
        field: Field<u32>,
    },
    /// Counts for reads, writes and trims.
    Counts {
        /// Minimum.
        min: u32,
        /// Maximum.
        max: u32,
        /// The fields they set.
        field: Field<[u32; 3]>,
    },
    /// A size or a large count.
    Size {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
        /// The field it sets.
        field: Field<u64>,
    },
    /// Sizes for reads, writes and trims.
    Sizes {
        /// Minimum.
        min: u64,
        /// The fields they set.
        field: Field<[u64; 3]>,
    },
    /// A size or a percentage.
    Amount(Field<Amount>),
    /// A length of time.
    Time {
        /// What a plain number means.
        unit: TimeUnit,
        /// The field it sets.
        field: Field<Duration>,
    },
    /// One of some words.
    Choice {
        /// The words.
        words: Words,
        /// How one is set.
        set: Set,
    },
    /// A value with its own rules.
    Own {
        /// What it takes, to follow "it takes" or "expected".
        accepts: &'static str,
        /// Whether it may be bare.
        bare: bool,
        /// How it is set.
        set: Set,
    },
    /// For a refused option: what it takes in fio.
    Foreign(&'static str),
}

/// Whether an option takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// As in fio.
    Supported,
    /// The option is accepted, but differs from fio in this way.
    Differs(&'static str),
    /// The option is an error, for this reason.
    Refused(&'static str),
    /// fio does not have the option.
    Ours,
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct FioOption {
    /// fio's main name.
    pub name: &'static str,
    /// Its other names.
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub kind: ValueKind,
    /// The value if a job does not give it; `None` stands for zero, no or nothing.
    pub default: Option<&'static str>,
    /// What qd1 does with it.
    pub support: Support,
    /// What it is for, in one line.
    pub help: &'static str,
    /// The engines that have it; empty where all jobs do.
    pub engines: &'static [&'static str],
    /// Values that behave as in fio: for an option that differs, they give no note; for a refused one, they are
    /// accepted.
    pub plain: &'static [&'static str],
    /// Whether the note about the difference is suppressed: it cannot change any figure, and the manual describes it.
    pub quiet: bool,
}

/// Options that belong together.
#[derive(Debug)]
pub struct Category {
    /// Title of its section in the manual.
    pub title: &'static str,
    /// Its options.
    pub options: &'static [FioOption],
}

/// The table.
pub static CATEGORIES: &[Category] = &[
    Category { title: "Files and sizes", options: files::OPTIONS },
    Category { title: "What is read and written", options: shape::OPTIONS },
    Category { title: "Engine and queue", options: io::OPTIONS },
    Category { title: "Rates and latency limits", options: pace::OPTIONS },
    Category { title: "Jobs, time and order", options: life::OPTIONS },
    Category { title: "Durability and data", options: buffers::OPTIONS },
    Category { title: "Verification", options: verify::OPTIONS },
    Category { title: "Reports and logs", options: report::OPTIONS },
    Category { title: "Not in qd1", options: refused::OPTIONS },
];

/// Every option.
pub fn all() -> impl Iterator<Item = &'static FioOption> + Clone {
    CATEGORIES.iter().flat_map(|category| category.options)
}

/// The option with this name or alias.
pub fn find(name: &str) -> Option<&'static FioOption> {
    all().find(|option| option.name == name || option.aliases.contains(&name))
}

/// Returns the known name most similar to this unknown one, preferring supported options.
pub fn nearest(name: &str) -> Option<&'static str> {
    let names = |here: bool| {
        let of = all().filter(move |option| option.is_here() == here);
        of.flat_map(|option| std::iter::once(option.name).chain(option.aliases.iter().copied()))
    };
    suggest::nearest(name, names(true)).or_else(|| suggest::nearest(name, names(false)))
}

impl FioOption {
    const fn new(name: &'static str, help: &'static str, kind: ValueKind) -> Self {
        let support = Support::Supported;
        Self { name, aliases: &[], kind, default: None, support, help, engines: &[], plain: &[], quiet: false }
    }

    const fn refused(name: &'static str, takes: &'static str, help: &'static str, why: &'static str) -> Self {
        let mut row = Self::new(name, help, ValueKind::Foreign(takes));
        row.support = Support::Refused(why);
        row
    }

    const fn default(mut self, text: &'static str) -> Self {
        self.default = Some(text);
        self
    }

    const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn differs(mut self, how: &'static str) -> Self {
        self.support = Support::Differs(how);
        self
    }

    const fn ours(mut self) -> Self {
        self.support = Support::Ours;
        self
    }

    /// Marks a difference that cannot change any figure.
    const fn quietly(mut self, how: &'static str) -> Self {
        self.quiet = true;
        self.differs(how)
    }

    const fn plain(mut self, values: &'static [&'static str]) -> Self {
        self.plain = values;
        self
    }

    const fn of(mut self, engines: &'static [&'static str]) -> Self {
        self.engines = engines;
        self
    }

    /// Whether it is accepted.
    pub const fn is_here(&self) -> bool {
        !matches!(self.support, Support::Refused(_))
    }

    /// Whether fio knows it.
    pub const fn is_fios(&self) -> bool {
        !matches!(self.support, Support::Ours)
    }

    /// Whether it may be given without a value.
    pub const fn may_be_bare(&self) -> bool {
        matches!(self.kind, ValueKind::Flag(_) | ValueKind::Own { bare: true, .. })
    }

    /// Whether this value behaves as in fio. A number may be written in any way.
    pub fn is_plain(&self, text: &str) -> bool {
        let number = |text: &str| value::integer(text, KbBase::Binary).ok();
        let same = |known: &&str| text == *known || (number(known).is_some() && number(text) == number(known));
        self.plain.iter().any(same)
    }

    /// Returns the note to give if the option is used with this value.
    pub fn remark(&self, text: Option<&str>) -> Option<&'static str> {
        match self.support {
            Support::Differs(how) if !self.quiet && !text.is_some_and(|text| self.is_plain(text.trim())) => Some(how),
            _ => None,
        }
    }

    /// What values it takes, to follow "it takes" or "expected".
    pub fn accepts(&self) -> String {
        let within = |min: u64, max: u64, what: &str| match (min, max) {
            (0, u64::MAX) => what.to_owned(),
            (min, u64::MAX) => format!("{what}, at least {min}"),
            (min, max) => format!("{what} from {min} to {max}"),
        };
        let most = |max: u32| if max == u32::MAX { u64::MAX } else { u64::from(max) };
        match self.kind {
            ValueKind::Text(_) => "a text".to_owned(),
            ValueKind::Bool(_) => "0 or 1".to_owned(),
            ValueKind::Flag(_) => "no value, or 0 or 1".to_owned(),
            ValueKind::Count { min, max, .. } => within(min.into(), most(max), "a number"),
            ValueKind::Counts { min, max, .. } => within(min.into(), most(max), "a number (or read,write,trim)"),
            ValueKind::Size { min, max, .. } => within(min, max, "a number or size such as 4096, 4k, 1m, 0x1000"),
            ValueKind::Sizes { min, .. } => within(min, u64::MAX, "a size such as 4k or 1m (or read,write,trim)"),
            ValueKind::Amount(_) => "a size such as 4k or 1g, or a percentage such as 50%".to_owned(),
            ValueKind::Time { unit, .. } => {
                format!("a time such as 500us, 10ms, 30s, 5m or 1h, or plain {}", unit.name())
            }
            ValueKind::Choice { words, .. } => words().iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", "),
            ValueKind::Own { accepts, .. } | ValueKind::Foreign(accepts) => accepts.to_owned(),
        }
    }

    /// Sets the option in a job. `text` is `None` where it was bare.
    ///
    /// # Errors
    /// If the option does not accept the value, or is refused.
    pub fn set(&self, job: &mut FioJob, text: Option<&str>, base: KbBase) -> Result<(), Fault> {
        if let Support::Refused(why) = self.support {
            let plain = text.is_some_and(|text| self.is_plain(text.trim()));
            return if plain { Ok(()) } else { Err(Fault::Refused(why.to_owned())) };
        }
        let text = match text.map(str::trim) {
            None if self.may_be_bare() => "",
            None => return Err(Fault::Missing),
            Some("") if !matches!(self.kind, ValueKind::Own { bare: true, .. }) => return Err(Fault::Missing),
            Some(text) => text,
        };
        match self.kind {
            ValueKind::Text(field) => *field(job) = text.to_owned(),
            ValueKind::Bool(field) => *field(job) = count(text, 0, 1)? == 1,
            ValueKind::Flag(field) => *field(job) = text.is_empty() || value::integer(text, base)? != 0,
            ValueKind::Count { min, max, field } => *field(job) = count_with(text, min, max, base)?,
            ValueKind::Counts { min, max, field } => {
                replace(field(job), value::triple(text, |part| count_with(part, min, max, base))?);
            }
            ValueKind::Size { min, max, field } => *field(job) = size(text, min, max, base)?,
            ValueKind::Sizes { min, field } => {
                replace(field(job), value::triple(text, |part| size(part, min, u64::MAX, base))?);
            }
            ValueKind::Amount(field) => *field(job) = value::amount(text, base)?,
            ValueKind::Time { unit, field } => *field(job) = value::duration(text, unit)?,
            ValueKind::Choice { set, .. } | ValueKind::Own { set, .. } => set(job, text, base)?,
            ValueKind::Foreign(_) => return Err(Fault::Refused(String::new())),
        }
        Ok(())
    }
}

/// Sets the given values of a triple and leaves the others unchanged.
fn replace<T: Copy>(triple: &mut [T; 3], given: [Option<T>; 3]) {
    for (slot, value) in triple.iter_mut().zip(given) {
        *slot = value.unwrap_or(*slot);
    }
}

fn count(text: &str, min: u32, max: u32) -> Result<u32, Problem> {
    count_with(text, min, max, KbBase::Binary)
}

/// A number within bounds that fits 32 bits.
fn count_with(text: &str, min: u32, max: u32, base: KbBase) -> Result<u32, Problem> {
    size(text, min.into(), max.into(), base).map(|value| u32::try_from(value).unwrap_or(max))
}

/// Takes 0 or 1 and does nothing with it.
fn idle_bool(_: &mut FioJob, text: &str, _: KbBase) -> Result<(), Fault> {
    count(text, 0, 1)?;
    Ok(())
}

/// Takes a number and does nothing with it.
fn idle_number(_: &mut FioJob, text: &str, base: KbBase) -> Result<(), Fault> {
    value::unsigned(text, base)?;
    Ok(())
}

/// An option whose value is checked but has no effect.
const fn idle(name: &'static str, help: &'static str, accepts: &'static str, set: Set) -> FioOption {
    FioOption::new(name, help, ValueKind::Own { accepts, bare: false, set })
}

/// A yes or no.
const fn switch(name: &'static str, help: &'static str, field: Field<bool>, default: &'static str) -> FioOption {
    FioOption::new(name, help, ValueKind::Bool(field)).default(default)
}

/// A number of milliseconds; fio accepts no units here.
macro_rules! millis {
    ($name:literal, $help:literal, $field:ident) => {
        $crate::options::FioOption::new(
            $name,
            $help,
            $crate::options::ValueKind::Own {
                accepts: "a plain number of milliseconds",
                bare: false,
                set: |job, text, _| {
                    let millis = $crate::options::count(text, 0, u32::MAX)?;
                    job.$field = std::time::Duration::from_millis(millis.into());
                    Ok(())
                },
            },
        )
    };
}
use millis;

/// A number within bounds.
fn size(text: &str, min: u64, max: u64, base: KbBase) -> Result<u64, Problem> {
    match value::unsigned(text, base)? {
        value if value < min => Err(format!("it is less than {min}")),
        value if value > max => Err(format!("it is more than {max}")),
        value => Ok(value),
    }
}

/// The problem with a word that is not in a list, with the closest word in it.
fn no_such_word(text: &str, words: Words) -> Fault {
    let near = suggest::nearest(text, words().into_iter().map(|(word, _)| word));
    let hint = near.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
    Fault::Problem(format!("unknown value{hint}"))
}

/// The kind of an option whose words are those of an enum.
macro_rules! choice {
    ($field:ident: $words:ty) => {
        $crate::options::ValueKind::Choice {
            words: <$words>::help,
            set: |job, text, _| {
                job.$field =
                    <$words>::parse(text).ok_or_else(|| $crate::options::no_such_word(text, <$words>::help))?;
                Ok(())
            },
        }
    };
}
use choice;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_name_is_in_the_table_once() {
        let mut seen = HashSet::new();
        for option in all() {
            for name in std::iter::once(&option.name).chain(option.aliases) {
                assert!(seen.insert(*name), "{name}");
            }
            assert!(!option.help.is_empty() && !option.help.ends_with('.'), "{}", option.name);
        }
    }

    #[test]
    fn every_choice_takes_each_of_its_words_and_no_other() {
        for option in all() {
            if let ValueKind::Choice { words, set } = option.kind {
                for (word, _) in words() {
                    assert_eq!(set(&mut FioJob::default(), word, KbBase::Binary), Ok(()), "{} {word}", option.name);
                }
                assert!(set(&mut FioJob::default(), "nonesuch", KbBase::Binary).is_err(), "{}", option.name);
            }
        }
    }

    #[test]
    fn every_option_that_is_not_text_refuses_rubbish() {
        for option in all().filter(|option| option.is_here()) {
            let free = matches!(option.kind, ValueKind::Text(_))
                || ["filename", "directory", "write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log"]
                    .contains(&option.name);
            let set = option.set(&mut FioJob::default(), Some("?!"), KbBase::Binary);
            assert_eq!(set.is_ok(), free, "{}", option.name);
        }
    }

    #[test]
    fn bounds_are_those_of_fio() {
        let fault = |name: &str, text| find(name).unwrap().set(&mut FioJob::default(), Some(text), KbBase::Binary);
        for (name, text) in [("iodepth", "0"), ("direct", "2"), ("rwmixread", "101"), ("bs", "0"), ("flow", "2000")] {
            assert!(matches!(fault(name, text), Err(Fault::Problem(_))), "{name}={text}");
        }
        assert_eq!(find("direct").unwrap().set(&mut FioJob::default(), None, KbBase::Binary), Err(Fault::Missing));
    }

    #[test]
    fn a_refused_option_takes_the_values_that_change_nothing() {
        let set = |name: &str, text| find(name).unwrap().set(&mut FioJob::default(), Some(text), KbBase::Binary);
        for option in all().filter(|option| !option.is_here()) {
            assert!(option.plain.iter().all(|value| set(option.name, value).is_ok()), "{}", option.name);
            assert!(matches!(set(option.name, "?!"), Err(Fault::Refused(_))), "{}", option.name);
        }
        assert_eq!(set("fill_device", " 0x0 "), Ok(()));
        assert!(set("fill_device", "1").is_err() && set("write_hint", "none").is_ok());
    }

    #[test]
    fn differences_are_noted_where_they_can_change_a_figure() {
        let remark = |name: &str, text| find(name).unwrap().remark(Some(text));
        assert!(remark("verify_dump", "0").is_none() && remark("verify_dump", "1").is_some());
        assert!(remark("mem", "malloc").is_none() && remark("mem", "mmaphuge").is_some());
        assert!(remark("thread", "1").is_none() && remark("bs", "4k").is_none());
    }

    #[test]
    fn a_near_name_is_one_that_is_here_where_possible() {
        assert_eq!(nearest("iodeph"), Some("iodepth"));
        assert_eq!(nearest("blocksiz"), Some("blocksize"));
        assert_eq!(nearest("xxxxxxxxx"), None);
    }
}

//! The command line as fio reads it.
//!
//! Each `--name=` starts a job; options before the first are global, and so are those after `--name=global`. Any other
//! argument is a job file. Options are read before files, whatever their order, so that global options apply to the
//! files' jobs too. Names may be abbreviated as long as they stay unique, and one dash works like two (getopt's rules).

use crate::error::{Error, ErrorKind, Errors, Place, shortened};
use crate::flags::{FLAGS, Flag, FlagAction, FlagValue, Flags, bad_value};
use crate::job::FioJob;
use crate::job::Given;
use crate::lexer::Entry;
use crate::options::{self, FioOption, ValueKind};
use crate::resolve::{Jobs, Origin, Resolver};
use qd1_model::suggest;

use crate::{Limits, Note, World};

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// `--help`.
    Help,
    /// `--version`.
    Version,
    /// `--cmdhelp`, with an option's name, `all` or nothing.
    CmdHelp(String),
    /// `--enghelp`, with an engine's name (optionally followed by a comma and an option's name) or nothing.
    EngHelp(String),
    /// Jobs to run, or to show.
    Run(Box<Invocation>),
}

/// Jobs and how to run them.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    /// The global options. The first [`FioJob::globals`] of them apply to a job.
    pub globals: Vec<Given>,
    /// The jobs: those from the command line, then those from the files.
    pub jobs: Vec<FioJob>,
    /// fio's own flags.
    pub flags: Flags,
    /// What took effect differently from how it was written.
    pub notes: Vec<Note>,
}

/// Reads a command line without the program's name.
///
/// # Errors
/// Everything that is wrong with it and with the files it names.
pub fn parse_args<S: AsRef<str>>(args: &[S], world: &dyn World) -> Result<Request, Errors> {
    let mut line = Line { args: args.iter().map(AsRef::as_ref).collect(), ..Line::default() };
    while line.next < line.args.len() && line.errors.len() < Limits::ERRORS {
        if let Some(request) = line.argument() {
            return Ok(request);
        }
    }
    line.run(world)
}

/// A job, or global options, as written on the command line.
struct Group {
    /// `None` for global options.
    name: Option<String>,
    place: Place,
    entries: Vec<Entry>,
}

#[derive(Default)]
struct Line<'a> {
    args: Vec<&'a str>,
    next: usize,
    only_files: bool,
    flags: Flags,
    groups: Vec<Group>,
    files: Vec<(&'a str, Place)>,
    errors: Vec<Error>,
    notes: Vec<Note>,
}

/// What a name on the command line means.
enum Named {
    Flag(&'static Flag),
    Option(&'static FioOption),
}

impl<'a> Line<'a> {
    /// The place of the next argument, and the argument after it if that holds the value.
    fn argument(&mut self) -> Option<Request> {
        let argument = self.args[self.next];
        let place = Place::Argument { position: self.next as u32 + 1, column: 1 };
        self.next += 1;
        if self.only_files || !argument.starts_with('-') || argument == "-" {
            self.files.push((argument, place));
            return None;
        }
        if argument == "--" {
            self.only_files = true;
            return None;
        }
        let dashes = if argument.starts_with("--") { 2 } else { 1 };
        let (name, value) = match argument[dashes..].split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (&argument[dashes..], None),
        };
        let value = value.map(|value| (value, place.right(dashes + name.chars().count() + 1)));
        match named(name, dashes) {
            Ok(Named::Flag(flag)) => self.flag(flag, value, place),
            Ok(Named::Option(option)) => {
                self.option(option, value, place);
                None
            }
            Err(kind) => {
                self.errors.push(Error::new(place, argument, kind));
                None
            }
        }
    }

    /// The next argument as a value.
    fn following(&mut self) -> Option<(&'a str, Place)> {
        let value = self.args.get(self.next)?;
        self.next += 1;
        Some((value, Place::Argument { position: self.next as u32, column: 1 }))
    }

    fn flag(&mut self, flag: &'static Flag, value: Option<(&'a str, Place)>, place: Place) -> Option<Request> {
        let value = if flag.takes == FlagValue::Value { value.or_else(|| self.following()) } else { value };
        let option = || format!("--{}", flag.name);
        let (text, value_place) = match (flag.takes, value) {
            (FlagValue::Value, None) => {
                let kind = ErrorKind::NeedsValue { option: option(), accepts: flag.accepts.to_owned() };
                self.errors.push(Error::new(place, flag.name, kind));
                return None;
            }
            (FlagValue::Nothing, Some((text, at))) => {
                self.errors.push(bad_value(flag, text, at, "the flag takes no value".to_owned()));
                return None;
            }
            (_, value) => value.unwrap_or(("", place.clone())),
        };
        match flag.act {
            FlagAction::Help => return Some(Request::Help),
            FlagAction::Version => return Some(Request::Version),
            FlagAction::CmdHelp => return Some(Request::CmdHelp(text.to_owned())),
            FlagAction::EngHelp => return Some(Request::EngHelp(text.to_owned())),
            FlagAction::Note(text) => self.notes.push(Note { place, text: text.to_owned() }),
            FlagAction::Refuse(why) => {
                let kind = ErrorKind::RefusedFlag { name: flag.name.to_owned(), why: why.to_owned() };
                self.errors.push(Error::new(place, flag.name, kind));
            }
            FlagAction::Set(set) => {
                if let Err(problem) = set(&mut self.flags, text) {
                    self.errors.push(bad_value(flag, text, value_place, problem));
                }
            }
        }
        None
    }

    fn option(&mut self, option: &'static FioOption, value: Option<(&'a str, Place)>, place: Place) {
        let bare = match option.kind {
            ValueKind::Flag(_) => true,
            ValueKind::Foreign(takes) => takes.starts_with("no value"),
            _ => false,
        };
        let value = if bare { value } else { value.or_else(|| self.following()) };
        if value.as_ref().is_some_and(|(text, _)| text.len() > Limits::VALUE_BYTES) {
            let kind = ErrorKind::Limit { what: "bytes in a value".to_owned(), limit: Limits::VALUE_BYTES };
            return self.errors.push(Error::new(place, option.name, kind));
        }
        if option.name == "name" {
            let name = value.as_ref().map(|(text, _)| (*text).to_owned()).filter(|name| !name.is_empty());
            let name = name.filter(|name| name != "global");
            self.groups.push(Group { name, place: place.clone(), entries: Vec::new() });
            if value.as_ref().is_some_and(|(text, _)| *text == "global") {
                return;
            }
        }
        if self.groups.is_empty() {
            self.groups.push(Group { name: None, place: place.clone(), entries: Vec::new() });
        }
        let value_place = value.as_ref().map_or_else(|| place.clone(), |(_, at)| at.clone());
        let value = value.map(|(text, _)| text.to_owned());
        if let Some(group) = self.groups.last_mut() {
            group.entries.push(Entry { key: option.name.to_owned(), value, place, value_place });
        }
    }

    /// Resolves everything to jobs.
    fn run(self, world: &dyn World) -> Result<Request, Errors> {
        let mut resolver = Resolver::new(world, self.flags.settings.clone());
        resolver.findings.errors = self.errors;
        resolver.findings.notes = self.notes;
        for group in self.groups {
            match group.name {
                Some(name) => resolver.job(&name, &group.place, group.entries, Origin::Argument),
                None => resolver.global(group.entries, Origin::Argument),
            }
        }
        for (file, place) in self.files {
            resolver.file(file, &place);
        }
        let Jobs { globals, jobs, notes } = resolver.finish()?;
        // A file with global sections only has nothing to run, but can be shown.
        if jobs.is_empty() && !self.flags.parse_only && !self.flags.showcmd {
            return Err(Error::new(Place::Whole, "", ErrorKind::NoJobs).into());
        }
        Ok(Request::Run(Box::new(Invocation { globals, jobs, flags: self.flags, notes })))
    }
}

/// What a name means: a flag, an option, or the start of just one of them.
fn named(name: &str, dashes: usize) -> Result<Named, ErrorKind> {
    if let Some(flag) = FLAGS.iter().find(|flag| flag.name == name) {
        return Ok(Named::Flag(flag));
    }
    if let Some(option) = options::find(name) {
        return Ok(Named::Option(option));
    }
    match (dashes, name) {
        (1, "h") => return named("help", 2),
        (1, "v") => return named("version", 2),
        _ => {}
    }
    let general = || options::all().filter(|option| option.engines.is_empty());
    let starts = |known: &&str| !name.is_empty() && known.starts_with(name);
    let mut found: Vec<&str> = FLAGS.iter().map(|flag| flag.name).filter(|known| starts(known)).collect();
    found.extend(general().filter_map(|option| {
        std::iter::once(option.name).chain(option.aliases.iter().copied()).find(|known| starts(known))
    }));
    match found.as_slice() {
        [] => Err(unknown(name)),
        [only] => named(only, 2),
        several => {
            let candidates = several.iter().take(8).map(|name| (*name).to_owned()).collect();
            Err(ErrorKind::Ambiguous { name: shortened(name), candidates })
        }
    }
}

fn unknown(name: &str) -> ErrorKind {
    if let Some(engine) = crate::engines::refused_with_option(name) {
        let why = format!("it belongs to ioengine={}: {}", engine.names.join(" or "), engine.why);
        return ErrorKind::RefusedOption { name: name.to_owned(), why };
    }
    let flags = suggest::nearest(name, FLAGS.iter().map(|flag| flag.name));
    let nearest = options::nearest(name).or(flags).map(str::to_owned);
    ErrorKind::UnknownOption { name: shortened(name), nearest }
}

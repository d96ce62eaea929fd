//! From sections and arguments to jobs: which option goes where, global ones first.
//!
//! As in fio, a global option applies to the jobs after it, `kb_base` applies to all values of its section, and an
//! engine's options may come before the engine. A global section's options for an engine that a job does not use are
//! left out of that job, with a note.

use crate::check;
use crate::engines;
use crate::error::{Error, ErrorKind, Errors, Findings, Note, Place};
use crate::expand;
use crate::job::{FioJob, Given};
use crate::lexer::{self, Entry};
use crate::options::{self, Fault, FioOption, ValueKind};
use crate::settings::Settings;
use crate::{Limits, World};

/// All jobs of a command line or a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Jobs {
    /// The global options, in the order given. The first [`FioJob::globals`] of them apply to a job.
    pub globals: Vec<Given>,
    /// The jobs, each standing for `numjobs` clones.
    pub jobs: Vec<FioJob>,
    /// What took effect differently from how it was written.
    pub notes: Vec<Note>,
}

/// The jobs of one job file; `-` is standard input.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse_job_file(file: &str, world: &dyn World) -> Result<Jobs, Errors> {
    let mut resolver = Resolver::new(world, Settings::default());
    resolver.file(file, &Place::Whole);
    resolver.finish()
}

/// Whether an option was written in a file, where environment variables are expanded, or as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    File,
    Argument,
}

/// Collects jobs.
pub(crate) struct Resolver<'a> {
    world: &'a dyn World,
    settings: Settings,
    pub(crate) findings: Findings,
    /// What a job starts as: fio's defaults and the global options so far.
    template: FioJob,
    globals: Vec<Given>,
    /// The global options that belong to engines, each once.
    engine_globals: Vec<(&'static FioOption, Place)>,
    /// Whether a global option was wrong.
    global_fault: bool,
    jobs: Vec<FioJob>,
    files: usize,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(world: &'a dyn World, settings: Settings) -> Self {
        Self {
            world,
            settings,
            findings: Findings::default(),
            template: FioJob::new(""),
            globals: Vec::new(),
            engine_globals: Vec::new(),
            global_fault: false,
            jobs: Vec::new(),
            files: 0,
        }
    }

    /// Adds a job file. Each file after the first waits for the jobs of earlier files.
    pub(crate) fn file(&mut self, file: &str, place: &Place) {
        let sections = lexer::read(file, place, self.world, &mut self.findings);
        // Global options in a file apply only to its own jobs.
        let template = self.template.clone();
        let mut first = self.files > 0;
        self.files += 1;
        for section in sections {
            if self.findings.is_full() {
                return;
            }
            if section.name == "global" {
                self.global(section.entries, Origin::File);
            } else if self.settings.sections.is_empty() || self.settings.sections.contains(&section.name) {
                self.job(&section.name, &section.place, section.entries, Origin::File);
                if let Some(job) = self.jobs.last_mut().filter(|_| first) {
                    job.stonewall = true;
                }
                first = false;
            }
        }
        self.template = template;
    }

    /// Adds global options.
    pub(crate) fn global(&mut self, entries: Vec<Entry>, origin: Origin) {
        let mut template = std::mem::take(&mut self.template);
        let before = self.findings.errors.len();
        self.apply(&mut template, entries, origin);
        self.global_fault |= self.findings.errors.len() > before;
        for (option, place) in of_engines(&template.given) {
            if !self.engine_globals.iter().any(|(known, _)| known.name == option.name) {
                self.engine_globals.push((option, place));
            }
        }
        self.globals.append(&mut template.given);
        self.template = template;
    }

    /// Adds a job.
    pub(crate) fn job(&mut self, name: &str, place: &Place, entries: Vec<Entry>, origin: Origin) {
        if self.jobs.len() == Limits::SECTIONS {
            let kind = ErrorKind::Limit { what: "jobs".to_owned(), limit: Limits::SECTIONS };
            return self.findings.error(Error::new(place.clone(), name, kind));
        }
        let mut job = self.template.clone();
        job.name = name.to_owned();
        job.place = Some(place.clone());
        job.globals = self.globals.len();
        let before = self.findings.errors.len();
        self.apply(&mut job, entries, origin);
        // With a wrong option, its own or a global one, a job could appear to contradict itself when it does not.
        if self.findings.errors.len() == before && !self.global_fault {
            self.check_engine(&job);
            check::job(&mut job, &self.globals, &self.settings, &mut self.findings);
        }
        self.jobs.push(job);
    }

    /// The jobs, or all errors.
    pub(crate) fn finish(mut self) -> Result<Jobs, Errors> {
        if self.findings.errors.is_empty() {
            check::all(&self.jobs, &self.settings, &mut self.findings);
        }
        let Findings { errors, notes } = self.findings;
        if errors.is_empty() { Ok(Jobs { globals: self.globals, jobs: self.jobs, notes }) } else { Err(Errors(errors)) }
    }

    /// Sets the options in a job and lists them as given.
    fn apply(&mut self, job: &mut FioJob, entries: Vec<Entry>, origin: Origin) {
        let is_base = |entry: &Entry| entry.key == "kb_base";
        for entry in entries.iter().filter(|entry| is_base(entry)) {
            self.set(job, entry, origin);
        }
        for entry in &entries {
            if self.findings.is_full() {
                return;
            }
            if is_base(entry) { self.list(job, entry, origin) } else { self.set(job, entry, origin) }
        }
    }

    /// Lists an option that has already been set.
    fn list(&mut self, job: &mut FioJob, entry: &Entry, origin: Origin) {
        if let (Some(option), Ok(value)) = (options::find(&entry.key), self.expanded(entry, origin)) {
            job.given.push(Given { name: option.name, value, place: entry.place.clone() });
        }
    }

    fn set(&mut self, job: &mut FioJob, entry: &Entry, origin: Origin) {
        let Some(option) = options::find(&entry.key) else {
            return self.unknown(entry);
        };
        let value = match self.expanded(entry, origin) {
            Ok(value) => value,
            Err(problem) => return self.fault(option, entry, entry.value.as_deref(), Fault::Problem(problem)),
        };
        match option.set(job, value.as_deref(), job.kb_base) {
            Err(fault) => self.fault(option, entry, value.as_deref(), fault),
            Ok(()) => {
                if let Some(how) = option.remark(value.as_deref()) {
                    self.findings.note(&entry.place, format!("`{}`: {how}", option.name));
                }
                if option.name != "kb_base" {
                    job.given.push(Given { name: option.name, value, place: entry.place.clone() });
                }
            }
        }
    }

    fn expanded(&self, entry: &Entry, origin: Origin) -> Result<Option<String>, String> {
        let expand = match origin {
            Origin::File => expand::in_file,
            Origin::Argument => expand::in_argument,
        };
        entry.value.as_deref().map(|value| expand(value, self.world)).transpose()
    }

    fn unknown(&mut self, entry: &Entry) {
        let kind = match engines::refused_with_option(&entry.key) {
            Some(engine) => ErrorKind::RefusedOption {
                name: entry.key.clone(),
                why: format!("it belongs to ioengine={}: {}", engine.names.join(" or "), engine.why),
            },
            None => ErrorKind::UnknownOption {
                name: crate::error::shortened(&entry.key),
                nearest: options::nearest(&entry.key).map(str::to_owned),
            },
        };
        self.findings.error(Error::new(entry.place.clone(), &entry.key, kind));
    }

    fn fault(&mut self, option: &FioOption, entry: &Entry, value: Option<&str>, fault: Fault) {
        let name = option.name.to_owned();
        let text = value.unwrap_or_default();
        let (place, kind) = match fault {
            Fault::Missing => (&entry.place, ErrorKind::NeedsValue { option: name, accepts: option.accepts() }),
            Fault::Refused(why) if matches!(option.kind, ValueKind::Foreign(_)) && option.plain.is_empty() => {
                (&entry.place, ErrorKind::RefusedOption { name, why })
            }
            Fault::Refused(why) => {
                let value = crate::error::shortened(text);
                (&entry.value_place, ErrorKind::RefusedValue { option: name, value, why })
            }
            Fault::Problem(problem) => {
                let accepts = option.accepts();
                (&entry.value_place, ErrorKind::Value { option: name, value: text.to_owned(), problem, accepts })
            }
        };
        let text = if text.is_empty() { &entry.key } else { text };
        self.findings.error(Error::new(place.clone(), text, kind));
    }

    /// Options for engines that the job does not use: an error in the job itself, a note in a global section.
    fn check_engine(&mut self, job: &FioJob) {
        let used = job.ioengine.name();
        let foreign = |option: &FioOption| !option.engines.contains(&used);
        for (option, place) in self.engine_globals.iter().filter(|(option, _)| foreign(option)) {
            let (name, has) = (option.name, option.engines.join(" or "));
            let text = format!("`{name}` belongs to ioengine={has} and has no effect on job `{}`: {used}", job.name);
            self.findings.note(place, text);
        }
        for (option, place) in of_engines(&job.given).filter(|(option, _)| foreign(option)) {
            let engines = option.engines.iter().map(|engine| (*engine).to_owned()).collect();
            let kind = ErrorKind::OtherEngine { option: option.name.to_owned(), engines, used: used.to_owned() };
            self.findings.error(Error::new(place, option.name, kind));
        }
    }
}

/// Those of the options that belong to engines.
fn of_engines(given: &[Given]) -> impl Iterator<Item = (&'static FioOption, Place)> {
    given.iter().filter_map(|given| {
        let option = options::find(given.name).filter(|option| !option.engines.is_empty())?;
        Some((option, given.place.clone()))
    })
}

//! The jobs of a run, and where the next run begins: a job that appears again may be another process, a later report of
//! the same one, another test with that name, or a repeat.

use std::collections::HashMap;

use qd1_model::measured::{Does, Measured, MeasuredStep};

use super::job::Job;
use crate::gathered::{Gathered, STEPS_MAX, TooMuch, note, short};

/// Note about reports that were printed along the way.
pub(super) const SEVERAL: &str = "several reports of one run: only the last one is used";
/// The name fio uses for all hosts together.
const ALL_CLIENTS: &str = "All clients";
/// How much the runtimes of processes that ran at the same time may differ, relative and in ms.
const SAME_RUNTIME: f64 = 0.02;
const SAME_RUNTIME_MS: f64 = 50.0;

/// A job of a run, the sum of its processes.
struct Entry {
    job: Job,
    /// Which of fio's invocations it belongs to.
    invocation: u64,
    /// Runtime, ms, operations and process of the first of its processes.
    first: (f64, u64, Option<u64>),
    /// Its name among the steps.
    name: String,
}

/// How a job relates to an earlier one of the same name.
enum Comes {
    /// Another process, at the same time.
    Beside,
    /// The same, later.
    Later,
    /// Another run.
    Again,
}

impl Entry {
    fn comes(&self, job: &Job) -> Comes {
        let (runtime_ms, count, pid) = self.first;
        let (now_ms, now) = (job.runtime_ms(), job.count());
        let is_longer = now_ms > runtime_ms * (1.0 + SAME_RUNTIME) + SAME_RUNTIME_MS;
        let is_more = now as f64 > count as f64 * (1.0 + SAME_RUNTIME);
        let is_other = pid.zip(job.pid).is_some_and(|(one, two)| one != two);
        let is_as_long = (now_ms - runtime_ms).abs() <= runtime_ms * SAME_RUNTIME + SAME_RUNTIME_MS;
        match job.pid {
            _ if is_longer && is_more && !is_other => Comes::Later,
            // If nothing distinguishes processes, those that ran at the same time took equally long.
            None if !is_as_long => Comes::Again,
            _ => Comes::Beside,
        }
    }
}

/// The jobs of one run.
#[derive(Default)]
pub(super) struct Jobs {
    entries: Vec<Entry>,
    /// The positions of the jobs of each name.
    places: HashMap<String, Vec<usize>>,
    notes: Vec<String>,
}

impl Jobs {
    /// Adds a job of fio's invocation with that number, or returns it if it belongs to another run.
    pub(super) fn add(&mut self, mut job: Job, invocation: u64) -> Result<Option<Job>, TooMuch> {
        job.joined = 1;
        let alike = self.places.get(&job.name).into_iter().flatten().copied();
        let mut same = alike.filter(|at| {
            let entry = &self.entries[*at];
            entry.job.does == job.does && entry.job.engine == job.engine && entry.job.host == job.host
        });
        let first = (job.runtime_ms(), job.count(), job.pid);
        if let Some(at) = same.clone().find(|at| {
            let entry = &self.entries[*at];
            entry.invocation == invocation && entry.job.group == job.group
        }) {
            let entry = &mut self.entries[at];
            match entry.comes(&job) {
                Comes::Beside => entry.job.join(job, &mut self.notes),
                Comes::Again => return Ok(Some(job)),
                Comes::Later => {
                    note(&mut self.notes, SEVERAL);
                    (entry.job, entry.first) = (job, first);
                }
            }
            return Ok(None);
        }
        if same.any(|at| self.entries[at].invocation != invocation) {
            return Ok(Some(job));
        }
        if self.entries.len() == STEPS_MAX {
            return Err(TooMuch::Steps);
        }
        let places = self.places.entry(job.name.clone()).or_default();
        places.push(self.entries.len());
        let name = if places.len() == 1 { job.name.clone() } else { format!("{}#{}", job.name, places.len()) };
        self.entries.push(Entry { job, invocation, first, name });
        Ok(None)
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns their steps. Hosts measure at the same time: each has its own step in addition to the one for all.
    pub(super) fn steps(mut self, missing: &mut Vec<String>) -> Vec<MeasuredStep> {
        self.name_hosts();
        let mut steps = Vec::with_capacity(self.entries.len());
        for Entry { job, name, .. } in self.entries {
            steps.push(job.step(name, &mut self.notes));
        }
        self.notes.iter().for_each(|text| note(missing, text));
        steps
    }

    /// Names the jobs of several hosts after the hosts, and their sum after the job.
    fn name_hosts(&mut self) {
        let all = self.entries.iter().position(|entry| entry.job.name == ALL_CLIENTS);
        let hosts: Vec<&Entry> = self.entries.iter().filter(|entry| entry.job.name != ALL_CLIENTS).collect();
        let Some(first) = hosts.first() else { return };
        if all.is_none() && hosts.iter().all(|entry| entry.job.host == first.job.host) {
            return;
        }
        let is_one_job = hosts.iter().all(|entry| {
            entry.job.name == first.job.name
                && entry.job.does == first.job.does
                && entry.job.durable == first.job.durable
        });
        if let Some(all) = all.filter(|_| is_one_job) {
            let in_flight = |entry: &&Entry| entry.job.does.map_or(0, |does| entry.job.in_flight(does));
            let in_flight = hosts.iter().map(in_flight).fold(0, u32::saturating_add);
            let (name, engine, durable) = (first.job.name.clone(), first.job.engine.clone(), first.job.durable);
            let does = first.job.does.map(|does| Does { in_flight, ..does });
            let all = &mut self.entries[all];
            // Treated as if one process had all of them in flight.
            (all.job.does, all.job.engine, all.job.durable) = (does, engine, durable);
            (all.job.processes, all.job.numjobs) = (1, 1);
            all.name = name;
        }
        let mut taken: HashMap<String, u32> = HashMap::new();
        for entry in self.entries.iter_mut().filter(|entry| entry.job.name != ALL_CLIENTS) {
            let host = if entry.job.host.is_empty() { "a client" } else { &entry.job.host };
            let name = format!("{} on {}", entry.job.name, short(host));
            let number = taken.entry(name.clone()).or_default();
            *number += 1;
            entry.name = if *number == 1 { name } else { format!("{name}#{number}") };
        }
    }
}

/// The runs in a text that lists one job after another.
#[derive(Default)]
pub(super) struct Runs {
    jobs: Jobs,
    /// What is known about the run besides its jobs.
    run: Measured,
    found: Gathered,
}

impl Runs {
    /// Adds a job; `run` is what is known about its run.
    pub(super) fn add(&mut self, job: Job, invocation: u64, run: impl FnOnce() -> Measured) -> Result<(), TooMuch> {
        let Some(job) = self.jobs.add(job, invocation)? else {
            if self.run.tool.is_empty() {
                self.run = run();
            }
            return Ok(());
        };
        self.end()?;
        self.run = run();
        self.jobs.add(job, invocation).map(drop)
    }

    fn end(&mut self) -> Result<(), TooMuch> {
        if self.jobs.is_empty() {
            return Ok(());
        }
        let mut run = std::mem::take(&mut self.run);
        run.steps = std::mem::take(&mut self.jobs).steps(&mut run.missing);
        self.found.begin(run)
    }

    pub(super) fn gathered(mut self) -> Result<Gathered, TooMuch> {
        self.end()?;
        Ok(self.found)
    }
}

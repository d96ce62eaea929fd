//! A world out of a table, and how a test says that it cannot run here.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::HashMap;
use std::io;
use std::path::Path;

use qd1_fio::{FioJob, Invocation, Jobs, Request, System, World, parse_args, parse_job_file};

/// Files and variables by name, on a machine with two processors.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) files: HashMap<String, Vec<u8>>,
    pub(crate) env: HashMap<String, String>,
}

impl World for Table {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let content = path.to_str().and_then(|path| self.files.get(path));
        content.cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }
    fn system(&self) -> System {
        System { ncpus: 2, mb_memory: 24105, pagesize: 4096 }
    }
}

/// A world with one file, `j.fio`.
pub(crate) fn table(content: &str) -> Table {
    Table { files: HashMap::from([("j.fio".to_owned(), content.as_bytes().to_vec())]), env: HashMap::new() }
}

/// The jobs of a file, or its errors as text.
pub(crate) fn file(content: &str) -> Result<Jobs, String> {
    parse_job_file("j.fio", &table(content)).map_err(|errors| errors.to_string())
}

/// The only job of a file.
pub(crate) fn one(content: &str) -> FioJob {
    file(content).unwrap_or_else(|errors| panic!("{content}: {errors}")).jobs.remove(0)
}

/// A command line beside an empty file table.
pub(crate) fn line(args: &[&str]) -> Result<Invocation, String> {
    line_with(args, &Table::default())
}

pub(crate) fn line_with(args: &[&str], world: &Table) -> Result<Invocation, String> {
    match parse_args(args, world) {
        Ok(Request::Run(invocation)) => Ok(*invocation),
        Ok(other) => Err(format!("{other:?}")),
        Err(errors) => Err(errors.to_string()),
    }
}

/// Words of a line whose only quoting is by single quotes and `\'`.
pub(crate) fn shell_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut quoted, mut characters) = (false, line.chars());
    while let Some(character) = characters.next() {
        let last = words.len() - 1;
        match character {
            '\'' => quoted = !quoted,
            '\\' if !quoted => words[last].extend(characters.next()),
            ' ' if !quoted => words.push(String::new()),
            other => words[last].push(other),
        }
    }
    words
}

/// All that a job means: what was given, and where, is left out.
pub(crate) fn meaning(mut job: FioJob) -> FioJob {
    (job.given, job.place) = (Vec::new(), None);
    job
}

/// HACKING.md, "Tests": neither green nor red.
pub(crate) fn skip(name: &str, why: &str) {
    println!("SKIPPED: {why}");
    if let Some(log) = std::env::var_os("QD1_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).expect("QD1_SKIP_LOG opens");
        io::Write::write_all(&mut log, format!("{name}: {why}\n").as_bytes()).expect("QD1_SKIP_LOG takes a line");
    }
}

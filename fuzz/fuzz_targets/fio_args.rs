//! A command line, a line for each argument, and after an empty line the job file `j.fio` beside it.
//!
//! What is accepted has to mean the same when `--showcmd` shows it and it is read again.
#![no_main]

use std::io;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use qd1_fio::{FioJob, Request, System, World, help, parse_args};

struct Beside<'a>(&'a str);

impl World for Beside<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("j.fio" | "-") => Ok(self.0.as_bytes().to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
    fn env(&self, name: &str) -> Option<String> {
        (name.len() == 1).then(|| "4k".to_owned())
    }
    fn system(&self) -> System {
        System { ncpus: 2, mb_memory: 1024, pagesize: 4096 }
    }
}

/// Words of a line whose only quoting is by single quotes and `\'`.
fn shell_words(line: &str) -> Vec<String> {
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

/// All but what was given, and where.
fn meaning(mut job: FioJob) -> FioJob {
    (job.given, job.place) = (Vec::new(), None);
    job
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (args, file) = text.split_once("\n\n").unwrap_or((text, ""));
    let args: Vec<&str> = args.split('\n').collect();
    let run = match parse_args(&args, &Beside(file)) {
        // A section `[]` has no name, and a job without one cannot be written as arguments, with fio either.
        Ok(Request::Run(run)) if !run.jobs.is_empty() && run.jobs.iter().all(|job| !job.name.is_empty()) => run,
        Ok(_) => return,
        Err(errors) => return assert!(!errors.0.is_empty() && !errors.to_string().is_empty()),
    };
    let shown = help::showcmd(&run.globals, &run.jobs);
    let words = shell_words(shown.trim_end_matches('\n'));
    let again = match parse_args(&words[1..], &Beside("")) {
        Ok(Request::Run(again)) => again,
        other => panic!("{shown}: {other:?}"),
    };
    assert_eq!(again.jobs.len(), run.jobs.len(), "{shown}");
    for (again, first) in again.jobs.into_iter().zip(run.jobs) {
        assert_eq!(format!("{:?}", meaning(again)), format!("{:?}", meaning(first)), "{shown}");
    }
});

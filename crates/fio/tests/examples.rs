//! fio's own example jobs, which the fio that is installed and qd1 both look at. Skipped aloud where they are not here.

mod common;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Table, skip};
use qd1_fio::{ErrorKind, Request, System, World, parse_args};

/// The real files below one directory.
struct Directory(PathBuf);

impl World for Directory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(self.0.join(path))
    }
    fn env(&self, name: &str) -> Option<String> {
        Table::default().env(name)
    }
    fn system(&self) -> System {
        Table::default().system()
    }
}

/// Whether fio takes a job file. `None` where there is no fio.
fn fio_takes(directory: &Path, name: &str) -> Option<bool> {
    let output = Command::new("fio").args(["--parse-only", name]).current_dir(directory).env_clear().output();
    Some(output.ok()?.status.success())
}

/// Whether an error is about an engine or kind of device that is not here, and not about an option.
fn is_of_an_engine(error: &qd1_fio::Error) -> bool {
    match &error.kind {
        ErrorKind::RefusedOption { why, .. } => why.contains("ioengine="),
        ErrorKind::RefusedValue { option, .. } => option == "ioengine" || option == "zonemode",
        _ => false,
    }
}

#[test]
fn fios_own_examples_are_taken_or_refused_by_name() {
    const NAME: &str = "fios_own_examples_are_taken_or_refused_by_name";
    let Some(examples) = std::env::var_os("QD1_FIO_EXAMPLES").map(PathBuf::from) else {
        return skip(NAME, "QD1_FIO_EXAMPLES names no directory of fio's examples (Debian: package fio-examples)");
    };
    let mut files: Vec<_> = fs::read_dir(&examples).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "fio"));
    files.sort();
    assert!(!files.is_empty(), "{} holds no examples", examples.display());
    let mut unexplained = Vec::new();
    // Taken by both, refused by both, refused here by the name of an engine, of an option.
    let (mut both, mut neither, mut engine, mut option) = (0, 0, 0, 0);
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(taken) = fio_takes(&examples, &name) else {
            return skip(NAME, "no fio here");
        };
        match parse_args(&["--parse-only", &name], &Directory(examples.clone())) {
            Ok(Request::Run(run)) => {
                println!("{name:40} fio {taken:5}  ours takes {} jobs, {} notes", run.jobs.len(), run.notes.len());
                for note in &run.notes {
                    println!("    {note}");
                }
                both += 1;
                if !taken {
                    unexplained.push(format!("{name}: fio refuses it"));
                }
            }
            Ok(other) => unexplained.push(format!("{name}: {other:?}")),
            Err(errors) => {
                println!("{name:40} fio {taken:5}  ours refuses {}: {}", errors.0.len(), errors.0[0]);
                let by_name =
                    |kind: &ErrorKind| matches!(kind, ErrorKind::RefusedOption { .. } | ErrorKind::RefusedValue { .. });
                let count = match (taken, errors.0.iter().any(is_of_an_engine)) {
                    (false, _) => &mut neither,
                    (true, true) => &mut engine,
                    (true, false) => &mut option,
                };
                *count += 1;
                for error in errors.0.iter().filter(|error| taken && !by_name(&error.kind)) {
                    unexplained.push(error.to_string());
                }
            }
        }
    }
    println!(
        "{both} are taken by both, {neither} refused by both; of those that only fio takes, {engine} need an engine or \
         zoned device that is not here, and {option} another option"
    );
    assert!(unexplained.is_empty(), "{}", unexplained.join("\n"));
}

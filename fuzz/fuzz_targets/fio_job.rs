//! Any bytes as a job file and as a command line: jobs or errors, but no panic, and an end.
//!
//! `cargo xtask fuzz fio_job --seconds 120`. An included file is the input's second half, so that
//! inclusion is reached too; what was accepted has to survive its own `--showcmd`.
#![no_main]

use std::io;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use qd1_fio::{Request, System, World, help, parse_args, parse_job_file};

struct Input<'a>(&'a [u8]);

impl World for Input<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("-") => Ok(self.0.to_vec()),
            Some(name) if name.len() < 8 => Ok(self.0[self.0.len() / 2..].to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
    fn env(&self, name: &str) -> Option<String> {
        name.starts_with('S').then(|| name.repeat(3))
    }
    fn system(&self) -> System {
        System { ncpus: 2, mb_memory: 1024, pagesize: 4096 }
    }
}

fuzz_target!(|data: &[u8]| {
    let world = Input(data);
    match parse_job_file("-", &world) {
        Ok(jobs) => {
            assert!(help::showcmd(&jobs.globals, &jobs.jobs).starts_with("fio"));
            for job in &jobs.jobs {
                assert!(job.iodepth >= 1 && job.numjobs >= 1 && job.block_min() >= 1);
                assert!(job.file_names(0).take(3).count() <= job.file_count() as usize);
            }
        }
        Err(errors) => assert!(!errors.to_string().is_empty()),
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let args: Vec<&str> = text.split('\n').collect();
        match parse_args(&args, &world) {
            Ok(Request::CmdHelp(name)) => drop(help::cmdhelp(&name)),
            Ok(Request::EngHelp(name)) => drop(help::enghelp(&name)),
            Ok(_) => {}
            Err(errors) => assert!(!errors.0.is_empty()),
        }
    }
});

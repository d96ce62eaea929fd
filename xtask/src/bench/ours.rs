//! Our side: the engine crate's `drive` example, one engine doing one kind of I/O without the rest of the product.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use qd1_lab::cmd;
use serde_json::Value;

use crate::dist;

/// One run, in either program's words.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) engine: &'a str,
    pub(super) file: &'a Path,
    pub(super) size_bytes: u64,
    pub(super) iodepth: u32,
    /// Completions waited for at a time, the same on both sides; 1 takes each as it comes.
    pub(super) batch: u32,
    pub(super) direct: bool,
    pub(super) stop: Stop,
}

/// When a run ends.
#[derive(Clone, Copy)]
pub(super) enum Stop {
    Ios(u64),
    Seconds(u64),
}

/// What a run measured.
#[derive(Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) iops: f64,
    pub(super) p50_ns: f64,
    pub(super) p99_ns: f64,
}

/// Builds the example the way the product is built.
pub(super) fn build() -> Result<PathBuf> {
    dist::build_release(&["--package", "qd1-engine", "--example", "drive"], "examples/drive")
}

/// The arguments of a job.
pub(super) fn args(job: &Job<'_>) -> Vec<String> {
    let (ios, seconds) = match job.stop {
        Stop::Ios(ios) => (ios, None),
        Stop::Seconds(seconds) => (u64::from(u32::MAX), Some(seconds)),
    };
    let mut args: Vec<String> = ["--rw", "randread", "--bs", "4096"].map(String::from).into();
    let mut add = |flag: &str, value: String| args.extend([flag.to_owned(), value]);
    add("--engine", job.engine.to_owned());
    add("--file", job.file.display().to_string());
    add("--size", job.size_bytes.to_string());
    add("--ios", ios.to_string());
    add("--iodepth", job.iodepth.to_string());
    add("--batch", job.batch.to_string());
    add("--direct", u8::from(job.direct).to_string());
    if let Some(seconds) = seconds {
        add("--runtime", seconds.to_string());
    }
    args
}

/// Runs a job.
pub(super) fn run(drive: &Path, job: &Job<'_>) -> Result<Figures> {
    figures(&cmd::capture(Command::new(drive).args(args(job)))?)
}

/// How many I/Os a run reports.
pub(super) fn ios(json: &str) -> Result<u64> {
    parse(json)?["ios"].as_u64().with_context(|| format!("drive printed no ios: {json}"))
}

fn parse(json: &str) -> Result<Value> {
    serde_json::from_str(json.trim()).with_context(|| format!("drive printed no JSON: {json}"))
}

fn figures(json: &str) -> Result<Figures> {
    let parsed = parse(json)?;
    Ok(Figures {
        iops: cmd::number(&parsed, "/iops")?,
        p50_ns: cmd::number(&parsed, "/p50_ns")?,
        p99_ns: cmd::number(&parsed, "/p99_ns")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_line_is_read() {
        let line = "{\"ios\":10,\"iops\":2.5,\"p50_ns\":7,\"p99_ns\":9,\"elapsed_ns\":1}\n";
        assert_eq!(figures(line).unwrap(), Figures { iops: 2.5, p50_ns: 7.0, p99_ns: 9.0 });
        assert_eq!(ios(line).unwrap(), 10);
        assert!(figures("{\"iops\":1}").unwrap_err().to_string().contains("/p50_ns"));
    }
}

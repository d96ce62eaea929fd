//! What one I/O costs the instrument: user-space instructions, counted by callgrind.
//!
//! Taking the difference of two run lengths leaves out one-time costs (start, opening, the report). Instruction counts
//! do not depend on neighbours, so this is the figure to watch from commit to commit.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use qd1_lab::cmd;

use super::ours::{Job, Stop};
use super::table::{Table, Target};
use super::{Args, fio, ours};

/// Maximum instructions per I/O for ours.
const MOST: f64 = 260.0;
/// I/Os of the short and the long run.
const IOS: [u64; 2] = [5_000, 45_000];
const FILE_BYTES: u64 = 64 << 20;

/// Each engine with the figure of fio 3.42 (the project's brief), if there is one.
const ENGINES: &[(&str, Option<u64>)] =
    &[("psync", Some(2095)), ("libaio", Some(2576)), ("io_uring", Some(2617)), ("null", None)];

pub(super) fn run(_: &Args) -> Result<Table> {
    let drive = ours::build()?;
    let dir = qd1_lab::temp_dir()?;
    let file = dir.path().join("data");
    qd1_lab::make_file(&file, FILE_BYTES)?;
    let direct = qd1_lab::takes_direct(&file);
    if !direct {
        println!("(no O_DIRECT here: buffered reads)");
    }
    let mut table = Table::new(&["engine", "ours", &fio::version()?, "fio-3.42"]);
    for (engine, published) in ENGINES {
        let job = |ios: u64| Job {
            engine,
            file: &file,
            size_bytes: FILE_BYTES,
            iodepth: 1,
            batch: 1,
            direct: direct && *engine != "null",
            stop: Stop::Ios(ios),
        };
        let ours = per_io(|n| count(&drive, &ours::args(&job(n)), dir.path(), n, ours::ios))?;
        let peer = per_io(|n| count(Path::new("fio"), &fio::args(&job(n)), dir.path(), n, fio::ios))?;
        let published = published.map_or_else(|| "-".to_owned(), |figure| figure.to_string());
        let cells = vec![(*engine).to_owned(), format!("{ours:.0}"), format!("{peer:.0}"), published];
        table.row(cells, ours, Some(Target::AtMost(MOST)));
    }
    Ok(table)
}

/// Instructions per I/O from two lengths.
#[allow(clippy::cast_precision_loss, reason = "instruction counts stay far below 2^52")]
fn per_io(instructions: impl Fn(u64) -> Result<u64>) -> Result<f64> {
    let [short, long] = [instructions(IOS[0])?, instructions(IOS[1])?];
    ensure!(long > short, "{} I/Os took no more instructions than {}", IOS[1], IOS[0]);
    Ok((long - short) as f64 / (IOS[1] - IOS[0]) as f64)
}

/// Runs a program under callgrind and returns the instructions of all its threads. The program's own count of its I/Os
/// must be `wanted`: a run that ended early would make each I/O look cheap.
fn count(program: &Path, args: &[String], dir: &Path, wanted: u64, ios: fn(&str) -> Result<u64>) -> Result<u64> {
    qd1_lab::interrupted()?;
    let out = dir.join("callgrind.out");
    let mut valgrind = cmd::command("valgrind");
    valgrind.args(["--tool=callgrind", "--trace-children=no"]);
    valgrind.arg(format!("--callgrind-out-file={}", out.display())).arg(program).args(args);
    let made = ios(&patiently(&mut valgrind)?)?;
    ensure!(made == wanted, "{} made only {made} of {wanted} I/Os", program.display());
    let text = fs::read_to_string(&out).context("callgrind wrote no figures")?;
    fs::remove_file(&out)?;
    total(&text).context("callgrind's figures have no total")
}

/// Runs valgrind and returns what the program printed. Valgrind 3.19 itself fails an assertion now and then (once in
/// some seventy runs on a busy machine); such a run says nothing about the program and is repeated, with a message.
fn patiently(valgrind: &mut Command) -> Result<String> {
    let mut outcome = cmd::capture(valgrind);
    for _ in 0..2 {
        match &outcome {
            Err(error) if error.to_string().contains("vgCallgrind_") => println!("(callgrind crashed; trying again)"),
            _ => break,
        }
        outcome = cmd::capture(valgrind);
    }
    outcome
}

/// The total of a callgrind file: a line `totals: N`, or `summary: N` in older ones.
fn total(text: &str) -> Option<u64> {
    let total = |key: &str| text.lines().rev().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    total("totals:").or_else(|| total("summary:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_either_line() {
        assert_eq!(total("events: Ir\nsummary: 12\nfn=(1)\n3 4\ntotals: 1234\n"), Some(1234));
        assert_eq!(total("summary: 12\n"), Some(12));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn the_difference_leaves_out_the_start() {
        let cost = per_io(|ios| Ok(1_000_000 + 250 * ios)).unwrap();
        assert!((cost - 250.0).abs() < 1e-9);
        assert!(per_io(|_| Ok(5)).is_err());
    }
}

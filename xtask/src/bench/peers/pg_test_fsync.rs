//! PostgreSQL's pg_test_fsync against `qd1 sync`: microseconds per commit of 8 KiB, with one and two writes.
//!
//! Both overwrite a file of 16 MiB that was written before. pg_test_fsync keeps rewriting its first blocks, while we go
//! through the file; it opens the files for open_datasync and open_sync with O_DIRECT, and so do we here.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use qd1_lab::cmd;
use serde_json::Value;

use super::{Figures, Peer, Round, TARGET};

pub(super) const PEER: Peer = Peer {
    name: "pg_test_fsync",
    what: "us per commit of 8 KiB (qd1 sync)",
    target: TARGET,
    find: program,
    package: "postgresql",
    peer,
    ours,
};

/// Its method, and our step, sync and O_DIRECT.
const METHODS: [(&str, &str, &str, bool); 4] = [
    ("open_datasync", "o_dsync-direct", "o_dsync", true),
    ("fdatasync", "fdatasync", "fdatasync", false),
    ("fsync", "fsync", "fsync", false),
    ("open_sync", "o_sync-direct", "o_sync", true),
];

/// Debian keeps it next to the server, outside PATH; the newest version is used.
fn program() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions
        .flatten()
        .map(|version| version.path().join("bin/pg_test_fsync"))
        .filter(|program| program.is_file())
        .collect();
    found.sort();
    found.pop().or_else(|| cmd::find("pg_test_fsync"))
}

fn peer(round: &Round<'_>) -> Result<Figures> {
    let file = round.dir.join("pg_test_fsync.tmp");
    let mut command = round.program();
    command.args(["-s", &round.seconds.to_string(), "-f"]).arg(&file);
    let text = cmd::capture(&mut command);
    let _ = std::fs::remove_file(&file);
    read(&text?)
}

/// The methods with one and with two writes; whatever else it measures is left out.
fn read(text: &str) -> Result<Figures> {
    let mut figures = Vec::new();
    for (writes, heading) in [(1, "using one 8kB write"), (2, "using two 8kB writes")] {
        let section =
            text.split(heading).nth(1).with_context(|| format!("pg_test_fsync has no section {heading:?}"))?;
        let section = section.split("\nCompare").next().unwrap_or_default();
        for (method, ..) in METHODS {
            let line = section.lines().find(|line| line.split_whitespace().next() == Some(method));
            let words: Vec<&str> = line.map(|line| line.split_whitespace().collect()).unwrap_or_default();
            let ops = words.iter().position(|word| *word == "ops/sec").and_then(|at| words[at - 1].parse::<f64>().ok());
            let ops = ops.with_context(|| format!("pg_test_fsync has no figure for {method}"))?;
            ensure!(ops > 0.0, "pg_test_fsync made no commits with {method}");
            figures.push((format!("{method} x{writes}"), 1e6 / ops));
        }
    }
    Ok(figures)
}

fn ours(round: &Round<'_>) -> Result<Figures> {
    let steps = METHODS.iter().flat_map(|(_, step, ..)| [format!("{step}-p1"), format!("{step}-x2-p1")]);
    let only = steps.collect::<Vec<_>>().join(",");
    let runtime = format!("{}s", round.seconds);
    let args = ["sync", round.dir_str(), "--full", "--size", "16MiB", "--only", &only, "--runtime", &runtime];
    let report = round.report(&[&args[..], &["--json", "--no-save", "--quiet"]].concat())?;
    let rows = report["sync"]["rows"].as_array().context("qd1 sync has no rows")?;
    let mut figures = Vec::new();
    for writes in [1, 2] {
        for (method, _, sync, direct) in METHODS {
            let alike =
                |row: &&Value| row["sync"] == sync && row["direct"] == direct && row["writes_per_sync"] == writes;
            let row = rows.iter().find(alike).with_context(|| format!("qd1 sync did not measure {method}"))?;
            let step = row["steps"][0].as_str().context("a row has no steps")?;
            figures.push((format!("{method} x{writes}"), mean_us(&report, step)?));
        }
    }
    Ok(figures)
}

/// The plain mean of a step's commits, like the peer's: an estimate from a few seconds may not be resolved.
fn mean_us(report: &Value, step: &str) -> Result<f64> {
    let steps = report["record"]["steps"].as_array().context("the report has no steps")?;
    let found = steps.iter().find(|found| found["name"] == step).with_context(|| format!("{step} did not run"))?;
    Ok(cmd::number(found, "/streams/0/lat/sum_ns")? / cmd::number(found, "/streams/0/lat/count")? / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Compare file sync methods using one 8kB write:
(in wal_sync_method preference order, except fdatasync is Linux's default)
        open_datasync                      1000.000 ops/sec    1000 usecs/op
        fdatasync                          2000.000 ops/sec     500 usecs/op
        fsync                               500.000 ops/sec    2000 usecs/op
        fsync_writethrough                              n/a
        open_sync                           400.000 ops/sec    2500 usecs/op

Compare file sync methods using two 8kB writes:
        open_datasync                       500.000 ops/sec    2000 usecs/op
        fdatasync                          1000.000 ops/sec    1000 usecs/op
        fsync                               250.000 ops/sec    4000 usecs/op
        open_sync                           200.000 ops/sec    5000 usecs/op

Compare open_sync with different write sizes:
         1 * 16kB open_sync write           99.000 ops/sec   10101 usecs/op
";

    #[test]
    fn both_sections_are_read_and_what_follows_is_not() {
        let figures = read(TEXT).unwrap();
        assert_eq!(figures.len(), 8);
        assert_eq!(figures[1], ("fdatasync x1".to_owned(), 500.0));
        assert_eq!(figures[7], ("open_sync x2".to_owned(), 5000.0));
        assert!(read("nothing").is_err());
    }
}

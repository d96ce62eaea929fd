//! Beside the programs that our commands replace, on the same ext4 of a loop device, in turn, within a factor
//! of two, since a test machine is busy. `cargo xtask bench peers` measures the same longer and holds it closer.

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::device::{Mounted, tool};
use common::{Place, float, json, list, skip};
use serde_json::Value;

/// The peer's figure and ours, in turn, so that both meet the same machine.
fn in_turn(name: &str, rounds: usize, peer: impl Fn() -> f64, ours: impl Fn() -> f64) -> (Vec<f64>, Vec<f64>) {
    let pairs: Vec<(f64, f64)> = (0..rounds).map(|_| (peer(), ours())).collect();
    println!("{name}: (peer's, ours) {pairs:.1?}");
    pairs.into_iter().unzip()
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().min_by(f64::total_cmp).unwrap()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[test]
fn a_ping_takes_as_long_as_iopings() {
    let test = "a_ping_takes_as_long_as_iopings";
    if Command::new("ioping").arg("-v").output().is_err() {
        return skip(test, "ioping is not installed");
    }
    let disk = match Mounted::ext4("defaults") {
        Ok(disk) => disk,
        Err(why) => return skip(test, &why),
    };
    let place = Place::at(disk.path());
    let alike = ["-D", "-c", "100", "-i", "0", "-s", "4k", "-S", "16m"];
    let peer = || {
        let raw = tool("ioping", &[&alike[..], &["-B", place.dir_str()]].concat()).unwrap();
        raw.split_whitespace().nth(4).unwrap().parse::<f64>().unwrap() / 1e3
    };
    let ours = || {
        let args = [&["ping", place.dir_str()], &alike[..], &["--quiet", "--json"]].concat();
        let output = place.qd1(&args).assert().success().get_output().stdout.clone();
        let text = String::from_utf8(output).unwrap();
        let summary: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        float(&list(&summary["operations"])[0]["lat_min_ns"]) / 1e3
    };
    // A process here is fast or slow as a whole, by half, as the host pleases: over many short ones each side's least is of
    // a fast one.
    let (theirs, ours) = in_turn("us the fastest direct read", 30, peer, ours);
    let ratio = least(&ours) / least(&theirs);
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
}

/// Debian keeps it beside the server.
fn pg_test_fsync() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    versions.flatten().map(|version| version.path().join("bin/pg_test_fsync")).find(|program| program.is_file())
}

#[test]
fn a_commit_takes_as_long_as_pg_test_fsyncs() {
    let test = "a_commit_takes_as_long_as_pg_test_fsyncs";
    let Some(program) = pg_test_fsync() else { return skip(test, "pg_test_fsync is not installed") };
    let disk = match Mounted::ext4("defaults") {
        Ok(disk) => disk,
        Err(why) => return skip(test, &why),
    };
    let place = Place::at(disk.path());
    let file = disk.path().join("pg_test_fsync.tmp");
    let peer = || {
        // It measures eighteen things for a second each; the first few are enough, and it ends in order when told to.
        let mut command = Command::new("timeout");
        command.args(["-s", "INT", "4"]).arg("stdbuf").arg("-o0").arg(&program).args(["-s", "1", "-f"]).arg(&file);
        let output = command.output().unwrap();
        let _ = std::fs::remove_file(&file);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = said.lines().find(|line| line.trim_start().starts_with("fdatasync "));
        let words: Vec<&str> = line.unwrap_or_else(|| panic!("no fdatasync in {said}")).split_whitespace().collect();
        1e6 / words[1].parse::<f64>().unwrap()
    };
    let ours = || {
        let args = ["sync", place.dir_str(), "--quick", "--size", "16MiB", "--only", "fdatasync-p1", "--runtime", "1s"];
        let report = json(place.qd1(&[&args[..], &["--json", "--no-save", "--quiet"]].concat()));
        let lat = &list(&report["record"]["steps"])[0]["streams"][0]["lat"];
        float(&lat["sum_ns"]) / float(&lat["count"]) / 1e3
    };
    let (theirs, ours) = in_turn("us a commit by fdatasync", 5, peer, ours);
    let ratio = median(ours) / median(theirs);
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
}

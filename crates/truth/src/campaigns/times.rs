//! `cargo xtask truth --times`: how long each command announced that it would take, and how long it took; on a
//! simulated disk, on a loop device that the kernel throttles, and on this machine's own disk.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use qd1_lab::{Mounted, Simulated, Throttle, as_root, clock, cmd, interrupted, open_up, quiet_dir, temp_dir};
use serde_json::Value;

use super::AHEAD;
use super::predict::{DISK_BYTES, commits_of};

/// The commands to run on each disk.
const COMMANDS: [&[&str]; 17] = [
    &["check", "--quick"],
    &["check"],
    &["check", "--with-load", "--quick"],
    &["run", "caches"],
    &["run", "yabs"],
    &["run", "kdiskmark"],
    &["filesystems", "--quick"],
    &["sweep", "--quick"],
    &["sync", "--quick"],
    &["limits"],
    &["meta"],
    &["predict", "--quick"],
    &["identify"],
    &["app", "sqlite", "--runtime", "3s"],
    &["app", "postgres", "--clients", "1,10", "--runtime", "5s"],
    &["app", "mysql", "--clients", "1,10", "--runtime", "5s"],
    &["app", "etcd", "--rate", "50", "--runtime", "5s"],
];
/// The targets: promised / taken.
const RATIO: std::ops::RangeInclusive<f64> = 0.9..=1.5;

/// Runs all commands that contain `only`, and prints the table.
pub(crate) fn run(only: Option<&str>) -> Result<()> {
    as_root("a loop device and a mount")?;
    let dir = super::binaries(&["qd1", "qd1-simdisk"])?;
    let qd1 = dir.join("qd1");
    let commands: Vec<_> =
        COMMANDS.into_iter().filter(|words| only.is_none_or(|only| words.join(" ").contains(only))).collect();
    println!("  {:<12}{:<46}{:>10}{:>10}{:>8}", "disk", "", "promised", "taken", "ratio");
    let mut outside = 0;
    {
        let simulated = Simulated::mount(&dir, &commits_of(2000))?;
        outside += on_disk("simulated", &commands, || Command::new(&qd1), &simulated.dir)?;
    }
    {
        let disk = Mounted::filled("ext4", quiet_dir()?, DISK_BYTES)?;
        let group = Throttle::new("times", &disk.disk, &[("write_iops", 500)])?;
        outside += on_disk("500 IOPS", &commands, || group.command(&AHEAD, &qd1), disk.path())?;
    }
    let place = temp_dir()?;
    open_up(place.path())?;
    outside += on_disk("this one", &commands, || Command::new(&qd1), place.path())?;
    println!("  {outside} of {} outside {:.1} to {:.1}", 3 * commands.len(), RATIO.start(), RATIO.end());
    ensure!(outside == 0, "some announced times were wrong");
    Ok(())
}

/// Runs the commands on one disk; returns how many ratios are outside the target.
fn on_disk(name: &str, commands: &[&[&str]], binary: impl Fn() -> Command, dir: &Path) -> Result<usize> {
    let mut outside = 0;
    for words in commands {
        interrupted()?;
        let mut run = binary();
        run.args(*words).arg(dir).args(["--no-save", "--json"]).current_dir(cmd::root()).stdin(Stdio::null());
        let (output, took) = clock::timed(|| run.output());
        let output = output.with_context(|| words.join(" "))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(matches!(output.status.code(), Some(0 | 3)), "qd1 {}: {}: {said}", words.join(" "), output.status);
        // "plus making the data" promises nothing about that part.
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let beside = report["record"]["app"]["prepare_ns"].as_f64().unwrap_or(0.0) / 1e9;
        let taken = took.as_secs_f64() - if said.contains("plus making the data") { beside } else { 0.0 };
        let promised = promise(&said).with_context(|| format!("qd1 {} announced no time: {said}", words.join(" ")))?;
        let ratio = promised.as_secs_f64() / taken;
        let is_inside = RATIO.contains(&ratio);
        outside += usize::from(!is_inside);
        println!(
            "  {name:<12}{:<46}{:>8.1} s{taken:>8.1} s{ratio:>8.2}{}",
            words.join(" "),
            promised.as_secs_f64(),
            if is_inside { "" } else { "  !" }
        );
    }
    Ok(outside)
}

/// The time announced before the first step is over: the expected time or, if there is none, the maximum.
fn promise(said: &str) -> Option<Duration> {
    let heading = || said.lines().take_while(|line| !line.starts_with('['));
    let after = |words: &str| heading().filter_map(|line| span(line.split_once(words)?.1)).last();
    after("about ").or_else(|| after("at most "))
}

/// `58 s`, `4 min 40 s`, `1 h 3 min`.
fn span(text: &str) -> Option<Duration> {
    let mut seconds = 0.0;
    let mut words = text.split([' ', ',']).filter(|word| !word.is_empty());
    let mut any = false;
    while let Some((number, unit)) = words.next().and_then(|word| Some((word.parse::<f64>().ok()?, words.next()?))) {
        seconds += number
            * match unit {
                "ms" => 1e-3,
                "s" => 1.0,
                "min" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        any = true;
    }
    any.then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promise_is_what_is_said_before_the_first_step() {
        let said = "meta: 3 steps on /srv, at most 4 min 40 s\nabout 2.2 s, by a trial of a few files\n[1/3] create at most 9 s left\n";
        assert_eq!(promise(said), Some(Duration::from_secs_f64(2.2)));
        assert_eq!(span("1 h 3 min"), Some(Duration::from_secs(3780)));
        assert_eq!(span("30 s of load, plus making the data"), Some(Duration::from_secs(30)));
        assert_eq!(promise("qd1: no such directory"), None);
    }
}

//! `cargo xtask lab`: the binary on another kernel and on devices that this machine lacks, in one boot of a virtual
//! machine; each scenario is a file of `xtask/lab`, and says what has to come of it.
//!
//! The machine is emulated, so that it needs neither root nor hardware: its timings mean nothing, its behaviour does.
//! Devices made on this machine, for benches, are in [`disks`].

mod boot;
mod claim;
mod disks;
mod initramfs;
pub(crate) mod powercut;
mod scenario;
mod simulated;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use self::boot::{Outcome, Sent};
pub(crate) use self::disks::*;
pub(crate) use self::initramfs::Archive;
use self::scenario::{Run, Scenario};
pub(crate) use self::simulated::{Simulated, open_up};
use crate::packages::{self, QEMU, Unpacked};
use crate::{clock, cmd, metadata, setup};

/// The probability from which on a report is sure of a kind of storage: its text drops the "probably" there.
const SURE: f64 = 0.9;

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these scenarios (all without); `list` prints them
    names: Vec<String>,
    /// Only the short form, which the tests run
    #[arg(long)]
    short: bool,
    /// This binary instead of a static one built for it
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Keep each run's output in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Boots, runs the scenarios, and reports what did not come out as it should. False where something did not.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let all = Scenario::all(&cmd::root().join("xtask/lab"))?;
    if args.names.iter().any(|name| name == "list") {
        for scenario in &all {
            println!("{:<16} {}{}", scenario.name, scenario.about, if scenario.short { " (short)" } else { "" });
        }
        return Ok(true);
    }
    let chosen = Scenario::chosen(all, &args.names, args.short)?;
    let packages = match available() {
        Ok(packages) => packages,
        Err(why) => {
            println!("SKIPPED: {}", format!("{why:#}").lines().next().unwrap_or_default());
            return Ok(true);
        }
    };
    let binary = match &args.binary {
        Some(binary) => std::path::absolute(binary)?,
        None => build()?,
    };
    catch_signals()?;
    println!(
        "one boot of Linux {} for {} scenarios; timings under emulation mean nothing",
        packages.release,
        chosen.len()
    );
    let (outcome, took) = clock::timed(|| boot::boot(&chosen, &binary, &packages));
    let outcome = outcome?;
    if let Some(dir) = &args.keep {
        keep(dir, &outcome)?;
    }
    let mut wrong = 0;
    for scenario in &chosen {
        let broken = judge(scenario, &outcome);
        println!("{} {:<16} {}", if broken.is_empty() { "ok    " } else { "FAILED" }, scenario.name, scenario.about);
        broken.iter().for_each(|line| println!("       {}", line.replace('\n', "\n       ")));
        wrong += usize::from(!broken.is_empty());
    }
    if !outcome.is_whole() {
        println!("the machine ended early; its console:\n{}", cmd::tail(&outcome.console, 20));
    }
    println!("lab: {} ok, {wrong} failed ({:.0} s)", chosen.len() - wrong, took.as_secs_f64());
    Ok(wrong == 0)
}

/// The packages, fetched if need be; or why there can be no lab here.
fn available() -> Result<Unpacked> {
    ensure!(QEMU.is_there(), "{} is missing (Debian package {})", QEMU.program, QEMU.name);
    packages::fetch()?;
    Unpacked::found()?.context("the lab's packages are gone")
}

/// The static binary, unoptimised: it is built in a fraction of the time, and its speed is of no account here.
fn build() -> Result<PathBuf> {
    setup::run()?;
    cmd::run(cmd::cargo().args(["build", "--package", "qd1", "--bin", "qd1", "--target", setup::MUSL]))?;
    let binary = metadata::target_dir()?.join(setup::MUSL).join("debug/qd1");
    ensure!(cmd::is_static(&binary)?, "{} is not static", binary.display());
    Ok(binary)
}

/// What is wrong with a scenario's runs.
fn judge(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let of_scenario =
        |kind: &'static str| outcome.sent.iter().filter(move |sent| sent.kind == kind && sent.name == scenario.name);
    let mut broken = Vec::new();
    match of_scenario("scenario").next() {
        Some(sent) if sent.status == 0 => {}
        Some(sent) => broken.push(format!("the script ended with {}: {}", sent.status, sent.stdout.trim_end())),
        None => broken.push("the machine never came to its end".to_owned()),
    }
    for (number, run) in scenario.runs.iter().enumerate() {
        let sent = of_scenario("run").find(|sent| sent.number == number);
        let of_run = sent.map_or_else(|| vec!["did not run".to_owned()], |sent| judge_run(run, sent));
        broken.extend(of_run.into_iter().map(|line| format!("qd1 {}: {line}", run.qd1)));
    }
    broken
}

fn judge_run(run: &Run, sent: &Sent) -> Vec<String> {
    let mut broken = Vec::new();
    if sent.status != run.exit {
        broken.push(format!("exit code {} instead of {}; it said: {}", sent.status, run.exit, sent.stderr.trim_end()));
    }
    for (parts, said) in [(&run.stderr, &sent.stderr), (&run.stdout, &sent.stdout)] {
        let missing = parts.iter().filter(|part| !said.contains(*part));
        broken.extend(missing.map(|part| format!("it did not say {part:?} but: {}", said.trim_end())));
    }
    if !run.wants_report() {
        return broken;
    }
    let Ok(report) = serde_json::from_str::<Value>(&sent.stdout) else {
        broken.push("it printed no report".to_owned());
        return broken;
    };
    let findings: Vec<String> = report["findings"].as_array().into_iter().flatten().map(shown).collect();
    let found = |id: &String| findings.iter().any(|finding| finding.starts_with(id.as_str()));
    let missing = run.findings.iter().filter(|id| !found(id));
    broken.extend(missing.map(|id| format!("no finding {id} among {findings:?}")));
    let unwanted = run.no_findings.iter().filter(|id| found(id));
    broken.extend(unwanted.map(|id| format!("a finding {id} among {findings:?}")));
    broken.extend(confidently_wrong(&run.kinds, &report));
    broken.extend(run.claims.iter().filter_map(|claim| claim.broken_by(&report)));
    broken
}

/// The kind of storage that a report is sure of though it is not among `kinds`, or that it says nothing of kinds.
fn confidently_wrong(kinds: &[String], report: &Value) -> Option<String> {
    let top = &report["identity"]["kinds"][0];
    let (kind, probability) = (top["kind"].as_str(), top["probability"].as_f64());
    match (kind, probability) {
        _ if kinds.is_empty() => None,
        (Some(kind), Some(probability)) => {
            let is_wrong = probability >= SURE && !kinds.iter().any(|right| right == kind);
            is_wrong.then(|| format!("it is sure ({probability:.2}) of {kind}, which is none of {kinds:?}"))
        }
        _ => Some("it says nothing of kinds of storage".to_owned()),
    }
}

fn shown(finding: &Value) -> String {
    let text = |key: &str| finding[key].as_str().unwrap_or_default();
    format!("{} ({})", text("id"), text("evidence"))
}

/// The scenarios that check one disk several times.
pub(crate) const REPEATED: [&str; 2] = ["dm-moving", "qemu-throttled"];

/// Runs one of these, and returns the files in `dir` that have the reports.
pub(crate) fn reports(name: &str, dir: &Path) -> Result<Vec<PathBuf>> {
    available()?;
    let (names, keep) = (vec![name.to_owned()], Some(dir.to_owned()));
    ensure!(
        run(&Args { names, short: false, binary: None, keep })?,
        "the scenario {name} did not come out as it should"
    );
    let mut files: Vec<PathBuf> = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "out"));
    files.sort();
    Ok(files)
}

/// Writes what each run said to files.
fn keep(dir: &Path, outcome: &Outcome) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for sent in outcome.sent.iter().filter(|sent| sent.kind == "run") {
        let name = format!("{}-{}", sent.name, sent.number);
        fs::write(dir.join(format!("{name}.out")), &sent.stdout)?;
        fs::write(dir.join(format!("{name}.err")), &sent.stderr)?;
    }
    fs::write(dir.join("console"), &outcome.console).context("cannot keep the console")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(kind: &str, status: i32, stdout: &str, stderr: &str) -> Sent {
        let [kind, name, stdout, stderr] = [kind, "n", stdout, stderr].map(str::to_owned);
        Sent { kind, name, number: 0, status, stdout, stderr }
    }

    fn judged(sent: Vec<Sent>) -> Vec<String> {
        let text = "about = 'x'\n[[run]]\nqd1 = 'x --json'\nexit = 1\nfindings = ['bad']\nno_findings = ['worse']\n\
                    stderr = ['EIO']\nexpect = [{ at = '/n', equals = 1 }]\n";
        judge(&Scenario::parse("n", text).unwrap(), &Outcome { sent, console: String::new() })
    }

    const GOOD: &str = r#"{"n":1,"findings":[{"id":"bad_disk","evidence":"e"}]}"#;

    #[test]
    fn a_run_that_comes_out_as_told_is_right() {
        assert_eq!(judged(vec![sent("run", 1, GOOD, "an EIO"), sent("scenario", 0, "", "")]), [""; 0]);
    }

    #[test]
    fn everything_that_is_wrong_is_told() {
        let wrong =
            judged(vec![sent("run", 0, r#"{"n":2,"findings":[{"id":"worse"}]}"#, ""), sent("scenario", 0, "", "")]);
        assert_eq!(wrong.len(), 5, "{wrong:?}");
        assert_eq!(judged(vec![sent("run", 1, "", "EIO"), sent("scenario", 0, "", "")]).len(), 1);
    }

    #[test]
    fn a_kind_may_be_missed_but_not_be_wrong_and_sure() {
        let said = |kind: &str, probability: f64| {
            let report = serde_json::json!({"identity": {"kinds": [{"kind": kind, "probability": probability}]}});
            confidently_wrong(&["file_backed".to_owned()], &report)
        };
        assert_eq!(said("file_backed", 0.99), None);
        assert_eq!(said("nvme", 0.6), None);
        assert!(said("nvme", 0.95).is_some_and(|line| line.contains("nvme")));
        assert!(confidently_wrong(&["ram".to_owned()], &serde_json::json!({})).is_some());
        assert_eq!(confidently_wrong(&[], &serde_json::json!({})), None);
    }

    #[test]
    fn a_machine_that_ended_early_is_no_success() {
        assert_eq!(judged(vec![]).len(), 2);
        let failed = judged(vec![sent("scenario", 2, "no disk", "")]);
        assert!(failed[0].contains("ended with 2: no disk") && failed[1].contains("did not run"), "{failed:?}");
    }
}

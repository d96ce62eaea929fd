//! What a run of the campaign has to come to: a documented exit code, one clear message, what was measured printed and
//! kept.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;

use serde_json::Value;

use super::Case;
use super::arena::{Arena, Who};
use super::fault::Fault;

/// How a run ended and what it printed.
pub(super) struct Ended {
    /// `None` if it did not end.
    pub(super) status: Option<ExitStatus>,
    pub(super) stdout: PathBuf,
    pub(super) stderr: PathBuf,
}

/// The exit codes of README.md.
const DOCUMENTED: [i32; 9] = [0, 1, 2, 3, 4, 5, 129, 130, 143];

/// Why a load has no figures on a machine that stands still.
const NOTHING_DONE: [&str; 3] =
    ["no operation completed in the measured time", "did not answer any put within", "no transaction completed"];

/// What is wrong with how it ended.
pub(super) fn judged(arena: &Arena, case: &Case, ended: &Ended, others: usize) -> Vec<String> {
    let Some(status) = ended.status else { return Vec::new() };
    let [stdout, stderr] = [&ended.stdout, &ended.stderr]
        .map(|path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned());
    let mut wrong = Vec::new();
    // A signal that comes before its handler is set ends a process that has done nothing yet.
    let is_early = (case.fault.is_of_signal() || case.fault == Fault::BrokenPipe) && stdout.is_empty();
    let may_be_killed = case.fault.kills() || is_early || case.fault == Fault::InterruptTwice;
    match status.code() {
        None if may_be_killed => return wrong,
        // Another one's file is there already.
        Some(4) if case.command.is_job && case.fault == Fault::Together => {}
        // What opens files by their names is refused to root where the owner of the directory could put links there.
        Some(4) if ["run job", "app sqlite"].contains(&case.command.name) && case.who == Who::RootElsewhere => {
            return wrong;
        }
        None => wrong.push(format!("ended by signal {:?}", status.signal())),
        // `predict --verify=sqlite` keeps the commits, and its last step is refused in the same way.
        Some(1) if case.command.name == "predict" && case.who == Who::RootElsewhere => {}
        // On a busy machine a load's first operation may take longer than the load and all that waits for it.
        Some(1) if NOTHING_DONE.iter().any(|why| stdout.contains(why) || stderr.contains(why)) => {}
        Some(code) if !allowed(case.fault).contains(&code) => {
            wrong.push(format!("exit code {code}: {}", tail(&stderr)))
        }
        Some(_) => {}
    }
    if stderr.contains("panicked") || stdout.contains("panicked") {
        let from = stderr.find("panicked").unwrap_or(0);
        wrong.push(format!("it panicked: {}", stderr[from..].lines().take(2).collect::<Vec<_>>().join(" | ")));
    }
    if status.code().is_some_and(|code| matches!(code, 1 | 2 | 4 | 5))
        && stderr.trim().is_empty()
        && stdout.trim().is_empty()
    {
        let is_heard = !matches!(case.fault, Fault::StderrFull | Fault::StderrClosed);
        if is_heard && !case.fault.is_of_output() {
            wrong.push("it failed without a word".to_owned());
        }
    }
    if case.command.keeps {
        wrong.extend(kept(arena, case, &stdout, &stderr, status.code(), others));
    }
    wrong
}

/// The exit codes that a fault may lead to.
fn allowed(fault: Fault) -> Vec<i32> {
    match fault {
        Fault::None
        | Fault::Together
        | Fault::BrokenPipe
        | Fault::ReaderGone
        | Fault::StderrFull
        | Fault::StderrClosed => {
            vec![0, 3]
        }
        Fault::Interrupt | Fault::InterruptTwice => vec![0, 130],
        Fault::Terminate => vec![0, 143],
        Fault::HangUp => vec![0, 129],
        Fault::StdoutFull => vec![1],
        Fault::OutputIsInput => vec![2],
        // The standard library takes a closed stdout for one that nobody wants to read.
        Fault::StdoutClosed => vec![0, 1, 3],
        _ => DOCUMENTED.to_vec(),
    }
}

/// Whether what was measured is printed whole, and kept.
fn kept(arena: &Arena, case: &Case, stdout: &str, stderr: &str, code: Option<i32>, others: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    let runs = runs(arena, case);
    let cannot_keep = stderr.contains("will not be kept") || stderr.contains("was not kept");
    let state_is_bad = matches!(case.fault, Fault::ReadOnlyState | Fault::FullState | Fault::ForeignState);
    if case.fault == Fault::StdoutFull || case.fault == Fault::StdoutClosed || case.fault == Fault::ReaderGone {
        if runs.is_empty() {
            wrong.push(format!("a run whose report had no room is not kept: {}", tail(stderr)));
        }
        return wrong;
    }
    let report: Option<Value> = serde_json::from_str(stdout).ok();
    match &report {
        Some(report) => {
            let id = report["record"]["id"].as_str().unwrap_or_default();
            if !runs.iter().any(|run| run == id) && !cannot_keep {
                wrong.push(format!("the run {id} is not kept, and nothing says so: {}", tail(stderr)));
            }
            if case.fault == Fault::Together && runs.len() != others + 1 && !case.command.is_job {
                wrong.push(format!("{} of {} runs at once are kept", runs.len(), others + 1));
            }
        }
        None if !stdout.is_empty() => wrong.push(format!("half a report: {}", tail(stdout))),
        None if code == Some(0) => wrong.push(format!("success without a report: {}", tail(stderr))),
        // Of several jobs at once, those that find another's file there are refused.
        None if case.fault == Fault::Together && case.command.is_job => {}
        None if !runs.is_empty() && !state_is_bad => wrong.push("a run is kept, and no report was printed".to_owned()),
        None => {}
    }
    wrong
}

/// The ids of the runs that the history has.
fn runs(arena: &Arena, case: &Case) -> Vec<String> {
    // The fault is over: nothing limits this command.
    let calm = Case { fault: Fault::None, ..*case };
    let output = arena.command(&calm, &["history", "--json"]).output().unwrap();
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    rows.as_array().into_iter().flatten().filter_map(|row| Some(row["id"].as_str()?.to_owned())).collect()
}

/// After everything was killed: `restore` cleans up, and has nothing to do the second time.
pub(super) fn restored(arena: &Arena, case: &Case) -> Vec<String> {
    let calm = Case { fault: Fault::None, ..*case };
    let restore = || arena.command(&calm, &["restore"]).output().unwrap();
    let first = restore();
    let mut wrong = Vec::new();
    if !first.status.success() {
        wrong.push(format!("restore failed: {}", tail(&String::from_utf8_lossy(&first.stderr))));
    }
    let second = String::from_utf8_lossy(&restore().stdout).into_owned();
    if second != "nothing to undo\n" {
        wrong.push(format!("restore is not done after the first time: {second}"));
    }
    wrong
}

/// The end of what was said.
fn tail(text: &str) -> String {
    let start = text.len().saturating_sub(300);
    let start = (start..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[start..].trim().replace('\n', " | ")
}

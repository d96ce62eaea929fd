//! Names that the user gave: of fio's jobs, of the steps of a suite of their own, and e-mail addresses wherever they
//! are. A job is called after a customer, a ticket or a database as often as after what it does, and nobody can tell
//! which; so they are numbered, and the plan beside them says what each did. The built-in suites' names stay.

use qd1_model::{Report, Subject};
use serde_json::Value;

use super::replace_word;
use crate::rewrite::rewritten;

/// Fields that hold the name of a step, alone or in a list.
const NAMING: [&str; 4] = ["name", "step", "steps", "also_in"];
/// Names that say what a job does, and that sentences use for that: they stay in these.
const ORDINARY: [&str; 14] = [
    "read",
    "write",
    "trim",
    "commit",
    "sync",
    "fsync",
    "rw",
    "randread",
    "randwrite",
    "randrw",
    "randtrim",
    "job",
    "step",
    "test",
];
/// Options of fio whose values are names, texts or places.
const OF_FIO: [&str; 22] = [
    "name",
    "section",
    "description",
    "title",
    "filename",
    "filename_format",
    "directory",
    "opendir",
    "output",
    "aux-path",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "write_hist_log",
    "write_iolog",
    "read_iolog",
    "merge_blktrace_file",
    "exec_prerun",
    "exec_postrun",
    "buffer_pattern",
    "verify_pattern",
    "ioscheduler",
];

/// Numbers the user's names and removes e-mail addresses.
///
/// # Errors
/// When the report is no JSON, which only a figure without a value makes it.
pub(super) fn hide(report: &mut Report) -> serde_json::Result<()> {
    let names = own_names(report);
    free_texts(report, &names);
    let json = serde_json::to_vec(report)?;
    // Base64 has no at sign.
    if !names.is_empty() || json.contains(&b'@') {
        *report = rewritten(report, &json, |value| rename(value, "", &names))?;
    }
    Ok(())
}

/// The user's names of steps with what to call them, in the order of the plan.
fn own_names(report: &Report) -> Vec<(String, String)> {
    let record = &report.record;
    let word = match record.plan.subject {
        Subject::Jobs => "job",
        _ if is_own_suite(report) => "step",
        _ => return Vec::new(),
    };
    let planned =
        record.plan.steps.iter().map(|step| &step.name).chain(record.plan.skipped.iter().map(|one| &one.name));
    let mut names: Vec<(String, String)> = Vec::new();
    for name in planned.chain(record.steps.iter().map(|step| &step.name)) {
        if !names.iter().any(|(known, _)| known == name) {
            names.push((name.clone(), format!("{word}{}", names.len() + 1)));
        }
    }
    names
}

/// Whether the run is of a suite's file, not of a built-in suite, which the command calls by its name.
fn is_own_suite(report: &Report) -> bool {
    let record = &report.record;
    let is_run = record.command.get(1).is_some_and(|command| command == "run");
    is_run && record.plan.subject != Subject::Jobs && !record.command[2..].contains(&record.plan.suite)
}

/// Removes what the user wrote about their steps: only fio's own line about a job says what it does.
fn free_texts(report: &mut Report, names: &[(String, String)]) {
    if names.is_empty() {
        return;
    }
    let of_plan = report.record.plan.steps.iter_mut().map(|step| (&step.name, &mut step.title));
    let of_summary = report.summary.steps.iter_mut().map(|step| (&step.name, &mut step.title));
    for (name, title) in of_plan.chain(of_summary) {
        let line = title.strip_prefix(name.as_str()).filter(|rest| rest.starts_with(": (g="));
        *title = match line.zip(names.iter().find(|(known, _)| known == name)) {
            Some((line, (_, number))) => format!("{number}{line}"),
            None => "<title>".to_owned(),
        };
    }
    if report.record.plan.subject == Subject::Jobs {
        fio_options(&mut report.record.command, names);
        return;
    }
    report.record.plan.suite = "<suite>".to_owned();
    let of_plan = report.record.plan.criteria.iter_mut();
    for criterion in of_plan.chain(report.criteria.iter_mut().map(|judged| &mut judged.criterion)) {
        for text in [&mut criterion.label, &mut criterion.source] {
            super::replace(text, "<text>");
        }
    }
}

/// Removes the values of fio's options that are names, however they were typed.
fn fio_options(command: &mut [String], names: &[(String, String)]) {
    let shown = |value: &str| {
        let number = names.iter().find(|(name, _)| name == value).map(|(_, number)| number.clone());
        number.unwrap_or_else(|| "<text>".to_owned())
    };
    let names_something = |flag: &str| flag.starts_with('-') && OF_FIO.contains(&flag.trim_start_matches('-'));
    for at in 1..command.len() {
        if let Some((flag, value)) = command[at].split_once('=') {
            if names_something(flag) {
                command[at] = format!("{flag}={}", shown(value));
            }
        } else if names_something(&command[at - 1]) {
            command[at] = shown(&command[at]);
        }
    }
}

fn rename(value: &mut Value, key: &str, names: &[(String, String)]) {
    match value {
        Value::String(text) if NAMING.contains(&key) => {
            if let Some((_, number)) = names.iter().find(|(name, _)| name == text) {
                text.clone_from(number);
            }
            *text = without_addresses(text);
        }
        // A histogram, as base64.
        Value::String(_) if key == "hdr_v2" => {}
        Value::String(text) => {
            let is_sentence = text.contains(char::is_whitespace);
            let said = names.iter().filter(|(name, _)| is_sentence && !ORDINARY.contains(&name.as_str()));
            let renamed = said.fold(text.clone(), |text, (name, number)| replace_word(&text, name, number));
            *text = without_addresses(&renamed);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, key, names)),
        Value::Object(fields) => fields.iter_mut().for_each(|(key, field)| rename(field, key, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces e-mail addresses, and logins at a host, which look the same.
fn without_addresses(text: &str) -> String {
    let is_local = |letter: char| letter.is_alphanumeric() || "._%+-".contains(letter);
    let is_host = |letter: char| letter.is_alphanumeric() || ".-".contains(letter);
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('@') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let local = before
            .rfind(|letter| !is_local(letter))
            .map_or(0, |end| end + before[end..].chars().next().map_or(1, char::len_utf8));
        let host = after.find(|letter| !is_host(letter)).unwrap_or(after.len());
        // A full stop at the end belongs to the sentence.
        let host = after[..host].trim_end_matches(['.', '-']).len();
        if local < at && host > 0 {
            out.push_str(&before[..local]);
            out.push_str("<address>");
        } else {
            out.push_str(&rest[..=at]);
            out.push_str(&after[..host]);
        }
        rest = &after[host..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;

    fn text(report: &Report) -> String {
        serde_json::to_string(report).unwrap()
    }

    /// Cause: `[acme-billing]` of a job file and a description with an address were in a report that was to be shared.
    #[test]
    fn jobs_are_numbered_wherever_they_are_named() {
        let mut report = sample::suite();
        let plan = &mut report.record.plan;
        (plan.subject, plan.suite) = (Subject::Jobs, "fio".to_owned());
        let old = plan.steps[0].name.clone();
        plan.steps[0].name = "acme-billing".to_owned();
        plan.steps[0].title = "acme-billing: (g=0): rw=read, bs=4k".to_owned();
        plan.steps[1].title = "asked for by eve@acme.example".to_owned();
        report
            .record
            .steps
            .iter_mut()
            .filter(|step| step.name == old)
            .for_each(|step| step.name = "acme-billing".into());
        let summary = &mut report.summary.steps;
        summary.iter_mut().filter(|step| step.name == old).for_each(|step| step.name = "acme-billing".into());
        report.findings = sample::slow_vps().findings;
        report.findings[0].step = "acme-billing".to_owned();
        report.findings[0].evidence = "in acme-billing, reads waited; eve@acme.example knows.".to_owned();
        report.record.command =
            ["qd1", "fio", "--name=acme-billing", "--filename", "acme.dat", "--description=of acme", "--bs=4k"]
                .map(String::from)
                .to_vec();
        hide(&mut report).unwrap();
        let shown = text(&report);
        assert!(!shown.contains("acme") && !shown.contains("eve@"), "{shown}");
        assert_eq!(report.record.plan.steps[0].title, "job1: (g=0): rw=read, bs=4k");
        assert_eq!(report.findings[0].evidence, "in job1, reads waited; <address> knows.");
        assert_eq!(
            report.record.command.join(" "),
            "qd1 fio --name=job1 --filename <text> --description=<text> --bs=4k"
        );
    }

    #[test]
    fn steps_of_a_suite_of_ones_own_are_numbered() {
        let mut report = sample::suite();
        report.record.command = ["qd1", "run", "<path>", "<path>"].map(String::from).to_vec();
        report.record.plan.suite = "acme acceptance".to_owned();
        let names: Vec<String> = report.record.plan.steps.iter().map(|step| step.name.clone()).collect();
        hide(&mut report).unwrap();
        let shown = text(&report);
        for name in names.iter().chain([&"acme".to_owned()]) {
            assert!(!shown.contains(&format!("\"{name}")), "{name}: {shown}");
        }
        assert!(report.record.plan.steps.iter().zip(1..).all(|(step, at)| step.name == format!("step{at}")));
        assert!(report.criteria.iter().all(|judged| judged.criterion.step.starts_with("step")));
    }

    #[test]
    fn names_of_built_in_suites_stay() {
        let before = sample::slow_vps();
        let mut after = before.clone();
        hide(&mut after).unwrap();
        assert!(before == after);
    }

    #[test]
    fn addresses_are_removed_and_other_at_signs_stay() {
        for (said, shown) in [
            ("ask eve.x+1@acme.example.", "ask <address>."),
            ("(eve@acme)", "(<address>)"),
            ("rbd:a@snap1", "rbd:<address>"),
            ("4 KiB @ 2 ms, @home", "4 KiB @ 2 ms, @home"),
            ("ünï@ö.de, x@y", "<address>, <address>"),
        ] {
            assert_eq!(without_addresses(said), shown);
        }
    }
}

//! What is wrong with the runs of a scenario, according to what the machine sent.

use serde_json::Value;

use super::boot::{Outcome, Sent};
use super::scenario::{Run, Scenario};

/// The probability from which on a report is sure of a kind of storage: its text drops the "probably" there.
const SURE: f64 = 0.9;

/// What is wrong with a scenario's runs.
pub(super) fn judge(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let of_scenario =
        |kind: &'static str| outcome.sent.iter().filter(move |sent| sent.kind == kind && sent.name == scenario.name);
    let mut broken = Vec::new();
    match of_scenario("scenario").next() {
        Some(sent) if sent.status == 0 => {}
        Some(sent) => broken.push(format!("the script exited with {}: {}", sent.status, sent.stdout.trim_end())),
        None => broken.push("the machine ended before the scenario did".to_owned()),
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
        broken.push(format!("exit code {} instead of {}; stderr: {}", sent.status, run.exit, sent.stderr.trim_end()));
    }
    for (parts, said) in [(&run.stderr, &sent.stderr), (&run.stdout, &sent.stdout)] {
        let missing = parts.iter().filter(|part| !said.contains(*part));
        broken.extend(missing.map(|part| format!("expected {part:?} in the output: {}", said.trim_end())));
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
    broken.extend(unwanted.map(|id| format!("unexpected finding {id} among {findings:?}")));
    broken.extend(confidently_wrong(&run.kinds, &report));
    broken.extend(run.claims.iter().filter_map(|claim| claim.broken_by(&report)));
    broken
}

/// A complaint if a report is sure of a kind of storage that is not among `kinds`, or says nothing about kinds.
fn confidently_wrong(kinds: &[String], report: &Value) -> Option<String> {
    let top = &report["identity"]["kinds"][0];
    let (kind, probability) = (top["kind"].as_str(), top["probability"].as_f64());
    match (kind, probability) {
        _ if kinds.is_empty() => None,
        (Some(kind), Some(probability)) => {
            let is_wrong = probability >= SURE && !kinds.iter().any(|right| right == kind);
            is_wrong.then(|| format!("it is sure ({probability:.2}) of {kind}, which is not one of {kinds:?}"))
        }
        _ => Some("it says nothing about the kind of storage".to_owned()),
    }
}

fn shown(finding: &Value) -> String {
    let text = |key: &str| finding[key].as_str().unwrap_or_default();
    format!("{} ({})", text("id"), text("evidence"))
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
    fn everything_that_is_wrong_is_reported() {
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
        assert!(failed[0].contains("exited with 2: no disk") && failed[1].contains("did not run"), "{failed:?}");
    }
}

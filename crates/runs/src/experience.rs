//! How far predictions were off when programs ran on this machine: from the history, for `qd1 predict`.

use std::collections::{BTreeMap, BTreeSet};

use qd1_analysis::predict::{PastError, errors_beside, errors_of, experience};
use qd1_model::Subject;
use qd1_model::environment::Environment;
use qd1_model::history::{Filter, Row};
use qd1_model::plan::prediction::Experience;
use qd1_store::Store;

use crate::history;

/// Suites of runs with commits, and of those that ran a program whose figures are predicted.
const PREDICT: &str = "predict";
const WITH_COMMITS: [&str; 2] = [PREDICT, "check"];
const PROGRAMS: [&str; 5] = [PREDICT, "app-postgres", "app-mysql", "app-etcd", "app-sqlite"];
/// Most disks of a suite that count, and how many of its latest runs are searched for them.
const DISKS: usize = 10;
const RUNS: usize = 40;
/// Commits and a program at the same place belong together within this time, ns: a disk changes over days.
const SAME_TIME_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Returns what the kept runs of `machine` say, without `except`; nothing if there are none, or they cannot be read.
pub fn on(machine: &Environment, except: Option<&str>) -> Vec<Experience> {
    let Ok(store) = history::read() else { return Vec::new() };
    let rows = |suite: &str, most: usize| rows(&store, machine, suite, most);
    let commits: Vec<Row> = WITH_COMMITS.iter().flat_map(|suite| rows(suite, usize::MAX)).collect();
    // A disk has one vote, however often it was measured.
    let mut disks: BTreeMap<String, Vec<PastError>> = BTreeMap::new();
    for suite in PROGRAMS {
        let mut seen: BTreeSet<String> = BTreeSet::new();
        for row in rows(suite, RUNS).into_iter().filter(|row| except != Some(row.id.as_str())) {
            let disk = disk(&row);
            if seen.len() >= DISKS && !seen.contains(&disk) {
                continue;
            }
            let errors = errors(&store, machine, &commits, &row);
            if !errors.is_empty() {
                disks.entry(disk.clone()).or_default().extend(errors);
                seen.insert(disk);
            }
        }
    }
    experience(&disks.into_values().collect::<Vec<_>>())
}

/// The complete runs of a suite on this machine, the latest first.
fn rows(store: &Store, machine: &Environment, suite: &str, most: usize) -> Vec<Row> {
    let filter = Filter { suite: Some(suite.to_owned()), host: Some(machine.hostname.clone()), ..Filter::default() };
    let rows = store.find(&filter, most).unwrap_or_default();
    rows.into_iter().filter(|row| !row.interrupted && !row.unfinished).collect()
}

/// The name of a run's disk, or its path if there is no device.
fn disk(row: &Row) -> String {
    if row.device.is_empty() { row.path.clone() } else { row.device.clone() }
}

/// How far the models were off in a run.
fn errors(store: &Store, machine: &Environment, commits: &[Row], row: &Row) -> Vec<PastError> {
    let load = |id: &str| store.load(id).ok().filter(|record| is_same_machine(&record.environment, machine));
    let Some(record) = load(&row.id) else { return Vec::new() };
    if record.plan.subject == Subject::Predict {
        return errors_of(&record);
    }
    let commits = measured_near(commits, row).and_then(|near| load(&near.id));
    commits.map_or_else(Vec::new, |commits| errors_beside(&record, &commits))
}

fn is_same_machine(a: &Environment, b: &Environment) -> bool {
    let of = |machine: &Environment| (machine.hostname.clone(), machine.cpu_model.clone(), machine.cpus);
    of(a) == of(b)
}

/// The run with commits at the same place that is nearest in time.
fn measured_near<'a>(commits: &'a [Row], app: &Row) -> Option<&'a Row> {
    let apart = |row: &Row| row.started_unix_ns.abs_diff(app.started_unix_ns);
    let is_same = |row: &&Row| row.path == app.path && row.device == app.device && apart(row) <= SAME_TIME_NS;
    commits.iter().filter(is_same).min_by_key(|row| apart(row))
}

//! What predictions were off by where programs ran on this machine: from the history, for `qd1 predict`.

use std::collections::BTreeMap;

use qd1_analysis::predict::{PastError, errors_beside, errors_of, experience};
use qd1_model::environment::Environment;
use qd1_model::history::{Filter, Row};
use qd1_model::plan::prediction::Experience;
use qd1_model::{Record, Subject};
use qd1_store::Store;

use crate::session;

/// Suites of runs with commits, and of those that ran a program whose figures are predicted.
const PREDICT: &str = "predict";
const WITH_COMMITS: [&str; 2] = [PREDICT, "check"];
const PROGRAMS: [&str; 5] = [PREDICT, "app-postgres", "app-mysql", "app-etcd", "app-sqlite"];
/// The latest runs of a suite that are looked at.
const RUNS: usize = 10;
/// Commits and a program at the same place belong together within this time, ns: a disk changes over days.
const SAME_TIME_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Returns what the kept runs of `machine` say, without `except`; nothing where there are none, or they cannot be read.
pub(crate) fn on(machine: &Environment, except: Option<&str>) -> Vec<Experience> {
    let Ok(store) = session::kept_runs() else { return Vec::new() };
    let commits: Vec<Row> = WITH_COMMITS.iter().flat_map(|suite| rows(&store, suite, usize::MAX)).collect();
    // A place has one vote, however often it was measured.
    let mut places: BTreeMap<(String, String), Vec<PastError>> = BTreeMap::new();
    for row in PROGRAMS.iter().flat_map(|suite| rows(&store, suite, RUNS)) {
        if except == Some(row.id.as_str()) {
            continue;
        }
        let Ok(record) = store.load(&row.id) else { continue };
        if !is_same_machine(&record.environment, machine) {
            continue;
        }
        let errors = if record.plan.subject == Subject::Predict {
            errors_of(&record)
        } else {
            measured_near(&store, &commits, &row).map_or_else(Vec::new, |commits| errors_beside(&record, &commits))
        };
        places.entry((row.device, row.path)).or_default().extend(errors);
    }
    experience(&places.into_values().collect::<Vec<_>>())
}

fn rows(store: &Store, suite: &str, most: usize) -> Vec<Row> {
    let filter = Filter { suite: Some(suite.to_owned()), ..Filter::default() };
    let rows = store.find(&filter, most).unwrap_or_default();
    rows.into_iter().filter(|row| !row.interrupted && !row.unfinished).collect()
}

fn is_same_machine(a: &Environment, b: &Environment) -> bool {
    let of = |machine: &Environment| (machine.hostname.clone(), machine.cpu_model.clone(), machine.cpus);
    of(a) == of(b)
}

/// The run with commits that was made at the same place nearest in time.
fn measured_near(store: &Store, commits: &[Row], app: &Row) -> Option<Record> {
    let apart = |row: &Row| row.started_unix_ns.abs_diff(app.started_unix_ns);
    let is_same = |row: &&Row| row.path == app.path && row.device == app.device && apart(row) <= SAME_TIME_NS;
    let nearest = commits.iter().filter(is_same).min_by_key(|row| apart(row))?;
    store.load(&nearest.id).ok()
}

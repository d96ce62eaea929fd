//! The thresholds that verdicts are based on: the built-in `thresholds.toml`, or the user's file in the same format.
//!
//! A mistake in such a file would silently reverse verdicts, so everything that can be checked is checked here.

use anyhow::{Context, Result, bail, ensure};
use qd1_model::Subject;
use qd1_model::metric::{Better, METRICS, metric};
use qd1_model::plan::criterion::Criterion;
use qd1_model::verdict::Thresholds;

use qd1_model::Problem;

const BUILTIN: &str = include_str!("thresholds.toml");

/// Returns the built-in thresholds.
pub fn builtin() -> Thresholds {
    parse(BUILTIN).expect("thresholds.toml is checked by a test")
}

/// Returns the thresholds for a run of `subject`: the built-in ones if the run has their steps.
pub fn of_run(subject: Subject) -> Thresholds {
    match subject {
        Subject::Check => builtin(),
        // Other suites have their own criteria; the classes would only be "not resolved".
        _ => Thresholds { class: Vec::new() },
    }
}

/// Reads the user's own thresholds; `file` is their name in messages. An error in them counts as wrong usage, not as a
/// failed run.
///
/// # Errors
/// As [`parse`].
pub fn own(file: &str, text: &str) -> Result<Thresholds, Problem> {
    let read = parse(text).with_context(|| format!("thresholds {file}"));
    read.map_err(|error| Problem::usage(format!("{error:#}").trim_end()))
}

/// Reads the text of thresholds.
///
/// # Errors
/// When they cannot be parsed or contradict themselves; the message names the class and the criterion.
pub fn parse(text: &str) -> Result<Thresholds> {
    let thresholds: Thresholds = toml::from_str(text)?;
    ensure!(!thresholds.class.is_empty(), "there is no [[class]]; a verdict needs at least one");
    for (at, class) in thresholds.class.iter().enumerate() {
        let name = &class.name;
        ensure!(
            thresholds.class[..at].iter().all(|earlier| earlier.name != *name),
            "class {name:?} is defined twice; give each [[class]] its own name"
        );
        ensure!(!class.criterion.is_empty(), "class {name:?} has no [[class.criterion]]; a class needs at least one");
        for (at, criterion) in class.criterion.iter().enumerate() {
            check(criterion).with_context(|| {
                let Criterion { step, op, metric, .. } = criterion;
                format!("class {name:?}, criterion {} (step {step}, op {}, metric {metric})", at + 1, op.name())
            })?;
        }
    }
    Ok(thresholds)
}

/// Checks one criterion. An unknown step is accepted, since it may belong to the user's own suite.
fn check(criterion: &Criterion) -> Result<()> {
    let Some(metric) = metric(&criterion.metric) else {
        let known: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
        bail!("unknown metric {:?}; choose from {}", criterion.metric, known.join(", "));
    };
    let (pass, fail) = (criterion.pass, criterion.fail);
    for (key, value) in [("pass", pass), ("fail", fail)] {
        ensure!(value.is_finite() && value >= 0.0, "{key} = {value} is not a finite figure of 0 or more");
    }
    match metric.better {
        Better::Lower => {
            ensure!(pass <= fail, "lower is better, so pass ({pass}) must not be above fail ({fail})");
        }
        Better::Higher => {
            ensure!(pass >= fail, "higher is better, so pass ({pass}) must not be below fail ({fail})");
        }
    }
    ensure!(!criterion.source.trim().is_empty(), "source is empty; state where the figures come from");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(edit: impl Fn(&str) -> String) -> String {
        own("/mine.toml", &edit(BUILTIN)).unwrap_err().to_string()
    }

    #[test]
    fn the_built_in_thresholds_have_five_classes_with_sources() {
        let names: Vec<_> = builtin().class.iter().map(|class| class.name.clone()).collect();
        assert_eq!(names, ["etcd", "database", "database-reads", "web", "bulk"]);
        assert!(builtin().class.iter().flat_map(|class| &class.criterion).all(|c| !c.source.is_empty()));
    }

    /// "Expected by class of storage" was once a source, and a disk with commits of 0.3 ms was too slow for databases.
    #[test]
    fn every_source_is_explained_where_the_verdicts_are() {
        let documented = include_str!("../../../docs/verdicts.md");
        let is_documented = |source: &str| documented.lines().any(|line| line.starts_with(&format!("| {source} |")));
        for criterion in builtin().class.iter().flat_map(|class| &class.criterion) {
            // One criterion may have two sources, for its two bounds.
            let whole = is_documented(&criterion.source);
            let each = criterion.source.split("; ").all(is_documented);
            assert!(whole || each, "{}: {}", criterion.step, criterion.source);
            assert!(!criterion.source.contains("expected"), "{}", criterion.source);
        }
    }

    #[test]
    fn etcd_is_judged_by_the_sync_alone_as_its_own_metric_is() {
        let etcd = builtin().class.remove(0);
        let sync = &etcd.criterion[0];
        assert_eq!((sync.metric.as_str(), sync.pass, sync.fail), ("sync_p99_ns", 2e6, 10e6));
    }

    #[test]
    fn a_mistake_in_the_form_is_named_with_its_file_and_line() {
        let error = error_of(|text| text.replacen("pass = 10_000_000.0", "pass = \"10 ms\"", 1));
        let line = BUILTIN.lines().position(|line| line == "pass = 10_000_000.0").unwrap() + 1;
        assert!(error.contains("thresholds /") && error.contains(&format!("line {line},")), "{error}");
        let error = error_of(|text| text.replace("title = \"bulk\"", "heading = \"bulk\""));
        assert!(error.contains("unknown field `heading`"), "{error}");
    }

    #[test]
    fn an_unknown_metric_is_refused_with_the_list_of_known_ones() {
        let error = error_of(|text| text.replace("sync_p99_ns", "sync_p98_ns"));
        for part in ["class \"etcd\"", "unknown metric \"sync_p98_ns\"", "lat_p999_ns, ", "bytes_per_second"] {
            assert!(error.contains(part), "{part} is not in: {error}");
        }
    }

    #[test]
    fn pass_and_fail_in_the_wrong_order_are_refused() {
        let error = error_of(|text| text.replacen("pass = 2_000_000.0", "pass = 60_000_000.0", 1));
        assert!(error.contains("lower is better") && error.contains("step wal"), "{error}");
        let error = error_of(|text| text.replacen("pass = 200_000_000.0", "pass = 1.0", 1));
        assert!(error.contains("higher is better") && error.contains("step seqwrite"), "{error}");
    }

    #[test]
    fn a_step_of_the_users_own_suite_is_accepted() {
        let mine = BUILTIN.replace("\"wal\"", "\"my_own_step\"");
        assert_eq!(parse(&mine).unwrap().class[0].criterion[0].step, "my_own_step");
    }

    #[test]
    fn incomplete_and_duplicate_classes_are_refused() {
        assert!(error_of(|_| "class = []".into()).contains("no [[class]]"));
        assert!(error_of(|text| text.replace("name = \"web\"", "name = \"bulk\"")).contains("defined twice"));
        assert!(
            error_of(|text| text.replace("Red Hat OpenShift, recommended etcd practices; etcd docs: hardware", " "))
                .contains("source is empty")
        );
        let error = error_of(|_| "[[class]]\nname = \"a\"\ntitle = \"a\"\ncriterion = []\n".into());
        assert!(error.contains("no [[class.criterion]]"), "{error}");
    }
}

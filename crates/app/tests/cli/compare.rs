//! `qd1 compare`: runs of the history and files of others, what it says and how it ends.

use std::fs;
use std::path::PathBuf;

use predicates::prelude::*;
use serde_json::{Value, json};

use crate::common::{self, Place, list};

const QUICK: [&str; 2] = ["--only", "read32"];

/// A file of the importer's samples.
fn sample(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../import/tests/samples").join(name);
    path.to_str().unwrap().to_owned()
}

/// fio's JSON of one job at 32 in flight.
fn fio_json(iops: f64, samples: u32) -> String {
    let read = json!({
        "total_ios": 200_000, "iops": iops, "bw_bytes": 4096.0 * iops, "runtime": 20_000,
        "iops_mean": iops, "iops_stddev": iops / 100.0, "iops_samples": samples,
    });
    let options =
        json!({ "rw": "randread", "bs": "4k", "iodepth": "32", "direct": "1", "ioengine": "libaio", "size": "1g" });
    let job = json!({ "jobname": "mine", "error": 0, "elapsed": 21, "job options": options, "read": read });
    json!({ "fio version": "fio-3.36", "timestamp": 1_795_390_330_u64, "jobs": [job] }).to_string()
}

#[test]
fn runs_of_the_history_are_compared_step_by_step() {
    let place = Place::new();
    let (first, _second) = (place.report(&QUICK), place.report(&QUICK));
    let id = first["record"]["id"].as_str().unwrap();
    let compared = common::json(place.qd1(&["compare", &id[..8], "@latest", "--json"]));
    let rows = list(&compared["rows"]);
    // On a busy machine a fifth of a second does not resolve every figure.
    let row = rows.iter().find(|row| row["step"] == "read32").expect("both have a figure");
    assert_eq!(row["op"], "read");
    assert_eq!((list(&row["figures"]).len(), list(&row["effects"]).len()), (2, 1));
    assert_eq!(compared["basis"], "visits", "one run of each does not say how runs differ");
    place
        .qd1(&["compare", "@previous", "@latest"])
        .assert()
        .success()
        .stdout(predicate::str::contains("read32").and(predicate::str::contains("unknown")));
}

#[test]
fn a_run_and_fios_json_meet_by_what_they_do() {
    let place = Place::new();
    place.report(&QUICK);
    let file = place.beside("out.txt");
    fs::write(&file, format!("fio: some warning\n{}\n", fio_json(5e4, 40))).unwrap();
    let compared = common::json(place.qd1(&["compare", "@latest", file.to_str().unwrap(), "--json"]));
    let rows = list(&compared["rows"]);
    assert!(rows.iter().any(|row| row["step"] == "read32" && row["metric"] == "iops"), "{compared}");
    let aspects: Vec<&Value> = list(&compared["differences"]).iter().map(|one| &one["aspect"]).collect();
    assert!(aspects.contains(&&json!("tool")), "{aspects:?}");
    assert!(list(&compared["sides"][1]["missing"]).iter().any(|what| what.as_str().unwrap().contains("interval")));
}

/// Files of `--json` stand for their runs, also on a machine without the history.
#[test]
fn a_report_as_json_is_its_run() {
    let place = Place::new();
    let (first, second) = (place.report(&QUICK), place.report(&QUICK));
    let other = Place::new();
    let files = [("before.json", first), ("after.json", second)].map(|(name, report)| {
        let path = other.beside(name);
        fs::write(&path, report.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let said = predicate::str::contains("before").and(predicate::str::contains("read32"));
    other.qd1(&["compare", &files[0], &files[1]]).assert().success().stdout(said);
    // A newer layout is not misread.
    let mut newer: Value = serde_json::from_str(&fs::read_to_string(&files[0]).unwrap()).unwrap();
    newer["schema_version"] = json!(99);
    fs::write(&files[0], newer.to_string()).unwrap();
    other.qd1(&["compare", &files[0], &files[1]]).assert().code(1).stderr(predicate::str::contains("update qd1"));
}

#[test]
fn a_limit_that_is_exceeded_for_sure_is_exit_code_3() {
    let place = Place::new();
    let (linode, ovh) =
        (sample("vps-2017-linode-linode1024-fio_randread.txt"), sample("vps-2017-ovh-vpsssd1-fio_randread.txt"));
    let limit = |condition: &str, more: &[&str]| {
        place.qd1(&[&["compare", &linode, &ovh, "--fail-if", condition], more].concat()).assert()
    };
    limit("randread.iops < -10%", &[]).code(3).stdout(predicate::str::contains("FAIL"));
    limit("randread.iops > +10%", &[]).code(0).stdout(predicate::str::contains("pass"));
    limit("randread.iops < -10%", &["--format", "junit"]).code(3).stdout(predicate::str::contains("failures=\"1\""));
    limit("randread.p98 < -10%", &[]).code(2).stderr(predicate::str::contains("p99.9"));
    limit("randrea.p99 < -10%", &[]).code(2).stderr(predicate::str::contains("did you mean randread?"));
    limit("randread.sync_p99 > 1%", &[]).code(2).stderr(predicate::str::contains("only bw, iops"));
}

/// One run of each, and figures without intervals: nothing can be concluded, and nothing fails.
#[test]
fn what_cannot_be_told_fails_nothing() {
    let place = Place::new();
    let files = [1e4, 3e4].map(|iops| {
        let path = place.beside(&format!("{iops}.json"));
        fs::write(&path, fio_json(iops, 3)).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let args = ["compare", &files[0], &files[1], "--fail-if", "mine.iops > +10%"];
    place.qd1(&args).assert().success().stdout(predicate::str::contains("cannot tell"));
}

#[test]
fn groups_are_compared_by_how_their_runs_differ() {
    let place = Place::new();
    let file = |name: &str, iops: f64| {
        let path = place.beside(name);
        fs::write(&path, fio_json(iops, 40)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let a = ["a1", "a2", "a3"].iter().zip([1000.0, 1010.0, 990.0]).map(|(name, iops)| file(name, iops));
    let b = ["b1", "b2", "b3"].iter().zip([2000.0, 2020.0, 1980.0]).map(|(name, iops)| file(name, iops));
    let (a, b) = (a.collect::<Vec<_>>().join(","), b.collect::<Vec<_>>().join(","));
    let (a, b) = (format!("old={a}"), format!("new={b}"));
    let compared = common::json(place.qd1(&["compare", "--json", "--group", &a, &b]));
    assert_eq!(compared["basis"], "runs");
    let iops = list(&compared["rows"]).iter().find(|row| row["metric"] == "iops").unwrap();
    assert_eq!(iops["effects"][0]["word"], "better");
    assert!((iops["effects"][0]["ratio"]["value"].as_f64().unwrap() - 2.0).abs() < 0.01);
}

#[test]
fn wrong_words_are_one_clear_error() {
    let place = Place::new();
    place.report(&QUICK);
    let empty = place.beside("empty.txt");
    fs::write(&empty, "nothing of the kind\n").unwrap();
    let (empty, dir) = (empty.to_str().unwrap(), place.dir().to_str().unwrap());
    let yabs = sample("yabs.json");
    for (args, said) in [
        (vec!["@latest"], "nothing to compare it with"),
        (vec!["@latest", "@latest"], "is named twice"),
        (vec!["@latest", "zzzz"], "there is no file zzzz"),
        (vec!["@latest", "no/such.json"], "there is no such file"),
        (vec!["@latest", "@tomorrow"], "@yesterday"),
        (vec!["@latest", empty], "bonnie++"),
        (vec!["@latest", dir], "is a directory"),
        (vec!["@latest", &yabs], "qd1 run yabs"),
        (vec!["latest", "@latest"], "did you mean @latest?"),
        (vec![&yabs, &yabs], "is named twice"),
        (vec!["--group", "a"], "name=RUN,RUN,RUN"),
        (vec!["--group", "a="], "name=RUN,RUN,RUN"),
        (vec!["@latest", "@previous"], "there is no earlier run of"),
        (vec!["@latest", &yabs, "--fail-if", "nonsense"], "commit1.p99 > +10%"),
    ] {
        let args: Vec<&str> = std::iter::once("compare").chain(args).collect();
        place.qd1(&args).assert().code(2).stdout("").stderr(predicate::str::contains(said));
    }
}

/// The figures that are named beforehand decide, and one that is worse is exit code 3 where that is asked.
#[test]
fn a_primary_figure_that_is_worse_is_exit_code_3_where_asked() {
    let place = Place::new();
    let (fast, slow) =
        (sample("vps-2017-linode-linode1024-fio_randread.txt"), sample("vps-2017-ovh-vpsssd1-fio_randread.txt"));
    let code = |first: &str, second: &str, more: &[&str]| {
        place.qd1(&[&["compare", first, second], more].concat()).output().unwrap().status.code()
    };
    assert_eq!(code(&fast, &slow, &["--fail-on", "worse"]), Some(3));
    assert_eq!(code(&slow, &fast, &["--fail-on", "worse"]), Some(0));
    assert_eq!(code(&fast, &slow, &[]), Some(0));
}

/// Two directories, visit by visit: a comparison as any other, and two runs in the history.
#[test]
fn two_places_in_turn_are_a_comparison_and_two_runs() {
    let place = Place::new();
    let other = place.beside("other");
    fs::create_dir(&other).unwrap();
    let brief = ["--size", "32MiB", "--runtime", "600ms", "--only", "qd1,read32", "--seed", "7", "--quiet"];
    let args = [&["compare", "--in-turn", place.dir_str(), other.to_str().unwrap(), "--json"], &brief[..]].concat();
    let compared = common::json(place.qd1(&args));
    assert_eq!(compared["basis"], "pairs");
    assert_eq!(compared["sides"][0]["name"], "target");
    assert_eq!(compared["sides"][1]["name"], "other");
    let rows = list(&compared["rows"]);
    let primary: Vec<&str> =
        rows.iter().filter(|row| row["is_primary"] == true).map(|row| row["metric"].as_str().unwrap()).collect();
    assert!(primary.contains(&"iops") && primary.contains(&"lat_p50_ns"), "{primary:?}");
    place.assert_empty();
    assert_eq!(common::names(&other), Vec::<String>::new());
    let kept = place.runs();
    assert_eq!(kept.len(), 2);
    let shown = |row: &Value| common::json(place.qd1(&["history", "show", row["id"].as_str().unwrap(), "--json"]));
    let records = [shown(&kept[0]), shown(&kept[1])];
    for (record, path) in records.iter().map(|report| &report["record"]).zip([&other, place.dir()]) {
        assert_eq!(record["plan"]["target"]["path"], path.to_str().unwrap());
        assert_eq!(record["plan"]["subject"], "check");
        let visits = |name: &str| common::find(&record["plan"]["steps"], "name", name)["visits"].clone();
        assert_eq!((visits("qd1"), visits("read32")), (json!(24), json!(6)));
        assert_eq!(record["command"][2], "--in-turn");
    }
    // Later they are two runs of the history.
    place.qd1(&["compare", "@previous", "@latest"]).assert().code(2);
    let ids = [&kept[1], &kept[0]].map(|row| row["id"].as_str().unwrap());
    assert_eq!(common::json(place.qd1(&["compare", ids[0], ids[1], "--json"]))["basis"], "visits");
}

#[test]
fn a_dry_run_in_turn_says_what_both_take_and_does_nothing() {
    let place = Place::new();
    let args = ["compare", "--in-turn", place.dir_str(), place.dir_str(), "--size", "32MiB", "--quick", "--dry-run"];
    let output = place.qd1(&args).output().unwrap();
    let plan = common::said(&output.stdout);
    for word in ["qd1", "12 visits", "alternating", "both ", "written", "seed"] {
        assert!(plan.contains(word), "{word} is not in\n{plan}");
    }
    assert!(output.status.success());
    place.assert_empty();
    assert!(!place.history().exists());
}

#[test]
fn in_turn_wants_two_places_that_can_be_measured() {
    let place = Place::new();
    for (args, said) in [
        (vec!["--in-turn", place.dir_str()], "2 values"),
        (vec!["--in-turn", place.dir_str(), "/nonexistent"], "does not exist"),
        (vec!["--in-turn", place.dir_str(), "/proc"], "no disk to measure"),
        (vec!["--in-turn", place.dir_str(), place.dir_str(), "--only", "nosuch"], "nosuch"),
        (vec!["@latest", "@previous", "--quick"], "cannot be used with"),
        (vec!["@latest", "--in-turn", place.dir_str(), place.dir_str()], "cannot be used with"),
    ] {
        let args: Vec<&str> = std::iter::once("compare").chain(args).collect();
        place.qd1(&args).assert().code(2).stdout("").stderr(predicate::str::contains(said));
    }
    place.assert_untouched();
}

//! `qd1 run` and `qd1 suites` from the command line to the result: built-in suites, files of one's own, sweeps,
//! criteria.
//!
//! The runs are too short for figures; what is asserted holds at any length.

use std::collections::BTreeSet;
use std::fs;

use predicates::prelude::*;
use serde_json::Value;

use crate::common::{self, BRIEF, Place, find, int, list, step};
use crate::kept::kept;

const DOCS: &str = include_str!("../../../../docs/suites.md");

/// The suites that come with qd1, and how many steps each has.
const BUILTIN: [(&str, usize); 10] = [
    ("check", 16),
    ("vps-latency", 24),
    ("etcd-wal", 1),
    ("p99bench", 8),
    ("digitalocean", 5),
    ("vultr-nvme", 15),
    ("vultr-hdd", 15),
    ("yabs", 4),
    ("kdiskmark", 8),
    ("dd", 6),
];

/// Steps shorter still, for suites of many.
const TINY: [&str; 6] = ["--size", "64MiB", "--runtime", "60ms", "--quick", "--quiet"];

/// The example of docs/suites.md.
fn example() -> &'static str {
    DOCS.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example in docs/suites.md")
}

/// A suite of one's own beside the directory to measure.
fn written(place: &Place, text: &str) -> String {
    let file = place.beside("mine.toml");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

fn run(place: &Place, what: &str, args: &[&str]) -> assert_cmd::Command {
    place.qd1(&[&["run", what, place.dir_str()], args].concat())
}

fn report(place: &Place, what: &str, args: &[&str]) -> Value {
    common::json(run(place, what, &[args, &["--json"]].concat()))
}

fn ran(report: &Value) -> Vec<&str> {
    list(&report["record"]["steps"]).iter().map(|step| step["name"].as_str().unwrap()).collect()
}

#[test]
fn the_example_of_the_documentation_runs_as_it_says() {
    let place = Place::new();
    let mine = written(&place, example());
    let report = report(&place, &mine, &BRIEF);
    assert_eq!(ran(&report), ["randread-1", "randread-32", "randwrite-1", "randwrite-32", "log"]);
    assert_eq!(report["record"]["plan"]["suite"], "shop");
    place.assert_empty();
    let judged: Vec<String> = list(&report["criteria"])
        .iter()
        .map(|one| {
            let part = |key: &str| one["criterion"][key].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", part("step"), part("op"), part("metric"))
        })
        .collect();
    let expected = [
        "randread-1 read lat_p99_ns",
        "randwrite-1 write lat_p99_ns",
        "randread-32 read iops",
        "log commit sync_p99_ns",
    ];
    assert_eq!(judged, expected);
    assert_eq!(report["criteria"][2]["criterion"]["published"], 10_000.0);
    assert_eq!(report["verdicts"], Value::Array(Vec::new()), "the classes of the check are the check's");
}

#[test]
fn every_built_in_suite_runs_whole_and_leaves_nothing() {
    for (name, steps) in BUILTIN {
        let place = Place::quiet();
        let args = [&["run", name, place.dir_str()], &TINY[..], &["--json"]].concat();
        let run = || common::json(assert_cmd::Command::from_std(place.real_time(&args)));
        let idle = |report: &Value| -> BTreeSet<String> {
            let empty = |step: &&Value| list(&step["streams"]).is_empty();
            list(&report["record"]["steps"]).iter().filter(empty).map(|step| step["name"].to_string()).collect()
        };
        let report = run();
        // --quick looks for no caches and makes no files.
        let steps = if name == "check" { steps - 6 } else { steps };
        assert_eq!(ran(&report).len(), steps, "{name}");
        // On a machine that stalls, a step of 60 ms may end before its first request does, but not each time.
        let mut never = idle(&report);
        for _ in 0..3 {
            if !never.is_empty() {
                never = &never & &idle(&run());
            }
        }
        assert!(never.is_empty(), "{name}: {never:?} measured nothing");
        for judged in list(report.get("criteria").unwrap_or(&Value::Array(Vec::new()))) {
            let (figure, why) = (&judged["figure"], judged["why"].as_str().unwrap());
            assert!(figure.is_object() || !why.is_empty(), "{name}: {judged}");
        }
        place.assert_empty();
        assert_eq!(place.runs()[0]["suite"], name);
    }
}

#[test]
fn the_built_in_suites_are_listed_and_can_be_copied_and_run() {
    let place = Place::new();
    let listed = place.qd1(&["suites"]).assert().success().get_output().stdout.clone();
    let listed = String::from_utf8(listed).unwrap();
    for (name, steps) in BUILTIN {
        let line = format!("{steps} step{}; at most ", if steps == 1 { "" } else { "s" });
        let of_this = listed.split(&format!("\n{name} ")).nth(usize::from(!listed.starts_with(&format!("{name} "))));
        assert!(of_this.is_some_and(|text| text.contains(&line)), "{name} is not in\n{listed}");
        let toml = place.qd1(&["suites", name]).assert().success().get_output().stdout.clone();
        let copy = written(&place, &String::from_utf8(toml).unwrap());
        let plan = |what: &str| {
            let args = ["--dry-run", "--seed", "7", "--size", "64MiB"];
            run(&place, what, &args).assert().success().get_output().stdout.clone()
        };
        assert_eq!(plan(&copy), plan(name), "{name}");
    }
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
}

#[test]
fn the_check_is_the_suite_of_that_name() {
    let place = Place::new();
    let args = ["--only", "qd1,wal", "--seed", "5"];
    let as_suite = report(&place, "check", &[&BRIEF[..], &args].concat());
    let as_check = place.report(&args);
    assert_eq!(as_suite["record"]["plan"], as_check["record"]["plan"]);
    let classes = |report: &Value| list(&report["verdicts"]).iter().map(|v| v["class"].clone()).collect::<Vec<_>>();
    assert_eq!(classes(&as_suite), classes(&as_check));
    assert_eq!(as_suite["record"]["command"][1], "run");
    // So is a copy of it, which people make to edit.
    let copy = written(&place, &common::text(place.qd1(&["suites", "check"])));
    let of_copy = report(&place, &copy, &[&BRIEF[..], &args].concat());
    assert_eq!(classes(&of_copy), classes(&as_check));
    // Its verdicts can be failed on; whether so brief a run resolves them depends on the disk.
    let failing = run(&place, &copy, &[&BRIEF[..], &args, &["--fail-on", "not-resolved"]].concat()).output().unwrap();
    assert!(matches!(failing.status.code(), Some(0 | 3)), "{}", common::said(&failing.stderr));
}

/// A report was once chosen by the suite's name, so that a user's `limits` was shown as `qd1 limits` shows its own.
#[test]
fn a_users_suite_is_shown_as_one_whatever_its_name() {
    let place = Place::new();
    let shown = |name: &str| {
        let job = "[[job]]\nname = \"randread-1\"\nrw = \"randread\"\n";
        let file = written(&place, &format!("name = \"{name}\"\n{job}"));
        let report = report(&place, &file, &BRIEF);
        assert_eq!(report["record"]["plan"]["suite"], name);
        // Any run may have findings, evidence of the kind of storage, and slow requests that were looked at.
        let of_any = ["identity", "### Findings", "### The slowest requests"];
        let parts = report.as_object().unwrap().keys().cloned();
        let judged = list(&report["verdicts"]).len();
        let id = report["record"]["id"].as_str().unwrap();
        let page = common::text(place.qd1(&["history", "show", id, "--format", "markdown"]));
        let headings = page.lines().filter(|line| line.starts_with('#')).map(str::to_owned);
        let shown: Vec<String> = parts.chain(headings).filter(|part| !of_any.contains(&part.as_str())).collect();
        assert!(shown.contains(&"### All steps".to_owned()), "{page}");
        (report["record"]["plan"]["subject"].clone(), judged, shown)
    };
    let expected = shown("mine");
    for name in ["check", "limits", "sync", "predict", "sweep", "meta", "bonnie", "identify", "filesystems", "fio"] {
        assert_eq!(shown(name), expected, "{name}");
    }
}

#[test]
fn a_criterion_decides_the_exit_code_only_with_fail_on() {
    let place = Place::new();
    let suite = |bound: &str| {
        format!(
            "name = \"mine\"\n[[job]]\nname = \"w\"\nrw = \"randwrite\"\n[[job.criterion]]\nmetric = \"iops\"\n\
             bound = \"{bound}\"\nsource = \"nowhere\"\nlabel = \"the moon\"\n"
        )
    };
    // No disk writes so often; a busy processor may excuse it, and then it is not resolved.
    let mine = written(&place, &suite(">= 1e15"));
    let all = [&BRIEF[..], &["-v"]].concat();
    run(&place, &mine, &all).assert().code(0).stdout(predicate::str::contains("the moon (nowhere)"));
    run(&place, &mine, &[&BRIEF[..], &["--fail-on", "not-resolved"]].concat()).assert().code(3);
    // Any disk does. A machine may be too busy to say so once, not five times, and never calls it a failure.
    let mine = written(&place, &suite(">= 0"));
    let grade = |_| report(&place, &mine, &BRIEF)["criteria"][0]["grade"].as_str().unwrap().to_owned();
    let grades: Vec<String> = (0..5).map(grade).collect();
    assert!(grades.iter().any(|grade| grade == "pass") && !grades.iter().any(|grade| grade == "fail"), "{grades:?}");
    run(&place, &mine, &[&BRIEF[..], &["--fail-on", "fail"]].concat()).assert().code(0);
}

#[test]
fn the_history_judges_a_run_by_the_criteria_it_was_made_with() {
    let place = Place::new();
    let mine = written(&place, example());
    let first = report(&place, &mine, &BRIEF);
    fs::remove_file(&mine).unwrap();
    let id = first["record"]["id"].as_str().unwrap();
    let again = common::json(place.qd1(&["history", "show", id, "--json"]));
    assert_eq!(again["criteria"], first["criteria"]);
    assert_eq!(again["verdicts"], first["verdicts"]);
    for (format, words) in [
        ("human", "checkout stays below 50 ms (our contract of 2026)"),
        ("markdown", "checkout stays below 50 ms | our contract of 2026 |"),
        ("csv", "pass up to 1 ms, fail above 2 ms (checkout stays below 50 ms)"),
        ("ndjson", "\"type\":\"criterion\""),
    ] {
        let shown = place.qd1(&["history", "show", id, "--format", format]);
        { shown }.assert().success().stdout(predicate::str::contains(words));
    }
}

#[test]
fn thresholds_of_ones_own_judge_a_suite_beside_its_criteria() {
    let place = Place::new();
    let mine = written(&place, example());
    let thresholds = place.beside("classes.toml");
    fs::write(&thresholds, common::thresholds("log", "commit", "lat_p50_ns", 1.0, 2.0)).unwrap();
    let args = ["--only", "log", "--thresholds", thresholds.to_str().unwrap()];
    let report = report(&place, &mine, &[&BRIEF[..], &args].concat());
    assert_eq!(report["verdicts"][0]["judged"][0]["criterion"]["step"], "log");
    assert_eq!(list(&report["criteria"]).len(), 1);
}

#[test]
fn only_takes_stars_and_drops_the_criteria_of_other_steps() {
    let place = Place::new();
    let mine = written(&place, example());
    let report = report(&place, &mine, &[&BRIEF[..], &["--only", "*-32"]].concat());
    assert_eq!(ran(&report), ["randread-32", "randwrite-32"]);
    assert_eq!(list(&report["criteria"]).len(), 1);
    let skipped = find(&report["record"]["plan"]["skipped"], "name", "log");
    assert_eq!(skipped["why"], "left out by --only");
    let none = run(&place, &mine, &["--only", "*-64"]);
    { none }.assert().code(2).stderr(predicate::str::contains("choose from randread-1"));
}

#[test]
fn a_bad_file_is_reported_with_file_line_and_the_nearest_name() {
    let place = Place::new();
    for (old, new, words) in [
        ("iodepth = [1, 32] }", "iodeph = [1, 32] }", &["mine.toml, line 11: ", "did you mean \"iodepth\"?"][..]),
        ("metric = \"iops\"", "metric = \"ipos\"", &["mine.toml, line 21: ", "unknown metric \"ipos\""]),
        ("sync = \"fdatasync\"", "sync = \"fdatasink\"", &["mine.toml, line 31: ", "fdatasync"]),
        ("title = \"our shop's database\"", "title = [", &["mine.toml, line "]),
        ("bs = \"8k\"", "bs = \"100\"", &["randread-1: direct I/O here works in multiples of", "direct = false"]),
        ("bs = \"8k\"", "bs = \"8GiB\"", &["in flight need more than"]),
    ] {
        assert!(example().contains(old), "{old}");
        let mine = written(&place, &example().replace(old, new));
        let output = run(&place, &mine, &BRIEF).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        if new.contains("\"100\"") && output.status.success() {
            continue; // No direct I/O here, so any size will do.
        }
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(output.stdout.is_empty() && stderr.lines().count() == 1, "{stderr}");
        assert!(words.iter().all(|word| stderr.contains(word)), "{words:?} are not all in: {stderr}");
        place.assert_untouched();
    }
}

#[test]
fn a_suite_that_is_no_text_is_named() {
    let place = Place::new();
    let binary = place.beside("binary.toml");
    fs::write(&binary, [0xff, 0xfe, 0x00]).unwrap();
    let refused = run(&place, binary.to_str().unwrap(), &BRIEF);
    { refused }.assert().code(2).stdout("").stderr(predicate::str::contains("binary.toml"));
    place.assert_untouched();
}

#[test]
fn the_command_to_run_a_suite_again_works_from_anywhere() {
    let place = Place::new();
    written(&place, example());
    let args = ["run", "../mine.toml", "--json", "--size", "32MiB", "--runtime", "50ms", "--only", "log"];
    let first = common::json(place.qd1(&args));
    let id = first["record"]["id"].as_str().unwrap();
    let shown = String::from_utf8(place.qd1(&["history", "show", id]).output().unwrap().stdout).unwrap();
    let command = shown.lines().find(|line| line.starts_with("  qd1 run ")).expect("a command to paste");
    let path = std::path::Path::new(common::qd1()).parent().unwrap().to_str().unwrap().to_owned();
    let mut shell = std::process::Command::new("sh");
    let shell = place.environment(&mut shell);
    shell.env("PATH", format!("{path}:/usr/bin:/bin")).current_dir("/").args(["-c", command]);
    let again = shell.output().unwrap();
    let again: Value = serde_json::from_slice(&again.stdout).expect("it runs again");
    assert_eq!(first["record"]["plan"], again["record"]["plan"]);
}

#[test]
fn a_suite_that_sweeps_is_shown_as_one_table() {
    let (report, shown) = (&kept("suite").report, &kept("suite").shown["human"]);
    let table =
        shown.find("Steps          per second   throughput   p50").unwrap_or_else(|| panic!("no table in {shown}"));
    assert!(shown.is_ascii(), "{shown}");
    let body = shown[table..].split("\nRun it again").next().unwrap();
    // What is said before the table may name a step at the start of a line too.
    let rows = body.lines().filter(|line| line.starts_with("4k-r") || line.starts_with("8k-r")).count();
    // On a machine that stalls, a step of 60 ms may have measured nothing, and has no row.
    let measured = list(&report["record"]["steps"]).iter().filter(|step| !list(&step["streams"]).is_empty()).count();
    assert!(rows == measured && (12..=24).contains(&rows), "{rows} rows of {measured} steps: {shown}");
}

#[test]
fn a_given_file_is_only_read_by_a_suite_too() {
    let place = Place::new();
    let file = place.beside("given.bin");
    let content: Vec<u8> = (0..32u32 << 20).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(&file, &content).unwrap();
    let report = common::json(place.qd1(&["run", "kdiskmark", file.to_str().unwrap(), "--runtime", "500ms", "--json"]));
    assert!(fs::read(&file).unwrap() == content, "the file was changed");
    assert_eq!(ran(&report), ["seq1m-q8t1-read", "seq1m-q1t1-read", "rnd4k-q32t1-randread", "rnd4k-q1t1-randread"]);
    assert!(int(&step(&report, "rnd4k-q1t1-randread")["streams"][0]["lat"]["count"]) > 0);
}

/// It failed, as five steps of a sweep on a fast disk did, for a ramp that nobody had asked for.
#[test]
fn an_io_size_that_the_ramp_uses_up_is_measured_without_it() {
    let place = Place::new();
    let suite = "name = \"mine\"\ntitle = \"mine\"\nsize = \"16MiB\"\n[[job]]\nname = \"log\"\ntitle = \"log\"\n\
                 rw = \"write\"\nsync = \"fdatasync\"\ndirect = false\nfile = \"own\"\nsize = \"16MiB\"\n\
                 io_size = \"64KiB\"\nramp_time = \"20s\"\nruntime = \"1s\"\n";
    let report = report(&place, &written(&place, suite), &[]);
    let log = step(&report, "log");
    assert_eq!((log["is_without_ramp"].as_bool(), log["fault"].as_str()), (Some(true), None), "{log}");
    assert_eq!(int(&log["streams"][0]["lat"]["count"]), 16, "{log}");
    assert!(int(&log["runtime_ns"]) > 0, "{log}");
    common::find(&report["findings"], "id", "without_ramp");
}

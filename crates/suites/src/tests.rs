//! The built-in suites match their sources, sweeps and criteria match docs/suites.md, and the errors of a wrong file
//! are reported.

use std::collections::BTreeSet;

use std::collections::HashSet;

use qd1_model::OpClass;
use qd1_model::metric::METRICS;
use qd1_model::plan::criterion::Criterion;
use qd1_model::plan::{Rw, Sync};
use qd1_model::spec::Job;

use super::*;

const DOCS: &str = include_str!("../../../docs/suites.md");

#[track_caller]
fn good(text: &str) -> Suite {
    read::suite(text).unwrap_or_else(|fault| panic!("{}", fault.message("t.toml", text)))
}

#[track_caller]
fn bad(text: &str) -> String {
    read::suite(text).expect_err("this is no suite").message("t.toml", text)
}

fn names(suite: &Suite) -> Vec<&str> {
    suite.job.iter().map(|job| job.name.as_str()).collect()
}

/// `job` with a name and a random read, in a suite.
fn with(job: &str) -> String {
    format!("name = \"s\"\nsource = \"here\"\n[[job]]\nname = \"j\"\n{job}\n")
}

#[test]
fn built_in_suites_begin_with_their_documentation_and_source() {
    for known in BUILTIN {
        let suite = good(known.text);
        assert_eq!(suite.name, known.name);
        assert!(known.text.starts_with(&format!("# {}: ", known.name)), "{}", known.name);
        let unique: HashSet<&str> = names(&suite).into_iter().collect();
        assert_eq!(unique.len(), suite.job.len(), "{}", known.name);
        assert!(DOCS.contains(&format!("`{}`", known.name)), "{} is not in docs/suites.md", known.name);
        if known.name != "check" {
            assert!(known.text.contains("\n# Source: ") && !suite.source.is_empty(), "{}", known.name);
            let silent = known.text.to_lowercase().contains("nothing is judged");
            assert_eq!(suite.criteria.is_empty(), silent, "{} judges, or says that it does not", known.name);
        }
    }
}

#[test]
fn vps_latency_has_the_24_combinations_of_its_script() {
    let suite = builtin("vps-latency").unwrap();
    assert_eq!(suite.job.len(), 24);
    let first = ["4k-r70-qd1-j1", "4k-r70-qd1-j2", "4k-r70-qd2-j1", "4k-r70-qd2-j2"];
    assert_eq!(names(&suite)[..4], first);
    assert_eq!(names(&suite)[23], "8k-r50-qd4-j2");
    assert_eq!(suite.criteria.len(), 48, "reads and writes of each");
    assert!(suite.criteria.iter().all(|c| (c.pass, c.fail) == (0.3e6, 0.5e6) && c.metric == "lat_p999_ns"));
}

#[test]
fn check_looks_for_caches_shortly_and_with_full_as_its_suite_does() {
    let (check, caches) = (builtin("check").unwrap(), builtin("caches").unwrap());
    let at = |effort| check.job.iter().filter(move |job| job.runs_at(effort)).map(|job| job.name.as_str());
    let quick: Vec<&str> = at(Effort::Quick).collect();
    assert_eq!((quick.len(), quick.last()), (10, Some(&"buffered")));
    let probe = ["cold", "touch-16m", "again-16m", "flush-4k", "flush-1m"];
    // No class depends on files: a quick check spends its time on commits.
    let (last, first) = quick.split_last().unwrap();
    let default = [&probe[..], first, &["files"], &[*last]].concat();
    assert_eq!(at(Effort::Default).collect::<Vec<_>>(), default);
    // The other steps that only --full runs determine the kind of storage, as `identify` does.
    let more: Vec<&str> = at(Effort::Full)
        .filter(|name| !quick.contains(name) && *name != "files" && !name.starts_with("kind-"))
        .collect();
    assert_eq!(BTreeSet::from_iter(more.iter().copied()), BTreeSet::from_iter(names(&caches)));
    for name in more {
        let [ours, theirs] = [&check, &caches].map(|suite| {
            let job = suite.job.iter().find(|job| job.name == name).unwrap().clone();
            Job { effort: None, runtime: None, ..job }
        });
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "the same step in both");
    }
}

/// Returns the published figures of a step, and the bounds beyond which it fails.
fn published(name: &str, step: &str, metric: &str) -> Vec<(f64, f64)> {
    let suite = builtin(name).unwrap();
    let here = |c: &&Criterion| c.step == step && c.metric == metric;
    suite.criteria.iter().filter(here).map(|c| (c.published.unwrap_or(c.pass), c.fail)).collect()
}

#[test]
fn published_figures_are_those_of_their_sources() {
    assert_eq!(published("digitalocean", "bw-test", "bytes_per_second"), [(200e6, 190e6), (300e6, 190e6)]);
    assert_eq!(published("digitalocean", "randread-128", "iops"), [(5000.0, 4750.0), (6000.0, 4750.0)]);
    assert_eq!(published("digitalocean", "randwrite-1", "lat_mean_ns"), [(5e6, 5e6)]);
    assert_eq!(published("vultr-nvme", "randread-4k", "iops"), [(10_000.0, 9_500.0)]);
    assert_eq!(published("vultr-nvme", "randwrite-512k", "bytes_per_second"), [(400e6, 380e6)]);
    assert_eq!(published("vultr-nvme", "randrw-4k", "iops"), [(5_000.0, 4_750.0); 2], "half for each direction");
    assert_eq!(published("vultr-hdd", "randread-64k", "iops"), [(500.0, 475.0)]);
    assert_eq!(published("vultr-hdd", "randread-1m", "bytes_per_second"), [(100e6, 95e6)]);
    assert_eq!(published("etcd-wal", "wal", "sync_p99_ns"), [(10e6, 10e6), (2e6, 10e6)]);
    for name in ["vultr-nvme", "vultr-hdd"] {
        let suite = builtin(name).unwrap();
        let judged: HashSet<&str> = suite.criteria.iter().map(|c| c.step.as_str()).collect();
        assert_eq!((suite.job.len(), judged.len()), (15, 15), "{name}: every step is judged");
    }
}

#[test]
fn etcds_odd_size_is_buffered_and_synced_each_time() {
    let wal = builtin("etcd-wal").unwrap().job.remove(0);
    assert_eq!((wal.bs.unwrap().0, wal.direct, wal.sync), (2300, Some(false), Some(Sync::Fdatasync)));
    assert_eq!(wal.io_size.unwrap().0 / 2300, 10_029);
}

#[test]
fn the_last_key_of_a_sweep_varies_fastest() {
    let suite = good(&with("sweep = { rw = [\"randwrite\", \"randread\"], iodepth = [32, 1], bs = [\"64k\", 4096] }"));
    let order = ["randwrite-qd32-64k", "randwrite-qd32-4096", "randwrite-qd1-64k", "randwrite-qd1-4096"];
    assert_eq!(names(&suite)[..4], order.map(|name| format!("j-{name}")));
    assert_eq!(names(&suite)[7], "j-randread-qd1-4096");
    let last = suite.job.last().unwrap();
    assert_eq!((last.rw, last.iodepth, last.bs.unwrap().0), (Some(Rw::Randread), Some(1), 4096));
}

#[test]
fn names_and_titles_can_hold_the_swept_values() {
    let text =
        with("title = \"{bs} at a time\"\nrw = \"read\"\nsweep = { bs = [\"4k\", \"1MiB\"], direct = [true, false] }");
    let suite = good(&text.replace("\"j\"", "\"seq-{bs}-{direct}\""));
    assert_eq!(names(&suite), ["seq-4k-true", "seq-4k-false", "seq-1MiB-true", "seq-1MiB-false"]);
    assert_eq!(suite.job[0].title.as_deref(), Some("4k at a time"));
    let suite = good(&with("rw = \"read\"\nsweep = { direct = [true, false], rate_iops = [100.5] }"));
    assert_eq!(names(&suite), ["j-direct-rate_iops100.5", "j-buffered-rate_iops100.5"]);
}

#[test]
fn one_value_applies_to_quick_default_and_full() {
    let suite = good(&format!("size = \"64MiB\"\nprepare = 3\n{}", with("rw = \"read\"\nruntime = \"2s\"")));
    assert_eq!([Effort::Quick, Effort::Default, Effort::Full].map(|effort| suite.size.get(effort).0), [64 << 20; 3]);
    assert_eq!(suite.prepare.full.0, 3_000_000_000);
    assert_eq!(suite.job[0].runtime.unwrap().quick.0, 2_000_000_000);
}

fn criterion(job: &str, keys: &str) -> String {
    with(&format!("{job}\n[[job.criterion]]\n{keys}"))
}

#[test]
fn a_criterion_judges_each_operation_of_each_selected_step() {
    let job = "rw = \"randrw\"\nsweep = { bs = [\"4k\", \"64k\", \"1m\"], iodepth = [1, 8] }";
    let suite = good(&criterion(
        job,
        "metric = \"lat_p99_ns\"\nbound = \"<= 2ms\"\nwhere = { bs = [4096, \"1MiB\"], iodepth = 8 }",
    ));
    let judged: Vec<(&str, OpClass)> = suite.criteria.iter().map(|c| (c.step.as_str(), c.op)).collect();
    let (small, large) = ("j-4k-qd8", "j-1m-qd8");
    assert_eq!(
        judged,
        [(small, OpClass::Read), (small, OpClass::Write), (large, OpClass::Read), (large, OpClass::Write)]
    );
    assert!(suite.criteria.iter().all(|c| c.source == "here"), "the suite's source if it has none of its own");
    let of_syncs = good(&criterion("rw = \"rw\"\nsync = \"fsync\"", "metric = \"sync_p50_ns\"\nbound = \"<= 2ms\""));
    assert_eq!(of_syncs.criteria.iter().map(|c| c.op).collect::<Vec<_>>(), [OpClass::Commit]);
    let of_files =
        good(&criterion("files = { size = 1, count = 2 }", "metric = \"iops\"\nop = \"stat\"\nbound = \">= 1\""));
    assert_eq!(of_files.criteria.iter().map(|c| c.op).collect::<Vec<_>>(), [OpClass::Stat]);
}

#[test]
fn bounds_take_units_and_tolerance_relaxes_them() {
    let of = |keys: &str| {
        let one = good(&criterion("rw = \"randread\"", keys)).criteria.remove(0);
        (one.pass, one.fail, one.published)
    };
    assert_eq!(of("metric = \"lat_p99_ns\"\nbound = \"<= 300us\""), (3e5, 3e5, None));
    assert_eq!(of("metric = \"lat_p99_ns\"\nbound = \"<= 2_000_000\"\nmarginal = \"<= 0.01s\""), (2e6, 1e7, None));
    assert_eq!(of("metric = \"lat_p99_ns\"\nbound = \"<= 1ms\"\ntolerance = 10"), (1.1e6, 1.1e6, Some(1e6)));
    assert_eq!(of("metric = \"stall_share\"\nbound = \"<= 1%\"\nmarginal = \"<= 0.05\""), (0.01, 0.05, None));
    assert_eq!(of("metric = \"iops\"\nbound = \">= 5_000/s\"\ntolerance = 5.0"), (4750.0, 4750.0, Some(5000.0)));
    assert_eq!(of("metric = \"bytes_per_second\"\nbound = \">= 200 MB/s\"").0, 200e6);
    assert_eq!(of("metric = \"bytes_per_second\"\nbound = \">= 2 MiB/s\"").0, 2_097_152.0);
}

#[test]
fn errors_have_their_line_and_the_nearest_known_name() {
    for (text, line, words) in [
        (with("rw = \"read\"\niodeph = 4"), 6, &["iodeph", "[[job]]", "did you mean \"iodepth\"?"][..]),
        (with("rw = \"read\"\nfrobnicate = 4"), 6, &["frobnicate", "choose from name, title, rw"]),
        (format!("names = 1\n{}", with("rw = \"read\"")), 1, &["names", "the suite"]),
        (with("rw = \"randred\""), 5, &["randred", "randread"]),
        (with("rw = \"read\"\nbs = \"4x\""), 6, &["4x", "is not a size"]),
        (with("rw = \"read\"\nruntime = { quik = \"1s\" }"), 6, &["quik", "did you mean \"quick\"?"]),
        (with("rw = \"read\"\nruntime = \"soon\""), 6, &["soon", "is not a duration"]),
        (with("rw = \"read\"\nnumjobs = -1"), 6, &["-1"]),
        (with("rw = [\"read\"]"), 5, &["wanted string", ": rw = [\"read\"]"]),
        (with("title = \"no work\""), 3, &["j needs either rw", "or files"]),
        (with("rw = \"read\"\nfiles = { size = 1, count = 1 }"), 3, &["either"]),
        (with("files = { size = 1, cuont = 1 }"), 5, &["cuont", "files"]),
        (with("rw = \"read\"\nsweep = [1]"), 6, &["sweep must be a table of lists"]),
        (with("rw = \"read\"\nsweep = { bs = \"4k\" }"), 6, &["bs in sweep must be a list"]),
        (with("rw = \"read\"\nsweep = { bs = [] }"), 6, &["bs in sweep must be a list"]),
        (with("rw = \"read\"\nsweep = { rw = [\"read\"] }"), 6, &["rw is set twice"]),
        (with("rw = \"read\"\nsweep = { runtime = [\"1s\"] }"), 6, &["unknown key \"runtime\" in sweep"]),
        (with("rw = \"read\"\nsweep = { iodepth = [1, \"x\"] }"), 6, &["\"x\""]),
        (with("rw = \"read\"\nsweep = { bs = [4096], iodepth = [1, 1] }"), 3, &["two steps are called \"j-4096-qd1\""]),
        (with("rw = \"read\"\n[[job]]\nname = \"j\"\nrw = \"read\""), 6, &["two steps are called \"j\""]),
        (with("rw = \"read\"").replace("\"j\"", "\"a,b\""), 3, &["a,b", "','"]),
        ("name = \"s\"\n".to_owned(), 1, &["no [[job]]"]),
        ("name = \"two words\"\n[[job]]\nname = \"j\"\nrw = \"read\"".to_owned(), 1, &["one word"]),
        ("name = \"s\"\njob = 3\n".to_owned(), 2, &["[[job]]"]),
        ("title = [\n".to_owned(), 1, &["unclosed array"]),
    ] {
        let message = bad(&text);
        assert!(message.starts_with(&format!("t.toml, line {line}: ")), "{message}\nof\n{text}");
        assert!(words.iter().all(|word| message.contains(word)), "{words:?} are not all in: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
    let many = (0..40).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let text = with(&format!("rw = \"read\"\nsweep = {{ iodepth = [{many}], numjobs = [{many}] }}"));
    assert!(bad(&text).contains("1600 steps"));
}

#[test]
fn a_contradictory_criterion_is_refused() {
    let iops = "metric = \"iops\"\nbound = \">= 1\"";
    for (keys, words) in [
        ("bound = \">= 1\"", &["needs a metric", "lat_p999_ns"][..]),
        ("metric = \"lat_p99_n\"\nbound = \"<= 1\"", &["lat_p99_n", "did you mean \"lat_p99_ns\"?"]),
        ("metric = \"iops\"", &["needs a bound"]),
        ("metric = \"iops\"\nbound = \"<= 5\"", &["does not begin with >=", "better when higher"]),
        ("metric = \"lat_p50_ns\"\nbound = 5", &["<= and a figure"]),
        ("metric = \"lat_p50_ns\"\nbound = \"<= fast\"", &["no figure for lat_p50_ns", "<= 10ms"]),
        ("metric = \"bytes_per_second\"\nbound = \">= 5MB\"", &["no figure", ">= 200MB/s"]),
        ("metric = \"iops\"\nbound = \">= 5\"\nmarginal = \">= 6\"", &["marginal is stricter"]),
        ("metric = \"sync_p99_ns\"\nbound = \"<= 1ms\"", &["no step of this job", "sync_p99_ns"]),
    ] {
        let message = bad(&criterion("rw = \"randread\"", keys));
        assert!(words.iter().all(|word| message.contains(word)), "{words:?} are not all in: {message}");
    }
    for (more, word) in [
        ("tolerance = \"5 %\"", "tolerance must be a percentage"),
        ("tolerance = 100", "tolerance must be a percentage"),
        ("op = \"reed\"", "unknown op"),
        ("op = \"write\"", "no step of this job"),
        ("where = { iodepth = 1 }", "neither the job nor its sweep sets"),
        ("where = { rw = \"read\" }", "no step of this job"),
        ("labels = \"x\"", "did you mean \"label\"?"),
        ("label = 3", "a string in quotes"),
    ] {
        let message = bad(&criterion("rw = \"randread\"", &format!("{iops}\n{more}")));
        assert!(message.contains(word), "{word} is not in: {message}");
    }
    let sourceless = criterion("rw = \"randread\"", iops).replace("source = \"here\"\n", "");
    assert!(bad(&sourceless).contains("needs a source"));
}

/// Keys missing from a table are found by giving serde an unknown key.
#[test]
fn the_table_of_keys_is_what_a_job_takes() {
    let error = toml::from_str::<Job>("name = \"a\"\nnone_has_this = 1").unwrap_err();
    let listed = error.message().split("expected one of ").nth(1).expect("serde lists the fields");
    let mut takes: Vec<&str> = listed.split(", ").map(|name| name.trim_matches('`')).collect();
    takes.extend(["sweep", "criterion"]);
    let sorted = |mut names: Vec<&'static str>| {
        names.sort_unstable();
        names
    };
    takes.sort_unstable();
    assert_eq!(takes, sorted(keys::JOB.to_vec()));
}

#[test]
fn every_key_and_name_of_suites_is_documented() {
    let tables = [keys::SUITE, keys::JOB, keys::CRITERION, keys::FILES, keys::EFFORT];
    let values = ["randrw", "fdatasync", "o_dsync", "o_sync", "end_fsync", "shared", "own", "allocated", "empty"];
    let metrics = METRICS.iter().map(|metric| metric.name);
    // No step of a suite has transactions (only programs of `qd1 app` do), mixed operations (only other tools do) or
    // flushes as the device sees them (only `qd1 watch` does).
    let of_suites = |class: &OpClass| !matches!(class, OpClass::Transaction | OpClass::Mixed | OpClass::Flush);
    let classes = OpClass::ALL.into_iter().filter(of_suites).map(OpClass::name);
    let all = tables.into_iter().flatten().copied().chain(values).chain(metrics).chain(classes);
    let missing: Vec<&str> = all.filter(|name| !DOCS.contains(&format!("`{name}`"))).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn keys_that_cannot_be_swept_are_documented() {
    let paragraph = DOCS.split("cannot be swept").next().unwrap().rsplit("\n\n").next().unwrap();
    assert!(keys::NOT_SWEPT.iter().all(|key| paragraph.contains(&format!("`{key}`"))), "{paragraph}");
}

/// Verdicts compare a day with a minute, so the steps of both must do the same work.
#[test]
fn the_rounds_of_a_long_check_are_steps_of_check() {
    let (over, check) = (over(), builtin("check").unwrap());
    assert_eq!(names(&over), ["qd1", "commit1", "commit4", "wal", "paced", "read32"]);
    for job in &over.job {
        let same = check.job.iter().find(|known| known.name == job.name).unwrap();
        let work = |job: &Job| (job.rw, job.rwmixread, job.bs, job.iodepth, job.numjobs, job.direct, job.sync);
        assert_eq!(work(job), work(same), "{}", job.name);
        assert_eq!((job.file, job.rate_iops, &job.title), (same.file, same.rate_iops, &same.title), "{}", job.name);
        assert_eq!(job.adaptive, Some(false), "{}: nothing that a verdict rests on stops early", job.name);
    }
}

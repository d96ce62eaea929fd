//! What holds for every command, a row each: what its dry run says, and what it refuses.

use std::fs;

use crate::common::{Place, find, json, said};

/// Dry runs: the command and its arguments behind the directory, and what has to be said.
const DRY_RUNS: [(&[&str], &[&str], &[&str]); 9] = [
    (
        &["check"],
        &["--size", "32MiB"],
        &[
            "qd1", "commit1", "commit4", "wal", "paced", "read32", "write32", "seqread", "seqwrite", "files",
            "buffered", "32 MiB", "time", "writes", "space", "seed",
        ],
    ),
    (&["run", "vultr-nvme"], &["--size", "64MiB"], &["plan of vultr-nvme", "time ", "writes "]),
    (&["sweep"], &[], &["iodepth   1, 2, 4, 8, 16, 32, 64", "140 of up to", "time ", "writes "]),
    (&["sync"], &[], &["methods", "time ", "writes "]),
    (&["limits"], &[], &["writes    at most", "read-small"]),
    (&["meta"], &["--files", "1M", "--file-size", "0"], &["1001001", "rand-delete"]),
    (
        &["identify"],
        &["--quick", "--size", "256MiB"],
        &["plan of identify", "far", "near", "commit", "writes", "256 MiB"],
    ),
    // Needs no root either.
    (
        &["filesystems"],
        &["--size", "16MiB", "--disk", "400MiB", "--only", "ext4,ext4", "--rounds", "2"],
        &["mkfs.ext4", "400 MiB", "rounds    2 of 2", "time ", "writes ", "space ", "ext4-2", "qd1 restore"],
    ),
    (&["app", "sqlite"], &["--rows", "2000"], &["wal-full", "none afterwards"]),
];

#[test]
fn each_dry_run_says_what_it_takes_and_does_nothing() {
    for (command, args, words) in DRY_RUNS {
        let place = Place::new();
        let output = place.qd1(&[command, &[place.dir_str()], args, &["--dry-run"]].concat()).output().unwrap();
        let (plan, stderr) = (said(&output.stdout), said(&output.stderr));
        assert!(output.status.success() && stderr.is_empty(), "{command:?}: {stderr}");
        for word in words {
            assert!(plan.contains(word), "{command:?}: {word} is not in\n{plan}");
        }
        place.assert_empty();
        assert!(!place.history().exists() && !place.beside(".local").exists(), "{command:?}");
    }
}

#[test]
fn a_plan_of_many_steps_is_told_in_a_few_lines() {
    let place = Place::new();
    for (command, most) in [("sweep", 15), ("sync", 25)] {
        let plan = said(&place.on(command, &["--dry-run"]).output().unwrap().stdout);
        assert!(plan.lines().count() < most, "{plan}");
        // The path is as long as it is.
        let mut others = plan.lines().filter(|line| !line.contains(place.dir_str()));
        assert!(others.all(|line| line.chars().count() <= 80), "{command}:\n{plan}");
    }
}

/// Command lines that make no sense: the exit code and what has to be said. `DIR` and `FILE` stand for a directory and
/// a file in it or beside it.
const REFUSED: [(&[&str], i32, &str); 40] = [
    (&["sweep", "DIR", "--rw", "sideways"], 2, "sideways"),
    (&["sweep", "DIR", "--iodepth", "0"], 2, "0"),
    (&["sweep", "DIR", "--bs", "0"], 2, "block size"),
    (&["sweep", "DIR", "--bs", "x"], 2, "x"),
    (&["sweep", "DIR", "--max-p99", "soon"], 2, "soon"),
    (&["ping", "DIR", "-s", "0"], 2, "--size"),
    (&["ping", "DIR", "-i", "soon"], 2, "soon"),
    (&["ping", "DIR", "-c", "0"], 2, "0"),
    (&["ping", "DIR", "--sync", "fsync"], 2, "--write"),
    (&["ping", "DIR", "--area", "1MiB", "-s", "2MiB"], 2, "--area"),
    (&["meta", "FILE"], 2, "not a directory"),
    (&["meta", "/nonexistent/place"], 2, "does not exist"),
    (&["meta", "--size", "4G"], 2, "--file-size"),
    (&["meta", "--files", "0"], 2, "--files"),
    (&["meta", "--ops", "creat"], 2, "rename"),
    (&["meta", "--suite", "bonnie", "--size", "16M"], 2, "--ram"),
    (&["meta", "--suite", "bonnie", "--ram", "0", "--files", "1000"], 2, "1024"),
    (&["sync", "FILE"], 4, "existing files are only read"),
    (&["sync", "/nonexistent"], 2, "/nonexistent"),
    (&["sync", "DIR", "--only", "fdata"], 2, "fdatasync-p1"),
    (&["filesystems", "DIR", "--only", "ntfs"], 2, "choose from ext4, xfs, btrfs, zfs"),
    (&["filesystems", "DIR", "--only", "ext4", "--steps", "reed"], 2, "choose from read"),
    (&["filesystems", "DIR", "--only", "ext4", "--rounds", "0"], 2, "--rounds"),
    (&["filesystems", "DIR", "--only", "ext4", "--destroy", "/dev/null"], 4, "same block device"),
    (&["filesystems", "DIR", "--only", "ext4", "--size", "16MiB", "--disk", "20MiB"], 2, "too small"),
    (&["run", "vultr-nvme", "DIR", "--with-load"], 2, "--with-load measures commits again"),
    (&["run", "/nonexistent/mine.toml", "DIR"], 2, "/nonexistent/mine.toml: cannot be read"),
    (&["run", "nosuch", "DIR"], 2, "there is no suite \"nosuch\""),
    (&["run", "kdiskmak", "DIR"], 2, "did you mean kdiskmark?"),
    (&["suites", "nosuch"], 2, "choose from check"),
    (&["suites", "yab"], 2, "did you mean yabs?"),
    (&["predict", "--from", "000000000000"], 2, "000000000000"),
    (&["app", "sqlite", "FILE"], 2, "FILE"),
    (&["app", "oracle"], 2, "oracle"),
    (&["check", "DIR", "--destroy", "DIR"], 4, "--destroy"),
    (&["check", "FILE", "--destroy", "FILE"], 4, "--destroy"),
    (&["ping", "FILE", "-c", "3", "-W"], 4, "existing files are only read"),
    (&["ping", "FILE", "-c", "3", "-G"], 4, "existing files are only read"),
    (&["ping", "FILE", "-c", "1", "-s", "64MiB", "-S", "64MiB"], 2, "less than a request"),
    (&["history", "show", "zzzz"], 2, "zzzz"),
];

#[test]
fn what_makes_no_sense_is_refused_by_name_before_it_begins() {
    let place = Place::new();
    let file = place.beside("given");
    fs::write(&file, vec![7u8; 32 << 20]).unwrap();
    let real = |word: &str| word.replace("DIR", place.dir_str()).replace("FILE", file.to_str().unwrap());
    for (args, code, word) in REFUSED {
        let args: Vec<String> = args.iter().map(|arg| real(arg)).collect();
        let output = place.command(&args.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
        let stderr = said(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}: only results belong on stdout");
        assert!(stderr.contains(&real(word)), "{args:?}: {word} is not in {stderr}");
    }
    assert!(fs::read(&file).unwrap().iter().all(|byte| *byte == 7), "the file was changed");
    place.assert_untouched();
}

#[test]
fn a_missing_program_is_one_message_with_its_package() {
    let place = Place::new();
    for (name, package) in
        [("etcd", "etcd-server"), ("rocksdb", "rocksdb-tools"), ("sysbench", "apt-get install sysbench")]
    {
        let output = place.command(&["app", name, place.dir_str()]).env("PATH", "/nonexistent").output().unwrap();
        let said = said(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{said}");
        assert!(said.contains(package) && said.lines().count() == 1, "{said}");
    }
    place.assert_untouched();
}

#[test]
fn a_wrong_number_of_writes_in_a_suite_is_refused_by_name() {
    let place = Place::new();
    let suite = place.beside("s.toml");
    for (keys, word) in [
        ("rw = \"write\"\nwrites_per_sync = 2", "needs a sync"),
        ("rw = \"randrw\"\nsync = \"fsync\"\nwrites_per_sync = 2", "only write"),
        ("rw = \"write\"\nsync = \"fsync\"\nwrites_per_sync = 0", "at least 1"),
        ("rw = \"write\"\nsync = \"fsync\"\nwrites_per_sync = 2\niodepth = 4", "numjobs"),
    ] {
        fs::write(&suite, format!("name = \"s\"\n[[job]]\nname = \"a\"\n{keys}\n")).unwrap();
        let output = place.command(&["run", suite.to_str().unwrap(), place.dir_str(), "--dry-run"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{keys}: {}", said(&output.stderr));
        assert!(said(&output.stderr).contains(word), "{keys}: {}", said(&output.stderr));
    }
}

#[test]
fn a_run_without_commits_is_nothing_to_predict_from() {
    let place = Place::new();
    let args = ["--quick", "--only", "seqread", "--size", "16MiB", "--runtime", "50ms", "--json"];
    let report = json(place.on("check", &args));
    find(&report["record"]["steps"], "name", "seqread");
    let id = report["record"]["id"].as_str().unwrap();
    let without = place.command(&["predict", "--from", id]).output().unwrap();
    assert_eq!(without.status.code(), Some(2));
    assert!(said(&without.stderr).contains("has no step commit1"), "{}", said(&without.stderr));
    let verified = place.command(&["predict", "--from", id, "--verify"]).output().unwrap();
    assert_eq!(verified.status.code(), Some(2), "{}", said(&verified.stderr));
}

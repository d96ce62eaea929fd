//! The command line: job files, formats, what only tells something, what is refused.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::fio::{Side, ours, words};
use crate::common::{Place, Running, int, list, names, qd1, said, wait_until};

const FILE: &str = "[global]\nbs=4k\nsize=1m\n[one]\nrw=write\n[two]\nstonewall\nrw=randread\n";

fn job_names(report: &Value) -> Vec<&str> {
    list(&report["jobs"]).iter().map(|job| job["jobname"].as_str().unwrap()).collect()
}

#[test]
fn job_files_come_by_name_several_at_once_or_from_stdin() {
    let place = Place::new();
    fs::write(place.beside("a.fio"), FILE).unwrap();
    fs::write(place.beside("b.fio"), "[three]\nrw=read\nsize=1m\n").unwrap();
    let both = Side::Ours.report(place.dir(), "../a.fio ../b.fio");
    assert_eq!(job_names(&both), ["one", "two", "three"]);
    let section = Side::Ours.report(place.dir(), "../a.fio --section=two");
    assert_eq!(job_names(&section), ["two"]);
    let mut command = Side::Ours.command(place.dir(), &["--output-format=json", "-"]);
    command.stdin(Stdio::from(fs::File::open(place.beside("a.fio")).unwrap()));
    let output = command.output().unwrap();
    assert_eq!(job_names(&serde_json::from_slice(&output.stdout).unwrap()), ["one", "two"]);
}

#[test]
fn output_goes_to_the_file_and_nothing_to_stdout() {
    let place = Place::new();
    let (stdout, stderr) = ours(&place, "--name=j --rw=write --size=1m --output=o.json --output-format=json", 0);
    assert_eq!((stdout.as_str(), stderr.as_str()), ("", ""));
    let report: Value = serde_json::from_slice(&fs::read(place.dir().join("o.json")).unwrap()).unwrap();
    assert_eq!(job_names(&report), ["j"]);
}

#[test]
fn several_formats_follow_each_other_and_json_has_its_lines() {
    let place = Place::new();
    let line = "--name=j --rw=randread --size=1m --output-format";
    let (all, _) = ours(&place, &format!("{line}=terse,json,normal"), 0);
    assert!(all.lines().any(|line| line.starts_with("3;fio-3")), "{all}");
    assert!(all.contains("read: IOPS=") && all.contains("Run status group 0 (all jobs):"), "{all}");
    let lines: Vec<&str> = all.lines().collect();
    let (from, to) = (lines.iter().position(|line| *line == "{"), lines.iter().position(|line| *line == "}"));
    let json: Value = serde_json::from_str(&lines[from.unwrap()..=to.unwrap()].join("\n")).unwrap();
    assert_eq!(job_names(&json), ["j"]);
    let (json, _) = ours(&place, &format!("{line}=json"), 0);
    assert_eq!((json.lines().next(), json.lines().last()), (Some("{"), Some("}")));
    let (plus, _) = ours(&place, &format!("{line}=json+"), 0);
    let plus: Value = serde_json::from_str(&plus).unwrap();
    let bins = plus["jobs"][0]["read"]["clat_ns"]["bins"].as_object().unwrap();
    assert_eq!(bins.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 256);
    let (minimal, _) = ours(&place, "--name=j --rw=read --size=1m --minimal", 0);
    assert!(minimal.starts_with("3;fio-3") && minimal.trim().lines().count() == 1, "{minimal}");
    let (five, _) = ours(&place, &format!("{line}=terse --terse-version=5"), 0);
    assert!(five.starts_with("5;fio-3"), "{five}");
}

#[test]
fn each_interim_report_is_one_document_on_one_line() {
    let place = Place::new();
    let line = "--name=j --rw=read --size=1m --rate_iops=100 --time_based --runtime=3 --status-interval=1 --output-format=json";
    let (stdout, stderr) = ours(&place, line, 0);
    assert_eq!(stderr, "");
    let reports: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(reports.len() >= 3, "{}", reports.len());
    let counts: Vec<u64> =
        reports.iter().map(|report| report["jobs"][0]["read"]["total_ios"].as_u64().unwrap()).collect();
    assert!(counts.is_sorted() && counts[0] < *counts.last().unwrap(), "{counts:?}");
}

#[test]
fn what_showcmd_prints_means_the_same_jobs() {
    let place = Place::new();
    fs::write(place.beside("a.fio"), FILE).unwrap();
    let (command, _) = ours(&place, "--showcmd ../a.fio", 0);
    let line = command.trim().strip_prefix("fio ").unwrap();
    let (again, _) = ours(&place, &format!("--showcmd {line}"), 0);
    assert_eq!(command, again);
    let [file, line] = ["../a.fio", line].map(|line| Side::Ours.report(place.dir(), line));
    for (file, line) in list(&file["jobs"]).iter().zip(list(&line["jobs"])) {
        assert_eq!([&file["jobname"], &file["groupid"]], [&line["jobname"], &line["groupid"]]);
        // On a command line the name is an option as well, as in fio.
        let mut options = line["job options"].clone();
        options.as_object_mut().unwrap().remove("name");
        assert_eq!(file["job options"], options);
    }
}

#[test]
fn what_only_tells_something_touches_nothing() {
    let place = Place::new();
    for (line, word) in [
        ("--version", "fio-3"),
        ("--help", "--name"),
        ("--cmdhelp=bs", "blocksize"),
        ("--cmdhelp=all", "iodepth"),
        ("--enghelp", "io_uring"),
        ("--enghelp=io_uring", "fixedbufs"),
        ("--showcmd --name=j --rw=write --size=1m", "--rw=write"),
        ("--parse-only --name=j --rw=write --size=1m", ""),
    ] {
        let (stdout, stderr) = ours(&place, line, 0);
        assert!(stdout.contains(word), "{line}: {stdout}");
        assert_eq!(stderr, "", "{line}");
    }
    place.assert_empty();
}

#[test]
fn called_as_fio_it_is_fio() {
    let place = Place::new();
    let link = place.beside("fio");
    std::os::unix::fs::symlink(qd1(), &link).unwrap();
    let mut command = std::process::Command::new(&link);
    let output =
        place.environment(&mut command).args(words("--name=j --rw=write --size=1m --minimal")).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output.stderr));
    assert!(said(&output.stdout).starts_with("3;fio-3"));
}

#[test]
fn errors_name_file_line_column_and_the_nearest_word() {
    let place = Place::new();
    fs::write(place.beside("b.fio"), "[j]\nrw=write\nsiez=1m\n").unwrap();
    for (line, said) in [
        ("../b.fio", &["../b.fio:3:1", "siez", "size"][..]),
        ("--name=j --siez=1m", &["2:1", "siez", "size"]),
        ("--name=j --rw=reed --size=1m", &["2:6", "reed", "read"]),
        ("--name=j --size=1m --ioengine=io_urin", &["io_urin", "io_uring"]),
        ("--name=j --size=1m --ioengine=sg", &["ioengine=sg", "valid in fio"]),
        ("--readonly --name=j --rw=write --size=1m", &["--readonly", "rw=write"]),
        ("nofile.fio", &["nofile.fio"]),
        ("--cmdhelp=bz", &["bz", "bs"]),
    ] {
        let (stdout, stderr) = ours(&place, line, 2);
        assert_eq!(stdout, "", "{line}");
        for word in said {
            assert!(stderr.contains(word), "{line}: {word} is not in {stderr}");
        }
    }
    assert_eq!(names(place.dir()), [""; 0]);
}

#[test]
fn sigint_prints_what_was_measured_so_far() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let place = Place::new();
        let line = "--name=j --rw=write --size=1m --bs=4k --time_based --runtime=60 --output-format=json --name=k \
                    --stonewall --rw=write --size=1m";
        let mut run = Running::start(Side::Ours.command(place.dir(), &words(line)));
        // More than the file holds, so that not all of it was laid out.
        wait_until("it writes", || run.bytes_written() > 4 << 20);
        run.signal(signal);
        let stdout = std::io::read_to_string(run.0.stdout.take().unwrap()).unwrap();
        assert_eq!(run.0.wait().unwrap().code(), Some(code));
        let report: Value = serde_json::from_str(&stdout).expect("a whole document");
        assert!(int(&report["jobs"][0]["write"]["total_ios"]) > 0);
        assert!(int(&report["jobs"][0]["write"]["runtime"]) < 60_000);
        assert_eq!(report["jobs"][0]["error"], 0);
    }
}

/// Each list of the history analysed these runs anew.
#[test]
fn what_a_run_found_is_noted_with_it() {
    let place = Place::new();
    ours(&place, "--name=j --rw=write --bs=4k --size=1m", 0);
    let db = rusqlite::Connection::open(place.dir().with_extension("db")).unwrap();
    let sql = "SELECT coalesce(headline, ''), (SELECT count(*) FROM measured WHERE run = id), has_figures FROM run";
    let noted = db.query_row(sql, [], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?)));
    let (headline, measured, has_figures): (String, u32, bool) = noted.unwrap();
    assert!(!headline.is_empty() && measured == 1 && has_figures, "{headline:?} {measured} {has_figures}");
}

//! `qd1 report`: where the page goes, which runs it takes, and what it refuses.

use std::fs;
use std::io::Read as _;

use base64::Engine as _;
use predicates::prelude::*;

use crate::common::Place;

const QUICK: [&str; 2] = ["--only", "read32"];

#[test]
fn a_fifo_nobody_writes_is_refused_and_not_waited_for() {
    let place = Place::new();
    let fifo = place.beside("fifo");
    qd1_lab::tool("mkfifo", &[fifo.to_str().unwrap()]).unwrap();
    place.qd1(&["report", fifo.to_str().unwrap()]).assert().code(2).stderr(predicate::str::contains("is a fifo"));
}

/// What is in a packed element of a page.
fn packed(page: &str, id: &str) -> String {
    let text = page.split(&format!("id=\"{id}\">")).nth(1).unwrap().split('<').next().unwrap();
    let zlib = base64::prelude::BASE64_STANDARD.decode(text).unwrap();
    let mut json = String::new();
    flate2::read::ZlibDecoder::new(zlib.as_slice()).read_to_string(&mut json).unwrap();
    json
}

#[test]
fn the_latest_run_goes_to_a_file_or_a_pipe() {
    let place = Place::new();
    let run = place.report(&QUICK);
    let id = run["record"]["id"].as_str().unwrap();
    let page = place.beside("a.html");
    place.qd1(&["report", "-o", page.to_str().unwrap()]).assert().success().stdout("").stderr("");
    let written = fs::read_to_string(&page).unwrap();
    assert!(written.starts_with("<!DOCTYPE html>") && written.trim_end().ends_with("</html>"));
    assert!(written.contains(id) && written.contains("id=\"record-0\""));
    let piped = place.qd1(&["report", &id[..8]]).output().unwrap();
    assert!(piped.status.success() && piped.stdout == written.as_bytes(), "the same, named by its id");
}

#[test]
fn a_shared_page_names_no_place() {
    let place = Place::new();
    let run = place.report(&QUICK);
    let file = place.beside("secret-host.json");
    fs::write(&file, run.to_string()).unwrap();
    let output = place.qd1(&["report", file.to_str().unwrap(), "@latest", "--redact"]).output().unwrap();
    assert!(!output.status.success(), "one run twice");
    let output = place.qd1(&["report", file.to_str().unwrap(), "--redact"]).output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    let record = packed(&page, "record-0");
    let host = run["record"]["environment"]["hostname"].as_str().unwrap();
    for secret in [place.dir_str(), "secret-host"] {
        assert!(!page.contains(secret) && !record.contains(secret), "{secret}");
    }
    assert!(!record.contains(&format!("\"hostname\":\"{host}\"")) && record.contains("<host>"));
}

#[test]
fn wrong_words_are_one_clear_error() {
    let place = Place::new();
    place.report(&QUICK);
    let fio = place.beside("fio.json");
    fs::write(
        &fio,
        r#"{"fio version": "fio-3.36", "jobs": [{"jobname": "a", "read": {"total_ios": 9, "iops": 1, "runtime": 9}}]}"#,
    )
    .unwrap();
    let refused = |args: &[&str], what: &str| {
        let line =
            predicate::str::contains(what).and(predicate::function(|text: &str| text.trim().lines().count() == 1));
        place.qd1(&[&["report"], args].concat()).assert().code(2).stdout("").stderr(line);
    };
    refused(&[fio.to_str().unwrap()], "qd1 compare");
    refused(&["@latest", "@latest"], "same run");
    refused(&["nosuch"], "nosuch");
    refused(&["-o", place.dir_str()], "is a directory");
    refused(&["-o", "/nonexistent/a.html"], "/nonexistent/a.html");
    refused(&["latest"], "@latest");
    // What SQLite keeps beside the history belongs to it; after `--` come no options.
    let wal = place.history().with_extension("db-wal");
    refused(&["-o", wal.to_str().unwrap()], "history of runs");
    let dashed = place.beside("-old.json");
    fs::write(&dashed, place.report(&QUICK).to_string()).unwrap();
    let (dir, name) = (dashed.parent().unwrap(), "-old.json");
    let output = place.command(&["report", "-o", "./-old.json", "--", name]).current_dir(dir).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", crate::common::said(&output.stderr));
    assert!(fs::read_to_string(&dashed).unwrap().starts_with('{'));
    let page = place.beside("page.html");
    place.qd1(&["report", "-o", page.to_str().unwrap()]).assert().success();
    refused(&[page.to_str().unwrap()], "save the record in it");
    let many = vec!["@latest"; 17];
    refused(&many, "at most 16");
}

/// A folder with two of the disks of 2017, five runs each, in a folder of their own, beside what is no result.
#[test]
fn a_folder_of_results_becomes_a_ranking() {
    const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/samples");
    let place = Place::new();
    let dir = place.beside("results");
    for (disk, file) in [
        ("slow & <b>", "vps-2017-ovh-vpsssd1-fio_randread.txt"),
        ("fast", "vps-2017-linode-linode1024-fio_randread.txt"),
    ] {
        fs::create_dir_all(dir.join(disk)).unwrap();
        fs::copy(format!("{SAMPLES}/{file}"), dir.join(disk).join("randread.txt")).unwrap();
    }
    fs::write(dir.join("notes.txt"), "bought in May").unwrap();
    let prices = dir.join("prices.csv");
    fs::write(&prices, "disk,EUR per month\nfast,5\nfats,4\n").unwrap();
    let page = place.beside("ranking.html");
    let args = [
        "report",
        "--ranking",
        dir.to_str().unwrap(),
        "--prices",
        prices.to_str().unwrap(),
        "-o",
        page.to_str().unwrap(),
    ];
    let said = predicate::str::contains("left out: notes.txt").and(predicate::str::contains("did you mean fast?"));
    place.qd1(&args).assert().success().stdout("").stderr(said);
    let written = fs::read_to_string(&page).unwrap();
    let table = written.split("reads per second").nth(1).unwrap();
    assert!(table.find(">fast<").unwrap() < table.find("slow &#38; &#60;b&#62;").unwrap(), "{table}");
    assert!(table.contains("EUR per month") && !written.contains("<script"));

    let refused = |args: &[&str], what: &str| {
        let line = predicate::str::contains(what);
        place.qd1(&[&["report", "--ranking"], args].concat()).assert().code(2).stdout("").stderr(line);
    };
    refused(&[place.dir_str()], "has no result");
    refused(&["/nonexistent"], "cannot be read");
    refused(&[dir.join("fast").to_str().unwrap()], "only one disk");
    refused(&[dir.to_str().unwrap(), "@latest"], "cannot be used with");
}

/// What was exported for others is ranked, and compared, as it is.
#[test]
fn exports_are_ranked_without_names_of_this_machine() {
    let place = Place::new();
    let dir = place.beside("exports");
    fs::create_dir(&dir).unwrap();
    for name in ["a.ndjson", "b.ndjson.gz"] {
        let id = place.report(&QUICK)["record"]["id"].as_str().unwrap().to_owned();
        let file = dir.join(name);
        place.qd1(&["history", "export", &id, "--redact", "-o", file.to_str().unwrap()]).assert().success();
    }
    let output = place.qd1(&["report", "--ranking", dir.to_str().unwrap()]).output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && page.contains("Ranking of 2 disks") && page.contains(">b<"), "{page}");
    assert!(!page.contains(place.dir_str()));
    let files = ["a.ndjson", "b.ndjson.gz"].map(|name| dir.join(name).to_str().unwrap().to_owned());
    place.qd1(&["compare", &files[0], &files[1]]).assert().success();
}

/// Cause: 14 KB of JSON 18,000 times, in 1.8 MB of gzip, took 13 GB.
#[test]
fn a_small_file_of_very_many_runs_is_refused_at_once() {
    let place = Place::new();
    place.report(&QUICK);
    let one = place.beside("one.ndjson");
    place.qd1(&["history", "export", "-o", one.to_str().unwrap()]).assert().success();
    let line = fs::read(&one).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    (0..1000).for_each(|_| std::io::Write::write_all(&mut gzip, &line).unwrap());
    let many = place.beside("many.ndjson.gz");
    fs::write(&many, gzip.finish().unwrap()).unwrap();
    let refused = predicate::str::contains("more than 16 runs");
    place.qd1(&["report", many.to_str().unwrap()]).assert().code(2).stderr(refused);
}

#[test]
fn a_ranking_reads_no_links_and_is_not_written_over_a_result() {
    let place = Place::new();
    let dir = place.beside("results");
    fs::create_dir_all(dir.join("empty")).unwrap();
    for name in ["a.json", "b.json"] {
        fs::write(dir.join(name), place.report(&QUICK).to_string()).unwrap();
    }
    std::os::unix::fs::symlink("/proc/kmsg", dir.join("kmsg")).unwrap();
    let said = predicate::str::contains("kmsg: is a link").and(predicate::str::contains("empty: is an empty folder"));
    place.qd1(&["report", "--ranking", dir.to_str().unwrap()]).assert().success().stderr(said);
    let over = dir.join("a.json");
    let refused = predicate::str::contains("is in the folder that is ranked");
    place
        .qd1(&["report", "--ranking", dir.to_str().unwrap(), "-o", over.to_str().unwrap()])
        .assert()
        .code(2)
        .stderr(refused);
    assert!(fs::read_to_string(&over).unwrap().starts_with('{'));
    let prices = place.qd1(&["report", "--ranking", dir.to_str().unwrap(), "--prices", "/dev/zero"]).assert().code(2);
    prices.stderr(predicate::str::contains("/dev/zero: is a device; name a file"));
}

#[test]
fn a_ranking_of_checks_begins_with_their_verdicts() {
    let place = Place::new();
    let dir = place.beside("results");
    fs::create_dir_all(dir.join("slow")).unwrap();
    let runs: Vec<serde_json::Value> = (0..3).map(|_| place.report(&["--only", "wal,commit1"])).collect();
    fs::write(dir.join("fast.json"), runs[0].to_string()).unwrap();
    fs::write(dir.join("slow").join("monday.json"), runs[1].to_string()).unwrap();
    fs::write(dir.join("slow").join("friday.json"), runs[2].to_string()).unwrap();
    let ranking = ["report", "--ranking", dir.to_str().unwrap()];
    let output = place.qd1(&ranking).output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}: {page}"));
    assert!(at("Verdicts by class of workload") < at("commit1: p99 of commits"));
    assert!(at("etcd / Kubernetes") < at("commit1: p99 of commits") && page.contains("of 2 runs</span>"), "{page}");

    // The same disk at another place is another one.
    let mut elsewhere = runs[2].clone();
    elsewhere["record"]["plan"]["target"]["path"] = "/srv/elsewhere".into();
    fs::write(dir.join("slow").join("friday.json"), elsewhere.to_string()).unwrap();
    let said = predicate::str::contains("slow: has runs of 2 places")
        .and(predicate::str::contains("/srv/elsewhere"))
        .and(predicate::str::contains("qd1 history export --host"));
    place.qd1(&ranking).assert().code(2).stdout("").stderr(said);
}

/// A file that cannot be read decided where the runs of its folder were, and which file was looked at first decided the rest.
#[test]
fn a_ranking_says_the_same_whatever_comes_first() {
    let place = Place::new();
    let (dir, one) = (place.beside("results"), place.report(&["--only", "commit1"]));
    fs::create_dir_all(dir.join("disk")).unwrap();
    let run = |number: u32, path: &str| {
        let mut run = one.clone();
        run["record"]["id"] = format!("{number:012x}").into();
        run["record"]["started_unix_ns"] =
            (one["record"]["started_unix_ns"].as_u64().unwrap() + u64::from(number)).into();
        run["record"]["plan"]["target"]["path"] = path.into();
        format!("{{\"record\":{}}}", run["record"])
    };
    fs::write(dir.join("other.json"), run(1, "/srv/other")).unwrap();
    fs::write(dir.join("disk").join("a.json"), format!("{}\nno run\n", run(2, "/srv/elsewhere"))).unwrap();
    fs::write(dir.join("disk").join("b.json"), run(3, "/srv/disk")).unwrap();
    let ranking = ["report", "--ranking", dir.to_str().unwrap()];
    let left_out = predicate::str::contains("left out: disk/a.json");
    place.qd1(&ranking).assert().success().stderr(left_out).stdout(predicate::str::contains("other"));
    let mixed: Vec<String> =
        (4..12).map(|number| run(number, ["/srv/disk", "/srv/more"][number as usize % 2])).collect();
    fs::write(dir.join("disk").join("a.json"), mixed.join("\n")).unwrap();
    for _ in 0..4 {
        let said = predicate::str::contains("disk: has runs of 2 places").and(predicate::str::contains("/srv/more"));
        place.qd1(&ranking).assert().code(2).stdout("").stderr(said);
    }
}

#[test]
fn a_post_of_any_run_is_plain_lines_without_names() {
    let place = Place::new();
    let run = place.report(&["--only", "wal,read32"]);
    let post = |args: &[&str]| {
        let output = place.qd1(args).output().unwrap();
        assert!(output.status.success(), "{}", crate::common::said(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = post(&["report", "--format", "post"]);
    assert_eq!(text, post(&["history", "show", "@latest", "--format", "post"]));
    assert!(text.starts_with("qd1 ") && text.contains("etcd / Kubernetes"), "{text}");
    // A second of a busy disk may say nothing of its rate.
    let reads = run["summary"]["steps"].as_array().unwrap().iter().find(|step| step["name"] == "read32");
    let iops = &reads.unwrap()["streams"][0]["iops"];
    let is_known = ["value", "low", "high"].iter().any(|end| iops[end].is_number());
    assert_eq!(text.contains("32 in flight"), is_known, "{iops}: {text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let (host, id) = (&run["record"]["environment"]["hostname"], &run["record"]["id"]);
    // A host may be called as a word that all posts have.
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(host.as_str().is_none_or(|host| !words.contains(&host) || host == "vm"), "{text}");
    assert!(!text.contains(place.dir_str()) && !text.contains(&id.as_str().unwrap()[..8]), "{text}");
    place.report(&["--only", "wal"]);
    let both = post(&["report", "@previous", "@latest", "--format", "post"]);
    assert_eq!(both.matches("qd1 ").count(), 2, "{both}");
    place.qd1(&["report", "--format", "post", "--ranking", place.dir_str()]).assert().code(2);
}

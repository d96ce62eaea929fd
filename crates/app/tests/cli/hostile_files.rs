//! Files that a stranger may send: none of them takes more memory than a small machine has, or does not end.
//!
//! The memory of each command is limited by the kernel, so that one that wants more dies of it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::common::refusal::refused;
use crate::common::{Place, json, qd1};
use crate::kept::kept;

/// Memory of a command, KiB.
const MEMORY_KIB: u32 = 256 << 10;
/// Long enough on any machine for what ends at all, s.
const ENDS_S: u32 = 300;

/// Runs a command with so little memory, without anything to read on stdin.
fn limited(place: &Place, args: &[&str]) -> Output {
    let mut command = Command::new("sh");
    let script = format!("ulimit -d {MEMORY_KIB}; exec timeout {ENDS_S} \"$0\" \"$@\"");
    let command = place.environment(&mut command).args(["-c", &script, qd1()]).args(args).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_ne!(output.status.code(), Some(124), "{args:?} does not end");
    output
}

fn written(place: &Place, name: &str, bytes: &[u8]) -> PathBuf {
    let path = place.beside(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// `begin`, so many bytes of `unit` again and again, compressed.
fn packed(begin: &str, unit: &str, bytes: usize, end: &str) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(begin.as_bytes()).unwrap();
    let block = unit.repeat((64 << 10) / unit.len());
    (0..bytes / block.len()).for_each(|_| gzip.write_all(block.as_bytes()).unwrap());
    gzip.write_all(end.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

fn fifo(place: &Place) -> PathBuf {
    let path = place.beside("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    path
}

/// Every command that reads a file that the user names, with the file in the place of `FILE`.
const READERS: [&[&str]; 9] = [
    &["compare", "FILE", "@latest"],
    &["report", "FILE"],
    &["plot", "FILE", "--chart", "latency"],
    &["history", "import", "FILE"],
    &["check", "--dry-run", "--thresholds", "FILE"],
    &["run", "--dry-run", "FILE.toml"],
    &["run", "--dry-run", "FILE.fio"],
    &["report", "--ranking", ".", "--prices", "FILE"],
    &["app", "postgres", "--dry-run", "--script", "FILE"],
];

fn with(args: &[&str], file: &Path) -> Vec<String> {
    args.iter().map(|arg| arg.replace("FILE", file.to_str().unwrap())).collect()
}

/// Cause: `history import` and `--thresholds` read /dev/zero until memory was used up, and waited for a fifo's writer.
#[test]
fn what_is_no_file_is_not_read() {
    let place = Place::new();
    let fifo = fifo(&place);
    for end in [".toml", ".fio"] {
        std::os::unix::fs::symlink(&fifo, format!("{}{end}", fifo.display())).unwrap();
        std::os::unix::fs::symlink("/dev/zero", place.beside(&format!("zero{end}"))).unwrap();
    }
    std::os::unix::fs::symlink("/dev/zero", place.beside("zero")).unwrap();
    for args in READERS {
        for (file, what) in [(&fifo, "is a fifo; name a file"), (&place.beside("zero"), "is a device; name a file")] {
            let args = with(args, file);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let output = limited(&place, &args);
            let has_program = !String::from_utf8_lossy(&output.stderr).contains("pgbench");
            if args[0] != "app" || has_program {
                refused(&output, 2, &[what]);
            }
        }
    }
    place.assert_untouched();
}

/// Cause: 255 kB took 7.8 GiB and half a minute.
#[test]
fn a_small_file_that_unpacks_to_much_is_refused() {
    let place = Place::new();
    for (name, bytes, what) in [
        ("values.json.gz", packed("[", "{\"a\":1},", 8 << 20, "1]"), "too many values"),
        ("lists.json.gz", packed("[", "[],", 8 << 20, "1]"), "too many values"),
        ("documents.json.gz", packed("", "[]\n[0]\n{}\n", 8 << 20, ""), "too many lines that are not part of a result"),
        ("large.json.gz", packed("[", "{\"a\":1},", 66 << 20, "1]"), "more than 64 MiB when it is unpacked; unpack it"),
        ("fields.csv.gz", packed("1.97,", ",", 20 << 20, ""), "not a result"),
        ("letters.gz", packed("", "\n\n-", 4 << 20, ""), "too many lines that are not part of a result"),
    ] {
        let file = written(&place, name, &bytes);
        refused(&limited(&place, &["report", file.to_str().unwrap()]), 2, &[name, what]);
    }
    let file = written(&place, "export.gz", &packed("{\"record\":{}}\n", " \n", 66 << 20, "{}"));
    refused(&limited(&place, &["history", "import", file.to_str().unwrap()]), 2, &["export.gz"]);
    place.assert_untouched();
}

/// Cause: a line of 10 MB was read once for each of 126 lines of brackets.
#[test]
fn ten_megabytes_of_anything_are_read_or_refused() {
    let place = Place::new();
    let long = |unit: &str| unit.repeat((10 << 20) / unit.len());
    let record = r#"{"schema_version":3,"version":"1","id":"x","plan":{},"steps":[],"command":["#;
    for (name, text) in [
        ("brackets", format!("{}{}", "[\n".repeat(126), long("1,"))),
        ("open", long("{\"a\":")),
        ("lines", long("[\n")),
        ("objects", format!("[{}1]", long("{\"a\":1},"))),
        ("texts", format!("{record}{}\"\"]}}", long("\"\","))),
        ("tags", format!("{{\"record\":{{}},\"tags\":[{}\"\"]}}\n{{}}", long("\"\","))),
        ("fields", long(";")),
        ("cells", format!("Block Size {}", long("|a"))),
        ("letters", long("x")),
    ] {
        let file = written(&place, name, text.as_bytes());
        let command: &[&str] =
            if text.contains("record") || text.contains("plan") { &["history", "import"] } else { &["report"] };
        let output = limited(&place, &[command, &[file.to_str().unwrap()]].concat());
        assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
        assert_eq!(output.stderr.iter().filter(|byte| **byte == b'\n').count(), 1, "{name}: {output:?}");
    }
    place.assert_untouched();
}

fn jobs(count: usize) -> String {
    let job = |at| format!("{{\"jobname\":\"j{at}\",\"read\":{{\"total_ios\":9000,\"iops\":10,\"bw_bytes\":4096}}}}");
    format!("{{\"fio version\":\"fio-3.33\",\"jobs\":[{}]}}", (0..count).map(job).collect::<Vec<_>>().join(","))
}

/// Cause: two files of 20,000 jobs took seven seconds, of 60,000 minutes.
#[test]
fn as_many_jobs_as_can_be_compared_are_and_more_are_refused() {
    let place = Place::new();
    let [some, many] = [1000, 60_000].map(|count| written(&place, &format!("{count}.json"), jobs(count).as_bytes()));
    let (some, many) = (some.to_str().unwrap(), many.to_str().unwrap());
    let other = written(&place, "other.json", jobs(1000).replace("9000", "9001").as_bytes());
    refused(
        &limited(&place, &["compare", some, many]),
        2,
        &["60000.json has a run with more than 1000 steps", "--group_reporting"],
    );
    let compared = json(place.qd1(&["compare", some, other.to_str().unwrap(), "--json"]));
    assert_eq!(compared["rows"].as_array().unwrap().len(), 2000);
}

/// What a shell makes of `<(command)` is a pipe, and read as a file is.
#[test]
fn a_pipe_from_a_command_is_read() {
    let place = Place::new();
    let [one, other] = [9000, 9001]
        .map(|ios| written(&place, &format!("{ios}.json"), jobs(3).replace("9000", &ios.to_string()).as_bytes()));
    let mut command = Command::new("bash");
    let script = "\"$0\" compare <(cat \"$1\") <(gzip -c \"$2\") --json";
    let output = place.environment(&mut command).args(["-c", script, qd1()]).args([&one, &other]).output().unwrap();
    let compared: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(compared["rows"].as_array().unwrap().len(), 6, "{output:?}");
}

/// Cause: an id of escape sequences reached the terminal, and one in upper case hid all others from `@latest`.
#[test]
fn a_run_that_no_qd1_made_is_refused_before_any_is_added() {
    let place = Place::new();
    let record = place.report(&["--only", "read32", "--no-save"])["record"].clone();
    let with = |key: &str, value: serde_json::Value| {
        let mut record = record.clone();
        record[key] = value;
        serde_json::json!({ "record": record }).to_string()
    };
    let good = with("interrupted", false.into());
    for (key, value, what) in [
        ("id", "\u{1b}c0123456789".into(), "12 lowercase hexadecimal digits"),
        ("id", "0123456789AB".into(), "12 lowercase hexadecimal digits"),
        ("id", "@latest".into(), "12 lowercase hexadecimal digits"),
        ("id", "%".into(), "12 lowercase hexadecimal digits"),
        ("id", "a".repeat(3000).into(), "12 lowercase hexadecimal digits"),
        ("started_unix_ns", 5.into(), "began before 2000 or after 2200"),
        ("elapsed_ns", u64::MAX.into(), "took longer than a year"),
    ] {
        let text = format!("{good}\n{}\n", with(key, value));
        let file = written(&place, "runs.ndjson", text.as_bytes());
        let output = place.qd1(&["history", "import", file.to_str().unwrap()]).output().unwrap();
        refused(&output, 2, &["runs.ndjson: run 2", what, "export it again"]);
        assert!(output.stderr.len() < 1000 && !output.stderr.contains(&0x1b), "{key}");
    }
    place.assert_untouched();
    let file = written(&place, "runs.ndjson", good.as_bytes());
    place.qd1(&["history", "import", file.to_str().unwrap()]).assert().success();
}

/// A packed list of so many items, whose columns have a byte for each: `ones` of them 1, the second anything, others 0.
fn packed_list(items: usize, columns: &[bool], ones: usize) -> String {
    let number =
        |number: usize| (0..5).map(move |at| (number >> (7 * at)) as u8 & 0x7f | if at < 4 { 0x80 } else { 0 });
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(&number(items).collect::<Vec<u8>>()).unwrap();
    for is_used in columns {
        zlib.write_all(&number(if *is_used { items } else { 0 }).collect::<Vec<u8>>()).unwrap();
    }
    let mut seed = 1_u64;
    for at in (0..columns.len()).filter(|at| columns[*at]) {
        let mut byte = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if at != 1 {
                u8::from(at == ones)
            } else if seed >> 61 == 0 {
                (seed >> 40) as u8 & 0x7f
            } else {
                0
            }
        };
        zlib.write_all(&(0..items).map(|_| byte()).collect::<Vec<u8>>()).unwrap();
    }
    format!("zlib:{}", BASE64_STANDARD.encode(zlib.finish().unwrap()))
}

/// Cause: two megabytes of packed intervals took 236 MiB, and ten would have taken 1.4 GB.
#[test]
fn packed_lists_that_become_too_much_are_refused() {
    let place = Place::new();
    let record = kept("check").report["record"].clone();
    let first = |count: usize, of: usize| (0..of).map(|at| at < count).collect::<Vec<bool>>();
    for (list, text) in [
        ("intervals", packed_list(13_000_000, &first(3, 11), 99)),
        ("intervals", packed_list(4_000_000, &first(9, 11), 2)),
        ("machine", packed_list(2_400_000, &first(5, 24), 99)),
    ] {
        let mut record = record.clone();
        record["steps"][0][list] = text.into();
        let text = record.to_string();
        assert!(text.len() < 10 << 20, "{list}: {}", text.len());
        let file = written(&place, "run.json", text.as_bytes());
        for args in [&["history", "import"][..], &["report"], &["compare"]] {
            let output = limited(&place, &[args, &[file.to_str().unwrap()]].concat());
            refused(&output, 2, &["run.json", "takes more memory than a run of qd1"]);
        }
    }
    place.assert_untouched();
}

/// Half a day of intervals of one operation each, which take a hundredth of what others do in a file.
#[test]
fn half_a_day_of_equal_intervals_is_read() {
    let place = Place::new();
    let mut record = kept("check").report["record"].clone();
    record["steps"][0]["intervals"] = packed_list(432_000, &(0..11).map(|at| at < 9).collect::<Vec<bool>>(), 2).into();
    let file = written(&place, "half-a-day.json", record.to_string().as_bytes());
    let output = limited(&place, &["report", file.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
}

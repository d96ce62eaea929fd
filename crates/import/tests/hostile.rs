//! Files that were made to exhaust memory or time, and numbers that no tool measures.

use std::fmt::Write as _;

use qd1_model::measured::Measured;

fn sample(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/");
    std::fs::read_to_string(format!("{path}{name}")).unwrap()
}

fn error(text: &str) -> String {
    qd1_import::read("file", text.as_bytes()).unwrap_err().to_string()
}

fn joined(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, at| {
        write!(text, "{}", one(at)).unwrap();
        text
    })
}

/// The jobs that fio's JSON has, each in a document of its own (`is_apart`) or all in one.
fn jobs(count: usize, is_apart: bool) -> String {
    let job = |at: usize| format!("{{\"jobname\":\"j{at}\",\"read\":{{\"total_ios\":9,\"iops\":1}}}}");
    if is_apart {
        return joined(count, |at| format!("{{\"jobs\":[{}]}}\n", job(at)));
    }
    format!("{{\"jobs\":[{}]}}", (0..count).map(job).collect::<Vec<_>>().join(","))
}

/// A report's part of one job, as short as it is read.
fn block(at: usize) -> String {
    format!("j{at}: (groupid=0, jobs=1): err= 0: pid=1:\n read: IOPS=9, BW=9B/s (9B/9msec)\n")
}

/// Cause: 20,000 jobs took seven seconds to read, and more to compare; 60,000 minutes.
#[test]
fn more_steps_than_can_be_compared_are_refused_in_every_form() {
    let terse = sample("fio-3.42-terse.txt");
    let line = terse.lines().next().unwrap();
    let name = line.split(';').nth(2).unwrap();
    let rows = "Block Size | 4k (IOPS)\nRead | 1.0 MB/s (1k)\nWrite | 1.0 MB/s (1k)\n";
    let row = "{\"bs\":\"4k\",\"speed_r\":1,\"iops_r\":1,\"speed_w\":1,\"iops_w\":1,\"speed_units\":\"KBps\"},";
    for text in [
        jobs(60_000, false),
        jobs(60_000, true),
        joined(60_000, block),
        joined(60_000, |at| format!("{}\n", line.replacen(name, &format!("j{at}"), 1))),
        joined(60_000, |at| rows.replace("4k", &format!("{at}k"))),
        format!("{{\"fio\":[{}{{}}]}}", row.repeat(20_000)),
    ] {
        let error = error(&text);
        assert!(error.starts_with("file has a run with more than 1000 steps"), "{error}");
        assert!(error.contains("--group_reporting"), "{error}");
    }
    assert!(error(&jobs(200_000, false)).contains("too many values"));
    assert_eq!(qd1_import::read("file", jobs(1000, true).as_bytes()).unwrap()[0].steps.len(), 1000);
}

#[test]
fn more_runs_than_can_be_compared_are_refused() {
    let line = sample("bonnie.csv");
    assert!(error(&line.repeat(2001)).contains("more than 2000 runs; give only some of them"));
    let again = joined(30_000, |at| format!("fio-3.33\n{}", block(at % 9)));
    assert!(error(&again).contains("more than 2000 runs"), "a job that comes again is another run");
    let processes = qd1_import::read("file", joined(60_000, |at| block(at % 100)).as_bytes()).unwrap();
    assert_eq!((processes.len(), processes[0].steps.len()), (1, 100), "and without another begin another process");
    let long = block(0).replace("j0", &"j".repeat(300));
    assert!(error(&long).contains("name is longer than 256 bytes"));
}

/// Cause: a field of one byte took sixteen, and a line of brackets a gigabyte.
#[test]
fn a_line_without_end_is_one_that_is_not_known() {
    for unit in [";", ",", "|a", "[", "{\"a\":", "read:\n", "\u{0}", " "] {
        let text = unit.repeat(400_000 / unit.len());
        for begin in ["", "3;fio-3.33;", "1.97,", "Block Size ", "j: (groupid=0, jobs=1): err= 0: pid=1:\n"] {
            let _ = qd1_import::read("file", format!("{begin}{text}").as_bytes());
        }
    }
    // No longer than it was, though each byte is no letter.
    let error = qd1_import::read("file", &vec![0xff; 1_000_000]).unwrap_err().to_string();
    assert!(error.contains("not a result"), "{error}");
}

/// Values of all figures of these runs.
fn values(runs: &[Measured]) -> Vec<f64> {
    let steps = runs.iter().flat_map(|run| &run.steps);
    let figures = steps.flat_map(|step| &step.streams).flat_map(|stream| &stream.figures);
    figures.flat_map(|(_, figure)| [figure.value, figure.low, figure.high]).flatten().collect()
}

#[test]
fn what_cannot_be_a_number_is_in_no_figure() {
    let digits = "9".repeat(400);
    let wrong = ["nan", "NaN", "inf", "-inf", "-5", "1e300", "infinity", &digits];
    for wrong in wrong {
        let yabs = format!("Block Size | 4k (IOPS)\nRead | {wrong} MB/s ({wrong}k)\nWrite | 1.0 MB/s (1k)\n");
        let figures = [wrong; 60].join(",");
        let bonnie = format!("1.97,1.97,host,1,1,300M,{figures}\n");
        let head = "3;fio-3.33;job;0;0;";
        let terse = format!("{head}{}\n", [wrong; 130].join(";"));
        let half = format!("{head}1;100;100;{};{}\n", "9000;".repeat(4), [wrong; 130].join(";"));
        let report = block(0).replace("IOPS=9", &format!("IOPS={wrong}"));
        let json = jobs(1, false).replace("\"iops\":1", &format!("\"iops\":{wrong}"));
        for text in [yabs, bonnie, terse, half, report, json] {
            let runs = qd1_import::read("file", text.as_bytes()).unwrap_or_default();
            for value in values(&runs) {
                assert!((0.0..1e15).contains(&value), "{value} of {wrong} in {text:.200}");
            }
        }
    }
    let text = "Block Size | 4k (IOPS)\nRead | nan MB/s (1k)\nWrite | 1.0 MB/s (1k)\n";
    let runs = qd1_import::read("file", text.as_bytes()).unwrap();
    assert!(
        runs[0].missing.iter().any(|missing| missing.contains("2 of its numbers were ignored as impossible")),
        "{runs:?}"
    );
}

#[test]
fn a_start_in_no_century_is_not_known() {
    let of = |stamp: &str| {
        let text = jobs(1, false).replacen('{', &format!("{{\"timestamp\":{stamp},"), 1);
        qd1_import::read("file", text.as_bytes()).unwrap()[0].started_unix_ns
    };
    assert_eq!(of("1790000000"), Some(1_790_000_000_000_000_000));
    assert_eq!([of("5"), of("1e19"), of("-7")], [None; 3]);
}

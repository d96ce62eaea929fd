//! Our reports beside fio's own of the same run: fio's JSON+ holds nearly all that was measured, so it is read back,
//! printed by us, and compared line by line with what fio printed. What may differ stands in the cases, with why.

mod common;
#[path = "common/likeness.rs"]
mod likeness;
#[path = "common/rebuild.rs"]
mod rebuild;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::skip;
use likeness::same;
use qd1_fio::output::logs::{self, LogEntry};
use qd1_fio::output::{banner, json, normal, terse};
use qd1_fio::{Invocation, Request, parse_args};
use qd1_model::job::JobStat;
use qd1_model::plat::PlatHist;

/// A run of fio, and where our reports of it differ.
struct Case {
    name: &'static str,
    args: &'static [&'static str],
    terse_version: u8,
    /// Beginnings of lines, without their indentation, that differ, and why. Each of them has to.
    differs: &'static [(&'static str, &'static str)],
    /// Whether fio's share of the group's bandwidth is that of the reads' bandwidth, so that it may differ.
    share_differs: bool,
}

const fn case(name: &'static str, terse_version: u8, args: &'static [&'static str]) -> Case {
    Case { name, args, terse_version, differs: &[], share_differs: false }
}

impl Case {
    const fn but(self, differs: &'static [(&'static str, &'static str)]) -> Self {
        Self { differs, ..self }
    }

    const fn share_differs(self) -> Self {
        Self { share_differs: true, ..self }
    }
}

/// Read and write `f`, a file of 1 MiB, or nothing at all.
const CASES: &[Case] = &[
    case("read", 3, &["--name=a", "--filename=f", "--size=1m", "--rw=read"]),
    case(
        "clones",
        3,
        &["--name=a b", "--ioengine=null", "--size=1m", "--rw=randrw", "--numjobs=2", "--description=x;y"],
    ),
    case(
        "group",
        5,
        &[
            "--name=a",
            "--ioengine=null",
            "--size=1g",
            "--rw=randrw",
            "--numjobs=2",
            "--group_reporting",
            "--thread",
            "--rate_iops=700,300",
            "--time_based",
            "--runtime=2",
        ],
    ),
    case(
        "samples of clones",
        5,
        &[
            "--name=a",
            "--ioengine=null",
            "--size=1g",
            "--rw=randrw",
            "--numjobs=2",
            "--bs=8k,513",
            "--rate_iops=700,300",
            "--time_based",
            "--runtime=2",
        ],
    ),
    case(
        "fast",
        3,
        &[
            "--name=a",
            "--ioengine=null",
            "--size=1t",
            "--bs=64m",
            "--rw=read",
            "--rate_iops=40",
            "--time_based",
            "--runtime=1",
        ],
    ),
    case("fsync", 3, &["--name=a", "--filename=f", "--size=1m", "--rw=randwrite", "--fsync=4"]),
    case(
        "fsync of clones, no completion percentiles",
        5,
        &[
            "--name=a",
            "--filename=f",
            "--size=1m",
            "--rw=randwrite",
            "--fsync=8",
            "--numjobs=2",
            "--group_reporting",
            "--clat_percentiles=0",
            "--lat_percentiles=1",
        ],
    ),
    // fio counts them among its short reads, in JSON as well, where we read it back.
    case("fdatasync", 3, &["--name=a", "--filename=f", "--size=1m", "--rw=randwrite", "--fdatasync=4"]),
    case("libaio", 4, &["--name=a", "--filename=f", "--size=1m", "--rw=randread", "--ioengine=libaio", "--iodepth=8"]),
    case(
        "percentiles",
        5,
        &[
            "--name=a",
            "--ioengine=null",
            "--size=4m",
            "--rw=randrw",
            "--iodepth=4",
            "--percentile_list=99.90:50:1:99.999:100",
            "--lat_percentiles=1",
            "--slat_percentiles=1",
        ],
    ),
    case(
        "whole percentiles",
        3,
        &["--name=a", "--ioengine=null", "--size=1m", "--rw=write", "--percentile_list=1:2:3:4:5:10:20:30:40:50:99"],
    ),
    case(
        "mixed",
        5,
        &[
            "--name=a",
            "--ioengine=null",
            "--size=1g",
            "--rw=randrw",
            "--unified_rw_reporting=1",
            "--rate_iops=500",
            "--time_based",
            "--runtime=2",
        ],
    ),
    case(
        "mixed and apart",
        5,
        &[
            "--name=a",
            "--ioengine=null",
            "--size=1g",
            "--rw=randrw",
            "--unified_rw_reporting=both",
            "--rate_iops=500",
            "--time_based",
            "--runtime=2",
        ],
    )
    .but(&[("mixed: IOPS=", "fio prints zeros there"), ("MIXED: ", "fio gives the extremes of single directions")])
    .share_differs(),
    case(
        "steady state",
        3,
        &[
            "--name=a",
            "--ioengine=null",
            "--size=1g",
            "--rw=read",
            "--rate_iops=1000",
            "--time_based",
            "--runtime=4",
            "--steadystate=iops:50%",
            "--steadystate_duration=2",
        ],
    )
    .but(&[("steadystate  : ", "fio's second unit is the first with another name")]),
    case(
        "steady slope",
        3,
        &[
            "--name=a",
            "--ioengine=null",
            "--size=1g",
            "--rw=randrw",
            "--rate_iops=1000",
            "--time_based",
            "--runtime=4",
            "--steadystate=bw_slope:1g",
            "--steadystate_duration=2",
        ],
    )
    .but(&[("steadystate  : ", "fio's second unit is the first with another name")]),
    case(
        "latency target",
        3,
        &[
            "--name=a",
            "--filename=f",
            "--size=1m",
            "--rw=randread",
            "--ioengine=libaio",
            "--iodepth=8",
            "--rate=512k",
            "--time_based",
            "--runtime=2",
            "--latency_target=1ms",
            "--latency_window=500ms",
            "--latency_percentile=99",
        ],
    ),
    case("trims", 4, &["--name=a", "--ioengine=null", "--size=1m", "--rw=randtrimwrite"]),
    case("only trims", 5, &["--name=a", "--ioengine=null", "--size=1m", "--rw=randtrim"]),
    case("old", 2, &["--name=a", "--ioengine=null", "--size=1m", "--rw=write", "--description=hey", "--numjobs=2"]),
    case(
        "decimal",
        3,
        &[
            "--name=a",
            "--ioengine=null",
            "--size=1g",
            "--rw=read",
            "--kb_base=1000",
            "--bs=1500000",
            "--rate=2m",
            "--time_based",
            "--runtime=2",
        ],
    )
    .but(&[("bw (   kB/s): ", "fio writes kB/s beside KiB/s")]),
    case("bits", 3, &["--name=a", "--ioengine=null", "--size=1m", "--rw=read", "--unit_base=1"]),
    case(
        "decimal bits",
        3,
        &["--name=a", "--ioengine=null", "--size=1m", "--rw=rw", "--unit_base=1", "--kb_base=1000"],
    ),
    case("no latencies", 3, &["--name=a", "--ioengine=null", "--size=1m", "--rw=rw", "--gtod_reduce=1"]),
    case("no completion latency", 3, &["--name=a", "--ioengine=null", "--size=1m", "--rw=rw", "--disable_clat=1"]),
    case("no total latency", 5, &["--name=a", "--ioengine=null", "--size=1m", "--rw=rw", "--disable_lat=1"]),
    case("no percentiles", 3, &["--name=a", "--ioengine=null", "--size=1m", "--rw=rw", "--clat_percentiles=0"]),
    case("an error", 3, &["--name=a", "--filename=f", "--size=1m", "--rw=trim"]),
    case(
        "errors",
        3,
        &[
            "--name=a",
            "--filename=f",
            "--size=64k",
            "--rw=read",
            "--verify=md5",
            "--continue_on_error=verify",
            "--description=d",
        ],
    ),
    case(
        "old errors",
        2,
        &["--name=a", "--filename=f", "--size=64k", "--rw=read", "--verify=md5", "--continue_on_error=all"],
    ),
    case(
        "groups",
        3,
        &[
            "--ioengine=null",
            "--size=1m",
            "--direct=0",
            "--name=a",
            "--rw=read",
            "--numjobs=2",
            "--name=b",
            "--rw=write",
            "--stonewall",
            "--bs=8k-64k",
            "--name=c",
            "--new_group",
            "--rw=rw",
            "--thread",
        ],
    ),
];

/// What fio printed, taken apart.
#[derive(Default)]
struct Printed {
    banner: String,
    terse: String,
    json: String,
    normal: String,
}

fn run(directory: &Path, case: &Case) -> Option<Printed> {
    let output = Command::new("fio")
        .args(["--output-format=json+,normal,terse", &format!("--terse-version={}", case.terse_version)])
        .args(case.args)
        .current_dir(directory)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    let mut printed = Printed::default();
    let mut part = &mut printed.banner;
    for line in text.split_inclusive('\n') {
        if line == "{\n" {
            part = &mut printed.json;
        }
        // A description of version 2 has a line of its own.
        if line.starts_with(&format!("{};", case.terse_version)) || line.starts_with(';') {
            printed.terse.push_str(line);
        } else {
            part.push_str(line);
        }
        // Below the banner and before the JSON there are only messages of the run.
        if line.starts_with("Starting ") || line == "}\n" {
            part = &mut printed.normal;
            part.clear();
        }
    }
    Some(printed)
}

fn ours(case: &Case) -> Invocation {
    match parse_args(case.args, &common::Table::default()) {
        Ok(Request::Run(invocation)) => *invocation,
        other => panic!("{}: {other:?}", case.name),
    }
}

/// Differences beyond those that the case names; counts figures that were one off.
fn differences(case: &Case, what: &str, ours: &str, theirs: &str, rounded: &mut usize) -> Vec<String> {
    let excluded = |line: &&str| case.differs.iter().any(|(start, _)| line.trim_start().starts_with(start));
    let (mine, their): (Vec<&str>, Vec<&str>) = (
        ours.split('\n').filter(|line| !excluded(line)).collect(),
        theirs.split('\n').filter(|line| !excluded(line)).collect(),
    );
    let mut found = Vec::new();
    for index in 0..mine.len().max(their.len()) {
        let (mine, their) = (mine.get(index).copied(), their.get(index).copied());
        match mine.zip(their).and_then(|(mine, their)| same(mine, their, case.share_differs)) {
            Some(off) => *rounded += off,
            None => found.push(format!("{} {what} line {index}:\n  ours {mine:?}\n  fio  {their:?}", case.name)),
        }
        if found.len() > 5 {
            break;
        }
    }
    found
}

fn compare(directory: &Path, case: &Case) -> Option<Vec<String>> {
    let printed = run(directory, case)?;
    let value: serde_json::Value = serde_json::from_str(&printed.json).unwrap_or_else(|error| {
        panic!("{}: {error}: {}", case.name, printed.json);
    });
    let invocation = ours(case);
    let headers: Vec<&str> = printed.normal.lines().filter(|line| line.contains(": (groupid=")).collect();
    let entries = value["jobs"].as_array().unwrap();
    let stats: Vec<JobStat> =
        entries.iter().zip(&headers).map(|(entry, header)| rebuild::stat(entry, header)).collect();
    assert_eq!(stats.len(), entries.len(), "{}: {}", case.name, printed.normal);
    let mut report = rebuild::report(&value, &invocation, &stats);
    let mut rounded = 0;
    let mut found = differences(case, "json", &json(&report, true), &printed.json, &mut rounded);
    found.extend(differences(case, "terse", &terse(&report, case.terse_version), &printed.terse, &mut rounded));
    // fio looks at the clock again for it.
    report.time = headers[0].rsplit_once(": ").map(|(_, time)| time.to_owned()).unwrap();
    let texts = normal(&report);
    found.extend(differences(case, "normal", &texts, &printed.normal, &mut rounded));
    for (start, why) in case.differs {
        let lines = |text: &str| -> Vec<String> {
            text.lines().map(str::trim_start).filter(|line| line.starts_with(start)).map(str::to_owned).collect()
        };
        if lines(&texts) == lines(&printed.normal) {
            found.push(format!("{}: `{start}` no longer differs, though {why}", case.name));
        }
    }
    let groups: Vec<_> = invocation
        .jobs
        .iter()
        .map(|job| (job, report.jobs.iter().find(|entry| entry.job.name == job.name).map_or(0, |e| e.stat.groupid)))
        .collect();
    found.extend(differences(case, "banner", &banner(report.version, &groups), &printed.banner, &mut rounded));
    println!("{:45} {} lines of normal report, {rounded} figures one off", case.name, texts.lines().count());
    // Of hundreds; a wrong rule of rounding would be off in half of them.
    if rounded > 10 {
        found.push(format!("{}: {rounded} figures are one off", case.name));
    }
    Some(found)
}

#[test]
fn reports_are_those_that_fio_prints_of_the_same_run() {
    const NAME: &str = "reports_are_those_that_fio_prints_of_the_same_run";
    let directory = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for case in CASES {
        // What lies in the file is no header of verify's.
        fs::write(directory.path().join("f"), vec![7; 1 << 20]).unwrap();
        match compare(directory.path(), case) {
            Some(differences) => found.extend(differences),
            None => return skip(NAME, "no fio here"),
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn logs_have_the_lines_of_fios_logs() {
    const NAME: &str = "logs_have_the_lines_of_fios_logs";
    let directory = tempfile::tempdir().unwrap();
    let args = [
        "--name=a",
        "--ioengine=null",
        "--size=64k",
        "--rw=randrw",
        "--write_lat_log=l",
        "--write_bw_log=l",
        "--numjobs=2",
        "--write_hist_log=h",
        "--log_hist_msec=100",
        "--rate_iops=20",
        "--output=/dev/null",
        "--name=b",
        "--log_offset=1",
        "--ioengine=null",
        "--size=64k",
        "--rw=write",
        "--write_iops_log=i",
        "--per_job_logs=0",
    ];
    let Ok(output) = Command::new("fio").args(args).current_dir(directory.path()).output() else {
        return skip(NAME, "no fio here");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    use logs::LogKind::{Bw, Clat, ClatHist, Iops, Lat};
    let read =
        |name: String| fs::read_to_string(directory.path().join(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    for (prefix, kind, job, offset) in
        [("l", Lat, Some(1), false), ("l", Clat, Some(2), false), ("l", Bw, Some(1), false), ("i", Iops, None, true)]
    {
        let text = read(logs::file_name(prefix, kind, job));
        let entries: Vec<LogEntry> = text
            .lines()
            .map(|line| {
                let fields: Vec<u64> = line.split(", ").map(|field| field.parse().unwrap()).collect();
                let offset = if offset { fields[4] } else { 0 };
                LogEntry { ms: fields[0], value: fields[1], direction: fields[2] as u8, bs: fields[3], offset }
            })
            .collect();
        assert!(entries.len() > 3, "{text}");
        assert_eq!(logs::lines(&entries, offset), text);
    }
    let text = read(logs::file_name("h", ClatHist, Some(1)));
    assert!(!text.is_empty());
    for line in text.split_inclusive('\n') {
        let fields: Vec<u64> = line.trim_end().split(", ").map(|field| field.parse().unwrap()).collect();
        let mut bins = PlatHist::default();
        fields[3..].iter().enumerate().for_each(|(index, count)| bins.set(index, *count));
        assert_eq!(logs::histogram_line(fields[0], fields[1] as u8, fields[2], &bins, 0), line);
    }
}

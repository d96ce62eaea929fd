//! Log files: names, columns and lines as fio's.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::fio::{Side, has_fio};
use crate::common::{Place, float, names, or_skip};

/// Of each log in a directory: columns of its first line (0 where it is empty) and lines.
fn logs(dir: &Path) -> BTreeMap<String, (usize, usize)> {
    let logs = names(dir).into_iter().filter(|name| name.ends_with(".log"));
    logs.map(|name| {
        let text = std::fs::read_to_string(dir.join(&name)).unwrap();
        let columns = text.lines().next().map_or(0, |line| line.split(", ").count());
        (name, (columns, text.lines().count()))
    })
    .collect()
}

#[test]
fn logs_have_fios_names_columns_and_lines() {
    or_skip!(has_fio());
    let all = "--write_bw_log=a --write_iops_log=b --write_lat_log=c";
    let lines = [
        format!("--rw=randread {all}"),
        format!("--rw=randwrite {all} --ioengine=libaio --iodepth=4 --log_offset=1"),
        format!("--rw=write {all} --numjobs=2"),
        format!("--rw=write {all} --numjobs=2 --per_job_logs=0"),
        format!("--rw=read {all} --name=k --rw=write"),
    ];
    for line in lines {
        let line = format!("--size=1m --bs=4k --name=j {line}");
        let [fio, ours] = [Side::Fio, Side::Ours].map(|side| {
            let place = Place::new();
            side.report(place.dir(), &line);
            logs(place.dir())
        });
        assert!(!fio.is_empty(), "{line}");
        assert_eq!(ours, fio, "{line}");
    }
}

#[test]
fn averaged_logs_have_fios_names_and_columns() {
    or_skip!(has_fio());
    let line = "--size=1m --bs=4k --name=j --rw=randread --time_based --runtime=1 --rate_iops=500 --write_bw_log=a \
                --write_iops_log=b --write_lat_log=c --log_avg_msec=100 --write_hist_log=d --log_hist_msec=100";
    // A stall of the machine takes lines from one of the two, and all of them if it is long; it does not three times.
    let mut told = Vec::new();
    for _ in 0..3 {
        let [fio, ours] = [Side::Fio, Side::Ours].map(|side| {
            let place = Place::new();
            side.paced(place.dir(), line);
            logs(place.dir())
        });
        assert_eq!(ours.keys().collect::<Vec<_>>(), fio.keys().collect::<Vec<_>>());
        // Windows begin and end at times of their own.
        let differs = |(ours, fio): (&(usize, usize), &(usize, usize))| ours.0 != fio.0 || ours.1.abs_diff(fio.1) > 2;
        if !ours.values().zip(fio.values()).any(differs) {
            return;
        }
        told.push(format!("ours {ours:?}, fio's {fio:?}"));
    }
    panic!("columns and lines: {}", told.join("\n"));
}

/// Its windows are of 100 ms, but for the last: one after a stall holds what was due in it as well.
#[test]
fn the_values_of_averaged_logs_are_those_of_the_run() {
    let place = Place::new();
    let line = "--size=1m --bs=4k --name=j --rw=randread --time_based --runtime=3 --rate_iops=500 --write_bw_log=a \
                --write_iops_log=b --log_avg_msec=100";
    let report = Side::Ours.paced(place.dir(), line);
    let read = &report["jobs"][0]["read"];
    for (name, total) in [("a_bw.1.log", float(&read["io_kbytes"])), ("b_iops.1.log", float(&read["total_ios"]))] {
        let text = std::fs::read_to_string(place.dir().join(name)).unwrap();
        let moved = |line: &str| {
            let [ms, per_second] = [0, 1].map(|column| line.split(", ").nth(column).unwrap().parse::<f64>().unwrap());
            let part_ms = ms % 100.0;
            per_second * if part_ms > 0.0 { part_ms } else { 100.0 } / 1000.0
        };
        let moved: f64 = text.lines().map(moved).sum();
        // The rate of the last moments is chance, and is not logged.
        assert!((0.9 * total..=total + 1.0).contains(&moved), "{name}: {moved} of {total}: {text}");
    }
}

#[test]
fn with_log_syncs_each_sync_has_its_line() {
    let place = Place::new();
    let line = "--size=1m --bs=4k --name=j --rw=write --fsync=16 --write_lat_log=x";
    let syncs = |more: &str| {
        Side::Ours.report(place.dir(), &format!("{line} {more}"));
        let text = std::fs::read_to_string(place.dir().join("x_clat.1.log")).unwrap();
        let directions = text.lines().map(|line| line.split(", ").nth(2).unwrap().to_owned());
        directions.filter(|direction| direction == "3").count()
    };
    assert_eq!(syncs(""), 0);
    let counted = |report: &serde_json::Value| crate::common::int(&report["jobs"][0]["sync"]["total_ios"]);
    let report = Side::Ours.report(place.dir(), line);
    assert_eq!(syncs("--log_syncs=1") as u64, counted(&report));
}

//! Log files: names, columns and lines as fio's.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::fio::{Side, has_fio};
use crate::common::{Place, names, or_skip};

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
    let [fio, ours] = [Side::Fio, Side::Ours].map(|side| {
        let place = Place::new();
        side.paced(place.dir(), line);
        logs(place.dir())
    });
    assert_eq!(ours.keys().collect::<Vec<_>>(), fio.keys().collect::<Vec<_>>());
    for (name, (columns, lines)) in &fio {
        assert_eq!(ours[name].0, *columns, "{name}");
        // Windows begin and end at times of their own.
        assert!(ours[name].1.abs_diff(*lines) <= 2, "{name}: {} lines, fio's {lines}", ours[name].1);
    }
}

#[test]
fn the_values_of_averaged_logs_are_those_of_the_run() {
    let place = Place::new();
    let line = "--size=1m --bs=4k --name=j --rw=randread --time_based --runtime=1 --rate_iops=500 --write_bw_log=a \
                --write_iops_log=b --log_avg_msec=100";
    Side::Ours.paced(place.dir(), line);
    for (name, wanted) in [("a_bw.1.log", 2000.0), ("b_iops.1.log", 500.0)] {
        let text = std::fs::read_to_string(place.dir().join(name)).unwrap();
        let values: Vec<f64> = text.lines().map(|line| line.split(", ").nth(1).unwrap().parse().unwrap()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!((mean / wanted - 1.0).abs() < 0.1, "{name}: mean {mean} of {values:?}");
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

//! Real output of other tools: every figure that a file states is read, and what it lacks is said.

mod common;

use std::path::Path;

use common::{read, value};
use qd1_model::OpClass;
use qd1_model::measured::{Aspect, Measured};

fn only(name: &str) -> Measured {
    common::only(&format!("samples/{name}"))
}

fn says(run: &Measured, what: &str) -> bool {
    run.missing.iter().any(|missing| missing.contains(what))
}

#[test]
fn json_plus_has_its_figures_and_no_percentile_of_too_few() {
    let run = only("fio-3.42-read.json+");
    let step = &run.steps[0];
    assert_eq!(
        (run.tool.as_str(), step.does.unwrap().title().as_str()),
        ("fio-3.42-135-gf5344", "randread 4 KiB, 1 in flight")
    );
    assert_eq!(value(step, OpClass::Read, "iops"), 5752.808989);
    assert_eq!(value(step, OpClass::Read, "bytes_per_second"), 23_563_505.0);
    assert_eq!(value(step, OpClass::Read, "lat_p50_ns"), 118_272.0);
    let p999 = step.streams[0].figure("lat_p999_ns").unwrap();
    assert_eq!((p999.value, p999.n), (None, 512), "512 reads have no 99.9th percentile");
    assert!(says(&run, "no intervals for its percentiles"));
}

/// `--percentile_list` may leave out those that qd1 has; the bins have all.
#[test]
fn percentiles_that_are_not_listed_are_those_of_the_bins() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/fio-3.42-read.json+");
    let text = std::fs::read_to_string(path).unwrap().replace("\"50.000000\"", "\"51.000000\"");
    let runs = qd1_import::read("x", text.as_bytes()).unwrap();
    let p50 = value(&runs[0].steps[0], OpClass::Read, "lat_p50_ns");
    assert!((p50 / 118_272.0 - 1.0).abs() < 0.01, "{p50}");
}

#[test]
fn commits_of_a_report_are_known_by_their_syncs() {
    for (name, iops, sync_p50_ns) in [("fio-3.33-commit.txt", 3820.0, 178e3), ("fio-3.42-commit.txt", 3324.0, 258e3)] {
        let run = only(name);
        let step = &run.steps[0];
        assert!(step.does.unwrap().commits, "{name}");
        assert_eq!(value(step, OpClass::Commit, "iops"), iops);
        assert_eq!(value(step, OpClass::Commit, "sync_p50_ns"), sync_p50_ns);
        assert!(step.streams[0].figure("lat_p50_ns").is_none(), "a write without its sync is no commit");
        assert!(says(&run, "writes and their syncs separately") && says(&run, "page cache"), "{:?}", run.missing);
    }
}

#[test]
fn syncs_now_and_then_leave_writes_what_they_are() {
    let run = only("fio-3.33-randrw-fsync.json");
    let step = &run.steps[0];
    assert_eq!(value(step, OpClass::Read, "lat_p99_ns"), 1_122_304.0);
    assert_eq!(value(step, OpClass::Write, "iops"), 3771.428571);
    assert_eq!(step.does.unwrap().title(), "randrw 50 % reads 4 KiB, 1 in flight, sync every 8 writes");
}

#[test]
fn a_job_that_failed_is_read_with_its_error() {
    let run = only("fio-3.33-group-mixed.txt");
    assert_eq!(run.steps.len(), 1, "what has no name did nothing");
    assert!(run.steps[0].fault.contains("error 22"), "{}", run.steps[0].fault);
}

#[test]
fn several_reports_of_one_run_are_one() {
    let run = only("fio-3.33-status-interval.json");
    assert_eq!(run.steps.len(), 1);
    // The last has the most.
    assert!(value(&run.steps[0], OpClass::Read, "iops") > 1000.0);
    assert_eq!(run.steps[0].streams[0].figure("iops").unwrap().n, 17_790);
    assert!(says(&run, "several reports"));
}

#[test]
fn terse_lines_of_both_versions() {
    for name in ["fio-3.33-terse.txt", "fio-3.42-terse.txt"] {
        let run = only(name);
        assert!(run.tool.starts_with("fio-3."), "{name}");
        assert!(value(&run.steps[0], OpClass::Read, "iops") > 1000.0);
        assert!(says(&run, "does not say what the job did"));
    }
    let run = only("fio-3.42-terse.txt");
    assert_eq!(value(&run.steps[0], OpClass::Read, "lat_p50_ns"), 146e3);
    assert_eq!(value(&run.steps[0], OpClass::Read, "lat_mean_ns").round(), 162_225.0);
}

#[test]
fn five_runs_of_2017_are_repeats_with_intervals() {
    let runs = read("samples/vps-2017-ovh-vpsssd1-fio_randread.txt");
    assert_eq!(runs.len(), 5);
    assert_eq!(runs[4].label, "vps-2017-ovh-vpsssd1-fio_randread.txt#5");
    for run in &runs {
        let step = &run.steps[0];
        assert_eq!((run.tool.as_str(), step.engine.as_str()), ("fio-2.2.10", "libaio"));
        assert_eq!(step.does.unwrap().title(), "randread 4 KiB, 128 in flight");
        assert_eq!(value(step, OpClass::Read, "iops"), 999.0);
        let iops = step.streams[0].figure("iops").unwrap();
        assert!(iops.low.is_some_and(|low| low > 990.0) && iops.high.is_some_and(|high| high < 1010.0), "{iops:?}");
    }
    assert_eq!(value(&runs[0].steps[0], OpClass::Read, "lat_mean_ns"), 127_985_120.0);
}

#[test]
fn reports_in_a_list_are_one_run() {
    let run = only("vps-disk-latency-bench.json");
    assert_eq!(run.steps.len(), 3);
    assert_eq!(run.steps[0].name, "randrw_70read_4k_qd1_jobs1");
    assert_eq!(run.steps[0].does.unwrap().title(), "randrw 70 % reads 4 KiB, 1 in flight");
    assert_eq!(value(&run.steps[0], OpClass::Read, "lat_p999_ns"), 659_456.0);
}

#[test]
fn p99bench_has_its_tests_and_whose_machine_it_was() {
    let run = only("p99bench-cpx32.json");
    let of = |aspect| run.circumstances.iter().find(|known| known.aspect == aspect).map(|known| known.value.as_str());
    assert_eq!((run.tool.as_str(), run.started_unix_ns), ("p99bench 0.2.1", Some(1_784_301_760_000_000_000)));
    for (aspect, value) in [
        (Aspect::Host, "afad71924d76"),
        (Aspect::Instance, "hetzner CPX32"),
        (Aspect::Region, "fsn-1"),
        (Aspect::Price, "42.23 EUR/month"),
        (Aspect::Processors, "4 x Intel Xeon Processor (Skylake, IBRS, no TSX)"),
        (Aspect::Memory, "7.5 GiB"),
    ] {
        assert_eq!(of(aspect), Some(value), "{aspect:?}");
    }
    let step = |name: &str| run.steps.iter().find(|step| step.name == name).unwrap();
    let names: Vec<&str> = run.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names.len(), 8, "{names:?}");
    assert_eq!(value(step("rand_read_8k_qd1"), OpClass::Read, "lat_p99_ns"), 464_900.0);
    assert_eq!(value(step("seq_read"), OpClass::Read, "bytes_per_second"), 5267.15 * 1_048_576.0);
    let wal = step("wal_fsync");
    assert_eq!(wal.does.unwrap().title(), "write 8 KiB, 1 in flight, each durable");
    assert_eq!(value(wal, OpClass::Commit, "lat_p999_ns"), 4_423_680.0);
    // The fdatasync is in the rate, and so in its mean; fio's own mean of 932 us leaves it out.
    assert_eq!(value(wal, OpClass::Commit, "lat_mean_ns").round(), 1_036_506.0);
    assert!((value(step("steady_state"), OpClass::Read, "iops") - 35_178.311).abs() < 1e-6);
    for what in ["fdatasync after each write", "no intervals for its percentiles", "last minute"] {
        assert!(says(&run, what), "{what}");
    }
}

#[test]
fn a_result_of_p99bench_without_its_disk_part_is_refused() {
    let text = br#"{"schema_version": "2.0", "run": {"tool_version": "0.2.1"}, "provider": {"name": "x"}, "disk": {"seq_read": null}}"#;
    assert!(qd1_import::read("x", text).unwrap_err().to_string().contains("p99bench"));
}

#[test]
fn yabs_says_the_same_as_json_and_as_text() {
    let (json, text) = (only("yabs.json"), only("yabs.txt"));
    assert_eq!(json.tool, text.tool);
    let names = |run: &Measured| run.steps.iter().map(|step| step.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&json), ["4k", "64k", "512k", "1m"]);
    assert_eq!(names(&json), names(&text));
    for (one, other) in json.steps.iter().zip(&text.steps) {
        assert_eq!(one.does, other.does);
        for class in [OpClass::Read, OpClass::Write] {
            for metric in ["iops", "bytes_per_second"] {
                let ratio = value(one, class, metric) / value(other, class, metric);
                assert!((ratio - 1.0).abs() < 0.003, "{} {metric}: {ratio}", one.name);
            }
        }
    }
    assert!(says(&json, "only rates"));
}

#[test]
fn what_bonnie_found_too_quick_is_said() {
    let run = only("bonnie.csv");
    assert_eq!(run.tool, "bonnie++ 2.00a");
    assert!(run.steps.iter().all(|step| step.fault.contains("too fast")));
    assert!(says(&run, "block-write, block-rewrite, block-read, seeks"));
}

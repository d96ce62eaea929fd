//! The same jobs by fio and by us: keys and types of the JSON, requests and bytes, files left behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use qd1_lab::Loop;
use serde_json::Value;

use crate::common::fio::{Side, for_each, has_fio};
use crate::common::{Place, int, list, or_skip, skip, test_name};

/// What has to be equal of the amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Equal {
    /// Requests and bytes of each direction.
    Each,
    /// Their sums: the directions are drawn, and the draws are each program's own.
    Sum,
    /// The bytes: sizes are drawn.
    Bytes,
    /// Only the shape: sizes of files are drawn.
    Shape,
}
use Equal::{Bytes, Each, Shape, Sum};

/// Keys that we have in addition: fio 3.42's `job_start` and sectors of disks, and the cost of each commit.
const OURS: [&str; 5] = ["job_start", "all_syncs", "commit_ns", "read_sectors", "write_sectors"];

/// On a file in an empty directory, 1 MiB in blocks of 4 KiB unless the line says otherwise.
const FILES: &[(Equal, &str)] = &[
    // First, as it takes the longest. In a shorter time a stall may leave nothing to be reported.
    (Shape, "--rw=read --time_based --runtime=3 --ramp_time=200ms --rate_iops=200"),
    (Each, "--rw=read"),
    (Each, "--rw=write --ioengine=psync --fallocate=none"),
    (Each, "--rw=randread --ioengine=sync"),
    (Each, "--rw=randwrite --ioengine=pvsync2"),
    (Sum, "--rw=rw --ioengine=pvsync"),
    (Sum, "--rw=randrw --ioengine=mmap"),
    (Each, "--rw=write --ioengine=vsync"),
    (Sum, "--rw=randrw --ioengine=libaio --iodepth=4"),
    (Each, "--rw=write --ioengine=libaio --iodepth=16 --direct=1"),
    (Each, "--rw=randread --ioengine=io_uring --iodepth=8"),
    (Sum, "--rw=randrw --ioengine=null --iodepth=4"),
    (Each, "--rw=read --ioengine=null"),
    (Bytes, "--rw=write --bssplit=4k/50:8k/50"),
    (Bytes, "--rw=read --bsrange=1k-16k"),
    (Each, "--rw=randwrite --numjobs=3"),
    (Each, "--rw=randread --numjobs=3 --group_reporting"),
    (Each, "--rw=read --loops=2"),
    (Each, "--rw=write --io_size=2304k"),
    (Each, "--rw=randwrite --io_size=256k"),
    (Each, "--rw=write --io_size=300001"),
    (Each, "--rw=randread --number_ios=100"),
    (Each, "--rw=write --number_ios=10 --loops=3"),
    (Each, "--rw=randwrite --nrfiles=4 --file_service_type=random"),
    (Each, "--rw=read --nrfiles=4 --file_service_type=roundrobin"),
    (Each, "--rw=randwrite --nrfiles=4 --file_service_type=sequential"),
    (Each, "--rw=read --nrfiles=4 --file_service_type=zipf:1.2"),
    (Each, "--rw=write --nrfiles=4 --file_service_type=pareto:0.2"),
    (Each, "--rw=randread --nrfiles=4 --file_service_type=normal:50"),
    (Each, "--rw=write --fsync=8"),
    (Each, "--rw=randwrite --fdatasync=1 --number_ios=32"),
    (Each, "--rw=write --sync=dsync --number_ios=32"),
    (Each, "--rw=write --end_fsync=1"),
    (Each, "--rw=write --fsync_on_close=1 --loops=2"),
    (Each, "--rw=write --filesize=1m --size=50%"),
    (Each, "--rw=write --filesize=1m --size=50% --offset=256k"),
    (Each, "--rw=write --nrfiles=3 --filesize=256k --size=50%"),
    (Each, "--rw=write --filesize=1m --size=256k --offset_increment=25% --numjobs=3"),
    (Each, "--rw=write --filesize=1m --size=200%"),
    (Each, "--rw=write --bs=64k --bssplit=,4k/100"),
    (Each, "--rw=read --bs=64k --bssplit=,4k/100"),
    (Each, "--rw=write --verify=crc32c"),
    (Each, "--rw=randwrite --verify=md5 --verify_backlog=16"),
    (Sum, "--rw=rw --unified_rw_reporting=mixed"),
    (Sum, "--rw=rw --unified_rw_reporting=both"),
    (Each, "--rw=read --zonemode=strided --zonesize=64k --zonerange=256k --zoneskip=64k"),
    (Each, "--rw=read:8k"),
    (Each, "--rw=randread:8"),
    (Each, "--rw=randwrite --percentage_random=30"),
    (Each, "--rw=randwrite --norandommap"),
    (Each, "--rw=randwrite --random_generator=lfsr"),
    (Each, "--rw=randread --size=1000001"),
    (Each, "--rw=write --size=1000001"),
    (Each, "--rw=write --offset=512k"),
    (Each, "--rw=write --offset_increment=1m --numjobs=2 --filename=f"),
    (Each, "--rw=write --file_append=1 --filename=f"),
    (Each, "--rw=write --filename=a:b"),
    (Each, "--rw=write --unlink=1"),
    (Each, "--rw=randwrite --random_distribution=zipf:1.1"),
    (Each, "--rw=read --percentile_list=50:99.9 --lat_percentiles=1 --slat_percentiles=1 --clat_percentiles=0"),
    (Each, "--rw=read --gtod_reduce=1 --description=hello"),
    (Each, "--rw=read --disable_clat=1"),
    (Shape, "--rw=write --nrfiles=4 --filesize=64k-512k"),
    (Each, "--rw=write --name=k --stonewall --rw=randread --new_group --name=l --wait_for=k --rw=read"),
];

/// On a block device: what needs one.
const DEVICE: &[(Equal, &str)] = &[
    (Each, "--rw=trim"),
    (Each, "--rw=randtrim"),
    (Each, "--rw=trimwrite"),
    (Each, "--rw=randtrimwrite"),
    (Each, "--rw=randwrite --direct=1 --ioengine=libaio --iodepth=8"),
    (Each, "--rw=read --direct=1 --ioengine=io_uring --iodepth=4 --offset=3m --size=5m"),
    (Each, "--rw=write --verify=xxhash --size=100%"),
];

/// What differs in shape: keys that one lacks, values of other types.
fn shape(path: &str, fio: &Value, ours: &Value, out: &mut Vec<String>) {
    match (fio, ours) {
        (Value::Object(fio), Value::Object(ours)) => {
            // Bins and percentiles are there for what was measured; their keys are latencies.
            let own = |key: &str| path.ends_with("bins") || OURS.contains(&key);
            for key in fio.keys().filter(|key| !ours.contains_key(*key)) {
                out.push(format!("{path}.{key} is missing"));
            }
            for (key, value) in ours.iter() {
                match fio.get(key) {
                    Some(theirs) => shape(&format!("{path}.{key}"), theirs, value, out),
                    None if own(key) => {}
                    None => out.push(format!("{path}.{key} is not in fio's")),
                }
            }
        }
        (Value::Array(fio), Value::Array(ours)) => {
            if fio.len() != ours.len() {
                out.push(format!("{path} has {} elements, fio's {}", ours.len(), fio.len()));
            }
            fio.iter().zip(ours).for_each(|(fio, ours)| shape(&format!("{path}[]"), fio, ours, out));
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() => {}
        (Value::String(_), Value::String(_)) => {}
        _ => out.push(format!("{path} is {ours}, fio's is {fio}")),
    }
}

/// (requests, bytes) of the directions of a job, in fio's order, absent ones left out.
fn amounts(job: &Value) -> Vec<(u64, u64)> {
    let of = |key: &str| job.get(key).map(|part| (int(&part["total_ios"]), int(&part["io_bytes"])));
    ["read", "write", "trim", "mixed"].into_iter().filter_map(of).collect()
}

/// The amounts, as far as they have to be equal.
fn comparable(job: &Value, equal: Equal) -> Vec<(u64, u64)> {
    let all = amounts(job);
    let sum = all.iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    match equal {
        Each => all,
        Sum => vec![sum],
        Bytes => vec![(0, sum.1)],
        Shape => Vec::new(),
    }
}

/// Names and sizes of what a run left. fio keeps where a verification stands in a file of its own; we do not.
fn left(dir: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let named =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.metadata().unwrap().len()));
    named.filter(|(name, _)| !name.ends_with("verify.state")).collect()
}

/// Runs a line by both and tells what differs. `dirs` are fio's and ours.
fn differences(equal: Equal, line: &str, dirs: [&Path; 2]) -> Vec<String> {
    let [fio, ours] = [(Side::Fio, dirs[0]), (Side::Ours, dirs[1])].map(|(side, dir)| side.report(dir, line));
    let mut out = Vec::new();
    shape("", &fio, &ours, &mut out);
    for (fio, ours) in list(&fio["jobs"]).iter().zip(list(&ours["jobs"])) {
        for key in ["jobname", "groupid", "error"] {
            if fio[key] != ours[key] {
                out.push(format!("{key} is {}, fio's {}", ours[key], fio[key]));
            }
        }
        if fio["job options"] != ours["job options"] {
            out.push(format!("job options are {}, fio's {}", ours["job options"], fio["job options"]));
        }
        let [wanted, got] = [fio, ours].map(|job| comparable(job, equal));
        if wanted != got {
            out.push(format!("requests and bytes are {got:?}, fio's {wanted:?}"));
        }
        if equal != Shape && fio["sync"]["total_ios"] != ours["sync"]["total_ios"] {
            out.push(format!("syncs are {}, fio's {}", ours["sync"]["total_ios"], fio["sync"]["total_ios"]));
        }
    }
    out
}

fn told(line: &str, out: &[String]) -> Result<(), String> {
    if out.is_empty() { Ok(()) } else { Err(format!("{line}:\n  {}", out.join("\n  "))) }
}

#[test]
fn reports_amounts_and_files_of_the_same_jobs_equal_fios() {
    or_skip!(has_fio());
    for_each(FILES, 4, |(equal, line)| {
        let line = format!("--bs=4k --size=1m --name=j {line}");
        let [fio, ours] = [Place::new(), Place::new()];
        let mut out = differences(*equal, &line, [fio.dir(), ours.dir()]);
        let [wanted, got] = [&fio, &ours].map(|place| left(place.dir()));
        if *equal != Shape && wanted != got {
            out.push(format!("files left are {got:?}, fio's {wanted:?}"));
        }
        told(&line, &out)
    });
}

#[test]
fn on_a_block_device_trims_and_writes_are_as_many_as_fios() {
    or_skip!(has_fio());
    let disk = or_skip!(Loop::new(16 << 20, &[]));
    let place = Place::new();
    for_each(DEVICE, 1, |(equal, line)| {
        let line = format!("--bs=64k --size=8m --filename={} --name=j {line}", disk.path());
        told(&line, &differences(*equal, &line, [place.dir(), place.dir()]))
    });
}

#[test]
fn a_queue_is_kept_as_full_as_fio_keeps_it() {
    or_skip!(has_fio());
    let place = Place::new();
    for more in [
        "",
        "--iodepth_batch_complete_min=4",
        "--iodepth_low=4",
        "--iodepth_batch=4",
        "--iodepth_batch=16 --iodepth_low=8",
    ] {
        let line = format!(
            "--name=j --filename=f --rw=randread --bs=4k --size=4m --ioengine=libaio --iodepth=16 --direct=1 {more}"
        );
        let [fio, ours] = [Side::Fio, Side::Ours].map(|side| side.report(place.dir(), &line)["jobs"][0].clone());
        for level in ["1", "2", "4", "8", "16"] {
            let [wanted, got] = [&fio, &ours].map(|job| job["iodepth_level"][level].as_f64().unwrap());
            assert!((wanted - got).abs() < 15.0, "{more}: depth {level} in {got} % of requests, fio's {wanted} %");
        }
    }
}

#[test]
fn jobs_that_cannot_run_fail_with_both() {
    or_skip!(has_fio());
    let lines = [
        "--name=j --rw=read --size=1m --directory=nowhere",
        "--name=j --rw=read --filename=nofile",
        "--name=j --rw=read --size=1m --filename=nofile --allow_file_create=0",
        "--name=j --rw=write --size=4k --bs=64k",
        "--name=j --rw=write --size=1m --filename=/",
        "--name=j --rw=write --size=100k --bs=1000 --direct=1",
        "--name=j --rw=write --size=1m --ioengine=nosuch",
        "--name=j --rw=reed --size=1m",
        "--name=j --siez=1m",
        "nofile.fio",
        "--readonly --name=j --rw=write --size=1m",
        "",
    ];
    for_each(&lines, 3, |line| {
        let place = Place::new();
        let [fio, ours] = [Side::Fio, Side::Ours].map(|side| side.run(place.dir(), line));
        let (code, said) = (ours.status.code(), !ours.stderr.is_empty());
        let fails = !fio.status.success() && matches!(code, Some(1 | 2)) && said;
        if fails { Ok(()) } else { Err(format!("{line}: fio {:?}, ours {code:?}, said {said}", fio.status)) }
    });
}

#[test]
fn each_loop_reads_from_the_disk_again() {
    // Seen in the kernel's counts of the disk, which tmpfs has none of.
    let place = Place::new();
    for how in ["--loops=3", "--time_based --runtime=60 --number_ios=3072"] {
        let line = format!("--name=j --filename=f --rw=randread --bs=4k --size=4m {how}");
        let report = Side::Ours.report(place.dir(), &line);
        let Some(disk) = report["disk_util"].get(0) else {
            return skip(test_name!(), "no disk below the test's directory");
        };
        assert_eq!(int(&report["jobs"][0]["read"]["total_ios"]), 3072, "{how}");
        // Other programs add to it, none take from it.
        assert!(int(&disk["read_sectors"]) >= 3 * 8192, "{how}: {disk}");
    }
}

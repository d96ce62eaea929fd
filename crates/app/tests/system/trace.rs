//! `qd1 trace` on loop devices: it shows exactly the requests that the kernel counted.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use qd1_lab::{Loop, Mount, Mounted, Zram, tool};
use qd1_model::environment::DeviceCounters;
use qd1_probe::Machine;
use serde_json::Value;

use crate::common::refusal::as_ordinary_user;
use crate::common::{Place, Running, int, is_root, or_skip, said, traced};

/// The kernel's counters of a device.
pub(crate) fn counted(disk: &str) -> DeviceCounters {
    let name = disk.strip_prefix("/dev/").unwrap();
    Machine::new().device_counters(name).unwrap()
}

fn requests<'a>(objects: &'a [Value], op: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["type"] == "request" && object["op"] == op)
}

fn bytes<'a>(requests: impl Iterator<Item = &'a Value>) -> u64 {
    requests.map(|request| int(&request["bytes"])).sum()
}

fn dd(args: &[&str]) {
    tool("dd", &[&["status=none"], args].concat()).unwrap();
}

#[test]
fn every_request_that_the_kernel_counts_is_shown() {
    let disk = or_skip!(Loop::new(64 << 20, &[]));
    let (from, to) = (format!("if={}", disk.path()), format!("of={}", disk.path()));
    let before = counted(disk.path());
    let objects = traced(disk.path(), &[], || {
        dd(&[&from, "of=/dev/null", "bs=4k", "count=400", "iflag=direct"]);
        dd(&["if=/dev/zero", &to, "bs=64k", "count=60", "oflag=direct", "conv=notrunc,fdatasync"]);
    });
    let change = counted(disk.path()).since(&before);
    assert_eq!(objects[0]["rests_on"], "bpf_tracepoints");
    let end = objects.last().unwrap();
    let shown = objects.len() as u64 - 2;
    let not_shown = int(&end["lost"]) + int(&end["unseen"]);
    assert_eq!((&end["type"], int(&end["completed"])), (&Value::from("end"), shown + not_shown), "{end}");
    // The kernel does not run the program for every completion, but those requests are counted as in flight.
    let not_shown = not_shown + int(&end["in_flight"]);
    let is_all = |seen: u64, all: u64, each: u64| seen <= all && all - seen <= not_shown * each;
    let of_dd = |op: &'static str| requests(&objects, op).filter(|request| request["comm"] == "dd");
    assert!(is_all(of_dd("read").count() as u64, 400, 1), "{} of 400; {end}", of_dd("read").count());
    assert!(is_all(bytes(of_dd("write")), 60 << 16, 64 << 10), "{}; {end}", bytes(of_dd("write")));
    // Other users of the device appear in both.
    let [reads, flushes] = ["read", "flush"].map(|op| requests(&objects, op).count() as u64);
    assert!(is_all(reads, change.reads, 1), "{reads} of {}; {end}", change.reads);
    assert!(is_all(flushes, change.flushes, 1), "{flushes} of {}; {end}", change.flushes);
    for (op, all) in [("read", change.read_bytes), ("write", change.write_bytes)] {
        assert!(is_all(bytes(requests(&objects, op)), all, 1 << 20), "{op}: {all}; {end}");
    }
    assert!(not_shown < 20, "{end}");
    assert!(change.flushes > 0, "fdatasync should send a flush");
    for request in requests(&objects, "read") {
        assert!(int(&request["device_ns"]) > 0 && request["errno"] == 0, "{request}");
        // From 6.5 on, kernels report when a request was created.
        assert_eq!(request["queue_ns"].is_number(), objects[0]["sees_queue"] == true, "{request}");
    }
    let places: Vec<u64> = of_dd("read").map(|request| int(&request["sector"])).collect();
    let in_order = places.is_sorted_by(|one, next| one < next);
    let in_range = places.iter().all(|sector| sector % 8 == 0 && *sector < 3200);
    assert!(in_order && in_range, "sectors should be in order and in range: {places:?}");
}

#[test]
fn a_disk_without_a_queue_of_requests_is_traced_by_its_bios() {
    let disk = or_skip!(Zram::ext4(64 << 20));
    let mounted = or_skip!(Mount::new(&[disk.path()]));
    let file = format!("of={}/f", mounted.path().display());
    let from = format!("if={}", disk.path());
    let before = counted(disk.path());
    let mut during = None;
    let objects = traced(disk.path(), &["--syscalls"], || {
        let begin = counted(disk.path());
        dd(&[&from, "of=/dev/null", "bs=16k", "count=200", "iflag=direct"]);
        dd(&["if=/dev/zero", &file, "bs=64k", "count=30", "conv=fsync"]);
        during = Some(counted(disk.path()).since(&begin));
    });
    // The filesystem may read once more before the trace begins.
    let (during, around) = (during.unwrap(), counted(disk.path()).since(&before));
    let end = objects.last().unwrap();
    let not_shown = int(&end["lost"]) + int(&end["unseen"]) + int(&end["in_flight"]);
    let is_all = |seen: u64, least: u64, most: u64, each: u64| seen <= most && least <= seen + not_shown * each;
    let reads = requests(&objects, "read").count() as u64;
    assert!(is_all(reads, during.reads.max(200), around.reads, 1), "{reads} of {}; {end}", during.reads);
    for (op, least, most) in
        [("read", during.read_bytes, around.read_bytes), ("write", during.write_bytes, around.write_bytes)]
    {
        assert!(is_all(bytes(requests(&objects, op)), least, most, 1 << 20), "{op}: {least} to {most}; {end}");
    }
    assert!(requests(&objects, "read").all(|request| request["queue_ns"].is_null()), "there is no queue");
    // Its fsync waits for its own data, which is written in this process.
    let sync = objects.iter().find(|object| object["type"] == "sync").expect("a sync");
    assert_eq!((&sync["op"], &sync["comm"]), (&Value::from("fsync"), &Value::from("dd")), "{sync}");
    assert!(int(&sync["parts"]["data_ns"]) > 0, "{sync}");
}

#[test]
fn only_selected_requests_are_shown_up_to_the_count() {
    let disk = or_skip!(Loop::new(64 << 20, &[]));
    let to = format!("of={}", disk.path());
    let args = ["--op", "write", "--comm", "dd", "--min-size", "64k", "--count", "5"];
    let objects = traced(disk.path(), &args, || {
        dd(&["if=/dev/zero", &to, "bs=4k", "count=9", "oflag=direct", "conv=notrunc"]);
        dd(&["if=/dev/zero", &to, "bs=64k", "count=9", "oflag=direct", "conv=notrunc,fdatasync"]);
    });
    let sizes: Vec<u64> = requests(&objects, "write").map(|request| int(&request["bytes"])).collect();
    assert_eq!(sizes, [65_536; 5], "{objects:?}");
    assert_eq!(objects.len(), 7, "{objects:?}");
}

#[test]
fn it_ends_in_time_and_shows_what_happened_around_slow_requests() {
    let disk = or_skip!(Loop::new(64 << 20, &[]));
    let from = format!("if={}", disk.path());
    let read = || dd(&[&from, "of=/dev/null", "bs=4k", "count=20", "iflag=direct"]);
    // Every request takes longer than a nanosecond, and none takes an hour.
    for (slow, shown) in [("1ns", 20), ("1h", 0)] {
        let place = Place::new();
        let mut trace =
            Running::start(place.command(&["trace", disk.path(), "--slow", slow, "--runtime", "2s", "--json"]));
        let mut lines = BufReader::new(trace.0.stdout.take().unwrap()).lines();
        lines.next().expect("trace should start").unwrap();
        read();
        let rest: Vec<Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        let (seen, end) =
            (requests(&rest, "read").filter(|request| request["comm"] == "dd").count(), rest.last().unwrap());
        assert_eq!(end["type"], "end");
        // The kernel does not run the program for every completion, but those requests are counted.
        let not_shown = (int(&end["unseen"]) + int(&end["in_flight"])) as usize;
        assert!(seen <= shown && shown - seen <= not_shown, "{slow}: {seen}, {end}");
        let said = std::io::read_to_string(trace.0.stderr.take().unwrap()).unwrap();
        assert!(said.contains("waiting for requests of loop") && said.contains("of them took"), "{said}");
        assert_eq!(trace.0.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn other_programs_can_read_the_output_formats() {
    let disk = or_skip!(Loop::new(64 << 20, &[]));
    let from = format!("if={}", disk.path());
    let shown = |form: &str| {
        let place = Place::new();
        let mut command = place.command(&["trace", disk.path(), "--format", form, "--comm", "dd", "--count", "3"]);
        let trace = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        // The trace starts at some point, so keep reading until it has seen enough.
        let reader = std::thread::spawn(move || trace.wait_with_output().unwrap());
        while !reader.is_finished() {
            dd(&[&from, "of=/dev/null", "bs=4k", "count=3", "iflag=direct"]);
        }
        said(&reader.join().unwrap().stdout)
    };
    let text = shown("text");
    assert!(text.starts_with("TIME(s)   COMM            PID     DISK    T"), "{text}");
    assert!(text.lines().count() == 4 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let csv = shown("csv");
    assert!(csv.starts_with("complete_ns,comm,pid,cgroup,disk,op,") && csv.contains(",\"dd\","), "{csv}");
    let iolog = shown("iolog");
    assert!(iolog.starts_with("fio version 3 iolog\n") && iolog.trim_end().ends_with("close"), "{iolog}");
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &iolog).unwrap();
    // fio itself reads it.
    let log = format!("--read_iolog={}", file.path().display());
    let output = Command::new("fio").args(["--name=again", "--readonly", "--direct=1", &log]).output().unwrap();
    assert!(output.status.success(), "{}{iolog}", said(&output.stderr));
    assert!(said(&output.stdout).contains("issued rwts: total=3,0,0,0"), "{}", said(&output.stdout));
}

#[test]
fn refusals_say_what_to_do() {
    let place = Place::open_to_all();
    let refused = |output: std::process::Output, code: i32, what: &str| {
        let error = said(&output.stderr);
        assert!(output.status.code() == Some(code) && error.contains(what), "{output:?}");
        assert_eq!(error.lines().count(), 1, "{error}");
    };
    let run = |args: &[&str]| place.command(args).output().unwrap();
    refused(run(&["trace", "nosuch"]), 2, "no such disk or path");
    refused(run(&["trace", "/proc"]), 2, "the block device below it is not known");
    refused(run(&["trace", "--cgroup", "nosuch"]), 2, "is not a control group");
    refused(or_skip!(as_ordinary_user(&place, &["trace"])), 5, "run it as root");
}

#[test]
fn a_check_names_who_else_used_the_disk() {
    let mounted = or_skip!(Loop::ext4(256 << 20).and_then(|disk| Mounted::new(disk, "defaults")));
    let at = |name: &str| mounted.path().join(name).to_str().unwrap().to_owned();
    dd(&["if=/dev/urandom", &format!("of={}", at("big")), "bs=1M", "count=64", "conv=fsync"]);
    fs::copy("/bin/dd", at("neighbour")).unwrap();
    let place = Place::new();
    let dir = mounted.path().to_str().unwrap();
    let args = ["check", dir, "--only", "qd1", "--runtime", "2s", "--size", "64m", "--json", "--no-save"];
    let mut check = Running::start(place.command(&args));
    let from = format!("if={}", at("big"));
    while check.is_running() {
        tool(&at("neighbour"), &[&from, "of=/dev/null", "bs=256k", "iflag=direct", "status=none"]).unwrap();
    }
    let text = std::io::read_to_string(check.0.stdout.take().unwrap()).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let others = &report["record"]["steps"][0]["others"];
    assert_eq!(others[0]["comm"], "neighbour", "{others}");
    assert!(int(&others[0]["read_bytes"]) > 64 << 20, "{others}");
    let own = |other: &Value| other["comm"].as_str().unwrap().starts_with("qd1");
    assert!(!others.as_array().unwrap().iter().any(own), "{others}");
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["id"] == "other_traffic").expect("a finding");
    assert!(found["title"].as_str().unwrap().starts_with("another program (neighbour) used the device"), "{found}");
}

/// In a mount namespace without BTF, the kernel's trace events take the place of BPF.
#[test]
fn without_btf_requests_come_from_tracefs() {
    if !is_root() {
        or_skip!(Err("mounts need root".to_owned()));
    }
    let disk = or_skip!(Loop::new(64 << 20, &[]));
    let script = "mount -t tmpfs none /sys/kernel/btf && mount -t tracefs none /mnt || exit 9
        ( while :; do
            dd if=$1 of=/dev/null bs=4k count=50 iflag=direct status=none
            dd if=/dev/zero of=$1 bs=64k count=10 oflag=direct conv=fsync status=none
        done ) & work=$!
        \"$2\" trace $1 --runtime 3s --json; result=$?
        kill $work
        echo instances: $(ls /mnt/instances) >&2
        exit $result";
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", script, "sh", disk.path(), crate::common::qd1()]);
    let output = command.output().unwrap();
    let error = said(&output.stderr);
    let is_refused = output.status.code() == Some(9);
    or_skip!(if is_refused { Err(error.clone()) } else { Ok(()) });
    assert!(output.status.success() && error.contains("recorded by tracefs"), "{error}");
    assert!(error.contains("instances:") && !error.contains("qd1-"), "its instance should be gone: {error}");
    let text = said(&output.stdout);
    let objects: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects[0]["rests_on"], "tracefs");
    let of = |op: &str| objects.iter().filter(|object| object["op"] == op).collect::<Vec<_>>();
    let (reads, writes) = (of("read"), of("write"));
    // An ending dd, whose requests are whole.
    assert!(reads.len() >= 50 && writes.len() >= 10 && !of("flush").is_empty(), "{text}");
    // Others may look at the device, too.
    let by_dd = reads.iter().filter(|read| read["bytes"] == 4096 && read["comm"] == "dd").count();
    assert!(by_dd * 10 >= reads.len() * 9, "{text}");
    assert!(writes.iter().all(|write| write["bytes"] == 65536), "{text}");
    let device_ns = reads[0]["device_ns"].as_u64().unwrap();
    assert!((1..5_000_000_000).contains(&device_ns), "{text}");
    let end = objects.last().unwrap();
    let unseen = end["unseen"].as_u64().unwrap();
    let shown = (objects.len() - 2) as u64;
    assert!(unseen <= 20 && end["completed"].as_u64().unwrap() == shown + unseen, "{end}");
}

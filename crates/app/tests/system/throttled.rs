//! Figures against a known truth: loop devices whose rates the kernel limits.

use qd1_lab::{Loop, Mounted, Throttle};
use serde_json::Value;

use crate::common::{self, Place, find, float, in_group, int, list, or_skip, skip, step, test_name};

/// The limit, writes a second: far below what any disk does, far above what a slice of the kernel (100 ms) blurs.
const LIMIT: u64 = 200;

const THROTTLED: [&str; 6] = ["--size", "32MiB", "--runtime", "2s", "--only", "write32"];

fn per_second(report: &Value, name: &str, class: &str) -> f64 {
    let step = step(report, name);
    int(&find(&step["streams"], "class", class)["lat"]["count"]) as f64 * 1e9 / float(&step["runtime_ns"])
}

fn mean_ns(report: &Value, name: &str, class: &str) -> f64 {
    let lat = &find(&step(report, name)["streams"], "class", class)["lat"];
    float(&lat["sum_ns"]) / float(&lat["count"])
}

/// An ext4 of which a process of the group may write `LIMIT` times a second.
fn throttled(name: &str) -> Result<(Mounted, Throttle), String> {
    let mounted = Mounted::ext4("nodiscard")?;
    let throttle = Throttle::new(name, &mounted.disk, &[("write_iops", LIMIT)])?;
    Ok((mounted, throttle))
}

fn run_in(throttle: &Throttle, place: &Place, args: &[&str]) -> Value {
    let mut command = in_group(throttle, common::qd1(), &[&["check", place.dir_str(), "--json"], args].concat());
    let output = place.environment(&mut command).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_throttled_disk_is_measured_at_its_limit() {
    let (mounted, throttle) = or_skip!(throttled("rate"));
    let place = Place::at(mounted.path());
    // A stall of the machine spoils a run; it does not three times, and a wrong figure would be wrong each time.
    let mut seen = Vec::new();
    for _ in 0..3 {
        let slow = run_in(&throttle, &place, &THROTTLED);
        let rate = per_second(&slow, "write32", "write");
        let fast = common::json(place.qd1(&[&["--json"], &THROTTLED[..]].concat()));
        let (slow_ns, fast_ns) = (mean_ns(&slow, "write32", "write"), mean_ns(&fast, "write32", "write"));
        // Little's law: 32 in flight, and nothing of the wait is left out.
        let in_flight = rate * slow_ns / 1e9;
        let is_at_limit = (0.7 * LIMIT as f64..1.15 * LIMIT as f64).contains(&rate);
        if is_at_limit && slow_ns > 4.0 * fast_ns && (24.0..36.0).contains(&in_flight) {
            return;
        }
        seen.push((rate, slow_ns, fast_ns, in_flight));
    }
    panic!("writes a second of {LIMIT}, their mean ns throttled and not, and in flight: {seen:?}");
}

#[test]
fn commits_of_a_throttled_disk_are_measured_at_its_limit() {
    let (mounted, throttle) = or_skip!(throttled("commit"));
    let place = Place::at(mounted.path());
    let mut rates = Vec::new();
    // As above.
    for _ in 0..3 {
        let report = run_in(&throttle, &place, &["--size", "32MiB", "--runtime", "2s", "--only", "commit1"]);
        let device = &step(&report, "commit1")["device"];
        assert!(int(&device["counted"]["writes"]) >= int(&device["asked_syncs"]), "{device}");
        // Each commit is one write; the flush behind it counts as none or as one more.
        let rate = per_second(&report, "commit1", "commit");
        if (0.35 * LIMIT as f64..1.15 * LIMIT as f64).contains(&rate) {
            return;
        }
        rates.push(rate);
    }
    panic!("commits a second of {LIMIT}: {rates:?}");
}

/// Both on reads: the first decides at 4 KiB, the second at 256 KiB.
const IOPS: u64 = 1000;
const BYTES: u64 = 20_000_000;

/// What is said of reads: the limit's figure and whether it was reached.
fn limit<'a>(report: &'a Value, quantity: &str) -> &'a Value {
    let found = list(&report["limits"]["limits"]).iter().find(|limit| limit["quantity"] == quantity);
    found.unwrap_or_else(|| panic!("no {quantity} of reads: {}", report["limits"]))
}

fn is_near(report: &Value, quantity: &str, truth: u64) -> bool {
    let limit = limit(report, quantity);
    let is_near = |value: f64| (value / truth as f64 - 1.0).abs() <= 0.03;
    limit["reached"] == true && limit["sustained"]["value"].as_f64().is_some_and(is_near)
}

#[test]
fn limits_that_the_kernel_sets_are_found_and_shown_again() {
    let disk = or_skip!(Loop::new(1 << 30, &[]));
    let throttle = or_skip!(Throttle::new("limits", &disk, &[("read_iops", IOPS), ("read_bps", BYTES)]));
    let place = Place::new();
    let is_seen = |report: &Value| list(&report["findings"]).iter().any(|finding| finding["id"] == "rate_limited");
    // A stall of the machine spoils one run; a wrong method would be wrong each time. Two runs take a minute.
    let mut report = Value::Null;
    for _ in 0..3 {
        // Not to be written, so that only reads are measured.
        let mut command = in_group(&throttle, common::qd1(), &["limits", disk.path(), "--json", "--quiet"]);
        let output = place.environment(&mut command).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        report = serde_json::from_slice(&output.stdout).unwrap();
        if is_near(&report, "requests", IOPS) && is_near(&report, "bytes", BYTES) && is_seen(&report) {
            break;
        }
    }
    assert!(is_near(&report, "requests", IOPS) && is_near(&report, "bytes", BYTES), "{}", report["limits"]);
    assert!(is_seen(&report), "{}", report["findings"]);
    let id = report["record"]["id"].as_str().unwrap();
    let again = place.qd1(&["history", "show", id, "--json"]).output().unwrap();
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["limits"], report["limits"]);
}

#[test]
fn on_the_same_throttled_disk_fio_measures_the_same() {
    let test = test_name!();
    let (mounted, throttle) = or_skip!(throttled("fio"));
    let place = Place::at(mounted.path());
    let file = mounted.path().join("fio.dat");
    // Laid out without the limit, so that only overwriting is compared.
    std::fs::write(&file, vec![0x5A; 32 << 20]).unwrap();
    std::fs::File::open(&file).unwrap().sync_all().unwrap();
    let filename = format!("--filename={}", file.display());
    let job = ["--name=t", &filename, "--size=32M", "--rw=randwrite", "--bs=4k", "--direct=1", "--ioengine=libaio"];
    let stop =
        ["--iodepth=32", "--norandommap", "--time_based", "--ramp_time=100ms", "--runtime=2", "--output-format=json"];
    // A stall of the machine hits one of the two; it does not three times, and a wrong figure would be wrong each time.
    let mut pairs = Vec::new();
    for _ in 0..3 {
        let ours = per_second(&run_in(&throttle, &place, &THROTTLED), "write32", "write");
        let output = match in_group(&throttle, "fio", &[&job[..], &stop[..]].concat()).output() {
            Ok(output) if output.status.success() => output,
            _ => return skip(test, "fio is not installed, or has no libaio"),
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let fio: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
        let theirs = float(&fio["jobs"][0]["write"]["iops"]);
        pairs.push((ours, theirs));
        if (0.87..1.15).contains(&(ours / theirs)) {
            return;
        }
    }
    panic!("writes a second by us and by fio: {pairs:?}");
}

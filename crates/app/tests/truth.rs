//! Figures against a known truth: a loop device whose rate the kernel limits, and mount options that we chose.

mod common;

use common::device::{Mounted, Throttle};
use common::{Place, find, float, int, list, skip, step};
use serde_json::Value;

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
    let mut command = throttle.command(common::qd1(), &[&["check", place.dir_str(), "--json"], args].concat());
    let output = place.environment(&mut command).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_throttled_disk_is_measured_at_its_limit_and_an_unthrottled_one_is_not() {
    let (mounted, throttle) = match throttled("rate") {
        Ok(made) => made,
        Err(why) => return skip("a_throttled_disk_is_measured_at_its_limit_and_an_unthrottled_one_is_not", &why),
    };
    let place = Place::at(mounted.path());
    let slow = run_in(&throttle, &place, &THROTTLED);
    let rate = per_second(&slow, "write32", "write");
    assert!((0.7 * LIMIT as f64..1.15 * LIMIT as f64).contains(&rate), "{rate} writes a second of {LIMIT}");
    let fast = common::json(place.qd1(&[&["--json"], &THROTTLED[..]].concat()));
    let (slow_ns, fast_ns) = (mean_ns(&slow, "write32", "write"), mean_ns(&fast, "write32", "write"));
    assert!(slow_ns > 4.0 * fast_ns, "mean of {slow_ns} ns throttled, {fast_ns} ns not");
    // Little's law: 32 in flight, and nothing of the wait is left out.
    let in_flight = rate * slow_ns / 1e9;
    assert!((24.0..36.0).contains(&in_flight), "{in_flight} in flight");
}

#[test]
fn commits_of_a_throttled_disk_are_measured_at_its_limit() {
    let (mounted, throttle) = match throttled("commit") {
        Ok(made) => made,
        Err(why) => return skip("commits_of_a_throttled_disk_are_measured_at_its_limit", &why),
    };
    let place = Place::at(mounted.path());
    let report = run_in(&throttle, &place, &["--size", "32MiB", "--runtime", "2s", "--only", "commit1"]);
    let rate = per_second(&report, "commit1", "commit");
    // Each commit is one write; the flush behind it counts as none or as one more.
    assert!((0.35 * LIMIT as f64..1.15 * LIMIT as f64).contains(&rate), "{rate} commits a second of {LIMIT}");
    let device = &step(&report, "commit1")["device"];
    assert!(int(&device["counted"]["writes"]) >= int(&device["asked_syncs"]), "{device}");
}

#[test]
fn on_the_same_throttled_disk_fio_measures_the_same() {
    let test = "on_the_same_throttled_disk_fio_measures_the_same";
    let (mounted, throttle) = match throttled("fio") {
        Ok(made) => made,
        Err(why) => return skip(test, &why),
    };
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
        let output = match throttle.command("fio", &[&job[..], &stop[..]].concat()).output() {
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

/// The ids of all findings.
fn findings(report: &Value) -> Vec<&str> {
    list(&report["findings"]).iter().map(|finding| finding["id"].as_str().unwrap()).collect()
}

#[test]
fn commits_without_barriers_are_called_unsafe() {
    let mounted = match Mounted::ext4("nodiscard,barrier=0") {
        Ok(mounted) => mounted,
        Err(why) => return skip("commits_without_barriers_are_called_unsafe", &why),
    };
    let report = Place::at(mounted.path()).report(&["--only", "commit1"]);
    assert_eq!(int(&step(&report, "commit1")["device"]["counted"]["flushes"]), 0, "no flush reached the device");
    let found = findings(&report);
    assert!(found.contains(&"mount_options.no_barrier"), "{found:?}");
    assert!(found.iter().any(|id| id.starts_with("flush_ignored")), "{found:?}");
}

#[test]
fn commits_with_barriers_are_not_called_unsafe() {
    let mounted = match Mounted::ext4("nodiscard") {
        Ok(mounted) => mounted,
        Err(why) => return skip("commits_with_barriers_are_not_called_unsafe", &why),
    };
    let report = Place::at(mounted.path()).report(&["--only", "commit1"]);
    let device = &step(&report, "commit1")["device"];
    assert!(int(&device["counted"]["flushes"]) > 0, "{device}");
    let found = findings(&report);
    assert!(!found.iter().any(|id| id.starts_with("flush_ignored") || id.starts_with("mount_options")), "{found:?}");
}

#[test]
fn online_discard_is_named() {
    match Mounted::ext4("discard") {
        Ok(mounted) => {
            let report = Place::at(mounted.path()).report(&["--only", "commit1"]);
            assert!(findings(&report).contains(&"mount_options.discard"), "{:?}", findings(&report));
        }
        Err(why) => skip("online_discard_is_named", &why),
    }
}

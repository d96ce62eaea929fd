//! p99bench's results (schema 2.0): the disk part of its JSON, with provider, product, region, price and an anonymous host.
//!
//! Its figures are fio's, reduced to a rate and three percentiles of completion latencies. Steps keep its names, which
//! `qd1 run p99bench` uses too.

use qd1_model::OpClass;
use qd1_model::measured::{Aspect, Circumstance, Does, Measured, MeasuredStep, MeasuredStream};
use qd1_model::plan::Rw;
use serde_json::Value;

use crate::figures::{NO_SPREAD, bare, is_plausible, percentiles};

/// Default time of each of its tests except the last, s; its results do not say if another was requested.
const SECONDS: f64 = 60.0;
/// Share of reads in its mixed tests.
const READS: u8 = 70;
/// Unit of its throughput, whatever the name of the field says.
const MIB: f64 = (1 << 20) as f64;

/// What is missing in all of its tests.
const FIGURES_ONLY: &str = "for each test p99bench keeps a rate and up to three percentiles of the completion latency \
    (fio's clat), but no interval, no figures over time and no p99.99; for sequential tests only p99, for mixed_8k \
    only the reads";
const NO_SECOND_SYNC: &str = "the percentiles of wal_fsync are those of its O_SYNC write; the fdatasync after each \
    write is included only in the rate and the mean, not in any percentile";
const STEADY: &str = "steady_state is the rate of its last minute with 70 % reads, as the test requests; its p99 is a \
    percentile of one-second means, and is left out";

/// One of its tests.
struct Test {
    name: &'static str,
    rw: Rw,
    block: u32,
    in_flight: u32,
    engine: &'static str,
}

const fn test(name: &'static str, rw: Rw, block: u32, in_flight: u32, engine: &'static str) -> Test {
    Test { name, rw, block, in_flight, engine }
}

const TESTS: [Test; 8] = [
    test("seq_read", Rw::Read, 1 << 20, 32, "libaio"),
    test("seq_write", Rw::Write, 1 << 20, 32, "libaio"),
    test("rand_read_8k", Rw::Randread, 8192, 128, "libaio"),
    test("rand_read_8k_qd1", Rw::Randread, 8192, 1, "psync"),
    test("rand_write_8k", Rw::Randwrite, 8192, 128, "libaio"),
    test("mixed_8k", Rw::Randrw, 8192, 128, "libaio"),
    test(WAL, Rw::Write, 8192, 1, "psync"),
    test(STEADY_STATE, Rw::Randrw, 8192, 128, "libaio"),
];
const WAL: &str = "wal_fsync";
const STEADY_STATE: &str = "steady_state";

fn at<'a>(document: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(document, |value, key| value.get(key))
}

fn text<'a>(document: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(document, path)?.as_str().map(str::trim).filter(|text| !text.is_empty())
}

fn number(document: &Value, path: &[&str]) -> Option<f64> {
    at(document, path)?.as_f64().filter(|number| is_plausible(*number))
}

/// Returns the run in a document; `None` if it is another tool's.
pub(crate) fn run(document: &Value) -> Option<Measured> {
    let (disk, version) = (document.get("disk")?, text(document, &["run", "tool_version"])?);
    document.get("provider")?;
    let steps: Vec<MeasuredStep> = TESTS.iter().filter_map(|test| step(test, disk.get(test.name)?)).collect();
    let has = |name: &str| steps.iter().any(|step| step.name == name);
    let notes = [(true, FIGURES_ONLY), (true, NO_SPREAD), (has(WAL), NO_SECOND_SYNC), (has(STEADY_STATE), STEADY)];
    let missing = notes.into_iter().filter(|(is_meant, _)| *is_meant).map(|(_, note)| note.to_owned()).collect();
    Some(Measured {
        tool: format!("p99bench {version}"),
        started_unix_ns: text(document, &["run", "timestamp_utc"]).and_then(unix_ns),
        circumstances: circumstances(document),
        steps,
        missing,
        is_without_course: true,
        ..Measured::default()
    })
}

fn circumstances(document: &Value) -> Vec<Circumstance> {
    let of = |path: &[&str]| text(document, path).map(str::to_owned);
    let joined = |one: Option<String>, other: Option<String>| match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one} {other}")),
        (one, other) => one.or(other),
    };
    let price = number(document, &["provider", "price_eur_month"]).map(|price| format!("{price} EUR/month"));
    let cpus = number(document, &["host", "vcpu"]).map(|cpus| format!("{cpus} x"));
    // Rounded to half a GiB, like the memory in qd1's own runs.
    let memory = number(document, &["host", "ram_mb"]).map(|mib| format!("{:.1} GiB", (mib / 512.0).round() / 2.0));
    let all = [
        (Aspect::Host, of(&["run", "host_id"])),
        (Aspect::Instance, joined(of(&["provider", "name"]), of(&["provider", "product"]))),
        (Aspect::Region, of(&["provider", "region"])),
        (Aspect::Price, price),
        (Aspect::Disk, of(&["disk", "device_model"])),
        (Aspect::Filesystem, of(&["disk", "target_fs"])),
        (Aspect::Kernel, of(&["host", "kernel"])),
        (Aspect::Scheduler, of(&["disk", "scheduler"])),
        (Aspect::Processors, joined(cpus, of(&["host", "cpu_model"]))),
        (Aspect::Memory, memory),
        (Aspect::Suite, Some("p99bench".to_owned())),
    ];
    all.into_iter().filter_map(|(aspect, value)| Some(Circumstance { aspect, value: value? })).collect()
}

fn step(test: &Test, figures: &Value) -> Option<MeasuredStep> {
    let Test { name, rw, block, in_flight, engine } = *test;
    let rwmixread = match (rw.reads(), rw.writes()) {
        (true, true) => READS,
        (true, false) => 100,
        _ => 0,
    };
    let does = Does { rw, rwmixread, block, in_flight, commits: name == WAL, sync_every: 0, direct: Some(true) };
    let class = match () {
        () if name == WAL => OpClass::Commit,
        () if rw.reads() => OpClass::Read,
        () => OpClass::Write,
    };
    let of = |key: &str| number(figures, &[key]);
    let iops = match name {
        STEADY_STATE => of("last_min_iops")? * f64::from(READS) / 100.0,
        _ => of("iops")?,
    };
    let n = (iops * SECONDS) as u64;
    let mut stream = vec![("iops", bare(iops, n))];
    if name != STEADY_STATE {
        let rate = of("bw_mbs").map_or(iops * f64::from(block), |mib| mib * MIB);
        stream.push(("bytes_per_second", bare(rate, n)));
        let list = [(50.0, "p50_us"), (99.0, "p99_us"), (99.9, "p999_us")];
        let list: Vec<(f64, f64)> =
            list.into_iter().filter_map(|(percent, key)| Some((percent, of(key)? * 1e3))).collect();
        stream.extend(percentiles(&list, n).filter(|(name, _)| *name != "lat_p9999_ns"));
    }
    // From one write to the next, including the fdatasync between them, which its own mean leaves out.
    if name == WAL && iops > 0.0 {
        stream.push(("lat_mean_ns", bare(1e9 / iops, n)));
    }
    Some(MeasuredStep {
        name: name.to_owned(),
        title: does.title(),
        does: Some(does),
        engine: engine.to_owned(),
        streams: vec![MeasuredStream { class, figures: stream }],
        ..MeasuredStep::default()
    })
}

/// `2026-07-17T15:22:40Z` as ns since the Unix epoch.
fn unix_ns(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<jiff::Timestamp>().ok()?.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_1970() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:00:00Z", Some(951_825_600)),
            ("2026-07-17T15:22:40Z", Some(1_784_301_760)),
            ("1969-12-31T23:59:59Z", None),
            ("2026-07-17", None),
            ("2026-13-17T15:22:40Z", None),
        ] {
            assert_eq!(unix_ns(text).map(|ns| ns / 1_000_000_000), seconds, "{text}");
        }
    }
}

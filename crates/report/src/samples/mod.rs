//! Reports built by hand for tests: a slow VPS with findings of each severity, an interrupted run, a tiny one.

mod kinds;
mod long_check;
mod meta;
mod place;
mod suite;
mod sync;

pub use kinds::{kinds, limits};
pub use long_check::{over_a_day, over_an_hour, round};
pub use meta::{bonnie, meta};
pub use suite::suite;
pub use sync::sync;

use std::path::PathBuf;

use qd1_model::figure::{StepSummary, StreamSummary, Summary, TailTime};
use qd1_model::op::Ended;
use qd1_model::plan::{
    Arrival, BlockShare, Data, EngineChoice, EngineKind, FileUse, FilesWork, IoWork, Order, Plan, Rw, Skipped,
    StepPlan, Stop, Sync, TargetKind, TargetPlan, Work,
};
use qd1_model::record::{Interval, IntervalStream, IoErrors, Prepare, Record, StepRecord, Stream};
use qd1_model::verdict::{Durability, Judged, Thresholds, Verdict};
use qd1_model::{Bytes, Estimate, Grade, Hist, OpClass, Report, SCHEMA_VERSION, Subject};

/// A figure whose interval reaches `spread` (0..1) to either side.
fn figure(value: f64, spread: f64, n: u64) -> Estimate {
    Estimate {
        value: Some(value),
        low: Some(value * (1.0 - spread)),
        high: Some(value * (1.0 + spread * 1.4)),
        n,
        n_effective: n as f64 * 0.6,
        n_needed: 0,
    }
}

/// A quantile of `n` samples, resolved when at least ten are beyond it, as in the analysis.
fn quantile(q: f64, value: f64, n: u64) -> Estimate {
    let needed = (10.0 / (1.0 - q)).round() as u64;
    if n < needed {
        return Estimate { n, n_effective: n as f64 * 0.6, n_needed: needed, ..Estimate::default() };
    }
    figure(value, 0.4 / (n as f64 * (1.0 - q)).sqrt(), n)
}

/// A stream with p50 and p99 in us; the tail grows from there.
fn stream(class: OpClass, block: f64, n: u64, seconds: f64, p50_us: f64, p99_us: f64) -> StreamSummary {
    let iops = n as f64 / seconds;
    let sync = |q, us: f64| (class == OpClass::Commit).then(|| quantile(q, us * 0.97e3, n));
    StreamSummary {
        class,
        ios: n,
        iops: figure(iops, 0.012, n),
        bytes_per_second: figure(iops * block, 0.012, n),
        lat_mean_ns: figure(p50_us * 1.1e3, 0.02, n),
        lat_p50_ns: quantile(0.5, p50_us * 1e3, n),
        lat_p99_ns: quantile(0.99, p99_us * 1e3, n),
        lat_p999_ns: quantile(0.999, p99_us * 2.7e3, n),
        lat_p9999_ns: quantile(0.9999, p99_us * 6.1e3, n),
        lat_max_ns: (p99_us * 8.3e3) as u64,
        sync_p50_ns: sync(0.5, p50_us),
        sync_p99_ns: sync(0.99, p99_us),
        stall_longest_ns: None,
        stall_share: None,
        without_waits: None,
        // Examined where one request is in flight.
        tail: (class == OpClass::Commit).then_some(TailTime {
            ios: n.div_ceil(1000).max(10),
            worked: 0.018,
            waited: 0.004,
        }),
    }
}

/// With a longest stall of so many ms.
fn with_stalls(stream: StreamSummary, longest_ms: f64) -> StreamSummary {
    let longest = Estimate { high: Some(longest_ms * 1.9e6), ..Estimate::exact(longest_ms * 1e6, stream.ios) };
    StreamSummary { stall_longest_ns: Some(longest), stall_share: Some(figure(0.004, 0.6, stream.ios)), ..stream }
}

struct Step {
    name: &'static str,
    title: &'static str,
    work: Work,
    engine: Option<(EngineKind, &'static str)>,
    seconds: f64,
    ended: Ended,
    streams: Vec<StreamSummary>,
}

const ALONE: &str = "one request at a time needs no queue";
const QUEUE: &str = "io_uring is blocked here (EPERM from io_uring_setup), so the next best";

fn io(rw: Rw, bytes: u32, iodepth: u32, numjobs: u32) -> IoWork {
    IoWork {
        ioengine: EngineChoice::Auto,
        rw,
        rwmixread: if rw == Rw::Randrw { 70 } else { 100 * u8::from(!rw.writes()) },
        order: if rw.is_random() { Order::Random } else { Order::Sequential },
        blocks: vec![BlockShare { bytes, weight: 1 }],
        iodepth,
        numjobs,
        direct: true,
        sync: Sync::None,
        file: FileUse::Shared,
        size: Bytes::gib(1),
        io_size: Bytes(0),
        arrival: Arrival::Closed,
        data: Data::Random,
        writes_per_sync: 1,
    }
}

fn block_steps() -> Vec<Step> {
    let alone = Some((EngineKind::Psync, ALONE));
    let queue = Some((EngineKind::Libaio, QUEUE));
    let commit =
        |bytes, numjobs| IoWork { sync: Sync::Fdatasync, file: FileUse::Own, ..io(Rw::Write, bytes, 1, numjobs) };
    let step = |name, title, work, engine, seconds, ended, streams| Step {
        name,
        title,
        work: Work::Io(work),
        engine,
        seconds,
        ended,
        streams,
    };
    let (time, precise) = (Ended::Time, Ended::Precise);
    vec![
        step(
            "qd1",
            "random 4k, 70 % reads, one request at a time",
            io(Rw::Randrw, 4096, 1, 1),
            alone,
            12.0,
            time,
            vec![
                stream(OpClass::Read, 4096.0, 23_482, 12.0, 302.0, 911.0),
                stream(OpClass::Write, 4096.0, 10_064, 12.0, 421.0, 1_240.0),
            ],
        ),
        step(
            "commit1",
            "4k writes, each with fdatasync, one writer",
            commit(4096, 1),
            alone,
            12.0,
            time,
            vec![stream(OpClass::Commit, 4096.0, 2_141, 12.0, 5_430.0, 12_900.0)],
        ),
        step(
            "commit4",
            "4k writes, each with fdatasync, four writers",
            commit(4096, 4),
            alone,
            8.0,
            time,
            vec![stream(OpClass::Commit, 4096.0, 812, 8.0, 36_900.0, 85_700.0)],
        ),
        step(
            "wal",
            "etcd's log: 2,300-byte appends, each with fdatasync",
            commit(2300, 1),
            alone,
            8.0,
            precise,
            vec![stream(OpClass::Commit, 2300.0, 1_408, 8.0, 5_210.0, 12_410.0)],
        ),
        step(
            "paced",
            "4k reads and commits, 120 a second at their own times",
            IoWork { sync: Sync::Fdatasync, arrival: Arrival::Fixed { iops: 120.0 }, ..io(Rw::Randrw, 4096, 32, 1) },
            alone,
            8.0,
            time,
            vec![with_stalls(stream(OpClass::Commit, 4096.0, 720, 8.0, 6_020.0, 16_300.0), 212.0)],
        ),
        step(
            "read32",
            "random 4k reads, 32 in flight",
            io(Rw::Randread, 4096, 32, 1),
            queue,
            6.0,
            time,
            vec![stream(OpClass::Read, 4096.0, 60_118, 6.0, 3_180.0, 4_070.0)],
        ),
        step(
            "write32",
            "random 4k writes, 32 in flight",
            io(Rw::Randwrite, 4096, 32, 1),
            queue,
            6.0,
            time,
            vec![stream(OpClass::Write, 4096.0, 59_870, 6.0, 3_200.0, 4_110.0)],
        ),
        step(
            "seqread",
            "1 MiB reads in order",
            io(Rw::Read, 1 << 20, 4, 1),
            queue,
            4.0,
            precise,
            vec![stream(OpClass::Read, 1_048_576.0, 1_526, 4.0, 10_400.0, 12_100.0)],
        ),
        step(
            "seqwrite",
            "1 MiB writes in order",
            io(Rw::Write, 1 << 20, 4, 1),
            queue,
            4.0,
            time,
            vec![stream(OpClass::Write, 1_048_576.0, 702, 4.0, 22_700.0, 41_000.0)],
        ),
    ]
}

fn steps() -> Vec<Step> {
    let mut steps = block_steps();
    steps.push(Step {
        name: "files",
        title: "16 KiB files: create, stat, delete",
        work: Work::Files(FilesWork { size: Bytes::kib(16), count: 20_000, ..FilesWork::default() }),
        engine: None,
        seconds: 5.1,
        ended: Ended::Done,
        streams: vec![
            stream(OpClass::Create, 16_384.0, 20_000, 2.9, 61.0, 212.0),
            stream(OpClass::Stat, 0.0, 20_000, 0.05, 0.9, 2.2),
            stream(OpClass::Delete, 0.0, 20_000, 0.7, 24.0, 71.0),
        ],
    });
    steps
}

fn step_record(step: &Step) -> StepRecord {
    let streams = step.streams.iter().map(|summary| {
        let mut lat = Hist::new();
        for at in 1..=100 {
            lat.record(summary.lat_p50_ns.value.unwrap_or(1e6) as u64 * at / 50);
        }
        Stream {
            class: summary.class,
            bytes: Bytes(summary.ios * 4096),
            lat,
            slat: None,
            clat: None,
            write_part: None,
            sync_part: None,
            slowest: vec![],
            waits: None,
            in_device: None,
        }
    });
    StepRecord {
        name: step.name.into(),
        engine: step.engine.map(|(kind, _)| kind),
        engine_why: step.engine.map(|(_, why)| why.into()).unwrap_or_default(),
        direct: true,
        started_ns: 4_000_000_000,
        runtime_ns: (step.seconds * 1e9) as u64,
        ended: step.ended,
        streams: streams.collect(),
        intervals: vec![],
        errors: vec![],
        cost: Default::default(),
        steal: 0.02,
        ..StepRecord::default()
    }
}

fn step_plan(step: &Step) -> StepPlan {
    let stop = Stop { min_ns: 1 << 30, max_ns: 12_000_000_000, ramp_ns: 500_000_000, quantile: 0.99, tolerance: 0.05 };
    StepPlan {
        name: step.name.into(),
        title: step.title.into(),
        work: step.work.clone(),
        background: Vec::new(),
        stop,
        visits: 1,
        writes_max: Bytes::gib(2),
    }
}

fn step_summary(step: &Step) -> StepSummary {
    StepSummary {
        name: step.name.into(),
        title: step.title.into(),
        engine: step.engine.map(|(kind, _)| kind.name().into()).unwrap_or_default(),
        runtime_ns: (step.seconds * 1e9) as u64,
        ended: step.ended,
        errors: 0,
        streams: step.streams.clone(),
        background: Vec::new(),
    }
}

fn record(steps: &[Step]) -> Record {
    Record {
        schema_version: SCHEMA_VERSION,
        id: "4f2a9c01d3e7".into(),
        version: "0.1.0".into(),
        command: ["qd1", "check", "/srv/data"].map(String::from).to_vec(),
        started_unix_ns: 1_771_064_551_000_000_000,
        elapsed_ns: 71_300_000_000,
        interrupted: false,
        plan: Plan {
            suite: "check".into(),
            subject: Subject::Check,
            target: TargetPlan {
                path: PathBuf::from("/srv/data"),
                kind: TargetKind::Directory,
                filesystem: "ext4".into(),
                size: Bytes::gib(1),
                direct: true,
                align: 512,
                prepare_max_ns: 10_000_000_000,
            },
            steps: steps.iter().map(step_plan).collect(),
            skipped: vec![],
            seed: 1_234_567_890,
            criteria: vec![],
            sweep: None,
            filesystems: None,
            prediction: None,
            over: None,
        },
        environment: place::environment(),
        prepare: Some(Prepare {
            bytes: Bytes::gib(1),
            elapsed_ns: 5_840_000_000,
            fsync_ns: 412_000_000,
            ..Prepare::default()
        }),
        app: None,
        steps: steps.iter().map(step_record).collect(),
        programs: Vec::new(),
        over: None,
        watched: None,
        mounts: vec![],
    }
}

/// The built-in thresholds applied in a simple way, enough for a sample.
fn verdicts(summary: &Summary) -> Vec<Verdict> {
    let judge = |criterion: qd1_model::plan::criterion::Criterion| {
        let metric = qd1_model::metric::metric(&criterion.metric).unwrap();
        let figure = summary.stream(&criterion.step, criterion.op).and_then(metric.get);
        let sign = if criterion.pass <= criterion.fail { 1.0 } else { -1.0 };
        let (grade, why) = match (figure, figure.and_then(|figure| figure.value)) {
            (None, _) => (Grade::NotResolved, format!("step {} did not run", criterion.step)),
            (Some(f), None) => (Grade::NotResolved, format!("too few samples: n={}, needs about {}", f.n, f.n_needed)),
            (_, Some(value)) if value * sign <= criterion.pass * sign => (Grade::Pass, String::new()),
            (_, Some(value)) if value * sign > criterion.fail * sign => (Grade::Fail, String::new()),
            _ => (Grade::Marginal, String::new()),
        };
        Judged { criterion, figure, grade, why }
    };
    let worst = [Grade::Fail, Grade::NotResolved, Grade::Marginal];
    let thresholds: Thresholds =
        toml::from_str(include_str!("../../../suites/src/thresholds.toml")).expect("the built-in thresholds are TOML");
    let classes = thresholds.class.into_iter();
    classes
        .map(|class| {
            let judged: Vec<_> = class.criterion.into_iter().map(judge).collect();
            let has = |grade: &&Grade| judged.iter().any(|judged| judged.grade == **grade);
            let grade = worst.iter().find(has).copied().unwrap_or(Grade::Pass);
            Verdict { class: class.name, title: class.title, grade, judged }
        })
        .collect()
}

/// A VPS with a capped network volume: etcd fails, one percentile is not resolved, one step was skipped.
pub fn slow_vps() -> Report {
    let steps = steps();
    let mut record = record(&steps);
    record.plan.skipped.push(Skipped::because("buffered", "left out by --quick"));
    let summary = Summary { steps: steps.iter().map(step_summary).collect() };
    Report {
        schema_version: SCHEMA_VERSION,
        verdicts: verdicts(&summary),
        impressions: vec![
            place::impression("commits", Some("slow"), "lat_p99_ns", &summary, "commit1", OpClass::Commit),
            place::impression("reads", Some("poor or oversold"), "lat_p999_ns", &summary, "qd1", OpClass::Read),
        ],
        durability: None,
        criteria: vec![],
        findings: place::findings(),
        parts: Vec::new(),
        standings: place::standings(),
        among_vps: Vec::new(),
        summary,
        record,
    }
}

/// The slow VPS, stopped in its second step, with failed requests.
pub fn interrupted() -> Report {
    let mut report = slow_vps();
    report.record.interrupted = true;
    report.record.steps.truncate(2);
    report.summary.steps.truncate(2);
    report.record.steps[1].ended = Ended::Interrupted;
    report.record.steps[1].errors = vec![IoErrors { error: "EIO".into(), count: 3, first_offset: 8192 }];
    let step = &mut report.summary.steps[1];
    step.ended = Ended::Interrupted;
    step.errors = 3;
    step.streams = vec![stream(OpClass::Commit, 4096.0, 300, 1.7, 5_430.0, 12_900.0)];
    report.verdicts = verdicts(&report.summary);
    report.findings.clear();
    report
}

/// A fast local disk where everything passes, and nothing was found.
pub fn fast_nvme() -> Report {
    let mut report = slow_vps();
    for stream in report.summary.steps.iter_mut().flat_map(|step| &mut step.streams) {
        let n = stream.ios * 40;
        let block = stream.bytes_per_second.value.unwrap() / stream.iops.value.unwrap();
        let p50 = stream.lat_p50_ns.value.unwrap() / 40e3;
        let has_stalls = stream.stall_longest_ns.is_some();
        let fast = self::stream(stream.class, block, n, 6.0, p50, p50 * 2.0);
        *stream = if has_stalls { with_stalls(fast, 2.4) } else { fast };
    }
    report.verdicts = verdicts(&report.summary);
    let of = &report.summary;
    report.impressions = vec![
        place::impression("commits", Some("excellent"), "lat_p99_ns", of, "commit1", OpClass::Commit),
        place::impression("reads", Some("excellent"), "lat_p999_ns", of, "qd1", OpClass::Read),
    ];
    report.durability = Some(Durability {
        is_seen: false,
        why: "a flush takes as long after 1 MiB (31.0 us) as after 4 KiB (30.0 us)".to_owned(),
    });
    report.findings.clear();
    report
}

/// A record as large as a real check's: six hundred intervals of 100 ms with full heatmap columns.
pub fn long_record() -> Record {
    let mut record = slow_vps().record;
    for (at, step) in record.steps.iter_mut().enumerate() {
        step.intervals = (0..70)
            .map(|interval| Interval {
                start_ns: interval * 100_000_000,
                length_ns: 100_000_000,
                streams: vec![IntervalStream {
                    class: OpClass::Read,
                    ios: 1000,
                    bytes: 4_096_000,
                    lat_sum_ns: 99_000_000 + interval * 7919,
                    lat_max_ns: 4_000_000 + interval * 104_729,
                    bins: (0..40)
                        .map(|bin| (200 + bin + at as u16, (interval as u32 * 31 + u32::from(bin) * 17) % 97))
                        .collect(),
                }],
            })
            .collect();
    }
    record
}

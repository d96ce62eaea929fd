//! A report of each kind of part, as small as it can be, with words that every format for people has of it.

use qd1_model::app::{AppCheck, AppLoad, AppSummary};
use qd1_model::identity::{Identity, KindProbability, StorageKind};
use qd1_model::limits::{Direction, Evidence, Limit, Limits, Quantity};
use qd1_model::part::Part;
use qd1_model::plan::Rw;
use qd1_model::plan::program::Program;
use qd1_model::plan::sweep::SweepPlan;
use qd1_model::prediction::{Bound, Predicted, Prediction, Predicts};
use qd1_model::record::OtherUser;
use qd1_model::record::program::{AppRecord, AppUnit};
use qd1_model::record::watched::{DiskLimits, LongWait, WatchedProgram};
use qd1_model::sweep::{Bend, BendState, Curve, Surface};
use qd1_model::watched::{Watched, WatchedLimits, WatchedRow};
use qd1_model::{Bytes, Estimate, Grade, OpClass, Report, Subject};

use super::{bonnie, fast_nvme, meta, over_a_day, slow_vps, sync};

/// A report of another kind than a check, with this part alone.
fn with(subject: Subject, part: Part) -> Report {
    let mut report = Report {
        verdicts: Vec::new(),
        impressions: Vec::new(),
        standings: Vec::new(),
        durability: None,
        parts: vec![part],
        ..fast_nvme()
    };
    report.record.plan.subject = subject;
    report
}

/// Reads that are limited to 3,000 a second.
pub fn limits() -> Report {
    let evidence =
        Evidence { id: "pinned".to_owned(), speaks_for: true, text: "the same at twice the depth".to_owned() };
    let limit = Limit {
        direction: Direction::Read,
        quantity: Quantity::Requests,
        reached: true,
        sustained: Estimate { low: Some(2990.0), high: Some(3010.0), ..Estimate::exact(3000.0, 9) },
        watched_ns: 60_000_000_000,
        block: Bytes::kib(4),
        burst: None,
        evidence: vec![evidence],
    };
    let limits = Limits { limits: vec![limit], ..Limits::default() };
    Report { findings: slow_vps().findings, ..with(Subject::Limits, Part::Limits(limits)) }
}

fn prediction() -> Report {
    let value = Estimate { low: Some(1500.0), high: Some(2200.0), ..Estimate::exact(1811.0, 9) };
    let row = Predicted {
        what: Predicts::SqliteWalFull,
        clients: 1,
        value,
        bound: Bound::Commits,
        disks_before: 2,
        verified: None,
    };
    with(Subject::Predict, Part::Prediction(Prediction { rows: vec![row], missing: Vec::new() }))
}

fn identity() -> Report {
    let kinds = [(StorageKind::ALL[0], 0.93), (StorageKind::ALL[1], 0.07)];
    let kinds = kinds.map(|(kind, probability)| KindProbability { kind, probability }).to_vec();
    with(Subject::Identify, Part::Identity(Identity { kinds, ..Identity::default() }))
}

fn sweep() -> Report {
    let knee = Bend { state: BendState::Seen, at: Estimate::exact(13.0, 9), sharpness: 4.0, residual: 0.01 };
    let curve = Curve {
        rw: Rw::Randread,
        block: 4096,
        iodepth_best: 32,
        iops_best: Estimate::exact(98_700.0, 9),
        knee,
        iops_ceiling: Some(99_000.0),
        falls: false,
        allowed: None,
    };
    let surface = Surface {
        asked: SweepPlan { passes: 1, max_p99_ns: None },
        cells: Vec::new(),
        curves: vec![curve],
        crossovers: Vec::new(),
        drift: Vec::new(),
    };
    with(Subject::Sweep, Part::Sweep(surface))
}

fn app() -> Report {
    let check = AppCheck {
        name: "slowest".to_owned(),
        unit: AppUnit::Ns,
        value: Some(87.5e6),
        low: None,
        high: None,
        bound: 500e6,
        at_least: false,
        grade: Grade::Pass,
        source: "etcdctl check perf".to_owned(),
    };
    let load = AppLoad { step: "qd1".to_owned(), checks: vec![check], ..AppLoad::default() };
    let mut report = with(Subject::Program, Part::App(AppSummary { loads: vec![load] }));
    let about = AppRecord {
        program: Program::Etcd,
        version: "3.4.23".to_owned(),
        settings: Vec::new(),
        prepare_ns: 1_000_000_000,
    };
    report.record.app = Some(about);
    report
}

fn watched() -> Report {
    let row = WatchedRow {
        disk: "sda".to_owned(),
        class: OpClass::Read,
        per_second: 2999.0,
        bytes: Bytes(2999 * 4096 * 60),
        await_ns: 61_000.0,
        lat_p50_ns: Some(52_000),
        lat_p99_ns: Some(590_000),
        lat_p999_ns: None,
        lat_max_ns: Some(812_000_000),
        busy: 0.96,
    };
    let beside = OtherUser { comm: "dd".to_owned(), pid: 8, changed_bytes: Bytes(3 << 30), ..OtherUser::default() };
    let program = WatchedProgram {
        comm: "etcd".to_owned(),
        pid: 77,
        processes: 1,
        disk: "sda".to_owned(),
        syncs: 1_240,
        sync_ns: 12_000_000_000,
        longest_sync_ns: 812_000_000,
        beside: vec![beside],
        ..WatchedProgram::default()
    };
    let wait = LongWait {
        at_ns: 30_000_000_000,
        age_ns: 812_000_000,
        what: "fdatasync".to_owned(),
        disk: "sda".to_owned(),
        comm: "etcd".to_owned(),
        pid: 77,
        place: "for the journal's commit".to_owned(),
    };
    let limits = DiskLimits {
        observed_ns: 50_000_000_000,
        volume_iops_ns: 21_500_000_000,
        instance_iops_ns: Some(0),
        ..DiskLimits::default()
    };
    let watched = Watched {
        watched_ns: 60_000_000_000,
        rows: vec![row],
        limits: vec![WatchedLimits { disk: "sda".to_owned(), limits }],
        programs: vec![program],
        waits: vec![wait],
        waits_seen: 1,
        ..Watched::default()
    };
    with(Subject::Watch, Part::Watch(watched))
}

/// Kinds of reports by name, with a word of their part for people, one for programs, and one in CSV.
pub fn kinds() -> Vec<(&'static str, Report, [&'static str; 2], &'static str)> {
    vec![
        ("limits", limits(), ["3,000", "\"pinned\""], "3000"),
        ("prediction", prediction(), ["1,800", "sqlite_wal_full"], "lat_p50_ns"),
        ("over", over_a_day(), ["worst hour", "from_unix_ns"], "lat_p50_ns"),
        ("sweep", sweep(), ["98.7k", "98700"], "iodepth"),
        ("meta", meta(), ["create", "cpu_share"], "lat_p50_ns"),
        ("bonnie", bonnie(), ["rewrite", "cpu_share"], "1.98,"),
        ("sync", sync(), ["5.46k", "wal_sync_method=fdatasync"], "lat_p50_ns"),
        ("app", app(), ["87.5 ms", "87500000"], "lat_p50_ns"),
        ("watched", watched(), ["for the journal's commit", "812000000"], "590000"),
        ("identity", identity(), ["93 %", "0.93"], "lat_p50_ns"),
    ]
}

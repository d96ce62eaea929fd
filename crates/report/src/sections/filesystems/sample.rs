//! A table made by hand, for tests of how it is shown.

use qd1_model::part::Part;

use qd1_model::figure::Estimate;
use qd1_model::filesystems::{Candidate, CellOf, Comparison, Note, RoundFigure, Row};
use qd1_model::plan::Skipped;
use qd1_model::plan::filesystems::FilesystemsPlan;
use qd1_model::{Bytes, OpClass, Report, Subject};

use crate::samples as sample;

fn estimate(value: f64, spread: f64) -> Estimate {
    Estimate {
        value: Some(value),
        low: Some(value / (1.0 + spread)),
        high: Some(value * (1.0 + spread)),
        n: 30_000,
        n_effective: 5.0,
        n_needed: 0,
    }
}

/// Rank and figure of each filesystem; the first of rank 1 is the best.
fn row(step: &str, title: &str, op: OpClass, metric: &str, cells: &[(u32, f64)]) -> Row {
    let best = cells.iter().find(|(rank, _)| *rank == 1).map_or(1.0, |(_, value)| *value);
    let cell = |(rank, value): &(u32, f64)| CellOf {
        over_rounds: estimate(*value, 0.034),
        rounds: (1..=5).map(|round| RoundFigure { round, figure: estimate(*value, 0.02) }).collect(),
        rank: Some(*rank),
        to_best: (*value != best).then(|| estimate(value / best, 0.05)),
    };
    let cells = cells.iter().map(cell).collect();
    Row { step: step.into(), title: title.into(), op, metric: metric.into(), leads: true, cells }
}

fn candidate(name: &str, command: &str, options: &[&str]) -> Candidate {
    Candidate {
        name: name.into(),
        kind: name.into(),
        tool: format!("mkfs.{name} 6.1.0"),
        commands: vec![command.into()],
        asked_options: String::new(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        properties: Vec::new(),
        app: None,
        loop_direct: Some(true),
        direct: true,
        rounds: 5,
        fault: String::new(),
    }
}

/// Three filesystems, of which one is certainly slower at commits, and a fourth that is not installed.
pub(crate) fn report() -> Report {
    let mut report = sample::slow_vps();
    let names = ["ext4", "xfs", "btrfs"].map(str::to_owned).to_vec();
    let order = vec![vec![2, 0, 1]; 5];
    let plan = FilesystemsPlan { rounds: 5, names, order, fair: false, disk: Bytes::gib(2), on_loop: true };
    report.record.plan.filesystems = Some(plan);
    report.record.plan.suite = "filesystems".into();
    report.record.plan.subject = Subject::Filesystems;
    let why = "zpool is not installed (Debian package zfsutils-linux, or zfs-fuse)";
    report.record.plan.skipped = vec![Skipped::because("zfs", why)];
    report.verdicts.clear();
    report.impressions.clear();
    report.durability = None;
    let finding = report.findings.first().cloned().expect("the sample has findings");
    report.findings.clear();
    let commits = "4k commits (fdatasync), one committer";
    let mut rows = vec![
        row(
            "read",
            "random 4k reads, one at a time",
            OpClass::Read,
            "lat_p50_ns",
            &[(1, 52_100.0), (1, 52_900.0), (1, 55_000.0)],
        ),
        row("commit1", commits, OpClass::Commit, "lat_p50_ns", &[(1, 183_000.0), (1, 190_000.0), (3, 1_424_000.0)]),
        row("commit1", commits, OpClass::Commit, "lat_p99_ns", &[(1, 400_000.0), (1, 410_000.0), (3, 13_600_000.0)]),
        row(
            "seqwrite",
            "sequential 1 MiB writes, 8 in flight",
            OpClass::Write,
            "bytes_per_second",
            &[(1, 2.31e9), (1, 2.2e9), (3, 190e6)],
        ),
        row(
            "files",
            "create, stat and delete 4 KiB files",
            OpClass::Create,
            "iops",
            &[(2, 15_210.0), (1, 18_370.0), (3, 2_557.0)],
        ),
    ];
    rows[2].cells[2] = CellOf {
        over_rounds: Estimate { n: 300, n_needed: 400, ..Estimate::default() },
        rank: None,
        to_best: None,
        ..rows[2].cells[2].clone()
    };
    rows[4].cells[0].to_best = Some(estimate(0.828, 0.05));
    report.parts.push(Part::Filesystems(Comparison {
        filesystems: vec![
            candidate(
                "ext4",
                "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0,nodiscard DEVICE",
                &["rw", "relatime"],
            ),
            candidate(
                "xfs",
                "mkfs.xfs -q -f -K DEVICE",
                &["rw", "relatime", "inode64", "logbufs=8", "logbsize=32k", "noquota"],
            ),
            Candidate {
                asked_options: "nodiscard".into(),
                ..candidate("btrfs", "mkfs.btrfs -q -f -K DEVICE", &["rw", "relatime", "space_cache=v2"])
            },
        ],
        rounds: 5,
        rows,
        comparisons: 13,
        notes: vec![Note { filesystems: vec!["btrfs".into()], seen: 4, of: 5, finding }],
    }));
    report
}

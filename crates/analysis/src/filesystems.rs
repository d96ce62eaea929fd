//! From the Record of `qd1 filesystems` to its table: each figure of each filesystem over the rounds, and which of them
//! differ significantly (`stats/randomized_blocks.rs`). The detectors also examine each mount, as a run of its own,
//! because it was one.

use qd1_model::environment::FilesystemClass;
use qd1_model::filesystems::{Candidate, CellOf, Comparison, Note, RoundFigure, Row};
use qd1_model::metric::{METRICS, Metric};
use qd1_model::op::OpClass;
use qd1_model::order::Order as _;
use qd1_model::plan::{IoWork, StepPlan, Work};
use qd1_model::record::StepRecord;
use qd1_model::record::mounts::MountRecord;
use qd1_model::{Bytes, Estimate, Finding, Record, Severity, StepSummary, StreamSummary, Summary};
use qd1_model::{Detector, FindingId};

use crate::detect;
use qd1_stats::randomized_blocks::{is_better, over_rounds, pair, significant};

/// Below this share of reads from the device, the cache was measured, not the disk.
const CACHED: f64 = 0.5;
/// Requests of at least this size are about throughput.
const LARGE: u32 = 128 << 10;

/// Detectors that concern the disk below all filesystems, or the loop device.
const OF_THE_DISK: &[Detector] = &[
    Detector::NotADisk,
    Detector::StorageKind,
    Detector::Drift,
    Detector::PeriodicStalls,
    Detector::RateChanged,
    Detector::DirtyLimits,
    Detector::EngineFallback,
    Detector::OtherTraffic,
];

/// Returns the table of a comparison; `None` for other runs.
#[must_use]
pub fn compare(record: &Record, summary: &Summary) -> Option<Comparison> {
    let asked = record.plan.filesystems.as_ref()?;
    let measured = |mount: &&MountRecord| !mount.steps.is_empty();
    let filesystems: Vec<Candidate> = asked.names.iter().map(|name| candidate(record, name)).collect();
    let rounds = filesystems.iter().map(|one| one.rounds).min().unwrap_or(0);
    let mut rows = rows(record, summary, &asked.names);
    let comparisons = rank(&mut rows);
    let mounts: Vec<&MountRecord> = record.mounts.iter().filter(measured).collect();
    Some(Comparison { filesystems, rounds, rows, comparisons, notes: notes(record, &mounts) })
}

fn candidate(record: &Record, name: &str) -> Candidate {
    let mine = || record.mounts.iter().filter(|mount| mount.name == name);
    let first = mine().find(|mount| mount.fault.is_empty()).or_else(|| mine().next()).cloned().unwrap_or_default();
    Candidate {
        name: name.to_owned(),
        kind: first.filesystem.kind,
        tool: first.tool,
        commands: first.commands,
        asked_options: first.asked_options,
        options: first.filesystem.options,
        properties: first.properties,
        app: first.app,
        loop_direct: first.loop_direct,
        direct: first.direct,
        rounds: mine().filter(|mount| mount.fault.is_empty() && !mount.steps.is_empty()).count() as u32,
        fault: mine().map(|mount| mount.fault.clone()).find(|fault| !fault.is_empty()).unwrap_or_default(),
    }
}

/// A stream of one step of one mount.
struct StreamOfMount<'a> {
    name: &'a str,
    round: u32,
    step: &'a str,
    title: &'a str,
    plan: Option<&'a StepPlan>,
    stream: &'a StreamSummary,
}

/// All rows, in the order of steps, kinds of operation and metrics.
fn rows(record: &Record, summary: &Summary, names: &[String]) -> Vec<Row> {
    let mut all: Vec<StreamOfMount<'_>> = Vec::new();
    for mount in &record.mounts {
        for step in summary.steps.iter().filter(|step| mount.steps.contains(&step.name)) {
            all.extend(streams(record, mount, step));
        }
    }
    let mut keys: Vec<&StreamOfMount<'_>> = Vec::new();
    for seen in &all {
        if !keys.iter().any(|known| (known.step, known.stream.class) == (seen.step, seen.stream.class)) {
            keys.push(seen);
        }
    }
    let mut rows = Vec::new();
    for key in keys {
        let of: Vec<&StreamOfMount<'_>> =
            all.iter().filter(|seen| (seen.step, seen.stream.class) == (key.step, key.stream.class)).collect();
        rows.extend(METRICS.iter().filter_map(|metric| row(metric, key, &of, names)));
    }
    rows
}

fn streams<'a>(
    record: &'a Record,
    mount: &'a MountRecord,
    step: &'a StepSummary,
) -> impl Iterator<Item = StreamOfMount<'a>> + 'a {
    let plan = record.plan.steps.iter().find(|plan| plan.name == step.name);
    step.streams.iter().map(move |stream| StreamOfMount {
        name: &mount.name,
        round: mount.round,
        step: mount.plain_name(&step.name),
        title: &step.title,
        plan,
        stream,
    })
}

fn row(metric: &Metric, key: &StreamOfMount<'_>, of: &[&StreamOfMount<'_>], names: &[String]) -> Option<Row> {
    let cell = |name: &String| {
        let mut rounds: Vec<RoundFigure> = of
            .iter()
            .filter(|seen| seen.name == name.as_str())
            .filter_map(|seen| Some(RoundFigure { round: seen.round, figure: (metric.get)(seen.stream)? }))
            .collect();
        rounds.order_by_key(|round| round.round);
        CellOf { over_rounds: over_rounds(&rounds), rounds, rank: None, to_best: None }
    };
    let cells: Vec<CellOf> = names.iter().map(cell).collect();
    if cells.iter().all(|cell| cell.rounds.is_empty()) {
        return None;
    }
    Some(Row {
        step: key.step.to_owned(),
        title: key.title.to_owned(),
        op: key.stream.class,
        metric: metric.name.to_owned(),
        leads: leading_metrics(key.plan, key.stream.class).contains(&metric.name),
        cells,
    })
}

/// The figures of a step that its users notice: latency if one waits, the rate if several do, bytes if requests are
/// large. The rate also if one waits: a limit that lets some through immediately and holds the rest leaves the median
/// unchanged.
fn leading_metrics(plan: Option<&StepPlan>, op: OpClass) -> &'static [&'static str] {
    let io: Option<&IoWork> = plan.and_then(|plan| if let Work::Io(io) = &plan.work { Some(io) } else { None });
    match io {
        _ if matches!(op, OpClass::Create | OpClass::Stat | OpClass::Delete) => &["iops"],
        Some(io) if io.block_max() >= LARGE => &["bytes_per_second"],
        Some(io) if io.in_flight() > 1 => &["iops"],
        Some(_) => &["lat_p50_ns", "lat_p99_ns", "iops"],
        // A program's loads: several clients, each of which waits.
        None => &["lat_p50_ns", "lat_p99_ns", "iops"],
    }
}

/// Gives each leading cell its rank and its ratio to the best; returns the number of comparisons.
fn rank(rows: &mut [Row]) -> u32 {
    let mut pairs = Vec::new();
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| row.leads) {
        let known = comparable(row);
        for (later, a) in known.iter().enumerate() {
            pairs.extend(
                known[..later].iter().map(|b| (at, *a, *b, pair(&row.cells[*a].rounds, &row.cells[*b].rounds))),
            );
        }
    }
    let is_significant = significant(&pairs.iter().map(|(.., pair)| pair.p).collect::<Vec<_>>());
    for (at, row) in rows.iter_mut().enumerate().filter(|(_, row)| row.leads) {
        let Some(metric) = qd1_model::metric::metric(&row.metric) else { continue };
        let beaten = |cell: usize| {
            let sure =
                pairs.iter().zip(&is_significant).filter(|((of, ..), is_significant)| *of == at && **is_significant);
            sure.filter(|((_, a, b, pair), _)| {
                let first_wins = is_better(pair.ratio.value.unwrap_or(1.0), metric.better);
                if first_wins { *b == cell } else { *a == cell }
            })
            .count() as u32
        };
        let known = comparable(row);
        let ranks: Vec<u32> = (0..row.cells.len()).map(beaten).collect();
        let best = best(row, metric);
        for (cell, rank) in ranks.into_iter().enumerate() {
            let can = known.len() > 1 && known.contains(&cell);
            row.cells[cell].rank = can.then_some(rank + 1);
            let ratio =
                best.filter(|best| *best != cell).map(|best| pair(&row.cells[cell].rounds, &row.cells[best].rounds));
            row.cells[cell].to_best = ratio.map(|pair| pair.ratio).filter(Estimate::is_resolved);
        }
    }
    pairs.len() as u32
}

/// The filesystems of a row that can be compared: a single round does not show what is chance.
fn comparable(row: &Row) -> Vec<usize> {
    let can = |cell: &CellOf| cell.over_rounds.is_resolved() && cell.rounds.len() > 1;
    (0..row.cells.len()).filter(|cell| can(&row.cells[*cell])).collect()
}

/// The filesystem with the best figure, whether certain or not.
fn best(row: &Row, metric: &Metric) -> Option<usize> {
    let value = |cell: &usize| row.cells[*cell].over_rounds.value;
    let known = (0..row.cells.len()).filter(|cell| value(cell).is_some());
    known.reduce(|best, cell| {
        let ratio = value(&cell).unwrap_or(1.0) / value(&best).unwrap_or(1.0);
        if is_better(ratio, metric.better) { cell } else { best }
    })
}

/// What the detectors report about each mount, with the same finding of several merged.
fn notes(record: &Record, mounts: &[&MountRecord]) -> Vec<Note> {
    let mut found: Vec<(&str, Finding)> = Vec::new();
    let mut common = record.clone();
    let steps = std::mem::take(&mut common.steps);
    common.mounts.clear();
    for mount in mounts {
        let part = of_mount(&common, &steps, mount);
        let summary = crate::summarize(&part);
        let ours =
            |finding: &Finding| finding.severity >= Severity::Warning && !OF_THE_DISK.contains(&finding.id.detector());
        let mut here = crate::findings(&part, &summary);
        detect::sort(&mut here);
        let here = detect::merge_repeated(here);
        found.extend(here.into_iter().filter(ours).map(|finding| (mount.name.as_str(), finding)));
        found.extend(cached(record, mount).map(|finding| (mount.name.as_str(), finding)));
    }
    let mut notes: Vec<Note> = Vec::new();
    for (name, finding) in found {
        match notes.iter_mut().find(|note| note.finding.id == finding.id) {
            Some(note) => {
                note.seen += 1;
                if !note.filesystems.iter().any(|known| known == name) {
                    note.filesystems.push(name.to_owned());
                }
                if (finding.severity, finding.confidence) > (note.finding.severity, note.finding.confidence) {
                    note.finding = finding;
                }
            }
            None => notes.push(Note { filesystems: vec![name.to_owned()], seen: 1, of: 0, finding }),
        }
    }
    for note in &mut notes {
        note.of = mounts.iter().filter(|mount| note.filesystems.contains(&mount.name)).count() as u32;
    }
    // What appears now and then is due to the disk or to chance; what appears mostly is due to the filesystem.
    notes.retain(|note| note.seen * 2 > note.of || note.finding.severity == Severity::Critical);
    notes.order_by(|a, b| b.finding.severity.cmp(&a.finding.severity).then(b.seen.cmp(&a.seen)));
    notes
}

/// A filesystem in user space reads from its device on its own: its cache may have answered most of the requests. The
/// detectors look at each step's device, and here there is none.
fn cached(record: &Record, mount: &MountRecord) -> Option<Finding> {
    let counted = mount.counted.filter(|_| mount.filesystem.class == FilesystemClass::Fuse)?;
    let steps = record.steps.iter().filter(|step| mount.steps.contains(&step.name));
    let asked: u64 = steps.filter_map(|step| step.stream(OpClass::Read)).map(|stream| stream.bytes.0).sum();
    let from_device = counted.read_bytes as f64 / asked as f64;
    (asked > 0 && from_device < CACHED).then(|| Finding {
        title: "most reads were answered by the filesystem's own cache, although O_DIRECT was requested".to_owned(),
        evidence: format!(
            "{} were read from the filesystem, which read {} from its device ({})",
            Bytes(asked),
            Bytes(counted.read_bytes),
            detect::percent(from_device)
        ),
        advice: "to compare its reads, use a test file larger than memory (--size)".to_owned(),
        ..detect::base_finding(FindingId::CacheAnsweredFilesystem, Severity::Warning, 0.95)
    })
}

/// One mount as a Record of its own: what they all share, plus its own part of `steps`.
fn of_mount(common: &Record, steps: &[StepRecord], mount: &MountRecord) -> Record {
    let mut part = common.clone();
    part.steps = steps.iter().filter(|step| mount.steps.contains(&step.name)).cloned().collect();
    part.plan.steps.retain(|step| mount.steps.contains(&step.name));
    part.steps.iter_mut().for_each(|step| step.name = mount.plain_name(&step.name).to_owned());
    part.plan.steps.iter_mut().for_each(|step| step.name = mount.plain_name(&step.name).to_owned());
    part.plan.filesystems = None;
    part.plan.target.filesystem.clone_from(&mount.filesystem.kind);
    part.plan.target.direct = mount.direct;
    part.environment.filesystem = mount.filesystem.clone();
    part.environment.devices.clone_from(&mount.devices);
    part.prepare.clone_from(&mount.prepare);
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::environment::DeviceCounters;
    use qd1_model::plan::filesystems::FilesystemsPlan;
    use qd1_model::plan::{Rw, Sync};

    /// Rounds of reads that take the given ns on each filesystem; each round is a little slower than the one before.
    fn record(filesystems: &[(&str, u64)], rounds: u32) -> Record {
        let mut record = testing::empty();
        for round in 1..=rounds {
            for (name, ns) in filesystems {
                let mut mount = MountRecord { name: (*name).to_owned(), round, direct: true, ..MountRecord::default() };
                mount.filesystem.kind = "ext4".to_owned();
                let full = mount.step_name("reads");
                let lat = ns + u64::from(round) * ns / 7 + u64::from(round * 13 % 5) * ns / 900;
                testing::step(&mut record, &full, testing::io(Rw::Randread, 4096, Sync::None, true), 400, lat);
                mount.steps.push(full);
                record.mounts.push(mount);
            }
        }
        let names: Vec<String> = filesystems.iter().map(|(name, _)| (*name).to_owned()).collect();
        let order = vec![(0..names.len() as u32).collect(); rounds as usize];
        record.plan.filesystems =
            Some(FilesystemsPlan { rounds, names, order, fair: false, disk: Bytes::gib(1), on_loop: true });
        record
    }

    fn lead(record: &Record) -> Row {
        let comparison = compare(record, &crate::summarize(record)).unwrap();
        comparison.rows.into_iter().find(|row| row.metric == "lat_p50_ns").unwrap()
    }

    #[test]
    fn only_a_comparison_of_filesystems_has_a_table() {
        let record = testing::record();
        assert_eq!(compare(&record, &crate::summarize(&record)), None);
    }

    #[test]
    fn equal_filesystems_share_a_rank_and_a_slower_one_follows() {
        let row = lead(&record(&[("ext4", 100_000), ("ext4-2", 100_020), ("slow", 180_000)], 5));
        assert_eq!(row.cells.iter().map(|cell| cell.rank).collect::<Vec<_>>(), [Some(1), Some(1), Some(3)]);
        let ratio = row.cells[2].to_best.unwrap();
        assert!((ratio.value.unwrap() - 1.8).abs() < 0.05, "{ratio:?}");
        assert!(row.cells[0].over_rounds.low < row.cells[1].over_rounds.high);
        assert!(row.leads && row.step == "reads");
    }

    #[test]
    fn one_round_gives_figures_but_no_ranks() {
        let row = lead(&record(&[("ext4", 100_000), ("xfs", 300_000)], 1));
        assert!(row.cells.iter().all(|cell| cell.rank.is_none() && cell.over_rounds.is_resolved()));
    }

    #[test]
    fn a_filesystem_never_measured_is_listed_without_figures() {
        let mut record = record(&[("ext4", 100_000)], 3);
        record.plan.filesystems.as_mut().unwrap().names.push("xfs".to_owned());
        let fault = "mkfs.xfs failed".to_owned();
        record.mounts.push(MountRecord { name: "xfs".to_owned(), round: 1, fault, ..MountRecord::default() });
        let found = compare(&record, &crate::summarize(&record)).unwrap();
        assert_eq!((found.filesystems[1].rounds, found.filesystems[1].fault.as_str()), (0, "mkfs.xfs failed"));
        let row = found.rows.iter().find(|row| row.leads).unwrap();
        assert_eq!((row.cells[1].over_rounds.value, row.cells[1].rank, row.cells[0].rank), (None, None, None));
    }

    #[test]
    fn reads_that_a_user_space_filesystem_answered_are_reported() {
        let mut record = record(&[("zfs", 20_000)], 2);
        for mount in &mut record.mounts {
            mount.filesystem.class = FilesystemClass::Fuse;
            mount.counted = Some(DeviceCounters { read_bytes: 1 << 20, ..DeviceCounters::default() });
        }
        let said = |record: &Record| compare(record, &crate::summarize(record)).unwrap().notes;
        assert_eq!(said(&record)[0].finding.id, FindingId::CacheAnsweredFilesystem);
        record.mounts.iter_mut().for_each(|mount| mount.counted.as_mut().unwrap().read_bytes = 1 << 40);
        assert!(said(&record).iter().all(|note| note.finding.id != FindingId::CacheAnsweredFilesystem));
    }

    #[test]
    fn a_finding_on_one_filesystem_names_it_alone() {
        let mut record = record(&[("ext4", 100_000), ("xfs", 100_000)], 3);
        for mount in record.mounts.iter_mut().filter(|mount| mount.name == "xfs") {
            mount.filesystem.options.push("nobarrier".to_owned());
        }
        let notes = compare(&record, &crate::summarize(&record)).unwrap().notes;
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert_eq!((notes[0].filesystems.join(" ").as_str(), notes[0].seen, notes[0].of), ("xfs", 3, 3));
    }
}

//! fio and our engines in turn on the same disk: IOPS on a RAM disk, where the tool is the bottleneck and the one that
//! does less work per I/O gets more of them; latencies on a loop device, where both must show the same for one disk.

use std::path::Path;

use anyhow::Result;

use super::ours::{Figures, Job, Stop};
use super::rounds::in_turn;
use super::table::{Table, Target};
use super::{Args, fio, ours};

/// A figure: its name, how it is read, its unit and its target.
type Figure = (&'static str, fn(&Figures) -> f64, f64, Option<Target>);

const RAM_BYTES: u64 = 1 << 30;
/// Engine, depth, batch, and the least ratio of our IOPS to fio's. The batches are those at which fio is fastest:
/// io_uring about 480,000 with 16 and 250,000 with 1, libaio 520,000 with 1 and 440,000 with 16 (fio 3.33).
const RAM: &[(&str, u32, u32, Option<f64>)] = &[
    ("psync", 1, 1, Some(1.0)),
    ("libaio", 1, 1, Some(1.0)),
    ("libaio", 32, 1, None),
    ("io_uring", 1, 1, Some(1.0)),
    ("io_uring", 32, 16, Some(1.3)),
];

const LOOP_BYTES: u64 = 512 << 20;
const ALIKE: Option<Target> = Some(Target::Between(0.95, 1.05));
const LATENCIES: [Figure; 2] =
    [("p50", |figures| figures.p50_ns, 1e3, ALIKE), ("p99", |figures| figures.p99_ns, 1e3, ALIKE)];

/// Thousand IOPS on a RAM disk.
pub(super) fn zram(args: &Args) -> Result<Table> {
    let disk = qd1_lab::Zram::new(RAM_BYTES)?;
    qd1_lab::fill_device(disk.device(), RAM_BYTES)?;
    println!("thousand IOPS, min/median/max of {} rounds of {} s", args.rounds, args.seconds);
    let cases = RAM.iter().map(|(engine, iodepth, batch, least)| {
        let iops: Figure = ("IOPS", |figures| figures.iops, 1e3, least.map(Target::AtLeast));
        (*engine, *iodepth, *batch, vec![iops])
    });
    compare(args, disk.device(), RAM_BYTES, cases)
}

/// Microseconds at depth 1 on a loop device.
pub(super) fn latency(args: &Args) -> Result<Table> {
    let disk = qd1_lab::Loop::filled(qd1_lab::temp_dir()?, LOOP_BYTES)?;
    println!("microseconds, min/median/max of {} rounds of {} s", args.rounds, args.seconds);
    let cases = ["psync", "io_uring"].into_iter().map(|engine| (engine, 1, 1, LATENCIES.to_vec()));
    compare(args, disk.device(), LOOP_BYTES, cases)
}

/// Runs each case (engine, depth, batch, figures) on both sides.
fn compare<'a>(
    args: &Args,
    disk: &Path,
    size_bytes: u64,
    cases: impl Iterator<Item = (&'a str, u32, u32, Vec<Figure>)>,
) -> Result<Table> {
    let drive = ours::build()?;
    let mut table = Table::new(&["engine", "iodepth", "batch", "", &fio::version()?, "ours", "ratio", "median ratio"]);
    for (engine, iodepth, batch, figures) in cases {
        let stop = Stop::Seconds(args.seconds);
        let job = Job { engine, file: disk, size_bytes, iodepth, batch, direct: true, stop };
        let pairs = in_turn(args.rounds, || fio::run(&job), || ours::run(&drive, &job))?;
        for (name, of, unit, target) in figures {
            let cells = [engine.to_owned(), iodepth.to_string(), batch.to_string(), name.to_owned()];
            table.pairs(cells.into(), pairs.iter().map(|(fio, ours)| (of(fio), of(ours))), unit, target);
        }
    }
    Ok(table)
}

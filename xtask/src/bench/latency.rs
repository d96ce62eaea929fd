//! Whether we read the same latency as fio from the same disk: p50 and p99 at depth 1 on a loop device.

use anyhow::Result;

use super::ours::{Figures, Job, Stop};
use super::rounds::{Spread, in_turn};
use super::table::{Table, Target};
use super::{Args, fio, ours};
use crate::lab;

const DISK_BYTES: u64 = 512 << 20;
const TARGET: Target = Target::Between(0.95, 1.05);

type Percentile = (&'static str, fn(&Figures) -> f64);
const PERCENTILES: [Percentile; 2] = [("p50", |figures| figures.p50_ns), ("p99", |figures| figures.p99_ns)];

pub(super) fn run(args: &Args) -> Result<Table> {
    lab::need_root("a loop device")?;
    let drive = ours::build()?;
    let disk = lab::Loop::new(lab::temp_dir()?, DISK_BYTES)?;
    println!("microseconds, min/median/max of {} rounds of {} s", args.rounds, args.seconds);
    let mut table = Table::new(&["engine", "", &fio::version()?, "ours", "median ratio"]);
    for engine in ["psync", "io_uring"] {
        let job = Job {
            engine,
            file: disk.device(),
            size_bytes: DISK_BYTES,
            iodepth: 1,
            batch: 1,
            direct: true,
            stop: Stop::Seconds(args.seconds),
        };
        let pairs = in_turn(args.rounds, || fio::run(&job), || ours::run(&drive, &job))?;
        for (name, of) in PERCENTILES {
            let peer = Spread::of(pairs.iter().map(|(fio, _)| of(fio)));
            let own = Spread::of(pairs.iter().map(|(_, ours)| of(ours)));
            let ratio = Spread::of(pairs.iter().map(|(fio, ours)| of(ours) / of(fio))).median;
            let cells =
                vec![engine.to_owned(), name.to_owned(), peer.shown(1e3, 1), own.shown(1e3, 1), format!("{ratio:.3}")];
            table.row(cells, ratio, Some(TARGET));
        }
    }
    Ok(table)
}

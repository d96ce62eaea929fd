//! IOPS on a RAM disk, where the instrument is the bottleneck: whoever does less per I/O gets more of them.

use anyhow::Result;

use super::ours::{Job, Stop};
use super::rounds::{Spread, in_turn};
use super::table::{Table, Target};
use super::{Args, fio, ours};
use crate::lab;

const DISK_BYTES: u64 = 1 << 30;

/// Engine, depth, batch, and the least ratio of our IOPS to fio's. The batches are those at which fio is fastest:
/// io_uring about 480,000 with 16 and 250,000 with 1, libaio 520,000 with 1 and 440,000 with 16 (fio 3.33).
const CASES: &[(&str, u32, u32, Option<f64>)] = &[
    ("psync", 1, 1, Some(1.0)),
    ("libaio", 1, 1, Some(1.0)),
    ("libaio", 32, 1, None),
    ("io_uring", 1, 1, Some(1.0)),
    ("io_uring", 32, 16, Some(1.3)),
];

pub(super) fn run(args: &Args) -> Result<Table> {
    let drive = ours::build()?;
    let disk = lab::Zram::set_up(DISK_BYTES)?;
    lab::fill_device(disk.device(), DISK_BYTES)?;
    println!("thousand IOPS, min/median/max of {} rounds of {} s", args.rounds, args.seconds);
    let mut table = Table::new(&["engine", "iodepth", "batch", &fio::version()?, "ours", "median ratio"]);
    for (engine, iodepth, batch, least) in CASES {
        let job = Job {
            engine,
            file: disk.device(),
            size_bytes: DISK_BYTES,
            iodepth: *iodepth,
            batch: *batch,
            direct: true,
            stop: Stop::Seconds(args.seconds),
        };
        let pairs = in_turn(args.rounds, || fio::run(&job), || ours::run(&drive, &job))?;
        let peer = Spread::of(pairs.iter().map(|(fio, _)| fio.iops));
        let own = Spread::of(pairs.iter().map(|(_, ours)| ours.iops));
        let ratio = Spread::of(pairs.iter().map(|(fio, ours)| ours.iops / fio.iops)).median;
        let cells = vec![
            (*engine).to_owned(),
            iodepth.to_string(),
            batch.to_string(),
            peer.shown(1e3, 1),
            own.shown(1e3, 1),
            format!("{ratio:.3}"),
        ];
        table.row(cells, ratio, least.map(Target::AtLeast));
    }
    Ok(table)
}

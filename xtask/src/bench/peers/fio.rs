//! fio against `qd1 fio`, the drop-in, with the same arguments: how many requests are in flight on average (IOPS times
//! mean latency, Little's law), which shows whether both time a request from the same moment to the same moment.

use std::process::Command;

use anyhow::Result;
use qd1_lab::cmd;

use super::{Figures, Peer, Round};
use crate::bench::table::Target;

pub(super) const PEER: Peer = Peer {
    name: "fio",
    what: "requests in flight, IOPS x mean latency (qd1 fio)",
    target: Target::Between(0.97, 1.03),
    find: || cmd::find("fio"),
    package: "fio",
    peer: |round| both(round, || round.program()),
    ours: |round| {
        both(round, || {
            let mut command = round.qd1();
            command.arg("fio");
            command
        })
    },
};

const ENGINES: [&str; 3] = ["psync", "libaio", "io_uring"];
const DEPTHS: [u32; 3] = [1, 4, 32];

fn both(round: &Round<'_>, program: impl Fn() -> Command) -> Result<Figures> {
    let mut figures = Vec::new();
    for engine in ENGINES {
        for depth in DEPTHS {
            let report = cmd::json(program().args(job(round, engine, depth)))?;
            let of = |name: &str| cmd::number(&report, &format!("/jobs/0/read/{name}"));
            figures.push((format!("{engine}, depth {depth}"), of("iops")? * of("lat_ns/mean")? / 1e9));
        }
    }
    Ok(figures)
}

/// Random reads of a file that exists after the first run of either. For `psync`, which has one request at a time, the
/// depth is the number of jobs.
fn job(round: &Round<'_>, engine: &str, depth: u32) -> Vec<String> {
    let dir = round.dir_str();
    let fixed =
        ["--name=job", "--rw=randread", "--bs=4k", "--direct=1", "--size=256m", "--time_based=1", "--group_reporting"];
    let mut args: Vec<String> = fixed.into_iter().map(str::to_owned).collect();
    args.extend([
        "--output-format=json".to_owned(),
        format!("--filename={dir}/fio-peer"),
        format!("--ioengine={engine}"),
        format!("--{}={depth}", if engine == "psync" { "numjobs" } else { "iodepth" }),
        format!("--runtime={}", round.seconds),
    ]);
    args
}

//! `cargo xtask bench`: what qd1 itself costs, compared with fio and with the project's targets.
//!
//! One file per benchmark and one row in `BENCHES`. Figures on a shared machine vary, so fio and qd1 run in turn, and
//! the median of the ratios counts.

mod args;
mod cost;
mod ebpf;
mod engines;
mod fio;
mod ours;
mod peers;
mod quantiles;
mod rounds;
mod start;
mod table;
mod watching;

use anyhow::Result;

pub(crate) use self::args::Args;
use crate::chosen::chosen;
use crate::setup;

struct Bench {
    name: &'static str,
    what: &'static str,
    run: fn(&Args) -> Result<table::Table>,
}

const BENCHES: &[Bench] = &[
    Bench { name: "cost", what: "user-space instructions per I/O at depth 1, by callgrind", run: cost::run },
    Bench { name: "zram", what: "IOPS on a RAM disk, fio and ours in turn (root)", run: engines::zram },
    Bench { name: "latency", what: "p50 and p99 on a loop device, fio and ours in turn (root)", run: engines::latency },
    Bench {
        name: "ebpf",
        what: "p50, p99 and p99.9 against eBPF's timing of the same requests (root)",
        run: ebpf::run,
    },
    Bench { name: "peers", what: "our commands and the programs that they replace, in turn (root)", run: peers::run },
    Bench {
        name: "watching",
        what: "IOPS that are left while somebody watches, bpftrace among them (root)",
        run: watching::run,
    },
    Bench {
        name: "quantiles",
        what: "the histograms of `qd1 watch` against eBPF's timing of the same requests (root)",
        run: quantiles::run,
    },
    Bench { name: "start", what: "size, start time and memory of the released binary", run: start::run },
];

/// Runs the named benchmarks, or all. False if one could not run, or with `--strict` missed a target.
pub(crate) fn run(args: &Args) -> Result<bool> {
    if args.names.iter().any(|name| name == "list") {
        for bench in BENCHES {
            println!("{:<8} {}", bench.name, bench.what);
        }
        return Ok(true);
    }
    let benches = chosen(BENCHES, |bench| bench.name, &args.names, "benchmark")?;
    setup::run()?;
    qd1_lab::catch_signals()?;
    let mut good = true;
    for bench in benches {
        println!("\n{}: {}", bench.name, bench.what);
        match (bench.run)(args) {
            Ok(table) => {
                print!("{table}");
                good &= !(args.strict && table.missed());
            }
            Err(error) => {
                good = false;
                println!("cannot measure: {error:#}");
            }
        }
        qd1_lab::interrupted()?;
    }
    Ok(good)
}

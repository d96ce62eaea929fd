//! The overhead of watching a disk: fio's IOPS on a loop device, with and without a program that measures the
//! latencies of its requests. bpftrace is measured twice: as bcc's biolatency works (a timestamp at issue, in a hash
//! table), and with the timestamps that the kernel keeps.

use std::cell::Cell;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use qd1_lab::{Loop, Terminal, cmd};

use super::ours::{Figures, Job, Stop};
use super::rounds::in_turn;
use super::table::{Table, Target};
use super::{Args, fio};
use crate::dist;

const LOOP_BYTES: u64 = 512 << 20;
/// How long a watcher has to start.
const BEGINS: Duration = Duration::from_millis(1500);

const BIOLATENCY: &str = "
tracepoint:block:block_rq_issue { @start[args->dev, args->sector] = nsecs; }
tracepoint:block:block_rq_complete /@start[args->dev, args->sector]/ {
    @usecs = hist((nsecs - @start[args->dev, args->sector]) / 1000); delete(@start[args->dev, args->sector]);
}
";
const STAMPS: &str = "
rawtracepoint:block_rq_complete { $rq = (struct request *)arg0; @usecs = hist((nsecs - $rq->io_start_time_ns) / 1000); }
";

/// The watchers, and the smallest acceptable share of the IOPS without a watcher.
const WATCHERS: [(&str, Option<f64>); 7] = [
    ("watch --latencies", Some(0.99)),
    ("the same, wbt off", Some(0.99)),
    ("watch (screen)", None),
    ("trace, filtered", Some(0.85)),
    ("trace, all lines", Some(0.85)),
    ("bpftrace biolatency", None),
    ("bpftrace, stamps", None),
];

/// A running watcher; dropping it ends it.
enum Watcher {
    Process(Child),
    Screen { terminal: Terminal },
}

impl Watcher {
    fn is_watching(&mut self) -> Result<bool> {
        match self {
            Self::Process(child) => Ok(child.try_wait()?.is_none()),
            Self::Screen { terminal } => Ok(terminal.screen()?.contains("Device")),
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Self::Process(child) = self {
            // The kernel removes the BPF programs of a process that is gone.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Thousand IOPS without and with each watcher, in turn.
pub(super) fn run(args: &Args) -> Result<Table> {
    qd1_lab::need_root("bench watching")?;
    let dir = qd1_lab::temp_dir()?;
    let disk = Loop::filled(qd1_lab::quiet_dir()?, LOOP_BYTES)?;
    let qd1 = match &args.binary {
        Some(binary) => std::path::absolute(binary)?,
        None => dist::build_binary()?,
    };
    println!(
        "thousand IOPS of 4k random reads, io_uring at depth 32; min/median/max of {} rounds of {} s",
        args.rounds, args.seconds
    );
    let stop = Stop::Seconds(args.seconds);
    let job = Job {
        engine: "io_uring",
        file: disk.path().as_ref(),
        size_bytes: LOOP_BYTES,
        iodepth: 32,
        batch: 16,
        direct: true,
        stop,
    };
    let mut table = Table::new(&["watched by", "nobody", "watched", "ratio", "median ratio"]);
    for (name, least) in WATCHERS {
        // The kernel records the time of issue only if something on the queue needs it, such as wbt.
        let wbt_us = if name.ends_with("wbt off") { "0" } else { "2000" };
        let _wbt = disk.set_queue("wbt_lat_usec", wbt_us)?;
        let watched_by = |run: &dyn Fn() -> Result<Figures>| {
            let mut watcher = watcher(name, &qd1, disk.path(), dir.path())?;
            std::thread::sleep(BEGINS);
            let figures = run()?;
            ensure!(watcher.is_watching()?, "{name} ended before fio did");
            Ok(figures)
        };
        let watched = || watched_by(&|| fio::run(&job));
        // A peer that does not run here is no reason to lose our own figures.
        let pairs = match in_turn(args.rounds, || fio::run(&job), watched) {
            Err(error) if name.starts_with("bpftrace") => {
                println!("left out: {error:#}");
                continue;
            }
            pairs => pairs?,
        };
        // On a noisy machine, the kernel's own account is steadier than the IOPS. Keeping it costs time, so it has a run of
        // its own.
        let spent = Cell::new(0.0);
        watched_by(&|| {
            let _stats = enable_stats(Stats::RunTime)?;
            let before = bpf_ns();
            let figures = fio::run(&job)?;
            spent.set(bpf_ns().saturating_sub(before) as f64 / (figures.iops * args.seconds as f64));
            Ok(figures)
        })?;
        println!("{name}: BPF programs run {:.0} ns for each request", spent.get());
        let iops = pairs.iter().map(|(nobody, watched)| (nobody.iops, watched.iops));
        table.pairs(vec![name.to_owned()], iops, 1e3, least.map(Target::AtLeast));
    }
    Ok(table)
}

/// How long all BPF programs of the machine ran, ns, while that was counted.
fn bpf_ns() -> u64 {
    // Programs may be unloaded while they are listed.
    loaded_programs().filter_map(Result::ok).map(|program| program.run_time().as_nanos() as u64).sum()
}

fn watcher(name: &str, qd1: &Path, disk: &str, dir: &Path) -> Result<Watcher> {
    let words = |args: &[&str]| {
        let mut command = cmd::command(qd1);
        command.args(args);
        command
    };
    let mut command = match name {
        "watch --latencies" | "the same, wbt off" => words(&["watch", disk, "--latencies", "--batch", "1"]),
        "trace, filtered" => words(&["trace", disk, "--min-lat", "10s"]),
        "trace, all lines" => words(&["trace", disk]),
        "bpftrace biolatency" => bpftrace(BIOLATENCY),
        "bpftrace, stamps" => bpftrace(STAMPS),
        _ => {
            let script = format!("{} watch {disk} --no-save", qd1.display());
            return Ok(Watcher::Screen { terminal: Terminal::new(dir, [80, 24], &script)? });
        }
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Watcher::Process(command.spawn().with_context(|| format!("cannot start {name}"))?))
}

/// With a private mount of tracefs, because many machines have none.
fn bpftrace(script: &str) -> Command {
    let mut unshare = cmd::command("unshare");
    unshare.args([
        "--mount",
        "sh",
        "-c",
        "mount -t tracefs tracefs /sys/kernel/tracing && exec bpftrace -e \"$1\"",
        "sh",
        script,
    ]);
    unshare
}

//! A report in the columns of vmstat and `iostat -x`.

use std::fmt::Write as _;

use qd1_model::units::Bytes;
use qd1_trace::Stage;

use crate::commands::trace::narrow;

use super::limits;
use super::reading::{DiskReading, Reading};

/// Appends a report as text.
pub(super) fn push(text: &mut String, reading: &Reading, with_latencies: bool) {
    let Reading { now, rates, disks, .. } = reading;
    let (cpu, memory) = (&rates.cpu, &now.memory);
    *text += "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n         ";
    for share in [cpu.user, cpu.nice, cpu.system, cpu.iowait, cpu.steal, cpu.idle] {
        let _ = write!(text, " {share:7.2}");
    }
    *text += "\n\nprocs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n \
              r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
    let _ = write!(text, "{:2} {:2}", now.running, now.blocked);
    for kib in [memory.swap_kib, memory.free_kib, memory.buffers_kib, memory.cache_kib] {
        let _ = write!(text, " {kib:6}");
    }
    let paging = &rates.paging;
    let _ = write!(
        text,
        " {:4.0} {:4.0} {:5.0} {:5.0}",
        paging.swap_in, paging.swap_out, paging.blocks_in, paging.blocks_out
    );
    let _ = write!(text, " {:4.0} {:4.0}", rates.interrupts, rates.switches);
    for share in [cpu.user + cpu.nice, cpu.system, cpu.idle, cpu.iowait, cpu.steal] {
        let _ = write!(text, " {share:2.0}");
    }
    let (dirty, writeback) = (Bytes(memory.dirty_kib * 1024), Bytes(memory.writeback_kib * 1024));
    let _ = write!(text, "\nto write: {dirty} dirty, {writeback} in writeback");
    if let Some([cpu, io, memory]) = rates.pressure {
        let _ = write!(text, "; tasks waited (PSI): io {io:.1} %, cpu {cpu:.1} %, memory {memory:.1} %");
    }
    *text += "\n\nDevice       ";
    for [rate, kib, merges, merged, wait, size] in [
        ["r/s", "rkB/s", "rrqm/s", "%rrqm", "r_await", "rareq-sz"],
        ["w/s", "wkB/s", "wrqm/s", "%wrqm", "w_await", "wareq-sz"],
        ["d/s", "dkB/s", "drqm/s", "%drqm", "d_await", "dareq-sz"],
    ] {
        let _ = write!(text, " {rate:>7} {kib:>9} {merges:>8} {merged:>6} {wait:>7} {size:>8}");
    }
    let _ = writeln!(text, " {:>7} {:>7} {:>7} {:>6}", "f/s", "f_await", "aqu-sz", "%util");
    for DiskReading { rates: disk, .. } in disks {
        // A recording may come from anybody.
        let _ = write!(text, "{:<13}", narrow(&disk.name));
        for of in [&disk.reads, &disk.writes, &disk.discards] {
            let _ = write!(text, " {:7.2} {:9.2} {:8.2}", of.per_second, of.kib, of.merges);
            let _ = write!(text, " {:6.2} {:7.2} {:8.2}", of.merged, of.await_ms, of.size_kib);
        }
        let (flushes, busy) = (&disk.flushes, disk.busy);
        let _ = write!(text, " {:7.2} {:7.2}", flushes.per_second, flushes.await_ms);
        let _ = writeln!(text, " {:7.2} {busy:6.2}", disk.in_flight);
    }
    let limited = disks.iter().filter_map(|disk| Some((&disk.rates.name, disk.limits.as_ref()?)));
    for (at, (name, limits)) in limited.enumerate() {
        text.push_str(if at == 0 { "\n" } else { "" });
        let _ = writeln!(text, "{} limits: {}", narrow(name), limits::shown(limits));
    }
    if with_latencies {
        push_latencies(text, disks);
        if let Some(unrecorded) = reading.unrecorded() {
            let _ = writeln!(text, "{unrecorded}");
        }
    }
    text.push('\n');
}

/// Appends a line for each disk and operation that had requests.
fn push_latencies(text: &mut String, disks: &[DiskReading]) {
    let _ = write!(text, "\nLatency (ms)  op        requests");
    for name in ["p50", "p99", "p99.9", "max", "dev p50", "dev p99", "que p99"] {
        let _ = write!(text, " {name:>9}");
    }
    text.push('\n');
    for disk in disks {
        for (op, latencies) in
            disk.latencies.iter().flatten().filter(|(_, latencies)| latencies.count(Stage::Total) > 0)
        {
            let _ =
                write!(text, "{:<13} {:<8} {:>9}", narrow(&disk.rates.name), op.name(), latencies.count(Stage::Total));
            for (stage, share) in COLUMNS {
                let _ = match latencies.quantile_ns(stage, share) {
                    Some(ns) => write!(text, " {:9.3}", ns as f64 / 1e6),
                    None => write!(text, " {:>9}", "-"),
                };
            }
            text.push('\n');
        }
    }
}

/// The columns of a latency row, in order.
const COLUMNS: [(Stage, f64); 7] = [
    (Stage::Total, 0.5),
    (Stage::Total, 0.99),
    (Stage::Total, 0.999),
    (Stage::Total, 1.0),
    (Stage::Device, 0.5),
    (Stage::Device, 0.99),
    (Stage::Queue, 0.99),
];

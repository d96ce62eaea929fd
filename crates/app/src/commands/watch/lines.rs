//! A report in the columns of vmstat and `iostat -x`, or as an object.

use std::fmt::Write as _;

use qd1_model::units::Bytes;
use qd1_model::{SCHEMA_VERSION, printable_output};
use qd1_probe::activity::{Activity, DiskRates, Rates, RequestRates};
use serde_json::{Map, Value, json};

/// Appends a report for people and scripts.
pub(super) fn push_text(text: &mut String, now: &Activity, rates: &Rates, disks: &[&DiskRates]) {
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
        let _ = write!(text, "; tasks waited for (PSI): io {io:.1} %, cpu {cpu:.1} %, memory {memory:.1} %");
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
    for disk in disks {
        let _ = write!(text, "{:<13}", disk.name);
        for of in [&disk.reads, &disk.writes, &disk.discards] {
            let _ = write!(text, " {:7.2} {:9.2} {:8.2}", of.per_second, of.kib, of.merges);
            let _ = write!(text, " {:6.2} {:7.2} {:8.2}", of.merged, of.await_ms, of.size_kib);
        }
        let (flushes, busy) = (&disk.flushes, disk.busy);
        let _ = write!(text, " {:7.2} {:7.2}", flushes.per_second, flushes.await_ms);
        let _ = writeln!(text, " {:7.2} {busy:6.2}", disk.in_flight);
    }
    text.push('\n');
}

/// Appends a report as a line of JSON, disks with the keys of `iostat -o JSON`.
pub(super) fn push_json(text: &mut String, at_s: f64, now: &Activity, rates: &Rates, disks: &[&DiskRates]) {
    let (cpu, memory, paging) = (&rates.cpu, &now.memory, &rates.paging);
    let object = json!({
        "type": "report",
        "schema_version": SCHEMA_VERSION,
        "unix_time_s": at_s,
        "interval_s": rates.seconds,
        "avg-cpu": {
            "user": cpu.user, "nice": cpu.nice, "system": cpu.system,
            "iowait": cpu.iowait, "steal": cpu.steal, "idle": cpu.idle,
        },
        "procs": { "r": now.running, "b": now.blocked },
        "memory_kib": {
            "swpd": memory.swap_kib, "free": memory.free_kib, "buff": memory.buffers_kib, "cache": memory.cache_kib,
            "dirty": memory.dirty_kib, "writeback": memory.writeback_kib,
        },
        "kib_per_s": {
            "si": paging.swap_in, "so": paging.swap_out, "bi": paging.blocks_in, "bo": paging.blocks_out,
        },
        "in": rates.interrupts,
        "cs": rates.switches,
        "pressure_percent": rates.pressure.map(|[cpu, io, memory]| json!({ "cpu": cpu, "io": io, "memory": memory })),
        "disk": disks.iter().map(|disk| json(disk)).collect::<Vec<_>>(),
    });
    *text += &printable_output(&object.to_string());
    text.push('\n');
}

fn json(disk: &DiskRates) -> Value {
    let mut object = Map::new();
    object.insert("disk_device".to_owned(), disk.name.clone().into());
    let mut add = |key: String, value: f64| object.insert(key, value.into());
    for (letter, of) in [("r", &disk.reads), ("w", &disk.writes), ("d", &disk.discards)] {
        let RequestRates { per_second, kib, merges, merged, await_ms, size_kib } = *of;
        add(format!("{letter}/s"), per_second);
        add(format!("{letter}kB/s"), kib);
        add(format!("{letter}rqm/s"), merges);
        add(format!("{letter}rqm"), merged);
        add(format!("{letter}_await"), await_ms);
        add(format!("{letter}areq-sz"), size_kib);
    }
    add("f/s".to_owned(), disk.flushes.per_second);
    add("f_await".to_owned(), disk.flushes.await_ms);
    add("aqu-sz".to_owned(), disk.in_flight);
    add("util".to_owned(), disk.busy);
    Value::Object(object)
}

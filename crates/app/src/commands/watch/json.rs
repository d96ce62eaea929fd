//! A report as a line of JSON, and back: what `--json` prints, `--record` writes and `--play` reads.

use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use qd1_model::record::watched::DiskLimits;
use qd1_model::requests::{Asker, COMM, Op, Sync, comm_of};
use qd1_model::{SCHEMA_VERSION, printable_output};
use qd1_probe::activity::{Activity, CpuShares, DiskRates, MemoryUse, PagingRates, Rates, RequestRates};
use qd1_trace::{InFlight, Latencies, Process, Stage, SyncUnderWay};
use serde_json::{Map, Value, json};

use super::processes::ProcessReading;
use super::reading::{DiskReading, Reading, SyncReading};

const OPS: [Op; 5] = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::Other];
const STAGES: [(Stage, &str); 3] = [(Stage::Total, "total"), (Stage::Device, "device"), (Stage::Queue, "queue")];
/// Largest number that a recording may have: it comes from anybody, and sums of it must be possible.
const NUMBER_MAX: u64 = 1 << 50;
/// Most disks of a report, and most of everything else that it lists.
const DISKS_MAX: usize = 1000;
const LISTED_MAX: usize = 40_000;
/// Name of a call that this version does not know.
const OTHER_CALL: &str = "sync";

/// Appends a report; disks have the keys of `iostat -o JSON`. `with_waits`: also what processes do, and what they wait
/// for.
pub(super) fn push(text: &mut String, reading: &Reading, with_waits: bool) {
    let Reading { now, rates, disks, .. } = reading;
    let (cpu, memory, paging) = (&rates.cpu, &now.memory, &rates.paging);
    let mut object = json!({
        "type": "report",
        "schema_version": SCHEMA_VERSION,
        "unix_time_s": reading.unix_time_s,
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
        "dirty_limits_kib": now.dirty_limits_kib,
        "kib_per_s": {
            "si": paging.swap_in, "so": paging.swap_out, "bi": paging.blocks_in, "bo": paging.blocks_out,
        },
        "in": rates.interrupts,
        "cs": rates.switches,
        "pressure_percent": rates.pressure.map(|[cpu, io, memory]| json!({ "cpu": cpu, "io": io, "memory": memory })),
        "disk": disks.iter().map(of_disk).collect::<Vec<_>>(),
    });
    if with_waits {
        let is_seen = reading.unseen.is_empty() && reading.no_waits.is_empty();
        let active: Vec<&ProcessReading> = reading.processes.iter().filter(|of| of.is_active()).collect();
        let name = |of: &&ProcessReading| {
            let cgroup = of.process.cgroup;
            Some((cgroup.to_string(), reading.cgroups.get(&cgroup)?.as_str().into()))
        };
        let names: Map<String, Value> = active.iter().filter_map(name).collect();
        object["processes"] = active.into_iter().map(|of| of_process(of, is_seen)).collect();
        object["cgroups"] = Value::Object(names);
        object["requests_waiting"] = reading.requests.iter().map(of_request).collect();
        object["syncs_waiting"] = reading.syncs.iter().map(of_sync).collect();
        for (key, reason) in [("unseen", &reading.unseen), ("no_waits", &reading.no_waits)] {
            if !reason.is_empty() {
                object[key] = reason.as_str().into();
            }
        }
    }
    *text += &printable_output(&object.to_string());
    text.push('\n');
}

fn of_disk(DiskReading { rates: disk, numbers, has_queue, latencies, limits }: &DiskReading) -> Value {
    let mut object = Map::new();
    object.insert("disk_device".to_owned(), disk.name.clone().into());
    object.insert("numbers".to_owned(), json!(numbers));
    object.insert("has_queue".to_owned(), (*has_queue).into());
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
    if let Some(latencies) = latencies {
        let by_op = latencies.iter().map(|(op, latencies)| (op.name().to_owned(), of_latencies(latencies)));
        object.insert("latency".to_owned(), Value::Object(by_op.collect()));
    }
    if let Some(limits) = limits {
        object.insert("limits".to_owned(), json!(limits));
    }
    Value::Object(object)
}

/// Quantiles in ns, and the histograms: each bucket as its lower bound and its count.
fn of_latencies(latencies: &Latencies) -> Value {
    let mut object = json!({ "bytes": latencies.bytes });
    for (stage, name) in STAGES {
        let quantile = |share: f64| latencies.quantile_ns(stage, share);
        let buckets: Vec<[u64; 2]> = latencies.buckets(stage).map(|(from_ns, _, count)| [from_ns, count]).collect();
        object[name] = json!({
            "count": latencies.count(stage), "p50_ns": quantile(0.5), "p99_ns": quantile(0.99),
            "p999_ns": quantile(0.999), "max_ns": quantile(1.0), "buckets": buckets,
        });
    }
    object
}

/// The kernel's accounts, which take the place of BPF (not `is_seen`), know less.
fn of_process(of: &ProcessReading, is_seen: bool) -> Value {
    let process = &of.process;
    let (read, changed) = (of.read / 1024.0, of.changed / 1024.0);
    if !is_seen {
        return json!({ "pid": process.pid, "comm": process.name(), "rkB/s": read, "chgkB/s": changed });
    }
    json!({
        "pid": process.pid, "comm": process.name(), "cgroup": process.cgroup, "disk": process.device,
        "rkB/s": read, "wkB/s": of.written / 1024.0, "chgkB/s": changed,
        "syncs/s": of.syncs, "sync_wait": of.sync_wait, "longest_sync_ns": process.longest_sync_ns,
    })
}

fn of_request(request: &InFlight) -> Value {
    json!({
        "age_ns": request.age_ns, "op": request.op.name(), "bytes": request.bytes, "disk": request.device,
        "in_device": request.is_issued, "pid": request.asker.pid, "comm": request.asker.name(),
    })
}

fn of_sync(SyncReading { sync, waits_for }: &SyncReading) -> Value {
    json!({
        "age_ns": sync.age_ns, "waits_for": waits_for, "call": sync.call, "disk": sync.device, "pid": sync.asker.pid,
        "comm": sync.asker.name(),
    })
}

/// Reads a line that [`push`] wrote.
///
/// # Errors
/// If it is something else, or of a later version.
pub(super) fn parse(line: &[u8]) -> Result<Reading> {
    let object: Value = serde_json::from_slice(line).context("it is not JSON")?;
    ensure!(object["type"] == "report" && object["disk"].is_array(), "it is not a report of qd1 watch");
    let version = whole(&object["schema_version"]);
    ensure!(version <= u64::from(SCHEMA_VERSION), "a newer qd1 wrote it (version {version} of the format)");
    let (cpu, memory, paging) = (&object["avg-cpu"], &object["memory_kib"], &object["kib_per_s"]);
    let pressure = &object["pressure_percent"];
    let cgroups = object["cgroups"].as_object().into_iter().flatten();
    let reading = Reading {
        unix_time_s: number(&object["unix_time_s"]),
        now: Activity {
            running: whole(&object["procs"]["r"]),
            blocked: whole(&object["procs"]["b"]),
            memory: MemoryUse {
                swap_kib: whole(&memory["swpd"]),
                free_kib: whole(&memory["free"]),
                buffers_kib: whole(&memory["buff"]),
                cache_kib: whole(&memory["cache"]),
                dirty_kib: whole(&memory["dirty"]),
                writeback_kib: whole(&memory["writeback"]),
            },
            dirty_limits_kib: object["dirty_limits_kib"].as_array().map(|both| [0, 1].map(|at| at_of(both, at))),
            ..Activity::default()
        },
        rates: Rates {
            seconds: number(&object["interval_s"]),
            cpu: CpuShares {
                user: number(&cpu["user"]),
                nice: number(&cpu["nice"]),
                system: number(&cpu["system"]),
                iowait: number(&cpu["iowait"]),
                steal: number(&cpu["steal"]),
                idle: number(&cpu["idle"]),
            },
            disks: Vec::new(),
            paging: PagingRates {
                swap_in: number(&paging["si"]),
                swap_out: number(&paging["so"]),
                blocks_in: number(&paging["bi"]),
                blocks_out: number(&paging["bo"]),
            },
            interrupts: number(&object["in"]),
            switches: number(&object["cs"]),
            pressure: pressure.is_object().then(|| ["cpu", "io", "memory"].map(|of| number(&pressure[of]))),
        },
        disks: list(&object["disk"]).take(DISKS_MAX).map(disk).collect(),
        processes: list(&object["processes"]).map(process).collect(),
        cgroups: Rc::new(
            cgroups.filter_map(|(id, name)| Some((id.parse().ok()?, name.as_str()?.to_owned()))).collect(),
        ),
        requests: list(&object["requests_waiting"]).map(request).collect(),
        syncs: list(&object["syncs_waiting"]).map(sync).collect(),
        unseen: words(&object["unseen"]),
        no_waits: words(&object["no_waits"]),
    };
    Ok(reading)
}

fn disk(object: &Value) -> DiskReading {
    let requests = |letter: &str| {
        let of = |key: &str| number(&object[format!("{letter}{key}")]);
        RequestRates {
            per_second: of("/s"),
            kib: of("kB/s"),
            merges: of("rqm/s"),
            merged: of("rqm"),
            await_ms: of("_await"),
            size_kib: of("areq-sz"),
        }
    };
    let latencies = object["latency"].as_object().map(|by_op| {
        let of = |op: Op| Some((op, latencies(by_op.get(op.name())?)));
        OPS.into_iter().filter_map(of).collect()
    });
    DiskReading {
        rates: DiskRates {
            name: words(&object["disk_device"]),
            reads: requests("r"),
            writes: requests("w"),
            discards: requests("d"),
            flushes: requests("f"),
            in_flight: number(&object["aqu-sz"]),
            busy: number(&object["util"]),
            is_used: true,
        },
        numbers: object["numbers"].is_array().then(|| numbers(&object["numbers"])),
        has_queue: object["has_queue"].as_bool().unwrap_or(true),
        latencies,
        limits: object["limits"].is_object().then(|| limits(&object["limits"])).filter(|of| of.observed_ns > 0),
    }
}

fn limits(object: &Value) -> DiskLimits {
    let of_instance = |value: &Value| value.is_u64().then(|| whole(value));
    DiskLimits {
        observed_ns: whole(&object["observed_ns"]),
        volume_iops_ns: whole(&object["volume_iops_ns"]),
        volume_throughput_ns: whole(&object["volume_throughput_ns"]),
        instance_iops_ns: of_instance(&object["instance_iops_ns"]),
        instance_throughput_ns: of_instance(&object["instance_throughput_ns"]),
    }
}

fn latencies(object: &Value) -> Latencies {
    let mut latencies = Latencies::default();
    latencies.bytes = whole(&object["bytes"]);
    for (stage, name) in STAGES {
        for bucket in list(&object[name]["buckets"]).filter_map(Value::as_array) {
            latencies.add(stage, at_of(bucket, 0), at_of(bucket, 1));
        }
    }
    latencies
}

fn process(object: &Value) -> ProcessReading {
    ProcessReading {
        process: Process {
            pid: narrow(&object["pid"]),
            device: numbers(&object["disk"]),
            comm: comm(&object["comm"]),
            cgroup: whole(&object["cgroup"]),
            longest_sync_ns: whole(&object["longest_sync_ns"]),
            ..Process::default()
        },
        read: number(&object["rkB/s"]) * 1024.0,
        written: number(&object["wkB/s"]) * 1024.0,
        changed: number(&object["chgkB/s"]) * 1024.0,
        syncs: number(&object["syncs/s"]),
        sync_wait: number(&object["sync_wait"]),
    }
}

fn request(object: &Value) -> InFlight {
    let named = OPS.into_iter().find(|op| object["op"] == op.name());
    InFlight {
        age_ns: whole(&object["age_ns"]),
        is_issued: object["in_device"].as_bool().unwrap_or(true),
        device: numbers(&object["disk"]),
        bytes: narrow(&object["bytes"]),
        op: named.unwrap_or(Op::Other),
        asker: asker(object),
    }
}

fn sync(object: &Value) -> SyncReading {
    let sync = SyncUnderWay {
        asker: asker(object),
        age_ns: whole(&object["age_ns"]),
        call: Sync::CALLS.into_iter().find(|call| object["call"] == *call).unwrap_or(OTHER_CALL),
        device: numbers(&object["disk"]),
        inode: 0,
    };
    SyncReading { sync, waits_for: words(&object["waits_for"]) }
}

fn asker(object: &Value) -> Asker {
    Asker { pid: narrow(&object["pid"]), comm: comm(&object["comm"]), ..Asker::default() }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().take(LISTED_MAX)
}

/// A number; 0 for anything else, so that a report without a key that came later can be read.
fn number(value: &Value) -> f64 {
    value.as_f64().filter(|number| number.is_finite()).unwrap_or(0.0).clamp(0.0, NUMBER_MAX as f64)
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0).min(NUMBER_MAX)
}

fn narrow(value: &Value) -> u32 {
    u32::try_from(whole(value)).unwrap_or(u32::MAX)
}

fn at_of(values: &[Value], at: usize) -> u64 {
    values.get(at).map_or(0, whole)
}

fn numbers(value: &Value) -> (u32, u32) {
    (narrow(&value[0]), narrow(&value[1]))
}

fn words(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn comm(value: &Value) -> [u8; COMM] {
    comm_of(value.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn reading() -> Reading {
        let mut latencies = Latencies::default();
        latencies.bytes = 40_960;
        latencies.add(Stage::Total, 70_000, 9);
        latencies.add(Stage::Total, 3_000_000_000, 1);
        latencies.add(Stage::Device, 60_000, 10);
        let requests =
            RequestRates { per_second: 10.0, kib: 40.0, merges: 1.0, merged: 9.5, await_ms: 300.5, size_kib: 4.0 };
        let rates = DiskRates {
            name: "sda".to_owned(),
            reads: requests,
            writes: RequestRates { per_second: 3.0, ..requests },
            flushes: RequestRates { per_second: 2.0, await_ms: 7.0, ..RequestRates::default() },
            in_flight: 3.0,
            busy: 99.5,
            is_used: true,
            ..DiskRates::default()
        };
        let asker = Asker { pid: 77, comm: comm(&"etcd".into()), ..Asker::default() };
        let process = Process {
            pid: 77,
            comm: asker.comm,
            device: (8, 0),
            cgroup: 5,
            longest_sync_ns: 800_000_000,
            ..Process::default()
        };
        Reading {
            unix_time_s: 1_800_000_000.5,
            now: Activity {
                running: 3,
                blocked: 1,
                memory: MemoryUse {
                    swap_kib: 1,
                    free_kib: 2,
                    buffers_kib: 3,
                    cache_kib: 4,
                    dirty_kib: 5,
                    writeback_kib: 6,
                },
                dirty_limits_kib: Some([7, 8]),
                ..Activity::default()
            },
            rates: Rates {
                seconds: 1.0,
                cpu: CpuShares { user: 1.0, nice: 2.0, system: 3.0, iowait: 4.0, steal: 5.0, idle: 85.0 },
                paging: PagingRates { swap_in: 1.0, swap_out: 2.0, blocks_in: 3.0, blocks_out: 4.0 },
                interrupts: 5.0,
                switches: 6.0,
                pressure: Some([1.0, 2.0, 3.0]),
                ..Rates::default()
            },
            disks: vec![DiskReading {
                rates,
                numbers: Some((8, 0)),
                has_queue: true,
                latencies: Some(vec![(Op::Read, latencies)]),
                limits: Some(DiskLimits {
                    observed_ns: 2_000_000_000,
                    volume_iops_ns: 860_000_000,
                    volume_throughput_ns: 7,
                    instance_iops_ns: Some(0),
                    instance_throughput_ns: Some(40_000_000),
                }),
            }],
            processes: vec![ProcessReading {
                process,
                read: 1024.0,
                syncs: 2.0,
                sync_wait: 0.5,
                ..ProcessReading::default()
            }],
            cgroups: Rc::new(HashMap::from([(5, "/system.slice/etcd.service".to_owned())])),
            requests: vec![InFlight {
                age_ns: 900_000_000,
                is_issued: false,
                device: (8, 0),
                bytes: 4096,
                op: Op::Write,
                asker,
            }],
            syncs: vec![SyncReading {
                sync: SyncUnderWay { asker, age_ns: 600_000_000, call: "fdatasync", device: (8, 0), inode: 0 },
                waits_for: "the journal's commit".to_owned(),
            }],
            unseen: String::new(),
            no_waits: String::new(),
        }
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let mut text = String::new();
        push(&mut text, &reading(), true);
        let again = parse(text.as_bytes()).unwrap();
        assert_eq!(again, reading());
        let (mut store, mut text) = (reading(), String::new());
        let limits = store.disks[0].limits.as_mut().unwrap();
        (limits.instance_iops_ns, limits.instance_throughput_ns) = (None, None);
        push(&mut text, &store, true);
        assert_eq!(parse(text.as_bytes()).unwrap(), store, "limits that a disk has not are absent");
    }

    #[test]
    fn other_lines_are_refused_and_missing_keys_are_not() {
        for (line, why) in [
            ("[1]", "not a report"),
            ("{\"type\":\"start\"}", "not a report"),
            ("{\"type\":\"rep", "not JSON"),
            ("{\"type\":\"report\",\"schema_version\":999,\"disk\":[]}", "newer qd1"),
        ] {
            let error = format!("{:#}", parse(line.as_bytes()).unwrap_err());
            assert!(error.contains(why), "{line}: {error}");
        }
        let line =
            "{\"type\":\"report\",\"disk\":[{\"disk_device\":\"sda\",\"latency\":{\"read\":{}}},7],\"processes\":[{}]}";
        assert_eq!(parse(line.as_bytes()).unwrap().disks[0].rates.name, "sda");
    }
}

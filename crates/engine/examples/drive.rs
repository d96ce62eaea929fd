//! Drives one engine without the rest of qd1, for the cost and peer benchmarks (`cargo xtask bench`).
//!
//! `drive --engine psync --file PATH --ios N [--iodepth 1] [--rw randread] [--direct 1] [--bs 4096] [--size BYTES]
//! [--runtime SECONDS] [--batch 1]` prints one JSON line. The file must exist and be fully written.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use qd1_engine::backing::{OpenAs, Target};
use qd1_engine::run::{Decision, IoJob, run_io};
use qd1_model::environment::ThreadCost;
use qd1_model::plan::*;
use qd1_model::units::Bytes;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options: HashMap<&str, &str> =
        words.chunks(2).filter_map(|pair| Some((pair.first()?.strip_prefix("--")?, pair.get(1)?.as_str()))).collect();
    let number = |name: &str, default: u64| options.get(name).map_or(Ok(default), |text| text.parse::<u64>());
    let engine: EngineChoice = options.get("engine").unwrap_or(&"psync").parse()?;
    let EngineChoice::Kind(kind) = engine else { return Err("name an engine".into()) };
    let path = options.get("file").ok_or("--file is needed")?;
    let rw = match *options.get("rw").unwrap_or(&"randread") {
        "randread" => Rw::Randread,
        "randwrite" => Rw::Randwrite,
        "randrw" => Rw::Randrw,
        "read" => Rw::Read,
        "write" => Rw::Write,
        other => return Err(format!("unknown rw {other}").into()),
    };
    let bs = number("bs", 4096)? as u32;
    let ios = number("ios", 0)?;
    let runtime_s = number("runtime", 3600)?;
    let direct = number("direct", 1)? == 1;
    let target = Target::existing(Path::new(path));
    let fd = target.open(OpenAs { write: rw.writes(), direct, ..OpenAs::default() })?;
    let end = rustix::fs::seek(&fd, rustix::fs::SeekFrom::End(0))?;
    let work = IoWork {
        ioengine: engine,
        rw,
        rwmixread: match (rw.reads(), rw.writes()) {
            (true, true) => 70,
            (true, false) => 100,
            _ => 0,
        },
        order: if rw.is_random() { Order::Random } else { Order::Sequential },
        blocks: vec![BlockShare { bytes: bs, weight: 1 }],
        iodepth: number("iodepth", 1)? as u32,
        numjobs: 1,
        direct,
        sync: Sync::None,
        file: FileUse::Shared,
        size: Bytes(number("size", end)?.min(end)),
        io_size: Bytes(ios * u64::from(bs)),
        arrival: Arrival::Closed,
        data: Data::Random,
        writes_per_sync: 1,
    };
    let stop = Stop { min_ns: 0, max_ns: runtime_s * 1_000_000_000, ramp_ns: 0, quantile: 0.0, tolerance: 0.0 };
    let files: [OwnedFd; 1] = [fd];
    let job = IoJob {
        work: &work,
        stop: &stop,
        interval_ns: stop.interval_ns(),
        kind,
        files: &files,
        offset: 0,
        seed: number("seed", 1)?,
        sim: None,
        batch_min: number("batch", 1)? as u32,
        thread_cost: ThreadCost::default,
        thread_time: None,
    };
    if let Ok(source) = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource") {
        qd1_clock::use_tsc(source.trim());
    }
    let outcome = run_io(&job, &AtomicBool::new(false), &mut |_| Decision::Continue)?;
    let done: u64 = outcome.streams.iter().map(|stream| stream.lat.count()).sum();
    let lat = &outcome.streams.first().ok_or("no request completed")?.lat;
    println!(
        "{}",
        serde_json::json!({
            "ios": done,
            "iops": done as f64 * 1e9 / outcome.runtime_ns as f64,
            "p50_ns": lat.quantile(0.5),
            "p99_ns": lat.quantile(0.99),
            "p999_ns": lat.quantile(0.999),
            "elapsed_ns": outcome.runtime_ns,
            "errors": outcome.errors.iter().map(|error| error.count).sum::<u64>(),
        })
    );
    Ok(())
}

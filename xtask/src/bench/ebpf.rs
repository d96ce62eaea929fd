//! Whether our latencies agree with the kernel's: the same requests timed by eBPF at two places below us, on a loop
//! device at depth 1.
//!
//! bpftrace takes the time from `block_rq_issue` to `block_rq_complete` on this device only, and from the entry of the
//! read or write to its exit. Our figure begins before the system call and ends after it, so it is larger by
//!
//! - what the kernel does above the device: submission, and waking the waiting thread (system call minus device), and
//! - what lies outside the tracepoints: entering and leaving the kernel, the tracepoints' own programs, our clock.
//!
//! The second part is measured separately, as the same difference for reads of a cached file, where nothing waits: it
//! does not depend on what happens inside the call. What remains unexplained after both must be within 1 %.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use qd1_lab::cmd;
use serde_json::Value;

use super::rounds::Spread;
use super::table::{Table, Target};
use super::{Args, ours};

const DISK_BYTES: u64 = 256 << 20;
const CACHED_BYTES: u64 = 16 << 20;
/// Maximum unexplained share of a figure, percent.
const UNEXPLAINED: f64 = 1.0;
/// Bins of 50 ns up to 1 ms, of 4,096 ns above: finer than a percent of any latency that a disk has.
const FINE_NS: u64 = 50;
const FINE_BINS: u64 = 20_000;
const COARSE_NS: u64 = 4096;
/// Everything above this many bins, 187 ms, goes into one bin.
const BINS: u64 = 65_500;

/// Name and place of each percentile, and its key in what `drive` prints.
pub(super) const PERCENTILES: [(&str, f64, &str); 3] =
    [("p50", 0.5, "p50_ns"), ("p99", 0.99, "p99_ns"), ("p99.9", 0.999, "p999_ns")];

/// What both sides measured for the same requests.
pub(super) struct Timed {
    /// What `drive` printed.
    ours: Value,
    syscall: Bins,
    pub(super) device: Bins,
}

/// A distribution as bpftrace counts it: bins and their counts.
#[derive(Default)]
pub(super) struct Bins(BTreeMap<u64, u64>);

pub(super) fn run(args: &Args) -> Result<Table> {
    qd1_lab::need_root("eBPF")?;
    for (program, package) in [("bpftrace", "bpftrace"), ("unshare", "util-linux")] {
        ensure!(cmd::find(program).is_some(), "{program} is missing (Debian package {package})");
    }
    let drive = ours::build()?;
    let dir = qd1_lab::temp_dir()?;
    // A file in memory, which is cached by nature.
    let memory = qd1_lab::quiet_dir()?;
    let cached = memory.path().join("cached");
    qd1_lab::make_file(&cached, CACHED_BYTES)?;
    let disk = qd1_lab::Loop::filled(qd1_lab::temp_dir()?, DISK_BYTES)?;
    let number = device_number(disk.device())?;
    println!("nanoseconds, medians of {} rounds of {} s; n is of the last round", args.rounds, args.seconds);
    let columns =
        ["rw", "", "n ours", "n eBPF", "ours", "system call", "device", "ours-device", "outside", "unexplained"];
    let mut table = Table::new(&columns);
    for rw in ["randread", "randwrite"] {
        let mut rounds = Vec::new();
        for _ in 0..args.rounds {
            qd1_lab::interrupted()?;
            let run = |rw: &str, on: &Path, number: u64, direct: bool| {
                let words = words(&drive, rw, on, direct, args.seconds);
                trace(&script(number), &words, dir.path())
            };
            // In the same minute, since what a system call costs changes with the machine's load.
            let outside = run("randread", &cached, u64::MAX, false)?;
            rounds.push((run(rw, disk.device(), number, true)?, outside));
        }
        for percentile in PERCENTILES {
            row(&mut table, rw, percentile, &rounds)?;
        }
    }
    Ok(table)
}

/// One percentile of all rounds.
fn row(table: &mut Table, rw: &str, (name, q, key): (&str, f64, &str), rounds: &[(Timed, Timed)]) -> Result<()> {
    let mut columns: [Vec<f64>; 6] = Default::default();
    for (timed, cached) in rounds {
        let of = |timed: &Timed, key: &str| timed.ours[key].as_f64().with_context(|| format!("drive printed no {key}"));
        let outside = of(cached, "p50_ns")? - cached.syscall.quantile(0.5);
        let (ours, syscall, device) = (of(timed, key)?, timed.syscall.quantile(q), timed.device.quantile(q));
        let unexplained = (ours - syscall - outside) / ours * 100.0;
        for (column, figure) in columns.iter_mut().zip([ours, syscall, device, ours - device, outside, unexplained]) {
            column.push(figure);
        }
    }
    let [ours, syscall, device, above, outside, unexplained] = columns.map(|column| Spread::of(column).median);
    let last =
        rounds.last().map_or((0, 0), |(timed, _)| (timed.ours["ios"].as_u64().unwrap_or(0), timed.device.count()));
    let mut cells = vec![rw.to_owned(), name.to_owned(), last.0.to_string(), last.1.to_string()];
    cells.extend([ours, syscall, device, above, outside].map(|figure| format!("{figure:.0}")));
    cells.push(format!("{unexplained:.2} %"));
    table.row(cells, unexplained, Some(Target::Between(-UNEXPLAINED, UNEXPLAINED)));
    Ok(())
}

/// The kernel's number of a loop device as in tracepoints: major shifted by 20 bits, and minor.
pub(super) fn device_number(device: &Path) -> Result<u64> {
    let name = device.file_name().context("a device has a name")?;
    let path = Path::new("/sys/block").join(name).join("dev");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let (major, minor) = text.trim().split_once(':').context("a device's number is MAJOR:MINOR")?;
    Ok((major.parse::<u64>()? << 20) | minor.parse::<u64>()?)
}

pub(super) fn words(drive: &Path, rw: &str, on: &Path, direct: bool, seconds: u64) -> String {
    let direct = u8::from(direct);
    let (drive, on) = (drive.display(), on.display());
    format!(
        "{drive} --engine psync --rw {rw} --bs 4096 --file {on} --direct {direct} --ios {} --runtime {seconds}",
        u32::MAX
    )
}

/// The program for bpftrace. The requests of one device at depth 1 are distinguished by their sector, system calls by
/// their thread; pread64 and pwrite64 are 17 and 18 on x86-64. A call is counted at the entry of the next one, after
/// its timestamp, so that the counting falls inside both windows and hardly at all outside.
pub(super) fn script(device: u64) -> String {
    let bin = format!(
        "$ns < {limit} ? $ns / {FINE_NS} : ($ns < {most} ? {FINE_BINS} + ($ns - {limit}) / {COARSE_NS} : {BINS})",
        limit = FINE_NS * FINE_BINS,
        most = FINE_NS * FINE_BINS + (BINS - FINE_BINS) * COARSE_NS,
    );
    format!(
        "tracepoint:raw_syscalls:sys_enter /pid == cpid && (args->id == 17 || args->id == 18)/ {{
    $now = nsecs;
    if (@exit[tid]) {{ $ns = @exit[tid] - @enter[tid]; @syscall[{bin}] = count(); }}
    @enter[tid] = $now;
}}
tracepoint:block:block_rq_issue /args->dev == {device}/ {{ @issue[args->sector] = nsecs; }}
tracepoint:block:block_rq_complete /args->dev == {device} && @issue[args->sector]/ {{
    $ns = nsecs - @issue[args->sector]; delete(@issue[args->sector]); @device[{bin}] = count();
}}
tracepoint:raw_syscalls:sys_exit /pid == cpid && (args->id == 17 || args->id == 18)/ {{ @exit[tid] = nsecs; }}
END {{ clear(@enter); clear(@exit); clear(@issue); }}
"
    )
}

/// Runs the program under bpftrace, which starts counting before it and ends with it.
pub(super) fn trace(script: &str, program: &str, dir: &Path) -> Result<Timed> {
    let (source, out): (PathBuf, PathBuf) = (dir.join("trace.bt"), dir.join("trace.json"));
    fs::write(&source, script)?;
    let mut unshare = cmd::command("unshare");
    // A private mount: the machine's mounts are left as they are, and many machines have no tracefs.
    unshare.args(["--mount", "sh", "-c", "mount -t tracefs tracefs /sys/kernel/tracing && exec bpftrace \"$@\"", "sh"]);
    unshare.args(["-f", "json", "-o"]).arg(&out).args(["-c", program]).arg(&source);
    // The name of the limit changed with version 0.20.
    let most = (BINS + 36).to_string();
    unshare.env("BPFTRACE_MAP_KEYS_MAX", &most).env("BPFTRACE_MAX_MAP_KEYS", &most);
    let printed = cmd::capture(&mut unshare)?;
    let ours = printed.lines().find_map(|line| serde_json::from_str(line).ok()).context("drive printed no JSON")?;
    let text = fs::read_to_string(&out).context("bpftrace wrote nothing")?;
    Ok(Timed { ours, syscall: Bins::read(&text, "@syscall"), device: Bins::read(&text, "@device") })
}

impl Bins {
    /// A map of counts from bpftrace's JSON, a document a line.
    fn read(text: &str, name: &str) -> Self {
        let maps = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let map = maps.into_iter().find_map(|line| line["data"][name].as_object().cloned()).unwrap_or_default();
        let bins = map.iter().filter_map(|(bin, count)| Some((bin.parse().ok()?, count.as_u64()?)));
        Self(bins.collect())
    }

    pub(super) fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// The middle of the bin that holds the quantile, ns; NaN if there is nothing, which meets no target.
    #[allow(clippy::cast_precision_loss, reason = "counts of requests and times are far below 2^52")]
    pub(super) fn quantile(&self, q: f64) -> f64 {
        let rank = q * self.count() as f64;
        let mut seen = 0;
        let bin = self.0.iter().find(|(_, count)| {
            seen += **count;
            seen as f64 >= rank
        });
        bin.map_or(f64::NAN, |(bin, _)| match bin.checked_sub(FINE_BINS) {
            None => (bin * FINE_NS) as f64 + FINE_NS as f64 / 2.0,
            Some(coarse) => (FINE_BINS * FINE_NS + coarse * COARSE_NS) as f64 + COARSE_NS as f64 / 2.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_come_from_fine_and_coarse_bins() {
        let text = "\n{\"type\": \"attached_probes\", \"data\": {\"probes\": 4}}\n\
                    {\"type\": \"map\", \"data\": {\"@device\": {\"700\": 98, \"20001\": 2}}}\n";
        let bins = Bins::read(text, "@device");
        assert_eq!(bins.count(), 100);
        assert!((bins.quantile(0.5) - 35_025.0).abs() < 1e-9);
        assert!((bins.quantile(0.99) - 1_006_144.0).abs() < 1e-9);
        assert!(Bins::read(text, "@syscall").quantile(0.5).is_nan());
    }

    #[test]
    fn what_the_control_explains_is_taken_off() {
        let timed = |ours: u64, syscall_bin: u64, device_bin: u64| Timed {
            ours: serde_json::json!({ "ios": 1, "p50_ns": ours }),
            syscall: Bins([(syscall_bin, 1)].into()),
            device: Bins([(device_bin, 1)].into()),
        };
        let judged = |ours| {
            let mut table = Table::new(&["x"]);
            let rounds = [(timed(ours, 800, 700), timed(1_025, 10, 0))];
            row(&mut table, "randread", PERCENTILES[0], &rounds).unwrap();
            table.missed()
        };
        // 40,025 in the call and 500 outside of it.
        assert!(!judged(40_525) && !judged(40_800) && judged(41_500) && judged(39_000));
    }
}

//! A fio job file that resembles a load.

use std::fmt::Write as _;

use qd1_model::requests::Op;
use qd1_model::units::{Bytes, short_size};

use super::Known;
use super::load::Load;

/// From this share on, requests of one size are the job's only size.
const ONE_SIZE: f64 = 0.9;
/// Most sizes of a `bssplit`.
const SPLIT_MAX: usize = 6;
/// Below this share of sequential requests a job is random; above the other, sequential.
const RANDOM: f64 = 0.1;
const SEQUENTIAL: f64 = 0.9;
/// Below this mean depth there are pauses, so the job has a rate.
const PAUSES: f64 = 0.7;
/// Below this share of the trace's time, a program's job has times of its own.
const BRIEF: f64 = 0.8;
/// Largest iodepth.
const DEPTH_MAX: u64 = 65_536;
/// Most jobs.
const JOBS_MAX: usize = 8;

/// Below this share of reads, or of writes, they are left out.
const FEW: f64 = 0.01;
/// Most programs that are named as left out.
const LEFT_OUT_MAX: usize = 3;

/// Returns a job file with a job for each part of `all`, which has the name of a program. The jobs run as long as the
/// trace. `left_out` are programs without a job.
pub(super) fn text(parts: &[(&str, &Load)], left_out: &[&str], all: &Load, known: Known) -> String {
    let parts = &parts[..parts.len().min(JOBS_MAX)];
    if parts.is_empty() {
        return String::new();
    }
    let seconds = (all.span_ns() as f64 / 1e9).ceil().max(1.0);
    let mut text = "# Run it with: fio --directory=DIR FILE\n".to_owned();
    if !left_out.is_empty() {
        let names: Vec<String> = left_out.iter().take(LEFT_OUT_MAX).map(|name| plain(name)).collect();
        let more = if left_out.len() > LEFT_OUT_MAX { ", ..." } else { "" };
        let _ = writeln!(
            text,
            "# Left out, because they did little or belong to the filesystem: {}{more}",
            names.join(", ")
        );
    }
    if !known.syncs && !known.files && all.writes_per_sync().is_some() {
        text.push_str("# The syncs are guessed from the disk's flushes.\n");
    }
    if !known.device {
        text.push_str("# How many requests were in flight is not known.\n");
    }
    let _ = writeln!(text, "[global]\nioengine=libaio\ndirect=1\ntime_based\nruntime={seconds:.0}");
    for (number, (name, load)) in parts.iter().enumerate() {
        // In a mixed job, fio syncs more often than `fsync` says.
        let mixed = [Op::Read, Op::Write].map(|op| load.count(op) as f64 >= FEW * load.moves() as f64);
        match mixed {
            [true, true] if syncs(load, all).is_some() => {
                for (of, part, share) in
                    [("reads", [true, false], load.read_share()), ("writes", [false, true], 1.0 - load.read_share())]
                {
                    job(&mut text, &format!("{name}-{of}"), load, all, known, part);
                    // Keeps their proportion.
                    let _ = writeln!(text, "flow_id={}\nflow={:.0}", number + 1, (share * 100.0).clamp(1.0, 99.0));
                }
            }
            mixed => job(&mut text, name, load, all, known, mixed),
        }
    }
    text
}

/// A name without what fio or a terminal may take for something else.
fn plain(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' };
    let name: String = name.chars().map(letter).collect();
    // The section of options for all jobs.
    if name == "global" { "global_".to_owned() } else { name }
}

/// Writes for each sync. Kernel threads issue the flushes of others; without syncs, nothing says for whom.
fn syncs(load: &Load, all: &Load) -> Option<f64> {
    if all.has_syncs() { load.writes_per_sync() } else { all.writes_per_sync() }
}

/// The job of a program: its reads, its writes, or both.
fn job(text: &mut String, name: &str, load: &Load, all: &Load, known: Known, [has_reads, has_writes]: [bool; 2]) {
    let sequential = load.sequential_share();
    let is_random = sequential < SEQUENTIAL;
    let rw = match (has_reads, has_writes, is_random) {
        (true, true, true) => "randrw",
        (true, true, false) => "rw",
        (true, false, true) => "randread",
        (true, false, false) => "read",
        (false, _, true) => "randwrite",
        (false, _, false) => "write",
    };
    let _ = writeln!(text, "\n[{}]\nrw={rw}", if name.is_empty() { "trace".to_owned() } else { plain(name) });
    if has_reads && has_writes {
        let _ = writeln!(text, "rwmixread={:.0}", load.read_share() * 100.0);
    }
    if is_random && sequential > RANDOM {
        let _ = writeln!(text, "percentage_random={:.0}", (1.0 - sequential) * 100.0);
    }
    if is_random {
        // With its map of blocks, fio shortens requests that would overlap earlier ones.
        text.push_str("norandommap\n");
    }
    push_sizes(text, load, has_reads, has_writes);
    let largest =
        [Op::Read, Op::Write].iter().flat_map(|op| load.sizes(*op)).map(|(size, _)| size).max().unwrap_or(4096);
    // At least as large as one request, in whole MiB. Hashed positions have no meaningful range.
    let touched = if is_random && known.positions { load.file_bytes() } else { load.touched_bytes() };
    let size = touched.max(u64::from(largest)).max(1 << 20).div_ceil(1 << 20);
    let _ = writeln!(text, "size={size}m");
    push_when(text, load, all);
    let depth = load.depth().filter(|_| known.device);
    let share = match (has_reads, has_writes) {
        (true, true) => 1.0,
        (true, false) => load.read_share(),
        _ => 1.0 - load.read_share(),
    };
    let iodepth =
        depth.map_or(1, |depth| ((depth.mean.max(depth.p50 as f64) * share).round() as u64).clamp(1, DEPTH_MAX));
    let _ = writeln!(text, "iodepth={iodepth}");
    let syncs = syncs(load, all).filter(|_| has_writes);
    if let Some(writes) = syncs {
        let _ = writeln!(text, "fsync={:.0}", writes.round().max(1.0));
    }
    if depth.is_none_or(|depth| depth.mean < PAUSES) {
        push_rate(text, load, has_reads, has_writes, syncs.is_some());
    }
}

/// When a program that was active for a part of the trace begins and ends.
fn push_when(text: &mut String, load: &Load, all: &Load) {
    let active_ns = load.span_ns();
    if (active_ns as f64) < BRIEF * all.span_ns() as f64 {
        let after_ms = load.first_ns().saturating_sub(all.first_ns()) / 1_000_000;
        let _ = writeln!(text, "startdelay={after_ms}ms\nruntime={}ms", (active_ns / 1_000_000).max(1));
    }
}

/// The sizes: one, or the most frequent with their shares.
fn push_sizes(text: &mut String, load: &Load, has_reads: bool, has_writes: bool) {
    let of = |op: Op| -> Vec<(u32, u64)> {
        let mut sizes = load.sizes(op);
        sizes.retain(|(size, _)| *size > 0);
        let all: u64 = sizes.iter().map(|(_, count)| count).sum();
        if sizes.first().is_some_and(|(_, count)| *count as f64 >= ONE_SIZE * all as f64) {
            sizes.truncate(1);
        }
        sizes.truncate(SPLIT_MAX);
        sizes
    };
    let reads = if has_reads { of(Op::Read) } else { Vec::new() };
    let writes = if has_writes { of(Op::Write) } else { Vec::new() };
    let size = |bytes: u32| short_size(Bytes(u64::from(bytes)));
    if reads.len() <= 1 && writes.len() <= 1 {
        let one = |sizes: &[(u32, u64)]| sizes.first().map(|(bytes, _)| size(*bytes));
        let bs = match (one(&reads), one(&writes)) {
            (Some(read), Some(write)) if read != write => format!("{read},{write}"),
            (Some(bs), _) | (None, Some(bs)) => bs,
            (None, None) => "4k".to_owned(),
        };
        let _ = writeln!(text, "bs={bs}");
        return;
    }
    let split = |sizes: &[(u32, u64)]| {
        let all: u64 = sizes.iter().map(|(_, count)| count).sum();
        let mut left = 100;
        let mut parts = Vec::new();
        for (at, (bytes, count)) in sizes.iter().enumerate() {
            // The last takes what is left, so that they add up to 100.
            let is_last = at + 1 == sizes.len();
            let rounded = (*count as f64 / all as f64 * 100.0).round() as u64;
            let share = if is_last { left } else { rounded.max(1).min(left) };
            left -= share;
            if share > 0 {
                parts.push(format!("{}/{share}", size(*bytes)));
            }
        }
        parts.join(":")
    };
    let value = match (has_reads, has_writes) {
        (true, true) => format!("{},{}", split(&reads), split(&writes)),
        (true, false) => split(&reads),
        _ => split(&writes),
    };
    let _ = writeln!(text, "bssplit={value}");
}

/// The rate, where there are pauses between requests; independent arrivals where they look so.
fn push_rate(text: &mut String, load: &Load, has_reads: bool, has_writes: bool, has_syncs: bool) {
    let seconds = load.span_ns() as f64 / 1e9;
    let rate = |op: Op| (load.count(op) as f64 / seconds).round().max(1.0);
    if seconds <= 0.0 || load.moves() < 2 {
        return;
    }
    let rates = match (has_reads, has_writes) {
        (true, true) => format!("{:.0},{:.0}", rate(Op::Read), rate(Op::Write)),
        (true, false) => format!("{:.0}", rate(Op::Read)),
        _ => format!("{:.0}", rate(Op::Write)),
    };
    let _ = writeln!(text, "rate_iops={rates}");
    // fio 3.33 crashes with both in a mixed job.
    if !has_syncs && load.arrivals().is_some_and(|arrivals| arrivals.variation > 0.7) {
        let _ = writeln!(text, "rate_process=poisson");
    }
}

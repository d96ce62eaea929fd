//! `qd1 trace`: a line for each block request of a disk, as the kernel completes it.

mod args;
mod lines;
mod slow;

pub(crate) use args::{EXAMPLE, TraceArgs};

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Error, Result};
use qd1_clock as clock;
use qd1_model::units::format_span_ns;
use qd1_model::{Problem, ProblemKind, printable};
use qd1_probe::Machine;
use qd1_probe::sampler::counted_device;
use qd1_report::thousands;
use qd1_trace::{Capture, Counts, Device};

use crate::message;
use crate::signals::Signals;
use args::{Filter, Format};
use lines::Lines;
use slow::Around;

/// Shows the requests of a disk until a limit is reached or a signal ends it.
///
/// # Errors
/// When the disk is not known, or the kernel or this user's rights do not allow it.
pub(crate) fn run(args: &TraceArgs) -> Result<ExitCode> {
    let machine = Machine::new();
    let disk = args.target.as_deref().map(|target| disk(&machine, target)).transpose()?;
    let cgroup = args.cgroup.as_deref().map(inode).transpose()?;
    let signals = Signals::install()?;
    let begin_ns = clock::now_ns();
    let mut capture = Capture::begin(disk.as_ref().map(|disk| disk.1)).map_err(not_allowed)?;
    let form = if args.json { Format::Ndjson } else { args.format };
    let mut lines = Lines::new(form, &machine, begin_ns);
    let mut out = std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let mut shown = 0u64;
    let filter = Filter { args, cgroup };
    let mut around = args.slow.map(Around::new);
    let mut text = lines.head(capture.sees_start());
    loop {
        let is_over = signals.stop().load(Ordering::Relaxed)
            || args.runtime.is_some_and(|runtime_ns| clock::now_ns() >= begin_ns.saturating_add(runtime_ns));
        capture.read(|event| {
            let mut show = |event: &qd1_trace::Event| {
                if args.count.is_none_or(|count| shown < count) {
                    shown += 1;
                    lines.push(&mut text, event);
                }
            };
            if filter.takes(&event) {
                match &mut around {
                    Some(around) => around.take(event, show),
                    None => show(&event),
                }
            }
        });
        let is_full = args.count.is_some_and(|count| shown >= count);
        if is_over || is_full {
            lines.foot(&mut text, capture.counts()?);
        }
        if !written(&mut out, &text)? || is_over || is_full {
            break;
        }
        text.clear();
        std::thread::sleep(Capture::EVERY);
    }
    let counts = capture.counts()?;
    if !args.quiet {
        let of = disk.as_ref().map_or("all disks", |disk| &disk.0);
        message::print(format_args!("qd1: {}", summary(of, clock::now_ns() - begin_ns, counts, capture.sees_start())));
        let left_out = around.as_ref().map_or(0, Around::left_out);
        if left_out > 0 {
            message::print(format_args!("qd1: {} requests before slow ones had no room", thousands(left_out)));
        }
    }
    Ok(ExitCode::from(signals.exit_code().unwrap_or(0)))
}

/// Writes to stdout; false when nobody reads it any more.
fn written(out: &mut impl std::io::Write, text: &str) -> Result<bool> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        other => other.context("cannot write to stdout").map(|()| true),
    }
}

fn summary(of: &str, took_ns: u64, counts: Counts, sees_start: bool) -> String {
    let unseen = match counts.unseen {
        0 => String::new(),
        unseen => format!(", {} under way before it began", thousands(unseen)),
    };
    let queue = if sees_start { "" } else { "; this kernel does not say how long requests queued (6.5 does)" };
    format!(
        "{} requests of {of} in {}, {} lost{unseen}; recorded by BPF at raw tracepoints{queue}",
        thousands(counts.completed),
        format_span_ns(took_ns),
        thousands(counts.lost)
    )
}

/// Returns name and numbers of the disk that a word names: the disk below a path, or a device.
fn disk(machine: &Machine, target: &Path) -> Result<(String, Device)> {
    let shown = printable(&target.to_string_lossy()).into_owned();
    let as_name = Path::new("/dev").join(target);
    let path = if target.exists() || !as_name.exists() { target } else { &as_name };
    if !path.exists() {
        return Err(
            Problem::usage(format!("{shown}: there is no such disk or path; /sys/block lists the disks")).into()
        );
    }
    let devices = machine.environment(path).devices;
    let Some(found) = counted_device(&devices) else {
        return Err(Problem::usage(format!("{shown}: no block device is known below it; name the disk")).into());
    };
    let name = found.name.clone();
    let queue = machine.block_queue(&name).with_context(|| format!("{name} is not in /sys/block"))?;
    if !queue.has_requests {
        return Err(Problem::usage(format!(
            "{name} has no queue of requests to trace: it passes on what it gets; name a disk below it, if there is one"
        ))
        .into());
    }
    Ok((name, Device { major: queue.major, minor: queue.minor }))
}

/// Returns the inode of a control group's directory, by which the kernel knows it.
fn inode(dir: &Path) -> Result<u64> {
    let found = std::fs::metadata(dir).ok().filter(std::fs::Metadata::is_dir);
    let found = found.or_else(|| std::fs::metadata(Path::new("/sys/fs/cgroup").join(dir)).ok());
    found.map(|found| found.ino()).ok_or_else(|| {
        let shown = dir.display();
        Problem::usage(format!("{shown}: there is no such control group; name its directory in /sys/fs/cgroup")).into()
    })
}

/// The error of a kernel or a user that cannot trace, with what to do.
fn not_allowed(error: Error) -> Error {
    let advice = if rustix::process::geteuid().is_root() {
        "a container needs CAP_BPF and CAP_PERFMON, and the kernel BTF (/sys/kernel/btf/vmlinux)"
    } else {
        "run it as root"
    };
    Problem::new(ProblemKind::Capability, format!("requests cannot be traced here: {error:#}; {advice}")).into()
}

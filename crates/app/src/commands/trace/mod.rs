//! `qd1 trace`: a line for each block request of a disk, as the kernel completes it, and for each sync.

mod answer;
mod args;
mod columns;
mod lines;
mod play;
mod recorder;
mod shown;
mod sink;
mod slow;
mod summary;
mod syncs;
mod tail;

pub(crate) use args::{EXAMPLE, TraceArgs};
pub(crate) use columns::narrow;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Error, Result};
use qd1_clock as clock;
use qd1_model::requests::Sync;
use qd1_model::units::{format_ns, format_span_ns};
use qd1_model::{Problem, ProblemKind, printable};
use qd1_probe::{Machine, Mapped};
use qd1_report::thousands;
use qd1_trace::{Capture, Counts, Device, Event, Of, Syncs};

use crate::bpf::refusal;
use crate::mappings::Mappings;
use crate::message;
use crate::named_disk::{device_or_disk_below, topmost_disk};
use crate::signals::Signals;
use crate::stream::has_hung_up;
use args::{Filter, Format, TraceCommand, Wanted};
use lines::Lines;
use recorder::{Recorder, names_of};
use shown::Shown;
use sink::Sink;
use slow::Around;

/// Shows or records the requests of a disk until a limit is reached or a signal arrives, or reads a recorded trace.
///
/// # Errors
/// If the disk is not known, the kernel or this user's privileges do not allow tracing, or a file cannot be read.
pub(crate) fn run(args: &TraceArgs) -> Result<ExitCode> {
    match &args.command {
        Some(TraceCommand::Summary(args)) => summary::run(args),
        None if !args.play.is_empty() => play::run(args),
        None => capture(args),
    }
}

fn capture(args: &TraceArgs) -> Result<ExitCode> {
    let is_of_calls = |wanted: &Wanted| matches!(wanted, Wanted::Syncs | Wanted::Direct);
    if !args.op.is_empty() && args.op.iter().all(is_of_calls) && !args.json && args.format == Format::Iolog {
        let message = "--format iolog holds requests, not calls; omit --op sync and --op direct, or use --format csv";
        return Err(Problem::usage(message).into());
    }
    if let Some(path) = args.target.as_deref().filter(|path| play::is_recorded(path)) {
        let shown = printable(&path.to_string_lossy()).into_owned();
        let message =
            format!("{shown} is a recorded trace; --play {shown} shows it, `qd1 trace summary` summarises it");
        return Err(Problem::usage(message).into());
    }
    let machine = Machine::new();
    let disk = args.target.as_deref().map(|target| disk(&machine, target, args.has_syncs())).transpose()?;
    let cgroup = args.cgroup.as_deref().map(inode).transpose()?;
    let signals = Signals::install()?;
    let of = disk.as_ref().map_or("all disks", |disk| &disk.0);
    let recorder = args.record.as_deref().map(|path| Recorder::check(path, args.hash)).transpose()?;
    let recorded = disk.as_ref().map_or(Of::All, |disk| disk.1);
    // Before the capture: the first requests may be completed before it is set up.
    let begin_ns = clock::now_ns();
    let mut capture = Capture::begin(recorded, args.calls()).map_err(|error| not_allowed(&error))?;
    // Loading the programs may take a second.
    let attached_ns = clock::now_ns();
    let (sees_start, is_bpf) = (capture.sees_start(), capture.is_bpf());
    let lacks_rings = args.has_syncs() && !capture.sees_rings();
    if !is_bpf && cgroup.is_some() {
        let message = "--cgroup needs BPF, which this kernel or container does not allow; omit it";
        return Err(Problem::new(ProblemKind::Capability, message).into());
    }
    let sink = match recorder {
        Some(recorder) => {
            let about = Recorder::about(of, sees_start, args.has_syncs());
            Sink::File(Box::new(recorder.begin(about, begin_ns, names_of(&machine))?))
        }
        None => {
            let lines = Lines::new(args.format(), Some(&machine), begin_ns, args.has_syncs()).of_bpf(is_bpf);
            Sink::lines(lines, sees_start)
        }
    };
    let numbers = match recorded {
        Of::All => None,
        Of::Requests(device) | Of::Bios(device) => Some((device.major, device.minor)),
    };
    let mut mappings = Mappings::new(&machine);
    let mut shown = Shown::new(Filter { args, cgroup }, sink);
    let mut take = |event, shown: &mut Shown<'_>| {
        if let Some(event) = completed(event, &mut mappings, numbers) {
            shown.take(event);
        }
    };
    if let Some(slow_ns) = args.slow.filter(|_| !args.quiet) {
        let slow = format_ns(slow_ns as f64);
        message::print(format_args!("qd1: waiting for requests of {of} that take {slow} or longer; Ctrl-C stops"));
    }
    let stdout = std::io::stdout();
    let mut out = stdout.lock();
    loop {
        let read_ns = clock::now_ns();
        let is_behind = capture.read(|event| take(event, &mut shown));
        let known_ns = shown.syncs.as_ref().filter(|_| is_behind).map_or(read_ns, Syncs::last_ns);
        let may_have_more = shown.explain(known_ns) || is_behind;
        let is_over = signals.stop().load(Ordering::Relaxed)
            || args.runtime.is_some_and(|runtime_ns| clock::now_ns() >= attached_ns.saturating_add(runtime_ns))
            || shown.is_full();
        let goes_on = shown.sink.write_to(&mut out, read_ns)?;
        if !goes_on || is_over || shown.sink.is_stdout() && has_hung_up(&stdout) {
            break;
        }
        if !may_have_more {
            std::thread::sleep(Capture::EVERY);
        }
    }
    let took_ns = clock::now_ns() - attached_ns;
    let counts = capture.end(|event| take(event, &mut shown))?;
    while shown.explain(u64::MAX) && shown.sink.write_to(&mut out, clock::now_ns())? {}
    let unexplained = shown.syncs.as_ref().map_or(0, Syncs::unexplained);
    let Shown { sink, answer, around, count, .. } = shown;
    let file = sink.end(&mut out, counts, unexplained, true)?;
    if !args.quiet {
        message::print(format_args!("qd1: {}", counted(of, recorded, took_ns, counts, sees_start, is_bpf)));
        if let Some((path, bytes)) = file {
            message::print(format_args!("qd1: {}", wrote(&path, count, bytes)));
        }
        if lacks_rings {
            message::print(format_args!(
                "qd1: syncs through io_uring are not shown: this kernel does not report them (Linux 6.0 and later do)"
            ));
        }
        if let Some(answer) = answer.words() {
            message::print(format_args!("qd1: {answer}"));
        }
        if let (Some(around), Some(slow_ns)) = (&around, args.slow) {
            let (slow, times) = (format_ns(slow_ns as f64), thousands(around.slow()));
            let of_what = if args.has_syncs() { "requests and syncs" } else { "of them" };
            message::print(format_args!("qd1: {times} {of_what} took {slow} or longer"));
        }
        if unexplained > 0 {
            let count = thousands(unexplained);
            message::print(format_args!("qd1: {count} syncs are not shown because they came too fast to be analysed"));
        }
        let cut_short = around.as_ref().map_or(0, Around::cut_short);
        if cut_short > 0 {
            let count = thousands(cut_short);
            message::print(format_args!("qd1: {count} of these had more requests before them than qd1 keeps"));
        }
    }
    Ok(ExitCode::from(signals.exit_code().unwrap_or(0)))
}

/// Completes an msync with the disk and the inode of its file, which the kernel's programs do not know; `None` if it is not
/// for the traced `disk`. If the file cannot be found any more, its disk remains unknown.
fn completed(event: Event, mappings: &mut Mappings, disk: Option<(u32, u32)>) -> Option<Event> {
    match event {
        Event::Sync(sync, via) if sync.call == Sync::MSYNC => {
            let (device, inode) = match mappings.find(sync.asker.pid, sync.inode) {
                Some(Mapped::Memory) => return None,
                Some(Mapped::File { device, inode }) => (device, inode),
                None => ((0, 0), 0),
            };
            let is_here = disk.is_none_or(|disk| [disk, (0, 0)].contains(&device));
            is_here.then_some(Event::Sync(Sync { device, inode, ..sync }, via))
        }
        event => Some(event),
    }
}

fn counted(of: &str, recorded: Of, took_ns: u64, counts: Counts, sees_start: bool, is_bpf: bool) -> String {
    let unseen = match counts.unseen {
        0 => String::new(),
        unseen => format!(", {} not seen from start to end", thousands(unseen)),
    };
    let other = match counts.lost_other {
        0 => String::new(),
        lost if is_bpf => format!(", and {} events that explain syncs", thousands(lost)),
        lost => format!(" ({} trace events were lost, so some requests are missing)", thousands(lost)),
    };
    let source = if is_bpf { "BPF at tracepoints" } else { "tracefs, since BPF is not available" };
    let queue = match recorded {
        Of::Bios(_) => "; it has no queue of its own, so there are no queue times",
        _ if sees_start => "",
        _ => "; this kernel does not report queue times (Linux 6.5 and later do)",
    };
    format!(
        "{} request{} of {of} in {}, {} lost{other}{unseen}; recorded by {source}{queue}",
        thousands(counts.completed),
        if counts.completed == 1 { "" } else { "s" },
        format_span_ns(took_ns),
        thousands(counts.lost)
    )
}

/// What was written to a file, and how to read it.
fn wrote(path: &Path, count: u64, bytes: u64) -> String {
    let shown = printable(&path.to_string_lossy()).into_owned();
    if count == 0 {
        return format!("nothing was recorded in {shown}: no request or sync was selected");
    }
    format!(
        "wrote {} entries to {shown}, {:.1} bytes each; `qd1 trace summary {shown}` summarises them",
        thousands(count),
        bytes as f64 / count.max(1) as f64
    )
}

/// Returns the name of the disk for an argument, and what is recorded of it. Syncs belong to the device that holds the
/// filesystem, which may be on top of others.
fn disk(machine: &Machine, target: &Path, has_syncs: bool) -> Result<(String, Of)> {
    let name = if has_syncs { topmost_disk(machine, target)? } else { device_or_disk_below(machine, target)? };
    let queue = machine.block_queue(&name).with_context(|| format!("{name} is not in /sys/block"))?;
    let device = Device { major: queue.major, minor: queue.minor };
    Ok((name, if queue.has_requests { Of::Requests(device) } else { Of::Bios(device) }))
}

/// Returns the inode of a control group's directory, which is the kernel's id of the group.
fn inode(dir: &Path) -> Result<u64> {
    let places = [dir.to_owned(), Path::new("/sys/fs/cgroup").join(dir), Path::new("/sys/fs/cgroup/unified").join(dir)];
    let is_group = |dir: &Path| rustix::fs::statfs(dir).is_ok_and(|found| found.f_type as u64 == CGROUP2_SUPER_MAGIC);
    let found = places.iter().find(|dir| dir.is_dir() && is_group(dir)).and_then(|dir| std::fs::metadata(dir).ok());
    found.map(|found| found.ino()).ok_or_else(|| {
        let shown = printable(&dir.to_string_lossy()).into_owned();
        Problem::usage(format!("{shown} is not a control group (v2); give a directory below /sys/fs/cgroup")).into()
    })
}

/// Filesystem type of cgroup v2 in statfs(2).
const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;

fn not_allowed(error: &Error) -> Error {
    let message = format!("cannot trace requests: {}", refusal(error));
    Problem::new(ProblemKind::Capability, message).into()
}

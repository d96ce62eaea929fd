//! `qd1 trace`: a line for each block request of a disk, as the kernel completes it, and for each sync.

mod answer;
mod args;
mod columns;
mod item;
mod lines;
mod slow;
mod syncs;

pub(crate) use args::{EXAMPLE, TraceArgs};
pub(crate) use columns::narrow;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Error, Result};
use qd1_clock as clock;
use qd1_model::units::{format_ns, format_span_ns};
use qd1_model::{Problem, ProblemKind, printable};
use qd1_probe::Machine;
use qd1_report::thousands;
use qd1_trace::{Capture, Counts, Device, Event, Syncs};

use crate::bpf::refusal;
use crate::message;
use crate::named_disk::named_disk;
use crate::signals::Signals;
use crate::stream::{has_hung_up, written};
use answer::Answer;
use args::{Filter, Format, Wanted};
use item::Item;
use lines::Lines;
use slow::Around;

/// Shows the requests of a disk until a limit is reached or a signal arrives.
///
/// # Errors
/// If the disk is not known, or the kernel or this user's privileges do not allow tracing.
pub(crate) fn run(args: &TraceArgs) -> Result<ExitCode> {
    if args.op == [Wanted::Syncs] && !args.json && args.format == Format::Iolog {
        return Err(Problem::usage("--format iolog cannot hold syncs; omit --op sync or use --format csv").into());
    }
    let machine = Machine::new();
    let disk = args.target.as_deref().map(|target| disk(&machine, target)).transpose()?;
    let cgroup = args.cgroup.as_deref().map(inode).transpose()?;
    let signals = Signals::install()?;
    let mut capture =
        Capture::begin(disk.as_ref().map(|disk| disk.1), args.has_syncs()).map_err(|error| not_allowed(&error))?;
    let (begin_ns, sees_start) = (clock::now_ns(), capture.sees_start());
    let form = if args.json { Format::Ndjson } else { args.format };
    let mut shown = Shown {
        filter: Filter { args, cgroup },
        lines: Lines::new(form, &machine, begin_ns, args.has_syncs()),
        syncs: args.has_syncs().then(Syncs::default),
        around: args.slow.map(Around::new),
        text: String::new(),
        count: 0,
        answer: Answer::default(),
    };
    shown.text = shown.lines.head(sees_start);
    let of = disk.as_ref().map_or("all disks", |disk| &disk.0);
    if let Some(slow_ns) = args.slow.filter(|_| !args.quiet) {
        let slow = format_ns(slow_ns as f64);
        message::print(format_args!("qd1: waiting for requests of {of} that take {slow} or longer; Ctrl-C stops"));
    }
    let stdout = std::io::stdout();
    let mut out = stdout.lock();
    loop {
        let read_ns = clock::now_ns();
        let is_behind = capture.read(|event| shown.take(event));
        let known_ns = shown.syncs.as_ref().filter(|_| is_behind).map_or(read_ns, Syncs::last_ns);
        let may_have_more = shown.explain(known_ns) || is_behind;
        let is_over = signals.stop().load(Ordering::Relaxed)
            || args.runtime.is_some_and(|runtime_ns| clock::now_ns() >= begin_ns.saturating_add(runtime_ns))
            || shown.is_full();
        if !written(&mut out, &shown.text)? || is_over || has_hung_up(&stdout) {
            break;
        }
        shown.text.clear();
        if !may_have_more {
            std::thread::sleep(Capture::EVERY);
        }
    }
    let took_ns = clock::now_ns() - begin_ns;
    shown.text.clear();
    let counts = capture.end(|event| shown.take(event))?;
    while shown.explain(u64::MAX) && written(&mut out, &shown.text)? {
        shown.text.clear();
    }
    let unexplained = shown.syncs.as_ref().map_or(0, Syncs::unexplained);
    shown.lines.foot(&mut shown.text, counts, unexplained);
    written(&mut out, &shown.text)?;
    if !args.quiet {
        message::print(format_args!("qd1: {}", summary(of, took_ns, counts, sees_start)));
        if let Some(answer) = shown.answer.words() {
            message::print(format_args!("qd1: {answer}"));
        }
        if let (Some(around), Some(slow_ns)) = (&shown.around, args.slow) {
            let (slow, times) = (format_ns(slow_ns as f64), thousands(around.slow()));
            let of_what = if args.has_syncs() { "requests and syncs" } else { "of them" };
            message::print(format_args!("qd1: {times} {of_what} took {slow} or longer"));
        }
        if unexplained > 0 {
            let count = thousands(unexplained);
            message::print(format_args!("qd1: {count} syncs are not shown because they came too fast to be analysed"));
        }
        let cut_short = shown.around.as_ref().map_or(0, Around::cut_short);
        if cut_short > 0 {
            let count = thousands(cut_short);
            message::print(format_args!("qd1: {count} of these had more requests before them than qd1 keeps"));
        }
    }
    Ok(ExitCode::from(signals.exit_code().unwrap_or(0)))
}

/// Most syncs analysed between two readings.
const EXPLAINED_AT_ONCE: usize = 1000;

/// The output, and how many lines it has so far.
struct Shown<'a> {
    filter: Filter<'a>,
    lines: Lines<'a>,
    /// Syncs and the events that explain them, if syncs were requested.
    syncs: Option<Syncs>,
    around: Option<Around>,
    /// Lines not written yet.
    text: String,
    count: u64,
    /// A summary of the shown syncs.
    answer: Answer,
}

impl Shown<'_> {
    /// Takes the next event.
    fn take(&mut self, event: Event) {
        if let Some(syncs) = &mut self.syncs {
            // With --slow, any sync may have to be shown.
            let (filter, all) = (&self.filter, self.around.is_some());
            syncs.take(event, |sync| all || filter.takes_sync(sync));
        }
        if let Event::Request(request) = event {
            self.show(Item::Request(request));
        }
    }

    /// Shows some of the syncs that ended before `now_ns`, up to the line limit. Returns true if there may be more.
    fn explain(&mut self, now_ns: u64) -> bool {
        for _ in 0..EXPLAINED_AT_ONCE {
            let next =
                if self.is_full() { None } else { self.syncs.as_mut().and_then(|syncs| syncs.next_explained(now_ns)) };
            let Some((sync, split)) = next else { return false };
            self.show(Item::Sync(sync, Box::new(split)));
        }
        true
    }

    fn show(&mut self, item: Item) {
        let (lines, text, count, most) = (&mut self.lines, &mut self.text, &mut self.count, self.filter.args.count);
        let answer = &mut self.answer;
        let mut show = |item: &Item| {
            if most.is_none_or(|most| *count < most) {
                *count += u64::from(lines.push(text, item));
                if let Item::Sync(sync, split) = item {
                    answer.count(sync, split);
                }
            }
        };
        let is_wanted = self.filter.takes(&item);
        match &mut self.around {
            Some(around) => around.take(item, is_wanted, show),
            None if is_wanted => show(&item),
            None => {}
        }
    }

    fn is_full(&self) -> bool {
        self.filter.args.count.is_some_and(|count| self.count >= count)
    }
}

fn summary(of: &str, took_ns: u64, counts: Counts, sees_start: bool) -> String {
    let unseen = match counts.unseen {
        0 => String::new(),
        unseen => format!(", {} not seen from start to end", thousands(unseen)),
    };
    let other = match counts.lost_other {
        0 => String::new(),
        lost => format!(", and {} events that explain syncs", thousands(lost)),
    };
    let queue = if sees_start { "" } else { "; this kernel does not report queue times (Linux 6.5 and later do)" };
    format!(
        "{} request{} of {of} in {}, {} lost{other}{unseen}; recorded by BPF at tracepoints{queue}",
        thousands(counts.completed),
        if counts.completed == 1 { "" } else { "s" },
        format_span_ns(took_ns),
        thousands(counts.lost)
    )
}

/// Returns the name and numbers of the disk for an argument, which is a device or a path on a disk.
fn disk(machine: &Machine, target: &Path) -> Result<(String, Device)> {
    let name = named_disk(machine, target)?;
    let queue = machine.block_queue(&name).with_context(|| format!("{name} is not in /sys/block"))?;
    if !queue.has_requests {
        return Err(Problem::usage(format!(
            "{name} has no queue of requests to trace; if it is on top of another disk, name that disk instead"
        ))
        .into());
    }
    Ok((name, Device { major: queue.major, minor: queue.minor }))
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

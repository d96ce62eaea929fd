//! The arguments of `qd1 trace`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use qd1_model::Bytes;
use qd1_model::requests::{Asker, COMM, Op, Sync};
use qd1_trace::{Calls, Entry};

use super::tail::Bound;
use crate::args::{Choice, DestinationArgs, choice, duration};

pub(crate) const EXAMPLE: &str = "\
Examples:
  qd1 trace /var/lib/postgresql            every request to the disk below it
  qd1 trace vda --op flush --min-lat 10ms  slow flushes only
  qd1 trace vda --op sync --min-lat 10ms   why fsyncs are slow
  qd1 trace vda --op direct --min-lat p99  the slowest direct reads and writes
  qd1 trace vda --slow 50ms                what happens around slow requests
  qd1 trace vda --runtime 10s --format csv > requests.csv
  qd1 trace vda --syscalls --runtime 60s --record vda.trace
  qd1 trace summary vda.trace              what the load was, as a fio job

Columns: QUE is the time in the scheduler and the queue before the device got
the request, LAT the time in the device. T is the type: R(ead), W(rite),
F(lush), D(iscard) or N (other), then F(UA), A(head), S(ync), M(etadata).
A sync has two or three lines: how long it took, what it waited for (journal,
data and flush: in the device; throttle: a control group's limit; queue: the
scheduler or a free slot in the queue), and who else used the disk meanwhile.
It needs root (or CAP_BPF and CAP_PERFMON), but nothing else installed.";

/// Command-line arguments.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub(super) command: Option<TraceCommand>,
    /// Disk (vda, /dev/vda) or a path on it [default: all disks]
    pub(super) target: Option<PathBuf>,
    /// Stop after this time [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) runtime: Option<u64>,
    /// Stop after this many requests and syncs
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
    /// Show only these operations, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = choice(&OPS))]
    pub(super) op: Vec<Wanted>,
    /// Also show syncs (fsync, fdatasync, msync, O_DSYNC writes) and what each waited for
    #[arg(long)]
    pub(super) syscalls: bool,
    /// Show only requests and syncs of this process
    #[arg(long, value_name = "PID")]
    pub(super) pid: Option<u32>,
    /// Show only requests and syncs of threads with this name
    #[arg(long, value_name = "NAME", value_parser = thread_name)]
    pub(super) comm: Option<String>,
    /// Show only this control group (v2), given as a directory below /sys/fs/cgroup
    #[arg(long, value_name = "DIR")]
    pub(super) cgroup: Option<PathBuf>,
    /// Show only requests of at least this size
    #[arg(long, value_name = "SIZE")]
    pub(super) min_size: Option<Bytes>,
    /// Show only what took at least this long (a request: queue and device together), or longer than, for example, the p99
    /// of its kind so far
    #[arg(long, value_name = "TIME|pN", value_parser = bound)]
    pub(super) min_lat: Option<Bound>,
    /// Show everything from 2 s before to 2 s after each selected request or sync that took at least this long
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "min_lat")]
    pub(super) slow: Option<u64>,
    /// Output format
    #[arg(long, value_parser = choice(&FORMATS), default_value = "text")]
    pub(super) format: Format,
    /// The same as --format ndjson
    #[arg(long, conflicts_with = "format")]
    pub(super) json: bool,
    /// Write a compact file instead of lines
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "json"])]
    pub(super) record: Option<PathBuf>,
    /// With --record: hash the names of programs, and positions; disks, process ids and times stay
    #[arg(long, requires = "record")]
    pub(super) hash: bool,
    /// Show a recorded trace instead (of --record, blktrace or fio's iolog), or with --record, a part of it
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["target", "runtime", "cgroup"])]
    pub(super) play: Vec<PathBuf>,
    /// Print no summary on stderr
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Summarise a recorded trace: its operations, and the fio job like it
    ///
    /// Sizes, order, depth, arrivals and programs; a fio job file and the steps of suites that resemble it.
    #[command(after_help = SUMMARY_EXAMPLE)]
    Summary(SummaryArgs),
}

const SUMMARY_EXAMPLE: &str = "\
Examples:
  qd1 trace vda --syscalls --runtime 60s --record vda.trace
  qd1 trace summary vda.trace
  qd1 trace summary --fio vda.trace > load.fio
  qd1 trace summary sda.blktrace.*

Exit codes: 0 done, also if the file is cut short (a message says so);
1 nothing in it could be read; 2 usage error, or not a trace.";

/// Command-line arguments of `trace summary`.
#[derive(Args, Debug)]
pub(crate) struct SummaryArgs {
    /// A file of --record, blktrace's files, or fio's iolog
    #[arg(required = true)]
    pub(super) files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print only the fio job
    #[arg(long, conflicts_with = "json")]
    pub(super) fio: bool,
    #[command(flatten)]
    pub(super) to: DestinationArgs,
}

/// What `--op` chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Requests(Op),
    Syncs,
    Direct,
}

/// Values of `--op`: name, help text and value.
const OPS: [Choice<Wanted>; 7] = [
    ("read", "Reads", Wanted::Requests(Op::Read)),
    ("write", "Writes", Wanted::Requests(Op::Write)),
    ("flush", "Flushes of the device's cache", Wanted::Requests(Op::Flush)),
    ("discard", "Discards", Wanted::Requests(Op::Discard)),
    ("other", "Other requests", Wanted::Requests(Op::Other)),
    ("sync", "Calls that make files durable, shown as with --syscalls", Wanted::Syncs),
    ("direct", "Direct reads and writes of programs (O_DIRECT), and what each waited for", Wanted::Direct),
];

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Ndjson,
    Csv,
    Iolog,
}

/// Values of `--format`: name, help text and value.
const FORMATS: [Choice<Format>; 4] = [
    ("text", "The columns of biosnoop", Format::Text),
    ("ndjson", "One JSON object per line", Format::Ndjson),
    ("csv", "Comma-separated, with a header", Format::Csv),
    ("iolog", "fio's iolog, version 3: `fio --read_iolog` replays it", Format::Iolog),
];

/// Parses a time or a percentile.
fn bound(text: &str) -> Result<Bound, String> {
    Bound::percentile(text).unwrap_or_else(|| duration(text).map(Bound::Ns))
}

/// The kernel keeps 15 bytes of a thread's name.
fn thread_name(text: &str) -> Result<String, String> {
    if text.len() < COMM { Ok(text.to_owned()) } else { Err("the kernel keeps only 15 bytes of a name".to_owned()) }
}

/// Decides what is shown.
pub(super) struct Filter<'a> {
    pub(super) args: &'a TraceArgs,
    /// Inode of the control group.
    pub(super) cgroup: Option<u64>,
}

impl Filter<'_> {
    /// Returns true if the item should be shown.
    pub(super) fn takes(&self, item: &Entry) -> bool {
        match item {
            Entry::Request(request) => {
                let is_large = self.args.min_size.is_none_or(|size| u64::from(request.bytes) >= size.0);
                is_large && self.takes_any(Wanted::Requests(request.op()), &request.asker, request.total_ns())
            }
            Entry::Sync(sync, _) => self.takes_sync(sync),
        }
    }

    /// Returns true if the sync should be shown; `--min-size` only applies to direct reads and writes.
    pub(super) fn takes_sync(&self, sync: &Sync) -> bool {
        let is_large = !sync.is_direct() || self.args.min_size.is_none_or(|size| u64::from(sync.bytes) >= size.0);
        let kind = if sync.is_direct() { Wanted::Direct } else { Wanted::Syncs };
        is_large && self.takes_any(kind, &sync.asker, sync.took_ns)
    }

    fn takes_any(&self, kind: Wanted, asker: &Asker, took_ns: u64) -> bool {
        let args = self.args;
        (args.op.is_empty() || args.op.contains(&kind))
            && args.pid.is_none_or(|pid| pid == asker.pid)
            && args.comm.as_ref().is_none_or(|comm| asker.is_named(comm))
            && self.cgroup.is_none_or(|cgroup| cgroup == asker.cgroup)
            && !matches!(args.min_lat, Some(Bound::Ns(lat_ns)) if took_ns < lat_ns)
    }
}

impl TraceArgs {
    /// Returns the output format.
    pub(super) const fn format(&self) -> Format {
        if self.json { Format::Ndjson } else { self.format }
    }

    /// Returns true if syncs, or direct reads and writes, are shown.
    pub(super) fn has_syncs(&self) -> bool {
        self.calls() != Calls::None
    }

    /// Returns which system calls are shown.
    pub(super) fn calls(&self) -> Calls {
        if self.op.contains(&Wanted::Direct) {
            Calls::SyncsAndDirect
        } else if self.syscalls || self.op.contains(&Wanted::Syncs) {
            Calls::Syncs
        } else {
            Calls::None
        }
    }
}

//! The arguments of `qd1 watch`.

use std::path::PathBuf;

use clap::Args;
use qd1_model::units::parse_duration_ns;

pub(crate) const EXAMPLE: &str = "\
Examples:
  qd1 watch                     a report each second, until Ctrl-C
  qd1 watch vda --batch 5 12    the disk vda, every 5 s for a minute
  qd1 watch /var/lib            the disk below a directory
  qd1 watch --json --batch 10   for programs

The columns of disks are those of `iostat -x`, with its arithmetic; the line of
processes, memory and processors is that of vmstat. The first report is an
average since the machine started, as with both; -y leaves it out.";

/// What it takes.
#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    /// Disk (vda, /dev/vda), or a path on it; all disks without
    pub(super) target: Option<PathBuf>,
    /// A report each INTERVAL (1 s), in seconds or as 500ms, COUNT times
    #[arg(long, num_args = 0..=2, value_names = ["INTERVAL", "COUNT"])]
    pub(super) batch: Vec<String>,
    /// Leave out the first report, since the machine started
    #[arg(short = 'y', long)]
    pub(super) skip_first: bool,
    /// One JSON object per line
    #[arg(long)]
    pub(super) json: bool,
}

/// How often, and how many reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) interval_ns: u64,
    /// All until a signal without.
    pub(super) count: Option<u64>,
}

/// Shortest interval, ns: the kernel counts a disk's time in ms, and processors' in 10 ms.
const INTERVAL_NS_MIN: u64 = 100_000_000;

impl WatchArgs {
    pub(super) fn pace(&self) -> Result<Pace, String> {
        let interval = self.batch.first().map_or("1", String::as_str);
        let seconds = interval.parse::<u32>().map(|seconds| format!("{seconds}s"));
        let interval_ns = parse_duration_ns(seconds.as_deref().unwrap_or(interval))
            .map_err(|error| format!("--batch {interval}: {error}"))?;
        if interval_ns < INTERVAL_NS_MIN {
            return Err(format!("--batch {interval}: at least 100ms; the kernel counts in steps of up to 10 ms"));
        }
        let number = |text: &String| text.parse::<u64>().ok().filter(|count| *count > 0);
        let count = match self.batch.get(1) {
            Some(text) => Some(
                number(text).ok_or_else(|| format!("--batch {interval} {text}: a count is a whole number from 1"))?,
            ),
            None => None,
        };
        Ok(Pace { interval_ns, count })
    }
}

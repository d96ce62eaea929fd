//! The arguments of `qd1 watch`.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::Args;
use qd1_model::units::parse_duration_ns;

pub(crate) const EXAMPLE: &str = "\
Examples:
  qd1 watch                     all disks, on a screen; q ends it
  qd1 watch /var/lib            the disk below a directory
  qd1 watch vda --batch 5 12    reports, every 5 s for a minute
  qd1 watch --json --batch 10   for programs

On a terminal it fills the screen, with histograms of latencies, requests and
syncs that hang, and who uses the disks (these need root). With --batch, --json
or into a pipe, it prints reports: the columns of disks are those of `iostat -x`,
with its arithmetic; the line of processes, memory and processors is that of
vmstat. The first report is an average since the machine started, as with both.";

/// What it takes.
#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    /// Disk (vda, /dev/vda), or a path on it; all disks without
    pub(super) target: Option<PathBuf>,
    /// Print a report each INTERVAL (1 s), in seconds or as 500ms, COUNT times
    #[arg(long, num_args = 0..=2, value_names = ["INTERVAL", "COUNT"])]
    pub(super) batch: Option<Vec<String>>,
    /// Leave out the first report, since the machine started
    #[arg(short = 'y', long)]
    pub(super) skip_first: bool,
    /// Add histograms of the requests' latencies to reports (root)
    #[arg(long)]
    pub(super) latencies: bool,
    /// Print reports as JSON, one object per line
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
    /// Returns true if it fills the screen: on a terminal that can, where no reports are asked for.
    pub(super) fn is_screen(&self) -> bool {
        let is_plain = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let wants_reports = self.batch.is_some() || self.json || self.skip_first || self.latencies;
        !wants_reports && !is_plain && std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
    }

    pub(super) fn pace(&self) -> Result<Pace, String> {
        let batch = self.batch.as_deref().unwrap_or_default();
        let interval = batch.first().map_or("1", String::as_str);
        let seconds = interval.parse::<u32>().map(|seconds| format!("{seconds}s"));
        let interval_ns = parse_duration_ns(seconds.as_deref().unwrap_or(interval))
            .map_err(|error| format!("--batch {interval}: {error}"))?;
        if interval_ns < INTERVAL_NS_MIN {
            return Err(format!("--batch {interval}: at least 100ms; the kernel counts in steps of up to 10 ms"));
        }
        let number = |text: &String| text.parse::<u64>().ok().filter(|count| *count > 0);
        let count = match batch.get(1) {
            Some(text) => Some(
                number(text).ok_or_else(|| format!("--batch {interval} {text}: a count is a whole number from 1"))?,
            ),
            None => None,
        };
        Ok(Pace { interval_ns, count })
    }
}

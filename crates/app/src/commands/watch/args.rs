//! The arguments of `qd1 watch`.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::Args;
use qd1_model::units::parse_duration_ns;

pub(crate) const EXAMPLE: &str = "\
Examples:
  qd1 watch                     all disks, full screen; q quits
  qd1 watch /var/lib            the disk that holds a directory
  qd1 watch vda --batch 5 12    a report every 5 s for a minute
  qd1 watch --json --batch 10   a JSON report every 10 s, for scripts
  qd1 watch --record night      full screen, and keeps what it shows in a file
  qd1 watch --play night        shows it again; arrow keys go back and forth

On a terminal it fills the screen and also shows latencies over time, requests
and syncs that hang, and which processes use the disks (these need root). With
--batch or --json, or if the output is a pipe, it prints reports. Disks have
the columns of `iostat -x`, computed in the same way; processes, memory and
processors have those of vmstat. As with both tools, the first report is an
average since the machine started.";

/// Command-line arguments.
#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    /// Disk (vda, /dev/vda) or a path on it [default: all disks]
    pub(super) target: Option<PathBuf>,
    /// Print a report every INTERVAL (in seconds or e.g. 500ms; default 1), COUNT times
    #[arg(long, num_args = 0..=2, value_names = ["INTERVAL", "COUNT"])]
    pub(super) batch: Option<Vec<String>>,
    /// Omit the first report, an average since the machine started
    #[arg(short = 'y', long, conflicts_with = "play")]
    pub(super) skip_first: bool,
    /// Add request latencies to reports; JSON has full histograms (needs root)
    #[arg(long)]
    pub(super) latencies: bool,
    /// Print reports as JSON, one object per line
    #[arg(long)]
    pub(super) json: bool,
    /// Also write a report per interval to a new FILE, with processes and waits (as root)
    #[arg(long, value_name = "FILE", conflicts_with = "play")]
    pub(super) record: Option<PathBuf>,
    /// Show a file of --record instead: on the screen, or as reports
    #[arg(long, value_name = "FILE", conflicts_with = "target")]
    pub(super) play: Option<PathBuf>,
    /// Do not keep the report of the screen or of --record in the history
    #[arg(long)]
    pub(super) no_save: bool,
}

/// How often to report, and how many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) interval_ns: u64,
    /// `None`: until a signal arrives.
    pub(super) count: Option<u64>,
}

/// Shortest interval, ns: the kernel counts disk time in ms, and processor time in steps of 10 ms.
const INTERVAL_NS_MIN: u64 = 100_000_000;

impl WatchArgs {
    /// Returns true for the full screen: on a capable terminal, if no reports were requested.
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
            return Err(format!(
                "--batch {interval}: must be at least 100ms, because the kernel counts in steps of up to 10 ms"
            ));
        }
        if self.play.is_some() && !batch.is_empty() {
            return Err(format!("--batch {interval}: a recording has its own intervals; give --batch alone"));
        }
        let number = |text: &String| text.parse::<u64>().ok().filter(|count| *count > 0);
        let count = match batch.get(1) {
            Some(text) => Some(
                number(text)
                    .ok_or_else(|| format!("--batch {interval} {text}: COUNT must be a whole number, at least 1"))?,
            ),
            None => None,
        };
        Ok(Pace { interval_ns, count })
    }
}

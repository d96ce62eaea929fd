//! The command line of `qd1 ping`: descriptive long options, and ioping's short ones.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use qd1_model::Bytes;
use qd1_model::plan::Sync;

use crate::args::duration;
use qd1_model::Problem;

/// Help after the options. The exit codes are those of every command, not ioping's.
pub(crate) const EXIT_CODES: &str = "\
Times are written as 200ms, 3s, 2m or a number of seconds, sizes as 4k, 16MiB or a number of bytes.
Short options are those of ioping, where it has them. An existing file is only read.

Exit codes: 0 every request succeeded; 1 one failed; 2 usage error; 4 the target is not safe to use; 5 the machine or \
this user cannot do it; 129, 130, 143 interrupted (Ctrl-C: the summary is printed).";

/// Default interval: one request a second, so that a ping costs little. A rapid one is limited in time instead.
const INTERVAL_NS: u64 = 1_000_000_000;
const RAPID_NS: u64 = 3_000_000_000;
/// Default area of requests in a directory; larger for a rapid ping, whose reads would otherwise soon all be cached.
const AREA: Bytes = Bytes::mib(16);
const RAPID_AREA: Bytes = Bytes::mib(64);
const SIZE: Bytes = Bytes::kib(4);
const SIZE_LINEAR: Bytes = Bytes::kib(256);
/// Largest request.
const SIZE_MAX: u64 = 1 << 30;

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct PingArgs {
    /// Directory, file (only read) or block device (only read, unless --destroy)
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Stop after this many requests [default: never]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Time from the start of one request to the start of the next [default: 1s]
    #[arg(long, short, value_name = "TIME", value_parser = duration)]
    pub(crate) interval: Option<u64>,
    /// Stop after this time [default: never]
    #[arg(long, short = 'w', value_name = "TIME", value_parser = duration)]
    pub(crate) deadline: Option<u64>,
    /// Size of a request [default: 4k]
    #[arg(long, short, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// Size of the area that requests are spread over [default: 16MiB in a directory, otherwise all]
    #[arg(long, short = 'S', value_name = "SIZE")]
    pub(crate) area: Option<Bytes>,
    /// Bypass the page cache (O_DIRECT)
    #[arg(long, short = 'D', conflicts_with = "cached")]
    pub(crate) direct: bool,
    /// Use the page cache: without this, data is dropped from it before it is read, and synced after it is written
    #[arg(long, short = 'C')]
    pub(crate) cached: bool,
    /// Write instead of reading; the time includes the sync
    #[arg(long, short = 'W', conflicts_with = "read_write")]
    pub(crate) write: bool,
    /// Read and write alternately
    #[arg(long, short = 'G')]
    pub(crate) read_write: bool,
    /// How writes are made durable [default: fdatasync; with --cached: none]
    #[arg(long, value_name = "HOW", value_enum)]
    pub(crate) sync: Option<Durability>,
    /// Make requests in order instead of at random offsets (of 256k, unless --size is given)
    #[arg(long, short = 'L')]
    pub(crate) linear: bool,
    /// Go as fast as possible: no lines, no interval, and unless set otherwise for 3 s in 64 MiB
    #[arg(long, short = 'R')]
    pub(crate) rapid: bool,
    /// How many of the first requests to leave out of the summary
    #[arg(long, short = 'a', value_name = "N", default_value_t = 1)]
    pub(crate) warmup: u64,
    /// Print only the summary
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print one JSON object per line: the settings, each request, the summary
    #[arg(long, short = 'J')]
    pub(crate) json: bool,
    /// Space to leave free on the filesystem [default: a tenth of it, at most 4 GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) leave_free: Option<Bytes>,
    /// Seed for offsets and data, to repeat a run exactly
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Overwrite this block device; must repeat PATH
    #[arg(long, value_name = "DEVICE")]
    pub(crate) destroy: Option<PathBuf>,
}

/// How a write is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Durability {
    /// fdatasync after each write.
    Fdatasync,
    /// fsync after each write.
    Fsync,
    /// The file is opened with O_DSYNC.
    ODsync,
    /// The file is opened with O_SYNC.
    OSync,
    /// RWF_DSYNC with each write.
    RwfDsync,
    /// Not at all.
    None,
}

/// The directions of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directions {
    Reads,
    Writes,
    Both,
}

/// The settings, with every default filled in.
#[derive(Clone, Debug)]
pub(crate) struct PingSettings {
    pub(crate) directions: Directions,
    pub(crate) count: Option<u64>,
    pub(crate) interval_ns: u64,
    pub(crate) deadline_ns: Option<u64>,
    pub(crate) size: u32,
    /// Bytes that requests are spread over; `None` for all of a file or a device.
    pub(crate) area: Option<Bytes>,
    /// Size of the file that is made in a directory.
    pub(crate) own_area: Bytes,
    pub(crate) direct: bool,
    pub(crate) cached: bool,
    pub(crate) sync: Sync,
    pub(crate) linear: bool,
    pub(crate) warmup: u64,
}

impl PingSettings {
    /// Returns the settings that the arguments specify.
    ///
    /// # Errors
    /// When arguments contradict each other, or a size is out of range.
    pub(crate) fn of(args: &PingArgs) -> Result<Self> {
        let directions = match (args.write, args.read_write) {
            (true, _) => Directions::Writes,
            (_, true) => Directions::Both,
            _ => Directions::Reads,
        };
        if args.sync.is_some() && directions == Directions::Reads {
            return Err(Problem::usage("--sync says how writes are made durable; add --write or --read-write").into());
        }
        let size = args.size.unwrap_or(if args.linear { SIZE_LINEAR } else { SIZE });
        if size.0 == 0 || size.0 > SIZE_MAX {
            return Err(Problem::usage(format!("--size {size}: a request must have between 1 B and 1 GiB")).into());
        }
        let own_area = args.area.unwrap_or(if args.rapid { RAPID_AREA } else { AREA });
        if own_area < size {
            let message = format!("--area {own_area} is smaller than a request of {size}; make it larger");
            return Err(Problem::usage(message).into());
        }
        let usual = if args.cached { Durability::None } else { Durability::Fdatasync };
        let ends = args.count.is_some() || args.deadline.is_some();
        Ok(Self {
            directions,
            count: args.count,
            interval_ns: args.interval.unwrap_or(if args.rapid { 0 } else { INTERVAL_NS }),
            deadline_ns: args.deadline.or((args.rapid && !ends).then_some(RAPID_NS)),
            size: size.0 as u32,
            area: args.area,
            own_area,
            direct: args.direct,
            cached: args.cached,
            sync: match args.sync.unwrap_or(usual) {
                _ if directions == Directions::Reads => Sync::None,
                Durability::Fdatasync => Sync::Fdatasync,
                Durability::Fsync => Sync::Fsync,
                Durability::ODsync => Sync::ODsync,
                Durability::OSync => Sync::OSync,
                Durability::RwfDsync => Sync::RwfDsync,
                Durability::None => Sync::None,
            },
            linear: args.linear,
            warmup: args.warmup,
        })
    }

    /// Returns true if anything is written.
    pub(crate) fn writes(&self) -> bool {
        self.directions != Directions::Reads
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;

    fn settings(flags: &str) -> Result<PingSettings> {
        let words = ["qd1", "ping"].into_iter().chain(flags.split_whitespace());
        let Some(Command::Ping(args)) = Cli::try_parse_from(words)?.command else { panic!("it is a ping") };
        PingSettings::of(&args)
    }

    #[test]
    fn short_options_mean_the_same_as_in_ioping() {
        let one = settings("-c 5 -i 0.2 -w 10 -s 8k -S 1m -D /tmp").unwrap();
        assert_eq!((one.count, one.interval_ns, one.deadline_ns), (Some(5), 200_000_000, Some(10_000_000_000)));
        assert_eq!(
            (one.size, one.own_area, one.direct, one.directions),
            (8192, Bytes::mib(1), true, Directions::Reads)
        );
        let rapid = settings("-R").unwrap();
        assert_eq!((rapid.interval_ns, rapid.deadline_ns, rapid.own_area), (0, Some(3_000_000_000), Bytes::mib(64)));
        let linear = settings("-L -W -C").unwrap();
        assert_eq!((linear.size, linear.sync, linear.cached), (256 << 10, Sync::None, true));
        assert_eq!(settings("-W").unwrap().sync, Sync::Fdatasync);
    }

    #[test]
    fn contradictory_flags_are_refused() {
        for flags in ["-D -C", "-W -G", "--sync fsync", "-s 0", "-s 32m", "-c 0", "-i soon"] {
            assert!(settings(flags).is_err(), "{flags}");
        }
    }
}

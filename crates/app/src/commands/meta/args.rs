//! The command line of `qd1 meta`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use qd1_model::Bytes;
use qd1_model::plan::{FileOp, FileOrder, FilesSync};
use qd1_suites::meta::{OPS, Options};

use crate::args::{CommonArgs, DeviceArgs, duration, effort};
use qd1_model::Problem;

/// More files than this are taken for a mistake.
const FILES_MAX: u64 = 1_000_000_000;

#[derive(Debug, Args)]
pub(crate) struct MetaArgs {
    /// Directory to measure; files are made in a separate directory there, and removed
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// What to run
    #[arg(long, value_enum, default_value_t)]
    pub(crate) suite: SuiteName,
    /// How many files, for example 20000, 100k or 1M [default: 20000, --quick 5000, --full 100000; bonnie: 16384]
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) files: Option<u64>,
    /// Size of each file, or the smallest and the largest size: 0, 64k, 1k..64k [default: 4k; bonnie: 0]
    #[arg(long, value_name = "SIZE[..SIZE]", value_parser = sizes)]
    pub(crate) file_size: Option<(Bytes, Bytes)>,
    /// Files per directory [default: 1000; bonnie: all in one]
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) per_dir: Option<u64>,
    /// Threads that share the files
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: u32,
    /// What to make durable, separated by commas: files as they are made, their dir after each change, or
    /// everything at the end of each operation [default: nothing; bonnie: end]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_enum)]
    pub(crate) fsync: Vec<Fsync>,
    /// Operations, separated by commas: create, stat, open, list, rename, link, delete [default: all]
    #[arg(long, value_name = "OPS", value_delimiter = ',', value_parser = op)]
    ops: Vec<FileOp>,
    /// Orders, separated by commas [default: both]
    #[arg(long, value_name = "ORDER", value_delimiter = ',', value_enum)]
    order: Vec<Order>,
    /// bonnie: size of the large file, at least twice the memory [default: twice the memory, at least 300 MiB; 0: none]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// bonnie: memory size that the large file must exceed, if smaller than the machine's
    #[arg(long, value_name = "SIZE")]
    pub(crate) ram: Option<Bytes>,
    /// bonnie: size of one read or write of the large file [default: 8k]
    #[arg(long, value_name = "SIZE")]
    pub(crate) chunk: Option<Bytes>,
    /// Use fewer files: wider intervals
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Use more files: tighter intervals
    #[arg(long)]
    pub(crate) full: bool,
    /// Longest time of each operation, for example 30s [default: 20s; with --files or bonnie, until all is done]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) runtime: Option<u64>,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// What to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SuiteName {
    /// Create, stat, open, list, rename, link and delete files, in order and in random order.
    #[default]
    Files,
    /// bonnie++'s job: write, rewrite, read and seek in one large file; create, stat and delete files. --format csv
    /// prints its line, for bon_csv2html.
    Bonnie,
}

/// What is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fsync {
    /// Each file as it is made.
    Files,
    /// Its directory after each change to it.
    Dir,
    /// Everything at the end of an operation.
    End,
}

/// An order of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    /// In the order in which they were made.
    Sequential,
    /// In random order, drawn from the seed.
    Random,
}

impl MetaArgs {
    /// Refuses flags that would have no effect, since a user expects one.
    ///
    /// # Errors
    /// When there is such a flag; the message says what to do instead.
    pub(super) fn check(&self) -> Result<()> {
        let is_bonnie = self.suite == SuiteName::Bonnie;
        let refusals = [
            (self.device.engine.is_some(), "--engine: files are made by plain system calls; leave it out"),
            (self.device.destroy.is_some(), "--destroy: files need a filesystem, not a device; name a directory"),
            (self.files == Some(0) && !is_bonnie, "--files 0 leaves nothing to measure; choose 1 or more"),
            (self.files > Some(FILES_MAX), "--files: more than 1000M files must be a mistake; choose fewer"),
            (self.per_dir == Some(0), "--per-dir 0 makes directories without files; choose 1 or more"),
            (
                self.size.is_some() && !is_bonnie,
                "--size is for bonnie's large file (--suite bonnie); did you mean --file-size?",
            ),
            (self.ram.is_some() && !is_bonnie, "--ram is for bonnie's large file; add --suite bonnie"),
            (self.chunk.is_some() && !is_bonnie, "--chunk is for bonnie's large file; add --suite bonnie"),
            (
                is_bonnie && !self.ops.is_empty(),
                "--ops: bonnie++ has its own operations; leave it out, or leave out --suite bonnie",
            ),
            (
                is_bonnie && !self.order.is_empty(),
                "--order: bonnie++ uses both orders; leave it out, or leave out --suite bonnie",
            ),
            (
                is_bonnie && self.workers > 1,
                "--workers: bonnie++ uses one thread; leave it out, or leave out --suite bonnie",
            ),
            (
                is_bonnie && (self.quick || self.full),
                "--quick and --full: bonnie++ sets its own amounts of work; use --files and --size",
            ),
        ];
        if let Some((_, why)) = refusals.iter().find(|(applies, _)| *applies) {
            return Err(Problem::usage(*why).into());
        }
        if std::fs::metadata(&self.path).is_ok_and(|found| !found.is_dir()) {
            let message =
                format!("{} is not a directory; name the directory to make the files in", self.path.display());
            return Err(Problem::usage(message).into());
        }
        Ok(())
    }

    /// Returns the options as plain data.
    pub(super) fn options(&self) -> Options {
        let has = |what| self.fsync.contains(&what);
        let order = |order: &Order| match order {
            Order::Sequential => FileOrder::Sequential,
            Order::Random => FileOrder::Random,
        };
        Options {
            effort: effort(self.quick, self.full),
            files: self.files,
            file_size: self.file_size,
            per_dir: self.per_dir,
            workers: self.workers,
            fsync: FilesSync { files: has(Fsync::Files), dir: has(Fsync::Dir), end: has(Fsync::End) },
            ops: self.ops.clone(),
            orders: self.order.iter().map(order).collect(),
            size: self.size,
            ram: self.ram,
            chunk: self.chunk,
        }
    }
}

/// Parses a count: `20000`, `100k`, `1M`. The suffixes are decimal, unlike those of sizes.
fn count(text: &str) -> Result<u64, String> {
    let (number, scale) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1000),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1), |number| (number, 1_000_000)),
    };
    let value = number.parse::<u64>().ok().and_then(|value| value.checked_mul(scale));
    value.ok_or_else(|| format!("{text:?} is not a count; write it as 20000, 100k or 1M"))
}

/// Parses `4k` or `1k..64k` to the largest size and the smallest one.
fn sizes(text: &str) -> Result<(Bytes, Bytes), String> {
    let size = |text: &str| text.parse::<Bytes>().map_err(|error| error.to_string());
    let Some((smallest, largest)) = text.split_once("..") else { return size(text).map(|size| (size, size)) };
    let (smallest, largest) = (size(smallest)?, size(largest)?);
    if smallest > largest {
        return Err(format!("{smallest} is larger than {largest}; write the smallest first"));
    }
    Ok((largest, smallest))
}

fn op(text: &str) -> Result<FileOp, String> {
    OPS.into_iter().find(|op| op.name() == text).ok_or_else(|| {
        let known = OPS.map(FileOp::name).join(", ");
        format!("unknown operation {text:?}; choose from {known}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_decimal_and_sizes_are_not() {
        assert_eq!((count("20000"), count("100k"), count("1M")), (Ok(20_000), Ok(100_000), Ok(1_000_000)));
        assert!(count("many").is_err() && count("").is_err() && count("99999999999999999999").is_err());
        assert_eq!(sizes("1k..64k"), Ok((Bytes::kib(64), Bytes::kib(1))));
        assert_eq!(sizes("0"), Ok((Bytes(0), Bytes(0))));
        assert!(sizes("64k..1k").is_err() && sizes("..").is_err());
        assert!(op("list").is_ok() && op("seek").unwrap_err().contains("rename"));
    }

    fn args(flags: &str) -> MetaArgs {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: MetaArgs,
        }
        <Line as clap::Parser>::parse_from(["meta"].into_iter().chain(flags.split_whitespace())).args
    }

    #[test]
    fn flags_of_one_suite_are_refused_for_the_other() {
        for (flags, word) in [
            ("--size 1G", "--file-size"),
            ("--ram 1G", "bonnie"),
            ("--suite bonnie --ops stat", "--ops"),
            ("--suite bonnie --workers 2", "--workers"),
            ("--suite bonnie --quick", "--quick"),
            ("--engine psync", "--engine"),
            ("--destroy /dev/null", "--destroy"),
            ("--files 0", "--files"),
        ] {
            let error = args(flags).check().unwrap_err().to_string();
            assert!(error.contains(word), "{flags}: {error}");
        }
        assert!(args("--suite bonnie --ram 1G --size 2G --fsync files,dir").check().is_ok());
    }
}

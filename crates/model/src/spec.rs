//! What the user requested, as written: nothing filled in, nothing refused yet.
//!
//! A `Spec` is a suite (a list of jobs, from TOML) and the overrides given as flags. `qd1-app` reads the TOML, expands
//! its sweeps, and its planner turns the Spec into a [`crate::plan::Plan`].

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IntoDeserializer as _, MapAccess, Visitor};

use crate::plan::criterion::Criterion;
use crate::plan::sweep::SweepPlan;
use crate::plan::{EngineChoice, FileOp, FileOrder, FileSync, FilesSync, Rw, Sync};
use crate::subject::Subject;
use crate::units::Bytes;

/// How much time to spend: picks the column of a suite's `runtime` and `size` tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// About fifteen seconds.
    Quick,
    /// About a minute.
    #[default]
    Default,
    /// Minutes; tighter intervals.
    Full,
}

/// Everything requested: a suite, the place, and overrides.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The jobs.
    pub suite: Suite,
    /// File, directory or block device to measure.
    pub path: PathBuf,
    /// Time to spend.
    pub effort: Effort,
    /// Size of the test file instead of the suite's.
    pub size: Option<Bytes>,
    /// Longest time of each timed step instead of the suite's, in nanoseconds.
    pub runtime_ns: Option<u64>,
    /// Only the steps with these names.
    pub only: Vec<String>,
    /// Engine for every step instead of the suite's.
    pub engine: Option<EngineChoice>,
    /// Seed for offsets, data and arrivals; random if absent.
    pub seed: Option<u64>,
    /// A block device named a second time: permission to overwrite it.
    pub destroy: Option<PathBuf>,
    /// Repeat each commit step while buffered writes and reads run in the background.
    pub with_load: bool,
    /// Time over which rounds of all steps are spread, ns; absent for a run that measures at once.
    pub over_ns: Option<u64>,
}

/// A suite, read from TOML (docs/suites.md): sweeps expanded, criteria spread over the steps they judge.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Name on the command line.
    pub name: String,
    /// What kind of run it makes.
    pub subject: Subject,
    /// One line on its purpose.
    pub title: String,
    /// The source of its jobs and figures; may be empty.
    pub source: String,
    /// Size of the shared test file.
    pub size: PerEffort<Bytes>,
    /// Longest time to spend writing the test file; the file is made smaller on a disk too slow for it.
    pub prepare: PerEffort<Span>,
    /// The jobs, in the order they run; each becomes a step.
    pub job: Vec<Job>,
    /// What the suite expects of its steps, in the order written.
    pub criteria: Vec<Criterion>,
    /// What makes it a sweep, if it is one.
    pub sweep: Option<SweepPlan>,
}

/// One value per [`Effort`]; in TOML either a table of the three or one value for all.
#[derive(Clone, Copy, Debug)]
pub struct PerEffort<T> {
    /// With `--quick`.
    pub quick: T,
    /// Without flags.
    pub default: T,
    /// With `--full`.
    pub full: T,
}

impl<'de, T: Copy + Deserialize<'de>> Deserialize<'de> for PerEffort<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The table of three.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Three<T> {
            quick: T,
            default: T,
            full: T,
        }

        struct Either<T>(PhantomData<T>);

        impl<T: Copy> Either<T> {
            fn same(value: T) -> PerEffort<T> {
                PerEffort { quick: value, default: value, full: value }
            }
        }

        impl<'de, T: Copy + Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = PerEffort<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one value, or a table of quick, default and full")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                T::deserialize(text.into_deserializer()).map(Self::same)
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Self::Value, E> {
                T::deserialize(number.into_deserializer()).map(Self::same)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let Three { quick, default, full } = Three::deserialize(MapAccessDeserializer::new(map))?;
                Ok(PerEffort { quick, default, full })
            }
        }

        deserializer.deserialize_any(Either(PhantomData))
    }
}

impl<T: Copy> PerEffort<T> {
    /// The value for `effort`.
    pub fn get(&self, effort: Effort) -> T {
        match effort {
            Effort::Quick => self.quick,
            Effort::Default => self.default,
            Effort::Full => self.full,
        }
    }
}

/// A length of time in a suite file, written as text (`"12s"`) or a whole number of seconds; nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub u64);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"30s\"")
            }
            fn visit_i64<E: serde::de::Error>(self, seconds: i64) -> Result<Span, E> {
                self.visit_str(&seconds.to_string())
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Span, E> {
                crate::units::parse_duration_ns(text).map(Span).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// One job of a suite. Absent fields take fio's defaults (`bs` 4k, `iodepth` 1, `numjobs` 1) unless said otherwise.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Short name, for `--only` and as the key in JSON.
    pub name: String,
    /// One line for people; generated from the other fields if absent.
    pub title: Option<String>,
    /// Longest time this job may take. Default 1 s, 5 s and 20 s.
    pub runtime: Option<PerEffort<Span>>,
    /// Time at its start that is not measured. Default a twentieth of its time, at most 250 ms.
    pub ramp_time: Option<Span>,
    /// What to do; absent for `files` jobs.
    pub rw: Option<Rw>,
    /// Share of reads in percent, for mixed `rw`. Default 50, as in fio.
    pub rwmixread: Option<u8>,
    /// Block size.
    pub bs: Option<Bytes>,
    /// Weighted block sizes instead of `bs`: `[["4k", 60], ["64k", 40]]`.
    pub bssplit: Option<Vec<(Bytes, u32)>>,
    /// Requests kept in flight by each worker.
    pub iodepth: Option<u32>,
    /// Number of workers.
    pub numjobs: Option<u32>,
    /// Bypass the page cache. Default true, unlike fio: a disk is measured, not memory.
    pub direct: Option<bool>,
    /// How writes are made durable.
    pub sync: Option<Sync>,
    /// Writes that one sync covers. Default 1.
    pub writes_per_sync: Option<u32>,
    /// Which file the job uses.
    pub file: Option<crate::plan::FileUse>,
    /// Size of each worker's own file, default 16 MiB; of the shared file, how much of it is used, default all.
    pub size: Option<Bytes>,
    /// Writes zeros.
    pub zero_buffers: Option<bool>,
    /// Writes data with this percentage of zeros at the end of each 4 KiB.
    pub buffer_compress_percentage: Option<u8>,
    /// 100: writes the same block of 4 KiB repeatedly.
    pub dedupe_percentage: Option<u8>,
    /// The lowest effort at which it runs. Default quick, which means always.
    pub effort: Option<Effort>,
    /// Random offsets without repetition until every block has been visited.
    pub full_coverage: Option<bool>,
    /// Zipf exponent of the random offsets.
    pub zipf_theta: Option<f64>,
    /// Requests per second, fixed spacing: open loop.
    pub rate_iops: Option<f64>,
    /// With `rate_iops`: exponential spacing instead.
    pub poisson: Option<bool>,
    /// With `rate_iops`: at most this share, 0..1, of what the disk sustains one request at a time.
    pub load_max: Option<f64>,
    /// Engine.
    pub ioengine: Option<EngineChoice>,
    /// Stop after this many bytes.
    pub io_size: Option<Bytes>,
    /// Whether to stop before `runtime` once the figures are tight. Default true.
    pub adaptive: Option<bool>,
    /// Percentile (0..100) whose interval decides an early stop. Default 99.
    pub stop_percentile: Option<f64>,
    /// Whether buffered writes and reads run at the same time as a background load: see docs/suites.md.
    pub with_load: Option<bool>,
    /// A job on many small files instead of `rw`.
    pub files: Option<FilesJob>,
    /// Number of visits, spread over the run, in which it is measured. Default 1.
    pub visits: Option<PerEffort<u32>>,
    /// Why it cannot run here, if already known; not a key in a suite's file.
    #[serde(skip)]
    pub refused: Option<String>,
}

impl Job {
    /// Longest time if a job does not give one: with `--quick`, without flags, with `--full`.
    const RUNTIME: PerEffort<Span> =
        PerEffort { quick: Span(1_000_000_000), default: Span(5_000_000_000), full: Span(20_000_000_000) };

    /// The longest time of its step, ns.
    pub fn runtime_ns(&self, effort: Effort) -> u64 {
        self.runtime.unwrap_or(Self::RUNTIME).get(effort).0
    }

    /// Whether it is part of a run with this effort.
    pub fn runs_at(&self, effort: Effort) -> bool {
        self.effort.is_none_or(|least| effort >= least)
    }
}

/// A job on files: by default, create, stat and delete small ones.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesJob {
    /// Size of each file, or of the largest; of the one file for operations on a large one.
    pub size: Bytes,
    /// Maximum number of files.
    pub count: u64,
    /// How each is made durable; see [`FileSync`].
    #[serde(default)]
    pub sync: FileSync,
    /// Size of the smallest file. Default `size`.
    pub size_min: Option<Bytes>,
    /// Files in a directory. Default all in one.
    pub per_dir: Option<u64>,
    /// Number of threads among which the files are divided. Default 1.
    pub workers: Option<u32>,
    /// What is made durable. Default nothing.
    pub fsync: Option<FilesSync>,
    /// Bytes per read or write. Default a whole file, at most 1 MiB.
    pub chunk: Option<Bytes>,
    /// What is done, one after another. Default create, stat, delete.
    pub ops: Option<Vec<FileOp>>,
    /// In which order. Default sequential.
    pub order: Option<FileOrder>,
    /// Names as long as bonnie++'s.
    pub long_names: Option<bool>,
    /// How many random reads `seek` makes. Default 8192.
    pub seeks: Option<u64>,
}

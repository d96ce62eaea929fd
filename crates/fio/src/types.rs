//! The types of a job's fields, each enum with the words that fio uses for its values.

use std::time::Duration;

/// Defines an enum whose variants are fio's words; the first word of each is the one to print.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident {
        $( $(#[$on:meta])* $variant:ident = $word:literal $(| $alias:literal)* => $help:literal, )+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name { $( #[doc = $help] $(#[$on])* $variant, )+ }

        impl $name {
            /// Every word with the value it stands for and what that does.
            pub const WORDS: &'static [(&'static str, Self, &'static str)] =
                &[$( ($word, Self::$variant, $help), $( ($alias, Self::$variant, $help), )* )+];

            /// The value of a word.
            pub fn parse(word: &str) -> Option<Self> {
                Self::WORDS.iter().find(|(known, ..)| *known == word).map(|(_, value, _)| *value)
            }

            /// The word of a value.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }

            /// Words and help, for the manual.
            pub fn help() -> Vec<(&'static str, &'static str)> {
                Self::WORDS.iter().map(|(word, _, help)| (*word, *help)).collect()
            }
        }
    };
}

mod conduct;

pub use conduct::*;

words! {
    /// Direction and order: the first part of `rw`.
    RwKind {
        #[default]
        Read = "read" => "Sequential reads",
        Write = "write" => "Sequential writes",
        Trim = "trim" => "Sequential trims",
        Randread = "randread" => "Random reads",
        Randwrite = "randwrite" => "Random writes",
        Randtrim = "randtrim" => "Random trims",
        Rw = "rw" | "readwrite" => "Sequential, reads and writes mixed",
        Randrw = "randrw" => "Random, reads and writes mixed",
        Trimwrite = "trimwrite" => "Sequential, each block trimmed and then written",
        Randtrimwrite = "randtrimwrite" => "Random, each block trimmed and then written",
    }
}

impl RwKind {
    /// Whether offsets are random.
    pub const fn is_random(self) -> bool {
        matches!(self, Self::Randread | Self::Randwrite | Self::Randtrim | Self::Randrw | Self::Randtrimwrite)
    }
    /// Whether it reads.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Randread | Self::Rw | Self::Randrw)
    }
    /// Whether it trims.
    pub const fn trims(self) -> bool {
        matches!(self, Self::Trim | Self::Randtrim | Self::Trimwrite | Self::Randtrimwrite)
    }
    /// Whether it writes.
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::Randread | Self::Trim | Self::Randtrim)
    }
    /// Reads, writes, trims: whether it does each, in the order of all triples.
    pub const fn directions(self) -> [bool; 3] {
        [self.reads(), self.writes(), self.trims()]
    }
}

/// The part after the colon of `rw`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sequence {
    /// Nothing.
    #[default]
    Plain,
    /// For random kinds (`randread:8`): this many consecutive requests before a new offset is drawn.
    Run(u32),
    /// For sequential kinds (`read:512k`): bytes skipped after each request; negative values walk backwards.
    Skip(i64),
}

/// `rw`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rw {
    /// Direction and order.
    pub kind: RwKind,
    /// The part after the colon.
    pub sequence: Sequence,
}

/// How unit prefixes are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KbBase {
    /// `kb_base=1024`: `k` is 1024, `kib` is 1000.
    #[default]
    Binary,
    /// `kb_base=1000`: `k` is 1000, `kib` is 1024.
    Decimal,
}

/// A size or a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Amount {
    /// Not given: the size of what is there.
    #[default]
    Unset,
    /// Bytes.
    Bytes(u64),
    /// Percent of the file or device.
    Percent(u8),
}

/// From one number of bytes to another, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Lower end.
    pub min: u64,
    /// Upper end.
    pub max: u64,
}

/// From one time to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// Lower end.
    pub min: Duration,
    /// Upper end.
    pub max: Duration,
}

/// One block size of `bssplit`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockShare {
    /// Bytes.
    pub bs: u64,
    /// How many requests have it, percent.
    pub percent: f64,
}

/// One zone of a zoned distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Share of the requests, percent.
    pub access_percent: u8,
    /// Length: percent of the file, or bytes where the distribution is absolute.
    pub size: u64,
}

/// `random_distribution`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Distribution {
    /// Uniform.
    #[default]
    Random,
    /// Zipf.
    Zipf {
        /// Exponent, not 1.
        theta: f64,
        /// Where the most popular block lies, 0 to 1 of the file; scattered if absent.
        center: Option<f64>,
    },
    /// Pareto.
    Pareto {
        /// Power, between 0 and 1.
        h: f64,
        /// As for zipf.
        center: Option<f64>,
    },
    /// Gaussian, around the middle of the file.
    Normal {
        /// Standard deviation, percent of the file.
        deviation: f64,
        /// As for zipf.
        center: Option<f64>,
    },
    /// Zones in percent of the file, for reads, writes, trims.
    Zoned([Vec<Zone>; 3]),
    /// Zones in bytes, for reads, writes, trims.
    ZonedAbs([Vec<Zone>; 3]),
}

words! {
    /// `random_generator`.
    RandomGenerator {
        #[default]
        Tausworthe = "tausworthe" => "A generator with a long period and 32-bit offsets",
        Lfsr = "lfsr" => "A shift register that visits each block once without a map of them",
        Tausworthe64 = "tausworthe64" => "As tausworthe, with 64-bit offsets",
    }
}

words! {
    /// `fallocate`.
    Fallocate {
        None = "none" | "0" => "Space is not allocated beforehand",
        #[default]
        Native = "native" => "Allocate with the filesystem's own call, if it has one",
        Posix = "posix" | "1" => "posix_fallocate()",
        Keep = "keep" => "Allocate, but keep the file's length",
        Truncate = "truncate" => "Only set the file's length",
    }
}

words! {
    /// `sync`.
    SyncMode {
        #[default]
        None = "none" | "0" => "Files are opened without O_SYNC",
        Sync = "sync" | "1" => "O_SYNC: each write is durable with its metadata",
        Dsync = "dsync" => "O_DSYNC: each write is durable",
    }
}

words! {
    /// `verify`.
    Verify {
        #[default]
        None = "0" => "Nothing is verified",
        Md5 = "md5" => "MD5 in a header of each block",
        Crc64 = "crc64" => "CRC-64",
        Crc32 = "crc32" => "CRC-32",
        Crc32cIntel = "crc32c-intel" => "CRC-32C by the processor's instruction",
        Crc32c = "crc32c" => "CRC-32C",
        Crc16 = "crc16" => "CRC-16",
        Crc7 = "crc7" => "CRC-7",
        Sha1 = "sha1" => "SHA-1",
        Sha256 = "sha256" => "SHA-256",
        Sha512 = "sha512" => "SHA-512",
        Sha3_224 = "sha3-224" => "SHA3-224",
        Sha3_256 = "sha3-256" => "SHA3-256",
        Sha3_384 = "sha3-384" => "SHA3-384",
        Sha3_512 = "sha3-512" => "SHA3-512",
        Xxhash = "xxhash" => "xxHash",
        Meta = "meta" => "Number and offset of the block, without a checksum",
        Pattern = "pattern" => "The pattern of verify_pattern, without a header",
        Null = "null" => "Everything except the comparison, to measure its cost",
    }
}

words! {
    /// `zonemode`, as far as it is supported.
    ZoneMode {
        #[default]
        None = "none" => "No zones",
        Strided = "strided" => "zonesize bytes of I/O in each zonerange, then skip zoneskip bytes",
    }
}

words! {
    /// `rate_process`.
    RateProcess {
        #[default]
        Linear = "linear" => "Evenly spaced",
        Poisson = "poisson" => "At exponentially distributed intervals",
    }
}

words! {
    /// `unified_rw_reporting`.
    UnifiedReporting {
        #[default]
        None = "none" | "0" => "Reads, writes and trims separately",
        Mixed = "mixed" | "1" => "All in one",
        Both = "both" | "2" => "Separately, and then all in one",
    }
}

words! {
    /// The criterion of `steadystate`.
    SteadyCriterion {
        Iops = "iops" => "Largest deviation of IOPS from their mean",
        #[default]
        IopsSlope = "iops_slope" => "Slope of the regression line of IOPS",
        Bw = "bw" => "Largest deviation of bandwidth from its mean",
        BwSlope = "bw_slope" => "Slope of the regression line of bandwidth",
    }
}

/// `steadystate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyState {
    /// What is watched.
    pub criterion: SteadyCriterion,
    /// Its limit: percent of the mean if `percent`, otherwise IOPS or bytes per second.
    pub limit: f64,
    /// Whether the limit is in percent.
    pub percent: bool,
}

/// How `file_service_type` chooses the next file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum FileOrder {
    /// In turn.
    #[default]
    Roundrobin,
    /// Uniformly at random.
    Random,
    /// One until it is done, then the next.
    Sequential,
    /// Zipf with this exponent.
    Zipf(f64),
    /// Pareto with this power.
    Pareto(f64),
    /// Gaussian with this deviation.
    Normal(f64),
}

/// `file_service_type`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileService {
    /// Which file is next.
    pub order: FileOrder,
    /// Requests to one file before the next is chosen.
    pub every: u32,
}

impl Default for FileService {
    fn default() -> Self {
        Self { order: FileOrder::default(), every: 1 }
    }
}

/// `sync_file_range`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncFileRange {
    /// SYNC_FILE_RANGE_WAIT_BEFORE.
    pub wait_before: bool,
    /// SYNC_FILE_RANGE_WRITE.
    pub write: bool,
    /// SYNC_FILE_RANGE_WAIT_AFTER.
    pub wait_after: bool,
    /// Writes per call; 0 if there are no calls.
    pub every: u32,
}

/// A part of a [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternPart {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The block's offset, 8 bytes, little-endian.
    Offset,
}

impl PatternPart {
    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Offset => 8,
        }
    }
}

/// The repeated content of a buffer. Empty if none was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern(pub Vec<PatternPart>);

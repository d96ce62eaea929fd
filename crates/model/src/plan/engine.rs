//! How I/O is issued.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A requested engine: one of them, or the best that works here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineChoice {
    /// The one that works here and disturbs the measurement least at this depth; the Record says which one and why.
    #[default]
    Auto,
    /// Exactly this one, or an error.
    #[serde(untagged)]
    Kind(EngineKind),
}

/// An engine that issues I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// pread/pwrite, one at a time.
    Psync,
    /// io_submit/io_getevents.
    Libaio,
    /// io_uring with registered files and buffers.
    IoUring,
    /// Completes immediately without I/O: measures the overhead of qd1 itself.
    Null,
    /// A simulated device on virtual time.
    Sim,
    /// lseek and read/write; for fio's jobs, like all of the following.
    Sync,
    /// lseek and readv/writev.
    Vsync,
    /// preadv/pwritev.
    Pvsync,
    /// preadv2/pwritev2.
    Pvsync2,
    /// Copies from and to mapped memory.
    Mmap,
}

impl EngineKind {
    /// Returns fio's name for it, also used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Psync => "psync",
            Self::Libaio => "libaio",
            Self::IoUring => "io_uring",
            Self::Null => "null",
            Self::Sim => "sim",
            Self::Sync => "sync",
            Self::Vsync => "vsync",
            Self::Pvsync => "pvsync",
            Self::Pvsync2 => "pvsync2",
            Self::Mmap => "mmap",
        }
    }

    /// Returns true if it does any I/O.
    pub const fn does_io(self) -> bool {
        !matches!(self, Self::Null | Self::Sim)
    }
}

impl std::str::FromStr for EngineChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self::Kind(match text {
            "auto" => return Ok(Self::Auto),
            "psync" => EngineKind::Psync,
            "libaio" => EngineKind::Libaio,
            "io_uring" => EngineKind::IoUring,
            "null" => EngineKind::Null,
            other => return Err(format!("unknown engine {other:?}; choose auto, psync, libaio, io_uring or null")),
        }))
    }
}
